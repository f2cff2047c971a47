"""Columns of an input table in the types that the caller gives. A value that its type cannot hold is an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_recmetrics.columns import is_decimal_comma, near_column
from spark_recmetrics.errors import DataError, reason_of
from spark_recmetrics.storage.identifiers import quoted_part
from spark_recmetrics.storage.table_schemas import type_named
from spark_recmetrics.text import brief, printable

_PARSED_AS = (
    "locale",
    "dateformat",
    "timestampformat",
    "timestampntzformat",
    "timezone",
    "nanvalue",
    "positiveinf",
    "negativeinf",
)
"""Options of the readers of CSV and JSON that say how numbers and times are written."""

_EXACT: Mapping[type[T.DataType], int] = {T.FloatType: 2**24, T.DoubleType: 2**53}
"""Floats of this size and above may stand for several integers."""


class _Typed(NamedTuple):
    """A column in its new type, and whether a value is lost."""

    column: Column
    is_lost: Column


def with_types(frame: DataFrame, types: Mapping[str, str], key: str, options: Mapping[str, str] | None) -> DataFrame:
    """The table with these columns in these types. `options`: of text files, whose columns of other types are strings.

    Raises:
        DataError: A column is missing, it cannot be cast, or the cast would lose a value: null where there was a value, a
            fraction cut off, or an integer that a floating point number does not show exactly.
    """
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    for name in types:
        if name not in kinds:
            raise DataError(f"{key}.types: no column {name!r}{near_column(name, frame.columns)}")
    cast = {name: target for name, target in types.items() if kinds[name].simpleString() != target}
    if not cast:
        return frame
    typed = {name: _typed(frame, name, kinds[name], target, options) for name, target in cast.items()}
    try:
        _check(frame, {name: column for name, column in typed.items() if cast[name] != "string"}, cast, key)
        result = frame.select(
            *(typed[name].column.alias(name) if name in typed else frame[quoted_part(name)] for name in frame.columns)
        )
        result.schema  # noqa: B018 - Spark Connect checks the casts only now
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001 - a pair of types without a cast
        found = ", ".join(f"{name}: {kinds[name].simpleString()}" for name in cast)
        raise DataError(f"{key}.types: cannot cast the columns {found}: {reason_of(error)}: set another type") from None
    return result


def _check(frame: DataFrame, typed: Mapping[str, _Typed], types: Mapping[str, str], key: str) -> None:
    if not typed:
        return
    lost = [F.when(column.is_lost, frame[quoted_part(name)].cast("string")) for name, column in typed.items()]
    examples = frame.select(*(column.alias(f"c{n}") for n, column in enumerate(lost)))
    row = examples.agg(*(F.min(name) for name in examples.columns)).collect()[0]
    for name, example in zip(typed, row, strict=True):
        if example is not None:
            advice = "set another type, such as string, or correct the values"
            if is_decimal_comma(example):
                advice = "write decimal points, or set options: {locale: de} and a decimal type (docs/inputs.md#decimal-commas)"
            found = f"found {printable(brief(example))}, which would be lost"
            raise DataError(f"{key}.types.{name}: expected values that {types[name]} can hold, {found}: {advice}")


def _typed(frame: DataFrame, name: str, source: T.DataType, target: str, options: Mapping[str, str] | None) -> _Typed:
    value, to = quoted_part(name), type_named(target)
    raw = frame[value]
    if isinstance(source, T.StringType) and isinstance(to, T.IntegralType):
        number = F.expr(f"try_cast({value} AS decimal(38,18))")  # 12.0 and 1e3 are integers, too
        typed = F.expr(f"try_cast(try_cast({value} AS decimal(38,18)) AS {target})")
        return _Typed(typed, _differs(raw, typed, number))
    if isinstance(source, T.StringType) and options is not None and target != "string":
        return _parsed(raw, value, to, options)
    typed = F.expr(f"try_cast({value} AS {target})")
    is_lost = raw.isNotNull() & typed.isNull()
    if isinstance(source, T.StringType):
        wide = F.expr(f"try_cast({value} AS decimal(38,18))")
        return _Typed(typed, _differs(raw, typed, wide) if isinstance(to, T.DecimalType) else raw.rlike(r"\S") & typed.isNull())
    if isinstance(to, T.IntegralType | T.DecimalType) and target != source.simpleString():
        back = F.expr(f"try_cast(try_cast({value} AS {target}) AS {source.simpleString()})")
        is_lost |= raw.isNotNull() & ~raw.eqNullSafe(back)
    if isinstance(to, T.IntegralType) and type(source) in _EXACT:
        is_lost |= F.abs(raw) >= _EXACT[type(source)]
    return _Typed(typed, is_lost)


def _parsed(raw: Column, value: str, to: T.DataType, options: Mapping[str, str]) -> _Typed:
    """A string of a text file, read as the options of its reader say."""
    given = {name: option for name, option in options.items() if name.lower() in _PARSED_AS}
    has_locale = any(name.lower() == "locale" for name in given)
    if isinstance(to, T.DecimalType) and not has_locale:
        # The reader would leave out commas: 3,5 would be 35.
        wide, typed = (F.expr(f"try_cast({value} AS {kind})") for kind in ("decimal(38,18)", to.simpleString()))
        return _Typed(typed, _differs(raw, typed, wide))
    typed = _from_text(raw, to, given)
    if isinstance(to, T.DecimalType):
        # 4.25 would be 425 where the point separates thousands.
        comma = _from_text(F.lit("0,5"), T.DecimalType(3, 1), given) == 0.5
        misread = F.coalesce(comma, F.lit(False)) & raw.rlike(r"\.(?!\d{3}(?!\d))")
        return _Typed(typed, misread | _differs(raw, typed, _from_text(raw, T.DecimalType(38, 18), given)))
    return _Typed(typed, raw.rlike(r"\S") & typed.isNull())


def _differs(raw: Column, typed: Column, exact: Column) -> Column:
    return raw.rlike(r"\S") & (typed.isNull() | F.coalesce(typed != exact, F.lit(False)))


def _from_text(raw: Column, to: T.DataType, options: Mapping[str, str]) -> Column:
    # Without quotes and a usual separator, the whole string is the field.
    as_field = {**options, "sep": "\x01", "quote": ""}
    parsed: Column = F.from_csv(raw, f"value {to.simpleString()}", as_field).getField("value")
    return parsed
