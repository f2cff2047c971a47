"""Names of tables and columns as Spark reads them."""

from __future__ import annotations

import re

NOTHING_THERE = re.compile("PATH_NOT_FOUND|PATH_DOES_NOT_EXIST|UNABLE_TO_INFER_SCHEMA|DELTA_TABLE_NOT_FOUND")
"""What Spark and Delta say of a path without files, or with a log of Delta that another run has just begun. A killed run may
leave an empty folder, or such a log."""


def quoted(name: str) -> str:
    """The name of a catalog table with every part quoted once, so that hyphens and blanks can stand in it.

    Example:
        >>> quoted("my-cat.recs.`a.b`")
        '`my-cat`.`recs`.`a.b`'
    """
    parts = re.findall(r"`(?:[^`]|``)*`(?=\.|$)|[^.]+", name)
    return ".".join(part if re.fullmatch(r"`(?:[^`]|``)*`", part) else quoted_part(part) for part in parts)


def quoted_part(column: str) -> str:
    """The name of a column, or of one part of a table name, in quotes."""
    return "`" + column.replace("`", "``") + "`"
