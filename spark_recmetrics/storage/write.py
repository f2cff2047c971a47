"""Read and write the tables of an output."""

from __future__ import annotations

import logging
import re
import secrets
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession, types
from pyspark.sql import functions as F

from spark_recmetrics.errors import DataError, PublishError, reason_of
from spark_recmetrics.storage.actions import NOT_FOUND, NOT_ON_SERVERLESS, with_retries
from spark_recmetrics.storage.locations import Output, quoted, quoted_part
from spark_recmetrics.storage.read import causes_named

_log = logging.getLogger(__name__)

_CONFLICT = re.compile(
    "DELTA_CONCURRENT|DELTA_METADATA_CHANGED|DELTA_PROTOCOL_CHANGED|Concurrent|MetadataChanged|ProtocolChanged"
)
"""Error classes and exceptions of Delta for a table that another writer has changed meanwhile."""

_FILE_REMOVED = re.compile("FILE_NOT_EXIST|FileNotFoundException|File .* does not exist")
"""Errors of Spark for a file that was removed between listing and reading it."""

_CAUSE = re.compile(r"^\s*Caused by: [\w.$]+: (.+)$", re.MULTILINE)


def destination(output: Output, name: str) -> str:
    """Path of a table of the output, or its quoted name in the catalog."""
    return output.table(name) if output.path is not None else quoted(output.table(name))


def published_table(spark: SparkSession, output: Output, name: str, schema: types.StructType | None = None) -> DataFrame | None:
    """A table of the output as it is now, None if there is none. Raises `PublishError` if the format is another one."""
    # `schema` is that of parquet and ORC files, by default that of one of them. Delta and the catalog store schemas.
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
        _ = frame.schema  # Spark Connect looks a table up only when its schema is read
    except Exception as error:
        if NOT_FOUND.search(str(error)):
            return None
        raise PublishError(
            f"{target}: expected a table of spark-recmetrics in format {output.format}, but cannot read it: "
            f"{reason_of(error)}: use another output"
        ) from error
    return frame


def collect_published(
    spark: SparkSession, output: Output, name: str, schema: types.StructType, select: Callable[[DataFrame], DataFrame]
) -> list[Row]:
    """The few rows that are selected from a table of the output; none if it does not exist. Read again if files are removed."""

    def collect() -> list[Row]:
        table = published_table(spark, output, name, schema)
        return [] if table is None else select(table).collect()

    return with_retries(collect, _FILE_REMOVED, "files were removed while they were read")


def _refresh(spark: SparkSession, target: str) -> None:
    """Forget the cached file list of a catalog table, because another process may have written since."""
    # Serverless compute rejects this and does not need it: its tables are Delta, which reads the newest version every time.
    try:
        spark.catalog.refreshTable(target)
    except PySparkException as error:
        if NOT_ON_SERVERLESS not in str(error):
            raise
        _log.debug("not refreshed: %s", reason_of(error))


def add_partitions(rows: DataFrame, output: Output, name: str, partitions: Sequence[str]) -> None:
    """Write rows into new partitions of a table, made if needed; visible when the job ends, or never. Raises `PublishError`."""
    # The partition columns are the last columns.
    target = destination(output, name)
    try:
        with causes_named():  # of a table whose rows are read while they are written
            _write_partitions(rows, output, target, partitions)
    except DataError:
        raise
    except Exception as error:
        raise PublishError(
            f"cannot write {target!r}: {_reason_with_cause(error)}: check the location, the format and the permissions"
        ) from error


def _reason_with_cause(error: BaseException) -> str:
    """The reason, and the cause that a failed task had, such as a full disk."""
    reason, causes = reason_of(error), _CAUSE.findall(str(error))
    return reason if not causes or causes[-1] in reason else f"{reason}: {causes[-1].strip()[:200]}"


