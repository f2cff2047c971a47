"""Conventions: named sets of the choices in which evaluation systems differ.

Two systems that print "NDCG@10" rarely print the same number. Each choice is a field of `Convention`. There is a convention for
each supported system, and every field can be overridden.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any

from spark_recmetrics.errors import ConfigError, check_argument
from spark_recmetrics.text import brief, did_you_mean

USER_SETS = ("relevant", "truth", "predicted", "truth_and_predicted", "relevant_and_predicted", "all")

RATED = "rated"
"""The user set of rating metrics: users with a pair of predicted and true rating."""

MEMBERS: Mapping[str, tuple[str, ...]] = {
    "truth": ("n_truth",),
    "relevant": ("n_relevant",),
    "predicted": ("n_recommended",),
    "truth_and_predicted": ("n_truth", "n_recommended"),
    "relevant_and_predicted": ("n_relevant", "n_recommended"),
    RATED: ("n_pairs",),
    "all": (),
}
"""The counters that are above 0 for the users of each user set."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "relevance": ("present", "positive", "truthy", "threshold"),
    "candidates": ("all", "judged"),
    "ties": ("item_asc", "item_desc", "input"),
    "duplicates": ("error", "first", "keep"),
    "nan_scores": ("error", "drop", "last", "first"),
    "negative_gains": ("error", "clip"),
    "users": USER_SETS,
    "undefined": ("skip", "zero"),
    "empty": ("nan", "zero"),
    "precision_denominator": ("k", "recommended"),
    "recall_denominator": ("relevant", "min_k"),
    "map_normalizer": ("min_k", "relevant", "hits", "k", "min_recommended"),
    "gain": ("binary", "linear", "exponential", "exponential_plus1"),
    "idcg": ("at_k", "all", "list", "full_k"),
    "discount": ("log2_plus1", "log2_clipped"),
    "f1": ("per_user", "of_means"),
    "auc_negatives": ("exact", "plus_one"),
    "auc_ties": ("half", "order"),
    "auc_candidates": ("unseen", "all", "listed"),
    "gauc_weight": ("uniform", "relevant", "recommended"),
    "rating_average": ("pairs", "per_user", "users"),
    "rating_clip": ("none", "truth_range"),
    "rating_rows": ("all", "positive"),
    "coverage": ("fraction", "count"),
    "gini_population": ("recommended", "catalog"),
    "gini_scale": ("n", "n_minus_1"),
    "entropy_scale": ("none", "distinct"),
}
"""The allowed values of every option that is a name."""


