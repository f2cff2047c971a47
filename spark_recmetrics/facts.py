"""DATA_REPORT: what was counted in the input, what it means, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from spark_recmetrics.conventions import Convention


class Fact(NamedTuple):
    """One row of DATA_REPORT."""

    check: str
    table: str
    level: str
    n_rows: int
    share: float | None
    example: str | None

    def line(self) -> str:
        """The fact in words, with what to do about it."""
        share = "" if self.share is None else f" ({self.share:.3%})"
        example = f", e.g. {self.example}" if self.example and self.n_rows else ""
        advice = f": {ADVICE[self.check]}" if self.check in ADVICE else ""
        return f"{self.table}: {self.check} = {self.n_rows}{share}{example}{advice}"


def data_report(
    observed: Mapping[str, Mapping[str, Any]],
    totals: Mapping[str, Mapping[str, Any]],
    models: Sequence[str],
    convention: Convention,
    *,
    has_ratings: bool,
    rated: bool,
) -> list[Fact]:
    """The rows of DATA_REPORT.

    Args:
        observed: By table, what was observed of its rows; truth is one of them.
        totals: By model, the totals of its rows of PER_USER; a model may have none.
        models: The models that were asked for.
        convention: What is refused.
        has_ratings: Whether the truth has a rating column.
        rated: Whether there are rating metrics.
    """
    return [
        *(fact for table in observed if table != "truth" for fact in prediction_facts(table, observed[table], convention)),
        *truth_facts(observed["truth"], convention, has_ratings=has_ratings),
        *user_facts({model: totals.get(model, {}) for model in models}, convention, rated=rated),
    ]


def prediction_facts(table: str, observed: Mapping[str, Any], convention: Convention) -> list[Fact]:
    """Facts about predictions from what was observed of their rows; nothing is observed of an empty table."""
    rows = observed.get("rows") or 0
    return [
        _needed("rows", table, rows, None),
        _fault("null_ids", table, observed, "error"),
        _fault("nan_scores", table, observed, "error" if convention.nan_scores == "error" else "warn"),
        _fault("bad_ranks", table, observed, "error"),
        _fault("infinite_scores", table, observed, "error"),
    ]


def truth_facts(observed: Mapping[str, Any], convention: Convention, *, has_ratings: bool) -> list[Fact]:
    """Facts about the truth from what was observed of its rows."""
    rows, lowest, highest = observed.get("rows") or 0, observed.get("lowest"), observed.get("highest")
    spread = None if not has_ratings or lowest is None else f"{lowest:g} to {highest:g}"
    return [
        _needed("rows", "truth", rows, None, spread),
        _fault("null_ids", "truth", observed, "error"),
        _fault("nan_ratings", "truth", observed, "error" if convention.nan_scores == "error" else "warn"),
        *([_fault("bad_propensities", "truth", observed, "error")] if "bad_propensities" in observed else []),
        _needed("relevant", "truth", observed.get("relevant") or 0, rows, spread),
    ]


def user_facts(totals: Mapping[str, Mapping[str, Any]], convention: Convention, *, rated: bool) -> list[Fact]:
    """Facts about lists and users, from the totals of each model's rows of PER_USER. What was not counted has no fact."""
    repeats = "error" if convention.duplicates == "error" else "warn"
    facts = [fact for model, sums in totals.items() for fact in _model_facts(model, sums, convention, repeats, rated=rated)]
    # Every model is scored against the same truth; without a ranking metric only rows that have a prediction are looked at.
    counted = [sums["n_truth_duplicates"] for sums in totals.values() if sums.get("n_truth_duplicates") is not None]
    return [_counted("truth_duplicates", "truth", max(counted), repeats), *facts] if counted else facts


