"""Read and write tables. The only place that starts Spark jobs."""

from __future__ import annotations

import inspect
import logging
import re
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_recmetrics import text_files
from spark_recmetrics.columns import DECIMAL_COMMA, WrongTypeError, is_decimal_comma
from spark_recmetrics.errors import DataError, PublishError, brief, printable, reason_of
from spark_recmetrics.watch import AGAIN

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from spark_recmetrics.credentials import Vault
    from spark_recmetrics.schema import Location, Output
    from spark_recmetrics.watch import Watch

_log = logging.getLogger(__name__)

_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
"""A text that is a number, as a pattern of Java."""

_NOTHING_THERE = re.compile("PATH_NOT_FOUND|PATH_DOES_NOT_EXIST|UNABLE_TO_INFER_SCHEMA|DELTA_TABLE_NOT_FOUND")
"""What Spark and Delta say of a path without files, or with a log of Delta that another run has just begun. A killed run may
leave an empty folder, or such a log."""

_CONFLICT = re.compile(
    "DELTA_CONCURRENT|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|Concurrent|MetadataChanged|ProtocolChanged"
)
"""What Delta says where another writer has changed the table meanwhile: names of its error classes and exceptions."""

_GONE = re.compile("FILE_NOT_EXIST|FileNotFoundException|File .* does not exist")
"""What Spark says where a file was removed between looking for it and reading it."""

_REFUSED = "NOT_SUPPORTED_WITH_SERVERLESS"
"""The error class of Databricks for what serverless compute does not let a session do."""

_RETRIES = 3
"""How often what another process has hindered is tried again."""

_THREADS_HAVE_SESSION = "session" in inspect.signature(InheritableThread.__init__).parameters
"""From Spark 4 on. On 3.5 a cast that is written in another thread has not the session's ANSI mode: it gives null for what it
cannot cast (seen on 3.5.0)."""

_PATIENCE = 10.0
"""Seconds until an observation of a finished job counts as lost. Spark tells it in less than one."""


def read_table(spark: SparkSession, location: Location, key: str, vault: Vault, ids: Sequence[str] = ()) -> DataFrame:
    """The table at a location.

    Args:
        spark: The session.
        location: Path and format, or the name of a catalog table.
        key: The configuration key that the location stands under, for messages.
        vault: Reads the secrets among the options.
        ids: The names of columns of ids, which may not be guessed to be numbers where that changes them.

    Raises:
        ConfigError: A secret is not there.
        DataError: There is no such path or table, it cannot be read as that format, it lacks a column whose type is given, or
            a CSV would lose fields of a line, or zeros that ids begin with.
    """
    options, is_csv = vault.options(location, key), location.format == "csv" and location.table is None
    if is_csv:
        options = text_files.with_defaults(options)
    lost: list[str] = []
    try:
        reader = spark.read.options(**options)  # of a table, too: Delta and Iceberg read an older version by them
        frame = reader.table(quoted(location.table)) if location.table else reader.format(location.format).load(location.path)
        # Spark Connect looks a table up when its schema is asked for.
        if frame.schema.fields and is_csv:
            files, looks = text_files.losses(spark, location, options, frame.schema, ids, key)
            examples = files.agg(*(look for look, _ in looks)).collect()[0] if looks else ()
            found = [(told, example) for (_, told), example in zip(looks, examples, strict=True) if example is not None]
            lost = [told(printable(brief(example))) for told, example in found]
    except Exception as error:  # noqa: BLE001 - it is told, but for the values of secrets
        where = f"table {location.table!r}" if location.table else f"{location.format} at {location.path!r}"
        # Spark quotes options in what it says. The error itself is left out of the chain for the same reason.
        reason = reason_of(error, vault.covered)
        found_none = _NOTHING_THERE.search(str(error))
        advice = (None if found_none else text_files.other_format(location)) or "check the location and the format"
        raise DataError(f"{key}: cannot read {where}: {reason}: {advice}") from None
    if lost:
        raise DataError(lost[0])
    if location.types:
        return reader.schema(text_files.typed(frame.schema, location.types, key)).load(location.path)
    return frame


