"""Publish runs, read tables and run `doctor` with Delta Lake, and print the results as JSON. Run by `test_delta.py`.

python delta_runs.py FOLDER PACKAGE
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from published_runs import RUN, complete, frames_of, numbers
from pyspark.sql import SparkSession

from spark_recmetrics import DataError, Output, PublishError, Run, read_history
from spark_recmetrics.job.cli import main as run_command
from spark_recmetrics.runs.history_spark import publish
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.storage.read import read_table

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
}


class Lines(logging.Handler):
    """Keeps the lines of the log."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def report(name, value):
    print("RESULT " + json.dumps([name, value]), flush=True)


def columns_added(spark, output):
    wide = spark.createDataFrame([("als", "hit@1", 1, 0.5)], "model string, metric string, n_users long, value double")
    publish({"summary": wide}, output, Run(run_id="r2", as_of="2026-11-29"))
    frame = read_history(spark, output)
    return [frame.columns, sorted((row["run_id"], row["value"]) for row in frame.collect())]


def other_type(spark, output):
    try:
        publish({"summary": spark.createDataFrame([("als", 1)], "model string, metric int")}, output, RUN)
    except PublishError as error:
        return str(error)
    return None


def publish_again(spark, kind, output):
    """Publish a run twice, then twice at once, then with other columns."""
    for value in (1, 2):
        publish(frames_of(spark, value), output, RUN)
    report(f"{kind}: again", numbers(spark, output) == complete(2))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda value: publish(frames_of(spark, value, value), output, RUN), (3, 4)))
    report(f"{kind}: at once", numbers(spark, output) in [complete(3, 3), complete(4, 4)])
    report(f"{kind}: columns", columns_added(spark, output))
    report(f"{kind}: type", other_type(spark, output))


def create_at_once(spark, output):
    """Three runs create the same tables at once. Some of them find the table, or its columns, changed."""
    runs = [Run(run_id=f"r{n}", as_of="2026-11-28") for n in range(3)]
    lines = Lines()
    logging.getLogger("spark_recmetrics").addHandler(lines)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda run: publish(frames_of(spark, 0), output, run), runs))
    expected = {table: sorted(row for run in runs for row in complete(0, run=run)[table]) for table in complete(0)}
    report("created at once", numbers(spark, output) == expected)
    report("conflicts", sum("concurrent write" in line for line in lines.lines))


def n_rows_of_versions(spark, **location):
    """The number of rows of the first version of a table, and of the newest one."""
    versions = ({"versionAsOf": "0"}, {})
    return [read_table(spark, Location(**location, options=options), "truth", Vault()).count() for options in versions]


def attempt(read):
    """The sorted rows, or the error message."""
    try:
        return sorted(map(list, read().select("user_id", "item_id").collect()))
    except DataError as error:
        return str(error)


def folders(spark, table):
    """Read the folder of a table whose rows (u, a) were overwritten by (u, b), and folders and files inside it."""
    for item in ("a", "b"):
        rows = spark.createDataFrame([("u", item, 1)], "user_id string, item_id string, day int")
        rows.write.format("delta").mode("overwrite").partitionBy("day").save(table)
    file = next(Path(table).rglob("*.parquet"))
    for name, path in (("table", table), ("partition", f"{table}/day=1"), ("file", str(file))):
        for given in (None, "parquet", "delta"):
            location = Location(path=path, format=given)
            report(f"folders: {name} as {given}", attempt(lambda at=location: read_table(spark, at, "inputs.truth", Vault())))
    advice = Location(path=f"file://{table}", format="delta", where={"day": 1})
    report("folders: advice", attempt(lambda: read_table(spark, advice, "inputs.truth", Vault())))


def doctor(folder, name, **output):
    """The exit code of `doctor`, and its last line."""
    conf = Path(folder) / f"{name}.json"
    inputs = {"predictions": {"path": "/nowhere"}, "truth": {"path": "/nowhere"}}
    conf.write_text(json.dumps({"inputs": inputs, "evaluation": {"metrics": ["mrr"]}, "output": {"format": "delta", **output}}))
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = run_command(["doctor", "--config", str(conf)])
    return [code, out.getvalue().strip().splitlines()[-1]]


def main(folder, package):
    builder = SparkSession.builder.master("local[2]").config("spark.jars.packages", package)
    for key, value in {**SETTINGS, "spark.sql.warehouse.dir": f"{folder}/warehouse"}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    print("SESSION", flush=True)
    publish_again(spark, "path", Output(path=f"{folder}/out", format="delta"))
    publish_again(spark, "catalog", Output(table_prefix="default.nightly_", format="delta"))
    details = [
        spark.sql(f"describe detail {table}").collect()[0] for table in (f"delta.`{folder}/out/runs`", "default.nightly_runs")
    ]
    report("formats", [row["format"] for row in details])
    create_at_once(spark, Output(path=f"{folder}/first", format="delta"))
    for n_rows in (1, 2):
        rows = spark.range(n_rows)
        rows.write.format("delta").mode("overwrite").save(f"{folder}/versions")
        rows.write.format("delta").mode("overwrite").saveAsTable("default.versions")
    report("versions: path", n_rows_of_versions(spark, path=f"{folder}/versions", format="delta"))
    report("versions: catalog", n_rows_of_versions(spark, table="default.versions"))
    folders(spark, f"{folder}/inputs")
    report("doctor: path", doctor(folder, "path", path=f"{folder}/new"))
    report("doctor: catalog", doctor(folder, "catalog", table_prefix="default.new_"))
    report("tables", sorted(row["tableName"] for row in spark.sql("show tables in default").collect()))


if __name__ == "__main__":
    main(*sys.argv[1:])