def _model_facts(model: str, sums: Mapping[str, Any], convention: Convention, repeats: str, *, rated: bool) -> Iterator[Fact]:
    table, users = f"predictions/{model}", sums.get("users_all", 0)
    gains = "error" if convention.negative_gains == "error" else "warn"
    levels = {
        "duplicates": repeats,
        "pair_duplicates": repeats,
        "rank_faults": "error",
        "negative_gains": gains,
        "beyond_catalog": "error",
    }
    for check, level in levels.items():
        if sums.get(f"n_{check}") is not None:
            yield _counted(check, table, sums[f"n_{check}"], level)
    yield _needed("users", table, users, None)
    if sums.get("n_recommended") is not None:
        both = sums["users_truth_and_predicted"]
        yield _needed("users_with_relevant", table, sums["users_relevant"], users)
        yield _needed("users_with_list", table, sums["users_predicted"], users)
        yield _needed("users_in_both", table, both, users)
        yield _counted("users_without_list", table, sums["users_truth"] - both, "warn", users)
        yield _counted("users_without_truth", table, sums["users_predicted"] - both, "warn", users)
    if rated:
        yield _needed("users_rated", table, sums.get("users_rated", 0), users)


def _counted(check: str, table: str, n_rows: int, level: str, of: int | None = None, example: str | None = None) -> Fact:
    """A fact that is worth its level where there is one such row at all."""
    return Fact(check, table, level if n_rows else "info", n_rows, n_rows / of if of else None, example)


def _needed(check: str, table: str, n_rows: int, of: int | None, example: str | None = None) -> Fact:
    """A fact that is an error where there is no such row."""
    return Fact(check, table, "info" if n_rows else "error", n_rows, n_rows / of if of else None, example)


def _fault(check: str, table: str, observed: Mapping[str, Any], level: str) -> Fact:
    return _counted(check, table, observed.get(check) or 0, level, observed.get("rows"), observed.get(f"{check}_example"))


EMPTINESS = ("rows", "relevant", "users", "users_with_relevant", "users_with_list", "users_in_both", "users_rated")
"""Checks whose level `error` means that there is nothing to average, not that rows are wrong."""

ADVICE: Mapping[str, str] = {
    "rows": "the table is empty: check its location and filters",
    "null_ids": "a user, item or model is null: remove these rows",
    "nan_scores": "a score is NaN or null: remove these rows, or set nan_scores to drop, last or first",
    "nan_ratings": "a rating is NaN, null or infinite: remove these rows, or set nan_scores to drop",
    "bad_ranks": "a rank is null or below 1: ranks count from 1",
    "relevant": "no truth row is relevant: check threshold against the ratings",
    "duplicates": "a (model, user, item) is predicted more than once: remove the repeats, or set duplicates to first",
    "truth_duplicates": "a (user, item) stands in truth more than once: remove the repeats, or set duplicates to first",
    "rank_faults": "the ranks of a list are not 1, 2, 3, … without gap or repeat: mend them, or rank by a score",
    "negative_gains": "a rating gives a gain below 0, or one too large: use gain=binary, or set negative_gains to clip",
    "bad_propensities": "a propensity is null, NaN, not above 0 or above 1: it is the probability that the item was shown",
    "beyond_catalog": "list, relevant items and training rows of a user are more than the catalogue: give the whole catalogue",
    "pair_duplicates": "a (model, user, item) has several predicted ratings: remove the repeats, or set duplicates to first",
    "users_without_list": "users of truth to whom the model recommends nothing",
    "users_without_truth": "users with recommendations who do not stand in truth",
    "users": "nobody stands in truth or predictions",
    "users_with_relevant": "nobody has a relevant item: check threshold, and that users are the same ids on both sides",
    "users_with_list": "the model recommends nothing to anybody: check its name and its predictions",
    "users_in_both": "users of truth with a list: if there are none, check that users are the same ids on both sides",
    "infinite_scores": "an infinite score is no predicted rating: remove these rows",
    "users_rated": "no pair of predicted and true rating: check that users and items are the same ids on both sides",
}
"""What a fact means and what to do about it, by check."""
