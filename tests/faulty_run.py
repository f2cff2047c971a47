"""Evaluate without and with faults in one session, and print the results as JSON. Run by `test_faults.py`.

python faulty_run.py MASTER FOLDER FAULT...
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import random_data
from pyspark import TaskContext
from pyspark.sql import SparkSession

import spark_recmetrics as srm
from spark_recmetrics.storage import actions
from spark_recmetrics.storage.actions import RECOUNTED, RowCounts

METRICS = ["ndcg@3", "map@3", "hit@1", "auc", "bpref", "mrr", "rmse", "fault@1"]
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "3",
    "spark.executor.memory": "512m",
    "spark.cores.max": "2",
    "spark.log.level": "ERROR",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.worker.faulthandler.enabled": "false",
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "100ms",
}


class Fault:
    """A fault in a task. It is sent to the workers, which report with files.

    Args:
        kind: `worker`: the Python worker dies. `executor`: its JVM dies, with the output of its tasks. `slow`: the task takes
            longer than the test. `none`.
        place: `source`: while predictions are read. `score`: while users are scored, or rows are read again.
        marks: Start of the paths of the files.
    """

    def __init__(self, kind, place, marks):
        self.kind, self.place, self.marks = kind, place, marks

    def read(self, parts):
        """The rows of a source."""
        yield from parts
        if self.kind == "executor":
            self.mark(f"ran-{executor()}")
        self.strike("source")

    def strike(self, place):
        """Fail if this is the place and the first attempt."""
        if place != self.place:
            return
        task = TaskContext.get()
        if self.kind == "executor":
            # An executor that has read rows, so that they are lost and read again.
            if Path(f"{self.marks}ran-{executor()}").exists() and self.mark("lost"):
                os.kill(executor(), signal.SIGKILL)
                time.sleep(60)
        elif task.attemptNumber() == 0 and (place == "score" or task.partitionId() == 1):
            self.mark(f"struck-{task.stageId()}-{task.partitionId()}")
            if self.kind == "worker":
                os.kill(os.getpid(), signal.SIGKILL)
            elif task.partitionId() == 1:
                time.sleep(60)

    def mark(self, name):
        """Create a file, and return whether it is new."""
        try:
            Path(self.marks + name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def executor():
    """The process id of the JVM: the parent of the daemon, which is the parent of the Python workers."""
    return int(Path(f"/proc/{os.getppid()}/stat").read_text().rsplit(")", 1)[1].split()[1])


def evaluate(spark, case, fault):
    """An evaluation of all metrics with a fault."""

    for registered in (srm.metrics.registry.DEFINITIONS, srm.metrics.registry.ALIASES):
        registered.pop("fault", None)

    @srm.metrics.register("fault", lower=None, upper=None)
    def _(batch, k):
        """Number of hits."""
        fault.strike("score")
        return batch.n_hits(k).astype(float)

    columns = "model string, user_id string, item_id string, score double"
    predictions = spark.createDataFrame([tuple(row.values()) for row in case.predictions], columns).repartition(3)
    truth = spark.createDataFrame([tuple(row.values()) for row in case.truth], "user_id string, item_id string, rating double")
    return srm.evaluate(
        predictions.mapInPandas(fault.read, columns),
        truth.repartition(2),
        metrics=METRICS,
        train=spark.createDataFrame([tuple(row.values()) for row in case.train], "user_id string, item_id string"),
        catalog=len(case.catalog),
        convention=srm.convention("default").override(duplicates="first"),
        n_buckets=3,
    )


def exact_values(result):
    """The contents of a result, with floats in hexadecimal."""

    def exact(row):
        return [value.hex() if isinstance(value, float) else value for value in row]

    rows = sorted((exact(row) for row in result.per_user.collect()), key=lambda row: row[:2])
    summary = [[row[name] for name in ("model", "metric", "value", "n_users", "n_undefined", "std")] for row in result.rows]
    return {
        "per_user": rows,
        "summary": summary,
        "data_checks": [exact(check) for check in result.data_checks],
        "data_hash": result.data_hash,
    }


def observed(spark, fault):
    """The observed counts of rows that are shuffled, kept and read."""
    rows = spark.range(1000, numPartitions=7).mapInPandas(fault.read, "id long")
    counts = RowCounts.of(rows, {"even": rows["id"] % 2 == 0})

    def read_again(parts):
        yield from parts
        fault.strike("score")

    kept = actions.materialize(counts.observed_rows().repartition(3, "id").mapInPandas(read_again, "id long"))
    actions.collect_rows(kept.agg({"id": "max"}))
    actions.release(kept)
    return counts.observed_counts()


def main(master, folder, *faults):
    """Print one line without a fault, and one for each fault."""
    settings = SETTINGS | (SPECULATION if any(fault.startswith("slow") for fault in faults) else {})
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    case = random_data.merged_cases(range(2), duplicates=True)
    recounted, observed_counts = [], actions.RowCounts.observed_counts

    def record(counts):
        recounted.append(counts.observation.get[RECOUNTED])
        return observed_counts(counts)

    actions.RowCounts.observed_counts = record
    for n, name in enumerate(("none", *faults)):
        recounted.clear()
        kind, place = name.split("-") if n else ("none", "")
        fault = Fault(kind, "score" if place == "observe" else place, f"{folder}/{n}-")
        start, report = time.monotonic(), {"fault": name}
        if "executor-observe" in faults:
            report["observed"] = observed(spark, fault)
        else:
            result = evaluate(spark, case, fault)
            if place == "cache":
                kill_executors(spark, fault)
            report |= exact_values(result)
            result.release()
        marks = [path.name for path in Path(folder).glob(f"{n}-*")]
        report |= {"seconds": round(time.monotonic() - start, 1), "recounted": recounted[:]}
        report |= {"struck": sum("struck" in mark for mark in marks), "lost": sum("lost" in mark for mark in marks)}
        print(json.dumps(report), flush=True)
    spark.stop()


def kill_executors(spark, fault):
    """Kill all executors of this application. The workers start new ones."""
    application = spark.sparkContext.applicationId.encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and application in words:
                os.kill(int(process.name), signal.SIGKILL)
                fault.mark(f"lost-{process.name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
