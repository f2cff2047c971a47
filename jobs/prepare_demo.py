"""Prepare the tables of the demo: real ratings, a split, and the recommendations and predicted ratings of three models.

    spark-submit --properties-file conf/spark-defaults.conf jobs/prepare_demo.py --data sample --output .demo/sample

It writes the inputs of `jobs/evaluate.py` as parquet, like a nightly training job would:

* `train`, `truth`: user_id, item_id, rating
* `als/predictions` (and `popularity`, `random`): the best items per user without the items that the user rated in `train`
* `als/rating_predictions` (and so on): the predicted rating of each pair in `truth`
* `users`, `items`: attributes (only with `--data ml-100k`)
"""

from __future__ import annotations

import argparse
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyspark
from pyspark.ml.recommendation import ALS, ALSModel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

LIST_LENGTH = 50
TEST_PERCENT = 25
TRAIN_SHARE = 0.8
SAMPLE_FILE = "data/mllib/als/sample_movielens_ratings.txt"
ML_100K_FOLDER = "recbole/dataset_example/ml-100k"


class Ratings(NamedTuple):
    """A data set, split. `features` are further tables by name; `implicit` is the kind of ALS for lists, see `train_als`."""

    train: DataFrame
    truth: DataFrame
    implicit: bool
    features: dict[str, DataFrame]


def read_sample(spark: SparkSession, seed: int) -> Ratings:
    """The 1,501 MovieLens ratings in the pyspark package, split by a seeded hash of user and item.

    All their timestamps are equal, so a temporal split is impossible. Unlike `randomSplit`, a hash gives the same split on
    every machine, for any order and partitioning of the rows. About three quarters of the ratings are in `train`.
    """
    # spark-submit imports pyspark from a zip archive in the installed package, so the file is in a folder above it.
    homes = (folder / SAMPLE_FILE for folder in Path(pyspark.__file__).resolve().parents)
    path = next((path for path in homes if path.is_file()), None)
    if path is None:
        raise SystemExit(f"prepare_demo: no {SAMPLE_FILE} above {pyspark.__file__}; use the pyspark wheel")
    ratings = spark.read.csv(path.as_uri(), sep="::", schema="user_id bigint, item_id bigint, rating double, timestamp bigint")
    is_test = sf.pmod(sf.xxhash64("user_id", "item_id", sf.lit(seed)), sf.lit(100)) < TEST_PERCENT
    return Ratings(_pairs(ratings.where(~is_test)), _pairs(ratings.where(is_test)), implicit=False, features={})


def read_ml_100k(spark: SparkSession, wheel: Path, raw: Path) -> Ratings:
    """MovieLens 100K from the recbole wheel, with user and item attributes: the first 80 % of the time in `train`.

    The wheel is read as a zip file and not imported. Its three text files are copied to the folder `raw` for Spark.
    """
    raw.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        for suffix in ("inter", "user", "item"):
            (raw / f"ml-100k.{suffix}").write_bytes(archive.read(f"{ML_100K_FOLDER}/ml-100k.{suffix}"))

    def table(suffix: str, schema: str) -> DataFrame:
        # The header has types (`user_id:token`), so it is skipped and the schema is given here.
        path = (raw / f"ml-100k.{suffix}").resolve().as_uri()
        return spark.read.csv(path, sep="\t", header=True, quote="", schema=schema)

    ratings = table("inter", "user_id bigint, item_id bigint, rating double, timestamp bigint")
    # One cut for all users: a nightly training job has no later ratings of any user. Ratings of the same second stay together.
    cut = ratings.agg(sf.percentile("timestamp", sf.lit(TRAIN_SHARE)).alias("cut"))
    dated = ratings.join(sf.broadcast(cut))
    users = table("user", "user_id bigint, age int, gender string, occupation string, zip_code string")
    items = table("item", "item_id bigint, title string, release_year int, genres string")
    return Ratings(
        _pairs(dated.where(sf.col("timestamp") <= sf.col("cut"))),
        _pairs(dated.where(sf.col("timestamp") > sf.col("cut"))),
        implicit=True,
        features={"users": users, "items": items.withColumn("genres", sf.split("genres", " "))},
    )


def _pairs(ratings: DataFrame) -> DataFrame:
    """The ratings as one file in a fixed order, because the floating-point sums of ALS depend on the order."""
    return ratings.select("user_id", "item_id", "rating").coalesce(1).sortWithinPartitions("user_id", "item_id")


def train_als(train: DataFrame, *, implicit: bool, seed: int) -> ALSModel:
    """Train alternating least squares. The model predicts NaN for users and items that are not in `train`.

    * explicit: predicts the rating. Used for predicted ratings, and for the lists of the small sample, where users rated half
      of all items, mostly with one star (precision@10 at 3 stars: 0.12, implicit 0.04).
    * implicit: predicts whether there is a rating, with more weight for higher ratings. Used for the lists of MovieLens 100K,
      where explicit ALS ranks items first that few users rated (precision@10 at 4 stars, users of `train`: 0.12, explicit 0.04,
      popularity 0.11).
    """
    als = ALS(
        userCol="user_id",
        itemCol="item_id",
        ratingCol="rating",
        rank=16,
        regParam=0.05 if implicit else 0.1,
        implicitPrefs=implicit,
        alpha=1.0,
        maxIter=10,
        numUserBlocks=2,
        numItemBlocks=2,
        seed=seed,
        coldStartStrategy="nan",
    )
    return als.fit(train)


