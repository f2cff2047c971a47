"""Names of tables and columns as Spark reads them."""

from __future__ import annotations

import re


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