@contextmanager
def with_examples() -> Iterator[None]:
    """Tell of a column of texts, where another type was expected, one of its texts, or that the table has no rows.

    A reader of text files makes texts of a column where a single value is no number, and where there is no row.

    Raises:
        DataError: In place of `WrongTypeError`.
    """
    try:
        yield
    except WrongTypeError as error:
        try:
            told = _with_example(error)
        except Exception as failed:  # noqa: BLE001 - a mistake is told without an example, too
            _log.debug("no example: %s", reason_of(failed))
            told = str(error)
        raise DataError(told) from None


def _with_example(error: WrongTypeError) -> str:
    found = error.found
    for table, texts in error.texts.items():
        text = F.col(_named(texts.columns[0]))
        rows = texts.where(text.isNotNull() & ~text.rlike(_NUMBER)).limit(1).collect()
        if rows and is_decimal_comma(rows[0][0]):
            return f"{found}, e.g. {brief(rows[0][0])} in {table}, with {DECIMAL_COMMA}"
        if rows:
            found += f", e.g. {printable(brief(rows[0][0]))} in {table}"
        elif not texts.limit(1).collect():
            return f"{table}: expected rows, found none, so that its columns are texts: check its location and filters"
    return f"{found}: {error.advice}"


def at_once(spark: SparkSession, *looks: Callable[[], Any]) -> list[Any]:
    """What several looks at tables find, by their order. Their jobs share the cluster, which small ones leave idle alone.

    Args:
        spark: The session.
        looks: Functions that start jobs, none of which needs what another one finds.

    Raises:
        BaseException: What the first of them raises that fails, when all have ended.
    """
    if not _THREADS_HAVE_SESSION:
        return [look() for look in looks]
    found: list[Any] = [None] * len(looks)
    failed: dict[int, BaseException] = {place: RuntimeError("the thread did not begin") for place in range(len(looks))}

    def look(place: int) -> None:
        try:
            found[place] = looks[place]()
            del failed[place]
        except BaseException as error:  # noqa: BLE001 - it is raised where the looks are waited for
            failed[place] = error

    # So they have the caller's job group, by which a notebook cancels its jobs, pool and tags.
    threads = [InheritableThread(target=look, args=(place,), session=spark, daemon=True) for place in range(len(looks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for place, error in sorted(failed.items())[1:]:
        _log.debug("look %d failed, too: %s", place, reason_of(error))
    if failed:
        raise failed[min(failed)]
    return found


def distinct_models(predictions: DataFrame) -> list[str]:
    """The model names in a table of predictions, sorted; null is not a name."""
    rows = predictions.select("model").where(F.col("model").isNotNull()).distinct().collect()
    return sorted(row["model"] for row in rows)


def collect_rows(frame: DataFrame) -> list[Row]:
    """The rows of a table whose size does not depend on the number of users."""
    return frame.collect()


def collect_again(look: Callable[[], DataFrame | None], tries: int = _RETRIES) -> list[Row]:
    """The rows of a small table that others may be cleaning; none where there is no table.

    Args:
        look: Looks the table up.
        tries: How often it is asked again where a file has gone since it looked.
    """
    try:
        frame = look()
        return [] if frame is None else frame.collect()
    except Exception as error:
        if not tries or not _GONE.search(str(error)):
            raise
        _log.debug("looking again: %s", reason_of(error))
    return collect_again(look, tries - 1)


def count_distinct(frame: DataFrame) -> int:
    """How many different values the only column of a table has, null left out."""
    found: int = frame.agg(F.count_distinct(frame.columns[0])).collect()[0][0]
    return found


def observed(watch: Watch) -> dict[str, Any]:
    """What a finished job observed of the rows of a table.

    Spark loses an observation where it finds that a branch of the plan cannot give a row, for instance beside an empty
    table, and counts rows again that an executor had read before it was lost. What was to be counted is counted by a job of
    its own then.
    """
    found = _told(watch)
    if "rows" in found and found.pop(AGAIN, None) == 0:
        return found
    if found:
        _log.warning("tasks were run again and counted rows again; they are counted once more in a job of their own")
    return watch.rows.agg(*watch.counts).collect()[0].asDict()


def _told(watch: Watch) -> dict[str, Any]:
    """What Spark says of an observation; nothing if it was lost."""
    told = dict[str, Any]()

    def ask() -> None:
        try:
            told.update(watch.observation.get)
        except Exception as error:  # noqa: BLE001 - what is raised for a lost one is an internal assertion, and differs by session
            _log.debug("observation lost: %s", reason_of(error))

    # Before 3.5.8, 4.0.2 and 4.1 (SPARK-54620) Spark waits for a lost one for ever: then nobody waits with it.
    asking = threading.Thread(target=ask, name="observation", daemon=True)
    asking.start()
    asking.join(_PATIENCE)
    return {} if asking.is_alive() else told


def example_values(frame: DataFrame, n: int = 5, sep: str = ", ") -> str:
    """Up to n smallest values of the only column of a table, as text."""
    return sep.join(str(row[0]) for row in frame.orderBy(frame.columns[0]).limit(n).collect())


def materialise(frame: DataFrame) -> DataFrame:
    """The frame kept after its first use, so that later readers do not compute it again.

    A session that refuses to keep it (serverless compute does) computes it anew for each reader, to the same rows.
    """
    try:
        return frame.persist()
    except PySparkException as error:
        _log.warning("this session does not keep tables, each reader computes this one again: %s", reason_of(error))
        return frame


def is_kept(frame: DataFrame) -> bool:
    """Whether the session keeps a frame of `materialise`; one that lets nobody ask keeps nothing."""
    try:
        level = frame.storageLevel
    except PySparkException as error:
        _log.debug("nothing to ask for: %s", reason_of(error))
        return False
    return level.useMemory or level.useDisk


def release(frame: DataFrame) -> None:
    """Give back what `materialise` holds."""
    try:
        frame.unpersist()
    except PySparkException as error:
        _log.debug("nothing to give back: %s", reason_of(error))


def published(spark: SparkSession, output: Output, name: str, schema: StructType | None = None) -> DataFrame | None:
    """A table of the output as it is now, or None where there is none yet.

    Args:
        spark: The session.
        output: Where the tables are, and their format.
        name: Which table.
        schema: The columns of files of parquet and ORC; None: those of one file. Other tables know their own.

    Raises:
        PublishError: What is there cannot be read as a table of that format.
    """
    target = place(output, name)
    try:
        if output.path is None:
            if not spark.catalog.tableExists(target):
                return None
            _refresh(spark, target)
            frame = spark.table(target)
        else:
            reader = spark.read.format(output.format)
            frame = (reader if schema is None or output.format == "delta" else reader.schema(schema)).load(target)
        _ = frame.schema  # Spark Connect looks a table up when its schema is asked for
    except Exception as error:
        if _NOTHING_THERE.search(str(error)):
            return None
        raise PublishError(
            f"{target}: expected a table of spark-recmetrics in format {output.format}, found what cannot be read: "
            f"{reason_of(error)}: give another output"
        ) from error
    return frame


def add_partitions(rows: DataFrame, output: Output, name: str, partitions: Sequence[str]) -> None:
    """Write rows into partitions that do not exist yet, which become visible when the job ends, or never.

    Args:
        rows: The rows, with the columns of the partitions last.
        output: Where the tables are, and their format.
        name: Which table; it is made if it is not there.
        partitions: The columns that the table is partitioned by.

    Raises:
        PublishError: The rows cannot be written.
    """
    target = place(output, name)
    for again in range(_RETRIES, -1, -1):
        try:
            _add_partitions(rows, output, target, partitions)
        except Exception as error:
            # Delta has written nothing if it reports a conflict.
            if again and output.format == "delta" and _CONFLICT.search(str(error)):
                _log.warning("%s: another writer was faster, once more: %s", target, reason_of(error))
                continue
            raise PublishError(f"cannot write {target!r}: {reason_of(error)}: check the location and who may write") from error
        return


def try_output(spark: SparkSession, output: Output) -> str | None:
    """Write a table of one row where the output tables go, as they are written, and remove it. No other table is touched.

    Returns:
        The table, if it had to stay: Spark's DataFrame API deletes no files, so those of a path are deleted only where
        the path is a folder of this machine. It is always the same one then, and `_` hides it from readers. None: it is gone.

    Raises:
        PublishError: It cannot be written, or not be removed from the catalog.
    """
    rows = spark.range(1).withColumn("part", F.lit("probe"))
    if output.path is None:
        # Nobody has a table of this name, so none is replaced and none is dropped.
        name = f"probe_{secrets.token_hex(8)}"
        add_partitions(rows, output, name, ["part"])
        target = place(output, name)
        try:
            if hasattr(spark.catalog, "dropTable"):  # from Spark 4.2 on; the parser of Delta refuses the statement
                spark.catalog.dropTable(target)
            else:
                spark.sql("DROP TABLE IDENTIFIER(:target)", args={"target": target})
        except Exception as error:
            raise PublishError(f"cannot remove {target!r}, delete it by hand: {reason_of(error)}") from error
        return None
    folder = Path(re.sub("^file:/+", "/", output.path))
    probe = folder / "_recmetrics_probe"
    made = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    add_partitions(rows, output, probe.name, ["part"])
    if not probe.is_dir():
        return place(output, probe.name)
    try:
        shutil.rmtree(probe)
    except OSError:
        return str(probe)
    with suppress(OSError):  # what others have written there meanwhile stays
        for parent in made:
            parent.rmdir()
    return None


def _add_partitions(rows: DataFrame, output: Output, target: str, partitions: Sequence[str]) -> None:
    if output.format == "delta":
        writer = rows.write.format("delta").mode("append").option("mergeSchema", "true").partitionBy(*partitions)
        if output.path is not None:
            writer.save(target)
        else:
            writer.saveAsTable(target)
        return
    # Two appends to one folder share its `_temporary`, and the first to end deletes it, with rows of the other that are then
    # missing without an error. A dynamic overwrite has a staging folder of its own, and renames one whole folder for each
    # partition. Nothing is overwritten, since the partitions are new.
    if output.path is not None:
        writer = rows.write.format(output.format).mode("overwrite").option("partitionOverwriteMode", "dynamic")
        writer.partitionBy(*partitions).save(target)
        return
    spark = rows.sparkSession
    if not spark.catalog.tableExists(target):
        # An empty table first, so that a run that is killed while it writes leaves no folder without its table.
        spark.createDataFrame([], rows.schema).write.format(output.format).partitionBy(*partitions).saveAsTable(target)
    # A catalog table inserts by position. It can only append: it does not look at the option of a dynamic overwrite, and an
    # overwrite without it would take away all other runs. So callers count what has arrived.
    there = spark.table(target).schema.fields
    null = {field.name: F.lit(None).cast(field.dataType).alias(field.name) for field in there if field.name not in rows.columns}
    ordered = rows.select(*(null.get(field.name, F.col(_named(field.name))) for field in there))
    ordered.write.insertInto(target, overwrite=False)


def _refresh(spark: SparkSession, target: str) -> None:
    """Forget the files of a table of the catalog: another process may have written since this session last looked.

    Serverless compute refuses that. Its tables are Delta, which looks at the newest version whenever it is read.
    """
    try:
        spark.catalog.refreshTable(target)
    except PySparkException as error:
        if _REFUSED not in str(error):
            raise
        _log.debug("not refreshed: %s", reason_of(error))


def place(output: Output, name: str) -> str:
    """Path of a table of the output, or its name in the catalog, quoted.

    Example:
        >>> from spark_recmetrics.schema import Output
        >>> place(Output(table_prefix="my-cat.recs.nightly_"), "summary")
        '`my-cat`.`recs`.`nightly_summary`'
    """
    return output.table(name) if output.path is not None else quoted(output.table(name))


def quoted(name: str) -> str:
    """The name of a catalog table with every part quoted once, so that hyphens and blanks can stand in it.

    Example:
        >>> quoted("my-cat.recs.`a.b`")
        '`my-cat`.`recs`.`a.b`'
    """
    parts = re.findall(r"`(?:[^`]|``)*`(?=\.|$)|[^.]+", name)
    return ".".join(part if re.fullmatch(r"`(?:[^`]|``)*`", part) else _named(part) for part in parts)


def _named(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"