def best_unseen(scores: DataFrame) -> DataFrame:
    """The `LIST_LENGTH` best items per user; tied scores are ordered by item id, so a repeated run gives the same lists."""
    best_first = Window.partitionBy("user_id").orderBy(sf.desc("score"), "item_id")
    ranked = scores.withColumn("rank", sf.row_number().over(best_first)).where(sf.col("rank") <= LIST_LENGTH)
    return ranked.select("user_id", "item_id", "score")


def predict(train: DataFrame, truth: DataFrame, *, implicit: bool, seed: int) -> dict[str, DataFrame]:
    """The recommendations and predicted ratings of ALS, popularity and a random model, by path below the output.

    A temporal split has new users, for whom ALS has no predictions. They get the popular items, and mean ratings.
    Only the ids of `truth` are used.
    """
    of_item = train.groupBy("item_id").agg(sf.count("*").cast("double").alias("n_ratings"), sf.avg("rating").alias("item_mean"))
    overall = train.agg(sf.avg("rating").alias("overall_mean"))

    # All pairs that are not in train. For a large catalog use ALSModel.recommendForAllUsers, with as many additional items as
    # the longest history of a user has.
    users = train.select("user_id").union(truth.select("user_id")).distinct()
    unseen = users.crossJoin(of_item).join(train, ["user_id", "item_id"], "left_anti")
    popular = best_unseen(unseen.withColumnRenamed("n_ratings", "score"))

    # A hash instead of random numbers gives the same lists in every run.
    random_score = sf.pmod(sf.xxhash64("user_id", "item_id", sf.lit(seed)), sf.lit(1 << 20)) / float(1 << 20)
    random_lists = best_unseen(unseen.select("user_id", "item_id", random_score.alias("score")))
    random_ratings = truth.select("user_id", "item_id", (1 + 4 * random_score).alias("score"))

    means = truth.join(of_item, "item_id", "left").join(sf.broadcast(overall))
    mean_ratings = means.select("user_id", "item_id", sf.coalesce("item_mean", "overall_mean").alias("score"))

    ratings_als = train_als(train, implicit=False, seed=seed)
    lists_als = train_als(train, implicit=True, seed=seed) if implicit else ratings_als
    scored = lists_als.transform(unseen).withColumn("score", sf.col("prediction").cast("double"))
    als_lists = best_unseen(scored.where(~sf.isnan("score")))
    fallback = popular.join(train.select("user_id").distinct(), "user_id", "left_anti")
    rated = ratings_als.transform(mean_ratings)
    rated = rated.withColumn("score", sf.nanvl(sf.col("prediction").cast("double"), sf.col("score")))

    # ALS returns ids as int; the tables have the type of the ratings.
    ids = [sf.col(name).cast("bigint").alias(name) for name in ("user_id", "item_id")]
    return {
        "als/predictions": als_lists.select(*ids, "score").unionByName(fallback),
        "als/rating_predictions": rated.select(*ids, "score"),
        "popularity/predictions": popular,
        "popularity/rating_predictions": mean_ratings,
        "random/predictions": random_lists,
        "random/rating_predictions": random_ratings,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Read, split, train and write."""
    parser = argparse.ArgumentParser(
        description="Prepare the tables of the demo: real ratings, a split, and the predictions of three models."
    )
    parser.add_argument("--data", choices=("sample", "ml-100k"), default="sample")
    parser.add_argument("--output", required=True, type=Path, metavar="FOLDER", help="local folder for the parquet tables")
    parser.add_argument("--ml-100k-wheel", type=Path, metavar="PATH", help="the recbole wheel, for --data ml-100k")
    parser.add_argument("--seed", type=int, default=17, help="seed of the hash split and of ALS (default: 17)")
    options = parser.parse_args(argv)
    wheel = options.ml_100k_wheel
    if options.data == "ml-100k" and (wheel is None or not wheel.is_file()):
        parser.error(f"--ml-100k-wheel must be the file that `pip download --no-deps recbole==1.2.1` fetches; found {wheel}")

    spark = SparkSession.builder.appName(f"prepare_demo {options.data}").getOrCreate()
    try:
        prepare(spark, options.data, options.output, wheel, options.seed)
    finally:
        spark.stop()


def prepare(spark: SparkSession, data: str, output: Path, wheel: Path | None, seed: int) -> None:
    """Write all tables of a data set below `output`, replacing existing ones."""
    folder = output.resolve()
    ratings = read_sample(spark, seed) if wheel is None or data == "sample" else read_ml_100k(spark, wheel, folder / "raw")

    def write(name: str, table: DataFrame) -> DataFrame:
        path = (folder / name).as_uri()
        table.write.mode("overwrite").parquet(path)
        return spark.read.parquet(path)

    # Train on the written files; otherwise Spark would run the plan of the ratings again for each output.
    train = write("train", ratings.train)
    truth = write("truth", ratings.truth)
    for name, table in (ratings.features | predict(train, truth, implicit=ratings.implicit, seed=seed)).items():
        write(name, table)
    print(f"prepare_demo: {data} is ready in {output}")


if __name__ == "__main__":
    main()
