"""Who is timed: each computes the same values of the same tables, in a process of its own, in the environment of its package.

    python benchmarks/contenders.py NAME FOLDER ROUNDS

prints a line of JSON for each round: seconds, and the values. The work: a truth row of rating 4 or more is relevant; precision,
recall, nDCG, MAP, MRR and hit at 5, 10, 20 and 50, as means over the users with a relevant item. What a contender lacks is left
out.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from data import CUTS, THRESHOLD

SETTINGS = Path(__file__).parents[1] / "conf" / "spark-defaults.conf"
USUAL = ("precision", "recall", "ndcg", "map", "mrr", "hit")
Values = dict[str, float | None]


def session(more: Mapping[str, str] | None = None) -> Any:
    """A session with the settings of a nightly run, on all cores, with as much memory as BENCH_MEMORY says.

    Args:
        more: Settings that are stronger than these.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in (line.split(None, 1) for line in SETTINGS.read_text().splitlines() if line and line[0] != "#"):
        builder = builder.config(name, value)
    own = {"spark.master": "local[*]", "spark.driver.memory": os.environ.get("BENCH_MEMORY", "8g")}
    own |= {"spark.ui.enabled": "false", "spark.log.level": "ERROR", **(more or {})}
    for name, value in own.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def tables(folder: Path) -> tuple[Any, Any, Any]:
    """The session, predictions and truth."""
    spark = session()
    return spark, *(spark.read.parquet(str(folder / name)) for name in ("predictions", "truth"))


def ours(folder: Path, **options: Any) -> Callable[[], Values]:
    """This project, with the facts of the data and the values per user."""
    import spark_recmetrics as srm

    _, predictions, truth = tables(folder)

    def run() -> Values:
        result = srm.evaluate(predictions, truth, metrics=USUAL, k=CUTS, threshold=THRESHOLD, **options)
        result.release()
        return dict(result.to_dict()["model"])

    return run


def window(folder: Path) -> Callable[[], Values]:
    """Lists are ranked by a window of Spark."""
    return ours(folder, ranking="window")


def lists(folder: Path) -> Callable[[], Values]:
    """Lists of declared length are ranked where they are scored."""
    return ours(folder, max_per_user=1000)


def sql(folder: Path) -> Callable[[], Values]:
    """The same work as one query of Spark SQL: no user-defined function, no facts, no values per user."""
    spark, predictions, truth = tables(folder)
    predictions.createOrReplaceTempView("predictions")
    truth.createOrReplaceTempView("truth")
    largest = max(CUTS)
    per_user, means = [], []
    for k in CUTS:
        ideal = f"element_at(ideal, cast(least({k}, n_relevant) as int))"
        per_user += [
            f"count_if(rank <= {k}) / {k} as precision_{k}",
            f"count_if(rank <= {k}) / n_relevant as recall_{k}",
            f"coalesce(sum(if(rank <= {k}, 1 / log2(rank + 1), 0)), 0) / {ideal} as ndcg_{k}",
            f"coalesce(sum(if(rank <= {k}, number / rank, 0)), 0) / least({k}, n_relevant) as map_{k}",
            f"coalesce(max(if(rank <= {k}, 1 / rank, 0)), 0) as mrr_{k}",
            f"max(coalesce(rank <= {k}, false)) as hit_{k}",
        ]
        means += [f"avg(cast({metric}_{k} as double)) as `{metric}@{k}`" for metric in USUAL]
    gains = ", ".join(f"1 / log2({rank + 1})" for rank in range(1, largest + 1))
    query = f"""
        with relevant as (select user_id, item_id from truth where rating >= {THRESHOLD}),
        ranked as (
            select user_id, item_id, row_number() over (partition by user_id order by score desc, item_id) as rank
            from predictions
        ),
        hits as (
            select user_id, rank, row_number() over (partition by user_id order by rank) as number
            from (select * from ranked where rank <= {largest}) join relevant using (user_id, item_id)
        ),
        ideals as (
            select transform(sequence(1, {largest}), k -> aggregate(slice(array({gains}), 1, k), 0D, (a, b) -> a + b)) as ideal
        ),
        counted as (select user_id, count(*) as n_relevant from relevant group by user_id),
        per_user as (
            select user_id, {", ".join(per_user)}
            from (select * from counted cross join ideals) left join hits using (user_id)
            group by user_id, n_relevant, ideal
        )
        select {", ".join(means)} from per_user
    """

    def run() -> Values:
        return dict(spark.sql(query).collect()[0].asDict())

    return run


