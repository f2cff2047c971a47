"""The configuration of an evaluation: the shape of the file, its defaults, and its hash. `conf/evaluate.yaml` explains it."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    Strict,
    Tag,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from spark_recmetrics.columns import Columns
from spark_recmetrics.conventions import CHOICES, CONVENTIONS, USER_SETS, Convention, convention
from spark_recmetrics.errors import ConfigError, did_you_mean
from spark_recmetrics.facts import POLICIES, checked_policies
from spark_recmetrics.gates import Gate, problems_of
from spark_recmetrics.metrics import DEFAULT_K, DEFAULT_METRICS, DEFAULT_N_BUCKETS, Metric, expand, parse
from spark_recmetrics.metrics.registry import LARGEST, whole_number
from spark_recmetrics.metrics.text import named_populations
from spark_recmetrics.schema import Location, Output, plain_text
from spark_recmetrics.source import Keys, Source, shown

_JOB, _AS_OF = "A-Za-z0-9._-", "A-Za-z0-9._:+-"
_PLACEHOLDERS = ("as_of",)
_Placed = TypeVar("_Placed", Location, Output)


def _several(problems: Mapping[Keys, str]) -> ValidationError:
    """One error for several keys below the value that a function of ours has read."""
    kind = partial(PydanticCustomError, "told", "{reason}")
    details = [InitErrorDetails(type=kind({"reason": reason}), loc=keys, input=None) for keys, reason in problems.items()]
    return ValidationError.from_exception_data("several", details)


def _whole(value: object) -> int:
    # An integer of pydantic would take "10", 10.0 and True, too.
    try:
        return whole_number(value, "")
    except ConfigError as error:
        raise ConfigError(str(error).removeprefix(": ")) from error


def _name(value: object, *, characters: str) -> str:
    # Such texts become parts of paths, so dots alone are none.
    if not isinstance(value, str) or not re.fullmatch(f"[{characters}]{{1,100}}", value) or not value.strip("._"):
        quotes = ": write it in quotes" if isinstance(value, int | float) else ""
        limit = " (at most 100)" if isinstance(value, str) and len(value) > 100 else ""
        raise ConfigError(f"expected a text of the characters {characters}{limit}, found {shown(value)}{quotes}")
    return value


def _metric(value: object) -> Metric:
    if not isinstance(value, str | Metric):
        raise ConfigError(f"expected the text of a metric such as 'ndcg@10', found {shown(value)}")
    return parse(value)


def _convention(value: object) -> Convention:
    if isinstance(value, str | Convention):
        return convention(value)
    if not isinstance(value, dict):
        raise ConfigError(f"expected the name of a convention, or a mapping of its name and options, found {shown(value)}")
    found, problems = CONVENTIONS["default"], dict[Keys, str]()
    for option, chosen in ({"name": "default"} | value).items():
        try:
            if option == "name":
                found = convention(chosen)
            elif option not in _OPTIONS:
                raise ConfigError(f"unknown option{did_you_mean(option, _OPTIONS)}")  # noqa: TRY301 - collected below
            elif option == "users_by_metric":
                found = named_populations(found.override(users_by_metric=_users_by_metric(chosen)))
            else:
                found = found.override(**{option: chosen})
        except ConfigError as error:  # noqa: PERF203 - one message for all of them
            problems[(option,)] = str(error).removeprefix(f"{option}: ")
    if problems:
        raise _several(problems)
    return found


def _users_by_metric(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"expected a mapping of metrics to sets of users, found {shown(value)}")
    return value


def _checks(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ConfigError(f"expected a mapping of checks to policies, found {shown(value)}")
    problems = dict[Keys, str]()
    for check, policy in value.items():
        try:
            checked_policies({check: policy})
        except ConfigError as error:  # noqa: PERF203 - one message for all of them
            problems[(check,)] = str(error).removeprefix(f"{check}: ")
    if problems:
        raise _several(problems)
    return checked_policies(value)


def _spelled_out(chosen: Convention) -> dict[str, Any]:
    return {"name": chosen.name, **dict(chosen.options()), "users_by_metric": dict(chosen.users_by_metric)}


def _fill(path: str, as_of: str | None = None) -> str:
    """The path with `{as_of}` replaced, if there is one. Braces around anything but one word are a glob, and stay."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in _PLACEHOLDERS:
            raise ConfigError(f"unknown placeholder {found[0]} in {path!r}{did_you_mean(found[1], _PLACEHOLDERS)}")
        return as_of or found[0]

    return re.sub(r"\{([A-Za-z_]\w*)\}", value, path)


