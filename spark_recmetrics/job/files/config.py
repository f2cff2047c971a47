"""The configuration of an evaluation: the shape of the file, and its defaults. `conf/evaluate.yaml` explains every key."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import zip_longest
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import (
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    model_validator,
)

from spark_recmetrics.columns import Columns
from spark_recmetrics.conventions import CONVENTIONS, Convention, convention
from spark_recmetrics.decisions.gates import Gate, problems_of
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.inputs.data_report import checked_policies
from spark_recmetrics.job.files.config_types import (
    COUNTS_SCHEMA,
    Catalog,
    Checks,
    ConventionChoice,
    CutOffs,
    MetricText,
    Slices,
    spelled_out,
)
from spark_recmetrics.job.files.job_file import (
    AsOf,
    Count,
    InputTable,
    Job,
    JobName,
    Number,
    OutputTables,
    PagePath,
    PlainText,
    Section,
    filled,
    read,
    several,
)
from spark_recmetrics.job.files.source import Keys
from spark_recmetrics.job.mlflow import Mlflow
from spark_recmetrics.metrics import DEFAULT_K, DEFAULT_METRICS, DEFAULT_N_BUCKETS, Metric, expand, parse
from spark_recmetrics.metrics.objectives import Point, checked_objectives
from spark_recmetrics.request.arguments import Ranking, check_ranking
from spark_recmetrics.request.intervals import IntervalMethod, Intervals
from spark_recmetrics.request.needs import OF_TRAIN, Needs
from spark_recmetrics.request.slices import COUNTED, MIN_USERS, bands_of, by_side
from spark_recmetrics.stats.many import Correction, Test, check_options
from spark_recmetrics.text import did_you_mean


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
    """What the users had before: no candidates of auc, gauc and lauc, what makes items popular, and what the preflight looks
    at. Default: nothing."""
    catalog: Catalog | None = None
    """All items that could be recommended, or their number, for the metrics that need it. Default: not known."""
    user_segments: InputTable | None = None
    """A row for each user, with the columns that slices and metrics of groups name. Default: nothing."""
    item_groups: InputTable | None = None
    """A row for each item, with the columns that slices and metrics of groups name. Default: nothing."""
    item_features: InputTable | None = None
    """A row for each item, with its feature vector or its categories, for the metrics that need them. Default: nothing."""
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
        named = [self.params.metric_name_1, self.params.metric_name_2]
        if any(named) and not self.name.operands:
            # The one that is left out is the usual one.
            named = [own or other for own, other in zip_longest(named, self.name.definition.operands)]
        inside = [str(part) for part in (*self.name.operands, *named) if part is not None]
        inside += [f"{option}={value}" for option, value in self.name.params]
        inside += [] if self.params.beta is None else [f"beta={self.params.beta}"]
        return parse(self.name.name + (f"({', '.join(inside)})" if inside else "")).at(self.name.k)

    @model_validator(mode="after")
    def _readable(self) -> ComplexMetric:
        _ = self.metric
        return self


class IntervalOptions(Section):
    """How the intervals of the values are computed."""

    method: IntervalMethod = "normal"
    """By the deviation of the users' values, or by resampling users."""
    confidence: Number = 0.95
    """Of the intervals."""
    n_resamples: Count = 1000
    """Replicates of the bootstrap, from 100."""
    seed: Annotated[int, Strict(), Field(ge=0)] = 0
    """Seed of the bootstrap."""

    @property
    def chosen(self) -> Intervals:
        """The options as `evaluate` takes them."""
        return Intervals(**self.model_dump())

    @model_validator(mode="after")
    def _possible(self) -> IntervalOptions:
        try:
            _ = self.chosen
        except ConfigError as error:
            option, _, told = str(error).partition(": ")
            raise several({(option,): told}) from error
        return self


def _intervals(value: object) -> object:
    return {"method": value} if isinstance(value, str) else value


