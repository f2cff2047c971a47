"""Prepare the demo's tables: real ratings, a split, and the lists and rating predictions of three models.

    spark-submit --properties-file conf/spark-defaults.conf jobs/prepare_demo.py --data sample --output .demo/sample

Everything that `jobs/evaluate.py` reads is written here as parquet, in the shape that a nightly training run leaves behind:

* `train`, `truth`: user_id, item_id, rating
* `als/predictions` (and `popularity`, `random`): the best items per user that the user has no rating for in `train`
* `als/rating_predictions` (and so on): the predicted rating of each pair of `truth`
* `users`, `items`: what is known about them (only `--data ml-100k`)
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
    """One data set, split.

    Args:
        train: user_id, item_id, rating.
        truth: user_id, item_id, rating.
        implicit: Whether that somebody rated an item tells more about the next item than the stars given; see `train_als`.
        features: Name -> further table to write.
    """

    train: DataFrame
    truth: DataFrame
    implicit: bool
    features: dict[str, DataFrame]


def read_sample(spark: SparkSession, seed: int) -> Ratings:
    """The 1,501 MovieLens ratings inside the pyspark package, split by a seeded hash of user and item.

    Their timestamps are all the same, so that a split by time is impossible. A hash gives the same split on every machine
    and for any order and partitioning of the rows, which `randomSplit` does not.

    Args:
        spark: The session.
        seed: Another seed is another split.

    Returns:
        About three quarters of the ratings as `train`, the rest as `truth`.
    """
    # Under spark-submit pyspark is imported from a zip archive inside the installed package: the file lies some folders above.
    homes = (folder / SAMPLE_FILE for folder in Path(pyspark.__file__).resolve().parents)
    path = next((path for path in homes if path.is_file()), None)
    if path is None:
        raise SystemExit(f"prepare_demo: no {SAMPLE_FILE} above {pyspark.__file__}; use the pyspark wheel")
    ratings = spark.read.csv(path.as_uri(), sep="::", schema="user_id bigint, item_id bigint, rating double, timestamp bigint")
    is_test = sf.pmod(sf.xxhash64("user_id", "item_id", sf.lit(seed)), sf.lit(100)) < TEST_PERCENT
    return Ratings(_pairs(ratings.where(~is_test)), _pairs(ratings.where(is_test)), implicit=False, features={})


def read_ml_100k(spark: SparkSession, wheel: Path, raw: Path) -> Ratings:
    """MovieLens 100K out of the recbole wheel, split by time.

    The wheel is opened as the zip file it is and never imported.

    Args:
        spark: The session.
        wheel: The downloaded `recbole-*.whl`.
        raw: Folder that gets the three text files, so that Spark can read them.

    Returns:
        The ratings up to the moment before which 80 % were given as `train`, the later ones as `truth`; with the features of
        users and items.
    """
    raw.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        for suffix in ("inter", "user", "item"):
            (raw / f"ml-100k.{suffix}").write_bytes(archive.read(f"{ML_100K_FOLDER}/ml-100k.{suffix}"))

    def table(suffix: str, schema: str) -> DataFrame:
        # The header is typed (`user_id:token`): it is skipped, and the schema given here counts.
        path = (raw / f"ml-100k.{suffix}").resolve().as_uri()
        return spark.read.csv(path, sep="\t", header=True, quote="", schema=schema)

    ratings = table("inter", "user_id bigint, item_id bigint, rating double, timestamp bigint")
    # A cut in time, not a share per user: whoever trains at night knows nothing of the next morning, of any user. Ratings of
    # the same second fall on the same side.
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
    """One file in a fixed order: ALS adds floats in the order in which it meets them, and a repeated demo must agree."""
    return ratings.select("user_id", "item_id", "rating").coalesce(1).sortWithinPartitions("user_id", "item_id")


def train_als(train: DataFrame, *, implicit: bool, seed: int) -> ALSModel:
    """Factorise the ratings with alternating least squares.

    Two kinds are used, as people do who need both a rating and a list:

    * explicit: approximates the stars. The one for rating predictions, and for the lists of the small sample, where users have
      rated half of all items, mostly with one star, so that the stars decide (precision@10 at 3 stars: 0.12 against 0.04).
    * implicit: approximates that there is a rating, with more weight on more stars. The one for the lists of MovieLens 100K,
      where the explicit kind puts items on top that hardly anybody has rated (precision@10 at 4 stars, users seen in training:
      0.12 against 0.04; popularity has 0.11).

    Args:
        train: user_id, item_id, rating.
        implicit: The kind.
        seed: Of the factors to start from.

    Returns:
        The model. Its prediction is NaN for a user or item that `train` does not have.
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
    """The `LIST_LENGTH` best items of each user; equal scores in the order of the item id, so that a repeated run agrees.

    Args:
        scores: user_id, item_id, score, without the pairs of `train`.

    Returns:
        The same columns, fewer rows.
    """
    best_first = Window.partitionBy("user_id").orderBy(sf.desc("score"), "item_id")
    ranked = scores.withColumn("rank", sf.row_number().over(best_first)).where(sf.col("rank") <= LIST_LENGTH)
    return ranked.select("user_id", "item_id", "score")


