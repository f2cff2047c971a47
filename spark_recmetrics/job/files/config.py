"""The configuration of an evaluation: its keys and their defaults. `conf/evaluate.yaml` explains every key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import zip_longest
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

from pydantic import (
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    PlainValidator,
    Strict,
    Tag,
    WithJsonSchema,
    model_validator,
)

from spark_recmetrics.columns import Columns
from spark_recmetrics.conventions import CHOICES, CONVENTIONS, USER_SETS, Convention, convention
from spark_recmetrics.decisions.gates import Gate, limit_problems, problems_of
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.job.files.job_file import (
    COUNT_SCHEMA,
    Count,
    InputTable,
    Job,
    JobName,
    Number,
    PagePath,
    PlainText,
    Section,
    as_path,
    errors_by_key,
    errors_of_options,
)
from spark_recmetrics.job.files.placeholders import fill_as_of
from spark_recmetrics.job.files.source import Keys
from spark_recmetrics.job.mlflow import Mlflow
from spark_recmetrics.metrics import DEFAULT_K, DEFAULT_METRICS, DEFAULT_N_BUCKETS, Metric, expand, parse
from spark_recmetrics.metrics.objectives import Point, checked_objectives
from spark_recmetrics.metrics.parsing import named_populations
from spark_recmetrics.metrics.registry import LARGEST_CATALOG, checked_integer
from spark_recmetrics.request.arguments import POLICIES, Ranking, check_ranking, checked_policies
from spark_recmetrics.request.intervals import IntervalMethod, Intervals
from spark_recmetrics.request.needs import TRAIN_NEEDS, Needs
from spark_recmetrics.request.slices import COUNTED, MIN_USERS, Slice, bands_of, by_side, parse_slices
from spark_recmetrics.stats.many import Correction, Test, check_options
from spark_recmetrics.storage.locations import Location, Output
from spark_recmetrics.storage.table_schemas import TABLES
from spark_recmetrics.text import brief_value, did_you_mean

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


class ModelInputs(Section):
    """The tables of one model."""

    predictions: InputTable
    """Predictions of this model."""
    rating_predictions: InputTable | None = None
    """Predicted ratings of this model, for rating metrics. Default: its predictions."""


class Inputs(Section):
    """The tables to read."""

    predictions: InputTable | None = None
    """Predictions of one model, or of several models with a model column."""
    rating_predictions: InputTable | None = None
    """Predicted ratings, for rating metrics. Default: the predictions."""
    models: dict[PlainText, ModelInputs] | None = None
    """Instead of `predictions`: the tables of each model, by its name."""
    truth: InputTable
    """Ground truth: the interactions of the evaluated period, with or without ratings."""
    train: InputTable | None = None
    """Earlier interactions: excluded from the candidates of auc, gauc and lauc, counted as popularity, and checked by the
    preflight. Default: none."""
    catalog: Catalog | None = None
    """All items that can be recommended, or their number, for metrics that need it. Default: none."""
    user_segments: InputTable | None = None
    """One row per user with the columns for slices and group metrics. Default: none."""
    item_groups: InputTable | None = None
    """One row per item with the columns for slices and group metrics. Default: none."""
    item_features: InputTable | None = None
    """One row per item with its feature vector or its categories, for metrics that need them. Default: none."""
    cast_ids: Literal["string", "bigint"] | None = None
    """`string`: ids become strings. `bigint`: ids that are floats become integers. Default: ids of different types, and floats,
    are errors."""

    @model_validator(mode="after")
    def _one_way(self) -> Inputs:
        if (self.predictions is None) == (not self.models):
            given = "neither" if self.predictions is None else "both"
            raise ConfigError(f"expected either predictions or models, found {given}")
        if self.models and self.rating_predictions:
            raise ConfigError("expected no rating_predictions next to models, found both: set it under each model")
        return self


class ComplexParams(Section):
    """The parameters of a metric that combines other metrics."""

    metric_name_1: MetricText | None = None
    """First metric. Default for f1: precision."""
    metric_name_2: MetricText | None = None
    """Second metric. Default for f1: recall."""
    beta: Number | None = None
    """Weight of the second metric. Default: the convention's."""


