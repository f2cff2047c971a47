"""Bring the rows of predictions, truth, training tables and slices together, without moving any of them twice."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType, StructType

from spark_recmetrics.columns import KIND, rows_of_kind


def mixed(tables: Mapping[int, DataFrame], *, filled: bool = False) -> DataFrame:
    """The rows of several tables, which `columns.KIND` tells apart where there are several, and `beside.split` takes apart.

    So they come to the users by one move: a join would move lists and truth once more.

    Args:
        tables: The tables by kind, each with some of the columns of all.
        filled: Whole numbers that a table lacks are 0, not null. A null among them would make doubles of all of them in
            pandas, in which close ids are equal.
    """
    if len(tables) == 1:
        return next(iter(tables.values()))
    fields = {field.name: field.dataType for rows in tables.values() for field in rows.schema}

    def marked(kind: int, rows: DataFrame) -> DataFrame:
        missing = {
            name: F.lit(0 if filled and isinstance(of, IntegralType) else None).cast(of).alias(name)
            for name, of in fields.items()
            if name not in rows.columns
        }
        return rows.select(*(missing.get(name, F.col(name)) for name in fields), F.lit(kind).cast("byte").alias(KIND))

    return reduce(lambda one, other: one.union(other), (marked(kind, rows) for kind, rows in tables.items()))


def gathered(tables: Mapping[int, DataFrame]) -> DataFrame:
    """A row for each user, `user` and for each kind an array of its rows, named by `columns.rows_of_kind`.

    Spark gathers what it reads of a user in one place before it moves it, so that far fewer rows are moved and none is sorted
    by its user afterwards.

    Args:
        tables: The tables by kind, each with `user`, never null, and other columns.
    """
    one = {kind: StructType([field for field in rows.schema if field.name != "user"]) for kind, rows in tables.items()}

    def apart(kind: int, rows: DataFrame) -> DataFrame:
        own, arrays = F.struct(*one[kind].names), [F.lit(None).cast(of) for of in one.values()]
        arrays[list(one).index(kind)] = own
        return rows.select("user", *(array.alias(rows_of_kind(other)) for other, array in zip(one, arrays, strict=True)))

    rows = reduce(lambda one, other: one.union(other), (apart(kind, rows) for kind, rows in tables.items()))
    # A null, which is a row of another kind, is not collected.
    return rows.groupBy("user").agg(*(F.collect_list(rows_of_kind(kind)).alias(rows_of_kind(kind)) for kind in one))
