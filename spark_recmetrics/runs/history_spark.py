"""Publish a run in one step, and read the history of complete runs.

Spark has no transaction over several tables. An additional table, `runs`, lists the complete ones:

1. *Stage*: each time a run is published, it gets a random id, its attempt. Spark writes the rows of all tables into partitions
   of this attempt, which no reader reads yet, and counts them there.
2. *Commit*: Spark writes the attempt into `runs`, with the number of rows of each table, as a new partition with one file. One
   rename on a file system, or one upload to an object store, makes the attempt visible. Overwriting the partition of the run
   would be a delete and a rename, and a job that dies between them would lose the run.
3. *Clean up*: superseded attempts are removed if possible.

Readers take the newest attempt of each run. If the job dies before the commit, the previous results stay; after it, the new
results are complete. If two jobs publish the same run at once, both commit, and the later one counts.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from spark_recmetrics.errors import ConfigError, DataError, PublishError, check_argument
from spark_recmetrics.runs.identity import Run
from spark_recmetrics.storage import actions, write
from spark_recmetrics.storage.actions import RowCounts
from spark_recmetrics.storage.locations import Output
from spark_recmetrics.storage.progress import step
from spark_recmetrics.storage.table_schemas import ATTEMPT, RUN_COLUMNS, RUNS, SPLIT_TABLES, TABLES
from spark_recmetrics.text import did_you_mean, printable
from spark_recmetrics.version import __version__

_log = logging.getLogger(__name__)

_NAMES = (*TABLES, *SPLIT_TABLES)
_PARTITIONS = (*RUN_COLUMNS, ATTEMPT)
_RUN_AGAIN = "make sure that no other process writes to or cleans this output, and run again"

_ABANDONED = timedelta(days=7)
"""Older attempts without a commit belong to killed runs, not to runs that are still writing."""


@dataclass(frozen=True)
class _Attempt:
    """A committed attempt of a run, which the values of `RUN_COLUMNS` identify."""

    run: tuple[str, ...]
    attempt: str
    sequence: int
    committed_at: datetime
    n_rows: Mapping[str, int]

    @property
    def order(self) -> tuple[bool, int, datetime, str]:
        """The greatest attempt counts. One without a summary, because rows were rejected, replaces no earlier results."""
        # The sequence comes before the time, because the clocks of two drivers may differ.
        return "summary" in self.n_rows, self.sequence, self.committed_at, self.attempt


def publish(frames: Mapping[str, DataFrame], output: Output, run: Run) -> dict[str, str]:
    """Publish all tables of a run in one step, and return the path or name of each.

    They replace what the run has published before. They may already contain the columns of the run; a missing `run_id` or
    `as_of` is `none` in the tables. After a `PublishError` nothing of the run is visible.
    """
    for name in frames:
        _check_name(name)
    identity = {column: getattr(run, column) or "none" for column in RUN_COLUMNS}
    attempt = uuid4().hex
    key = {column: F.lit(value) for column, value in {**identity, ATTEMPT: attempt}.items()}
    staged = {name: frame.drop(*RUN_COLUMNS).withColumns(key) for name, frame in frames.items()}
    spark = next(iter(staged.values())).sparkSession
    with step(spark, "published runs"):
        _check_columns(spark, staged, output)
    n_rows = {name: _stage(rows, output, name, attempt) for name, rows in staged.items()}
    with step(spark, "publishing"):
        shared = {"config_hash": run.config_hash, "version": __version__, **identity, ATTEMPT: attempt}
        entries = [
            shared | {"table": name, "n_rows": n_rows[name], "columns": rows.drop(*_PARTITIONS).schema.json()}
            for name, rows in staged.items()
        ]
        _clean_up(output, identity, _commit(spark, output, identity, entries))
    return {name: write.destination(output, name) for name in frames}


def read_history(spark: SparkSession, output: Output | str | os.PathLike[str], *, table: str = "summary") -> DataFrame:
    """The rows of all complete runs. If a run was published several times, the last time counts.

    Spark reads the small table `runs` immediately, and the rows when the frame is used. Runs with missing or additional rows
    are left out.

    Args:
        spark: The session.
        output: Where the tables are: the `output` of the configuration, or the path of parquet tables.
        table: `summary`, `per_user`, `data_report`, `comparison` or `gates` of an evaluation; `train`, `test`, `folds` or
            `split_report` of a split.

    Returns:
        The columns of the table, and `as_of` and `run_id` as strings. Columns that a run does not have are null.

    Raises:
        ConfigError: There is no table of that name, or an argument is of another type.
        DataError: Nothing has been published there.
        PublishError: The output contains something that this package has not published.

    Example:
        >>> import tempfile
        >>> output = tempfile.mkdtemp()
        >>> for as_of, value in (("2026-11-27", 0.5), ("2026-11-28", 0.75)):
        ...     summary = spark.createDataFrame([("mrr@2", value)], "metric string, value double")
        ...     _ = publish({"summary": summary}, Output(path=output), Run(run_id="r1", as_of=as_of))
        >>> [tuple(row) for row in read_history(spark, output).orderBy("as_of").collect()]
        [('mrr@2', 0.5, '2026-11-27', 'r1'), ('mrr@2', 0.75, '2026-11-28', 'r1')]
    """
    _check_name(table)
    check_argument("spark", spark, "a Spark session", valid=hasattr(spark, "createDataFrame"))
    is_place = isinstance(output, Output | str | os.PathLike)
    check_argument("output", output, "srm.Output(...), or the path of parquet tables", valid=is_place)
    output = output if isinstance(output, Output) else Output(path=os.fspath(output))
    with step(spark, "published runs"):
        rows = _rows(spark, output, table)
    if rows is None:
        destination = write.destination(output, table)
        raise DataError(f"{destination}: expected published runs, found none: check the output, or run an evaluation first")
    return rows


def _rows(spark: SparkSession, output: Output, table: str) -> DataFrame | None:
    """The rows of `read_history`; None if no run has published that table."""
    columns = _published_columns(spark, output).get(table)
    if columns is None:
        return None
    declared = [(newest.attempt, n) for newest in _newest(_attempts(spark, output)) if (n := newest.n_rows.get(table))]
    schema = StructType([*columns.values(), *(StructField(column, StringType()) for column in _PARTITIONS)])
    rows = write.published_table(spark, output, table, schema) if declared else None
    if rows is None:  # no run has rows, or all rows are lost
        return spark.createDataFrame([], schema).drop(ATTEMPT)
    # A list of values, not a join, so that Spark does not open partitions of other attempts.
    rows = rows.where(F.col(ATTEMPT).isin([attempt for attempt, _ in declared]))
    expected = spark.createDataFrame(declared, f"{ATTEMPT} string, n_rows bigint")
    stored = rows.groupBy(ATTEMPT).agg(F.count(F.lit(1)).alias("n_stored"))
    complete = stored.join(expected, ATTEMPT).where(F.col("n_stored") == F.col("n_rows")).select(ATTEMPT)
    return rows.join(F.broadcast(complete), ATTEMPT, "left_semi").drop(ATTEMPT)


def published_rows(spark: SparkSession, output: Output, job: str, metrics: Sequence[str]) -> list[dict[str, Any]]:
    """SUMMARY of all complete runs of a job, for these metrics over all users, on the driver; empty before the first run."""
    with step(spark, "published runs"):
        rows = _rows(spark, output, "summary")
        if rows is None or "job" not in rows.columns:  # all runs so far had rejected rows, or were splits
            return []
        rows = rows.where((F.col("job") == job) & (F.col("slice") == "all") & F.col("metric").isin(*metrics))
        return [row.asDict() for row in actions.collect_rows(rows)]


def rows_of_run(spark: SparkSession, output: Output, run: Run, *, table: str) -> DataFrame:
    """The rows of one complete run."""
    rows = read_history(spark, output, table=table)
    return rows.where((F.col("run_id") == (run.run_id or "none")) & (F.col("as_of") == (run.as_of or "none")))


def _check_name(name: str) -> None:
    if name not in _NAMES:
        raise ConfigError(f"table {name!r}: expected the name of a published table{did_you_mean(str(name), _NAMES)}")


def _stage(rows: DataFrame, output: Output, name: str, attempt: str) -> int:
    """Write the rows of an attempt, and return how many there are."""
    counts, spark = RowCounts.of(rows), rows.sparkSession
    with step(spark, f"writing {name}") as step_counts:
        write.add_partitions(counts.observed_rows(), output, name, _PARTITIONS)
        n_rows: int = counts.observed_counts()["rows"]
        is_ours = F.col(ATTEMPT) == attempt
        stored = write.collect_published(
            spark, output, name, rows.schema, lambda table: table.where(is_ours).agg(*counts.counts)
        )
        n_stored = sum(row["rows"] for row in stored)
        step_counts.rows = n_rows
    if n_stored != n_rows:
        raise PublishError(
            f"{write.destination(output, name)}: expected {n_rows} rows of this run, found {n_stored} after they were written: "
            f"nothing was published; {_RUN_AGAIN}"
        )
    return n_rows


def _commit(
    spark: SparkSession, output: Output, identity: Mapping[str, str], entries: Sequence[Mapping[str, Any]]
) -> list[_Attempt]:
    """Write the entries of an attempt into `runs`, and return the committed attempts of the run."""
    sequence = 1 + max((committed.sequence for committed in _attempts(spark, output, identity)), default=0)
    now = {"sequence": sequence, "committed_at": datetime.now(timezone.utc)}
    rows = [tuple({**now, **entry}[column] for column in RUNS.names) for entry in entries]
    write.add_partitions(spark.createDataFrame(rows, RUNS).coalesce(1), output, "runs", _PARTITIONS)
    attempts = _attempts(spark, output, identity)
    # Do not look for the attempt itself: another process may already have superseded and removed it.
    if all(committed.sequence < sequence for committed in attempts):
        runs = write.destination(output, "runs")
        raise PublishError(
            f"{runs}: the entry of this run disappeared after it was written: nothing was published; {_RUN_AGAIN}"
        )
    return attempts


def _attempts(spark: SparkSession, output: Output, identity: Mapping[str, str] | None = None) -> list[_Attempt]:
    """The committed attempts of one run, or of all."""

    def entries(runs: DataFrame) -> DataFrame:
        for column, value in (identity or {}).items():
            runs = runs.where(F.col(column) == value)
        return runs.select(*_PARTITIONS, "sequence", "committed_at", "table", "n_rows")

    n_rows: dict[str, dict[str, int]] = {}
    rows = write.collect_published(spark, output, "runs", RUNS, entries)
    for row in rows:
        n_rows.setdefault(row[ATTEMPT], {})[row["table"]] = row["n_rows"]
    return [
        _Attempt(tuple(row[column] for column in RUN_COLUMNS), attempt, row["sequence"], row["committed_at"], n_rows[attempt])
        for attempt, row in {row[ATTEMPT]: row for row in rows}.items()
    ]


def _newest(attempts: Iterable[_Attempt]) -> list[_Attempt]:
    """The attempt of each run that counts."""
    return list({attempt.run: attempt for attempt in sorted(attempts, key=lambda attempt: attempt.order)}.values())


def _published_columns(spark: SparkSession, output: Output) -> dict[str, dict[str, StructField]]:
    """The columns of each published table by name, in the order in which runs added them."""

    def entries(runs: DataFrame) -> DataFrame:
        if ATTEMPT not in runs.columns:
            raise _not_ours(output, "runs", runs)
        # Almost all runs have the same columns, whose JSON is long.
        return runs.groupBy("table", "columns").agg(F.min("committed_at").alias("since"))

    schemas = write.collect_published(spark, output, "runs", RUNS, entries)
    foreign = write.published_table(spark, output, "runs") if any(row["columns"] is None for row in schemas) else None
    if foreign is not None:
        raise _not_ours(output, "runs", foreign)
    columns: dict[str, dict[str, StructField]] = {}
    for row in sorted(schemas, key=lambda row: (row["since"], row["columns"])):
        for column in StructType.fromJson(json.loads(row["columns"])):
            columns.setdefault(row["table"], {}).setdefault(column.name, column)
    return columns


def _check_columns(spark: SparkSession, staged: Mapping[str, DataFrame], output: Output) -> None:
    """Raise `PublishError` for a table of another origin, other types, or a new column that a catalog table cannot take."""
    published = _published_columns(spark, output)
    for name, rows in staged.items():
        destination = write.destination(output, name)
        # Files with committed rows are ours, and their columns are listed in `runs`.
        frame = write.published_table(spark, output, name) if output.path is None or name not in published else None
        if frame is not None and not {*_PARTITIONS} <= set(frame.columns):
            raise _not_ours(output, name, frame)
        fields = published.get(name, {}).values() if frame is None or output.path is not None else frame.schema
        types = {field.name: field.dataType.simpleString() for field in fields}
        for column, kind in rows.dtypes:
            if types.get(column, kind) != kind:
                raise PublishError(
                    f"{destination}: column {column}: expected {types[column]}, as in the published runs, found {kind}: "
                    f"write runs with other types to another {_key(output)}"
                )
        new = [f"{column} {kind}" for column, kind in rows.dtypes if column not in types]
        if new and frame is not None and output.path is None and output.format != "delta":
            raise PublishError(
                f"{destination}: expected the columns {', '.join(types)}, found also {', '.join(new)}: "
                f"add them with ALTER TABLE, or write runs with other metrics to another {_key(output)}"
            )


def _not_ours(output: Output, name: str, frame: DataFrame) -> PublishError:
    return PublishError(
        f"{write.destination(output, name)}: expected a table that this package has published, with the columns "
        f"{', '.join(_PARTITIONS)}, found the columns {printable(', '.join(frame.columns))}: use another {_key(output)}"
    )


def _key(output: Output) -> str:
    return "output.table_prefix" if output.path is None else "output.path"


def _clean_up(output: Output, identity: Mapping[str, str], committed: Sequence[_Attempt]) -> None:
    """Remove superseded attempts of a run. Readers ignore them, so a failure is only a warning."""
    # Deleting from a catalog table needs SQL, and Delta's files belong to its log.
    if output.path is None or output.format == "delta":
        return
    try:
        newest = _newest(committed)[0]
        # A data report alone, of a run with rejected rows, replaces no results and stays until the next complete attempt.
        old = {attempt.attempt for attempt in committed if attempt.sequence < newest.sequence or "summary" in attempt.n_rows}
        _remove(output.path, identity, old - {newest.attempt}, {attempt.attempt for attempt in committed})
    except Exception as error:  # noqa: BLE001 - file systems fail in many ways
        _log.warning("readers ignore earlier attempts of this run left in %s: %s", output.path, printable(str(error)))


def _remove(path: str, identity: Mapping[str, str], superseded: set[str], committed: set[str]) -> None:
    """Remove folders of attempts. Their entries in `runs` stay, because a reader of that table would miss a removed file."""
    from pyarrow import fs

    files, root = fs.FileSystem.from_uri(path if ":/" in path else str(Path(path).absolute()))

    def inside(folder: str) -> list[Any]:
        # Without a scheme the path may be on Spark's default file system, and the folder does not exist here.
        return list(files.get_file_info(fs.FileSelector(folder, allow_not_found=True)))

    for name in _NAMES:
        in_table = inside(f"{root.rstrip('/')}/{name}")
        folders = in_table
        for column, value in identity.items():  # Spark escapes characters that a path may not contain
            partitions = [folder for folder in folders if unquote(folder.base_name) == f"{column}={value}"]
            folders = [inner for partition in partitions for inner in inside(partition.path)]
        for folder in folders:
            key, _, attempt = folder.base_name.partition("=")
            if key == ATTEMPT and (attempt in superseded or (attempt not in committed and _is_abandoned(folder))):
                files.delete_dir(folder.path)
        for folder in in_table:
            if folder.base_name.startswith(".spark-staging-") and _is_abandoned(folder):
                files.delete_dir(folder.path)


def _is_abandoned(folder: Any) -> bool:
    """Whether a folder is too old for a run that is still writing. Object stores do not know its age."""
    return folder.mtime is not None and bool(folder.mtime < datetime.now(timezone.utc) - _ABANDONED)
