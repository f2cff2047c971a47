"""Evaluate without a fault and with faults, in one session, and print what was found as JSON. `test_faults.py` runs it.

python faulty_run.py MASTER FOLDER FAULT...
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import random_data
from pyspark import TaskContext
from pyspark.sql import SparkSession

import spark_recmetrics as srm
from spark_recmetrics import tables
from spark_recmetrics.watch import AGAIN

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
    """What goes wrong in a task. It is sent to the workers, so it says what happened in files.

    Args:
        kind: `worker`: the Python worker dies. `executor`: its JVM dies. `slow`: the task takes longer than the test.
        place: `source`: while predictions are read. `score`: while users are scored.
        folder: Where a mark is left.
    """

    def __init__(self, kind, place, folder):
        self.kind, self.place, self.folder = kind, place, str(folder)

    def strike(self, place):
        if place != self.place or self.kind == "none":
            return
        task = TaskContext.get()
        if self.kind == "executor":
            if self.mark("once", once=True):
                os.kill(parent_of(os.getppid()), signal.SIGKILL)
                time.sleep(60)
        elif task.attemptNumber() == 0 and (place == "score" or task.partitionId() == 1):
            self.mark(f"{place}-{task.stageId()}-{task.partitionId()}")
            if self.kind == "worker":
                os.kill(os.getpid(), signal.SIGKILL)
            elif task.partitionId() == 1:
                time.sleep(60)

    def mark(self, name, once=False):
        """Leave a mark; whether it is new."""
        try:
            with open(f"{self.folder}{self.kind}-{self.place}-{name}", "x"):
                return True
        except FileExistsError:
            if not once:
                raise
            return False


def parent_of(pid):
    """The daemon of the Python workers is a child of the executor."""
    with open(f"/proc/{pid}/stat") as stat:
        return int(stat.read().rsplit(")", 1)[1].split()[1])


def evaluate(spark, case, fault):
    """One evaluation of all metrics, with a fault in it."""

    def read(parts):
        yield from parts
        fault.strike("source")

    for known in (srm.metrics.registry.DEFINITIONS, srm.metrics.registry.ALIASES):
        known.pop("fault", None)

    @srm.metrics.register("fault", lower=None, upper=None)
    def _(batch, k):
        """Number of hits."""
        fault.strike("score")
        return batch.n_hits(k).astype(float)

    columns = "model string, user_id string, item_id string, score double"
    predictions = spark.createDataFrame([tuple(row.values()) for row in case.predictions], columns).repartition(3)
    truth = spark.createDataFrame([tuple(row.values()) for row in case.truth], "user_id string, item_id string, rating double")
    return srm.evaluate(
        predictions.mapInPandas(read, columns),
        truth.repartition(2),
        metrics=METRICS,
        train=spark.createDataFrame([tuple(row.values()) for row in case.train], "user_id string, item_id string"),
        catalog=len(case.catalog),
        convention=srm.convention("default").override(duplicates="first"),
        n_buckets=3,
    )


def told(result):
    """All that a result says, floats in hexadecimal."""

    def exact(row):
        return [value.hex() if isinstance(value, float) else value for value in row]

    rows = sorted((exact(row) for row in result.per_user.collect()), key=lambda row: row[:2])
    summary = [[row[name] for name in ("model", "metric", "value", "n_users", "n_undefined", "std")] for row in result.rows]
    return {
        "per_user": rows,
        "summary": summary,
        "facts": [exact(fact) for fact in result.facts],
        "data_hash": result.data_hash,
    }


def main(master, folder, *faults):
    settings = SETTINGS | (SPECULATION if any(fault.startswith("slow") for fault in faults) else {})
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    case = random_data.merged_cases(range(4), duplicates=True)
    raw, observed = [], tables.observed

    def listen(watch):
        raw.append(watch.observation.get.get(AGAIN))
        return observed(watch)

    tables.observed = listen
    for n, fault in enumerate(("none-source", *faults)):
        raw.clear()
        kind, place = fault.split("-")
        start = time.monotonic()
        if place == "cache":
            result = evaluate(spark, case, Fault("none", "", ""))
            kill_an_executor(spark)
        else:
            result = evaluate(spark, case, Fault(kind, place, f"{folder}/{n}-"))
        found = {"fault": fault, "seconds": round(time.monotonic() - start, 1), **told(result)}
        found["marks"] = len([path for path in Path(folder).iterdir() if path.name.startswith(f"{n}-")])
        found["counted_again"] = raw[:]
        print(json.dumps(found), flush=True)
        result.release()
    spark.stop()


def kill_an_executor(spark):
    own = spark.sparkContext.applicationId
    for stat in Path("/proc").glob("[0-9]*/cmdline"):
        words = stat.read_bytes().split(b"\0")
        if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and own.encode() in words:
            os.kill(int(stat.parent.name), signal.SIGKILL)
            return
    raise RuntimeError("no executor")


if __name__ == "__main__":
    main(*sys.argv[1:])
