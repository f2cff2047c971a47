"""The configuration of a split: the shape of the file, and its defaults. `conf/split.yaml` explains every key."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator, Strict, WithJsonSchema

from spark_recmetrics.columns import Columns
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.job.files.job_file import (
    AsOf,
    Count,
    InputTable,
    Job,
    JobName,
    Number,
    OutputTables,
    PlainText,
    Section,
    read,
)
from spark_recmetrics.job.files.source import Keys, shown

Method = Literal["temporal", "leave_one_out", "leave_n_out", "random", "k_fold"]

OPTIONS: dict[str, tuple[str, ...]] = {
    "temporal": ("cut", "test_share", "zone"),
    "leave_one_out": ("by", "seed"),
    "leave_n_out": ("n", "by", "seed"),
    "random": ("test_share", "seed", "per_user"),
    "k_fold": ("n_folds", "seed", "per_user"),
}
"""The options of each method beside the minima, which all have."""


def _cut(value: object) -> int | str | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | str)):
        raise ConfigError(f"expected a time such as 2026-03-29T01:30:00+00:00, or a whole number, found {shown(value)}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ConfigError(f"expected a whole number of 64 bits, found {shown(value)}")
    return value


def _share(value: float) -> float:
    from spark_recmetrics.splits.methods_spark import checked_share

    try:
        checked_share(value)
    except ConfigError as error:
        raise ConfigError(str(error).removeprefix("test_share: ")) from error
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
    """Names of the columns of the input."""

    user: PlainText = Columns.user
    """User id."""
    item: PlainText = Columns.item
    """Item id."""
    time: PlainText | None = None
    """Time. Default: `timestamp` where the split goes by time; otherwise no times are looked at."""


class SplitOptions(Section):
    """How to split. Default of an option: that of the method's function in `spark_recmetrics.splits.methods_spark`."""

    method: Method
    """How the rows are split."""
    cut: Cut = None
    """Of temporal: the moment from which on rows are in test. Either this or test_share is given."""
    test_share: Share | None = None
    """Of temporal and random: share of the rows in test."""
    zone: PlainText | None = None
    """Of temporal: time zone of a cut that is written without one, and of timestamps that have none."""
    n: Count | None = None
    """Of leave_n_out: rows of each user in test."""
    by: Literal["time", "hash"] | None = None
    """Of leave_one_out and leave_n_out: the last rows, or those that a hash chooses."""
    seed: Seed | None = None
    """Of all but temporal: another seed is another hash."""
    per_user: Switch | None = None
    """Of random and k_fold: whether the rows of each user are split, or all together."""
    n_folds: Count | None = None
    """Of k_fold: number of folds."""
    min_user_rows: Count = 1
    """Users with fewer rows are left out."""
    min_item_rows: Count = 1
    """Items with fewer rows are left out."""

    @property
    def arguments(self) -> dict[str, Any]:
        """The options as arguments of the function."""
        given = {option: value for option, value in self if option in OPTIONS[self.method] and value is not None}
        return given | {"min_user_rows": self.min_user_rows, "min_item_rows": self.min_item_rows}


class SplitConfig(Job):
    """One split. Made by `load_split`."""

    job: JobName = "split"
    """Name of the job, a part of the run id."""
    as_of: AsOf | None = None
    """The day or version that is split; --as-of of the command line is the stronger one."""
    input: InputTable
    """The table to split: one row per interaction."""
    columns: SplitColumns = Field(default_factory=SplitColumns)
    """Names of its columns."""
    split: SplitOptions
    """How to split."""
    output: OutputTables
    """Where the tables go."""

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the function beside the rows."""
        found = {**self.split.arguments, "columns": Columns(user=self.columns.user, item=self.columns.item)}
        return found if self.columns.time is None else {**found, "time": self.columns.time}

    def problems(self) -> dict[Keys, str]:
        """What is wrong between keys that are right by themselves, by key."""
        found, options = super().problems(), self.split
        known = OPTIONS[options.method]
        for option in sorted({option for of_method in OPTIONS.values() for option in of_method} - set(known)):
            if getattr(options, option) is not None:
                found[("split", option)] = f"no option of {options.method}, which has {', '.join(known)}: leave it out"
        try:
            Columns(user=self.columns.user, item=self.columns.item)
        except ConfigError as error:
            found[("columns",)] = str(error)
        if options.method == "temporal":
            found |= {("split", *keys): problem for keys, problem in _temporal_problems(options).items()}
        if options.n_folds == 1:
            found[("split", "n_folds")] = "expected a whole number from 2, found 1"
        return found


def _temporal_problems(options: SplitOptions) -> dict[Keys, str]:
    from spark_recmetrics.splits.times_spark import Clock

    if (options.cut is None) == (options.test_share is None):
        return {(): f"expected either cut or test_share, found {'neither' if options.cut is None else 'both'}"}
    try:
        clock = Clock("instant", options.zone)
    except ConfigError as error:
        return {("zone",): str(error).removeprefix("zone: ")}
    if not isinstance(options.cut, str) or (len(options.cut.strip()) == len("2026-03-29") and options.zone is None):
        return {}  # numbers, and dates of a column of dates
    try:
        clock.cut(options.cut)
    except ConfigError as error:
        return {("cut",): str(error).removeprefix("cut: ")}
    return {}


def load_split(path: str | os.PathLike[str], overrides: Sequence[str] = (), as_of: str | None = None) -> SplitConfig:
    """The configuration of a split, out of a YAML, TOML or JSON file; see `job_file.read`."""
    return read(path, lambda _: SplitConfig, overrides, as_of)
