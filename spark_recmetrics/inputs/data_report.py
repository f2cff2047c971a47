"""DATA_REPORT: the data checks of the input, what they mean, and how to fix their findings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from spark_recmetrics.columns import Side
from spark_recmetrics.conventions import Convention
from spark_recmetrics.text import counted, printable

N_EXAMPLES = 5
"""The maximum number of rows or users that a check names."""


class Meaning(NamedTuple):
    """What a check counts (nothing if it reports that something is missing), what is wrong, and what to do."""

    unit: str
    finding: str
    fix: str = ""


class DataCheck(NamedTuple):
    """One row of DATA_REPORT."""

    check: str
    table: str
    level: str
    n_rows: int
    share: float | None
    example: str | None

    @classmethod
    def of(
        cls, check: str, table: str, level: str, n_rows: int, total: int | None = None, example: str | None = None
    ) -> DataCheck:
        """The row of a check, with the share of the rows in a total."""
        return cls(check, table, level, n_rows, n_rows / total if total else None, example)

    def line(self) -> str:
        """The result of the check and what to do about it, on one line."""
        unit, finding, fix = MEANINGS.get(self.check, Meaning("row", ""))
        share = "" if self.share is None else f" ({self.share * 100:.3g} %)"
        result = f"{counted(self.n_rows, unit)}{share} {finding}".strip() if unit else finding
        if self.example:
            result += f", for example {self.example}" if unit else f" ({self.example})"
        # An option that admits such rows helps only where they are rejected.
        way_out = WAYS_OUT.get(self.check, "") if self.level == "error" else ""
        # Models and ids may hold line breaks.
        return printable(f"{self.table}: {self.check}: {result}." + (f" {fix}{way_out}." if fix else ""))

    @property
    def advice(self) -> str:
        """The meaning of the check and what to do, without numbers."""
        unit, finding, fix = MEANINGS.get(self.check, Meaning("", ""))
        meaning = f"{unit}s {finding}" if unit else finding
        return f"{meaning}. {fix}".strip(". ")


class Levels(NamedTuple):
    """What decides the level of a check."""

    policies: Mapping[str, str]  # by check, as chosen by the user
    convention: Convention  # it has the policies `duplicates`, `nan_scores` and `negative_gains`
    scores_are_numbers: Collection[str] = ()  # tables whose scores are averaged: an infinite one would make every mean infinite
    needs_relevant: bool = True  # metrics need relevant rows; rating metrics do not

    def level(self, check: str) -> str:
        """The level of a check with a finding."""
        option = _OPTIONS.get(check)
        policy = getattr(self.convention, option) if option else self.policies.get(check, "error")
        return policy if policy in ("error", "warn", "info") else "warn"

    def unwanted(self, check: str, table: str, n_rows: int, total: int | None = None, example: str | None = None) -> DataCheck:
        """A check of rows that should not exist: `info` if there are none."""
        return DataCheck.of(check, table, self.level(check) if n_rows else "info", n_rows, total, example)

    def required(self, check: str, table: str, n_rows: int, total: int | None, example: str | None = None) -> DataCheck:
        """A check of rows that must exist: `info` if there are any."""
        return DataCheck.of(check, table, "info" if n_rows else self.level(check), n_rows, total, example)

    def fault(self, check: str, table: str, counts: Mapping[str, Any]) -> DataCheck:
        """A check of faulty rows, from the counts of a table."""
        return self.unwanted(check, table, counts.get(check) or 0, counts.get("rows"), counts.get(f"{check}_example"))


def data_report(
    counts: Mapping[str, Mapping[str, Any]],
    totals: Mapping[str, Mapping[str, Any]],
    models: Sequence[str],
    levels: Levels,
    *,
    has_ratings: bool,
    rated: bool,
) -> list[DataCheck]:
    """The rows of DATA_REPORT. `rated`: there are rating metrics.

    The counts have, by table, the number of rows and of each fault: of `truth` always, of `train` only if it is counted. The
    totals of a model are those of its rows of PER_USER, with those of `Engine.look_again`. A model may have none.
    """
    tables = [table for table in counts if table not in ("truth", "train")]
    checks = [check for table in tables for check in prediction_checks(table, counts[table], levels)]
    checks += truth_checks(counts["truth"], levels, has_ratings=has_ratings)
    checks += train_checks(counts["train"]) if "train" in counts else []
    # Every model is scored against the same ground truth. Without a ranking metric, only its rows with a prediction are read.
    with_repeats = [sums for sums in totals.values() if sums.get("n_truth_duplicates") is not None]
    if with_repeats:
        most = max(with_repeats, key=lambda sums: sums["n_truth_duplicates"])
        example = _example_users(most, "n_truth_duplicates")
        checks.append(levels.unwanted("truth_duplicates", "truth", most["n_truth_duplicates"], None, example))
    # If rows of a list are missing, its ranks have gaps for this reason alone.
    has_gaps = any(counts.get("predictions", {}).get(check) for check in ("null_ids", "bad_ranks"))
    zero_based = any(check.check == "zero_based_ranks" for check in checks)
    for model in models:
        by_model = model_checks(model, totals.get(model, {}), levels, rated=rated)
        without = {"rank_faults"} if has_gaps else set[str]()
        without |= {"items_in_both"} if zero_based else set[str]()
        checks += [check for check in by_model if check.check not in without]
    return checks


def prediction_checks(table: str, counts: Mapping[str, Any], levels: Levels) -> list[DataCheck]:
    """The checks of the rows of predictions. An empty table may have no counts."""
    infinite = levels.fault("infinite_scores", table, counts)
    ranks = levels.fault("bad_ranks", table, counts)
    if (counts.get("ranks_0") or 0) > (counts.get("ranks_1") or 0) / 2:
        # Without their first row the lists would be others, so no policy helps.
        ranks = ranks._replace(check="zero_based_ranks", level="error")
    harmless = infinite.level == "error" and table not in levels.scores_are_numbers
    return [
        levels.required("rows", table, counts.get("rows") or 0, None),
        *(levels.fault(check, table, counts) for check in ("null_ids", "nan_scores")),
        ranks,
        infinite._replace(level="info") if harmless else infinite,
        *_counted_faults(("unknown_items",), table, counts, levels),
    ]


def truth_checks(counts: Mapping[str, Any], levels: Levels, *, has_ratings: bool) -> list[DataCheck]:
    """The checks of the rows of the ground truth."""
    rows, lowest, highest = counts.get("rows") or 0, counts.get("lowest"), counts.get("highest")
    # Adding 0.0 turns -0.0 into 0.0. Spark and numpy return either of the two as the smallest value.
    ratings = None
    if has_ratings and lowest is not None and highest is not None:
        ratings = f"ratings {lowest + 0.0:g} to {highest + 0.0:g}"
    relevant = levels.required("relevant", "truth", counts.get("relevant") or 0, rows, ratings)
    return [
        levels.required("rows", "truth", rows, None, ratings),
        levels.fault("null_ids", "truth", counts),
        levels.fault("nan_ratings", "truth", counts),
        *_counted_faults(("bad_propensities", "unknown_items"), "truth", counts, levels),
        relevant if levels.needs_relevant else relevant._replace(level="info"),
    ]


def train_checks(counts: Mapping[str, Any]) -> list[DataCheck]:
    """The checks of training rows. None of them is an error."""
    rows, n_null = counts.get("rows") or 0, counts.get("null_ids") or 0
    return [
        DataCheck.of("rows", "train", "info" if rows else "warn", rows),
        DataCheck.of("null_ids", "train", "warn" if n_null else "info", n_null, rows, counts.get("null_ids_example")),
    ]


def model_checks(model: str, sums: Mapping[str, Any], levels: Levels, *, rated: bool) -> Iterator[DataCheck]:
    """The checks of the lists and users of a model, for those totals of PER_USER that it has."""
    table, users = f"predictions/{model}", sums.get("users_all", 0)

    def unwanted(check: str, name: str, total: int | None = None) -> DataCheck:
        return levels.unwanted(check, table, sums[name], total, _example_users(sums, name))

    for check in ("duplicates", "pair_duplicates", "rank_faults", "negative_gains", "beyond_catalog", "beyond_length"):
        if sums.get(f"n_{check}") is not None:
            yield unwanted(check, f"n_{check}")
    yield levels.required("users", table, users, None)
    if sums.get("n_recommended") is not None:
        listed = sums["users_predicted"]
        yield levels.required("users_with_relevant", table, sums["users_relevant"], users)
        yield levels.required("users_with_list", table, listed, users)
        both = levels.required("users_in_both", table, sums["users_truth_and_predicted"], users, sums.get("similar_users"))
        # Other checks report that one of the two is empty.
        yield both if listed and sums["users_truth"] else both._replace(level="info")
        yield unwanted("users_without_list", "users_without_list", users)
        yield unwanted("users_without_truth", "users_without_truth", users)
        yield unwanted("short_lists", "users_with_short_list", listed)
        yield unwanted("tied_at_cut", "users_with_tie_at_cut", listed)
        yield DataCheck.of("matched", table, "info", sums["n_matched"], sums["n_recommended"])
    if rated:
        yield levels.required("users_rated", table, sums.get("users_rated", 0), users)
    if "items_in_both" in sums:
        n_common, n_items = sums["items_in_both"], sums["items_in_truth"]
        yield levels.required("items_in_both", table, n_common, n_items, sums.get("similar_items"))


def unmatched_check(table: str, side: Side, similar: str | None) -> DataCheck:
    """The check of a table of side information that has no user, or no item, of the ground truth."""
    return DataCheck.of(f"no_{side}s_in_truth", table, "warn", 0, None, similar)


def _counted_faults(checks: Collection[str], table: str, counts: Mapping[str, Any], levels: Levels) -> list[DataCheck]:
    return [levels.fault(check, table, counts) for check in checks if check in counts]


def _example_users(sums: Mapping[str, Any], name: str) -> str | None:
    users, n_checked = sums.get(f"{name}_example"), sums.get(f"{name}_users")
    examples = [f"users {', '.join(users)}"] if users else []
    return "; ".join(examples + ([f"after the largest cut-off {n_checked} users were checked"] if n_checked else [])) or None


EMPTINESS = ("rows", "relevant", "users", "users_with_relevant", "users_with_list", "users_rated")
"""Checks that are errors if there is nothing to average, not if rows are wrong."""

DIFFERENT_IDS = ("users_in_both", "items_in_both")
"""Checks that ids match between predictions and ground truth. If no id matches, values are low even for a good model."""

_OPTIONS = {
    **dict.fromkeys(("nan_scores", "nan_ratings"), "nan_scores"),
    **dict.fromkeys(("duplicates", "truth_duplicates", "pair_duplicates"), "duplicates"),
    "negative_gains": "negative_gains",
}
"""By check, the option of the convention that decides its level."""

_SAME_IDS = "Check that {} have the same ids in predictions and ground truth"

_SEVERAL_MODELS = "If these are lists of several models, set columns.model to the model column. Otherwise remove the repeats"

MEANINGS: Mapping[str, Meaning] = {
    "rows": Meaning("", "the table is empty", "Check its location and filters"),
    "null_ids": Meaning("row", "with a null user, item or model", "Remove such rows"),
    "nan_scores": Meaning("row", "with a NaN or null score", "Remove such rows"),
    "nan_ratings": Meaning("row", "with a NaN, null or infinite rating", "Remove such rows"),
    "infinite_scores": Meaning("row", "with an infinite score, which is not a predicted rating", "Remove such rows"),
    "bad_ranks": Meaning("row", "with a rank that is null or below 1", "Number ranks from 1"),
    "zero_based_ranks": Meaning(
        "row", "with a rank below 1, because the ranks start at 0, not at 1", "Add 1 to all ranks, for example in a view"
    ),
    "bad_propensities": Meaning(
        "row",
        "with a propensity that is null, NaN, at most 0 or above 1",
        "A propensity is the probability that the item was shown. Remove such rows",
    ),
    "unknown_items": Meaning(
        "row",
        "with an item that is not in the catalog",
        "Check that items have the same ids as in the catalog, or set checks.unknown_items",
    ),
    "relevant": Meaning("", "no row is relevant", "Check the threshold against the ratings"),
    "duplicates": Meaning("repeated recommendation", "of the same model, user and item", _SEVERAL_MODELS),
    "truth_duplicates": Meaning("repeated row", "of the same user and item", "Remove the repeats"),
    "pair_duplicates": Meaning("repeated predicted rating", "of the same model, user and item", _SEVERAL_MODELS),
    "rank_faults": Meaning(
        "row",
        "with a rank that is not its position in the list",
        "Ranks must be 1, 2, 3, … without gaps or repeats, and a user has one array. Correct them, or give scores instead",
    ),
    "negative_gains": Meaning("relevant item", "with a rating whose gain is negative or too large", "Use gain=binary"),
    "beyond_catalog": Meaning(
        "item", "beyond the catalog size, in the list, ground truth and training rows of a user", "Give the full catalog"
    ),
    "beyond_length": Meaning(
        "row", "of lists beyond max_per_user", "Set max_per_user to the length of the longest list, or shorten the lists"
    ),
    "users": Meaning("", "the ground truth and the predictions have no users", "Check both tables"),
    "users_with_relevant": Meaning(
        "", "no user has a relevant item", f"Check the threshold. {_SAME_IDS.format('users and items')}"
    ),
    "users_with_list": Meaning(
        "", "the model recommends nothing to any user", "Check the name of the model and its predictions"
    ),
    "users_in_both": Meaning("", "no user of the ground truth has a list", _SAME_IDS.format("users")),
    "items_in_both": Meaning("", "no item of the ground truth is predicted for any user", _SAME_IDS.format("items")),
    **{
        f"no_{side}s_in_truth": Meaning(
            "", f"no {side} in this table appears in the ground truth", f"Check that {side}s have the same ids in both tables"
        )
        for side in ("user", "item")
    },
    "users_without_list": Meaning("user", "with ground truth but without recommendations"),
    "users_without_truth": Meaning("user", "with recommendations but without ground truth"),
    "short_lists": Meaning("list", "shorter than the largest cut-off"),
    "tied_at_cut": Meaning("list", "with tied scores at a cut-off", "Item ids decided which items are in the top k"),
    "matched": Meaning("recommendation", "with a row in the ground truth"),
    "users_rated": Meaning("", "no pair of a predicted and a true rating", _SAME_IDS.format("users and items")),
}
"""By check, what it means and what to do about it."""

_FIRST = ", or set duplicates to first (convention: {name: NAME, duplicates: first})"

WAYS_OUT: Mapping[str, str] = {
    **{check: f", or set checks.{check}: drop" for check in ("null_ids", "bad_ranks", "infinite_scores", "bad_propensities")},
    "nan_scores": ", or set nan_scores to drop, last or first (convention: {name: NAME, nan_scores: drop})",
    "nan_ratings": ", or set nan_scores to drop (convention: {name: NAME, nan_scores: drop})",
    **dict.fromkeys(("duplicates", "truth_duplicates", "pair_duplicates"), _FIRST),
    "negative_gains": ", or set negative_gains to clip (convention: {name: NAME, negative_gains: clip})",
}
"""By check, the option that admits rows that are rejected."""
