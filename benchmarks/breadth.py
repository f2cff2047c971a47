"""What many metrics cost beside one, and what resampled intervals cost beside scoring: in one session, by turns.

Three figures: nDCG at four cut-offs against every metric of accuracy and rating at them (wanted: less than 1.5 times as long);
against every metric that there is, with all that these need (at most 2.5 times); and the six usual metrics (24 values) without
and with 1,000 replicates of the bootstrap.

    python benchmarks/breadth.py [--users 138000] [--items 27000] [--length 100] [--rounds 3] [--data FOLDER] [--without all]

Times of a machine drift, so the figure is the ratio of the medians. The data are random: `length` recommendations for each
user and about 23 true items, popular ones more often, of which some 30 % are recommended; about as many training rows; for each
item a vector of 16 numbers, one of 3 categories and one of 3 groups; and for each user one of 3 groups. They are written once
and used again.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

from contenders import session
from data import CUTS, TABLES, THRESHOLD, folder_of


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
    folder = folder_of(size, chosen.data)
    spark = session()

    import spark_recmetrics as srm

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
            result = srm.evaluate(frames["predictions"], frames["truth"], k=CUTS, threshold=THRESHOLD, **options)
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
