"""DATA_REPORT: what was counted in the input, what it means, and what to do about it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from spark_recmetrics.conventions import Convention
from spark_recmetrics.text import printable


class DataCheck(NamedTuple):
    """One row of DATA_REPORT."""

    check: str
    table: str
    level: str
    n_rows: int
    share: float | None
    example: str | None

    def line(self) -> str:
        """The fact in words, with what to do about it. Models and ids may hold line breaks, and yet it is one line."""
        share = "" if self.share is None else f" ({self.share:.3%})"
        example = f", e.g. {self.example}" if self.example and self.n_rows else ""
        advice = f": {ADVICE[self.check]}" if self.check in ADVICE else ""
        # Rows that are admitted already need no option that admits them.
        advice += WAYS_OUT.get(self.check, "") if self.level == "error" else ""
        return printable(f"{self.table}: {self.check} = {self.n_rows}{share}{example}{advice}")


class Levels(NamedTuple):
    """What decides the level of a fact.

    Args:
        policies: Of every check.
        convention: Its own policies: `duplicates`, `nan_scores` and `negative_gains`.
        as_numbers: Tables whose scores are more than an order: of them an infinite one would make every mean infinite.
    """

    policies: Mapping[str, str]
    convention: Convention
    as_numbers: Collection[str] = ()

    def level(self, check: str) -> str:
        """The level of a fact about rows that there are."""
        options = self.convention
        own = {
            "nan_scores": options.nan_scores,
            "nan_ratings": options.nan_scores,
            "duplicates": options.duplicates,
            "truth_duplicates": options.duplicates,
            "pair_duplicates": options.duplicates,
            "negative_gains": options.negative_gains,
        }
        policy = own.get(check) or self.policies.get(check, "error")
        return policy if policy in ("error", "warn", "info") else "warn"

    def counted(self, check: str, table: str, n_rows: int, of: int | None = None, example: str | None = None) -> DataCheck:
        """A fact that is worth its level where there is one such row at all."""
        return DataCheck(check, table, self.level(check) if n_rows else "info", n_rows, n_rows / of if of else None, example)

    def needed(self, check: str, table: str, n_rows: int, of: int | None, example: str | None = None) -> DataCheck:
        """A fact that is worth its level, an error by default, where there is no such row."""
        return DataCheck(check, table, "info" if n_rows else self.level(check), n_rows, n_rows / of if of else None, example)

    def fault(self, check: str, table: str, observed: Mapping[str, Any]) -> DataCheck:
        """A fact about the rows of a table."""
        return self.counted(check, table, observed.get(check) or 0, observed.get("rows"), observed.get(f"{check}_example"))


def data_report(
    observed: Mapping[str, Mapping[str, Any]],
    totals: Mapping[str, Mapping[str, Any]],
    models: Sequence[str],
    levels: Levels,
    *,
    has_ratings: bool,
    rated: bool,
    in_both: Mapping[str, tuple[int, int]] = {},
) -> list[DataCheck]:
    """The rows of DATA_REPORT.

    Args:
        observed: By table, what was observed of its rows; truth is one of them, and perhaps train.
        totals: By model, the totals of its rows of PER_USER; a model may have none.
        models: The models that were asked for.
        levels: What is refused.
        has_ratings: Whether the truth has a rating column.
        rated: Whether there are rating metrics.
        in_both: By model, how many items of truth it predicts, and how many there are; of models without a pair in common.
    """
    data_checks = [
        fact
        for table in observed
        if table not in ("truth", "train")
        for fact in prediction_facts(table, observed[table], levels)
    ]
    # Where rows of a list are missing, its ranks have gaps for that alone.
    torn = any(fact.check in ("null_ids", "bad_ranks") and fact.table == "predictions" and fact.n_rows for fact in data_checks)
    data_checks += truth_facts(observed["truth"], levels, has_ratings=has_ratings)
    data_checks += train_facts(observed["train"]) if "train" in observed else []
    # Every model is scored against the same truth; without a ranking metric only rows that have a prediction are looked at.
    counted = [sums for sums in totals.values() if sums.get("n_truth_duplicates") is not None]
    if counted:
        most = max(counted, key=lambda sums: sums["n_truth_duplicates"])
        data_checks.append(
            levels.counted("truth_duplicates", "truth", most["n_truth_duplicates"], None, _users(most, "n_truth_duplicates"))
        )
    for model in models:
        own = model_facts(model, totals.get(model, {}), levels, rated=rated)
        data_checks += [fact for fact in own if not (torn and fact.check == "rank_faults")]
        if model in in_both:
            data_checks.append(levels.needed("items_in_both", f"predictions/{model}", *in_both[model]))
    return data_checks


def prediction_facts(table: str, observed: Mapping[str, Any], levels: Levels) -> list[DataCheck]:
    """Facts about predictions from what was observed of their rows; nothing is observed of an empty table."""
    infinite = levels.fault("infinite_scores", table, observed)
    return [
        levels.needed("rows", table, observed.get("rows") or 0, None),
        *(levels.fault(check, table, observed) for check in ("null_ids", "nan_scores", "bad_ranks")),
        infinite._replace(level="info") if infinite.level == "error" and table not in levels.as_numbers else infinite,
        *_unknown(table, observed, levels),
    ]


def truth_facts(observed: Mapping[str, Any], levels: Levels, *, has_ratings: bool) -> list[DataCheck]:
    """Facts about the truth from what was observed of its rows."""
    rows, lowest, highest = observed.get("rows") or 0, observed.get("lowest"), observed.get("highest")
    spread = None if not has_ratings or lowest is None else f"{lowest:g} to {highest:g}"
    return [
        levels.needed("rows", "truth", rows, None, spread),
        levels.fault("null_ids", "truth", observed),
        levels.fault("nan_ratings", "truth", observed),
        *([levels.fault("bad_propensities", "truth", observed)] if "bad_propensities" in observed else []),
        *_unknown("truth", observed, levels),
        levels.needed("relevant", "truth", observed.get("relevant") or 0, rows, spread),
    ]


def train_facts(observed: Mapping[str, Any]) -> list[DataCheck]:
    """Facts about training rows. That there are none, or that some are nobody's, refuses nothing."""
    rows, nobodys = observed.get("rows") or 0, observed.get("null_ids") or 0
    share, example = nobodys / rows if rows else None, observed.get("null_ids_example")
    return [
        DataCheck("rows", "train", "info" if rows else "warn", rows, None, None),
        DataCheck("null_ids", "train", "warn" if nobodys else "info", nobodys, share, example),
    ]


