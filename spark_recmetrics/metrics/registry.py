"""The registry of metrics, metrics as values, and their values for a batch of users.

A metric has a name and optional operands, parameters and cut-off: `ndcg@10`, `f1(beta=0.5)@20`, `f1(ndcg, map, beta=0.5)@10`,
`ndcg(gain=exponential)@10`. `parse(str(m)) == m` for every metric.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from spark_recmetrics.columns import Side
from spark_recmetrics.conventions import CHOICES, CONVENTIONS, USER_SETS, Convention
from spark_recmetrics.errors import ConfigError, check_argument
from spark_recmetrics.metrics.arrays import Floats
from spark_recmetrics.metrics.batch import RankedBatch
from spark_recmetrics.text import brief, counted, did_you_mean

Kind = Literal["ranking", "rating", "item", "group", "objective"]
RowNeed = Literal["candidates", "unseen_candidates", "ties", "matched", "list_scores", "scores", "propensity"]
ItemNeed = Literal["catalog", "recommended", "popularity", "audience", "history", "features", "categories", "baseline"]
Need = Literal[RowNeed, ItemNeed, "item_groups", "user_groups", "trained_groups"]

DEFAULT_METRICS = ("precision", "recall", "ndcg", "map", "mrr", "hit")
"""The default metrics."""

DEFAULT_K = (10,)
"""The default cut-offs."""

DEFAULT_N_BUCKETS = 32
"""The default number of groups of users; the users of a group are scored together."""

LARGEST_CATALOG = 10**15
"""The largest number of items in the catalog."""

LARGEST = 10_000_000
"""The largest cut-off and number of buckets. Discounts of more ranks would not fit into memory."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a single metric, without a field in `Convention`.

    Args:
        default: The default value.
        choices: The allowed names; empty for a number.
        below: Exclusive upper bound of a number; the lower bound is 0, exclusive.
        counts: The number is a count: an integer of at least 1.
        column: The parameter names a column with groups of users or of items. The default is the only such column.
    """

    default: str | float
    choices: tuple[str, ...] = ()
    below: float = np.inf
    counts: bool = False
    column: Side | None = None


class Sums(NamedTuple):
    """The sums over users from which the value of a pooled metric is computed.

    Args:
        total: Sum of the numerators, (U,) or one number.
        count: Sum of the denominators, (U,) or one number.
        floor: The value is undefined if the count is not above this, because the count is then 0 up to rounding.
    """

    total: Any
    count: Any
    floor: Any = 0


def quotient(sums: Sums) -> Any:
    """The pooled mean: total / count."""
    return sums.total / sums.count


@dataclass(frozen=True)
class PerChoice:
    """The `needs` or `measures` of a metric by the value of one of its options."""

    option: str
    choices: Mapping[str, tuple[Any, ...]]

    def __call__(self, options: Mapping[str, Any]) -> tuple[Any, ...]:
        """The needs or measures under these options."""
        return self.choices[options[self.option]]


@dataclass(frozen=True, kw_only=True)
class Definition:
    """What a metric is: its formula, and what it declares about itself. Every `Metric` carries its definition.

    Args:
        name: Canonical name, lower case.
        compute: The formula. It takes what belongs to the kind, and the options as keywords.
        kind: `ranking` takes a `RankedBatch` and a cut-off, `rating` takes `Moments`; both return (U,) values, or the `Sums` of
            a pooled metric. `item` takes `ItemCounts` and `group` takes `GroupSums` of all lists of a model; they have no value
            per user. `objective` takes the values of other metrics; these metrics are in `COMBINED`.
        options: Option -> the field of `Convention` that has its default, or a `Parameter`.
        operands: The default operands of a metric that combines others.
        aliases: Other names -> parameters that the alias fixes.
        higher_is_better: Direction.
        lower: Smallest possible value, None if there is none.
        upper: Largest possible value, None if there is none.
        needs_relevant: Undefined for a user without a relevant item.
        grows_with_k: A longer list never has a smaller value, under the default options.
        has_cut_off: Whether the metric can be cut at k. Rating metrics, and metrics of the full list, cannot.
        pooled: For a formula that returns `Sums`: from sums of one user or of many to the value, by arithmetic only, so that
            sums may be numbers, arrays or Spark columns.
        averaged_by: The option that decides whether the value of a model is the mean of the users' values (`per_user`,
            `uniform`) or computed from the sums. A pooled metric without such an option is always pooled.
        needs: The inputs of the formula in addition to hits, see `Need`; a function of the options if they decide.
        users: The metric's population, if it does not follow the convention's `users`.
        skips_undefined: Undefined users are left out under every convention, because 0 would not be the worst value.
        across_users: The value of a model is the ROC AUC of the matched pairs of all users, which is no mean or sum over users.
        divides_by_pairs: The count of a rating metric is the number of pairs; `rating_average=users` divides by users instead.
        accuracy: The metric compares lists with the ground truth, so that the perfect list has the best value.
        measures: What a group metric sums over lists, see `group_sums.measured_rows`; a function of the options if they decide.
        left_out: For an item metric: from `ItemCounts` and the `DistinctItems` of U lists to the (U,) values without each of
            these lists. Without it the metric has no resampled confidence interval.
    """

    name: str
    compute: Callable[..., Any]
    kind: Kind = "ranking"
    options: Mapping[str, str | Parameter] = field(default_factory=dict)
    operands: tuple[Metric, ...] = ()
    aliases: Mapping[str, tuple[tuple[str, str | float], ...]] = field(default_factory=dict)
    higher_is_better: bool = True
    lower: float | None = 0.0
    upper: float | None = 1.0
    needs_relevant: bool = False
    grows_with_k: bool = False
    has_cut_off: bool = True
    pooled: Callable[[Sums], Any] | None = None
    averaged_by: str | None = None
    needs: Iterable[Need] | Callable[[Mapping[str, Any]], Iterable[Need]] = ()
    users: str | None = None
    skips_undefined: bool = False
    across_users: bool = False
    divides_by_pairs: bool = True
    accuracy: bool = True
    measures: Iterable[str] | Callable[[Mapping[str, Any]], Iterable[str]] = ()
    left_out: Callable[..., Floats] | None = None

    def __post_init__(self) -> None:
        check_argument(f"metric {self.name}", self.compute, "a function", valid=callable(self.compute))
        named = [field for field, value in CONVENTIONS["default"].options() if isinstance(value, str | float)]
        for trait, value, choices in (
            ("kind", self.kind, get_args(Kind)),
            ("users", "all" if self.users is None else self.users, USER_SETS),
            *(("options", source, named) for source in self.options.values() if not isinstance(source, Parameter)),
            *(("needs", need, get_args(Need)) for need in (() if callable(self.needs) else self.needs)),
        ):
            if value not in choices:
                raise ConfigError(f"metric {self.name}: {trait}: unknown {value!r}{did_you_mean(str(value), choices)}")

    @property
    def by_user(self) -> bool:
        """Whether the metric has a value for each user, in PER_USER."""
        return self.kind in ("ranking", "rating")

    @property
    def side_options(self) -> dict[str, Side]:
        """The options that name a column with groups, and whether these are groups of users or of items."""
        sources = self.options.items()
        return {option: source.column for option, source in sources if isinstance(source, Parameter) and source.column}

    @property
    def by_pair(self) -> bool:
        """Whether the metric has a value for each pair of a user group and an item group."""
        return {"user", "item"} <= {*self.side_options.values()}

    @property
    def empty_is_zero(self) -> bool:
        """Whether the mean over no users may be 0. An error of 0 is the best value, and an r2 of 0 is a good one."""
        return self.kind == "ranking" and self.higher_is_better

    @property
    def summary(self) -> str:
        """The first line of the formula's docstring."""
        return (self.compute.__doc__ or "").strip().splitlines()[0]

    def choices(self, option: str) -> tuple[str, ...]:
        """The allowed values of an option; empty for a number."""
        source = self.options[option]
        return CHOICES.get(source, ()) if isinstance(source, str) else source.choices

    def needs_of(self, options: Mapping[str, Any]) -> frozenset[Need]:
        """The inputs that the formula needs under these options: also the tables whose columns its options name."""
        groups: dict[Side, Need] = {"user": "user_groups", "item": "item_groups"}
        needs = self.needs(options) if callable(self.needs) else self.needs
        return frozenset({*needs, *(groups[side] for side in self.side_options.values())})

    def measures_of(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """What a group metric sums under these options."""
        return tuple(self.measures(options) if callable(self.measures) else self.measures)


DEFINITIONS: dict[str, Definition] = {}
"""The metrics that are computed from lists or ratings, by name."""

COMBINED: dict[str, Definition] = {}
"""The metrics that are computed from the values of other metrics, by name."""

ALIASES: dict[str, tuple[str, tuple[tuple[str, str | float], ...]]] = {}


def register(
    name: str,
    *,
    aliases: Iterable[str] | Mapping[str, tuple[tuple[str, str | float], ...]] = (),
    operands: Iterable[str] = (),
    **traits: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that registers a formula as a metric.

    Args:
        name: Canonical name, lower case.
        aliases: Other names, or a mapping from other names to the parameters that they fix.
        operands: Names of the default operands of a metric that combines others.
        **traits: Further fields of `Definition`.

    Raises:
        ConfigError: The name or an alias is registered already or cannot be written in a metric, or a trait is unknown.
    """

    def decorate(compute: Callable[..., Any]) -> Callable[..., Any]:
        fixed = dict(aliases) if isinstance(aliases, Mapping) else dict.fromkeys(aliases, ())
        for text in (name, *fixed):
            folded = fold(str(text))
            if folded in ALIASES:
                raise ConfigError(f"metric name {text!r} is registered already")
            is_name = re.fullmatch("[a-z][a-z0-9_]*", folded if text in fixed else str(text)) is not None
            check_argument("metric name", text, "lower case letters, digits and _, with a letter first", valid=is_name)
        definition = Definition(
            name=name,
            compute=compute,
            aliases=fixed,
            operands=tuple(map(Metric, operands)),
            **{"has_cut_off": traits.get("kind") != "rating", **traits},
        )
        ALIASES.update({fold(text): (name, params) for text, params in {name: (), **fixed}.items()})
        (COMBINED if definition.kind == "objective" else DEFINITIONS)[name] = definition
        return compute

    return decorate


def names() -> list[str]:
    """Canonical names of all metrics, sorted.

    Example:
        >>> "ndcg" in names()
        True
    """
    return sorted(DEFINITIONS)


@dataclass(frozen=True)
class Metric:
    """A metric with its operands, parameters and cut-off. Make one with `parse`.

    Two metrics are equal if their strings are equal.

    Args:
        name: Canonical name.
        operands: The metrics that it combines (F-beta), if not the default ones.
        params: (parameter, value) pairs that override the convention, in order of the parameter's name.
        k: Cut-off; None for the full list, and for rating metrics.
        definition: What is registered under the name. Spark sends it to the workers with the metric, because only the driver
            has the metrics that a notebook registers.
    """

    name: str
    operands: tuple[Metric, ...] = ()
    params: tuple[tuple[str, str | float], ...] = ()
    k: int | None = None
    definition: Definition = field(default=None, repr=False, compare=False)  # type: ignore[assignment]  # never None

    def __post_init__(self) -> None:
        if self.definition is None:
            object.__setattr__(self, "definition", (COMBINED if self.name in COMBINED else DEFINITIONS)[self.name])

    def __str__(self) -> str:
        inside = [str(operand) for operand in self.operands]
        inside += [f"{key}={str(value).removesuffix('.0')}" for key, value in self.params]
        text = f"{self.name}({', '.join(inside)})" if inside else self.name
        return text if self.k is None else f"{text}@{self.k}"

    @property
    def slug(self) -> str:
        """The text as a column name that Delta and parquet allow.

        Example:
            >>> Metric("f1", params=(("beta", 0.5),), k=20).slug
            'f1_beta_0_5_at_20'
        """
        return re.sub(r"[^a-z0-9]+", "_", str(self).lower().replace("@", "_at_")).strip("_")

    @property
    def has_users(self) -> bool:
        """Whether the value of a model is the mean, or made of the sums, of the users' values."""
        return self.definition.by_user and not self.definition.across_users

    def at(self, k: int | None) -> Metric:
        """The same metric with this cut-off; unchanged if it cannot be cut."""
        return replace(self, k=k) if self.definition.has_cut_off else self

    def parts(self) -> tuple[Metric, ...]:
        """The operands with the metric's cut-off; empty for a metric without operands."""
        return tuple(operand.at(self.k) for operand in self.operands or self.definition.operands)

    def tree(self) -> Iterator[Metric]:
        """The metric, its parts, their parts, and so on."""
        yield self
        for part in self.parts():
            yield from part.tree()

    def options(self, convention: Convention) -> dict[str, Any]:
        """The value of each option: the parameter, or else the value of the convention."""
        defaults = {
            option: getattr(convention, source) if isinstance(source, str) else source.default
            for option, source in self.definition.options.items()
        }
        return defaults | dict(self.params)

    def needs(self, convention: Convention) -> frozenset[Need]:
        """The inputs that the metric and its parts need."""
        needs = self.definition.needs_of(self.options(convention))
        return needs.union(*(part.needs(convention) for part in self.parts()))

    def average(self, convention: Convention) -> str:
        """How the value of a model is computed from those of users.

        `per_user` is their mean, `total` their sum, and `pairs` or `users` are the pooled sums divided by that number.
        """
        if self.definition.averaged_by is None:
            return "per_user" if self.definition.pooled is None else "pairs"
        average = self.options(convention)[self.definition.averaged_by]
        if average in ("per_user", "uniform", "fraction"):
            return "per_user"
        if average == "count":
            return "total"
        return "users" if average == "users" and self.definition.divides_by_pairs else "pairs"

    def users(self, convention: Convention) -> str:
        """The user set over which the metric is averaged."""
        return convention.users_of(self.name, self.definition.users)


def fold(name: str) -> str:
    """The name in lower case, with `_` in place of blanks and hyphens."""
    return re.sub(r"[\s_-]+", "_", name.strip().lower())


def checked_integer(value: object, name: str, largest: int = LARGEST) -> int:
    """The value as an int from 1 to `largest`. Floats and bools are no integers."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= largest:
        raise ConfigError(f"{name}: expected {integer_range(value, largest)}, found {brief(value)}")
    return int(value)


def integer_range(value: object, largest: int = LARGEST) -> str:
    """The allowed range as an error message names it, with the upper bound only if the value exceeds it."""
    too_large = isinstance(value, int | float) and value > largest
    return f"an integer from 1 to {largest}" if too_large else "an integer of at least 1"


def score(metric: Metric, batch: RankedBatch, convention: Convention) -> Floats:
    """(U,) values of a ranking metric for the users of a batch; NaN is undefined.

    Example:
        >>> from spark_recmetrics.conventions import convention
        >>> batch = RankedBatch.of(lists=[["a", "b"], ["x"], ["a"]], truth=[{"a": 1}, {"y": 1}, {}])
        >>> score(Metric("recall", k=2), batch, convention("default"))
        array([ 1.,  0., nan])
    """
    return score_columns(metric, batch, convention)[0]


def score_columns(metric: Metric, batch: RankedBatch, convention: Convention) -> tuple[Floats, ...]:
    """The columns that `columns_of` names: the values as in `score`, and the total and count of a pooled metric."""
    definition, options = metric.definition, metric.options(convention)
    parts = [score(part, batch, convention) for part in metric.parts()]
    values = definition.compute(*parts, **options) if parts else definition.compute(batch, metric.k, **options)
    is_sums, is_pooled = isinstance(values, Sums), definition.pooled is not None
    columns = values[:2] if is_sums else (values,)
    expected = f"{'Sums' if is_pooled else 'an array'} with a number for each of {counted(batch.size, 'user')} from its formula"
    is_valid = is_sums == is_pooled and all(np.shape(column) == (batch.size,) for column in columns)
    check_argument(str(metric), values, expected, valid=is_valid)
    if not is_pooled:
        return columns
    total, count = (np.asarray(column, dtype=np.float64) for column in columns)
    return finished(metric, Sums(total, count)), total, count


def finished(metric: Metric, sums: Sums) -> Floats:
    """(U,) values of a pooled metric from (U,) sums; NaN is undefined."""
    values = np.full(len(sums.count), np.nan)
    defined = sums.count > sums.floor
    if metric.definition.pooled is not None:
        values[defined] = metric.definition.pooled(Sums(sums.total[defined], sums.count[defined]))
    return values


def columns_of(metric: Metric) -> list[str]:
    """The PER_USER columns of a ranking metric: the value, and the total and count of a pooled metric."""
    sums = ("total", "count") if metric.definition.pooled is not None else ()
    return [metric.slug, *(f"{metric.slug}_{name}" for name in sums)]


def cut_offs(metrics: Iterable[Metric]) -> list[int | None]:
    """The different cut-offs of metrics and their parts, ascending, None last."""
    return sorted({part.k for metric in metrics for part in metric.tree()}, key=lambda k: (k is None, k))