class ComplexMetric(Section):
    """A metric as keys instead of a string."""

    name: MetricText
    """Name of the metric, such as `f1`."""
    params: ComplexParams = Field(default_factory=ComplexParams)
    """Its parameters."""

    @property
    def metric(self) -> Metric:
        """The metric, the same as the string `f1(ndcg, map, beta=0.5)`."""
        operands = [self.params.metric_name_1, self.params.metric_name_2]
        if any(operands) and not self.name.operands:
            operands = [operand or default for operand, default in zip_longest(operands, self.name.definition.operands)]
        arguments = [str(operand) for operand in (*self.name.operands, *operands) if operand is not None]
        arguments += [f"{option}={value}" for option, value in self.name.params]
        arguments += [] if self.params.beta is None else [f"beta={self.params.beta}"]
        return parse(self.name.name + (f"({', '.join(arguments)})" if arguments else "")).at(self.name.k)

    @model_validator(mode="after")
    def _readable(self) -> ComplexMetric:
        _ = self.metric
        return self


class IntervalOptions(Section):
    """How the confidence intervals are computed."""

    method: IntervalMethod = "normal"
    """`normal`: from the standard error of the users' values; `bootstrap`: by resampling users."""
    confidence: Number = 0.95
    """Confidence level."""
    n_resamples: Count = 1000
    """Number of bootstrap resamples, at least 100."""
    seed: Annotated[int, Strict(), Field(ge=0)] = 0
    """Seed of the bootstrap."""

    @property
    def chosen(self) -> Intervals:
        """The options as `evaluate` takes them."""
        return Intervals(**self.model_dump())

    @model_validator(mode="after")
    def _possible(self) -> IntervalOptions:
        with errors_of_options():
            _ = self.chosen
        return self


class Evaluation(Section):
    """What to compute, and how."""

    top_k: CutOffs = Field(default=DEFAULT_K, validation_alias=AliasChoices("top_k", "k"))
    """Cut-offs of ranking metrics that have none of their own. Empty: the full list."""
    metrics: tuple[MetricText, ...] = Field(default_factory=lambda: tuple(parse(name) for name in DEFAULT_METRICS))
    """Metrics, such as `ndcg`, `map@10`, `f1(beta=0.5)@20`."""
    complex_metrics: tuple[ComplexMetric, ...] = ()
    """Further metrics, as keys."""
    threshold: Number | None = None
    """Ground truth with at least this rating is relevant. Default: as the convention defines."""
    convention: ConventionChoice = CONVENTIONS["default"]
    """Name of a convention, optionally with options such as `ranx(gain=binary)`, or a mapping of name and options."""
    baseline: PlainText | None = None
    """The model whose recommendations are the expected ones, for unexpectedness and serendipity. Default: none."""
    objectives: dict[PlainText, dict[Point, Number]] = Field(default_factory=dict)
    """Metrics to optimize together, each with the points `utopia` (best possible) and `nadir` (worst acceptable)."""
    slices: Slices = ()
    """Groups of users or items that are evaluated separately, too."""
    min_users: Count = MIN_USERS
    """Values of slices with fewer users are marked as small and not tested for significance."""
    intervals: Annotated[
        IntervalOptions, BeforeValidator(lambda value: {"method": value} if isinstance(value, str) else value)
    ] = Field(default_factory=IntervalOptions)
    """How the confidence intervals are computed; a string is the method."""
    n_buckets: Count = DEFAULT_N_BUCKETS
    """Number of groups of users that are scored together."""
    ranking: Ranking = "auto"
    """Where lists are ranked: `window` by a window function of Spark, `lists` in the Python workers, or `auto`."""
    max_per_user: Count | None = None
    """Maximum length of the lists. Default: unknown."""

    @property
    def metrics_by_key(self) -> dict[Keys, Metric]:
        """The metrics by their keys in the file, complex metrics last."""
        metrics: dict[Keys, Metric] = {("metrics", index): metric for index, metric in enumerate(self.metrics)}
        return metrics | {("complex_metrics", index): item.metric for index, item in enumerate(self.complex_metrics)}

    @property
    def expanded(self) -> list[Metric]:
        """The metrics at all cut-offs, without duplicates."""
        return expand(list(self.metrics_by_key.values()), self.top_k)

    @property
    def reads_train(self) -> bool:
        """Whether a metric or a slice needs training rows."""
        needs = Needs(self.expanded, self.chosen_convention).all
        return bool(needs & TRAIN_NEEDS) or any(band.name in COUNTED.values() for band in bands_of(self.slices))

    @property
    def chosen_convention(self) -> Convention:
        """The convention with its options; the key `threshold` overrides its threshold."""
        return convention(self.convention, self.threshold)

    @model_validator(mode="after")
    def _possible(self) -> Evaluation:
        _ = self.expanded
        with errors_of_options():
            check_ranking(self.ranking, self.max_per_user)
        return self


