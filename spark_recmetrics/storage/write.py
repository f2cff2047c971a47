"""Read and write tables. The only place that starts Spark jobs."""

from __future__ import annotations

import logging
import re
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_recmetrics.errors import PublishError, reason_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from spark_recmetrics.storage.locations import Output

from spark_recmetrics.storage.actions import NOT_FOUND, NOT_ON_SERVERLESS, RETRIES
from spark_recmetrics.storage.identifiers import quoted, quoted_part

_log = logging.getLogger(__name__)

_CONFLICT = re.compile(
    "DELTA_CONCURRENT|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|Concurrent|MetadataChanged|ProtocolChanged"
)
"""What Delta says where another writer has changed the table meanwhile: names of its error classes and exceptions."""


def published_table(spark: SparkSession, output: Output, name: str, schema: StructType | None = None) -> DataFrame | None:
    """A table of the output as it is now, or None where there is none yet.

    Args:
        spark: The session.
        output: Where the tables are, and their format.
        name: Which table.
        schema: The columns of files of parquet and ORC; None: those of one file. Other tables know their own.

    Raises:
        PublishError: What is there cannot be read as a table of that format.
    """
    target = destination(output, name)
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
        if NOT_FOUND.search(str(error)):
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
    target = destination(output, name)
    for again in range(RETRIES, -1, -1):
        try:
            _add_partitions(rows, output, target, partitions)
        except Exception as error:
            # Delta has written nothing if it reports a conflict.
            if again and output.format == "delta" and _CONFLICT.search(str(error)):
                _log.warning("%s: another writer was faster, once more: %s", target, reason_of(error))
                continue
            raise PublishError(f"cannot write {target!r}: {reason_of(error)}: check the location and who may write") from error
        return


def probe_output(spark: SparkSession, output: Output) -> str | None:
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
        target = destination(output, name)
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
        return destination(output, probe.name)
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
    ordered = rows.select(*(null.get(field.name, F.col(quoted_part(field.name))) for field in there))
    ordered.write.insertInto(target, overwrite=False)


def _refresh(spark: SparkSession, target: str) -> None:
    """Forget the files of a table of the catalog: another process may have written since this session last looked.

    Serverless compute refuses that. Its tables are Delta, which looks at the newest version whenever it is read.
    """
    try:
        spark.catalog.refreshTable(target)
    except PySparkException as error:
        if NOT_ON_SERVERLESS not in str(error):
            raise
        _log.debug("not refreshed: %s", reason_of(error))


def destination(output: Output, name: str) -> str:
    """Path of a table of the output, or its name in the catalog, quoted.

    Example:
        >>> from spark_recmetrics.storage.locations import Output
        >>> destination(Output(table_prefix="my-cat.recs.nightly_"), "summary")
        '`my-cat`.`recs`.`nightly_summary`'
    """
    return output.table(name) if output.path is not None else quoted(output.table(name))
