"""The caller's pandas frames: columns by our names, numbers that are numbers, and ids that can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_recmetrics.columns import DECIMAL_COMMA, Columns, is_decimal_comma, near_column
from spark_recmetrics.errors import ConfigError, DataError
from spark_recmetrics.text import brief

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


def check_frame(name: str, frame: object, *, optional: bool) -> None:
    """Refuse what is no pandas frame.

    Raises:
        ConfigError: It is none.
    """
    import pandas as pd

    if not (isinstance(frame, pd.DataFrame) or (optional and frame is None)):
        found = f"{type(frame).__module__}.{type(frame).__name__}"
        raise ConfigError(f"{name}: expected a pandas DataFrame, found {found}: srm.evaluate takes frames of Spark")


def chosen_columns(table: str, frame: pd.DataFrame, names: Mapping[str, str], **reasons: str | None) -> pd.DataFrame:
    """The columns by our names. Why one is read is told where it is missing.

    Raises:
        DataError: One is missing, or stands there twice, or has a name that is no text.
    """
    for key, name in names.items():
        # Other columns are named by something else than the columns of the caller.
        told = f" (columns.{key})" if hasattr(Columns, key) else ""
        if name not in frame:
            for other in frame.columns:
                if not isinstance(other, str) and str(other) == name:
                    raise DataError(f"{table}: expected texts as names of columns, found {brief(other)}: rename it to {name!r}")
            why = f" ({reasons[key]})" if reasons.get(key) else ""
            near = near_column(name, [other for other in frame.columns if isinstance(other, str)])
            raise DataError(f"{table}: no column {name!r}{told}{why}{near}")
        if (twins := list(frame.columns).count(name)) > 1:
            raise DataError(f"{table}: expected one column named {name!r}{told}, found {twins}: rename the others")
    return frame[list(names.values())].set_axis(list(names), axis=1).reset_index(drop=True)


def _plain(column: pd.Series[Any], *, whole: bool) -> Any:
    """The values in a type of numpy; whole numbers beside a missing one stay as they are if that is wanted, or are doubles."""
    missing = column.isna()
    if not missing.any():
        return column.to_numpy()
    if whole and column.dtype.kind in "iu":
        # As doubles close ones would be equal.
        return column.astype(object).where(~missing, None)
    return column.to_numpy(np.float64)


def with_numbers(table: str, rows: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """The rows, where these columns are numbers; of whatever type that they are in, unless Python objects have to be read.

    Raises:
        DataError: A column has something else.
    """
    for key, name in names.items():
        column = rows[key]
        if column.dtype.kind in "iuf":
            if not isinstance(column.dtype, np.dtype):
                # Types of pandas that know a missing value compare as three-valued logic.
                rows = rows.assign(**{key: _plain(column, whole=key == "score")})
            continue
        # As on Spark True is no number, although it is one of Python's.
        wrong = [value for value in column.dropna() if not isinstance(value, Number) or isinstance(value, bool | complex)]
        whole = "" if key != "rank" else "whole "
        if column.dtype.kind != "O" or wrong:
            found = brief(wrong[0]) if wrong else str(column.dtype)
            told = f"{table}: column {name!r} (columns.{key}): expected {whole}numbers, found {found}"
            comma = bool(wrong) and isinstance(wrong[0], str) and is_decimal_comma(wrong[0])
            raise DataError(f"{told}{f', with {DECIMAL_COMMA}' if comma else ': cast it first'}")
        column = column.where(column.notna(), np.nan)
        try:
            doubles = column.astype(np.float64)
        except OverflowError as error:
            told = f"{table}: column {name!r} (columns.{key}): expected numbers that a double can hold, found larger ones"
            raise DataError(f"{told}: scale them down") from error
        if key != "score" or column.dtype != object:
            column = doubles
        rows = rows.assign(**{key: column})
    if "rank" in names:
        rank = rows["rank"].dropna().astype(np.float64)
        broken = rank[(rank % 1 != 0) | (rank.abs() >= 2.0**63)]
        if len(broken):
            told = (
                f"{table}: column {names['rank']!r} (columns.rank): expected whole numbers of 64 bits, found {broken.iloc[0]}"
            )
            raise DataError(f"{told}: ranks count from 1")
    return rows


def same_kind(frames: Mapping[str, pd.DataFrame], ids: Mapping[str, str]) -> dict[str, pd.DataFrame]:
    """The frames with ids that can be compared.

    Raises:
        DataError: Ids are floating point numbers, or of several kinds.
    """
    found = dict(frames)
    for key, name in ids.items():
        having = {table: frame for table, frame in frames.items() if key in frame}
        sides = {table: _kind(table, frame[key], f"column {name!r} (columns.{key})") for table, frame in having.items()}
        sides = {table: kind for table, kind in sides.items() if kind}
        if len(set(sides.values())) > 1:
            told = ", ".join(f"{kind} in {table}" for table, kind in sides.items())
            raise DataError(
                f"column {name!r} (columns.{key}): expected one type on all sides, found {told}: cast one of them first"
            )
        types = {found[table][key].dtype for table in having}
        if len(types) > 1 and not all(isinstance(kind, np.dtype) and kind.kind == "i" for kind in types):
            # Of whole numbers of different types pandas would make floats, in which close ids are equal.
            found |= {table: found[table].assign(**{key: _objects(found[table][key])}) for table in having}
    return found


def _kind(table: str, ids: pd.Series[Any], where: str) -> str | None:
    """What the ids of a column are, None where there is none."""
    known = ids.dropna()
    if not len(known) or ids.dtype.kind in "iu":
        return "whole numbers" if len(known) else None
    # pandas makes floats of whole numbers beside a missing one.
    if ids.dtype.kind == "f" and ids.isna().any() and not (known % 1 != 0).any():
        return "whole numbers"
    names = sorted({_type_name(kind) for kind in known.map(type).unique()})
    if len(names) > 1:
        found = ", ".join(names)
        raise DataError(f"{table}: {where}: expected ids of one kind, found {found}: cast them to one type first")
    if names[0] not in _KINDS:
        raise DataError(f"{table}: {where}: expected whole numbers or texts as ids, found {names[0]}: cast them first")
    return _KINDS[names[0]]


_KINDS = {"int": "whole numbers", "str": "str", "Decimal": "Decimal"}
"""What an id can be, by the type of its values, as on Spark: True would be the same id as 1, and a float is never quite one."""


def _type_name(kind: type) -> str:
    if issubclass(kind, str):
        return "str"
    return "int" if issubclass(kind, int | np.integer) and kind is not bool else kind.__name__


def _objects(ids: pd.Series[Any]) -> pd.Series[Any]:
    """Ids as Python objects, with whole numbers among them that pandas has made floats."""
    found = ids.astype(object)
    return found.map(int, na_action="ignore").astype(object) if ids.dtype.kind == "f" else found


class Ids:
    """Different ids, which have numbers from 0. For hash tables of pandas texts are equal up to a null character; not here.

    Args:
        columns: Columns with these ids, of one type or all of objects.
        ordered: The numbers ascend with the ids; else they are in the order of their first rows.

    Raises:
        DataError: They are to be ordered, and have no order.
    """

    def __init__(self, *columns: pd.Series[Any], ordered: bool = False) -> None:
        import pandas as pd

        every = pd.concat(columns, ignore_index=True)
        plain = every.dtype.kind in "iu"
        found: Any = every.unique() if plain else list(dict.fromkeys(every.tolist()))
        if ordered:
            try:
                found = sorted(found)
            except TypeError as error:
                raise DataError(f"items: expected whole numbers or texts as ids, found {type(found[0]).__name__}") from error
        # The type is named because pandas would look for another one in objects.
        self.index: pd.Index[Any] = pd.Index(found, dtype=every.dtype)
        self._numbers = None if plain else {one: number for number, one in enumerate(found)}

    def __len__(self) -> int:
        return len(self.index)

    def numbers(self, column: pd.Series[Any]) -> NDArray[np.int64]:
        """(L,) the number of each id of a column of the same type, -1 where it is none of these."""
        import pandas as pd

        if self._numbers is None:
            found: NDArray[np.int64] = self.index.get_indexer(pd.Index(column, dtype=column.dtype)).astype(np.int64)
            return found
        get = self._numbers.get
        return np.fromiter((get(one, -1) for one in column.tolist()), dtype=np.int64, count=len(column))