@dataclass(frozen=True)
class Convention:
    """How metrics are defined: one field for each choice in which systems differ.

    A field that is a name takes one of `CHOICES[field]`. `docs/conventions.md` explains every value and names the systems that
    use it.

    Args:
        name: Name of the convention, as in the `convention` column of the summary.
        relevance: Which truth rows (with rating r) are relevant: `present` all, `positive` r > 0, `truthy` r != 0, `threshold`
            r >= `threshold`. In a truth table without ratings all rows are relevant.
        threshold: The relevance threshold of `relevance="threshold"`, in units of the rating.
        candidates: `all` ranks the full list. `judged` drops items without a truth row, and truth rows without a prediction.
        ties: Order of items with equal scores: by item, ascending or descending, in the type of the item. `input` is the order
            of the rows, which Spark does not keep, so it is treated as `item_asc`.
        duplicates: Repeated rows of one (model, user, item), and repeated truth rows of one (user, item). `error` rejects them,
            `first` keeps the best-ranked prediction, `keep` counts every repeated prediction. `first` and `keep` treat the
            ground truth as a set, with the highest relevant rating.
        nan_scores: NaN or null scores and ratings. `error` rejects them, `drop` drops the rows, `last` and `first` rank them
            last or first.
        negative_gains: A graded gain below 0: `error` rejects it, `clip` counts it as 0.
        users: The evaluated users: users with a truth row (`truth`), with a relevant item (`relevant`), or with a list
            (`predicted`).
        users_by_metric: Pairs (metric name, user set) that override `users`.
        undefined: A user with an undefined value (0/0) is left out (`skip`) or counts as 0 (`zero`).
        empty: The mean over no users: `nan` (None in results, null in tables) or `zero`. Rating metrics, and metrics that are
            better if lower, are always undefined then, because 0 would be the best value.
        precision_denominator: `k`, or the length of the list cut at k (`recommended`).
        recall_denominator: The number m of relevant items (`relevant`), or min(m, k) (`min_k`).
        map_normalizer: The divisor of MAP and MAR: `min_k` min(m, k), `relevant` m, `hits` the hits within k, `k`,
            `min_recommended` min(m, length of the list).
        gain: The gain of a relevant item with rating r: `binary` 1, `linear` r, `exponential` 2^r - 1, `exponential_plus1`
            2^(r+1) - 1.
        idcg: The ideal list of nDCG: the relevant items cut at k (`at_k`), `all` of them, the hits of the list itself (`list`),
            or k hits of gain 1 (`full_k`).
        discount: The discount of nDCG: `log2_plus1` log2(rank + 1), or `log2_clipped` log2(max(rank, 2)).
        f1: The mean of the users' F (`per_user`), or F of the two means (`of_means`).
        beta: Weight of the second metric in F-beta.
        auc_negatives: The number of non-relevant candidates in AUC is `exact`, or one more (`plus_one`).
        auc_ties: A tie with a non-relevant candidate counts `half`, or the `order` of the list decides.
        auc_candidates: The candidates of AUC: the catalog without the user's training rows (`unseen`), the catalog (`all`), or
            the `listed` items, for lists that are samples of candidates.
        gauc_weight: The weights of users in GAUC: `uniform`, by `relevant` items, or by the length of the list (`recommended`).
        rating_average: The mean over all `pairs`, the mean of the users' values (`per_user`), or the sum divided by the number
            of `users`.
        rating_clip: `truth_range` clips predictions to the smallest and largest true rating.
        rating_rows: `positive` ignores pairs with a true rating of 0 or less.
        coverage: The share (`fraction`) or the number (`count`) of covered items or users.
        gini_population: The items of the Gini index: all items of the `catalog`, or the `recommended` ones.
        gini_scale: The Gini index is divided by their number `n`, or by `n_minus_1`.
        entropy_base: Base of the logarithm in the entropy.
        entropy_scale: `distinct` divides the entropy by the number of recommended items.

    Raises:
        ConfigError: A field has a value that is not allowed.

    Example:
        >>> convention("mllib").override(users="truth")
        Convention('mllib(users=truth)')
    """

    name: str
    relevance: str = "present"
    threshold: float = 1.0
    candidates: str = "all"
    ties: str = "item_asc"
    duplicates: str = "error"
    nan_scores: str = "error"
    negative_gains: str = "error"
    users: str = "relevant"
    users_by_metric: tuple[tuple[str, str], ...] = ()
    undefined: str = "zero"
    empty: str = "nan"
    precision_denominator: str = "k"
    recall_denominator: str = "relevant"
    map_normalizer: str = "min_k"
    gain: str = "binary"
    idcg: str = "at_k"
    discount: str = "log2_plus1"
    f1: str = "per_user"
    beta: float = 1.0
    auc_negatives: str = "exact"
    auc_ties: str = "half"
    auc_candidates: str = "unseen"
    gauc_weight: str = "uniform"
    rating_average: str = "pairs"
    rating_clip: str = "none"
    rating_rows: str = "all"
    coverage: str = "fraction"
    gini_population: str = "recommended"
    gini_scale: str = "n"
    entropy_base: float = math.e
    entropy_scale: str = "none"

    def __post_init__(self) -> None:
        for option, allowed in CHOICES.items():
            value = getattr(self, option)
            check_argument(option, value, f"one of {', '.join(allowed)}", valid=isinstance(value, str) and value in allowed)
        for option, lowest in (("threshold", -math.inf), ("beta", 0.0), ("entropy_base", 1.0)):
            value = getattr(self, option)
            number = _float(value)
            if not lowest < number < math.inf:
                above = "" if lowest == -math.inf else f" above {lowest:g}"
                raise ConfigError(f"{option}: expected a finite number{above}, found {brief(value)}")
            object.__setattr__(self, option, number)
        try:
            pairs = tuple((str(metric), str(users)) for metric, users in dict(self.users_by_metric).items())
        except (TypeError, ValueError) as error:
            value = brief(self.users_by_metric)
            raise ConfigError(f"users_by_metric: expected pairs of metric and user set, found {value}") from error
        object.__setattr__(self, "users_by_metric", pairs)
        for metric, users in self.users_by_metric:
            if users not in USER_SETS:
                key = metric if metric.isprintable() else repr(metric)
                raise ConfigError(f"users_by_metric.{key}: expected one of {', '.join(USER_SETS)}, found {users!r}")

    def override(self, /, **options: Any) -> Convention:
        """The convention with other values of these fields. Its string shows the changes.

        Raises:
            ConfigError: A field does not exist, or its value is not allowed.

        Example:
            >>> str(convention("default").override(gain="linear"))
            'default(gain=linear)'
        """
        names = {name for name, _ in self.options()}
        for option in options:
            if option not in names:
                raise ConfigError(f"convention {self.name!r} has no option {option!r}{did_you_mean(option, names)}")
        return replace(self, **options)

    def options(self) -> Iterator[tuple[str, Any]]:
        """All fields except `name`, as (field, value)."""
        return ((f.name, getattr(self, f.name)) for f in fields(self) if f.name != "name")

    @property
    def keeps_lists(self) -> bool:
        """Whether no rows are dropped from a list before ranking, so that given ranks are the positions in the list."""
        return self.candidates != "judged" and self.duplicates != "first" and self.nan_scores != "drop"

    def users_of(self, metric: str, default: str | None = None) -> str:
        """The user set over which the metric of this name is averaged. The default is the convention's `users`."""
        return dict(self.users_by_metric).get(metric, default or self.users)

    def __str__(self) -> str:
        named = CONVENTIONS.get(self.name) or Convention(self.name)
        changed = [f"{option}={_text(value)}" for option, value in self.options() if value != getattr(named, option)]
        return f"{self.name}({', '.join(changed)})" if changed else self.name

    def __repr__(self) -> str:
        return f"Convention({str(self)!r})"


