"""Arguments of evaluations, checked before anything is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from spark_recmetrics.columns import Columns, checked_columns
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.text import brief, printable, writable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Ranking = Literal["auto", "window", "lists"]
"""Where lists are ranked: by a window of Spark, or where they are scored; `auto`: there if their length is declared."""


def check_ranking(ranking: object, max_per_user: object) -> None:
    """Refuse an unknown way to rank, and one that does not see how long lists are where that is declared.

    Raises:
        ConfigError: It is such a one; the message begins with the option.
    """
    if ranking not in get_args(Ranking):
        raise ConfigError(f"ranking: expected one of 'auto', 'window' or 'lists', found {brief(ranking)}")
    if ranking == "window" and max_per_user is not None:
        raise ConfigError(
            f"max_per_user: expected none with ranking window, which does not count rows behind k, found {brief(max_per_user)}"
        )


def check_frames(columns: Columns, required: Mapping[str, DataFrame | None], **optional: DataFrame | None) -> None:
    """Refuse what is no Spark table.

    Args:
        columns: The names of columns.
        required: Tables that have to be there, by the name of the argument.
        optional: Tables that may be None.

    Raises:
        ConfigError: An argument is of another kind.
    """
    checked_columns(columns)
    for name, frame in {**required, **optional}.items():
        if frame is None and name not in required:
            continue
        # On Spark 3.5 a frame of Connect is of another class, so its kind is told by what it can do.
        if frame is None or not hasattr(frame, "sparkSession"):
            or_size = " or the number of items" if name == "catalog" else ""
            found = f"{type(frame).__module__}.{type(frame).__name__}"
            raise ConfigError(f"{name}: expected a Spark DataFrame{or_size}, found {found}")
        if frame.isStreaming:
            raise ConfigError(f"{name}: expected a table, found a stream: write it to a table and evaluate that")


def check_names(option: str, names: Sequence[str]) -> None:
    """Refuse what is no list of different names.

    Raises:
        ConfigError: It is not; the message begins with the option.
    """
    if not isinstance(names, list | tuple) or not names:
        raise ConfigError(f"{option}: expected a list of names, found {brief(names)}")
    for name in names:
        if not isinstance(name, str) or not name or not writable(name):
            raise ConfigError(f"{option}: expected names, texts without control characters, found {brief(name)}")
    if len(set(names)) < len(names):
        raise ConfigError(f"{option}: expected different names, found {printable(', '.join(names))}")