def spark_ml(folder: Path) -> Callable[[], Values]:
    """`RankingEvaluator` of Spark ML, without MRR and hit rate: a call for each metric and cut-off, on lists that are kept."""
    from pyspark.ml.evaluation import RankingEvaluator
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    _, predictions, truth = tables(folder)
    names = {"precision": "precisionAtK", "recall": "recallAtK", "ndcg": "ndcgAtK", "map": "meanAveragePrecisionAtK"}

    def run() -> Values:
        place = F.row_number().over(Window.partitionBy("user_id").orderBy(F.desc("score"), "item_id"))
        best = predictions.withColumn("place", place).where(F.col("place") <= max(CUTS))
        item = F.col("item_id").cast("double").alias("item")
        in_order = F.array_sort(F.collect_list(F.struct("place", item)))["item"]
        found = best.groupBy("user_id").agg(in_order.alias("prediction"))
        wanted = truth.where(F.col("rating") >= THRESHOLD).groupBy("user_id").agg(F.collect_list(item).alias("label"))
        kept = wanted.join(found, "user_id").persist()
        values = {
            f"{name}@{k}": RankingEvaluator(metricName=own, k=k).evaluate(kept) for k in CUTS for name, own in names.items()
        }
        kept.unpersist(blocking=True)
        return values

    return run


def recommenders(folder: Path) -> Callable[[], Values]:
    """`SparkRankingEvaluation` of recommenders, for each cut-off."""
    from pyspark.sql import functions as F
    from recommenders.evaluation.spark_evaluation import SparkRankingEvaluation

    _, predictions, truth = tables(folder)
    names = {"user": "user_id", "item": "item_id"}

    def run() -> Values:
        relevant = truth.where(F.col("rating") >= THRESHOLD).select("user_id", "item_id", F.col("rating").cast("double"))
        found: Values = {}
        for k in CUTS:
            own = SparkRankingEvaluation(
                relevant,
                predictions,
                k=k,
                col_user=names["user"],
                col_item=names["item"],
                col_rating="rating",
                col_prediction="score",
            )
            by_name = {"precision": own.precision_at_k, "recall": own.recall_at_k, "ndcg": own.ndcg_at_k, "map": own.map_at_k}
            found |= {f"{name}@{k}": float(value()) for name, value in by_name.items()}
        return found

    return run


def replay(folder: Path) -> Callable[[], Values]:
    """`OfflineMetrics` of RePlay on Spark."""
    from pyspark.sql import functions as F
    from replay.metrics import MAP, MRR, NDCG, HitRate, OfflineMetrics, Precision, Recall

    _, predictions, truth = tables(folder)
    kinds = {"precision": Precision, "recall": Recall, "ndcg": NDCG, "map": MAP, "mrr": MRR, "hit": HitRate}
    names = {"query_column": "user_id", "item_column": "item_id"}

    def run() -> Values:
        relevant = truth.where(F.col("rating") >= THRESHOLD).select("user_id", "item_id")
        asked = [kind(list(CUTS), **names, rating_column="score") for kind in kinds.values()]
        own = OfflineMetrics(asked, **names, rating_column="score")(predictions, relevant)
        return {f"{name}@{k}": float(own[f"{kind.__name__}@{k}"]) for name, kind in kinds.items() for k in CUTS}

    return run


