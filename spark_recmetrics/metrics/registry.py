"""Metrics as values: what is registered, how a metric is written as text, and how it is computed.

A metric is a name, perhaps operands and parameters, and perhaps a cut-off: `ndcg@10`, `f1(beta=0.5)@20`,
`f1(ndcg, map, beta=0.5)@10`, `ndcg(gain=exponential)@10`. `parse(str(m)) == m` for every metric.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from spark_recmetrics.conventions import CHOICES, Convention
from spark_recmetrics.errors import ConfigError, did_you_mean
from spark_recmetrics.metrics.batch import Floats, RankedBatch

Kind = Literal["ranking", "rating"]

DEFAULT_METRICS = ("precision", "recall", "ndcg", "map", "mrr", "hit")
"""What is computed where no metric is named."""

DEFAULT_K = (10,)
"""The cut-offs where none is given."""

DEFAULT_N_BUCKETS = 32
"""The number of groups of users that are scored together, where none is given."""

LARGEST = 10_000_000
"""Of cut-offs and numbers of buckets. A longer list is a whole list; discounts of more ranks would fill the memory."""

_LONGEST = 200


@dataclass(frozen=True)
class Definition:
    """What is registered about a metric.

    Args:
        name: Canonical name, lower case.
        kind: `ranking` metrics take a `RankedBatch` and a cut-off, `rating` metrics take `Moments` and no cut-off.
        compute: The formula.
        options: Text parameter -> field of `Convention` that it overrides and that is its default.
        operands: For a metric of metrics, the names of its default operands.
        aliases: Other names -> parameters that the alias fixes.
        higher_is_better: Direction.
        upper: Largest possible value, None if there is none. The smallest is 0 for every metric.
        needs_relevant: Undefined for a user without a relevant item.
        grows_with_k: A longer list never has a smaller value, under the default options.
    """

    name: str
    kind: Kind
    compute: Callable[..., Any]
    options: Mapping[str, str]
    operands: tuple[str, ...]
    aliases: Mapping[str, tuple[tuple[str, str | float], ...]]
    higher_is_better: bool
    upper: float | None
    needs_relevant: bool
    grows_with_k: bool

    @property
    def summary(self) -> str:
        """The first line of the formula's docstring."""
        return (self.compute.__doc__ or "").strip().splitlines()[0]


DEFINITIONS: dict[str, Definition] = {}
_ALIASES: dict[str, tuple[str, tuple[tuple[str, str | float], ...]]] = {}


def register(
    name: str,
    *,
    kind: Kind = "ranking",
    options: Mapping[str, str] | None = None,
    operands: tuple[str, ...] = (),
    aliases: Iterable[str] | Mapping[str, tuple[tuple[str, str | float], ...]] = (),
    higher_is_better: bool = True,
    upper: float | None = 1.0,
    needs_relevant: bool = False,
    grows_with_k: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that makes a formula a metric. A name or alias that is taken already is refused."""

    def decorate(compute: Callable[..., Any]) -> Callable[..., Any]:
        fixed = dict(aliases) if isinstance(aliases, Mapping) else dict.fromkeys(aliases, ())
        for text in (name, *fixed):
            if _fold(text) in _ALIASES:
                raise ValueError(f"metric name {text!r} is registered already")
        _ALIASES.update({_fold(text): (name, params) for text, params in {name: (), **fixed}.items()})
        DEFINITIONS[name] = Definition(
            name=name,
            kind=kind,
            compute=compute,
            options=dict(options or {}),
            operands=operands,
            aliases=fixed,
            higher_is_better=higher_is_better,
            upper=upper,
            needs_relevant=needs_relevant,
            grows_with_k=grows_with_k,
        )
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

    Args:
        name: Canonical name.
        operands: For a metric of metrics (F-beta), the metrics it combines, if not the usual ones.
        params: (parameter, value) pairs that override the convention, in order of the parameter's name.
        k: Cut-off; None for the whole list, and for rating metrics.
    """

    name: str
    operands: tuple[Metric, ...] = ()
    params: tuple[tuple[str, str | float], ...] = ()
    k: int | None = None

    def __str__(self) -> str:
        inside = [str(operand) for operand in self.operands]
        inside += [f"{key}={_number(value) if isinstance(value, float) else value}" for key, value in self.params]
        text = f"{self.name}({', '.join(inside)})" if inside else self.name
        return text if self.k is None else f"{text}@{self.k}"

    @property
    def slug(self) -> str:
        """The text as a column name that is legal in Delta and parquet.

        Example:
            >>> parse("f1(beta=0.5)@20").slug
            'f1_beta_0_5_at_20'
        """
        return re.sub(r"[^a-z0-9]+", "_", str(self).replace("@", "_at_")).strip("_")

    @property
    def definition(self) -> Definition:
        """What is registered under the name."""
        return DEFINITIONS[self.name]

    def at(self, k: int | None) -> Metric:
        """The same metric with another cut-off."""
        return replace(self, k=k)

    def parts(self) -> tuple[Metric, ...]:
        """The operands at the metric's own cut-off; empty for a metric that is not made of others."""
        operands = self.operands or tuple(Metric(name) for name in self.definition.operands)
        return tuple(operand.at(self.k) for operand in operands)

    def tree(self) -> Iterator[Metric]:
        """The metric itself, its parts, their parts, and so on."""
        yield self
        for part in self.parts():
            yield from part.tree()

    def options(self, convention: Convention) -> dict[str, Any]:
        """The value of each option: the parameter in the text, else the convention's."""
        chosen = {option: getattr(convention, source) for option, source in self.definition.options.items()}
        return chosen | dict(self.params)


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")


def _fold(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", name.strip().lower())


_TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z_][\w-]*(?:[ ]+[A-Za-z_][\w-]*)*)"
    r"|(?P<number>[-+.]?[0-9][0-9.eE+-]*)|(?P<mark>[(),=@])|(?P<other>\S+))",
    re.ASCII,
)


