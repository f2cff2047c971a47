"""Parsing metrics: one string, or a list of strings at several cut-offs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from spark_recmetrics.conventions import Convention
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.metrics.registry import (
    ALIASES,
    COMBINED,
    LARGEST,
    Definition,
    Metric,
    Parameter,
    checked_integer,
    fold,
    integer_range,
)
from spark_recmetrics.text import brief, did_you_mean

_LONGEST = 200

_TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z_][\w-]*(?:[ ]+[A-Za-z_][\w-]*)*)"
    r"|(?P<number>[-+.]?[0-9][0-9.eE+-]*)|(?P<mark>[(),=@])|(?P<other>\S+))",
    re.ASCII,
)


def parse(text: str | Metric) -> Metric:
    """The metric that a string names.

    Args:
        text: `name`, `name@k` or `name(operand, …, parameter=value, …)@k`, in any case, aliases included; or a `Metric`.

    Returns:
        The metric; its `str` is the canonical form.

    Raises:
        ConfigError: The string does not have that form, or names an unknown metric, parameter or value.

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
        raise ConfigError(f"expected a metric as a string, such as 'ndcg@10', found {brief(text)}")
    if len(text) > _LONGEST:
        raise ConfigError(f"expected a metric as a string, such as 'ndcg@10', found {text[:40]!r}... ({len(text)} characters)")
    reader = _Reader(text)
    metric = reader.metric()
    if reader.current is not None:
        several = ": give several metrics as a list of strings" if reader.current == "," else ""
        raise reader.error(f"expected name, name@k or name(parameter=value)@k{several}")
    return metric


class _Reader:
    """Recursive descent over the string of one metric. `kind`, `current` and `found` describe the next token."""

    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0
        self.kind: str | None = None
        self.current: str | None = None
        self.advance()

    def error(self, message: str) -> ConfigError:
        return ConfigError(f"{self.text!r}: {message}")

    def advance(self) -> str | None:
        """Move to the next token and return the current one."""
        token = self.current
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            self.kind = self.current = None
        else:
            self.kind, self.current, self.position = match.lastgroup, match[match.lastgroup or 0], match.end()
        self.found = "nothing" if self.current is None else repr(self.current)
        return token

    def accept(self, mark: str) -> bool:
        """Move past the token if it is this mark."""
        if self.kind == "mark" and self.current == mark:
            self.advance()
            return True
        return False

    def metric(self) -> Metric:
        if self.kind != "word":
            raise self.error("expected the name of a metric")
        return self.rest_of_metric(self.advance() or "")

    def rest_of_metric(self, word: str) -> Metric:
        name, fixed = ALIASES.get(fold(word), ("", ()))
        if not name:
            raise self.error(f"unknown metric {word!r}{did_you_mean(fold(word), ALIASES)}")
        definition = Metric(name).definition
        operands: list[Metric] = []
        params: dict[str, str | float] = dict(fixed)
        if self.accept("("):
            while True:
                if self.kind != "word":
                    raise self.not_a_parameter(definition, self.found)
                first = self.advance() or ""
                if self.accept("="):
                    key, value = self.parameter(definition, first)
                    if key in params and params[key] != value:
                        raise self.error(f"{key} is given twice")
                    params[key] = value
                else:
                    self.check_no_value(definition, first)
                    operands.append(self.rest_of_metric(first))
                if self.accept(")"):
                    break
                if not self.accept(","):
                    raise self.error("expected , or )")
        self.check_operands(definition, operands)
        kept = () if tuple(operands) == definition.operands else tuple(operands)
        return Metric(name, kept, tuple(sorted(params.items())), self.cut_off(definition))

    def not_a_parameter(self, definition: Definition, found: str) -> ConfigError:
        """An error that shows how the parameters are written."""
        if not definition.options:
            return self.error(f"{definition.name} has no parameters: write it without (…), found {found}")
        defaults = Metric(definition.name).options(Convention("default"))
        *others, last = (
            f"{key}={f'{value:g}' if isinstance(value, float) else value or 'COLUMN'}" for key, value in defaults.items()
        )
        forms = f"{', '.join(others)} or {last}" if others else last
        expected = "a metric or a parameter" if definition.operands else "a parameter"
        return self.error(f"expected {expected} of {definition.name}, written {forms}, found {found}")

    def check_no_value(self, definition: Definition, word: str) -> None:
        """Reject a word in place of an operand that is a value of a parameter; some values are also names of metrics."""
        keys = [key for key in definition.options if fold(word) in definition.choices(key)]
        if keys:
            forms = " or ".join(f"{key}={fold(word)}" for key in keys)
            raise self.error(f"{word!r} is a value of a parameter of {definition.name}: write {forms}")
        if not definition.operands and fold(word) not in ALIASES:
            raise self.not_a_parameter(definition, repr(word))

    def parameter(self, definition: Definition, word: str) -> tuple[str, str | float]:
        key = fold(word)
        if key not in definition.options:
            raise self.error(f"{definition.name} has no parameter {word!r}{did_you_mean(key, definition.options)}")
        source, choices, token = definition.options[key], definition.choices(key), self.current
        value: str | float
        if isinstance(source, Parameter) and source.column is not None:
            if self.kind != "word":
                raise self.error(f"{key}: expected the name of a column, of letters, digits and _, found {self.found}")
            value = token or ""
        elif choices:
            value = fold(token or "")
            if self.kind != "word" or value not in choices:
                raise self.error(f"{key}: expected one of {', '.join(choices)}, found {self.found}")
        else:
            value = self.number(key, source)
        self.advance()
        return key, value

    def number(self, key: str, source: str | Parameter) -> float:
        try:
            value = float(self.current or "") if self.kind == "number" else math.nan
        except ValueError:
            value = math.nan
        if isinstance(source, Parameter) and source.counts:
            if not (1 <= value <= LARGEST and value.is_integer()):
                raise self.error(f"{key}: expected {integer_range(value)}, found {self.found}")
            return value
        lowest, below = (0, source.below) if isinstance(source, Parameter) else (1 if source == "entropy_base" else 0, math.inf)
        if not lowest < value < below:
            limit = "" if below == math.inf else f" and below {below:g}"
            raise self.error(f"{key}: expected a finite number above {lowest}{limit}, found {self.found}")
        return value

    def check_operands(self, definition: Definition, operands: Sequence[Metric]) -> None:
        if not operands:
            return
        if len(operands) != len(definition.operands):
            takes = f"takes {len(definition.operands)} metrics" if definition.operands else "takes no metrics"
            raise self.error(f"{definition.name} {takes}, found {len(operands)}")
        for operand in operands:
            if operand.definition.kind != "ranking":
                raise self.error(f"{definition.name} combines per-user ranking metrics, {operand.name} is not one")
            if operand.definition.lower != 0 or not operand.definition.higher_is_better:
                raise self.error(
                    f"{definition.name} combines metrics that start at 0 and are better if higher, {operand.name} is not one"
                )
            if operand.k is not None:
                raise self.error(f"write the cut-off once, after {definition.name}(…)")

    def cut_off(self, definition: Definition) -> int | None:
        if not self.accept("@"):
            return None
        digits, found = self.current if self.kind == "number" else None, self.found
        if digits is None or not re.fullmatch(r"[1-9][0-9]*", digits, re.ASCII) or int(digits) > LARGEST:
            value = int(digits) if digits and digits.isdecimal() else None
            raise self.error(f"expected {integer_range(value)} after @, found {found}")
        self.advance()
        if not definition.has_cut_off:
            raise self.error(f"{definition.name} has no cut-off: write it without @{digits}")
        return int(digits)