def _placed(found: _Placed) -> _Placed:
    try:
        _fill(found.path or "")
    except ConfigError as error:
        raise _several({("path",): str(error)}) from error
    return found


def _number_of_items(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"expected a location, or the number of items, found {shown(value)}")
    return _whole(value)


_OPTIONS: dict[str, Any] = {
    "name": {"enum": list(CONVENTIONS)},
    **{option: {"enum": list(values)} for option, values in CHOICES.items()},
    **{option: {"type": "number"} for option in ("threshold", "beta", "entropy_base")},
    "users_by_metric": {"type": "object", "additionalProperties": {"enum": list(USER_SETS)}},
}
_OPTIONS_SCHEMA = {"type": "object", "properties": _OPTIONS, "additionalProperties": False}
_CHECKS_SCHEMA = {
    "type": "object",
    "properties": {check: {"enum": list(policies)} for check, policies in POLICIES.items()},
    "additionalProperties": False,
}
_COUNT = {"type": "integer", "minimum": 1, "maximum": LARGEST}
_COUNTS = {"anyOf": [_COUNT, {"type": "array", "items": _COUNT}, {"type": "null"}]}

PlainText = Annotated[str, AfterValidator(plain_text)]
JobName = Annotated[
    str, PlainValidator(partial(_name, characters=_JOB)), WithJsonSchema({"type": "string", "pattern": f"^[{_JOB}]+$"})
]
AsOf = Annotated[
    str, PlainValidator(partial(_name, characters=_AS_OF)), WithJsonSchema({"type": "string", "pattern": f"^[{_AS_OF}]+$"})
]
Count = Annotated[int, PlainValidator(_whole), WithJsonSchema(_COUNT)]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
CutOffs = Annotated[
    tuple[Count, ...],
    BeforeValidator(lambda value: value if isinstance(value, list | tuple | dict) else () if value is None else [value]),
    WithJsonSchema(_COUNTS),
]
MetricText = Annotated[Metric, PlainValidator(_metric), PlainSerializer(str), WithJsonSchema({"type": "string"})]
ConventionChoice = Annotated[
    Convention,
    PlainValidator(_convention),
    PlainSerializer(_spelled_out),
    WithJsonSchema({"anyOf": [_OPTIONS_SCHEMA, {"enum": list(CONVENTIONS)}]}),
]
Checks = Annotated[dict[str, str], PlainValidator(_checks), WithJsonSchema(_CHECKS_SCHEMA)]
InputTable = Annotated[Location, AfterValidator(_placed)]
NumberOfItems = Annotated[int, PlainValidator(_number_of_items), WithJsonSchema(_COUNT)]
Catalog = Annotated[
    Annotated[InputTable, Tag("[table]")] | Annotated[NumberOfItems, Tag("[number]")],
    Discriminator(lambda value: "[table]" if isinstance(value, dict | Location) else "[number]"),
]
OutputTables = Annotated[Output, AfterValidator(_placed)]


class Section(BaseModel):
    """A part of the file: frozen, and no key but the known ones."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), use_attribute_docstrings=True)


class ModelInputs(Section):
    """The tables of one model, where every model has its own."""

    predictions: InputTable
    """Predictions of this model."""
    rating_predictions: InputTable | None = None
    """Predicted ratings of this model for rating metrics. Default: its predictions."""


class Inputs(Section):
    """The tables to read."""

    predictions: InputTable | None = None
    """Predictions of one model, or of several that the model column tells apart."""
    rating_predictions: InputTable | None = None
    """Predicted ratings for rating metrics. Default: the predictions."""
    models: dict[PlainText, ModelInputs] | None = None
    """Instead of `predictions`: the tables of each model, by its name."""
    truth: InputTable
    """What the users really did, with ratings or without."""
    train: InputTable | None = None
    """What the users had before, which is no candidate of auc, gauc and lauc. Default: nothing."""
    catalog: Catalog | None = None
    """All items that could be recommended, or their number, for the metrics that need it. Default: not known."""
    cast_ids: Literal["string"] | None = None
    """`string`: ids that have different types in these tables become texts. Default: they are refused."""

    @model_validator(mode="after")
    def _one_way(self) -> Inputs:
        if (self.predictions is None) == (not self.models):
            found = "neither" if self.predictions is None else "both"
            raise ConfigError(f"expected either predictions or models, found {found}")
        if self.models and self.rating_predictions:
            raise ConfigError("expected no rating_predictions beside models: write it under each model")
        return self


class ComplexParams(Section):
    """The parameters of a metric that is made of others."""

    metric_name_1: MetricText | None = None
    """First metric; of f1, precision unless given."""
    metric_name_2: MetricText | None = None
    """Second metric; of f1, recall unless given."""
    beta: Number | None = None
    """Weight of the second metric. Default: the convention's."""


