"""Which rows are faulty, and which are relevant: each rule once, over columns of Spark or arrays of numpy.

Both have comparisons and the operators `&`, `|` and `~`. What they write differently is in `Number`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from spark_recmetrics.conventions import Convention


class Number(NamedTuple):
    """A column of numbers, and where it has none.

    Args:
        value: The numbers.
        null: Whether the value is missing.
        nan: Whether it is NaN.
        infinite: Whether it is infinite.
    """

    value: Any
    null: Any
    nan: Any
    infinite: Any

    @property
    def missing(self) -> Any:
        """Whether it is null or NaN."""
        return self.null | self.nan

    @property
    def unusable(self) -> Any:
        """Whether it is null, NaN or infinite."""
        return self.missing | self.infinite


def any_null(nulls: Mapping[str, Any]) -> Any:
    """Whether the model, user or item of a row is null."""
    return reduce(or_, nulls.values())


def prediction_faults(nulls: Mapping[str, Any], rank: Number | None, score: Number | None) -> dict[str, Any]:
    """What is wrong with a row of predictions, by check.

    Args:
        nulls: By name of an id column, whether it is null.
        rank: The ranks, None where there are none.
        score: The scores, None where there are none.
    """
    faults = {"null_ids": any_null(nulls)}
    if rank is not None:
        faults["bad_ranks"] = rank.null | (rank.value < 1)
    return faults if score is None else faults | {"nan_scores": score.missing, "infinite_scores": score.infinite}


def truth_faults(nulls: Mapping[str, Any], rating: Number, propensity: Number | None) -> dict[str, Any]:
    """What is wrong with a row of the ground truth, by check."""
    faults = {"null_ids": any_null(nulls), "nan_ratings": rating.unusable}
    return faults if propensity is None else faults | {"bad_propensities": bad_propensity(propensity)}


def bad_propensity(propensity: Number) -> Any:
    """Whether a propensity is no probability above 0."""
    return propensity.missing | (propensity.value <= 0) | (propensity.value > 1)


def is_relevant(rating: Number, convention: Convention, threshold: Any) -> Any:
    """Whether a row of a ground truth with ratings is relevant.

    Args:
        rating: Its ratings.
        convention: Says by `relevance` how. A NaN is relevant to `truthy`, a null only to `present`.
        threshold: The threshold in the type of the ratings: 4.1 stored as a float is below 4.1 as a double.
    """
    if convention.relevance == "present":
        return rating.null | ~rating.null
    if convention.relevance == "truthy":
        return ~rating.null & (rating.nan | (rating.value != 0))
    return ~rating.missing & (rating.value > 0 if convention.relevance == "positive" else rating.value >= threshold)
