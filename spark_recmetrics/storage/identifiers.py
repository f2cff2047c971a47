"""Quoted names of tables and columns."""

from __future__ import annotations

import re


def name_parts(name: str) -> list[str]:
    """The parts of the name of a catalog table as they are written; a part in backticks may contain dots."""
    return re.findall(r"(?:^|\.)(`(?:[^`]|``)*`(?=\.|$)|[^.]*)", name)


def quoted(name: str) -> str:
    """The name of a catalog table with each part quoted once, so that it may contain hyphens and spaces."""
    return ".".join(part if re.fullmatch(r"`(?:[^`]|``)*`", part) else quoted_part(part) for part in name_parts(name))


def quoted_part(name: str) -> str:
    """A column name, or one part of a table name, in quotes."""
    return "`" + name.replace("`", "``") + "`"