def _write_partitions(rows: DataFrame, output: Output, target: str, partitions: Sequence[str]) -> None:
    if output.format == "delta":  # which has written nothing if it reports a conflict
        with_retries(lambda: _append_to_delta(rows, output, target, partitions), _CONFLICT, f"{target}: concurrent write")
    elif output.path is not None:
        # Not an append: two appends share the folder `_temporary`, and the first to end deletes it with rows of the other,
        # without an error. A dynamic overwrite has its own staging folder and renames one folder per partition. It
        # overwrites nothing, because the partitions are new.
        writer = rows.write.format(output.format).mode("overwrite").option("partitionOverwriteMode", "dynamic")
        writer.partitionBy(*partitions).save(target)
    else:
        _insert(rows, output, target, partitions)


def _append_to_delta(rows: DataFrame, output: Output, target: str, partitions: Sequence[str]) -> None:
    writer = rows.write.format("delta").mode("append").option("mergeSchema", "true").partitionBy(*partitions)
    if output.path is not None:
        writer.save(target)
    else:
        writer.saveAsTable(target)


def _insert(rows: DataFrame, output: Output, target: str, partitions: Sequence[str]) -> None:
    spark = rows.sparkSession
    if not spark.catalog.tableExists(target):
        # Create it empty first: a run that is killed while it writes leaves no folder without a table. `saveAsTable` would
        # write a folder before the catalog rejects the name.
        columns = ", ".join(f"{quoted_part(field.name)} {_sql_type(field.dataType)}" for field in rows.schema.fields)
        parts = ", ".join(map(quoted_part, partitions))
        spark.sql(f"CREATE TABLE {target} ({columns}) USING {output.format} PARTITIONED BY ({parts})")
    # `insertInto` goes by position. It must append: it ignores the option of a dynamic overwrite, and a plain overwrite would
    # remove all other runs. Callers count the rows that have arrived.
    fields = spark.table(target).schema.fields
    missing = {field.name: F.lit(None).cast(field.dataType) for field in fields if field.name not in rows.columns}
    ordered = rows.select(*(missing.get(field.name, F.col(quoted_part(field.name))).alias(field.name) for field in fields))
    ordered.write.insertInto(target, overwrite=False)


def _sql_type(kind: types.DataType) -> str:
    """The type in SQL. Spark writes the fields of structs without quotes."""
    if isinstance(kind, types.ArrayType):
        return f"array<{_sql_type(kind.elementType)}>"
    if isinstance(kind, types.MapType):
        return f"map<{_sql_type(kind.keyType)}, {_sql_type(kind.valueType)}>"
    if isinstance(kind, types.StructType):
        return f"struct<{', '.join(f'{quoted_part(field.name)}: {_sql_type(field.dataType)}' for field in kind.fields)}>"
    return _sql_type(kind.sqlType()) if isinstance(kind, types.UserDefinedType) else kind.simpleString()


def probe_output(spark: SparkSession, output: Output) -> str | None:
    """Write a table of one row to the output and remove it; the path if it cannot be removed. Raises `PublishError`."""
    # Spark's DataFrame API deletes no files, so only a folder of this machine is removed. `_` hides it from readers.
    rows = spark.range(1).withColumn("part", F.lit("probe"))
    if output.path is not None:
        return _probe_path(rows, output, Path(re.sub("^file:/+", "/", output.path)))
    # A random name, so that no existing table is replaced or dropped.
    name = f"probe_{secrets.token_hex(8)}"
    add_partitions(rows, output, name, ["part"])
    target = destination(output, name)
    try:
        if hasattr(spark.catalog, "dropTable"):  # since Spark 4.2; Delta's parser rejects the statement
            spark.catalog.dropTable(target)
        else:
            spark.sql("DROP TABLE IDENTIFIER(:target)", args={"target": target})
    except Exception as error:
        raise PublishError(f"cannot remove {target!r}, delete it by hand: {reason_of(error)}") from error
    return None


def _probe_path(rows: DataFrame, output: Output, folder: Path) -> str | None:
    probe = folder / "_recmetrics_probe"
    created = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    add_partitions(rows, output, probe.name, ["part"])
    if not probe.is_dir():
        return destination(output, probe.name)
    try:
        shutil.rmtree(probe)
    except OSError:
        return str(probe)
    with suppress(OSError):  # keep what others have written there meanwhile
        for parent in created:
            parent.rmdir()
    return None