def model_facts(model: str, sums: Mapping[str, Any], levels: Levels, *, rated: bool) -> Iterator[DataCheck]:
    """Facts about lists and users, from the totals of a model's rows of PER_USER. What was not counted has no fact."""
    table, users = f"predictions/{model}", sums.get("users_all", 0)

    def counted(check: str, name: str, of: int | None = None) -> DataCheck:
        return levels.counted(check, table, sums[name], of, _users(sums, name))

    for check in ("duplicates", "pair_duplicates", "rank_faults", "negative_gains", "beyond_catalog", "beyond_length"):
        if sums.get(f"n_{check}") is not None:
            yield counted(check, f"n_{check}")
    yield levels.needed("users", table, users, None)
    if sums.get("n_recommended") is not None:
        listed, recommended = sums["users_predicted"], sums["n_recommended"]
        yield levels.needed("users_with_relevant", table, sums["users_relevant"], users)
        yield levels.needed("users_with_list", table, listed, users)
        both = levels.needed("users_in_both", table, sums["users_truth_and_predicted"], users)
        # That one side is empty is told by other checks.
        yield both if listed and sums["users_truth"] else both._replace(level="info")
        yield counted("users_without_list", "users_without_list", users)
        yield counted("users_without_truth", "users_without_truth", users)
        yield counted("short_lists", "users_with_short_list", listed)
        yield counted("tied_at_cut", "users_with_tie_at_cut", listed)
        yield DataCheck(
            "matched", table, "info", sums["n_matched"], sums["n_matched"] / recommended if recommended else None, None
        )
    if rated:
        yield levels.needed("users_rated", table, sums.get("users_rated", 0), users)


