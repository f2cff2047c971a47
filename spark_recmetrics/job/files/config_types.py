"""Types of values in the configuration of an evaluation: how they are validated, serialized and described in the schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Discriminator, PlainSerializer, PlainValidator, Tag, WithJsonSchema

from spark_recmetrics.conventions import CHOICES, CONVENTIONS, USER_SETS, Convention, convention
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.job.files.job_file import COUNT_SCHEMA, Count, InputTable, as_path, errors_by_key
from spark_recmetrics.job.files.source import Keys, brief_value
from spark_recmetrics.metrics import Metric, parse
from spark_recmetrics.metrics.parsing import named_populations
from spark_recmetrics.metrics.registry import LARGEST_CATALOG, checked_integer
from spark_recmetrics.request.policies import POLICIES, checked_policies
from spark_recmetrics.request.slices import Slice, parse_slices
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.text import did_you_mean

_T = TypeVar("_T")


def _parsed(parse_string: Callable[[Any], _T], value: Any) -> _T:
    """The parsed value. The error hints at unquoted strings that a YAML list splits at their comma."""
    try:
        return parse_string(value)
    except ConfigError as error:
        is_split = isinstance(value, str) and len(value) < 100 and "," not in value and value.count("(") != value.count(")")
        hint = ": in a list, write a string with a comma in quotes" if is_split else ""
        raise ConfigError(f"{error}{hint}") from error


def _convention(value: object) -> Convention:
    if isinstance(value, str | Convention):
        return named_populations(convention(value))
    if not isinstance(value, dict):
        raise ConfigError(
            f"expected the name of a convention, or a mapping of its name and options, found {brief_value(value)}"
        )
    chosen = CONVENTIONS["default"]

    def choose(option: str, choice: Any) -> None:
        nonlocal chosen
        if option == "name":
            chosen = named_populations(convention({"name": choice}))
        elif option not in _OPTIONS:
            raise ConfigError(f"unknown option{did_you_mean(option, _OPTIONS)}")
        elif option == "users_by_metric" and not isinstance(choice, dict):
            raise ConfigError(f"expected a mapping of metrics to sets of users, found {brief_value(choice)}")
        else:
            chosen = named_populations(chosen.override(**{option: choice}))

    _each(choose, {"name": "default"} | value)
    return chosen


def _each(read: Callable[[Any, Any], object], values: Mapping[Any, Any]) -> None:
    """Read each value, and report the problems of all of them together."""
    problems = dict[Keys, str]()
    for key, value in values.items():
        try:
            read(key, value)
        except ConfigError as error:  # noqa: PERF203 - all problems are reported together
            problems[(key,)] = str(error)
    if problems:
        raise errors_by_key(problems)


def _checks(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ConfigError(f"expected a mapping of checks to policies, found {brief_value(value)}")
    _each(lambda check, policy: checked_policies({check: policy}), value)
    return checked_policies(value)


def _slices(value: object) -> tuple[Slice, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"expected a list of slices such as [gender, 'age(18, 35)'], found {brief_value(value)}")
    _each(lambda _, text: _parsed(Slice.parse, text), dict(enumerate(value)))
    return parse_slices(value)


def all_options(chosen: Convention) -> dict[str, Any]:
    """The convention as a mapping with all its options."""
    return {"name": chosen.name, **dict(chosen.options()), "users_by_metric": dict(chosen.users_by_metric)}


def _number_of_items(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        advice = f": {as_path(value)}" if isinstance(value, str) else ""
        raise ConfigError(f"expected a location, or the number of items, found {brief_value(value)}{advice}")
    return checked_integer(value, "", LARGEST_CATALOG)


_OPTIONS: dict[str, Any] = {
    "name": {"enum": list(CONVENTIONS)},
    **{option: {"enum": list(values)} for option, values in CHOICES.items()},
    **{option: {"type": "number"} for option in ("threshold", "beta", "entropy_base")},
    "users_by_metric": {"type": "object", "additionalProperties": {"enum": list(USER_SETS)}},
}
_OPTIONS_SCHEMA = {"type": "object", "properties": _OPTIONS, "additionalProperties": False}
_POLICIES = {check: {"enum": list(policies)} for check, policies in POLICIES.items()}
_CHECKS_SCHEMA = {"type": "object", "properties": _POLICIES, "additionalProperties": False}
COUNTS_SCHEMA = {"anyOf": [COUNT_SCHEMA, {"type": "array", "items": COUNT_SCHEMA}, {"type": "null"}]}

CutOffs = Annotated[
    tuple[Count, ...],
    BeforeValidator(lambda value: value if isinstance(value, list | tuple | dict) else () if value is None else [value]),
    WithJsonSchema(COUNTS_SCHEMA),
]
MetricText = Annotated[
    Metric, PlainValidator(partial(_parsed, parse)), PlainSerializer(str), WithJsonSchema({"type": "string"})
]
ConventionChoice = Annotated[
    Convention,
    PlainValidator(_convention),
    PlainSerializer(all_options),
    WithJsonSchema({"anyOf": [_OPTIONS_SCHEMA, {"enum": list(CONVENTIONS)}, {"type": "string", "pattern": r"^\w+\(.*\)$"}]}),
]
Checks = Annotated[dict[str, str], PlainValidator(_checks), WithJsonSchema(_CHECKS_SCHEMA)]
Slices = Annotated[
    tuple[Slice, ...],
    PlainValidator(_slices),
    PlainSerializer(lambda slices: [str(each) for each in slices]),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}),
]
NumberOfItems = Annotated[int, PlainValidator(_number_of_items), WithJsonSchema({**COUNT_SCHEMA, "maximum": LARGEST_CATALOG})]
Catalog = Annotated[
    Annotated[InputTable, Tag("[table]")] | Annotated[NumberOfItems, Tag("[number]")],
    Discriminator(lambda value: "[table]" if isinstance(value, dict | Location) else "[number]"),
]