class ComplexMetric(Section):
    """A metric written as keys instead of text."""

    name: MetricText
    """Name of the metric, such as `f1`."""
    params: ComplexParams = Field(default_factory=ComplexParams)
    """Its parameters."""

    @property
    def metric(self) -> Metric:
        """The metric, as if it were written `f1(ndcg, map, beta=0.5)`."""
        named = (self.params.metric_name_1, self.params.metric_name_2)
        inside = [str(part) for part in (*self.name.operands, *named) if part is not None]
        inside += [f"{option}={value}" for option, value in self.name.params]
        inside += [] if self.params.beta is None else [f"beta={self.params.beta}"]
        return parse(self.name.name + (f"({', '.join(inside)})" if inside else "")).at(self.name.k)

    @model_validator(mode="after")
    def _readable(self) -> ComplexMetric:
        _ = self.metric
        return self


class Evaluation(Section):
    """What to compute, and how."""

    top_k: CutOffs = Field(default=DEFAULT_K, validation_alias=AliasChoices("top_k", "k"))
    """Cut-offs of the ranking metrics that are written without one. Nothing: the whole list."""
    metrics: tuple[MetricText, ...] = tuple(parse(name) for name in DEFAULT_METRICS)
    """Metrics as text: `ndcg`, `map@10`, `f1(beta=0.5)@20`."""
    complex_metrics: tuple[ComplexMetric, ...] = ()
    """Further metrics, as keys."""
    threshold: Number | None = None
    """A truth row is relevant from this rating on. Default: as the convention says."""
    convention: ConventionChoice = CONVENTIONS["default"]
    """Name of a convention, or a mapping of its name and of the options to change."""
    n_buckets: Count = DEFAULT_N_BUCKETS
    """Number of groups of users; the users of a group are scored together."""

    @property
    def written(self) -> dict[Keys, Metric]:
        """The metrics by the keys that they are written under."""
        found: dict[Keys, Metric] = {("metrics", place): metric for place, metric in enumerate(self.metrics)}
        return found | {("complex_metrics", place): chosen.metric for place, chosen in enumerate(self.complex_metrics)}

    @property
    def requested(self) -> list[Metric]:
        """The metrics as they are written, those written as keys last."""
        return list(self.written.values())

    @property
    def expanded(self) -> list[Metric]:
        """Every metric at every cut-off, each once."""
        return expand(self.requested, self.top_k)

    @property
    def chosen_convention(self) -> Convention:
        """The convention with its options changed; the `threshold` beside it is the stronger one."""
        return convention(self.convention, self.threshold)

    @model_validator(mode="after")
    def _metrics_agree(self) -> Evaluation:
        _ = self.expanded
        return self


