"""What many metrics cost beside one, and what resampled intervals cost beside scoring: in one session, by turns.

Three figures: nDCG at four cut-offs against every metric of accuracy and rating at them (wanted: less than 1.5 times as long);
against every metric that there is, with all that these need (at most 2.5 times); and the six usual metrics (24 values) without
and with 1,000 replicates of the bootstrap.

    python scripts/benchmark.py [--users 138000] [--items 27000] [--length 100] [--rounds 3] [--data FOLDER] [--without all]

Times of a machine drift, so the figure is the ratio of the medians. The data are random: `length` recommendations for each
user and about 23 true items, popular ones more often, of which some 30 % are recommended; about as many training rows; for each
item a vector of 16 numbers, one of 3 categories and one of 3 groups; and for each user one of 3 groups. They are written once
and used again.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CUTS = (5, 10, 20, 50)
RATINGS, SHARES = (1, 2, 3, 4, 5), (0.06, 0.11, 0.27, 0.35, 0.21)
USERS_A_FILE = 20_000
SETTINGS = Path(__file__).parents[1] / "conf" / "spark-defaults.conf"
TABLES = ("predictions", "truth", "train", "items", "item_groups", "user_segments")


def write_data(folder: Path, n_users: int, n_items: int, length: int) -> None:
    """Predictions (user_id, item_id, score), truth (user_id, item_id, rating, propensity) and the other tables as parquet."""
    rng = np.random.default_rng(1)
    for table in TABLES:
        (folder / table).mkdir(parents=True, exist_ok=True)

    def pairs(users: np.ndarray, lengths: np.ndarray | int) -> np.ndarray:
        owner = np.repeat(users, lengths)
        return np.unique(owner * n_items + (n_items * rng.random(owner.size) ** 3).astype(np.int64))

    def write(table: str, first: int, keys: np.ndarray, **columns: np.ndarray) -> None:
        ids = {"user_id": keys // n_items, "item_id": keys % n_items}
        pq.write_table(pa.table({**ids, **columns}), folder / table / f"{first}.parquet")

    for first in range(0, n_users, USERS_A_FILE):
        users = np.arange(first, min(n_users, first + USERS_A_FILE), dtype=np.int64)
        true = pairs(users, np.clip(rng.lognormal(2.7, 1.0, users.size).astype(int), 1, 500))
        rating = rng.choice(RATINGS, p=SHARES, size=true.size).astype(np.float32)
        write("truth", first, true, rating=rating, propensity=rng.choice([0.1, 0.2, 0.5], size=true.size))
        write("train", first, pairs(users, np.clip(rng.lognormal(2.7, 1.0, users.size).astype(int), 1, 500)))
        listed = rng.permutation(np.union1d(pairs(users, length), true[rng.random(true.size) < 0.3]))
        write("predictions", first, listed, score=rng.random(listed.size))
    items = {"item_id": np.arange(n_items), "features": list(rng.normal(size=(n_items, 16)).astype(np.float32))}
    kinds = [[name] for name in rng.choice(["a", "b", "c"], size=n_items)]
    pq.write_table(pa.table({**items, "categories": kinds}), folder / "items" / "0.parquet")
    for table, key, n in (("item_groups", "item_id", n_items), ("user_segments", "user_id", n_users)):
        groups = {key: np.arange(n), key.replace("_id", "_group"): rng.choice(["a", "b", "c"], size=n)}
        pq.write_table(pa.table(groups), folder / table / "0.parquet")


def main() -> None:
    """Write the data if they are not there, run, and print seconds and ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=138_000)
    parser.add_argument("--items", type=int, default=27_000)
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without", nargs="*", default=[], choices=["accuracy", "all", "usual", "resampled"])
    parser.add_argument("--data", type=Path, help="default: a folder of the system's temporary one")
    chosen = parser.parse_args()
    size = (chosen.users, chosen.items, chosen.length)
    folder = (chosen.data or Path(tempfile.gettempdir())) / "-".join(["recmetrics-grouped", *map(str, size)])
    if not folder.exists():
        part = folder.with_name(folder.name + ".part")
        write_data(part, *size)
        part.rename(folder)

    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import spark_recmetrics as srm

    builder = SparkSession.builder
    # The settings of a nightly run, but for the size of this machine.
    for name, value in (line.split(None, 1) for line in SETTINGS.read_text().splitlines() if line and line[0] != "#"):
        builder = builder.config(name, value)
    own = {"spark.master": "local[2]", "spark.driver.memory": "8g", "spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    for name, value in own.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    frames = {table: spark.read.parquet(str(folder / table)) for table in TABLES}
    known = {table: frames[table] for table in ("train", "item_groups", "user_segments")}
    known |= {"item_features": frames["items"], "catalog": chosen.items, "baseline": "model"}
    definitions = srm.metrics.DEFINITIONS
    accuracy = [name for name in srm.metrics.names() if definitions[name].accuracy or definitions[name].kind == "rating"]
    usual = ["precision", "recall", "ndcg", "map", "mrr", "hit"]
    asked: dict[str, dict[str, Any]] = {
        "ndcg": {"metrics": ["ndcg"]},
        "accuracy": {"metrics": accuracy, "catalog": chosen.items},
        "all": {"metrics": srm.metrics.names(), **known},
        "usual": {"metrics": usual},
        "resampled": {"metrics": usual, "intervals": "bootstrap"},
    }
    asked = {name: options for name, options in asked.items() if name not in chosen.without}
    seconds: dict[str, list[float]] = {name: [] for name in asked}
    for turn in range(chosen.rounds + 1):
        for name, options in asked.items():
            start = time.perf_counter()
            result = srm.evaluate(frames["predictions"], frames["truth"], k=CUTS, threshold=4.0, **options)
            result.release()
            took = time.perf_counter() - start
            print(f"{turn or 'warm-up':>7}  {name:<9} {len(result.rows):>4} values {took:7.1f} s", flush=True)
            if turn:
                seconds[name].append(took)
    medians = {name: statistics.median(taken) for name, taken in seconds.items()}
    one = medians["ndcg"]
    for name, told, wanted in (("accuracy", "medians", "below 1.5"), ("all", "everything", "at most 2.5")):
        if name not in medians:
            continue
        taken = f"ndcg {one:.1f} s, {name} {medians[name]:.1f} s"
        print(f"{told}: {taken}, ratio {medians[name] / one:.2f} (wanted: {wanted})")
    if medians.keys() >= {"usual", "resampled"}:
        more = medians["resampled"] - medians["usual"]
        print(
            f"intervals: scoring {medians['usual']:.1f} s, 1,000 replicates {more:.1f} s, ratio {more / medians['usual']:.2f}"
        )


if __name__ == "__main__":
    main()
