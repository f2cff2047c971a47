"""How confidence intervals are computed: the argument `intervals`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.stats.result import level
from spark_recmetrics.text import brief, did_you_mean

IntervalMethod = Literal["normal", "bootstrap"]


@dataclass(frozen=True)
class Intervals:
    """How the confidence intervals of SUMMARY are computed.

    Args:
        method: `normal`: mean ± z std / sqrt(n) over users. Pooled values have no such interval. `bootstrap`: percentiles of
            the value over resampled users, also for pooled values, see `stats.poisson_weights`. For metrics of items:
            percentiles of what the lists of resampled users contribute to the value.
        confidence: Confidence level, between 0 and 1.
        n_resamples: Number of bootstrap replicates, at least 100.
        seed: Seed of the bootstrap. A user has the same weights for every model, metric and slice, on every cluster.

    Raises:
        ConfigError: An argument has another type or is out of range.

    Example:
        >>> Intervals("bootstrap").n_resamples
        1000
        >>> Intervals("bootstrap", n_resamples=10)
        Traceback (most recent call last):
        spark_recmetrics.errors.ConfigError: n_resamples: expected an integer of at least 100, below 2^32, found 10
    """

    method: IntervalMethod = "normal"
    confidence: float = 0.95
    n_resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in get_args(IntervalMethod):
            hint = did_you_mean(str(self.method), get_args(IntervalMethod))
            raise ConfigError(f"method: unknown method {brief(self.method)}{hint}")
        level(self.confidence, "confidence")
        for name, lowest in (("n_resamples", 100), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value < 1 << 32:
                raise ConfigError(f"{name}: expected an integer of at least {lowest}, below 2^32, found {brief(value)}")
