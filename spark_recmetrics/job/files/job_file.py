"""The file of a job: what all of them have in common, and how one is read. Nothing here starts Spark.

`read` names everything that is wrong with a file in one error.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cache, partial
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    Strict,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.job.files.source import Keys, Source, shown
from spark_recmetrics.metrics.registry import LARGEST, whole_number
from spark_recmetrics.storage.locations import Location, Output, plain_text
from spark_recmetrics.text import did_you_mean

_JOB, _AS_OF = "A-Za-z0-9._-", "A-Za-z0-9._:+-"
_PLACEHOLDERS = ("as_of",)
_Placed = TypeVar("_Placed", Location, Output)
_Job = TypeVar("_Job", bound="Job")


def several(problems: Mapping[Keys, str]) -> ValidationError:
    """One error for several keys below the value that a function of ours has read."""
    kind = partial(PydanticCustomError, "told", "{reason}")
    details = [InitErrorDetails(type=kind({"reason": reason}), loc=keys, input=None) for keys, reason in problems.items()]
    return ValidationError.from_exception_data("several", details)


def whole(value: object, largest: int = LARGEST) -> int:
    """A whole number from 1. Its key stands before the message already."""
    # An integer of pydantic would take "10", 10.0 and True, too.
    try:
        return whole_number(value, "", largest)
    except ConfigError as error:
        raise ConfigError(str(error).removeprefix(": ")) from error


def _name(value: object, *, characters: str) -> str:
    # Such texts become parts of paths, so dots alone are none.
    if not isinstance(value, str) or not re.fullmatch(f"[{characters}]{{1,100}}", value) or not value.strip("._"):
        quotes = ": write it in quotes" if isinstance(value, int | float) else ""
        limit = " (at most 100)" if isinstance(value, str) and len(value) > 100 else ""
        raise ConfigError(f"expected a text of the characters {characters}{limit}, found {shown(value)}{quotes}")
    return value


def _label(value: object) -> str:
    text = _name(value, characters=_AS_OF)
    if (day := re.match(r"\d{4}-\d\d-\d\d(?!\d)", text)) is not None:
        try:
            date.fromisoformat(day[0])
        except ValueError:
            raise ConfigError(f"expected a day that there is, or a label of another form, found {shown(value)}") from None
    return text


def _fill(path: str, as_of: str | None = None) -> str:
    """The path with `{as_of}` replaced, if there is one. Braces around anything but one word are a glob, and stay."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in _PLACEHOLDERS:
            raise ConfigError(f"unknown placeholder {found[0]} in {path!r}{did_you_mean(found[1], _PLACEHOLDERS)}")
        return as_of or found[0]

    return re.sub(r"\{([A-Za-z_]\w*)\}", value, path)


def filled(path: str, as_of: str | None) -> str:
    """The path of a report with `as_of` in it.

    Example:
        >>> filled("/reports/{as_of}.html", "2026-11-28")
        '/reports/2026-11-28.html'
    """
    return _fill(path, as_of)


def _page(path: str) -> str:
    if re.match(r"\w[\w+.-]+:", path) or not path.lower().endswith((".html", ".htm")):
        raise ConfigError(f"expected the path of a .html file that the driver can write, found {shown(path)}")
    return _fill(plain_text(path))


def _placed(found: _Placed) -> _Placed:
    try:
        _fill(found.path or "")
    except ConfigError as error:
        raise several({("path",): str(error)}) from error
    return found


COUNT_SCHEMA = {"type": "integer", "minimum": 1, "maximum": LARGEST}

PlainText = Annotated[str, AfterValidator(plain_text)]
PagePath = Annotated[str, AfterValidator(_page)]
JobName = Annotated[
    str, PlainValidator(partial(_name, characters=_JOB)), WithJsonSchema({"type": "string", "pattern": f"^[{_JOB}]+$"})
]
AsOf = Annotated[str, PlainValidator(_label), WithJsonSchema({"type": "string", "pattern": f"^[{_AS_OF}]+$"})]
Count = Annotated[int, PlainValidator(whole), WithJsonSchema(COUNT_SCHEMA)]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
InputTable = Annotated[Location, AfterValidator(_placed)]
OutputTables = Annotated[Output, AfterValidator(_placed)]


