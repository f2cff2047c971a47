"""Whether two tables may be in one place: a run that writes into its inputs spoils them for the next run."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable
from pathlib import Path

from spark_recmetrics.storage.identifiers import name_parts
from spark_recmetrics.storage.locations import Location, Output

_DEFAULT_FILE_SYSTEMS = {"", "file", "hdfs", "dbfs", "viewfs"}
"""Schemes that a path without a scheme may have."""

_OBJECT_STORES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
"""Other schemes for the same files."""

_GLOB = {"*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")", ",": "|"}


def shared_place(output: Output, location: Location, tables: Iterable[str]) -> str | None:
    """How the output and an input are related if one is in the other; None if they are apart. `tables` are written."""
    if output.path is not None and location.path is not None:
        return related_paths(output.path, location.path)
    if output.path is not None or location.table is None:
        return None
    return "includes" if any(_same_table(output.table(name), location.table) for name in tables) else None


def related_paths(written: str, read: str) -> str | None:
    """How a path that is written is related to a path that is read, which may be a glob; None if they are apart."""
    (system, target), (other_system, source) = _system_and_path(written), _system_and_path(read)
    if not _may_be_same_system(system, other_system):
        return None
    if {system[0], other_system[0]} <= {"", "file"}:
        target, source = map(os.path.realpath, (target, source))
    if target == source:
        return "is the same place as"
    pattern = _pattern(source)
    parents = [target]
    while parents[-1] != "/":
        parents.append(posixpath.dirname(parents[-1]))
    if any(pattern.fullmatch(parent) for parent in parents):
        return "lies inside"
    literal = re.split(r"[*?\[{]", source)[0]  # a folder that contains all files of the glob
    return "contains" if literal.startswith(target.rstrip("/") + "/") else None


def _system_and_path(path: str) -> tuple[tuple[str, str], str]:
    """Scheme and authority of a path, and the absolute path without `.`, `..` and repeated slashes."""
    match = re.fullmatch(r"(?:([A-Za-z][\w+.-]*):)?(?://([^/]*))?(.*)", path, re.DOTALL)
    scheme, authority, rest = match.groups(default="") if match is not None else ("", "", path)
    scheme = _OBJECT_STORES.get(scheme.lower(), scheme.lower())
    absolute = rest if scheme or authority else posixpath.join(Path.cwd(), rest)
    normal = posixpath.normpath("/" + absolute.lstrip("/"))
    if scheme in ("", "file") and normal.startswith("/dbfs/"):  # the mount of DBFS
        return ("dbfs", ""), normal.removeprefix("/dbfs")
    return (scheme, authority), normal


def _may_be_same_system(one: tuple[str, str], other: tuple[str, str]) -> bool:
    if one == other:
        return True
    if "" in (one[0], other[0]):
        return {one[0], other[0]} <= _DEFAULT_FILE_SYSTEMS
    return one[0] == other[0] and "" in (one[1], other[1])


def _pattern(glob: str) -> re.Pattern[str]:
    """The paths that a glob of Hadoop matches. One that is not valid matches only itself."""
    depth, pattern = 0, []
    for sign in re.findall(r"\\.|\[[^\]]*\]|\*+|.", glob, re.DOTALL):
        depth += (sign == "{") - (sign == "}")
        if sign.startswith("[") and len(sign) > 2:
            pattern.append(sign.replace("[!", "[^"))
        elif sign[0] in _GLOB and (sign != "," or depth):
            pattern.append(_GLOB[sign[0]])
        else:
            pattern.append(re.escape(sign[-1]))
    try:
        return re.compile("".join(pattern), re.DOTALL)
    except re.error:
        return re.compile(re.escape(glob))


def _same_table(one: str, other: str) -> bool:
    """Whether two names may mean one table: catalog and schema that a name lacks are those of the session."""
    parts, other_parts = ([part.strip("`").lower() for part in name_parts(name)] for name in (one, other))
    n = min(len(parts), len(other_parts))
    return parts[-n:] == other_parts[-n:]