def predict(train: DataFrame, truth: DataFrame, *, implicit: bool, seed: int) -> dict[str, DataFrame]:
    """Train ALS and count popularity, and let them and chance recommend to everybody and predict the ratings of `truth`.

    New users are part of a split by time, and ALS knows nothing of them. It falls back on the other model there, as it would in
    service: a user without an ALS list gets the popular items, a pair without an ALS rating the mean of the item.

    Args:
        train: user_id, item_id, rating.
        truth: The same columns. Only the ids are looked at.
        implicit: The kind of ALS for the lists.
        seed: Of ALS, and of the random model.

    Returns:
        Path below the output -> user_id, item_id, score.
    """
    of_item = train.groupBy("item_id").agg(sf.count("*").cast("double").alias("n_ratings"), sf.avg("rating").alias("item_mean"))
    overall = train.agg(sf.avg("rating").alias("overall_mean"))

    # All pairs that are not in train. Fine for a demo; for a large catalogue there is ALSModel.recommendForAllUsers, asked for
    # as many more items as the user with the longest history has.
    users = train.select("user_id").union(truth.select("user_id")).distinct()
    unseen = users.crossJoin(of_item).join(train, ["user_id", "item_id"], "left_anti")
    popular = best_unseen(unseen.withColumnRenamed("n_ratings", "score"))

    # A hash is as good as chance, and the same in every run.
    chance = sf.pmod(sf.xxhash64("user_id", "item_id", sf.lit(seed)), sf.lit(1 << 20)) / float(1 << 20)
    drawn = best_unseen(unseen.select("user_id", "item_id", chance.alias("score")))
    guessed = truth.select("user_id", "item_id", (1 + 4 * chance).alias("score"))

    means = truth.join(of_item, "item_id", "left").join(sf.broadcast(overall))
    mean_ratings = means.select("user_id", "item_id", sf.coalesce("item_mean", "overall_mean").alias("score"))

    ratings_als = train_als(train, implicit=False, seed=seed)
    lists_als = train_als(train, implicit=True, seed=seed) if implicit else ratings_als
    scored = lists_als.transform(unseen).withColumn("score", sf.col("prediction").cast("double"))
    known = best_unseen(scored.where(~sf.isnan("score")))
    fallback = popular.join(train.select("user_id").distinct(), "user_id", "left_anti")
    rated = ratings_als.transform(mean_ratings)
    rated = rated.withColumn("score", sf.nanvl(sf.col("prediction").cast("double"), sf.col("score")))

    # ALS computes with int ids and hands them back as such; the tables have the ids as the ratings have them.
    ids = [sf.col(name).cast("bigint").alias(name) for name in ("user_id", "item_id")]
    return {
        "als/predictions": known.select(*ids, "score").unionByName(fallback),
        "als/rating_predictions": rated.select(*ids, "score"),
        "popularity/predictions": popular,
        "popularity/rating_predictions": mean_ratings,
        "random/predictions": drawn,
        "random/rating_predictions": guessed,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Read, split, train, write.

    Args:
        argv: Arguments, by default those of the process.
    """
    parser = argparse.ArgumentParser(description="Prepare the demo's tables: real ratings, a split, three models' predictions.")
    parser.add_argument("--data", choices=("sample", "ml-100k"), default="sample")
    parser.add_argument("--output", required=True, type=Path, metavar="FOLDER", help="local folder for the parquet tables")
    parser.add_argument("--ml-100k-wheel", type=Path, metavar="PATH", help="the recbole wheel, for --data ml-100k")
    parser.add_argument("--seed", type=int, default=17, help="of the split by hash and of ALS (default: 17)")
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
    """Write all tables of one data set below `output`, replacing what is there.

    Args:
        spark: The session.
        data: `sample`, or `ml-100k`, which needs the wheel.
        output: Local folder.
        wheel: The downloaded recbole wheel.
        seed: Of the split by hash and of ALS.
    """
    folder = output.resolve()
    ratings = read_sample(spark, seed) if wheel is None or data == "sample" else read_ml_100k(spark, wheel, folder / "raw")

    def write(name: str, table: DataFrame) -> DataFrame:
        path = (folder / name).as_uri()
        table.write.mode("overwrite").parquet(path)
        return spark.read.parquet(path)

    # Read back what was written: the models are trained on the files, not on a plan that would be run again for each output.
    train = write("train", ratings.train)
    truth = write("truth", ratings.truth)
    for name, table in (ratings.features | predict(train, truth, implicit=ratings.implicit, seed=seed)).items():
        write(name, table)
    print(f"prepare_demo: {data} is ready in {output}")


if __name__ == "__main__":
    main()
