"""What the configurations of all jobs have in common, and how they are read from a file. Nothing here starts Spark."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from functools import cache, partial
from inspect import signature
from typing import Annotated, Any, ClassVar, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    SerializerFunctionWrapHandler,
    Strict,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    WrapSerializer,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.job.files.placeholders import fill_as_of, placeholder_problems
from spark_recmetrics.job.files.source import Keys, Source, dotted
from spark_recmetrics.metrics.registry import LARGEST, checked_integer
from spark_recmetrics.runs.identity import Run
from spark_recmetrics.storage.locations import Location, Output, Relation, path_in_input, plain_text, shared_place
from spark_recmetrics.text import brief_value, did_you_mean

_JOB, _AS_OF = "A-Za-z0-9._-", "A-Za-z0-9._:+-"
_Place = TypeVar("_Place", Location, Output)
_Job = TypeVar("_Job", bound="Job")


def errors_by_key(problems: Mapping[Keys, str]) -> ValidationError:
    """One error of pydantic for problems at several keys below a value."""
    errors = {keys: PydanticCustomError("problem", "{reason}", {"reason": reason}) for keys, reason in problems.items()}
    details = [InitErrorDetails(type=error, loc=keys, input=None) for keys, error in errors.items()]
    return ValidationError.from_exception_data("problems", details)


@contextmanager
def errors_of_options() -> Iterator[None]:
    """Turn an error `option: message` of a check into an error at the key of that option."""
    try:
        yield
    except ConfigError as error:
        option, _, message = str(error).partition(": ")
        raise errors_by_key({(option,): message}) from error


def _name(value: object, *, characters: str) -> str:
    # Names become parts of paths, so a name of dots alone is rejected.
    if not isinstance(value, str) or not re.fullmatch(f"[{characters}]{{1,100}}", value) or not value.strip("._"):
        quotes = ": write it in quotes" if isinstance(value, int | float) else ""
        limit = " (at most 100)" if isinstance(value, str) and len(value) > 100 else ""
        raise ConfigError(f"expected a string of the characters {characters}{limit}, found {brief_value(value)}{quotes}")
    return value


def _label(value: object) -> str:
    text = _name(value, characters=_AS_OF)
    if (day := re.match(r"\d{4}-\d\d-\d\d(?!\d)", text)) is not None:
        try:
            date.fromisoformat(day[0])
        except ValueError:
            raise ConfigError(f"expected a valid date, or a label in another format, found {brief_value(value)}") from None
    return text


def _page(path: str) -> str:
    if re.match(r"\w[\w+.-]+:", path) or not path.lower().endswith((".html", ".htm")):
        raise ConfigError(f"expected the path of a .html file that the driver can write, found {brief_value(path)}")
    return plain_text(path)


def _without_empty_filter(place: Location, serialize: SerializerFunctionWrapHandler) -> Any:
    """A location without a filter has the hash that it had before there were filters."""
    return {key: value for key, value in serialize(place).items() if value or key != "where"}


COUNT_SCHEMA = {"type": "integer", "minimum": 1, "maximum": LARGEST}

PlainText = Annotated[str, AfterValidator(plain_text)]
PagePath = Annotated[str, AfterValidator(_page)]
JobName = Annotated[
    str, PlainValidator(partial(_name, characters=_JOB)), WithJsonSchema({"type": "string", "pattern": f"^[{_JOB}]+$"})
]
AsOf = Annotated[str, PlainValidator(_label), WithJsonSchema({"type": "string", "pattern": f"^[{_AS_OF}]+$"})]
Count = Annotated[int, PlainValidator(partial(checked_integer, name="")), WithJsonSchema(COUNT_SCHEMA)]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
InputTable = Annotated[Location, WrapSerializer(_without_empty_filter)]


class Section(BaseModel):
    """A section of the file: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), use_attribute_docstrings=True)


