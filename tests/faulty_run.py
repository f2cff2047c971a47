"""Evaluate without a fault and with faults, in one session, and print what was found as JSON. `test_faults.py` runs it.

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
from spark_recmetrics.storage.row_counts import RECOUNTED, RowCounts

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
        kind: `worker`: the Python worker dies. `executor`: its JVM dies, with what its tasks have written. `slow`: the task
            takes longer than the test. `none`.
        place: `source`: while predictions are read. `score`: while users are scored, or rows are looked at.
        marks: Beginning of the paths of the files.
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
        """Go wrong, if this is the place and the first attempt."""
        if place != self.place:
            return
        task = TaskContext.get()
        if self.kind == "executor":
            # One that has read rows, so that these are lost and read again.
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
        """Leave a mark; whether it is new."""
        try:
            Path(self.marks + name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def executor():
    """The JVM is the parent of the daemon, which is that of the Python workers."""
    return int(Path(f"/proc/{os.getppid()}/stat").read_text().rsplit(")", 1)[1].split()[1])


def evaluate(spark, case, fault):
    """One evaluation of all metrics, with a fault in it."""

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
        predictions.mapInPandas(fault.read, columns),
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
        "facts": [exact(fact) for fact in result.data_checks],
        "data_hash": result.data_hash,
    }


def watched(spark, fault):
    """What is observed of rows that are shuffled, kept, and looked at."""
    rows = spark.range(1000, numPartitions=7).mapInPandas(fault.read, "id long")
    watch = RowCounts.of(rows, {"even": rows["id"] % 2 == 0})

    def look(parts):
        yield from parts
        fault.strike("score")

    kept = actions.materialize(watch.observed_rows().repartition(3, "id").mapInPandas(look, "id long"))
    actions.collect_rows(kept.agg({"id": "max"}))
    actions.release(kept)
    return actions.observed_counts(watch)


def main(master, folder, *faults):
    """Print one line for each fault, and one for none before."""
    settings = SETTINGS | (SPECULATION if any(fault.startswith("slow") for fault in faults) else {})
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    case = random_data.merged_cases(range(2), duplicates=True)
    again, observed = [], actions.observed_counts

    def listen(watch):
        again.append(watch.observation.get[RECOUNTED])
        return observed(watch)

    actions.observed_counts = listen
    for n, name in enumerate(("none", *faults)):
        again.clear()
        kind, place = name.split("-") if n else ("none", "")
        fault = Fault(kind, "score" if place == "watch" else place, f"{folder}/{n}-")
        start, found = time.monotonic(), {"fault": name}
        if "executor-watch" in faults:
            found["watched"] = watched(spark, fault)
        else:
            result = evaluate(spark, case, fault)
            if place == "cache":
                kill_executors(spark, fault)
            found |= told(result)
            result.release()
        marks = [path.name for path in Path(folder).glob(f"{n}-*")]
        found |= {"seconds": round(time.monotonic() - start, 1), "counted_again": again[:]}
        found |= {"struck": sum("struck" in mark for mark in marks), "lost": sum("lost" in mark for mark in marks)}
        print(json.dumps(found), flush=True)
    spark.stop()


def kill_executors(spark, fault):
    """All that this application has; the workers start new ones."""
    own = spark.sparkContext.applicationId.encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and own in words:
                os.kill(int(process.name), signal.SIGKILL)
                fault.mark(f"lost-{process.name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
