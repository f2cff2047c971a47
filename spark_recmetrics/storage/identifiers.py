"""Quoted names of tables and columns."""

from __future__ import annotations

import re


def quoted(name: str) -> str:
    """The name of a catalog table with each part quoted once, so that it may contain hyphens and spaces."""
    parts = re.findall(r"`(?:[^`]|``)*`(?=\.|$)|[^.]+", name)
    return ".".join(part if re.fullmatch(r"`(?:[^`]|``)*`", part) else quoted_part(part) for part in parts)


def quoted_part(name: str) -> str:
    """A column name, or one part of a table name, in quotes."""
    return "`" + name.replace("`", "``") + "`"