def _float(value: object) -> float:
    """The number as a float; NaN if the value is no number, or too large."""
    try:
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.nan


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "+".join(f"{metric}:{users}" for metric, users in value)
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


_T_AND_P, _R_AND_P = "truth_and_predicted", "relevant_and_predicted"
_WARPREC_USERS = (("f1", "all"), *((metric, _R_AND_P) for metric in ("arp", "aplt", "aclt", "user_mad_rating")))
"""The users of metrics in WarpRec: metrics of lists are averaged over users with both a list and a relevant item."""

_THRESHOLD = Convention("threshold", relevance="threshold", threshold=3.5, candidates="judged", ties="input", users=_T_AND_P)
_WARPREC = Convention(
    "warprec", relevance="positive", rating_rows="positive", coverage="count", gini_population="catalog", gini_scale="n_minus_1"
)
_JURITY = Convention("jurity", relevance="truthy", precision_denominator="recommended", idcg="all")
"""The options that two presets have in common."""

_PRESETS = (
    Convention("default", relevance="positive", undefined="skip", gini_population="catalog"),
    Convention("standard", relevance="positive", users=_T_AND_P, empty="zero", gain="linear", f1="of_means"),
    replace(_THRESHOLD, empty="zero"),
    replace(_THRESHOLD, name="threshold_skip", undefined="skip"),
    replace(
        _WARPREC,
        users_by_metric=_WARPREC_USERS,
        gain="exponential_plus1",
        auc_negatives="plus_one",
        auc_ties="order",
        rating_average="per_user",
    ),
    replace(_WARPREC, name="warprec_doc", gain="exponential"),
    Convention("laikallm", users="truth", map_normalizer="hits", idcg="list", rating_clip="truth_range"),
    Convention("laikallm_doc", users="truth", map_normalizer="relevant", idcg="list", rating_average="users"),
    replace(_JURITY, users_by_metric=(("precision", _R_AND_P), ("map", _R_AND_P))),
    replace(_JURITY, name="jurity_doc", users_by_metric=(("precision", _R_AND_P),)),
    Convention("recommenders", users=_T_AND_P, users_by_metric=(("ndcg", "truth"),), undefined="skip", empty="zero"),
    Convention("mllib", users=_T_AND_P),
    Convention("replay", ties="item_desc", users="truth", auc_ties="order", auc_candidates="listed"),
    Convention("rectools", users="truth", map_normalizer="relevant", idcg="full_k", coverage="count"),
    Convention(
        "recbole",
        relevance="positive",
        users="truth",
        gauc_weight="relevant",
        gini_population="catalog",
        entropy_scale="distinct",
    ),
    Convention("ranx", relevance="threshold", users="truth", map_normalizer="relevant", gain="linear"),
    Convention("trec_eval", relevance="threshold", ties="item_desc", users=_T_AND_P, map_normalizer="relevant", gain="linear"),
    Convention(
        "lenskit",
        users="predicted",
        undefined="skip",
        precision_denominator="recommended",
        recall_denominator="min_k",
        map_normalizer="min_recommended",
        discount="log2_clipped",
        gini_population="catalog",
    ),
    Convention("torchmetrics", relevance="positive", candidates="judged", users=_T_AND_P, map_normalizer="hits", gain="linear"),
)
CONVENTIONS: Mapping[str, Convention] = {rules.name: rules for rules in _PRESETS}
"""The conventions by name. `default` belongs to this package, the others reproduce a system; `*_doc` follow the documentation
of a system whose code differs from it."""