class ComparisonOptions(Section):
    """How the models of a run are compared."""

    baseline: PlainText | None = None
    """The model that all others are compared with. Default: all pairs of models."""
    test: Test = "paired_t"
    """Significance test of the users' differences."""
    correction: Correction = "holm"
    """Correction for multiple comparisons over all pairs and metrics."""
    alpha: Number = 0.05
    """Significance level of the tests; 1 - alpha is the level of the confidence intervals."""
    n_resamples: Count = 1000
    """Number of bootstrap resamples, at least 100."""
    seed: Annotated[int, Strict(), Field(ge=0)] = 0
    """Seed of the bootstrap."""

    @model_validator(mode="after")
    def _possible(self) -> ComparisonOptions:
        with errors_of_options():
            check_options(**self.model_dump(exclude={"baseline"}))
        return self


class PreflightOptions(Section):
    """Options of the preflight."""

    allow_train: Annotated[bool, Strict()] = False
    """Items from train may be recommended again; training rows in the ground truth are a warning only."""


class Tracking(Section):
    """Where values are logged in addition to the tables."""

    mlflow: Mlflow
    """Options of MLflow."""


def _missing_inputs(inputs: Inputs, evaluation: Evaluation) -> dict[Keys, str]:
    """Metrics that need an input that is not given, and a baseline that is not one of the models."""
    available = {name for name in type(inputs).model_fields if getattr(inputs, name) is not None}
    available |= set() if evaluation.baseline is None else {"baseline"}
    metrics, problems = evaluation.metrics_by_key, dict[Keys, str]()
    missing = dict(Needs(list(metrics.values()), evaluation.chosen_convention).lacking(available))
    for keys, metric in metrics.items():
        if (need := missing.get(metric)) is not None:
            key = f"{'evaluation' if need.key == 'baseline' else 'inputs'}.{need.key}"
            problems[("evaluation", *keys)] = f"{metric} needs {need.what}: give {key}, {need.form}"
    return problems | _unknown_model(("evaluation", "baseline"), evaluation.baseline, inputs)


def _unknown_model(keys: Keys, model: str | None, inputs: Inputs) -> dict[Keys, str]:
    models = inputs.models
    if not models or model is None or model in models:
        return {}
    return {keys: f"unknown model {model!r}{did_you_mean(model, models)}"}


def _slice_problems(inputs: Inputs, evaluation: Evaluation) -> dict[Keys, str]:
    """Without tables of users and items, slices can only count training rows. Columns are checked with the tables."""
    if inputs.user_segments is not None or inputs.item_groups is not None:
        return {}
    problems: dict[Keys, str] = {}
    for index, each in enumerate(evaluation.slices):
        try:
            by_side([each], {}, trained=inputs.train is not None)
        except ConfigError as error:  # noqa: PERF203 - all problems are reported together
            problems["evaluation", "slices", index] = str(error).removeprefix("slices: ")
    return problems


def _incomparable(comparison: ComparisonOptions | None, evaluation: Evaluation) -> dict[Keys, str]:
    """A comparison without a metric that it can compare."""
    if comparison is None or any(metric.has_users for metric in evaluation.expanded):
        return {}
    names = ", ".join(map(str, evaluation.expanded)) or "none"
    return {("comparison",): f"expected a metric with a value per user, found {names}"}


def _unknown_baseline(comparison: ComparisonOptions | None, inputs: Inputs) -> dict[Keys, str]:
    return {} if comparison is None else _unknown_model(("comparison", "baseline"), comparison.baseline, inputs)


def _unknown_models_of_gates(gates: tuple[Gate, ...], inputs: Inputs) -> dict[Keys, str]:
    """Gates that cannot pass, because the run has no such model."""
    problems: dict[Keys, str] = {}
    for n, gate in enumerate(gates):
        for key, model in (("model", gate.model), ("against", gate.baseline)):
            problems |= _unknown_model(("gates", n, key), model, inputs)
    return problems


