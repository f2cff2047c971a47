"""Read and write tables. The only place that starts Spark jobs."""

from __future__ import annotations

import logging
import re
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F

from spark_recmetrics.errors import DataError, PublishError
from spark_recmetrics.outcome import Run
from spark_recmetrics.schema import RUN_COLUMNS

if TYPE_CHECKING:
    from spark_recmetrics.schema import Location, Output

_log = logging.getLogger(__name__)

_CSV_DEFAULTS = {"header": "true", "inferSchema": "true"}


def read_table(spark: SparkSession, location: Location, key: str) -> DataFrame:
    """The table at a location.

    Args:
        spark: The session.
        location: Path and format, or the name of a catalog table.
        key: The configuration key that the location stands under, for messages.

    Raises:
        DataError: There is no such path or table, or it cannot be read as that format.
    """
    try:
        if location.table:
            frame = spark.table(quoted(location.table))
        else:
            options = (_CSV_DEFAULTS if location.format == "csv" else {}) | dict(location.options)
            frame = spark.read.format(location.format).options(**options).load(location.path)
        _ = frame.schema  # Spark Connect looks a table up when its schema is asked for
    except Exception as error:
        where = f"table {location.table!r}" if location.table else f"{location.format} at {location.path!r}"
        raise DataError(f"{key}: cannot read {where}: {_first_line(error)}: check the location and the format") from error
    return frame


def distinct_models(predictions: DataFrame) -> list[str]:
    """The model names in a table of predictions, sorted; null is not a name."""
    rows = predictions.select("model").where(F.col("model").isNotNull()).distinct().collect()
    return sorted(row["model"] for row in rows)


def collect_rows(frame: DataFrame) -> list[Row]:
    """The rows of a table whose size does not depend on the number of users."""
    return frame.collect()


def count_distinct(frame: DataFrame) -> int:
    """How many different values the only column of a table has, null left out."""
    found: int = frame.agg(F.count_distinct(frame.columns[0])).collect()[0][0]
    return found


def observed(observation: Observation, rows: DataFrame, counts: Sequence[Column]) -> dict[str, Any]:
    """What a finished job observed of the rows of a table.

    Spark loses an observation where it finds that a branch of the plan cannot give a row, for instance beside an empty
    table. What was to be counted is counted by a job of its own then.
    """
    try:
        found = dict(observation.get)
    except Exception as error:  # noqa: BLE001 - what is raised for a lost one is an internal assertion, and differs by session
        _log.debug("observation lost: %s", _first_line(error))
        found = {}
    return found if "rows" in found else rows.agg(*counts).collect()[0].asDict()


def example_values(frame: DataFrame, column: str, n: int = 5) -> str | None:
    """Up to n smallest values of a column, as text."""
    rows = frame.select(column).orderBy(column).limit(n).collect()
    return ", ".join(str(row[0]) for row in rows) or None


def materialise(frame: DataFrame) -> DataFrame:
    """The frame kept after its first use, so that later readers do not compute it again.

    A session that refuses to keep it (serverless compute does) computes it anew for each reader, to the same rows.
    """
    try:
        return frame.persist()
    except PySparkException as error:
        _log.warning("this session does not keep tables, each reader computes PER_USER again: %s", _first_line(error))
        return frame


def release(frame: DataFrame) -> None:
    """Give back what `materialise` holds."""
    try:
        frame.unpersist()
    except PySparkException as error:
        _log.debug("nothing to give back: %s", _first_line(error))


def publish(frame: DataFrame, output: Output, name: str, run: Run) -> str:
    """Write the rows of one run into a table, in place of the rows that the run had there.

    Args:
        frame: The rows; the run's own columns may be among them.
        output: Where the tables are, and their format.
        name: Which table: `summary`, `per_user` or `data_report`.
        run: The run, whose `schema.RUN_COLUMNS` the table is partitioned by; what it lacks is `none` there.

    Returns:
        Path or name of the table.

    Raises:
        PublishError: The table is there with other columns, or cannot be written.
    """
    rows = frame.drop(*RUN_COLUMNS).withColumns({column: F.lit(getattr(run, column) or "none") for column in RUN_COLUMNS})
    target = output.table(name) if output.path is not None else quoted(output.table(name))
    # Only the partitions that the rows belong to are replaced.
    writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
    try:
        if output.path is not None:
            writer.format(output.format).partitionBy(*RUN_COLUMNS).save(target)
        elif not rows.sparkSession.catalog.tableExists(target):
            writer.format(output.format).partitionBy(*RUN_COLUMNS).saveAsTable(target)
        else:
            rows.select(*_same_columns(rows, target)).write.option("partitionOverwriteMode", "dynamic").insertInto(
                target, overwrite=True
            )
    except PublishError:
        raise
    except Exception as error:
        raise PublishError(f"cannot write {target!r}: {_first_line(error)}") from error
    return target


def try_output(spark: SparkSession, output: Output) -> str | None:
    """Write a table of one row where the output tables go, in the way of `publish`, and remove it. No other table is touched.

    Returns:
        The table, if it had to stay: Spark's DataFrame API deletes no files, so those of a path are deleted only where
        the path is a folder of this machine. It is always the same one then, and `_` hides it from readers. None: it is gone.

    Raises:
        PublishError: It cannot be written, or not be removed from the catalog.
    """
    if output.path is None:
        # Nobody has a table of this name, so none is replaced and none is dropped.
        target = publish(spark.range(1), output, f"probe_{secrets.token_hex(8)}", Run())
        try:
            spark.sql("DROP TABLE IDENTIFIER(:target)", args={"target": target})
        except Exception as error:
            raise PublishError(f"cannot remove {target!r}, delete it by hand: {_first_line(error)}") from error
        return None
    folder = Path(re.sub("^file:/+", "/", output.path))
    probe = folder / "_recmetrics_probe"
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    target = publish(spark.range(1), output, probe.name, Run())
    if not probe.is_dir():
        return target
    try:
        shutil.rmtree(probe)
    except OSError:
        return target
    with suppress(OSError):  # what others have written there meanwhile stays
        for place in made:
            place.rmdir()
    return None


def _same_columns(rows: DataFrame, target: str) -> list[str]:
    """The columns in the order of the catalog table, which inserts by position."""
    there = rows.sparkSession.table(target)
    if set(there.dtypes) != set(rows.dtypes):
        raise PublishError(
            f"table {target}: expected the columns {_shown(rows)}, found {_shown(there)}: "
            "write runs with other metrics or ids to another output.table_prefix"
        )
    return there.columns


def quoted(name: str) -> str:
    """The name of a catalog table with every part quoted once, so that hyphens and blanks can stand in it.

    Example:
        >>> quoted("my-cat.recs.`a.b`")
        '`my-cat`.`recs`.`a.b`'
    """
    parts = re.findall(r"`(?:[^`]|``)*`|[^.]+", name)
    return ".".join(part if part.startswith("`") else f"`{part}`" for part in parts)


def _shown(frame: DataFrame) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in frame.dtypes)


def _first_line(error: BaseException) -> str:
    return re.sub(r"\s+", " ", str(error).strip().splitlines()[0]) if str(error).strip() else type(error).__name__