class Job(Section):
    """What the configurations of all jobs have in common."""

    unhashed: ClassVar[tuple[str, ...]] = ("as_of",)
    """Keys that the hash leaves out."""
    tables: ClassVar[tuple[str, ...]] = ()
    """The tables of the output that the job writes."""
    between: ClassVar[tuple[Callable[..., dict[Keys, str]], ...]] = ()
    """Checks between sections: each takes the sections that its parameters name, and returns problems by key."""

    job: JobName
    """Name of the job, a part of the run id."""
    as_of: AsOf | None = None
    """Date or version of the data; --as-of of the command line overrides it."""

    @classmethod
    def read(cls: type[_Job], source: Source) -> _Job:  # noqa: PYI019 - Self is newer than Python 3.10
        """The configuration of a file. Raises `ConfigError` with one line `FILE:LINE: key: ...` per problem."""
        known = {key: value for key, value in source.data.items() if key in cls.model_fields}
        for keys, problem in placeholder_problems(known).items():
            source.reject(keys, problem)
        config, sections = None, dict[str, Any]()
        try:
            config = cls.model_validate(source.data)
            sections = dict(config)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                loc = _keys(detail["loc"])
                keys = source.keys_in_file(loc)
                if keys not in source.rejected:
                    source.report(keys, partial(_message, cls, detail, loc))
            sections = cls._valid_sections(source)
        for keys, problem in cls.problems(sections).items():
            source.report(keys, problem)
        source.raise_problems()
        return cast("_Job", config)

    @classmethod
    def _valid_sections(cls, source: Source) -> dict[str, Any]:
        """The sections without errors. A section that is not in the file is only known if no unknown key may belong to it."""
        unknown = source.wrong_sections - cls.model_fields.keys()
        wrong = source.wrong_sections.union(*(_sections_with(cls, str(key)) for key in unknown))
        sections = {}
        for name, field in cls.model_fields.items():
            if name in source.data and name not in wrong:
                kind: Any = Annotated[(field.annotation, name, *field.metadata)]
                sections[name] = TypeAdapter(kind).validate_python(source.data[name])
            elif name not in source.data and not unknown and not field.is_required():
                sections[name] = field.get_default(call_default_factory=True)
        return sections

    @classmethod
    def problems(cls, sections: Mapping[str, Any]) -> dict[Keys, str]:
        """Problems between sections that are valid by themselves, by key. Checks of other sections are left out."""
        problems: dict[Keys, str] = {}
        for check in cls.between:
            names = signature(check).parameters
            if names.keys() <= sections.keys():
                problems |= check(**{name: sections[name] for name in names})
        return problems | cls._place_problems(sections)

    @classmethod
    def _place_problems(cls, sections: Mapping[str, Any]) -> dict[Keys, str]:
        """Places that are written although an input is there."""
        problems: dict[Keys, str] = {}
        as_of, output, report = (sections.get(key) for key in ("as_of", "output", "report"))
        for keys, place in _locations_in(sections):
            source = filled(place, as_of)
            if output is not None and (relation := shared_place(filled(output, as_of), source, cls.tables)) is not None:
                key = "table_prefix" if output.path is None else "path"
                problems["output", key] = _spoilt(getattr(output, key), relation, keys, source)
            if report is not None and (relation := path_in_input(fill_as_of(report, as_of), source)) is not None:
                problems["report",] = _spoilt(report, relation, keys, source)
        return problems

    def located(self, place: _Place) -> _Place:
        """A location of this configuration with `as_of` filled in."""
        return filled(place, self.as_of)

    @property
    def located_inputs(self) -> dict[Keys, Location]:
        """The locations of all inputs by their keys, with `as_of` filled in."""
        return {keys: self.located(place) for keys, place in _locations_in(self)}

    def resolved(self) -> dict[str, Any]:
        """The configuration with all its defaults. Read as a file, it is the same configuration."""
        return self.model_dump(mode="json")

    @property
    def hash(self) -> str:
        """16 hex digits of a hash of the resolved configuration without the keys in `unhashed`."""
        return _digest(_hashed({key: value for key, value in self.resolved().items() if key not in self.unhashed}))[:16]

    @property
    def run_id(self) -> str:
        """`r` and 12 hex digits of a hash of job, as_of and configuration, so a repeated run has the same run id."""
        return "r" + _digest([self.job, self.as_of, self.hash])[:12]

    @property
    def run(self) -> Run:
        """The identity of the run in published tables."""
        return Run(self.run_id, self.as_of, self.hash, self.job)

    @property
    def title(self) -> str:
        """Job and as_of for people."""
        return self.job if self.as_of is None else f"{self.job}, as of {self.as_of}"

    @classmethod
    def file_schema(cls) -> dict[str, Any]:
        """The JSON Schema of the file, for editors."""
        schema = cls.model_json_schema()
        for section in schema["$defs"].values():
            section["additionalProperties"] = False  # pydantic before 2.9 omits it for dataclasses
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def filled(place: _Place, as_of: str | None) -> _Place:
    """A location with `as_of` filled in, if it is known."""
    return replace(place, **{key: fill_as_of(value, as_of) for key, value in vars(place).items()})


def _spoilt(written: str, relation: Relation, keys: Keys, source: Location) -> str:
    key, place = ("table", source.table) if source.path is None else ("path", source.path)
    return f"{written!r} {relation} {dotted((*keys, key))} {place!r}: set another place: the run would change its own input"