def polars(folder: Path) -> Callable[[], Values]:
    """Polars on one machine, everything in memory."""
    import polars as pl

    def run() -> Values:
        relevant = (
            pl.scan_parquet(folder / "truth" / "*.parquet").filter(pl.col("rating") >= THRESHOLD).select("user_id", "item_id")
        )
        counted = relevant.group_by("user_id").agg(pl.len().alias("n_relevant"))
        ranked = (
            pl.scan_parquet(folder / "predictions" / "*.parquet")
            .sort(["user_id", "score", "item_id"], descending=[False, True, False])
            .with_columns((pl.int_range(pl.len()).over("user_id") + 1).alias("rank"))
            .filter(pl.col("rank") <= max(CUTS))
        )
        hits = ranked.join(relevant, on=["user_id", "item_id"]).sort(["user_id", "rank"])
        hits = hits.with_columns((pl.int_range(pl.len()).over("user_id") + 1).alias("number"))
        ideal = pl.LazyFrame({"n": range(1, max(CUTS) + 1)}).with_columns(
            (1 / (pl.col("n") + 1).log(2)).cum_sum().alias("ideal")
        )
        rank, within = pl.col("rank"), {k: pl.col("rank") <= k for k in CUTS}
        sums = [
            expression.alias(f"{name}_{k}")
            for k, inside in within.items()
            for name, expression in {
                "found": inside.sum(),
                "dcg": pl.when(inside).then(1 / (rank + 1).log(2)).otherwise(0.0).sum(),
                "precisions": pl.when(inside).then(pl.col("number") / rank).otherwise(0.0).sum(),
                "first": pl.when(inside).then(1 / rank).otherwise(0.0).max(),
            }.items()
        ]
        users = counted.join(hits.group_by("user_id").agg(sums), on="user_id", how="left").fill_null(0)
        means = []
        for k in CUTS:
            size = pl.min_horizontal(pl.lit(k, pl.Int64), pl.col("n_relevant").cast(pl.Int64))
            users = users.with_columns(size.alias(f"size_{k}")).join(
                ideal.select(pl.col("n").cast(pl.Int64).alias(f"size_{k}"), pl.col("ideal").alias(f"ideal_{k}")), on=f"size_{k}"
            )
            means += [
                (pl.col(f"found_{k}") / k).mean().alias(f"precision@{k}"),
                (pl.col(f"found_{k}") / pl.col("n_relevant")).mean().alias(f"recall@{k}"),
                (pl.col(f"dcg_{k}") / pl.col(f"ideal_{k}")).mean().alias(f"ndcg@{k}"),
                (pl.col(f"precisions_{k}") / pl.col(f"size_{k}")).mean().alias(f"map@{k}"),
                pl.col(f"first_{k}").mean().alias(f"mrr@{k}"),
                (pl.col(f"found_{k}") > 0).mean().alias(f"hit@{k}"),
            ]
        return dict(users.select(means).collect().row(0, named=True))

    return run


