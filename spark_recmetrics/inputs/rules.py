"""Which rows are faulty, and which are relevant: the same rules for columns of Spark and arrays of numpy.

Both have comparisons and the operators `&`, `|` and `~`. `Number` hides what they write differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from spark_recmetrics.conventions import Convention


class Number(NamedTuple):
    """A column of numbers.

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
    """By check, whether a row of predictions fails it.

    Args:
        nulls: By name of an id column, whether it is null.
        rank: The ranks, if there are any.
        score: The scores, if there are any.
    """
    faults = {"null_ids": any_null(nulls)}
    if rank is not None:
        faults["bad_ranks"] = rank.null | (rank.value < 1)
    return faults if score is None else faults | {"nan_scores": score.missing, "infinite_scores": score.infinite}


def truth_faults(nulls: Mapping[str, Any], rating: Number, propensity: Number | None) -> dict[str, Any]:
    """By check, whether a row of the ground truth fails it."""
    faults = {"null_ids": any_null(nulls), "nan_ratings": rating.unusable}
    return faults if propensity is None else faults | {"bad_propensities": bad_propensity(propensity)}


def bad_propensity(propensity: Number) -> Any:
    """Whether a propensity is not a probability above 0."""
    return propensity.missing | (propensity.value <= 0) | (propensity.value > 1)


def is_relevant(rating: Number, convention: Convention, threshold: Any) -> Any:
    """Whether a row of a ground truth with ratings is relevant.

    Args:
        rating: Its ratings.
        convention: Its option `relevance`. A NaN is relevant under `truthy`, a null only under `present`.
        threshold: The threshold in the type of the ratings: 4.1 stored as a float is below 4.1 as a double.
    """
    if convention.relevance == "present":
        return rating.null | ~rating.null
    if convention.relevance == "truthy":
        return ~rating.null & (rating.nan | (rating.value != 0))
    return ~rating.missing & (rating.value > 0 if convention.relevance == "positive" else rating.value >= threshold)