class Evaluation(Section):
    """What to compute, and how."""

    top_k: CutOffs = Field(default=DEFAULT_K, validation_alias=AliasChoices("top_k", "k"))
    """Cut-offs of the ranking metrics that are written without one. Nothing: the whole list."""
    metrics: tuple[MetricText, ...] = Field(
        default_factory=lambda: tuple(parse(name) for name in DEFAULT_METRICS),
        json_schema_extra={"default": list(DEFAULT_METRICS)},
    )
    """Metrics as text: `ndcg`, `map@10`, `f1(beta=0.5)@20`."""
    complex_metrics: tuple[ComplexMetric, ...] = ()
    """Further metrics, as keys."""
    threshold: Number | None = None
    """A truth row is relevant from this rating on. Default: as the convention says."""
    convention: ConventionChoice = CONVENTIONS["default"]
    """Name of a convention, or its text such as `ranx(gain=binary)`, or a mapping of its name and of the options to change."""
    baseline: PlainText | None = None
    """The model whose lists are what everybody expects, for the metrics that need it. Default: none."""
    objectives: dict[PlainText, dict[Point, Number]] = Field(default_factory=dict)
    """Metrics that are wanted together, with the points `utopia`, the best that there could be, and `nadir`, which is bad."""
    slices: Slices = ()
    """Groups of users or items for which every value is told, too."""
    min_users: Count = MIN_USERS
    """Values of slices over fewer users are marked as small, and not tested."""
    intervals: Annotated[IntervalOptions, BeforeValidator(_intervals)] = Field(default_factory=IntervalOptions)
    """How the intervals of the values are computed; a text is the method alone."""
    n_buckets: Count = DEFAULT_N_BUCKETS
    """Number of groups of users; the users of a group are scored together."""
    ranking: Ranking = "auto"
    """Where lists are ranked: by a window of Spark, or where they are scored."""
    max_per_user: Count | None = None
    """How many rows the longest list has at most. Default: not declared."""

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
    def reads_train(self) -> bool:
        """Whether a metric or a slice looks at training rows."""
        asked = Needs(self.expanded, self.chosen_convention).all
        by_metric = bool(asked & OF_TRAIN)
        return by_metric or any(band.name in COUNTED.values() for band in bands_of(self.slices))

    @property
    def chosen_convention(self) -> Convention:
        """The convention with its options changed; the `threshold` beside it is the stronger one."""
        return convention(self.convention, self.threshold)

    @model_validator(mode="after")
    def _metrics_agree(self) -> Evaluation:
        _ = self.expanded
        return self

    @model_validator(mode="after")
    def _ranked(self) -> Evaluation:
        try:
            check_ranking(self.ranking, self.max_per_user)
        except ConfigError as error:
            option, _, told = str(error).partition(": ")
            raise several({(option,): told}) from error
        return self


class ComparisonOptions(Section):
    """How the models of a run are compared."""

    baseline: PlainText | None = None
    """The model that all others are compared with. Default: all pairs."""
    test: Test = "paired_t"
    """Test of the differences of the users."""
    correction: Correction = "holm"
    """For testing all pairs and metrics at once."""
    alpha: Number = 0.05
    """Level of the tests, and of the intervals."""
    n_resamples: Count = 1000
    """Replicates of the bootstrap, from 100."""
    seed: Annotated[int, Strict(), Field(ge=0)] = 0
    """Seed of the bootstrap."""


class PreflightOptions(Section):
    """What a preflight lets pass."""

    allow_train: Annotated[bool, Strict()] = False
    """Training rows may be recommended again; those in truth are only warned of."""


class Tracking(Section):
    """Where values are logged beside the tables."""

    mlflow: Mlflow
    """What goes to MLflow, and where."""


def _preflight(value: object) -> object:
    return {} if value is True else None if value is False else value