def _locations_in(value: object, keys: Keys = ()) -> Iterator[tuple[Keys, Location]]:
    """All locations in a configuration, or in sections of it, each with its keys."""
    if isinstance(value, Location):
        yield keys, value
    elif isinstance(value, Section | Mapping):
        for key, item in value.items() if isinstance(value, Mapping) else value:
            yield from _locations_in(item, (*keys, key))


def _hashed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with the former default of a format that is found out: the run ids stay those of earlier versions."""
    hashed = {key: _hashed(value) if isinstance(value, dict) else value for key, value in values.items()}
    return hashed | ({"format": "parquet"} if hashed.get("format", "") is None else {})


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _keys(loc: Keys) -> Keys:
    """The location of an error of pydantic without the parts that are not keys: `[key]`, and the tags of `Catalog`."""
    if loc[-1:] == ("[key]",):
        return loc[:-1]
    return loc[:2] + loc[3:] if loc[1:3] in (("catalog", "[table]"), ("catalog", "[number]")) else loc


_EXPECTED = {
    "string_type": "a string",
    "tuple_type": "a list",
    "bool_type": "true or false",
    "int_type": "an integer",
    **dict.fromkeys(("float_type", "finite_number"), "a finite number"),
    **dict.fromkeys(("dict_type", "model_type", "dataclass_type"), "a mapping of keys to values"),
}

_BOUNDS = {
    "literal_error": ("expected", "one of"),
    "greater_than_equal": ("ge", "a number of at least"),
    "less_than": ("lt", "a number below"),
}
"""By type of error: the field of pydantic's context with the bound, and the words before it."""


def as_path(value: str) -> str:
    """The advice to write a string as a location."""
    return f"write {{path: {value if len(value) <= _LONGEST_PATH and value.isprintable() else '...'}}}"


_LONGEST_PATH = 100


def _message(job: type[Job], detail: ErrorDetails, keys: Keys) -> str:
    """An error of pydantic in the words of this package."""
    kind, value = detail["type"], detail["input"]
    if kind == "value_error":
        return str(detail["ctx"]["error"]).removeprefix(": ")  # of `checked_integer` without a name
    if kind == "missing":
        return "missing: this key has no default"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return _unknown_key(job, keys)
    expected = _EXPECTED.get(kind)
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        expected = f"{words} {detail['ctx'][key]}"
    if expected is None:
        return detail["msg"]
    advice = ": write it in quotes" if kind == "string_type" and isinstance(value, int | float) else ""
    if kind == "dataclass_type" and isinstance(value, str) and "path" in _keys_of_section(job, keys):
        advice = f": {as_path(value)}"
    return f"expected {expected}, found {brief_value(value)}{advice}"


def _unknown_key(job: type[Job], keys: Keys) -> str:
    """The message for a key that its section does not have."""
    key, choices = str(keys[-1]), _keys_of_section(job, keys[:-1])
    if key in choices:
        return "alias of another key in the file: keep one"
    if "options" in choices and key in _READER_OPTIONS:
        return f'unknown key; it is an option of the reader: write options: {{{key}: "..."}}'
    homes = _sections_with(job, key) if len(keys) <= 2 else []
    return f"unknown key; it belongs in {' or '.join(homes)}" if homes else f"unknown key{did_you_mean(key, choices)}"


_READER_OPTIONS = (
    *("charset", "comment", "delimiter", "encoding", "escape", "header", "inferSchema", "lineSep", "locale"),
    *("mergeSchema", "mode", "multiLine", "nullValue", "pathGlobFilter", "quote", "recursiveFileLookup", "sep"),
)
"""Options of Spark's readers that are often written next to `path`."""


def _sections_with(job: type[Job], key: str) -> list[str]:
    """The sections of the file that have this key."""
    properties = {name: _keys_of_section(job, (name,)) for name in job.model_fields}
    return [name for name, keys in properties.items() if key in keys]


@cache
def _keys_of_section(job: type[Job], keys: Keys) -> tuple[str, ...]:
    """The keys of a section, from the schema."""
    schema = job.file_schema()

    def section(node: dict[str, Any]) -> dict[str, Any]:
        for union in ("anyOf", "oneOf", "allOf"):  # the section is first, null is last
            if union in node:
                return section(node[union][0])
        return section(schema["$defs"][node["$ref"].rpartition("/")[2]]) if "$ref" in node else node

    node = schema
    for key in keys:
        below = node["items"] if isinstance(key, int) else node.get("properties", {}).get(key) or node["additionalProperties"]
        node = section(below)
    return tuple(node.get("properties", ()))