def parse(text: str | Metric) -> Metric:
    """The metric that a text names.

    Args:
        text: `name`, `name@k` or `name(operand, …, parameter=value, …)@k`, in any case; aliases are understood.
            A `Metric` is returned as it is.

    Returns:
        The metric; its `str` is the canonical text.

    Raises:
        ConfigError: The text is not of that form, or names an unknown metric, parameter or value.

    Example:
        >>> str(parse("nDCG@10")), str(parse("Hit_Rate@5")), str(parse("nDCGRendle2020@3"))
        ('ndcg@10', 'hit@5', 'ndcg(gain=binary)@3')
        >>> parse("ndgc@10")
        Traceback (most recent call last):
        spark_recmetrics.errors.ConfigError: 'ndgc@10': unknown metric 'ndgc'; did you mean 'ndcg'?
    """
    if isinstance(text, Metric):
        return text
    if not isinstance(text, str):
        raise ConfigError(f"expected the text of a metric such as 'ndcg@10', found {text!r}")
    if len(text) > _LONGEST:
        raise ConfigError(f"expected the text of a metric such as 'ndcg@10', found {text[:40]!r}... ({len(text)} characters)")
    reader = _Reader(text)
    metric = reader.metric()
    if reader.mark is not None:
        raise reader.error("expected name, name@k or name(parameter=value)@k")
    return metric


class _Reader:
    """Recursive descent over the text of one metric."""

    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0
        self.kind: str | None = None
        self.mark: str | None = None
        self.advance()

    def error(self, message: str) -> ConfigError:
        return ConfigError(f"{self.text!r}: {message}")

    def advance(self) -> str | None:
        taken = self.mark
        found = _TOKEN.match(self.text, self.place)
        if found is None:
            self.kind = self.mark = None
        else:
            self.kind, self.mark, self.place = found.lastgroup, found[found.lastgroup or 0], found.end()
        return taken

    def accept(self, mark: str) -> bool:
        if self.kind == "mark" and self.mark == mark:
            self.advance()
            return True
        return False

    def metric(self) -> Metric:
        if self.kind != "word":
            raise self.error("expected the name of a metric")
        return self.rest_of_metric(self.advance() or "")

    def rest_of_metric(self, word: str) -> Metric:
        name, fixed = _ALIASES.get(_fold(word), ("", ()))
        if not name:
            raise self.error(f"unknown metric {word!r}{did_you_mean(_fold(word), _ALIASES)}")
        definition = DEFINITIONS[name]
        operands: list[Metric] = []
        params: dict[str, str | float] = dict(fixed)
        if self.accept("("):
            while True:
                if self.kind != "word":
                    raise self.error(f"expected a parameter of {name}")
                first = self.advance() or ""
                if self.accept("="):
                    key, value = self.parameter(definition, first)
                    if key in params and params[key] != value:
                        raise self.error(f"{key} is given twice")
                    params[key] = value
                else:
                    operands.append(self.rest_of_metric(first))
                if self.accept(")"):
                    break
                if not self.accept(","):
                    raise self.error("expected , or )")
        self.check_operands(definition, operands)
        usual = tuple(Metric(operand) for operand in definition.operands)
        kept = () if tuple(operands) == usual else tuple(operands)
        return Metric(name, kept, tuple(sorted(params.items())), self.cut_off(definition))

    def parameter(self, definition: Definition, word: str) -> tuple[str, str | float]:
        key = _fold(word)
        if key not in definition.options:
            raise self.error(f"{definition.name} has no parameter {word!r}{did_you_mean(key, definition.options)}")
        allowed = CHOICES.get(definition.options[key])
        found = self.mark
        if allowed is None:
            try:
                value = float(found) if self.kind == "number" and found else np.nan
            except ValueError:
                value = np.nan
            if not 0 < value < np.inf:
                raise self.error(f"{key}: expected a finite number above 0, found {found!r}")
            self.advance()
            return key, value
        if self.kind != "word" or _fold(found or "") not in allowed:
            raise self.error(f"{key}: expected one of {', '.join(allowed)}, found {found!r}")
        self.advance()
        return key, _fold(found or "")

    def check_operands(self, definition: Definition, operands: Sequence[Metric]) -> None:
        if not operands:
            return
        if len(operands) != len(definition.operands):
            takes = f"takes {len(definition.operands)} metrics" if definition.operands else "takes no metrics"
            raise self.error(f"{definition.name} {takes}, found {len(operands)}")
        for operand in operands:
            if operand.definition.kind != "ranking":
                raise self.error(f"{definition.name} combines per-user ranking metrics, {operand.name} is none")
            if operand.k is not None:
                raise self.error(f"write the cut-off once, behind {definition.name}(…)")

    def cut_off(self, definition: Definition) -> int | None:
        if not self.accept("@"):
            return None
        found = self.advance() if self.kind == "number" else None
        if found is None or not re.fullmatch(r"[1-9][0-9]*", found, re.ASCII) or int(found) > LARGEST:
            limit = f" to {LARGEST}" if found and found.isdecimal() and int(found) > LARGEST else ""
            raise self.error(f"expected a whole number from 1{limit} behind @, found {found or self.mark or 'nothing'!r}")
        if definition.kind == "rating":
            raise self.error(f"{definition.name} has no cut-off: write it without @{found}")
        return int(found)


