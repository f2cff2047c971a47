"""Publish a run in one step, and read the history of complete runs.

Spark has no transaction over several tables, so there is one table more, `runs`, and what stands there is what counts:

1. *Stage*: every publishing has a random id, its attempt. The rows of all tables are written into partitions of that attempt,
   where no reader looks yet, and counted again where they lie.
2. *Commit*: the attempt is written into `runs`, with the number of rows of each table. It is a partition of its own with
   one file, so that on a file system one rename of a folder makes the attempt visible, and on an object store one upload.
   It is not the partition of the run that is overwritten: that is a delete and a rename, and a run killed between them
   would be gone.
3. *Clean up*: the rows of attempts that a later one has superseded are removed where that can be done.

Readers keep the newest attempt of each run. A run that is killed before its commit is as if it had never begun, and a run
that is killed after it is complete. Of two that publish one run at once both commit, and the later counts.
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

from spark_recmetrics.errors import ConfigError, DataError, PublishError
from spark_recmetrics.runs.identity import Run
from spark_recmetrics.storage import actions, write
from spark_recmetrics.storage.locations import Output
from spark_recmetrics.storage.progress import step
from spark_recmetrics.storage.row_counts import RowCounts
from spark_recmetrics.storage.schemas import ATTEMPT, RUN_COLUMNS, RUNS, SPLIT_TABLES, TABLES
from spark_recmetrics.text import did_you_mean, printable
from spark_recmetrics.version import __version__

_log = logging.getLogger(__name__)

_NAMES = (*TABLES, *SPLIT_TABLES)

_PARTITIONS = (*RUN_COLUMNS, ATTEMPT)
_PARTITION_FIELDS = [StructField(column, StringType()) for column in _PARTITIONS]

_ABANDONED = timedelta(days=7)
"""Age from which an attempt that was never committed is taken for one of a killed run, and not of a run that still writes."""


@dataclass(frozen=True)
class _Attempt:
    """A committed attempt of a run."""

    run: tuple[str, ...]
    attempt: str
    sequence: int
    committed_at: datetime
    n_rows: Mapping[str, int]

    @property
    def order(self) -> tuple[bool, int, datetime, str]:
        """The greatest of a run is the one that counts.

        A run whose rows were refused has a data report and no summary: it must not hide or remove the numbers of an earlier
        night. The sequence, not the clock, comes next: the clocks of two drivers may differ.
        """
        return "summary" in self.n_rows, self.sequence, self.committed_at, self.attempt


def publish(frames: Mapping[str, DataFrame], output: Output, run: Run) -> dict[str, str]:
    """Publish the tables of a run, all at once, in place of what the run had published before.

    Args:
        frames: The tables by name: `data_report`, `per_user` and `summary`, or `data_report` alone for a run whose rows are
            refused; or those of a split. The run's own columns may be among theirs.
        output: Where the tables are, and their format.
        run: The run. What it lacks of `schema.RUN_COLUMNS` is `none` in the tables.

    Returns:
        Path or name of each table.

    Raises:
        ConfigError: There is no table of that name.
        PublishError: Something else is there, a column has another type, or the tables cannot be written. Nothing has
            become visible then.

    Example:
        >>> import tempfile
        >>> place = Output(path=tempfile.mkdtemp())
        >>> summary = spark.createDataFrame([("als", "hit@1", 0.5)], "model string, metric string, value double")
        >>> _ = publish({"summary": summary}, place, Run(run_id="r1", as_of="2026-11-28"))
        >>> _ = publish({"summary": summary}, place, Run(run_id="r1", as_of="2026-11-28"))
        >>> read_history(spark, place).collect()
        [Row(model='als', metric='hit@1', value=0.5, as_of='2026-11-28', run_id='r1')]
    """
    for name in frames:
        _known_table(name)
    identity = {column: getattr(run, column) or "none" for column in RUN_COLUMNS}
    attempt = uuid4().hex
    key = {column: F.lit(value) for column, value in {**identity, ATTEMPT: attempt}.items()}
    staged = {name: frame.drop(*RUN_COLUMNS).withColumns(key) for name, frame in frames.items()}
    spark = next(iter(staged.values())).sparkSession
    with step(spark, "what is published"):
        _refuse_other_columns(spark, staged, output)
    n_rows = {name: _stage(rows, output, name, attempt) for name, rows in staged.items()}
    with step(spark, "publishing"):
        sequence = 1 + max((known.sequence for known in _attempts(spark, output, identity)), default=0)
        entry = {"sequence": sequence, "committed_at": datetime.now(timezone.utc)}
        entry |= {"config_hash": run.config_hash, "version": __version__, **identity, ATTEMPT: attempt}
        entries = [
            entry | {"table": name, "n_rows": n_rows[name], "columns": rows.drop(*_PARTITIONS).schema.json()}
            for name, rows in staged.items()
        ]
        ordered = [tuple(one[column] for column in RUNS.names) for one in entries]
        write.add_partitions(spark.createDataFrame(ordered, RUNS).coalesce(1), output, "runs", _PARTITIONS)
        committed = _attempts(spark, output, identity)
        # Not a look for the attempt itself: another process may have superseded and removed it already.
        if all(known.sequence < sequence for known in committed):
            place = write.destination(output, "runs")
            raise PublishError(
                f"{place}: expected the entry of this run, found none after it was written: nothing was "
                "published; see that nothing else writes into or cleans this place, and run again"
            )
        _clean_up(output, identity, committed)
    return {name: write.destination(output, name) for name in frames}


def read_history(spark: SparkSession, output: Output | str | os.PathLike[str], *, table: str = "summary") -> DataFrame:
    """The rows of all runs that were published completely, the newest publishing of each.

    Which runs these are is looked up at once, in the small table `runs`; the rows are read when the frame is used. A run of
    which rows are missing, or too many are there, is left out.

    Args:
        spark: The session.
        output: Where the tables are: the `output` of the configuration, or the path of tables in parquet.
        table: `summary`, `per_user` or `data_report` of an evaluation; `train`, `test`, `folds` or `split_report` of a split.

    Returns:
        The columns of the table, and `as_of` and `run_id` as texts. A column that a run does not have is null in its rows.

    Raises:
        ConfigError: There is no table of that name.
        DataError: Nothing was published there.
        PublishError: What is there was not published by this package.

    Example:
        >>> import tempfile
        >>> place = tempfile.mkdtemp()
        >>> for night, value in (("night-1", 0.5), ("night-2", 0.75)):
        ...     summary = spark.createDataFrame([("mrr@2", value)], "metric string, value double")
        ...     _ = publish({"summary": summary}, Output(path=place), Run(run_id="r1", as_of=night))
        >>> [tuple(row) for row in read_history(spark, place).orderBy("as_of").collect()]
        [('mrr@2', 0.5, 'night-1', 'r1'), ('mrr@2', 0.75, 'night-2', 'r1')]
    """
    _known_table(table)
    output = output if isinstance(output, Output) else Output(path=os.fspath(output))
    with step(spark, "what is published"):
        rows = _rows(spark, output, table)
    if rows is None:
        place = write.destination(output, table)
        raise DataError(f"{place}: expected published runs, found none: check the output, or run an evaluation first")
    return rows


def _rows(spark: SparkSession, output: Output, table: str) -> DataFrame | None:
    """The rows of `read_history`; None where no run has published that table."""
    columns = _published_columns(spark, output).get(table)
    if columns is None:
        return None
    declared = [(known.attempt, n) for known in _newest(_attempts(spark, output)) if (n := known.n_rows.get(table))]
    schema = StructType([*columns.values(), *_PARTITION_FIELDS])
    rows = write.published_table(spark, output, table, schema) if declared else None
    if rows is None:  # no run has a row, or the rows of all are lost
        return spark.createDataFrame([], schema).drop(ATTEMPT)
    # A list of values, not a join: partitions of other attempts are not even opened.
    rows = rows.where(F.col(ATTEMPT).isin([attempt for attempt, _ in declared]))
    expected = spark.createDataFrame(declared, f"{ATTEMPT} string, n_rows bigint")
    found = rows.groupBy(ATTEMPT).agg(F.count(F.lit(1)).alias("n_found"))
    whole = found.join(expected, ATTEMPT).where(F.col("n_found") == F.col("n_rows")).select(ATTEMPT)
    return rows.join(F.broadcast(whole), ATTEMPT, "left_semi").drop(ATTEMPT)


def published_rows(spark: SparkSession, output: Output, job: str, metrics: Sequence[str]) -> list[dict[str, Any]]:
    """SUMMARY of all complete runs of a job, some metrics over all users, on the driver.

    There is no row on the first night; nor where the runs so far were refused or were splits, which have no SUMMARY.
    """
    with step(spark, "what is published"):
        rows = _rows(spark, output, "summary")
        if rows is None or "job" not in rows.columns:
            return []
        rows = rows.where((F.col("job") == job) & (F.col("slice") == "all") & F.col("metric").isin(*metrics))
        return [row.asDict() for row in actions.collect_rows(rows)]


def rows_of_run(spark: SparkSession, output: Output, run: Run, *, table: str) -> DataFrame:
    """The rows of one complete run."""
    rows = read_history(spark, output, table=table)
    return rows.where((F.col("run_id") == (run.run_id or "none")) & (F.col("as_of") == (run.as_of or "none")))


def _known_table(name: str) -> None:
    if name not in _NAMES:
        raise ConfigError(f"table {name!r}: expected the name of a table of a run{did_you_mean(str(name), _NAMES)}")


def _stage(rows: DataFrame, output: Output, name: str, attempt: str) -> int:
    """Write the rows of an attempt, and count how many there are."""
    watch, spark = RowCounts.of(rows), rows.sparkSession
    with step(spark, f"writing {name}") as told:
        write.add_partitions(watch.observed_rows(), output, name, _PARTITIONS)
        n_sent: int = actions.observed_counts(watch)["rows"]

        def arrived() -> DataFrame | None:
            there = write.published_table(spark, output, name, rows.schema)
            return None if there is None else there.where(F.col(ATTEMPT) == attempt).agg(*watch.counts)

        n_found = sum(row["rows"] for row in actions.collect_with_retry(arrived))
        told.rows = n_sent
    if n_found != n_sent:
        raise PublishError(
            f"{write.destination(output, name)}: expected {n_sent} rows of this run, found {n_found} after they were written: "
            "nothing was published; see that nothing else writes into or cleans this place, and run again"
        )
    return n_sent


# The table `runs` -----------------------------------------------------------------------------------------------------------


def _attempts(spark: SparkSession, output: Output, identity: Mapping[str, str] | None = None) -> list[_Attempt]:
    """The committed attempts that are in `runs`, of one run or of all."""

    def entries() -> DataFrame | None:
        runs = write.published_table(spark, output, "runs", RUNS)
        if runs is None:
            return None
        for column, value in (identity or {}).items():
            runs = runs.where(F.col(column) == value)
        return runs.select(*_PARTITIONS, "sequence", "committed_at", "table", "n_rows")

    found: dict[str, dict[str, int]] = {}
    rows = actions.collect_with_retry(entries)
    for row in rows:
        found.setdefault(row[ATTEMPT], {})[row["table"]] = row["n_rows"]
    return [
        _Attempt(tuple(row[column] for column in RUN_COLUMNS), attempt, row["sequence"], row["committed_at"], found[attempt])
        for attempt, row in {row[ATTEMPT]: row for row in rows}.items()
    ]


def _newest(attempts: Iterable[_Attempt]) -> list[_Attempt]:
    """The attempt of each run that counts."""
    return list({known.run: known for known in sorted(attempts, key=lambda known: known.order)}.values())


def _published_columns(spark: SparkSession, output: Output) -> dict[str, dict[str, StructField]]:
    """The columns of each table that were published so far, by name; those of the first run come first."""

    def entries() -> DataFrame | None:
        runs = write.published_table(spark, output, "runs", RUNS)
        if runs is None:
            return None
        if ATTEMPT not in runs.columns:
            raise _not_ours(output, "runs", runs)
        # Almost all runs have the same columns, and their texts are long.
        return runs.groupBy("table", "columns").agg(F.min("committed_at").alias("since"))

    kinds = actions.collect_with_retry(entries)
    there = write.published_table(spark, output, "runs") if any(row["columns"] is None for row in kinds) else None
    if there is not None:
        raise _not_ours(output, "runs", there)
    found: dict[str, dict[str, StructField]] = {}
    for row in sorted(kinds, key=lambda row: (row["since"], row["columns"])):
        for column in StructType.fromJson(json.loads(row["columns"])):
            found.setdefault(row["table"], {}).setdefault(column.name, column)
    return found


# Columns ----------------------------------------------------------------------------------------------------------------


def _refuse_other_columns(spark: SparkSession, staged: Mapping[str, DataFrame], output: Output) -> None:
    """Raise where something else is in the place of a table, or a table has the columns with other types.

    Columns may be new. Only a table of the catalog cannot take them, since it is Delta alone that adds them by itself.
    """
    published = _published_columns(spark, output)
    for name, rows in staged.items():
        place = write.destination(output, name)
        # Files with committed rows are ours, and need no look into them for their columns.
        frame = write.published_table(spark, output, name) if output.path is None or name not in published else None
        if frame is not None and not {*_PARTITIONS} <= set(frame.columns):
            raise _not_ours(output, name, frame)
        in_catalog = output.path is None and frame is not None
        fields = frame.schema if in_catalog and frame is not None else published.get(name, {}).values()
        known = {field.name: field.dataType.simpleString() for field in fields}
        for column, kind in rows.dtypes:
            if known.get(column, kind) != kind:
                raise PublishError(
                    f"{place}: column {column}: expected {known[column]}, as in the runs there, found {kind}: "
                    f"write runs with other types to another {_key(output)}"
                )
        new = [f"{column} {kind}" for column, kind in rows.dtypes if column not in known]
        if new and in_catalog and output.format != "delta":
            raise PublishError(
                f"{place}: expected the columns {', '.join(known)}, found {', '.join(new)} beside them: "
                f"add them with ALTER TABLE, or write runs with other metrics to another {_key(output)}"
            )


def _not_ours(output: Output, name: str, found: DataFrame) -> PublishError:
    return PublishError(
        f"{write.destination(output, name)}: expected a table that this package has published, with the columns "
        f"{', '.join(_PARTITIONS)}, found the columns {printable(', '.join(found.columns))}: give another {_key(output)}"
    )


def _key(output: Output) -> str:
    return "output.table_prefix" if output.path is None else "output.path"


# Clean-up -----------------------------------------------------------------------------------------------------------------


def _clean_up(output: Output, identity: Mapping[str, str], committed: Sequence[_Attempt]) -> None:
    """Remove attempts of a run that nobody reads. Readers do not need it, so whatever hinders it is no failure of the run.

    Only files can be removed: without SQL text nothing deletes from a table of the catalog, and files of Delta belong to
    its log.
    """
    if output.path is None or output.format == "delta":
        return
    try:
        newest = _newest(committed)[0]
        # The report of a refused run stays beside the complete run that it does not replace, until a later one is complete.
        old = {known.attempt for known in committed if known.sequence < newest.sequence or "summary" in known.n_rows}
        _remove(output.path, identity, old - {newest.attempt}, {known.attempt for known in committed})
    except Exception as error:  # noqa: BLE001 - file systems fail in their own ways
        reason = printable(str(error))
        _log.warning("older attempts of this run stay in %s, readers of the history leave them out: %s", output.path, reason)


def _remove(path: str, identity: Mapping[str, str], superseded: set[str], committed: set[str]) -> None:
    """Remove folders of attempts. Their entries in `runs` stay, so that no reader of that table meets a file that has gone."""
    from pyarrow import fs

    files, root = fs.FileSystem.from_uri(path if ":/" in path else str(Path(path).absolute()))

    def inside(folder: str) -> list[Any]:
        # Where a path has no scheme, Spark may mean another file system; then there is no such folder here.
        return list(files.get_file_info(fs.FileSelector(folder, allow_not_found=True)))

    for name in _NAMES:
        table = inside(f"{root.rstrip('/')}/{name}")
        folders = table
        for column, value in identity.items():  # Spark has escaped what may not stand in a path
            folders = [
                one for folder in folders if unquote(folder.base_name) == f"{column}={value}" for one in inside(folder.path)
            ]
        attempts = {
            one.base_name.removeprefix(f"{ATTEMPT}="): one for one in folders if one.base_name.startswith(f"{ATTEMPT}=")
        }
        dead = [one for attempt, one in attempts.items() if attempt in superseded]
        dead += [one for attempt, one in attempts.items() if attempt not in committed and _abandoned(one)]
        dead += [one for one in table if one.base_name.startswith(".spark-staging-") and _abandoned(one)]
        for folder in dead:
            files.delete_dir(folder.path)


def _abandoned(folder: Any) -> bool:
    """Whether a folder is too old for a run that still writes. Object stores do not know the age of a folder."""
    return folder.mtime is not None and bool(folder.mtime < datetime.now(timezone.utc) - _ABANDONED)