class Section(BaseModel):
    """A part of the file: frozen, and no key but the known ones."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), use_attribute_docstrings=True)


class Job(Section):
    """What the file of every job has. Made by `read`."""

    tagged: ClassVar[tuple[Keys, ...]] = ()
    """Keys of unions, behind which pydantic names the part that it has read."""
    unhashed: ClassVar[tuple[str, ...]] = ("as_of",)
    """Keys that the hash does not stand for."""

    job: JobName
    """Name of the job, a part of the run id."""
    as_of: AsOf | None = None
    """The day or version that the job speaks of; --as-of of the command line is the stronger one."""

    def problems(self) -> dict[Keys, str]:
        """What is wrong between keys that are right by themselves, by key."""
        found: dict[Keys, str] = {}
        if self.as_of is None:
            for keys, place in places(self):
                if "{as_of}" in (place.path or ""):
                    found[(*keys, "path")] = f"{place.path!r} needs an as_of: give --as-of, or as_of in the file"
        return found

    @model_validator(mode="after")
    def _is_complete(self: _Job) -> _Job:  # noqa: PYI019 - Self is newer than Python 3.10
        problems = self.problems()
        if problems:
            raise several(problems)
        return self

    def located(self, place: _Placed) -> _Placed:
        """A location of this configuration with `as_of` filled into its path.

        Example:
            >>> Job(job="nightly", as_of="2026-11-28").located(Location(path="/data/{as_of}/truth")).path
            '/data/2026-11-28/truth'
        """
        return place if place.path is None else replace(place, path=_fill(place.path, self.as_of))

    def resolved(self) -> dict[str, Any]:
        """The file with every default filled in. Read again, it is the same configuration."""
        return self.model_dump(mode="json")

    @property
    def hash(self) -> str:
        """16 hex digits that stand for all that is resolved but the keys that are named as `unhashed`."""
        return _digest({key: value for key, value in self.resolved().items() if key not in self.unhashed})[:16]

    @property
    def run_id(self) -> str:
        """`r` and 12 hex digits that stand for job, as_of and configuration: a repeated run has the same."""
        return "r" + _digest([self.job, self.as_of, self.hash])[:12]

    @classmethod
    def file_schema(cls) -> dict[str, Any]:
        """The JSON Schema of the file, for editors."""
        schema = cls.model_json_schema()
        for section in schema["$defs"].values():
            section["additionalProperties"] = False  # pydantic before 2.9 does not say so of dataclasses
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def places(value: object, keys: Keys = ()) -> Iterator[tuple[Keys, Location | Output]]:
    """Every place that a configuration names, with the keys that it stands under."""
    if isinstance(value, Location | Output):
        yield keys, value
    elif isinstance(value, Section | dict):
        for key, item in value.items() if isinstance(value, dict) else value:
            yield from places(item, (*keys, key))


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def read(
    path: str | os.PathLike[str],
    choose: Callable[[Mapping[str, Any]], type[_Job]],
    overrides: Sequence[str] = (),
    as_of: str | None = None,
) -> _Job:
    """The configuration of a YAML, TOML or JSON file.

    Args:
        path: The file; its suffix tells the language.
        choose: The kind of job, by what the file says.
        overrides: Texts `key.key=value` that change the file, the value read as in YAML: `evaluation.top_k=[5, 10]`.
        as_of: Stronger than the one of the file.

    Raises:
        ConfigError: The file cannot be read, or something in it is wrong. All that is wrong is in one message, a line each:
            `FILE:LINE: key: what was expected and found`, or `--set key=value: key: …` where an override is the cause.
    """
    source = Source(path)
    for text in overrides:
        source.override(text)
    if as_of is not None:
        source.override(f"as_of={json.dumps(as_of)}", f"--as-of {as_of}")
    source.screen()
    found, kind = None, choose(source.data)
    try:
        found = kind.model_validate(source.data)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            loc = _keys(kind, detail["loc"])
            keys = source.written(loc)
            if keys not in source.refused:
                source.report(keys, _message(kind, detail, loc))
    problem = source.error()
    if found is None or problem:
        raise problem or ConfigError(f"{path}: refused")
    return found


def _keys(kind: type[Job], loc: Keys) -> Keys:
    """The keys without what pydantic adds to them: that a key is wrong itself, and which part of a union it has read."""
    if loc[-1:] == ("[key]",):
        return loc[:-1]
    return loc[:2] + loc[3:] if loc[:2] in kind.tagged and loc[2:3] in (("[table]",), ("[number]",)) else loc


_EXPECTED = {
    "string_type": "a text",
    "float_type": "a finite number",
    "finite_number": "a finite number",
    "tuple_type": "a list",
    "bool_type": "true or false",
    "int_type": "a whole number",
    **dict.fromkeys(("dict_type", "model_type", "dataclass_type"), "a mapping of keys to values"),
}


_BOUNDS = {
    "literal_error": ("expected", "one of"),
    "greater_than_equal": ("ge", "a number from"),
    "greater_than": ("gt", "a number above"),
    "less_than_equal": ("le", "a number up to"),
    "less_than": ("lt", "a number below"),
}
"""The field of pydantic's context that says what was expected, and the words before it."""


def _message(job: type[Job], detail: ErrorDetails, keys: Keys) -> str:
    """What pydantic found, in the words of this package."""
    kind, found = detail["type"], detail["input"]
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if kind == "missing":
        return "missing: this key has no default"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        key, known = str(keys[-1]), _known_keys(job, keys[:-1])
        return (
            "another name of a key that is given, too: keep one" if key in known else f"unknown key{did_you_mean(key, known)}"
        )
    expected = _EXPECTED.get(kind)
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        expected = f"{words} {detail['ctx'][key]}"
    if expected is None:
        return detail["msg"]
    quotes = ": write it in quotes" if kind == "string_type" and isinstance(found, int | float) else ""
    return f"expected {expected}, found {shown(found)}{quotes}"


@cache
def _known_keys(job: type[Job], keys: Keys) -> tuple[str, ...]:
    """The keys of a section, from the schema."""
    schema = job.file_schema()

    def plain(node: dict[str, Any]) -> dict[str, Any]:
        for several in ("anyOf", "oneOf", "allOf"):  # the section comes first, null last
            if several in node:
                return plain(node[several][0])
        return plain(schema["$defs"][node["$ref"].rpartition("/")[2]]) if "$ref" in node else node

    node = schema
    for key in keys:
        below = node["items"] if isinstance(key, int) else node.get("properties", {}).get(key) or node["additionalProperties"]
        node = plain(below)
    return tuple(node["properties"])
