"""The values of a model: from the totals over its users to means, pooled values and their spread. No Spark is needed here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.stats.result import level
from spark_recmetrics.text import brief, did_you_mean

IntervalMethod = Literal["normal", "bootstrap"]


@dataclass(frozen=True)
class Intervals:
    """How the intervals of SUMMARY are computed.

    Args:
        method: `normal`: mean ± z std / sqrt(n) of the values of the users; a pooled value has none. `bootstrap`: the
            percentiles of the value over resampled users, for pooled values, too; see `stats.poisson_weights`. For metrics of
            items, the percentiles of what the lists of resampled users add to the value.
        confidence: Of the intervals.
        n_resamples: Replicates of the bootstrap, from 100.
        seed: Of the bootstrap: a user has the same weights for every model, metric and slice, on every cluster.

    Raises:
        ConfigError: A field is not such a value.

    Example:
        >>> Intervals("bootstrap").n_resamples
        1000
        >>> Intervals("bootstrap", n_resamples=10)
        Traceback (most recent call last):
        spark_recmetrics.errors.ConfigError: n_resamples: expected a whole number from 100, below 2^32, found 10
    """

    method: IntervalMethod = "normal"
    confidence: float = 0.95
    n_resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in get_args(IntervalMethod):
            known = get_args(IntervalMethod)
            raise ConfigError(f"method: unknown method {brief(self.method)}{did_you_mean(str(self.method), known)}")
        level(self.confidence, "confidence")
        for name, lowest in (("n_resamples", 100), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value < 1 << 32:
                raise ConfigError(f"{name}: expected a whole number from {lowest}, below 2^32, found {brief(value)}")
