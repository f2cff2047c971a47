"""Small runs to publish, and what the history shows of them."""

from __future__ import annotations

from pathlib import Path

from spark_recmetrics import Run, read_history

RUN = Run(run_id="r1", as_of="2026-11-28", config_hash="c1")


def frames_of(spark, value, n_users=3):
    """The tables of a small run, with the same number in all rows."""
    users = [("als", f"u{n}", value) for n in range(n_users)]
    return {
        "data_report": spark.createDataFrame([("rows", value), ("users", value)], "check string, n_rows long"),
        "per_user": spark.createDataFrame(users, "model string, user string, n_relevant long"),
        "summary": spark.createDataFrame([("als", "hit@1", value)], "model string, metric string, n_users long"),
    }


NUMBER = {"data_report": "n_rows", "per_user": "n_relevant", "summary": "n_users"}


def numbers(spark, output):
    """By table, the sorted rows of the history: as_of, run and number."""
    rows_of_table = {}
    for table, column in NUMBER.items():
        rows = read_history(spark, output, table=table).collect()
        rows_of_table[table] = sorted((row["as_of"], row["run_id"], row[column]) for row in rows)
    return rows_of_table


def complete(value, n_users=3, run=RUN):
    """The `numbers` of a complete run."""
    row = (run.as_of, run.run_id, value)
    return {"data_report": [row] * 2, "per_user": [row] * n_users, "summary": [row]}


def attempts(folder, table):
    """The names of the folders of a table's attempts."""
    return sorted(path.name for path in (Path(folder) / table).glob("as_of=*/run_id=*/attempt=*"))