def duckdb(folder: Path) -> Callable[[], Values]:
    """DuckDB on one machine, everything in memory."""
    import duckdb as db

    largest, per_user, means = max(CUTS), [], []
    for k in CUTS:
        ideal = f"list_sum(list_transform(range(1, least({k}, n_relevant) + 1), lambda x: 1 / log2(x + 1)))"
        per_user += [
            f"count(*) filter (rank <= {k}) / {k} as precision_{k}",
            f"count(*) filter (rank <= {k}) / n_relevant as recall_{k}",
            f"coalesce(sum(1 / log2(rank + 1)) filter (rank <= {k}), 0) / {ideal} as ndcg_{k}",
            f"coalesce(sum(number / rank) filter (rank <= {k}), 0) / least({k}, n_relevant) as map_{k}",
            f"coalesce(max(1 / rank) filter (rank <= {k}), 0) as mrr_{k}",
            f"(count(*) filter (rank <= {k}) > 0)::int as hit_{k}",
        ]
        means += [f'avg({metric}_{k}) as "{metric}@{k}"' for metric in USUAL]
    query = f"""
        with relevant as (select user_id, item_id from '{folder}/truth/*.parquet' where rating >= {THRESHOLD}),
        ranked as (
            select user_id, item_id, row_number() over (partition by user_id order by score desc, item_id) as rank
            from '{folder}/predictions/*.parquet' qualify rank <= {largest}
        ),
        hits as (
            select user_id, rank, row_number() over (partition by user_id order by rank) as number
            from ranked join relevant using (user_id, item_id)
        ),
        counted as (select user_id, count(*) as n_relevant from relevant group by user_id),
        per_user as (
            select user_id, {", ".join(per_user)} from counted left join hits using (user_id) group by user_id, n_relevant
        )
        select {", ".join(means)} from per_user
    """

    def run() -> Values:
        cursor = db.sql(query)
        return dict(zip(cursor.columns, cursor.fetchall()[0], strict=True))

    return run


def rectools(folder: Path) -> Callable[[], Values]:
    """RecTools in pandas, everything in memory. Its lists come ranked, so that ranking is a part of the work."""
    import pandas as pd
    from rectools.metrics import MAP, MRR, NDCG, HitRate, Precision, Recall, calc_metrics

    kinds = {"precision": Precision, "recall": Recall, "ndcg": NDCG, "map": MAP, "mrr": MRR, "hit": HitRate}
    asked = {f"{name}@{k}": kind(k=k) for name, kind in kinds.items() for k in CUTS}

    def run() -> Values:
        relevant = pd.read_parquet(folder / "truth", columns=["user_id", "item_id", "rating"])
        relevant = relevant[relevant["rating"] >= THRESHOLD]
        predictions = pd.read_parquet(folder / "predictions").sort_values(
            ["user_id", "score", "item_id"], ascending=[True, False, True]
        )
        predictions["rank"] = predictions.groupby("user_id").cumcount() + 1
        best = predictions[predictions["rank"] <= max(CUTS)]
        return {name: float(value) for name, value in calc_metrics(asked, reco=best, interactions=relevant).items()}

    return run


def ranx(folder: Path) -> Callable[[], Values]:
    """ranx, everything in memory: it ranks by score itself."""
    import pandas as pd
    from ranx import Qrels, Run, evaluate

    own = {"precision": "precision", "recall": "recall", "ndcg": "ndcg", "map": "map", "mrr": "mrr", "hit": "hit_rate"}

    def run() -> Values:
        relevant = pd.read_parquet(folder / "truth", columns=["user_id", "item_id", "rating"])
        relevant = relevant[relevant["rating"] >= THRESHOLD].astype({"user_id": str, "item_id": str}).assign(rating=1)
        predictions = pd.read_parquet(folder / "predictions").astype({"user_id": str, "item_id": str})
        names = {"q_id_col": "user_id", "doc_id_col": "item_id"}
        qrels = Qrels.from_df(relevant, **names, score_col="rating")
        lists = Run.from_df(predictions, **names, score_col="score")
        found = evaluate(qrels, lists, [f"{name}@{k}" for name in own.values() for k in CUTS], make_comparable=True)
        return {f"{name}@{k}": float(found[f"{theirs}@{k}"]) for name, theirs in own.items() for k in CUTS}

    return run


CONTENDERS: dict[str, Callable[[Path], Callable[[], Values]]] = {
    contender.__name__: contender
    for contender in (window, lists, sql, spark_ml, recommenders, replay, polars, duckdb, rectools, ranx)
}


def main(name: str, folder: str, rounds: str) -> None:
    """Run one of them, the first time in a fresh process."""
    run = CONTENDERS[name](Path(folder))
    for _ in range(int(rounds) + 1):
        start = time.perf_counter()
        values = run()
        print(json.dumps({"seconds": time.perf_counter() - start, "values": values}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