def _objective_problems(evaluation: Evaluation) -> dict[Keys, str]:
    _, problems = checked_objectives(evaluation.objectives, evaluation.expanded)
    return {("evaluation", "objectives", *keys): problem for keys, problem in problems.items()}


def _gate_limits(gates: tuple[Gate, ...]) -> dict[Keys, str]:
    problems = {("gates", n, key): problem for n, gate in enumerate(gates) for key, problem in limit_problems(gate).items()}
    twins = (n for n, gate in enumerate(gates) if gate in gates[:n])
    return problems | {("gates", n): f"expected different gates, found {gates[n].text} twice: remove one" for n in twins}


def _gate_problems(gates: tuple[Gate, ...], evaluation: Evaluation, as_of: str | None) -> dict[Keys, str]:
    """Gates on metrics that are not computed, or that need an `as_of`."""
    objectives, _ = checked_objectives(evaluation.objectives, evaluation.expanded)
    computed = [*evaluation.expanded, *(metric for each in objectives for metric in each.metrics)]
    problems = {n: problems_of(gate, computed, dated=as_of is not None) for n, gate in enumerate(gates)}
    return {("gates", n, key): problem for n, of_gate in problems.items() for key, problem in of_gate.items()}


class Config(Job):
    """One evaluation."""

    # These keys do not change values, so a run with other gates or another report replaces the same run.
    unhashed: ClassVar[tuple[str, ...]] = ("as_of", "gates", "tracking", "report")
    tables = (*TABLES, "runs")
    between = (
        *(_missing_inputs, _slice_problems, _objective_problems),
        *(_incomparable, _unknown_baseline, _gate_limits, _gate_problems, _unknown_models_of_gates),
    )

    job: JobName = "evaluate"
    """Name of the job, a part of the run id."""
    inputs: Inputs
    """The tables to read."""
    columns: Columns = Columns()
    """Column names of these tables."""
    model_name: PlainText = "model"
    """Name of the model if the predictions have no model column."""
    evaluation: Evaluation = Field(default_factory=Evaluation)
    """What to compute, and how."""
    checks: Checks = Field(default_factory=lambda: checked_policies({}))
    """How faulty rows are handled and reported, by data check."""
    comparison: ComparisonOptions | None = None
    """How the models are compared. Default: no comparison."""
    gates: tuple[Gate, ...] = ()
    """Conditions on the values, absolute or relative to a reference."""
    preflight: Annotated[
        PreflightOptions | None, BeforeValidator(lambda value: {} if value is True else None if value is False else value)
    ] = None
    """Whether the setup is checked before anything is published. Default: false."""
    tracking: Tracking | None = None
    """Where values are logged after the tables are published. Default: nowhere."""
    output: Output
    """Where the tables are published."""
    report: PagePath | None = None
    """Path of the HTML report. Default: none."""

    @property
    def report_path(self) -> str | None:
        """The path of the report with `as_of` filled in."""
        path: str | None = fill_as_of(self.report, self.as_of)
        return path

    def resolved(self) -> dict[str, Any]:
        """The configuration with all its defaults and options. Read as a file, it is the same configuration."""
        values = super().resolved()
        values["evaluation"] |= {
            "metrics": [str(metric) for metric in self.evaluation.metrics_by_key.values()],
            "complex_metrics": [],
            "convention": all_options(self.evaluation.chosen_convention),
        }
        return values

    @classmethod
    def file_schema(cls) -> dict[str, Any]:
        """The JSON Schema of the file, for editors."""
        schema = super().file_schema()
        evaluation = schema["$defs"]["Evaluation"]["properties"]
        evaluation["k"] = {**COUNTS_SCHEMA, "description": "Alias of top_k."}
        evaluation["metrics"]["default"] = [str(metric) for metric in Evaluation().metrics]
        evaluation["convention"]["default"] = "default"
        schema["properties"]["preflight"]["anyOf"].append({"type": "boolean"})
        # The section is first: messages suggest its keys.
        methods = [{"$ref": "#/$defs/IntervalOptions"}, {"enum": list(get_args(IntervalMethod))}]
        evaluation["intervals"] = {"anyOf": methods, "description": evaluation["intervals"]["description"]}
        return schema


class Published(Job):
    """The keys that are needed to read published tables of an evaluation. Other keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    job: JobName = "evaluate"
    """Name of the job."""
    output: Output
    """Where the tables are."""
