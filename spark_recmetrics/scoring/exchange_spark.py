"""Bring the rows of all tables to the workers in a single shuffle."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType, StructType

from spark_recmetrics.columns import KIND, rows_of_kind


def mixed(tables: Mapping[int, DataFrame], *, filled: bool = False) -> DataFrame:
    """The union of several tables. If there are several, the column `columns.KIND` says from which one a row is.

    A union needs one shuffle. A join would shuffle lists and ground truth once more.

    Args:
        tables: The tables by kind, each with a part of all columns.
        filled: Integers in columns that a table does not have are 0, not null. With a null, pandas would make doubles of
            them, in which close ids are equal.
    """
    if len(tables) == 1:
        return next(iter(tables.values()))
    types = {field.name: field.dataType for rows in tables.values() for field in rows.schema}

    def marked(kind: int, rows: DataFrame) -> DataFrame:
        missing = {
            name: F.lit(0 if filled and isinstance(kind, IntegralType) else None).cast(kind).alias(name)
            for name, kind in types.items()
            if name not in rows.columns
        }
        return rows.select(*(missing.get(name, F.col(name)) for name in types), F.lit(kind).cast("byte").alias(KIND))

    return reduce(DataFrame.union, (marked(kind, rows) for kind, rows in tables.items()))


def gathered(tables: Mapping[int, DataFrame]) -> DataFrame:
    """A row for each user: `user`, and for each kind an array of its rows, in the column `columns.rows_of_kind`.

    Spark collects the rows of a user within a partition before the shuffle, so that it shuffles far fewer rows and need not
    sort them by user.

    Args:
        tables: The tables by kind, each with `user`, never null, and other columns.
    """
    structs = {kind: StructType([field for field in rows.schema if field.name != "user"]) for kind, rows in tables.items()}

    def in_column(kind: int, rows: DataFrame) -> DataFrame:
        columns = {other: F.lit(None).cast(struct) for other, struct in structs.items()}
        columns[kind] = F.struct(*structs[kind].names)
        return rows.select("user", *(column.alias(rows_of_kind(other)) for other, column in columns.items()))

    rows = reduce(DataFrame.union, (in_column(kind, rows) for kind, rows in tables.items()))
    # A null is a row of another kind, and is not collected.
    return rows.groupBy("user").agg(*(F.collect_list(rows_of_kind(kind)).alias(rows_of_kind(kind)) for kind in structs))