def convention(name: str | Mapping[str, Any] | Convention, threshold: float | None = None) -> Convention:
    """The convention of this name, with the given relevance threshold.

    Args:
        name: A key of `CONVENTIONS`, in any case; or a string with options as results show it, such as `ranx(gain=binary)`; or
            a mapping such as `{"name": "ranx", "gain": "binary"}`, in which the name may be missing for `default`; or a
            `Convention`, which is returned.
        threshold: A truth row is relevant if its rating is at least this. It implies `relevance="threshold"`.

    Raises:
        ConfigError: The name or an option is unknown, an option has a value that is not allowed, or the threshold is not a
            finite number.

    Example:
        >>> convention("ranx", threshold=4)
        Convention('ranx(threshold=4)')
        >>> convention("ranx(threshold=4)") == convention({"name": "ranx", "threshold": 4}) == convention("ranx", threshold=4)
        True
        >>> convention("rankx")
        Traceback (most recent call last):
        spark_recmetrics.errors.ConfigError: unknown convention 'rankx'; did you mean 'ranx'? …
    """
    if isinstance(name, Convention):
        rules = name
    elif isinstance(name, Mapping):
        options = {str(option): value for option, value in name.items()}
        rules = _read(options.pop("name", "default")).override(**options)
    else:
        rules = _read(name)
    return rules if threshold is None else rules.override(relevance="threshold", threshold=threshold)


def _read(name: object) -> Convention:
    """The convention of a name, or of a name with options in parentheses."""
    plain, bracket, inside = name.strip().partition("(") if isinstance(name, str) else ("", "", "")
    rules = CONVENTIONS.get(plain.strip().lower()) if not bracket or inside.endswith(")") else None
    if rules is None:
        near = did_you_mean(plain, CONVENTIONS)
        forms = "a name, such as ranx, a name with options, such as ranx(gain=binary), or a mapping"
        raise ConfigError(f"unknown convention {brief(name)}{near} (expected {forms} {{name: ranx, gain: binary}})")
    return rules.override(**_parsed(inside[:-1])) if bracket else rules


def _parsed(text: str) -> dict[str, Any]:
    """The options in the string of a convention."""
    options: dict[str, Any] = {}
    for part in text.split(",") if text.strip() else ():
        option, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or option in options:
            problem = "twice" if equals else "without a value"
            raise ConfigError(f"convention: expected options such as gain=binary, found {option!r} {problem}")
        if option == "users_by_metric":
            options[option] = [tuple(pair.split(":", 1)) for pair in value.split("+") if pair]
        else:
            options[option] = _number(value) if option in ("threshold", "beta", "entropy_base") else value
    return options


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