def _unknown(table: str, observed: Mapping[str, Any], levels: Levels) -> list[DataCheck]:
    """Items that the catalogue lacks, where there is one."""
    return [levels.fault("unknown_items", table, observed)] if "unknown_items" in observed else []


def _users(sums: Mapping[str, Any], name: str) -> str | None:
    found = sums.get(f"{name}_example")
    return f"users {', '.join(found)}" if found else None


EMPTINESS = ("rows", "relevant", "users", "users_with_relevant", "users_with_list", "users_rated")
"""Checks whose level `error` means that there is nothing to average, not that rows are wrong."""

NEVER_MEET = ("users_in_both", "items_in_both")
"""Checks whose finding means that ids are not the same on both sides, which looks like a bad model."""

ADVICE: Mapping[str, str] = {
    "rows": "the table is empty: check its location and filters",
    "null_ids": "a user, item or model is null: remove these rows",
    "nan_scores": "a score is NaN or null: remove these rows",
    "nan_ratings": "a rating is NaN, null or infinite: remove these rows",
    "bad_ranks": "a rank is null or below 1: ranks count from 1",
    "relevant": "no truth row is relevant: check threshold against the ratings",
    "duplicates": "a (model, user, item) is predicted more than once: name the column of models in columns.model if these are "
    "lists of several, or remove the repeats",
    "truth_duplicates": "a (user, item) stands in truth more than once: remove the repeats",
    "rank_faults": "the ranks of a list are not 1, 2, 3, … without gap or repeat: mend them, or rank by a score",
    "negative_gains": "a rating gives a gain below 0, or one too large: use gain=binary",
    "bad_propensities": "a propensity is null, NaN, not above 0 or above 1: it is the probability that the item was shown; "
    "remove these rows",
    "beyond_catalog": "list, relevant items and training rows of a user are more than the catalogue: give the whole catalogue",
    "beyond_length": "a list is longer than max_per_user: make it the length of the longest list, or shorten the lists",
    "pair_duplicates": "a (model, user, item) has several predicted ratings: remove the repeats",
    "users_without_list": "users of truth to whom the model recommends nothing",
    "users_without_truth": "users with recommendations who do not stand in truth",
    "users": "nobody stands in truth or predictions",
    "users_with_relevant": "nobody has a relevant item: check threshold, and that users are the same ids on both sides",
    "users_with_list": "the model recommends nothing to anybody: check its name and its predictions",
    "users_in_both": "users of truth with a list: if there are none, check that users are the same ids on both sides",
    "items_in_both": "no item of truth is ever predicted: check that items are the same ids on both sides",
    "unknown_items": "the catalogue lacks these items: are its ids the same? checks.unknown_items says whether the rows stay",
    "short_lists": "lists that are shorter than the largest cut-off",
    "tied_at_cut": "lists with equal scores on both sides of a cut-off, so that the order of the ids decides what is in",
    "matched": "recommendations that have a truth row",
    "infinite_scores": "an infinite score is no predicted rating: remove these rows",
    "users_rated": "no pair of predicted and true rating: check that users and items are the same ids on both sides",
}
"""What a fact means and what to do about it, by check."""

_FIRST = ", or set duplicates to first (convention: {name: NAME, duplicates: first})"

WAYS_OUT: Mapping[str, str] = {
    **{check: f", or set checks.{check} to drop" for check in ("null_ids", "bad_ranks", "infinite_scores", "bad_propensities")},
    "nan_scores": ", or set nan_scores to drop, last or first (convention: {name: NAME, nan_scores: drop})",
    "nan_ratings": ", or set nan_scores to drop (convention: {name: NAME, nan_scores: drop})",
    **dict.fromkeys(("duplicates", "truth_duplicates", "pair_duplicates"), _FIRST),
    "negative_gains": ", or set negative_gains to clip (convention: {name: NAME, negative_gains: clip})",
}
"""Which option admits rows that are refused, by check."""