class Config(Section):
    """One evaluation. Made by `load`."""

    job: JobName = "evaluate"
    """Name of the job, a part of the run id."""
    as_of: AsOf | None = None
    """The day or version that is evaluated; --as-of of the command line is the stronger one."""
    inputs: Inputs
    """The tables to read."""
    columns: Columns = Columns()
    """Names of the columns in these tables."""
    model_name: PlainText = "model"
    """Name of the only model of predictions without a model column."""
    evaluation: Evaluation = Field(default_factory=Evaluation)
    """What to compute, and how."""
    checks: Checks = Field(default_factory=lambda: checked_policies({}))
    """What becomes of faulty rows, and how loud a finding is, by check."""
    gates: tuple[Gate, ...] = ()
    """What the values must reach, and how far they may fall behind a reference."""
    output: OutputTables
    """Where the tables go."""

    @model_validator(mode="after")
    def _is_complete(self) -> Config:
        problems: dict[Keys, str] = {}
        if self.as_of is None:
            for keys, place in places(self):
                if "{as_of}" in (place.path or ""):
                    problems[(*keys, "path")] = f"{place.path!r} needs an as_of: give --as-of, or as_of in the file"
        if self.inputs.catalog is None:
            rules = self.evaluation.chosen_convention
            for keys, metric in self.evaluation.written.items():
                if "catalog" in metric.needs(rules):
                    told = "give inputs.catalog, a table of all items that could be recommended, or their number"
                    problems[("evaluation", *keys)] = f"{metric} needs the catalogue: {told}"
        refused = problems_of(self.gates, self.evaluation.expanded, dated=self.as_of is not None)
        problems |= {("gates", *place): problem for place, problem in refused.items()}
        if problems:
            raise _several(problems)
        return self

    def located(self, place: _Placed) -> _Placed:
        """A location of this configuration with `as_of` filled into its path.

        Example:
            >>> inputs = Inputs(predictions=Location(table="recs.als"), truth=Location(path="/data/{as_of}/truth"))
            >>> config = Config(as_of="2026-11-28", inputs=inputs, output=Output(path="/out"))
            >>> config.located(config.inputs.truth).path
            '/data/2026-11-28/truth'
        """
        return place if place.path is None else replace(place, path=_fill(place.path, self.as_of))

    def resolved(self) -> dict[str, Any]:
        """The file with every default filled in and the convention spelled out. Read again, it is the same configuration."""
        found = self.model_dump(mode="json")
        found["evaluation"] |= {
            "metrics": [str(metric) for metric in self.evaluation.requested],
            "complex_metrics": [],
            "convention": _spelled_out(self.evaluation.chosen_convention),
        }
        return found

    @property
    def hash(self) -> str:
        """16 hex digits that stand for all that is resolved but `as_of`."""
        resolved = self.resolved()
        del resolved["as_of"]
        return _digest(resolved)[:16]

    @property
    def run_id(self) -> str:
        """`r` and 12 hex digits that stand for job, as_of and configuration: a repeated run has the same."""
        return "r" + _digest([self.job, self.as_of, self.hash])[:12]


def places(value: object, keys: Keys = ()) -> Iterator[tuple[Keys, Location | Output]]:
    """Every place that a configuration names, with the keys that it stands under."""
    if isinstance(value, Location | Output):
        yield keys, value
    elif isinstance(value, Inputs | ModelInputs | Config | dict):
        for key, item in value.items() if isinstance(value, dict) else value:
            yield from places(item, (*keys, key))


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the file, for editors."""
    schema = Config.model_json_schema()
    for section in schema["$defs"].values():
        section["additionalProperties"] = False  # pydantic before 2.9 does not say so of dataclasses
    evaluation = schema["$defs"]["Evaluation"]["properties"]
    evaluation["k"] = {**_COUNTS, "description": "Another name of top_k."}
    evaluation["metrics"]["default"] = [str(metric) for metric in Evaluation().metrics]
    evaluation["convention"]["default"] = "default"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def load(path: str | os.PathLike[str], overrides: Sequence[str] = (), as_of: str | None = None) -> Config:
    """The configuration of a YAML, TOML or JSON file.

    Args:
        path: The file; its suffix tells the language.
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
    found = None
    try:
        found = Config.model_validate(source.data)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            loc = _keys(detail["loc"])
            keys = source.written(loc)
            if keys not in source.refused:
                source.report(keys, _message(detail, loc))
    problem = source.error()
    if found is None or problem:
        raise problem or ConfigError(f"{path}: refused")
    return found


def _keys(loc: Keys) -> Keys:
    """The keys without what pydantic adds to them: that a key is wrong itself, and which part of a union it has read."""
    if loc[-1:] == ("[key]",):
        return loc[:-1]
    return loc[:2] + loc[3:] if loc[:2] == ("inputs", "catalog") and loc[2:3] in (("[table]",), ("[number]",)) else loc


_EXPECTED = {
    "string_type": "a text",
    "float_type": "a finite number",
    "finite_number": "a finite number",
    "tuple_type": "a list",
    **dict.fromkeys(("dict_type", "model_type", "dataclass_type"), "a mapping of keys to values"),
}


def _message(detail: ErrorDetails, keys: Keys) -> str:
    """What pydantic found, in the words of this package."""
    kind, found = detail["type"], detail["input"]
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if kind == "missing":
        return "missing: this key has no default"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        key, known = str(keys[-1]), _known_keys(keys[:-1])
        return (
            "another name of a key that is given, too: keep one" if key in known else f"unknown key{did_you_mean(key, known)}"
        )
    expected = f"one of {detail['ctx']['expected']}" if kind == "literal_error" else _EXPECTED.get(kind)
    if expected is None:
        return detail["msg"]
    quotes = ": write it in quotes" if kind == "string_type" and isinstance(found, int | float) else ""
    return f"expected {expected}, found {shown(found)}{quotes}"


@cache
def _known_keys(keys: Keys) -> tuple[str, ...]:
    """The keys of a section, from the schema."""
    schema = json_schema()

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
