"""Write an archive of the Java classes of Spark, with which a JVM starts in half the time: `python class_archive.py FILE`."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import conftest

if __name__ == "__main__":
    archive = Path(sys.argv[1])
    os.environ["SPARK_SUBMIT_OPTS"] = f"{conftest.JAVA_OPTIONS} -XX:ArchiveClassesAtExit={archive} -Xlog:disable"
    from pyspark.sql import SparkSession

    import spark_recmetrics as srm

    builder = SparkSession.builder.master("local[2]")
    for key, value in conftest.SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    with tempfile.TemporaryDirectory() as folder:  # the classes of a typical test
        spark.createDataFrame([(1, 7, 0.5)], "user_id int, item_id int, score double").write.parquet(f"{folder}/predictions")
        spark.createDataFrame([(1, 7, 4.0)], "user_id int, item_id int, rating double").write.parquet(f"{folder}/truth")
        predictions, truth = (spark.read.parquet(f"{folder}/{name}") for name in ("predictions", "truth"))
        print(srm.evaluate(predictions, truth, metrics=["ndcg", "rmse"], k=1).to_dict())
    spark.stop()
