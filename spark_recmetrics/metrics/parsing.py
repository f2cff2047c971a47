"""The text form of metrics: reading one, and a list of them at several cut-offs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

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
        raise ConfigError(f"expected the text of a metric such as 'ndcg@10', found {brief(text)}")
    if len(text) > _LONGEST:
        raise ConfigError(f"expected the text of a metric such as 'ndcg@10', found {text[:40]!r}... ({len(text)} characters)")
    reader = _Reader(text)
    metric = reader.metric()
    if reader.mark is not None:
        several = ": give several metrics as a list of texts" if reader.mark == "," else ""
        raise reader.error(f"expected name, name@k or name(parameter=value)@k{several}")
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
        name, fixed = ALIASES.get(fold(word), ("", ()))
        if not name:
            raise self.error(f"unknown metric {word!r}{did_you_mean(fold(word), ALIASES)}")
        definition = Metric(name).definition
        operands: list[Metric] = []
        params: dict[str, str | float] = dict(fixed)
        if self.accept("("):
            while True:
                if self.kind != "word":
                    raise self.no_parameter(definition, self.mark or "nothing")
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

    def no_parameter(self, definition: Definition, found: str) -> ConfigError:
        """What stands in place of a parameter is none: how these are written."""
        if not definition.options:
            return self.error(f"{definition.name} has no parameters: write it without (…), found {found!r}")
        usual = Metric(definition.name).options(Convention("default"))
        *others, last = [
            f"{key}={f'{value:g}' if isinstance(value, float) else value or 'COLUMN'}" for key, value in usual.items()
        ]
        forms = f"{', '.join(others)} or {last}" if others else last
        expected = "a metric or a parameter" if definition.operands else "a parameter"
        return self.error(f"expected {expected} of {definition.name}, written {forms}, found {found!r}")

    def check_no_value(self, definition: Definition, word: str) -> None:
        """A word in place of an operand is no value of a parameter, some of which are names of metrics, too."""
        keys = [key for key in definition.options if fold(word) in definition.choices(key)]
        if keys:
            forms = " or ".join(f"{key}={fold(word)}" for key in keys)
            raise self.error(f"{word!r} is a value of a parameter of {definition.name}: write {forms}")
        if not definition.operands and fold(word) not in ALIASES:
            raise self.no_parameter(definition, word)

    def parameter(self, definition: Definition, word: str) -> tuple[str, str | float]:
        key = fold(word)
        if key not in definition.options:
            raise self.error(f"{definition.name} has no parameter {word!r}{did_you_mean(key, definition.options)}")
        allowed, source = definition.choices(key), definition.options[key]
        found = self.mark
        if isinstance(source, Parameter) and source.column is not None:
            if self.kind != "word":
                raise self.error(f"{key}: expected the name of a column, of letters, digits and _, found {found!r}")
            return key, self.advance() or ""
        if not allowed:
            limit = source.below if isinstance(source, Parameter) else np.inf
            try:
                value = float(found) if self.kind == "number" and found else np.nan
            except ValueError:
                value = np.nan
            lowest = 1 if source == "entropy_base" else 0
            if isinstance(source, Parameter) and source.counts:
                if not (1 <= value <= LARGEST and value.is_integer()):
                    raise self.error(f"{key}: expected {integer_range(value)}, found {found!r}")
            elif not lowest < value < limit:
                below = "" if limit == np.inf else f" and below {limit:g}"
                raise self.error(f"{key}: expected a finite number above {lowest}{below}, found {found!r}")
            self.advance()
            return key, value
        if self.kind != "word" or fold(found or "") not in allowed:
            raise self.error(f"{key}: expected one of {', '.join(allowed)}, found {found!r}")
        self.advance()
        return key, fold(found or "")

    def check_operands(self, definition: Definition, operands: Sequence[Metric]) -> None:
        if not operands:
            return
        if len(operands) != len(definition.operands):
            takes = f"takes {len(definition.operands)} metrics" if definition.operands else "takes no metrics"
            raise self.error(f"{definition.name} {takes}, found {len(operands)}")
        for operand in operands:
            if operand.definition.kind != "ranking":
                raise self.error(f"{definition.name} combines per-user ranking metrics, {operand.name} is none")
            if operand.definition.lower != 0 or not operand.definition.higher_is_better:
                raise self.error(
                    f"{definition.name} combines metrics that start at 0 and are better if higher: {operand.name} is none"
                )
            if operand.k is not None:
                raise self.error(f"write the cut-off once, behind {definition.name}(…)")

    def cut_off(self, definition: Definition) -> int | None:
        if not self.accept("@"):
            return None
        found = self.advance() if self.kind == "number" else None
        if found is None or not re.fullmatch(r"[1-9][0-9]*", found, re.ASCII) or int(found) > LARGEST:
            value = int(found) if found and found.isdecimal() else None
            raise self.error(f"expected {integer_range(value)} after @, found {found or self.mark or 'nothing'!r}")
        if not definition.has_cut_off:
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
        ConfigError: There is no metric, a string is wrong, a metric is made of objectives, or a k is no integer of at least 1.
            The message has a line for each wrong string.

    Example:
        >>> [str(m) for m in expand(["ndcg", "map@10", "rmse"], k=[5, 10])]
        ['ndcg@5', 'ndcg@10', 'map@10', 'rmse']
    """
    if not isinstance(metrics, Iterable | Metric):
        raise ConfigError(f"metrics: expected texts such as 'ndcg@10', found {brief(metrics)}")
    cuts = [checked_integer(value, "k") for value in (() if k is None else k if isinstance(k, list | tuple) else (k,))]
    found, wrong = dict[Metric, None](), list[str]()
    for text in (metrics,) if isinstance(metrics, str | Metric) else metrics:
        try:
            metric = parse(text)
        except ConfigError as error:
            wrong.append(str(error))
            continue
        if metric.name in COMBINED:
            wrong.append(f"{metric} is made of objectives: name these in objectives, and leave it out here")
        elif metric.definition.has_cut_off and metric.k is None and cuts:
            found.update(dict.fromkeys(metric.at(cut) for cut in cuts))
        else:
            found[metric] = None
    if wrong:
        raise ConfigError("\n".join(wrong))
    if not found:
        raise ConfigError("metrics: expected at least one metric, found none")
    by_slug: dict[str, Metric] = {}
    for metric in found:
        other = by_slug.setdefault(metric.slug, metric)
        if other != metric:
            raise ConfigError(f"metrics {other} and {metric} would share the column {metric.slug}: keep one of them")
    return list(found)


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
