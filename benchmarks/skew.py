"""What uneven inputs cost beside an even one of as many rows, and five models beside one: in one session, by turns.

    python benchmarks/skew.py [--users 138000] [--rounds 3] [--rankings window lists] [--page docs/sizing.md]

`even`: `--users` users with 100 candidates and 23 true items each. `one user`: user 0 has two million of these rows. `one
bucket`: the users' ids are such that one bucket has ten times the users of any other. `one item`: an item is in every list and
in everybody's truth. `five models`: five lists of each user in one table. `--page docs/sizing.md` puts the table there.

Times of a machine drift, so the figure is the ratio of the medians. The data are the same for the same number of users, are
written once and used again.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from contenders import USUAL, session
from data import CUTS, THRESHOLD
from rivals import into_page, machine

LENGTH = 100
TRUE, FOUND = 23, 7
"""True items of a user, and how many of them are in the list."""
LONGEST = 2_000_000
N_ITEMS = 2**21
N_BUCKETS = 32
ITEMS = ("item_coverage", "gini")
"""Metrics that count items, for the input that has one item everywhere."""


def users_of(spark: Any, kind: str, n_users: int) -> Any:
    """The users of an input, `user_id, length`: in all as many rows as `n_users` lists of `LENGTH`."""
    from pyspark.sql import functions as F

    from spark_recmetrics.inputs.buckets_spark import bucket_numbers, bucket_of

    users = spark.range(n_users).select(F.col("id").alias("user_id"))
    if kind == "one user":
        longest = min(LONGEST, n_users * LENGTH // 2)
        users = users.where(F.col("user_id") < n_users + 1 - longest // LENGTH)
        return users.withColumn("length", F.when(F.col("user_id") == 0, longest).otherwise(LENGTH))
    if kind == "one bucket":
        # All users of one bucket, and a tenth of those of any other, from as many as it takes.
        own = bucket_of(F.col("id"), N_BUCKETS) == bucket_numbers(N_BUCKETS)[0]
        from_ = spark.range(n_users * N_BUCKETS * 10 // (10 + N_BUCKETS - 1) * 11 // 10)
        users = from_.where(own | (F.pmod(F.xxhash64("id"), F.lit(10)) == 0)).orderBy("id").limit(n_users)
        users = users.select(F.col("id").alias("user_id"))
    return users.withColumn("length", F.lit(LENGTH))


def tables(spark: Any, kind: str, n_users: int, parent: Path) -> tuple[Any, Any]:
    """Predictions and truth of an input, written if they are not there."""
    from pyspark.sql import functions as F

    folder = parent / f"recmetrics-skew-{n_users}-{kind.replace(' ', '-')}"
    place, start = F.col("place"), F.pmod(F.xxhash64("user_id"), F.lit(N_ITEMS))
    # An odd step meets every item of a power of two before one comes again.
    item = F.pmod(start + place.cast("long") * 1_234_577, F.lit(N_ITEMS))
    if kind == "one item":
        item = F.when(place == 0, N_ITEMS).otherwise(item)
    if not folder.exists():
        part = folder.with_name(folder.name + ".part")
        users = users_of(spark, kind, n_users).repartition(16, "user_id")
        listed = users.select("user_id", F.explode(F.sequence(F.lit(0), F.col("length") - 1)).alias("place"))
        truth = users.select("user_id", "length", F.explode(F.sequence(F.lit(0), F.lit(TRUE - 1))).alias("place"))
        truth = truth.withColumn("place", F.when(place < FOUND, place).otherwise(F.col("length") + place))
        models = [*range(5 if kind == "five models" else 1)]
        named = listed.withColumn("model", F.explode(F.array(*map(F.lit, models))))
        score = F.xxhash64("user_id", "place", "model").cast("double")
        named.select(F.concat(F.lit("model"), "model").alias("model"), "user_id", item.alias("item_id"), score.alias("score")) \
            .write.mode("overwrite").parquet(str(part / "predictions"))  # fmt: skip
        rating = F.when(place % 9 < 5, 5.0).otherwise(2.0).cast("float").alias("rating")
        truth.select("user_id", item.alias("item_id"), rating).write.mode("overwrite").parquet(str(part / "truth"))
        part.rename(folder)
    predictions, truth = (spark.read.parquet(str(folder / name)) for name in ("predictions", "truth"))
    return predictions, truth


def main() -> None:
    """Write the inputs, run all by turns, print the ratios, and put them into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=138_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rankings", nargs="+", choices=["window", "lists"], default=["window", "lists"])
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--page", type=Path, help="the page that gets the table")
    chosen = parser.parse_args()
    spark = session()

    import spark_recmetrics as srm

    pairs = {
        "one user": ("one user", "even", USUAL, "below 2"),
        "one bucket": ("one bucket", "even", USUAL, "below 2"),
        "one item": ("one item", "even", USUAL, "below 2"),
        "one item, items counted": ("one item", "even", (*USUAL, *ITEMS), "below 2"),
        "five models": ("five models", "even", USUAL, "below 4.5"),
    }
    inputs = {kind: tables(spark, kind, chosen.users, chosen.data) for pair in pairs.values() for kind in pair[:2]}
    asked = {(kind, metrics, ranking): [] for one, other, metrics, _ in pairs.values() for kind in (one, other)
             for ranking in chosen.rankings}  # fmt: skip
    seconds: dict[tuple[str, tuple[str, ...], str], list[float]] = asked
    for turn in range(chosen.rounds + 1):
        for (kind, metrics, ranking), taken in seconds.items():
            options = {"metrics": metrics, "k": CUTS, "threshold": THRESHOLD, "ranking": ranking, "n_buckets": N_BUCKETS}
            start = time.perf_counter()
            srm.evaluate(*inputs[kind], catalog=N_ITEMS + 1, **options).release()
            took = time.perf_counter() - start
            print(f"{turn or 'warm-up':>7}  {kind:<12} {ranking:<7} {len(metrics)} metrics {took:7.1f} s", flush=True)
            if turn:
                taken.append(took)
    lines = ["| input | beside | ranking | seconds | ratio | wanted |", "|---|---|---|---|---|---|"]
    for name, (one, other, metrics, wanted) in pairs.items():
        for ranking in chosen.rankings:
            a, b = (statistics.median(seconds[kind, metrics, ranking]) for kind in (one, other))
            lines.append(f"| {name} | {other} | `{ranking}` | {a:.1f}, {b:.1f} | {a / b:.2f} | {wanted} |")
    rows = f"{chosen.users * LENGTH / 1e6:.1f} million predictions of a model, {N_BUCKETS} buckets"
    told = "\n".join([f"{rows}. {machine()}.\n", *lines])
    print(told)
    if chosen.page:
        into_page(chosen.page, told, "skew")


if __name__ == "__main__":
    main()