def expand(metrics: Iterable[str | Metric] | str | Metric, k: Sequence[int] | int | None = None) -> list[Metric]:
    """The metrics to compute: each string parsed, and each ranking metric without a cut-off repeated for every k.

    Args:
        metrics: Strings or metrics.
        k: Cut-offs for ranking metrics without one. None or empty: the full list.

    Returns:
        The distinct metrics in the order given.

    Raises:
        ConfigError: There is no metric, a string is wrong, a metric is computed from objectives, or a k is not an integer of at
            least 1. The message has a line for each wrong string.

    Example:
        >>> [str(m) for m in expand(["ndcg", "map@10", "rmse"], k=[5, 10])]
        ['ndcg@5', 'ndcg@10', 'map@10', 'rmse']
    """
    if isinstance(metrics, bytes | Mapping) or not isinstance(metrics, Iterable | Metric):
        raise ConfigError(f"metrics: expected strings such as 'ndcg@10' or 'ndcg(gain=linear)', found {brief(metrics)}")
    cuts = [checked_integer(value, "k") for value in (() if k is None else k if isinstance(k, list | tuple) else (k,))]
    expanded, wrong = dict[Metric, None](), list[str]()
    for text in (metrics,) if isinstance(metrics, str | Metric) else metrics:
        try:
            metric = parse(text)
        except ConfigError as error:
            wrong.append(str(error))
            continue
        if metric.name in COMBINED:
            wrong.append(f"{metric} is computed from objectives: set objectives, and remove it here")
        elif metric.definition.has_cut_off and metric.k is None and cuts:
            expanded.update(dict.fromkeys(metric.at(cut) for cut in cuts))
        else:
            expanded[metric] = None
    if wrong:
        raise ConfigError("\n".join(wrong))
    if not expanded:
        raise ConfigError("metrics: expected at least one metric, found none")
    by_slug: dict[str, Metric] = {}
    for metric in expanded:
        other = by_slug.setdefault(metric.slug, metric)
        if other != metric:
            raise ConfigError(f"metrics {other} and {metric} would share the column {metric.slug}: keep one of them")
    return list(expanded)


def named_populations(convention: Convention) -> Convention:
    """The convention with the canonical names of metrics in `users_by_metric`. Raises ConfigError if a key is not a name."""
    users = {}
    for text, population in convention.users_by_metric:
        metric = parse(text)
        if metric != Metric(metric.name):
            expected = "the name of a metric without parameters and cut-off, such as 'ndcg'"
            raise ConfigError(f"users_by_metric: expected {expected}, found {text!r}")
        users[metric.name] = population
    return convention.override(users_by_metric=users) if dict(convention.users_by_metric) != users else convention