class Config(Job):
    """One evaluation. Made by `load`."""

    tagged: ClassVar[tuple[Keys, ...]] = (("inputs", "catalog"),)
    # The values are the same, so that a night that is logged, shown or judged anew takes the place of the first.
    unhashed: ClassVar[tuple[str, ...]] = ("as_of", "gates", "tracking", "report")

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
    comparison: ComparisonOptions | None = None
    """How the models are compared. Default: not at all."""
    gates: tuple[Gate, ...] = ()
    """What the values must reach, and how far they may fall behind a reference."""
    preflight: Annotated[PreflightOptions | None, BeforeValidator(_preflight)] = None
    """Whether the set-up is proved before anything is published, and what may pass. Default: not at all."""
    tracking: Tracking | None = None
    """Where values are logged beside the tables, when these are published. Default: nowhere."""
    output: OutputTables
    """Where the tables go."""
    report: PagePath | None = None
    """File of the HTML report. Default: none."""

    @property
    def report_path(self) -> str | None:
        """The file of the report with `as_of` in it."""
        return None if self.report is None else filled(self.report, self.as_of)

    def problems(self) -> dict[Keys, str]:
        """What is wrong between keys that are right by themselves, by key."""
        problems = super().problems()
        if self.as_of is None and "{as_of}" in (self.report or ""):
            problems["report",] = f"{self.report!r} needs an as_of: give --as-of, or as_of in the file"
        names, baseline = tuple(self.inputs.models or ()), self.evaluation.baseline
        there = {name for name in type(self.inputs).model_fields if getattr(self.inputs, name) is not None}
        there |= set() if baseline is None else {"baseline"}
        written = self.evaluation.written
        lacking = dict(Needs(list(written.values()), self.evaluation.chosen_convention).lacking(there))
        for keys, metric in written.items():
            if metric in lacking:
                asked = lacking[metric]
                key = f"{'evaluation' if asked.key == 'baseline' else 'inputs'}.{asked.key}"
                problems[("evaluation", *keys)] = f"{metric} needs {asked.what}: give {key}, {asked.form}"
        if names and baseline is not None and baseline not in names:
            problems["evaluation", "baseline"] = f"unknown model {baseline!r}{did_you_mean(baseline, names)}"
        if self.inputs.user_segments is None and self.inputs.item_groups is None:
            for place, one in enumerate(self.evaluation.slices):
                try:
                    by_side([one], {}, trained=self.inputs.train is not None)
                except ConfigError as error:  # noqa: PERF203 - one message for each of them
                    problems["evaluation", "slices", place] = str(error).removeprefix("slices: ")
        if self.comparison is not None:
            try:
                check_options(**self.comparison.model_dump(exclude={"baseline"}))
            except ConfigError as error:
                option, _, told = str(error).partition(": ")
                problems["comparison", option] = told
            if not any(metric.has_users for metric in self.evaluation.expanded):
                found = ", ".join(map(str, self.evaluation.expanded)) or "none"
                problems["comparison",] = f"expected a metric with a value for each user to compare by, found {found}"
            baseline = self.comparison.baseline
            if names and baseline is not None and baseline not in names:
                problems["comparison", "baseline"] = f"unknown model {baseline!r}{did_you_mean(baseline, names)}"
        goals, wrong = checked_objectives(self.evaluation.objectives, self.evaluation.expanded)
        problems |= {("evaluation", "objectives", *keys): problem for keys, problem in wrong.items()}
        computed = [*self.evaluation.expanded, *(metric for together in goals for metric in together.metrics)]
        refused = problems_of(self.gates, computed, dated=self.as_of is not None)
        problems |= {("gates", *place): problem for place, problem in refused.items()}
        return problems

    def resolved(self) -> dict[str, Any]:
        """The file with every default filled in and the convention spelled out. Read again, it is the same configuration."""
        found = super().resolved()
        found["evaluation"] |= {
            "metrics": [str(metric) for metric in self.evaluation.requested],
            "complex_metrics": [],
            "convention": spelled_out(self.evaluation.chosen_convention),
        }
        return found

    @classmethod
    def file_schema(cls) -> dict[str, Any]:
        """The JSON Schema of the file, for editors."""
        schema = super().file_schema()
        evaluation = schema["$defs"]["Evaluation"]["properties"]
        evaluation["k"] = {**COUNTS_SCHEMA, "description": "Another name of top_k."}
        evaluation["metrics"]["default"] = [str(metric) for metric in Evaluation().metrics]
        evaluation["convention"]["default"] = "default"
        schema["properties"]["preflight"]["anyOf"].append({"type": "boolean"})
        # The section comes first, since its keys are those that are known.
        methods = [{"$ref": "#/$defs/IntervalOptions"}, {"enum": list(get_args(IntervalMethod))}]
        evaluation["intervals"] = {"anyOf": methods, "description": evaluation["intervals"]["description"]}
        return schema


class Published(Job):
    """What has to be known of an evaluation to read what it has published; whatever else the file says is not looked at."""

    model_config = ConfigDict(extra="ignore")

    job: JobName = "evaluate"
    """Name of the job."""
    output: OutputTables
    """Where the tables are."""


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the file, for editors."""
    return Config.file_schema()


def load(path: str | os.PathLike[str], overrides: Sequence[str] = (), as_of: str | None = None) -> Config:
    """The configuration of an evaluation, out of a YAML, TOML or JSON file; see `job_file.read`."""
    return read(path, lambda _: Config, overrides, as_of)


def load_published(path: str | os.PathLike[str], overrides: Sequence[str] = (), as_of: str | None = None) -> Published:
    """Job and output of the same file. An `as_of` is needed only where the path of the output has one."""
    return read(path, lambda _: Published, overrides, as_of)
