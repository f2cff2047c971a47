"""The configuration of a split: its keys and their defaults. `conf/split.yaml` explains every key."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator, Strict, WithJsonSchema

from spark_recmetrics.columns import Columns
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.job.files.job_file import Count, InputTable, Job, JobName, Number, PlainText, Section
from spark_recmetrics.job.files.source import Keys
from spark_recmetrics.splits.methods_spark import checked_share
from spark_recmetrics.splits.times_spark import Clock
from spark_recmetrics.storage.locations import Output
from spark_recmetrics.storage.table_schemas import SPLIT_TABLES
from spark_recmetrics.text import brief_value

Method = Literal["temporal", "leave_one_out", "leave_n_out", "random", "k_fold"]

OPTIONS: dict[str, tuple[str, ...]] = {
    "temporal": ("cut", "test_share", "zone"),
    "leave_one_out": ("by", "seed"),
    "leave_n_out": ("n", "by", "seed"),
    "random": ("test_share", "seed", "per_user"),
    "k_fold": ("n_folds", "seed", "per_user"),
}
"""The options of each method, in addition to `min_user_rows` and `min_item_rows`."""


def _cut(value: object) -> int | str | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | str)):
        raise ConfigError(f"expected a time such as 2026-03-29T01:30:00+00:00, or an integer, found {brief_value(value)}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ConfigError(f"expected a 64-bit integer, found {brief_value(value)}")
    return value


def _share(value: float) -> float:
    checked_share(value)
    return value


Cut = Annotated[
    int | str | None,
    PlainValidator(_cut),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}),
]
Share = Annotated[Number, AfterValidator(_share)]
Seed = Annotated[int, Strict(), Field(ge=-(2**63), lt=2**63)]
Switch = Annotated[bool, Strict()]


class SplitColumns(Section):
    """Column names of the input."""

    user: PlainText = Columns.user
    """User id."""
    item: PlainText = Columns.item
    """Item id."""
    time: PlainText | None = None
    """Time. Default: `timestamp` if the method uses time, otherwise none."""


class SplitOptions(Section):
    """How to split. The defaults of the options are those of the functions in `spark_recmetrics.splits`."""

    method: Method
    """Method of the split."""
    cut: Cut = None
    """For temporal: rows at or after this time are in test. Give either cut or test_share."""
    test_share: Share | None = None
    """For temporal and random: share of the rows in test."""
    zone: PlainText | None = None
    """For temporal: time zone of a cut and of timestamps that have none."""
    n: Count | None = None
    """For leave_n_out: number of rows per user in test."""
    by: Literal["time", "hash"] | None = None
    """For leave_one_out and leave_n_out: take the latest rows (`time`) or rows chosen by a hash (`hash`)."""
    seed: Seed | None = None
    """For all methods but temporal: seed of the hash."""
    per_user: Switch | None = None
    """For random and k_fold: split the rows of each user separately, instead of all rows together."""
    n_folds: Count | None = None
    """For k_fold: number of folds."""
    min_user_rows: Count = 1
    """Users with fewer rows are dropped."""
    min_item_rows: Count = 1
    """Items with fewer rows are dropped."""


def _option_problems(split: SplitOptions) -> dict[Keys, str]:
    """Options of other methods, and options that contradict each other."""
    problems: dict[Keys, str] = {}
    allowed = OPTIONS[split.method]
    for option in sorted(set().union(*OPTIONS.values()) - set(allowed)):
        if getattr(split, option) is not None:
            problems["split", option] = f"not an option of {split.method}, which has {', '.join(allowed)}: remove it"
    if split.method == "temporal":
        problems |= {("split", *keys): problem for keys, problem in _temporal_problems(split).items()}
    if split.n_folds == 1:
        problems["split", "n_folds"] = "expected an integer of at least 2, found 1"
    return problems


def _column_problems(columns: SplitColumns) -> dict[Keys, str]:
    try:
        Columns(user=columns.user, item=columns.item)
    except ConfigError as error:
        return {("columns",): str(error)}
    return {}


class SplitConfig(Job):
    """One split."""

    tables = (*SPLIT_TABLES, "runs")
    between = (_option_problems, _column_problems)

    job: JobName = "split"
    """Name of the job, a part of the run id."""
    input: InputTable
    """The table to split: one row per interaction."""
    columns: SplitColumns = Field(default_factory=SplitColumns)
    """Its column names."""
    split: SplitOptions
    """How to split."""
    output: Output
    """Where the tables are published."""

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the function, without the rows."""
        options = (*OPTIONS[self.split.method], "min_user_rows", "min_item_rows")
        arguments = {"columns": Columns(user=self.columns.user, item=self.columns.item), "time": self.columns.time}
        arguments |= {option: value for option, value in self.split if option in options}
        return {name: value for name, value in arguments.items() if value is not None}


def _temporal_problems(options: SplitOptions) -> dict[Keys, str]:
    if (options.cut is None) == (options.test_share is None):
        return {(): f"expected either cut or test_share, found {'neither' if options.cut is None else 'both'}"}
    try:
        clock = Clock("instant", options.zone)
    except ConfigError as error:
        return {("zone",): str(error)}
    if not isinstance(options.cut, str) or (len(options.cut.strip()) == len("2026-03-29") and options.zone is None):
        return {}  # a number, or a date for a column of dates
    try:
        clock.cut(options.cut)
    except ConfigError as error:
        return {("cut",): str(error)}
    return {}