def expand(metrics: Iterable[str | Metric] | str | Metric, k: Sequence[int] | int | None = None) -> list[Metric]:
    """The metrics to compute: each text parsed, and a ranking metric without a cut-off taken at every k.

    Args:
        metrics: Texts or metrics.
        k: Cut-offs for ranking metrics written without one. None or empty: the whole list.

    Returns:
        The metrics in the order given, each once.

    Raises:
        ConfigError: There is no metric, a text is wrong, or a k is not a whole number from 1.

    Example:
        >>> [str(m) for m in expand(["ndcg", "map@10", "rmse"], k=[5, 10])]
        ['ndcg@5', 'ndcg@10', 'map@10', 'rmse']
    """
    cuts = [whole_number(value, "k") for value in (() if k is None else k if isinstance(k, list | tuple) else (k,))]
    found: dict[Metric, None] = {}
    for text in (metrics,) if isinstance(metrics, str | Metric) else metrics:
        metric = parse(text)
        if metric.definition.kind == "ranking" and metric.k is None and cuts:
            found.update(dict.fromkeys(metric.at(cut) for cut in cuts))
        else:
            found[metric] = None
    if not found:
        raise ConfigError("metrics: expected at least one metric, found none")
    by_slug: dict[str, Metric] = {}
    for metric in found:
        other = by_slug.setdefault(metric.slug, metric)
        if other != metric:
            raise ConfigError(f"metrics {other} and {metric} would share the column {metric.slug}: keep one of them")
    return list(found)


def whole_number(value: object, name: str) -> int:
    """A whole number from 1 to LARGEST, and nothing that only looks like one.

    Raises:
        ConfigError: It is not; the message begins with the name.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= LARGEST:
        limit = f" to {LARGEST}" if isinstance(value, int) and value > LARGEST else ""
        raise ConfigError(f"{name}: expected a whole number from 1{limit}, found {value!r}")
    return int(value)


def named_populations(convention: Convention) -> Convention:
    """The convention with the metrics of `users_by_metric` under their canonical names.

    Raises:
        ConfigError: One is not the plain name of a metric.
    """
    users = {}
    for text, population in convention.users_by_metric:
        metric = parse(text)
        if metric != Metric(metric.name):
            raise ConfigError(f"users_by_metric: expected the plain name of a metric such as 'ndcg', found {text!r}")
        users[metric.name] = population
    return convention.override(users_by_metric=users) if dict(convention.users_by_metric) != users else convention


def score(metric: Metric, batch: RankedBatch, convention: Convention) -> Floats:
    """(U,) values of a ranking metric for every user of a batch; NaN where it is undefined.

    Example:
        >>> from spark_recmetrics.conventions import convention
        >>> batch = RankedBatch.of(lists=[["a", "b"], ["x"], ["a"]], truth=[{"a": 1}, {"y": 1}, {}])
        >>> score(parse("recall@2"), batch, convention("default"))
        array([ 1.,  0., nan])
    """
    compute, options = metric.definition.compute, metric.options(convention)
    parts = metric.parts()
    if parts:
        values: Floats = compute(*(score(part, batch, convention) for part in parts), **options)
    else:
        values = compute(batch, metric.k, **options)
    return values
