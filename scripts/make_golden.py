# ruff: noqa: S311, S603 - a script that is run by hand, with seeds on purpose, and starts only what it names itself
"""Writes tests/golden: what other systems return for the data sets that this script makes. Run by hand; needs the network.

    python scripts/make_golden.py [package ...]

Each package gets an environment of its own, outside the repository, with the version of the table `PACKAGES`. This file, run
again there with `--inside package`, writes `tests/golden/<package>-<version>.csv`:

    data         data set, in tests/golden/data
    call         what was called in the package
    value        what it returned; the name of the exception where it raised one
    convention   the convention under which this project computes the same
    metric       the metric that this project computes
    options      what else its evaluation gets: `catalog_size=40`, or as catalogue the items that a data set has in its training
                 rows, `catalog=<data set>`; `train=<data set>`, `features=<data set>`; as lists of a baseline model the
                 predictions of another data set, `baseline=<data set>`; and with `groups=3` items and users are grouped by what
                 is left of their ids when these are divided by 3
    without      users that were left out, because the package cannot represent them
    ours         empty where the values are equal; else they differ, and this is the value here, or `refused`
    tolerance    relative, and absolute below 1
    note         why users are left out, or why values differ

The tests read these files, and neither this script nor the packages. Where values differ, `ours` is worked out here, by hand or
in plain Python, and not taken from this project.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import operator
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
ENVIRONMENTS = Path(tempfile.gettempdir()) / "recmetrics-golden"

FLOAT64, FLOAT32 = 1e-12, 1e-6


@dataclass(frozen=True)
class Package:
    """Where a package is installed: in an environment of that name, by these calls of pip."""

    environment: str
    installs: tuple[tuple[str, ...], ...]
    python: str = ""
    """A version such as 3.12; empty for that of this process."""
    tolerance: float = FLOAT64


# The three that need torch share its gigabytes. RecBole asks for a ray that new Pythons cannot have, and runs without.
TORCH = Package(
    "torch",
    (
        ("torch==2.9.1", "torchmetrics==1.9.0", "warprec==1.4.6"),
        ("--no-deps", "recbole==1.2.1"),
        ("colorlog==4.7.2", "colorama==0.4.4", "texttable", "thop", "plotly", "psutil"),
    ),
    python="3.12",
)
PACKAGES = {
    # With pandas 3 its estimators ips and dr are NaN.
    "jurity": Package("jurity", (("jurity==2.1.0", "pandas==2.3.3"),)),
    "recommenders": Package("recommenders", (("recommenders==1.2.1",),)),
    "rectools": Package("rectools", (("rectools==0.19.0",),)),
    "ranx": Package("ranx", (("ranx==0.3.21",),)),
    "replay-rec": Package("replay-rec", (("replay-rec==0.22.0",),)),
    "lenskit": Package("lenskit", (("lenskit==2025.8.1",),)),
    "torchmetrics": replace(TORCH, tolerance=FLOAT32),
    "pytrec_eval-terrier": Package("pytrec_eval-terrier", (("pytrec_eval-terrier==0.5.11",),)),
    "recbole": TORCH,
    "warprec": replace(TORCH, tolerance=FLOAT32),
    "scikit-learn": Package("scikit-learn", (("scikit-learn==1.7.2",),)),
    # The Spark beside this project, in the Python that runs this.
    "pyspark": Package("", ()),
}

ITEMS = range(1001, 1041)
"""The catalogue. Four digits, so that items have one order as numbers and as texts."""
CUTS = (1, 3, 5, 10)
CATALOG = f"catalog_size={len(ITEMS)}"
KNOWN = f"{CATALOG} train=known features=known"
TRAINED = "catalog=known train=known features=known"
N_GROUPS = 3
GROUPED = f"{KNOWN} groups={N_GROUPS}"


# Data sets ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A data set: (user, item, score), (user, item, rating, propensity), (user, item) of training, items (item, 0 or 1, …)."""

    name: str
    predictions: Sequence[tuple[int, int, float]]
    truth: Sequence[tuple[int, int, float, float]]
    train: Sequence[tuple[int, int]] = ()
    items: Sequence[tuple[int, ...]] = ()
    left_out: tuple[int, ...] = ()
    why: str = ""

    @property
    def lists(self) -> dict[int, dict[int, float]]:
        """Per user, item to score, best first; of equal scores the smaller item first."""
        found: dict[int, dict[int, float]] = {}
        for user, item, score in sorted(self.predictions, key=lambda row: (row[0], -row[2], row[1])):
            found.setdefault(user, {})[item] = score
        return found

    @property
    def rated(self) -> dict[int, dict[int, float]]:
        """Per user, item to rating."""
        found: dict[int, dict[int, float]] = {}
        for user, item, rating, _ in self.truth:
            found.setdefault(user, {})[item] = rating
        return found

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """(score, rating) of what was both recommended and rated."""
        rated = self.rated
        return [(score, rated[user][item]) for user, item, score in self.predictions if item in rated.get(user, {})]

    def without(self, *users: int, why: str) -> Case:
        """The same without these users."""
        predictions = [row for row in self.predictions if row[0] not in users]
        truth = [row for row in self.truth if row[0] not in users]
        train = [row for row in self.train if row[0] not in users]
        return Case(self.name, predictions, truth, train, self.items, tuple(sorted(users)), why if users else "")

    def without_edges(self, *users: int, why: str) -> Case:
        """The same without these users of `edge`; other data sets stay as they are."""
        return self.without(*users, why=why) if self.name == "edge" else self


def random_case(name: str, seed: int, ratings: Sequence[float]) -> Case:
    """25 users with lists of 15 to 25 items, of which they rated some, and some items that the list lacks. No tied scores."""
    rng = random.Random(seed)
    predictions, truth = [], []
    for user in range(1, 26):
        length = rng.randint(15, 25)
        scores = rng.sample(range(5_000, 55_000), length)
        predictions += [(user, item, score / 10_000) for item, score in zip(rng.sample(ITEMS, length), scores, strict=True)]
        rated = rng.sample(ITEMS, rng.randint(4, 14))
        truth += [(user, item, rng.choice(ratings), rng.randint(10, 90) / 100) for item in rated]
        if not any(row[0] == user and row[2] > 0 for row in truth):
            truth[-1] = (*truth[-1][:2], 1.0, 0.5)
    return Case(name, predictions, truth)


EDGE_LISTS = {
    2: range(1001, 1013),
    3: range(1001, 1013),
    4: (1003, 1007),
    5: range(1001, 1013),
    6: (1008, 1004, 1012, *range(1020, 1030)),
    7: range(1001, 1013),
    8: range(1001, 1014),
    9: (1005,),
    10: (1031, 1002, 1017, 1009, 1040, 1011, 1025, 1006, 1033, 1014, 1020),
}
EDGE_TRUTH = {
    1: {1001: 4, 1002: 0},
    3: {1001: 0, 1002: 0, 1030: 0},
    4: {1003: 5, 1011: 3, 1007: 0, 1020: 2},
    5: {1002: 3, 1005: 5, 1012: 1, 1004: 0},
    6: {1008: 5, 1004: 4, 1012: 2},
    7: {1020: 5, 1021: 3, 1022: 0},
    8: dict(zip(range(1001, 1017), (3, 0, 5, 4, 1, 2, 5, 4, 3, 3, 2, 1, 5, 4, 2, 1), strict=True)),
    9: {1005: 4},
    10: {1002: 3, 1009: 5, 1011: 2, 1033: 4, 1031: 0, 1039: 5},
    11: {1003: 5, 1004: 3, 1005: 0},
}
TRUTH_ONLY, PREDICTIONS_ONLY, NOTHING_RELEVANT, SHORT, TIED, PERFECT, NOTHING_FOUND, LONG, ONE_ITEM, ORDINARY = range(1, 11)
TRUTH_ONLY_TOO = 11
"""The users of `edge`. Two have no list, so that they outnumber the one without a relevant item: the means tell them apart."""


def edge_case() -> Case:
    """One user for each edge; the scores of `TIED` are equal in groups of four."""
    predictions = [
        (user, item, 5.0 - place // 4 if user == TIED else round(5.25 - 0.3 * place, 2))
        for user, items in EDGE_LISTS.items()
        for place, item in enumerate(items)
    ]
    truth = [
        (user, item, float(rating), (place + 2) / 20)
        for user, rated in EDGE_TRUTH.items()
        for place, (item, rating) in enumerate(rated.items())
    ]
    return Case("edge", predictions, truth)


def full_case(name: str, seed: int, step: float) -> Case:
    """12 users with a score for every item of the catalogue, and training rows; scores are multiples of `step`."""
    rng = random.Random(seed)
    predictions, truth, train = [], [], []
    for user in range(1, 13):
        seen = rng.sample(ITEMS, rng.randint(3, 9))
        unseen = [item for item in ITEMS if item not in seen]
        train += [(user, item) for item in seen]
        truth += [(user, item, 1.0, 0.5) for item in rng.sample(unseen, rng.randint(1, 12))]
        places = rng.sample(range(len(ITEMS)), len(ITEMS))
        predictions += [(user, item, float(place // step + 1)) for item, place in zip(ITEMS, places, strict=True)]
    return Case(name, predictions, truth, train)


def known_case(name: str, seed: int) -> Case:
    """Training rows of the 25 users of `stars-1`, of popular items more often and of ten items never, and features of all."""
    rng = random.Random(seed)
    weights = [1 / (place + 1) for place in range(30)]
    train = []
    for user in range(1, 26):
        train += [(user, item) for item in sorted(set(rng.choices(ITEMS[:30], weights, k=rng.randint(3, 12))))]
    items = [(item, *(int(rng.random() < 0.4) for _ in range(4)), 1 - item % 2) for item in ITEMS]
    return Case(name, (), (), train, [row if any(row[1:]) else (row[0], 1, *row[2:]) for row in items])


def trained_case(name: str, case: Case, known: Case) -> Case:
    """What is left of a data set that knows nothing but the items of training rows."""
    trained = {item for _, item in known.train}
    return Case(name, *([row for row in rows if row[1] in trained] for rows in (case.predictions, case.truth)))


def tiny(name: str, lists: Mapping[int, Sequence[int]], rated: Mapping[int, Sequence[tuple[int, float]]]) -> Case:
    """A data set for one fault, small enough to work out its values by hand."""
    predictions = [(user, item, 9.0 - place) for user, items in lists.items() for place, item in enumerate(items)]
    return Case(name, predictions, [(user, item, rating, 0.5) for user, rows in rated.items() for item, rating in rows])


CASES = {
    case.name: case
    for case in (
        random_case("stars-1", 1, (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)),
        random_case("stars-2", 2, (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)),
        random_case("clicks", 3, (0.0, 1.0)),
        edge_case(),
        full_case("full", 4, 1),
        full_case("full-tied", 5, 6),
        known_case("known", 6),
        trained_case("trained", random_case("", 1, (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)), known_case("", 6)),
        tiny("twice-listed", {1: (1001, 1001, 1001)}, {1: [(1001, 1.0)]}),
        tiny("twice-rated", {1: (1001, 1002, 1003)}, {1: [(1001, 1.0), (1001, 1.0), (1002, 1.0), (1003, 1.0), (1004, 1.0)]}),
        tiny("one-miss", {1: (1001, 1002), 2: (1003, 1004)}, {1: [(1001, 1.0)], 2: [(1005, 1.0)]}),
        tiny("no-truth", {1: (1001, 1002), 2: (1003, 1004)}, {1: [(1001, 1.0)]}),
        tiny("nothing-relevant", {1: (1001, 1002), 2: (1003, 1004)}, {1: [(1001, 1.0)], 2: [(1003, 0.0)]}),
        Case("nan-score", [(1, 1001, math.nan), (1, 1002, 8.0)], [(1, 1002, 1.0, 0.5)]),
        Case("below-zero", [(1, 1001, -1.0), (1, 1002, -2.0)], [(1, 1001, 1.0, 0.5), (1, 1002, 0.0, 0.5)]),
        Case("tied", [(1, 1001, 5.0), (1, 1002, 5.0)], [(1, 1001, 0.0, 0.5), (1, 1002, 1.0, 0.5)]),
        replace(
            tiny("four-fifths", {1: (1003, 1001)}, {1: [(1003, 1.0)]}),
            train=[(user, item) for item, n_rows in ((1001, 5), (1002, 3), (1003, 2)) for user in range(1, n_rows + 1)],
        ),
        tiny("reversed", {1: (1001, 1002, 1003)}, {1: [(1001, 1.0), (1002, 2.0), (1003, 3.0)]}),
    )
}
RANKING = ("stars-1", "stars-2", "clicks", "edge")


def write_data() -> None:
    """Stores the data sets for the tests."""
    columns = {
        "predictions": ("user_id", "item_id", "score"),
        "truth": ("user_id", "item_id", "rating", "propensity"),
        "train": ("user_id", "item_id"),
        "items": ("item_id", "f1", "f2", "f3", "f4", "f5"),
    }
    for case in CASES.values():
        for part, header in columns.items():
            if rows := getattr(case, part):
                write_csv(GOLDEN / "data" / f"{case.name}-{part}.csv", header, rows)


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """One file, with lines that end the same on every system."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


# Rows ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A row of a golden file; the fields are explained at the top."""

    data: str
    call: str
    value: str
    convention: str
    metric: str
    options: str
    without: str
    ours: str
    tolerance: float
    note: str


@dataclass(frozen=True)
class Asked:
    """Makes rows about one data set under one convention."""

    case: Case
    convention: str
    options: str = ""
    tolerance: float = FLOAT64

    def __call__(
        self,
        call: str,
        metric: str,
        function: Callable[..., Any],
        *arguments: Any,
        ours: float | str = "",
        note: str = "",
        **keywords: Any,
    ) -> Row:
        """The row of a function's value, or of the exception that it raises."""
        try:
            value = function(*arguments, **keywords)
            text = "None" if value is None else repr(float(value))
        except Exception as error:  # noqa: BLE001 - whatever a package raises is its answer
            text = type(error).__name__
        return Row(
            self.case.name,
            call,
            text,
            self.convention,
            metric,
            self.options,
            " ".join(map(str, self.case.left_out)),
            ours if isinstance(ours, str) else repr(float(ours)),
            self.tolerance,
            "; ".join(part for part in (self.case.why, note) if part),
        )


def written(name: str, **options: Any) -> str:
    """A call as text.

    Example:
        >>> written("ndcg_at_k", k=5)
        'ndcg_at_k(k=5)'
    """
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in options.items())})"


def at(k: int | None) -> str:
    """The cut-off of a metric's text."""
    return "" if k is None else f"@{k}"


def judged_pairs(case: Case) -> Case:
    """Only what was both recommended and rated; without a note, for it is the join that everyone takes errors over."""
    rated = {row[:2] for row in case.truth}
    scored = {row[:2] for row in case.predictions}
    predictions = [row for row in case.predictions if row[:2] in rated]
    return replace(case, predictions=predictions, truth=[row for row in case.truth if row[:2] in scored])


def variance(values: Sequence[float]) -> float:
    """Of a population."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / len(values)


DUPLICATES = (
    ("(duplicates=keep)", "", ""),
    ("(duplicates=first)", 1.0, "counts a repeated prediction"),
    ("", "refused", "counts a repeated prediction"),
)
"""What is asked about `twice-listed`: options of the convention, the value here, the note."""

TIES = "takes the mean over all orders of equal scores"


# Packages -----------------------------------------------------------------------------------------------------------------


def jurity(cases: Mapping[str, Case]) -> Iterator[Row]:
    """Frames of clicks; predictions and truth call the score and the click by one name."""
    import pandas as pd
    from jurity.recommenders import BinaryRecoMetrics, RankingRecoMetrics
    from jurity.utils import get_sorted_clicks

    columns = {"click_column": "click", "user_id_column": "user", "item_id_column": "item"}

    def score(case: Case, name: str, *, first: Case | None = None, **options: Any) -> Any:
        get_sorted_clicks.cache_clear()
        if first is not None:
            evaluate(first, name, **options)
        return evaluate(case, name, **options)

    def evaluate(case: Case, name: str, **options: Any) -> Any:
        truth = pd.DataFrame(case.truth, columns=["user", "item", "click", "propensity"])
        if name != "CTR":
            truth = truth.drop(columns="propensity")
        metric = getattr(BinaryRecoMetrics if name in {"AUC", "CTR"} else RankingRecoMetrics, name)(**columns, **options)
        return metric.get_score(truth, pd.DataFrame(case.predictions, columns=["user", "item", "click"]))

    def score_copying(case: Case, name: str, **options: Any) -> Any:
        with pd.option_context("mode.copy_on_write", True):
            return score(case, name, **options)

    for name in RANKING:
        case = cases[name].without_edges(TIED, why="a list with equal scores, whose order is not stable")
        ask = Asked(case, "jurity")
        for k in CUTS:
            for theirs in ("Precision", "Recall", "MAP", "NDCG"):
                yield ask(written(theirs, k=k), f"{theirs.lower()}@{k}", score, case, theirs, k=k)
        for k in (None, *CUTS):
            for estimation in ("matching", "ips", "dr"):
                options = {"estimation": estimation, "k": k}
                yield ask(written("CTR", **options), f"ctr(estimator={estimation}){at(k)}", score, case, "CTR", **options)
            if name == "clicks":
                yield ask(written("AUC", k=k), f"matched_auc{at(k)}", score, case, "AUC", k=k)

    for name in RANKING:
        case = cases[name].without_edges(TIED, why="a list with equal scores, whose order is not stable")
        yield from jurity_of_lists(case, cases["known"])
    case = cases["one-miss"]
    yield Asked(case, "jurity")(
        "CTR(estimation='ips') with pandas 3's copy on write",
        "ctr(estimator=ips)",
        score_copying,
        case,
        "CTR",
        estimation="ips",
        ours=1 / 0.5 / 4,
        note="is NaN as soon as a recommendation is not matched",
    )
    other = replace(case, predictions=[(user, item + 20, score) for user, item, score in case.predictions])
    note = "keeps the ranking of an earlier call and takes it for other users and items that have the same scores"
    call = "MAP(k=2) after other recommendations with the same scores"
    yield Asked(case, "jurity")(call, "map@2", score, case, "MAP", first=other, k=2, ours=1 / 2, note=note)
    case = cases["twice-rated"]
    note = "counts a repeated truth row"
    yield Asked(case, "jurity(duplicates=first)")("Recall(k=3)", "recall@3", score, case, "Recall", k=3, ours=3 / 4, note=note)
    case = cases["twice-listed"]
    for options, ours, note in DUPLICATES:
        yield Asked(case, f"jurity{options}")("MAP(k=3)", "map@3", score, case, "MAP", k=3, ours=ours, note=note)
    yield Asked(case, "jurity")("NDCG(k=3)", "ndcg@3", score, case, "NDCG", k=3, ours="refused", note="raises, too")


def jurity_of_lists(case: Case, known: Case) -> Iterator[Row]:
    """How different lists are, over all pairs of users, and the items of a list, over all pairs of these."""
    import pandas as pd
    from jurity.recommenders import DiversityRecoMetrics
    from jurity.utils import get_sorted_clicks

    columns = {"click_column": "click", "user_id_column": "user", "item_id_column": "item"}
    frame = pd.DataFrame(case.predictions, columns=["user", "item", "click"])
    features = pd.DataFrame(known.items, columns=["item", "f1", "f2", "f3", "f4", "f5"])

    def call(name: str, k: int, *given: Any) -> Any:
        get_sorted_clicks.cache_clear()
        return getattr(DiversityRecoMetrics, name)(*given, k=k, user_sample_size=None, **columns).get_score(frame, frame)

    for k in (*CUTS, 2, 20):
        theirs = "InterListDiversity"
        yield Asked(case, "jurity")(written(theirs, k=k, user_sample_size=None), f"inter_list_diversity@{k}", call, theirs, k)
    for k in (*CUTS, 2, 20):
        theirs = "IntraListDiversity"
        text, ask = written(theirs, k=k, user_sample_size=None), Asked(case, "jurity(undefined=skip)", "features=known")
        yield ask(text, f"ild@{k}", call, theirs, k, features)
    if case.name == "edge":
        diversities = cosine_diversities(case, known, 5)
        ours, note = math.fsum(diversities) / len(case.lists), "leaves lists of less than two items out"
        yield replace(ask, convention="jurity")(
            written(theirs, k=5, user_sample_size=None), "ild@5", call, theirs, 5, features, ours=ours, note=note
        )


def cosine_diversities(case: Case, known: Case, k: int) -> list[float]:
    """Of each list of at least two items, the mean cosine distance of two items of it."""
    vectors = {item: features for item, *features in known.items}
    found = []
    for items in case.lists.values():
        pairs = itertools.combinations([vectors[item] for item in list(items)[:k]], 2)
        distances = [1 - sum(map(operator.mul, *pair)) / math.prod(math.hypot(*vector) for vector in pair) for pair in pairs]
        found += [math.fsum(distances) / len(distances)] if distances else []
    return found


def recommenders(cases: Mapping[str, Case]) -> Iterator[Row]:
    """Its pandas functions; every truth row is relevant, and equal scores keep the order of the rows."""
    import pandas as pd
    from recommenders.evaluation import python_evaluation

    columns = {"col_user": "user", "col_item": "item", "col_prediction": "score"}

    def call(case: Case, name: str, **options: Any) -> Any:
        truth = pd.DataFrame([row[:3] for row in case.truth], columns=["user", "item", "rating"])
        predictions = pd.DataFrame(sorted(case.predictions), columns=["user", "item", "score"])
        return getattr(python_evaluation, name)(truth, predictions, **columns, **options)

    for name in RANKING:
        case = cases[name]
        ask = Asked(case, "recommenders")
        for k in CUTS:
            for theirs, ours in (
                ("precision_at_k", "precision"),
                ("recall_at_k", "recall"),
                ("map_at_k", "map"),
                ("map", "map(normalizer=relevant)"),
            ):
                yield ask(written(theirs, k=k), f"{ours}@{k}", call, case, theirs, k=k)
            for score_type, ours in (("binary", "ndcg"), ("raw", "ndcg(gain=linear)"), ("exp", "ndcg(gain=exponential)")):
                options = {"k": k, "score_type": score_type}
                yield ask(
                    written("ndcg_at_k", **options), f"{ours}@{k}", call, case, "ndcg_at_k", col_rating="rating", **options
                )
        for theirs, ours in (("rmse", "rmse"), ("mae", "mae"), ("rsquared", "r2"), ("exp_var", "explained_variance")):
            yield ask(written(theirs), ours, call, case, theirs, col_rating="rating")
    for name in ("stars-1", "stars-2", "edge", "trained"):
        yield from recommenders_of_items(cases[name], cases["known"])
    case = cases["clicks"]
    yield Asked(case, "recommenders(relevance=positive)")("auc()", "matched_auc", call, case, "auc", col_rating="rating")
    case = cases["twice-listed"]
    for options, ours, note in DUPLICATES:
        ask = Asked(case, f"recommenders{options}")
        yield ask("recall_at_k(k=3)", "recall@3", call, case, "recall_at_k", k=3, ours=ours, note=note)
    case = cases["nan-score"]
    yield Asked(case, "recommenders(nan_scores=last)")("recall_at_k(k=1)", "recall@1", call, case, "recall_at_k", k=1)
    case = cases["one-miss"]
    note = "leaves users without a hit out of its mean"
    yield Asked(case, "recommenders")(
        "r_precision_at_k()", "r_precision", call, case, "r_precision_at_k", ours=1 / 2, note=note
    )


def recommenders_of_items(case: Case, known: Case) -> Iterator[Row]:
    """Metrics of recommenders that look at what is recommended."""
    import numpy as np
    import pandas as pd
    from recommenders.evaluation import python_evaluation

    # It refuses recommendations that are training rows; whose rows they are is nothing to these metrics.
    before = pd.DataFrame([(user + 100, item) for user, item in known.train], columns=["user", "item"])
    features = pd.DataFrame([(item, np.array(vector, float)) for item, *vector in known.items], columns=["item", "features"])
    with_features = {"item_feature_df": features, "item_sim_measure": "item_feature_vector"}

    def call(name: str, k: int, **options: Any) -> Any:
        rows = [(user, item) for user, items in case.lists.items() for item in list(items)[:k]]
        reco = pd.DataFrame(rows, columns=["user", "item"])
        return getattr(python_evaluation, name)(before, reco, col_user="user", col_item="item", **options)

    if case.name != "trained":
        ask = Asked(case, "recommenders", KNOWN)
        for k in (*CUTS, 20):
            for theirs, ours in (
                ("novelty", "novelty(average=recommendations, cold=zero, of=rows)"),
                ("distributional_coverage", "entropy(base=2)"),
            ):
                yield ask(f"{theirs}() of the first k={k}", f"{ours}@{k}", call, theirs, k)
            text = f"diversity(item_sim_measure='item_feature_vector') of the first k={k}"
            zero = {"ours": 0, "note": "is NaN where no list has two items"} if k == 1 else {}
            yield ask(text, f"ild@{k}", call, "diversity", k, **zero, **with_features)
    trained = {item for _, item in known.train}
    for k in (*CUTS, 20):
        shown = {item for items in case.lists.values() for item in list(items)[:k]}
        text, ask = f"catalog_coverage() of the first k={k}", Asked(case, "recommenders", TRAINED)
        differs: dict[str, Any] = {}
        if not shown <= trained:
            differs = {"ours": len(shown & trained) / len(trained), "note": "counts items that have no training row"}
        yield ask(text, f"item_coverage@{k}", call, "catalog_coverage", k, **differs)


def rectools(cases: Mapping[str, Case]) -> Iterator[Row]:
    """Its metrics take the rank from a column; every truth row is relevant."""
    import pandas as pd
    from rectools import metrics

    def call(case: Case, name: str, **options: Any) -> Any:
        ranked = [(user, item, rank) for user, items in case.lists.items() for rank, item in enumerate(items, 1)]
        reco = pd.DataFrame(ranked, columns=["user_id", "item_id", "rank"])
        interactions = pd.DataFrame([row[:2] for row in case.truth], columns=["user_id", "item_id"])
        catalog = {"catalog": list(ITEMS)} if name in {"Accuracy", "MCC"} else {}
        if name == "UnrepeatedReco":
            rows = [(user, item, place) for place, (user, item, _) in enumerate(case.predictions, 1)]
            return metrics.UnrepeatedReco(**options).calc(pd.DataFrame(rows, columns=reco.columns))
        return getattr(metrics, name)(**options).calc(reco, interactions, **catalog)

    for name in RANKING:
        case = cases[name]
        ask = Asked(case, "rectools", CATALOG)
        for k in CUTS:
            for theirs, options, ours in (
                ("Precision", {}, "precision"),
                ("Precision", {"r_precision": True}, "recall(denominator=min_k)"),
                ("Recall", {}, "recall"),
                ("F1Beta", {}, "f1"),
                ("F1Beta", {"beta": 2.0}, "f1(beta=2)"),
                ("HitRate", {}, "hit"),
                ("MRR", {}, "mrr"),
                ("MAP", {}, "map"),
                ("MAP", {"divide_by_k": True}, "map(normalizer=k)"),
                ("NDCG", {}, "ndcg"),
                ("NDCG", {"divide_by_achievable": True}, "ndcg(idcg=at_k)"),
                ("Accuracy", {}, "accuracy"),
                ("MCC", {}, "mcc"),
                ("PartialAUC", {}, "pauc"),
                ("PAP", {}, "pap"),
            ):
                yield ask(written(theirs, k=k, **options), f"{ours}@{k}", call, case, theirs, k=k, **options)
            # Users that it leaves out are no zeros.
            left_out = replace(ask, convention="rectools(undefined=skip)")
            for theirs, name_here in (("PartialAUC", "pauc"), ("PAP", "pap")):
                options = {"insufficient_handling": "exclude"}
                ours = f"{name_here}(insufficient=exclude)@{k}"
                yield left_out(written(theirs, k=k, **options), ours, call, case, theirs, k=k, **options)
    for name in ("stars-1", "stars-2", "edge"):
        yield from rectools_of_items(cases[name], cases["known"])
    case = cases["twice-listed"]
    ask = Asked(case, "rectools(duplicates=keep)")
    for deep, ours in ((False, "unrepeated_reco"), (True, "unrepeated_reco(per=place)")):
        yield ask(written("UnrepeatedReco", k=3, deep=deep), f"{ours}@3", call, case, "UnrepeatedReco", k=3, deep=deep)
    case = cases["twice-rated"]
    options = {"k": 3, "divide_by_achievable": True}
    note = "counts a repeated truth row as a second hit"
    ask = Asked(case, "rectools(duplicates=first)")
    yield ask(written("NDCG", **options), "ndcg(idcg=at_k)@3", call, case, "NDCG", ours=1, note=note, **options)


def rectools_of_items(case: Case, known: Case) -> Iterator[Row]:
    """Metrics of RecTools that look at what is recommended."""
    import pandas as pd
    from rectools import metrics
    from rectools.metrics.distances import PairwiseHammingDistanceCalculator

    ranked = [(user, item, rank) for user, items in case.lists.items() for rank, item in enumerate(items, 1)]
    reco = pd.DataFrame(ranked, columns=["user_id", "item_id", "rank"])
    interactions = pd.DataFrame([row[:2] for row in case.truth], columns=["user_id", "item_id"])
    before = pd.DataFrame(known.train, columns=["user_id", "item_id"])
    features = pd.DataFrame(known.items, columns=["item_id", "f1", "f2", "f3", "f4", "f5"]).set_index("item_id")
    hamming = PairwiseHammingDistanceCalculator(features)

    def call(name: str, *given: Any, **options: Any) -> Any:
        return getattr(metrics, name)(**options).calc(reco, *given)

    ask, catalog = Asked(case, "rectools", KNOWN), list(ITEMS)
    for k in (*CUTS, 20):
        for theirs, options, given, ours in (
            ("MeanInvUserFreq", {}, (before,), "novelty"),
            ("AvgRecPopularity", {}, (before,), "arp"),
            ("AvgRecPopularity", {"normalize": True}, (before,), "arp(scale=share)"),
            ("Serendipity", {}, (interactions, before, catalog), "serendipity"),
            ("CatalogCoverage", {}, (catalog,), "item_coverage"),
            ("CatalogCoverage", {"normalize": True}, (catalog,), "item_coverage(measure=fraction)"),
            ("SufficientReco", {}, (), "sufficient_reco"),
            ("SufficientReco", {"deep": True}, (), "sufficient_reco(per=place)"),
            ("CoveredUsers", {}, (interactions,), "user_coverage(measure=fraction)"),
        ):
            yield ask(written(theirs, k=k, **options), f"{ours}@{k}", call, theirs, *given, k=k, **options)
        call_text = f"IntraListDiversity(k={k}, Hamming)"
        ours = f"ild(distance=hamming)@{k}"
        yield ask(call_text, ours, call, "IntraListDiversity", k=k, distance_calculator=hamming)


def ranx(cases: Mapping[str, Case]) -> Iterator[Row]:
    """Dicts of whole numbers; a metric ends in `-l3` for the threshold 3."""
    from ranx import Qrels, Run, evaluate

    def call(case: Case, metric: str) -> Any:
        rated = {str(user): {str(item): int(rating) for item, rating in own.items()} for user, own in case.rated.items()}
        lists = {str(user): {str(item): score for item, score in own.items()} for user, own in case.lists.items()}
        return evaluate(Qrels(rated), Run(lists), metric, make_comparable=True)

    for name in RANKING:
        case = cases[name].without_edges(TIED, why="a list with equal scores, whose order is not stated")
        for level in (1,) if name == "clicks" else (1, 3):
            ask = Asked(case, "ranx" if level == 1 else f"ranx(threshold={level})")
            mark = "" if level == 1 else f"-l{level}"
            for theirs, ours in (
                ("precision", "precision"),
                ("recall", "recall"),
                ("f1", "f1"),
                ("hit_rate", "hit"),
                ("mrr", "mrr"),
                ("map", "map"),
                ("ndcg", "ndcg"),
                ("ndcg_burges", "ndcg(gain=exponential)"),
            ):
                for k in CUTS:
                    yield ask(f"{theirs}@{k}{mark}", f"{ours}@{k}", call, case, f"{theirs}@{k}{mark}")
            yield ask(f"r-precision{mark}", "r_precision", call, case, f"r-precision{mark}")
        if name.startswith("stars"):
            one_kind = [user for user, own in case.rated.items() if len({rating >= 3 for rating in own.values()}) < 2]
            both = case.without(*one_kind, why="users of whom all judged items are relevant, or none, for bpref")
            yield Asked(both, "ranx(threshold=3)")("bpref-l3", "bpref", call, both, "bpref-l3")
    case = cases["clicks"]
    for theirs, p in (("rbp.5", "0.5"), ("rbp.80", "0.8"), ("rbp.95", "0.95")):
        yield Asked(case, "ranx")(theirs, f"rbp(p={p})", call, case, theirs)
    case = cases["reversed"]
    note = "multiplies a hit by its rating, where its documentation has 0 or 1"
    yield Asked(case, "ranx")("rbp.5", "rbp(p=0.5)", call, case, "rbp.5", ours=0.5 * (1 + 0.5 + 0.25), note=note)
    case = cases["one-miss"]
    note = "divides 0 by 0 where every judged item is relevant"
    yield Asked(case, "ranx")("bpref", "bpref", call, case, "bpref", ours=1 / 2, note=note)


def replay(cases: Mapping[str, Case]) -> Iterator[Row]:
    """Its metrics on pandas frames; every truth row is relevant, and of equal scores the larger item comes first."""
    import pandas as pd
    from replay import metrics

    def call(case: Case, name: str, k: int) -> Any:
        recommended = pd.DataFrame(case.predictions, columns=["query_id", "item_id", "rating"])
        truth = pd.DataFrame([row[:2] for row in case.truth], columns=["query_id", "item_id"])
        (value,) = getattr(metrics, name)([k])(recommended, truth).values()
        return value

    for name in RANKING:
        case = cases[name]
        ask = Asked(case, "replay")
        for k in CUTS:
            for theirs, ours in (
                ("Precision", "precision"),
                ("Recall", "recall"),
                ("HitRate", "hit"),
                ("MRR", "mrr"),
                ("MAP", "map"),
                ("NDCG", "ndcg"),
            ):
                yield ask(f"{theirs}([{k}])", f"{ours}@{k}", call, case, theirs, k)
        if name != "clicks":
            yield from replay_of_items(case, cases["known"], cases["stars-2" if name == "stars-1" else "stars-1"])
        if name != "edge":
            yield ask("RocAuc([40])", "gauc(candidates=listed, ties=order)", call, case, "RocAuc", 40)
    yield from replay_of_items(cases["trained"], cases["known"], cases["stars-2"])
    case = cases["twice-listed"]
    yield Asked(case, "replay(duplicates=first)")("Precision([3])", "precision@3", call, case, "Precision", 3)
    for options, ours, note in DUPLICATES:
        yield Asked(case, f"replay{options}")("MAP([3])", "map@3", call, case, "MAP", 3, ours=ours, note=note)
    case = cases["one-miss"]
    note = "counts a list without a hit as 0, and one without a miss as 1"
    ask = Asked(case, "replay")
    yield ask("RocAuc([40])", "gauc(candidates=listed, ties=order)", call, case, "RocAuc", 40, ours=1, note=note)


def replay_of_items(case: Case, known: Case, base: Case) -> Iterator[Row]:
    """Metrics of RePlay that look at what is recommended; the baseline's lists are those of another data set."""
    import pandas as pd
    from replay import metrics

    columns = ["query_id", "item_id", "rating"]
    lists, expected = (pd.DataFrame(one.predictions, columns=columns) for one in (case, base))
    before = pd.DataFrame(known.train, columns=columns[:2])

    def call(name: str, k: int, beside: Any) -> Any:
        (value,) = getattr(metrics, name)([k])(lists, beside).values()
        return value

    ask = Asked(case, "replay", f"{KNOWN} baseline={base.name}")
    if case.name != "trained":
        for k in (*CUTS, 20):
            for theirs, beside, ours in (
                ("Surprisal", before, "novelty(denominator=k, scale=max)"),
                ("Unexpectedness", expected, "unexpectedness(denominator=k)"),
            ):
                yield ask(f"{theirs}([{k}])", f"{ours}@{k}", call, theirs, k, beside)
            differs: dict[str, Any] = {}
            if len(case.lists) < len({user for user, _ in known.train}):
                note = "counts users of the training rows without a list as 1"
                differs = {"ours": share_unseen(case, known, k), "note": note}
            yield ask(f"Novelty([{k}])", f"unseen@{k}", call, "Novelty", k, before, **differs)
    for k in (*CUTS, 20):
        yield replace(ask, options=TRAINED)(f"Coverage([{k}])", f"item_coverage@{k}", call, "Coverage", k, before)


def share_unseen(case: Case, known: Case, k: int) -> float:
    """The mean over the lists of the share of items that are no training rows of the user."""
    seen, tops = set(known.train), {user: list(items)[:k] for user, items in case.lists.items()}
    shares = [sum((user, item) not in seen for item in items) / len(items) for user, items in tops.items()]
    return math.fsum(shares) / len(shares)


def lenskit(cases: Mapping[str, Case]) -> Iterator[Row]:
    """Run analyses over collections of item lists; every truth row is relevant."""
    import pandas as pd
    from lenskit import metrics
    from lenskit.data import ItemListCollection, UserIDKey
    from lenskit.metrics.ranking._map import AveragePrecision

    def collections(case: Case) -> list[Any]:
        ranked = [(u, i, s, rank) for u, items in case.lists.items() for rank, (i, s) in enumerate(items.items(), 1)]
        outputs = pd.DataFrame(ranked, columns=["user_id", "item_id", "score", "rank"])
        test = pd.DataFrame([row[:3] for row in case.truth], columns=["user_id", "item_id", "rating"])
        return [ItemListCollection.from_df(frame, UserIDKey) for frame in (outputs, test)]

    def run(case: Case, metric: Any) -> Any:
        return metrics.RunAnalysis(metric).measure(*collections(case))

    def filled(case: Case, metric: Any) -> float:
        return run(case, metric).list_summary()["mean"].item()

    def unfilled(case: Case, metric: Any) -> float:
        return run(case, metric).list_metrics(fill_missing=False).mean().item()

    def everything(case: Case, metric: Any) -> float:
        return run(case, metric).global_metrics().item()

    def pooled(case: Case, metric: Any) -> float:
        outputs, test = collections(case)
        parts = [
            metric.compute_list_data(items, test.lookup(user)) for (user,), items in outputs if test.lookup(user) is not None
        ]
        return metric.global_aggregate(parts)

    both = "relevant_and_predicted"
    for name in RANKING:
        for mean, of, convention in (
            (filled, "list_summary()", "lenskit(undefined=zero)"),
            (unfilled, "list_metrics(fill_missing=False).mean()", f"lenskit(users_by_metric=hit:{both}+mrr:{both})"),
        ):
            for k in CUTS:
                for theirs, metric, ours in (
                    ("Precision", metrics.Precision(k), "precision"),
                    ("Recall", metrics.Recall(k), "recall"),
                    ("Hit", metrics.Hit(k), "hit"),
                    ("RecipRank", metrics.RecipRank(k), "mrr"),
                    ("NDCG", metrics.NDCG(k), "ndcg"),
                    ("RBP", metrics.RBP(k), "rbp(p=0.85)"),
                ):
                    yield Asked(cases[name], convention)(f"{theirs}({k}), {of}", f"{ours}@{k}", mean, cases[name], metric)
                case = cases[name].without_edges(PREDICTIONS_ONLY, why="the user without a truth row, for average precision")
                call, metric = f"AveragePrecision({k}), {of}", AveragePrecision(k)
                yield Asked(case, convention)(call, f"map@{k}", mean, case, metric)
                call, metric = f"NDCG({k}, gain='rating'), {of}", metrics.NDCG(k, gain="rating")
                yield Asked(cases[name], convention)(call, f"ndcg(gain=linear)@{k}", mean, cases[name], metric)
        ask, n_items = Asked(cases[name], "lenskit", CATALOG), len(ITEMS)
        for k in (*CUTS, 20):
            metric = metrics.ListGini(k, items=n_items)
            yield ask(f"ListGini({k}, items={n_items}), global_metrics()", f"gini@{k}", everything, cases[name], metric)
        # It refuses a score without a rating, and a rating without a score; and it stores scores as float32.
        pairs = judged_pairs(cases[name])
        for theirs in ("RMSE", "MAE"):
            ask, metric = Asked(cases[name], "lenskit", tolerance=FLOAT32), getattr(metrics, theirs)()
            for of, function, ours in (
                ("global_aggregate()", pooled, theirs.lower()),
                ("list_summary()", filled, f"{theirs.lower()}(average=per_user)"),
            ):
                yield ask(f"{theirs}(), {of}", ours, function, pairs, metric)
    pairs = cases["stars-1"].pairs
    root = math.sqrt(math.fsum((score - rating) ** 2 for score, rating in pairs) / len(pairs))
    ask, metric = Asked(cases["stars-1"], "lenskit"), metrics.RMSE("ignore", "ignore")
    note = "divides by the number of rows, those that it ignores among them"
    yield ask("RMSE('ignore', 'ignore'), global_aggregate()", "rmse", pooled, cases["stars-1"], metric, ours=root, note=note)
    note = "is the mean of the users' values, not over all pairs"
    pairs, metric = judged_pairs(cases["stars-1"]), metrics.RMSE()
    yield ask("RMSE(), global_metrics()", "rmse", everything, pairs, metric, ours=root, note=note)
    case = cases["no-truth"]
    note = "raises for a user without a truth row"
    yield Asked(case, "lenskit")(
        "AveragePrecision(2), list_summary()", "map@2", filled, case, AveragePrecision(2), ours=1, note=note
    )


def torchmetrics(cases: Mapping[str, Case]) -> Iterator[Row]:
    """Its retrieval metrics rank judged items, and take users from an index."""
    import torch
    from torchmetrics import classification, regression, retrieval

    def ranking(case: Case, name: str, **options: Any) -> Any:
        rated = case.rated
        rows = [(u, s, rated[u][i]) for u, items in case.lists.items() for i, s in items.items() if i in rated.get(u, {})]
        users, scores, ratings = (torch.tensor(column) for column in zip(*rows, strict=True))
        target = ratings if name == "RetrievalNormalizedDCG" else (ratings > 0).long()
        return getattr(retrieval, name)(**options)(scores, target, indexes=users)

    def pairs(case: Case, module: Any, name: str, **options: Any) -> Any:
        scores, ratings = (torch.tensor(column) for column in zip(*case.pairs, strict=True))
        if module is classification:
            # It takes scores outside of 0 to 1 through a sigmoid, in which they become equal.
            scores, ratings = scores / 10, ratings.long()
        return getattr(module, name)(**options)(scores, ratings)

    for name in RANKING:
        case = cases[name].without_edges(TIED, why="a list with equal scores, whose order is not stated")
        ask = Asked(case, "torchmetrics")
        for k in CUTS:
            for theirs, options, ours in (
                ("Precision", {}, "precision"),
                ("Precision", {"adaptive_k": True}, "precision(denominator=recommended)"),
                ("Recall", {}, "recall"),
                ("HitRate", {}, "hit"),
                ("MAP", {}, "map"),
                ("MRR", {}, "mrr"),
                ("NormalizedDCG", {}, "ndcg"),
            ):
                theirs_ = f"Retrieval{theirs}"
                yield ask(written(theirs_, top_k=k, **options), f"{ours}@{k}", ranking, case, theirs_, top_k=k, **options)
        yield ask("RetrievalRPrecision()", "r_precision", ranking, case, "RetrievalRPrecision")
        skipping, options = Asked(case, "torchmetrics(undefined=skip)"), {"top_k": 5, "empty_target_action": "skip"}
        yield skipping(written("RetrievalRecall", **options), "recall@5", ranking, case, "RetrievalRecall", **options)
        ask = Asked(cases[name], "torchmetrics")
        for theirs, options, ours in (
            ("MeanSquaredError", {"squared": False}, "rmse"),
            ("MeanSquaredError", {}, "mse"),
            ("MeanAbsoluteError", {}, "mae"),
            ("R2Score", {}, "r2"),
            ("ExplainedVariance", {}, "explained_variance"),
        ):
            yield ask(written(theirs, **options), ours, pairs, cases[name], regression, theirs, **options)
    case = cases["below-zero"]
    note = "takes what is scored 0 or less as not recommended"
    for theirs, ours in (("Precision", "precision"), ("Recall", "recall"), ("MRR", "mrr")):
        name, ask = f"Retrieval{theirs}", Asked(case, "torchmetrics")
        yield ask(written(name, top_k=1), f"{ours}@1", ranking, case, name, top_k=1, ours=1, note=note)
    yield Asked(case, "torchmetrics")("RetrievalHitRate(top_k=1)", "hit@1", ranking, case, "RetrievalHitRate", top_k=1)
    case = cases["tied"]
    name, ours = "RetrievalNormalizedDCG", 1 / math.log2(3)
    yield Asked(case, "torchmetrics")(written(name, top_k=2), "ndcg@2", ranking, case, name, top_k=2, ours=ours, note=TIES)
    case = cases["clicks"]
    yield Asked(case, "torchmetrics")("BinaryAUROC()", "matched_auc", pairs, case, classification, "BinaryAUROC")


def pytrec_eval(cases: Mapping[str, Case]) -> Iterator[Row]:
    """Dicts of texts; users without a list and users without a truth row are left out."""
    from pytrec_eval import RelevanceEvaluator

    def call(case: Case, measure: str, level: int) -> float:
        rated = {str(user): {str(item): int(rating) for item, rating in own.items()} for user, own in case.rated.items()}
        lists = {str(user): {str(item): score for item, score in own.items()} for user, own in case.lists.items()}
        per_user = RelevanceEvaluator(rated, {measure}, relevance_level=level).evaluate(lists)
        values = [value for own in per_user.values() for value in own.values()]
        return math.fsum(values) / len(values)

    for name in RANKING:
        case = cases[name]
        for level in (1,) if name == "clicks" else (1, 3):
            ask = Asked(case, "trec_eval" if level == 1 else f"trec_eval(threshold={level})")
            end = "" if level == 1 else f", relevance_level={level}"
            with_cut = [("P", "precision"), ("recall", "recall"), ("map_cut", "map"), ("success", "hit")]
            without = [("map", "map"), ("recip_rank", "mrr"), ("Rprec", "r_precision"), ("bpref", "bpref")]
            if level == 1:
                with_cut.append(("ndcg_cut", "ndcg"))
                without.append(("ndcg", "ndcg"))
            for theirs, ours in with_cut:
                for k in CUTS:
                    yield ask(f"{theirs}_{k}{end}", f"{ours}@{k}", call, case, f"{theirs}_{k}", level)
            for theirs, ours in without:
                yield ask(f"{theirs}{end}", ours, call, case, theirs, level)
        if name != "clicks":
            ask = Asked(case, "trec_eval(relevance=positive)")
            for k in CUTS:
                yield ask(f"ndcg_cut_{k}, relevance_level=3", f"ndcg@{k}", call, case, f"ndcg_cut_{k}", 3)
    case = cases["reversed"]
    note = "does not heed the level in nDCG"
    yield Asked(case, "trec_eval(threshold=3)")(
        "ndcg_cut_3, relevance_level=3", "ndcg@3", call, case, "ndcg_cut_3", 3, ours=1 / 2, note=note
    )


def pyspark(cases: Mapping[str, Case]) -> Iterator[Row]:
    """MLlib's metrics of lists and sets that the caller has joined; every truth row is relevant."""
    from pyspark.mllib.evaluation import RankingMetrics, RegressionMetrics
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")

    def get(of: Any, name: str, *arguments: Any) -> Any:
        value = getattr(of, name)
        return value(*arguments) if arguments else value

    def ranking(*rows: Any) -> Any:
        return RankingMetrics(spark.sparkContext.parallelize(rows, 1))

    for name in RANKING:
        case = cases[name]
        lists, ask = case.lists, Asked(case, "mllib")
        metrics = ranking(*((list(lists[user]), list(own)) for user, own in case.rated.items() if user in lists))
        for k in CUTS:
            for theirs, ours in (
                ("precisionAt", "precision"),
                ("recallAt", "recall"),
                ("ndcgAt", "ndcg"),
                ("meanAveragePrecisionAt", "map"),
            ):
                yield ask(f"RankingMetrics.{theirs}({k})", f"{ours}@{k}", get, metrics, theirs, k)
        theirs = "meanAveragePrecision"
        yield ask(f"RankingMetrics.{theirs}", "map(normalizer=relevant)", get, metrics, theirs)
        errors = RegressionMetrics(spark.sparkContext.parallelize(case.pairs, 1))
        for theirs, ours in (
            ("rootMeanSquaredError", "rmse"),
            ("meanSquaredError", "mse"),
            ("meanAbsoluteError", "mae"),
            ("r2", "r2"),
        ):
            yield ask(f"RegressionMetrics.{theirs}", ours, get, errors, theirs)
        left = variance([rating - score for score, rating in case.pairs]) / variance([rating for _, rating in case.pairs])
        note = "is the mean square of prediction minus mean rating"
        theirs = "explainedVariance"
        yield ask(f"RegressionMetrics.{theirs}", "explained_variance", get, errors, theirs, ours=1 - left, note=note)
    repeated = ranking(([1001, 1001, 1001], [1001]))
    for options, ours, note in DUPLICATES:
        ask = Asked(cases["twice-listed"], f"mllib{options}")
        yield ask("RankingMetrics.recallAt(3)", "recall@3", get, repeated, "recallAt", 3, ours=ours, note=note)
        yield ask("RankingMetrics.ndcgAt(3)", "ndcg@3", get, repeated, "ndcgAt", 3, ours=ours, note=note)
    graded = ranking(([1001, 1002, 1003], [1001, 1002, 1003], [1.0, 2.0, 3.0]))
    ask, call = Asked(cases["reversed"], "mllib"), "RankingMetrics.ndcgAt(3) with ratings"
    yield ask(call, "ndcg@3", get, graded, "ndcgAt", 3)
    expected = (1 + 2 / math.log2(3) + 3 / 2) / (3 + 2 / math.log2(3) + 1 / 2)
    note = "does not heed a third column, of ratings"
    yield ask(call, "ndcg(gain=linear)@3", get, graded, "ndcgAt", 3, ours=expected, note=note)
    spark.stop()


def scikit_learn(cases: Mapping[str, Case]) -> Iterator[Row]:
    """Functions of labels and scores, called for each user, or once for all pairs."""
    import numpy as np
    from sklearn import metrics

    def user_auc(case: Case, candidates: str, weight: str) -> float:
        values, weights = zip(
            *(
                (metrics.roc_auc_score(labels, scores), weight_of[weight])
                for labels, scores, weight_of in groups(case, candidates)
            ),
            strict=True,
        )
        return float(np.average(values, weights=weights))

    def user_ndcg(case: Case, k: int) -> float:
        pairs = [own for own in pairs_by_user(case).values() if own]
        return float(np.mean([metrics.ndcg_score(*([column] for column in zip(*own, strict=True)), k=k) for own in pairs]))

    def over_pairs(case: Case, name: str, *, binary: bool = False) -> float:
        scores, ratings = (np.array(column) for column in zip(*case.pairs, strict=True))
        return getattr(metrics, name)(ratings > 0 if binary else ratings, scores)

    for name in (*RANKING, "full", "full-tied"):
        case = cases[name]
        for candidates, options in (("all", CATALOG), ("listed", ""), ("unseen", f"{CATALOG} train={name}")):
            if candidates == "unseen" and not case.train:
                continue
            ask = Asked(case, "default", options)
            for weight in ("uniform", "relevant", "recommended"):
                call = f"roc_auc_score of each user over {candidates} items, mean weighted {weight}"
                yield ask(call, f"gauc(candidates={candidates}, weight={weight})", user_auc, case, candidates, weight)
                if weight == "relevant":
                    yield ask(call, f"auc(candidates={candidates})", user_auc, case, candidates, weight)
    for name in RANKING:
        ask = Asked(cases[name], "default")
        call = "roc_auc_score of all pairs"
        yield ask(call, "matched_auc", over_pairs, cases[name], "roc_auc_score", binary=True)
        for theirs, ours in (
            ("root_mean_squared_error", "rmse"),
            ("mean_squared_error", "mse"),
            ("mean_absolute_error", "mae"),
            ("r2_score", "r2"),
            ("explained_variance_score", "explained_variance"),
        ):
            yield ask(written(theirs), ours, over_pairs, cases[name], theirs)
        single = [user for user, own in pairs_by_user(cases[name]).items() if len(own) == 1]
        tied = [TIED] if name == "edge" else []
        case = cases[name].without(*single, *tied, why="lists with equal scores or with a single judged item, for nDCG")
        ask = Asked(case, "default(candidates=judged, users=truth_and_predicted, undefined=zero, gain=linear)")
        for k in CUTS:
            yield ask(f"ndcg_score(k={k}) of each user over judged items", f"ndcg@{k}", user_ndcg, case, k)
    ask, ours = replace(ask, case=cases["tied"]), 1 / math.log2(3)
    yield ask("ndcg_score(k=2) of each user over judged items", "ndcg@2", user_ndcg, cases["tied"], 2, ours=ours, note=TIES)


def groups(case: Case, candidates: str) -> Iterator[tuple[list[bool], list[float], dict[str, int]]]:
    """Per user with both kinds: whether each candidate is relevant, its score, and what the user may weigh.

    What is not in the list is tied, below everything that is.
    """
    lists = case.lists
    for user, rated in case.rated.items():
        scores = lists.get(user, {})
        seen = {item for of, item in case.train if of == user}
        items = {"all": ITEMS, "listed": scores, "unseen": [item for item in ITEMS if item not in seen]}[candidates]
        labels = [rated.get(item, 0) > 0 for item in items]
        if 0 < sum(labels) < len(labels):
            n_listed = sum(item in scores for item in items)
            yield (
                labels,
                [scores.get(item, -1.0) for item in items],
                {"uniform": 1, "relevant": sum(labels), "recommended": n_listed},
            )


def pairs_by_user(case: Case) -> dict[int, list[tuple[float, float]]]:
    """(rating, score) of the rated items of each list."""
    rated = case.rated
    return {
        user: [(rated[user][item], score) for item, score in items.items() if item in rated.get(user, {})]
        for user, items in case.lists.items()
    }


def recbole(cases: Mapping[str, Case]) -> Iterator[Row]:
    """Its metric classes, on tensors as its collector makes them."""
    import numpy as np
    import torch

    def call(case: Case, name: str, key: str) -> float:
        from recbole.evaluator import metrics
        from recbole.evaluator.collector import DataStruct

        data = DataStruct()
        if name == "GAUC":
            data.set("rec.meanrank", torch.tensor(rank_sums(case), dtype=torch.float64))
        elif name in {"AUC", "MAE", "RMSE"}:
            for part, column in zip(("rec.score", "data.label"), zip(*case.pairs, strict=True), strict=True):
                data.set(part, torch.tensor(column, dtype=torch.float64).reshape(-1, 1))
        else:
            data.set("rec.topk", torch.tensor(top_hits(case)))
        metric = getattr(metrics, name)({"metric_decimal_place": 15, "topk": list(CUTS)})
        return metric.calculate_metric(data)[key]

    case = cases["one-miss"]
    note = "raises with a numpy that has no `np.float`; the other rows are with that name restored"
    for name in ("NDCG", "MRR", "MAP"):
        key = f"{name.lower()}@1"
        yield Asked(case, "recbole")(name, key, call, case, name, key, ours=1 / 2, note=note)
    for alias, kind in (("float", float), ("bool", bool)):
        setattr(np, alias, kind)
    no_lists = (TRUTH_ONLY, TRUTH_ONLY_TOO, PREDICTIONS_ONLY, SHORT, ONE_ITEM)
    for name in RANKING:
        case = cases[name].without_edges(
            *no_lists, NOTHING_RELEVANT, why="users with fewer than 10 recommendations, or nothing relevant"
        )
        ask = Asked(case, "recbole")
        for theirs in ("Hit", "MRR", "MAP", "Recall", "NDCG", "Precision"):
            for k in CUTS:
                key = f"{theirs.lower()}@{k}"
                yield ask(theirs, key, call, case, theirs, key)
        for theirs in ("MAE", "RMSE"):
            yield ask(theirs, theirs.lower(), call, case, theirs, theirs.lower())
        if name != "clicks":
            yield from recbole_of_items(case, cases["known"])
    yield from recbole_of_items(cases["trained"], cases["known"])
    case = cases["nothing-relevant"]
    note = "divides 0 by 0 for a user without a relevant item, and the mean is NaN; its loader keeps such users out"
    yield Asked(case, "recbole")("Recall", "recall@1", call, case, "Recall", "recall@1", ours=1 / 2, note=note)
    yield Asked(cases["clicks"], "recbole")("AUC", "matched_auc", call, cases["clicks"], "AUC", "auc")
    for name in ("full", "full-tied"):
        yield Asked(cases[name], "recbole", f"{CATALOG} train={name}")("GAUC", "gauc", call, cases[name], "GAUC", "gauc")


def recbole_of_items(case: Case, known: Case) -> Iterator[Row]:
    """Metrics of RecBole that look at what is recommended; its number of items counts one of padding, too."""
    import torch
    from recbole.evaluator import metrics
    from recbole.evaluator.collector import DataStruct

    data = DataStruct()
    # Places that a list lacks are only where no metric is asked for.
    lists = [[*items, *[0] * max(CUTS)][: max(CUTS)] for items in case.lists.values()]
    data.set("rec.items", torch.tensor(lists))
    data.set("data.num_items", len(ITEMS) + 1)
    data.set("data.count_items", Counter(item for _, item in known.train))

    def call(name: str, k: int) -> float:
        metric = getattr(metrics, name)({"metric_decimal_place": 15, "topk": [k], "tail_ratio": 4})
        return metric.calculate_metric(data)[f"{name.lower()}@{k}"]

    ask = Asked(case, "recbole", f"catalog_size={len(ITEMS) + 1} train=known")
    if case.name == "trained":
        # Its tail is of items with a training row, and the most that one of the tail has is 4.
        for k in CUTS[:-1]:
            yield ask(f"TailPercentage@{k}(tail_ratio=4)", f"aplt(share=0.7)@{k}", call, "TailPercentage", k)
        return
    for k in CUTS:
        for theirs, ours in (
            ("ItemCoverage", "item_coverage"),
            ("AveragePopularity", "arp"),
            ("GiniIndex", "gini"),
            ("ShannonEntropy", "entropy"),
        ):
            yield ask(f"{theirs}@{k}", f"{ours}@{k}", call, theirs, k)


def top_hits(case: Case) -> list[list[int]]:
    """Per user, whether each of the first items is relevant, and then the number of relevant ones."""
    lists, rows = case.lists, []
    for user, rated in case.rated.items():
        relevant = {item for item, rating in rated.items() if rating > 0}
        hits = [int(item in relevant) for item in lists[user]] + [0] * max(CUTS)
        rows.append([*hits[: max(CUTS)], len(relevant)])
    return rows


def rank_sums(case: Case) -> list[list[float]]:
    """Per user, the sum of mean ranks of the relevant items, the number of unmasked items, and of relevant ones."""
    lists, rows, seen = case.lists, [], set(case.train)
    for user, relevant in case.rated.items():
        scores = {item: score for item, score in lists[user].items() if (user, item) not in seen}
        above = sum(other > scores[item] for item in relevant for other in scores.values())
        tied = sum(other == scores[item] for item in relevant for other in scores.values())
        rows.append([above + (tied + len(relevant)) / 2, len(scores), len(relevant)])
    return rows


def warprec(cases: Mapping[str, Case]) -> Iterator[Row]:
    """Its evaluator's step on matrices of users and items, in which training items are masked."""
    import torch
    from scipy.sparse import csr_matrix
    from warprec.evaluation import Evaluator

    def call(case: Case, name: str, k: int, **extended: Any) -> float:
        users = sorted({row[0] for row in (*case.predictions, *case.truth)})
        predictions, target = (torch.zeros(len(users), len(ITEMS)) for _ in range(2))
        # What is not in the list stands below it.
        predictions -= 1
        for matrix, rows in ((predictions, case.predictions), (target, [row[:3] for row in case.truth])):
            for user, item, value in rows:
                matrix[users.index(user), item - ITEMS.start] = value
        masked = torch.zeros(len(users), len(ITEMS))
        for user, item in case.train:
            masked[users.index(user), item - ITEMS.start] = 1
        predictions[masked.bool()] = -torch.inf
        names = {"GAUC alone": ["GAUC"]}.get(name, [name, "Precision"])
        evaluator = Evaluator([] if extended else names, [k], csr_matrix(masked.numpy()))
        if extended:
            evaluator._instantiate_and_add_metric(name, k, extended)  # noqa: SLF001
        evaluator._compute_metrics_step(predictions, target, torch.arange(len(users)), None)  # noqa: SLF001
        results = evaluator.compute_results()[k]
        value = next(value for key, value in results.items() if key.partition("[")[0] == name)
        return value.nanmean().item() if isinstance(value, torch.Tensor) else value

    no_lists = (TRUTH_ONLY, TRUTH_ONLY_TOO, SHORT, ONE_ITEM)
    for name in RANKING:
        case = cases[name].without_edges(
            *no_lists, TIED, why="users with fewer than 10 recommendations, and a list with equal scores"
        )
        ask = Asked(case, "warprec")
        for k in CUTS:
            for theirs, ours in (
                ("Precision", "precision"),
                ("Recall", "recall"),
                ("F1", "f1"),
                ("HitRate", "hit"),
                ("MRR", "mrr"),
                ("MAP", "map"),
                ("MAR", "mar"),
                ("nDCG", "ndcg"),
                ("nDCGRendle2020", "ndcg(gain=binary)"),
            ):
                yield ask(f"{theirs}@{k}", f"{ours}@{k}", call, case, theirs, k)
            extended = {"metric_1": "nDCG", "metric_2": "MAP"}
            yield ask(f"F1[nDCG, MAP]@{k}", f"f1(ndcg, map)@{k}", call, case, "F1", k, **extended)
        for theirs in ("RMSE", "MSE", "MAE"):
            yield ask(theirs, theirs.lower(), call, judged_pairs(case), theirs, 1)
        if name != "clicks":
            yield from warprec_of_items(case, cases["known"])
            tied_too = cases[name].without_edges(*no_lists, why="users with fewer than 10 recommendations")
            ask, call_one = Asked(tied_too, "warprec", GROUPED), warprec_evaluator(tied_too, cases["known"])
            for k in CUTS:
                yield ask(f"UserMADRating@{k}", f"user_mad_rating@{k}", call_one, "UserMADRating", k)
    yield from warprec_of_items(cases["four-fifths"], cases["four-fifths"])
    case = cases["full"]
    ask = Asked(case, "warprec", f"{CATALOG} train=full")
    yield ask("AUC", "auc", call, case, "AUC", 1)
    yield ask("GAUC", "gauc", call, case, "GAUC", 1)
    for k in CUTS:
        yield ask(f"LAUC@{k}", f"lauc@{k}", call, case, "LAUC", k)
    squares = [[(score - rating) ** 2 for rating, score in own] for own in pairs_by_user(case).values()]
    ours = math.fsum(math.sqrt(math.fsum(own) / len(own)) for own in squares) / len(squares)
    note = "is NaN for users with a masked training item, here all of them"
    yield Asked(case, "warprec")("RMSE", "rmse", call, case, "RMSE", 1, ours=ours, note=note)
    case = cases["reversed"]
    note = "raises where no other metric has it find the users"
    yield Asked(case, "warprec", CATALOG)("GAUC alone", "gauc", call, case, "GAUC alone", 1, ours=1, note=note)
    case = cases["stars-1"]
    swallowed = {"metric_name_1": "nDCG", "metric_name_2": "MAP"}
    note = "ignores the keys of its documentation, and returns the F1 of precision and recall"
    yield Asked(case, "warprec")(
        "F1(metric_name_1: nDCG, metric_name_2: MAP)@5", "f1@5", call, case, "F1", 5, note=note, **swallowed
    )
    case = cases["nan-score"]
    yield Asked(case, "warprec(nan_scores=first)")("HitRate@1", "hit@1", call, case, "HitRate", 1)


def warprec_evaluator(case: Case, known: Case) -> Callable[..., float]:
    """Calls a metric of WarpRec with all tables that one may ask for.

    Training items are not masked: its metrics take popularity from a matrix of their own.
    """
    import torch
    from scipy.sparse import csr_matrix
    from warprec.evaluation import Evaluator

    batch = sorted({row[0] for row in (*case.predictions, *case.truth)})
    users = sorted({*batch, *(user for user, _ in known.train)})
    predictions, target = torch.full((len(batch), len(ITEMS)), -1.0), torch.zeros(len(batch), len(ITEMS))
    for matrix, rows in ((predictions, case.predictions), (target, [row[:3] for row in case.truth])):
        for user, item, value in rows:
            matrix[batch.index(user), item - ITEMS.start] = value
    trained = [(users.index(user), item - ITEMS.start) for user, item in known.train]
    train = csr_matrix(([1] * len(trained), tuple(zip(*trained, strict=True))), (len(users), len(ITEMS)))
    # Its group 0 is of those without a group.
    tables = {
        "feature_lookup": torch.tensor([row[1:] for row in known.items] or [[1]] * len(ITEMS), dtype=torch.float),
        "user_cluster": torch.tensor([user % N_GROUPS + 1 for user in users]),
        "item_cluster": torch.tensor([item % N_GROUPS + 1 for item in ITEMS]),
    }

    def call(name: str, k: int, **options: Any) -> float:
        evaluator = Evaluator([], [k], train, **tables)
        evaluator._instantiate_and_add_metric(name, k, options)  # noqa: SLF001
        evaluator._compute_metrics_step(predictions, target, torch.tensor([*map(users.index, batch)]), None)  # noqa: SLF001
        results = evaluator.compute_results()[k]
        if name.startswith("BiasDisparity"):
            away = 0 if name == "BiasDisparityBD" else 1
            return math.fsum(abs(value - away) for value in results.values()) / len(results)
        value = next(value for key, value in results.items() if key.partition("[")[0] == name)
        return value.nanmean().item() if isinstance(value, torch.Tensor) else value

    return call


def warprec_of_items(case: Case, known: Case) -> Iterator[Row]:
    """Metrics of WarpRec that look at what is recommended, at popularity and at groups of items and users."""
    call = warprec_evaluator(case, known)
    if case.train:
        note = "has the next item in its head, too, where those so far hold exactly the share"
        ask = Asked(case, "warprec", f"train={case.name}")
        yield ask("APLT@1", "aplt(denominator=k)@1", call, "APLT", 1, ours=1, note=note)
        return
    ask, no_tie, mean = Asked(case, "warprec", GROUPED), {"pop_ratio": 0.7}, ", mean of abs(x - 1)"
    for k in CUTS:
        for theirs, options, ours in (
            ("ItemCoverage", {}, "item_coverage"),
            ("UserCoverage", {}, "user_coverage"),
            ("NumRetrieved", {}, "num_retrieved"),
            ("Gini", {}, "gini"),
            ("ShannonEntropy", {}, "entropy"),
            ("SRecall", {}, "srecall(of=relevant)"),
            ("EFD", {}, "efd"),
            ("EFD", {"relevance": "discounted"}, "efd(gain=exponential_plus1)"),
            ("EPC", {}, "epc"),
            ("EPC", {"relevance": "discounted"}, "epc(gain=exponential_plus1)"),
            ("ARP", {}, "arp(cold=one)"),
            ("APLT", no_tie, "aplt(denominator=k, share=0.7)"),
            ("ACLT", no_tie, "aclt(share=0.7)"),
            ("PopRSP", no_tie, "pop_rsp(share=0.7)"),
            ("RSP", {}, "rsp"),
            ("REO", {}, "reo"),
            ("ItemMADRanking", {}, "item_mad_ranking"),
            ("ItemMADRating", {}, "item_mad_rating"),
            ("UserMADRanking", {}, "user_mad_ranking"),
        ):
            yield ask(written(f"{theirs}@{k}", **options).removesuffix("()"), f"{ours}@{k}", call, theirs, k, **options)
        yield ask(f"BiasDisparityBR@{k}{mean}", f"bias_disparity_br@{k}", call, "BiasDisparityBR", k)
        text, differs = f"BiasDisparityBD@{k}, mean of abs(x)", {}
        if case.name == "edge":
            note = "takes the largest float for what the users of a group never like and yet are recommended"
            differs = {"ours": disparity(case, k), "note": note}
        yield ask(text, f"bias_disparity_bd(source=truth)@{k}", call, "BiasDisparityBD", k, **differs)
    yield ask(f"BiasDisparityBS{mean}", "bias_disparity_bs(source=truth)", call, "BiasDisparityBS", 1)
    everybody = replace(ask, convention="warprec(users_by_metric=user_coverage:all)")
    yield everybody("UserCoverageAtN at k = 5", "user_coverage(n=5)@5", call, "UserCoverageAtN", 5)
    if case.name == "stars-1":
        head, tops = short_head(known, 0.7), [(user, item) for user, items in case.lists.items() for item in list(items)[:5]]
        relevant = {(user, item) for user, item, rating, _ in case.truth if rating > 0}
        rates = [
            sum((pair[1] in head) == of_head for pair in relevant.intersection(tops))
            / sum((item in head) == of_head for _, item in relevant)
            for of_head in (True, False)
        ]
        ours, note = abs(rates[0] - rates[1]) / sum(rates), "divides all recommendations, not only hits, by the relevant items"
        yield ask("PopREO@5(pop_ratio=0.7)", "pop_reo(share=0.7)@5", call, "PopREO", 5, ours=ours, note=note, **no_tie)
        ours = sum(item not in short_head(known, 0.8) for _, item in tops) / len(tops)
        note = "has one of five equally popular items in its head"
        yield ask("APLT@5", "aplt(denominator=k)@5", call, "APLT", 5, ours=ours, note=note)


def short_head(known: Case, share: float) -> set[int]:
    """The most popular items that hold a share of the training rows, and all that are as popular as one of them."""
    counts = Counter(item for _, item in known.train)
    for lowest in sorted(set(counts.values()), reverse=True):
        head = {item for item, count in counts.items() if count >= lowest}
        if sum(counts[item] for item in head) >= share * len(known.train):
            break
    return head


def disparity(case: Case, k: int) -> float:
    """The mean of how far lists prefer a group of items otherwise than users do, over the groups that these like at all."""
    items = Counter(item % N_GROUPS for item in ITEMS)
    relevant = Counter((user % N_GROUPS, item % N_GROUPS) for user, item, rating, _ in case.truth if rating > 0)
    shown = Counter((user % N_GROUPS, item % N_GROUPS) for user, own in case.lists.items() for item in list(own)[:k])

    def preference(counts: Counter[tuple[int, int]], users: int, group: int) -> float:
        return counts[users, group] / sum(counts[users, g] for g in items) * len(ITEMS) / items[group]

    pairs = itertools.product(range(N_GROUPS), items)
    return statistics.fmean(
        abs(preference(shown, *pair) / preference(relevant, *pair) - 1) for pair in pairs if relevant[pair] > 0
    )


ROWS: Mapping[str, Callable[[Mapping[str, Case]], Iterator[Row]]] = {
    "jurity": jurity,
    "recommenders": recommenders,
    "rectools": rectools,
    "ranx": ranx,
    "replay-rec": replay,
    "lenskit": lenskit,
    "torchmetrics": torchmetrics,
    "pytrec_eval-terrier": pytrec_eval,
    "recbole": recbole,
    "warprec": warprec,
    "scikit-learn": scikit_learn,
    "pyspark": pyspark,
}


# Runs ---------------------------------------------------------------------------------------------------------------------


def python_of(package: Package) -> str:
    """The interpreter of the package's environment, which is made where it is missing or was made for other versions."""
    if not package.installs:
        return sys.executable
    folder = ENVIRONMENTS / package.environment
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    made, wanted = folder / ".made", repr(package.installs)
    if not made.is_file() or made.read_text(encoding="utf-8") != wanted:
        base = shutil.which(f"python{package.python}") if package.python else sys.executable
        if base is None:
            sys.exit(f"{package.environment} needs python{package.python} on the path")
        subprocess.run([base, "-m", "venv", "--clear", folder], check=True)
        for arguments in package.installs:
            subprocess.run([python, "-m", "pip", "install", "--quiet", *arguments], check=True)
        made.write_text(wanted, encoding="utf-8")
    return str(python)


def write_rows(name: str) -> None:
    """Runs a package in this process and writes its file, in place of that of another version."""
    warnings.simplefilter("ignore")
    rows = [replace(row, tolerance=max(row.tolerance, PACKAGES[name].tolerance)) for row in ROWS[name](CASES)]
    for old in GOLDEN.glob(f"{name}-[0-9]*.csv"):
        old.unlink()
    path = GOLDEN / f"{name}-{version(name)}.csv"
    write_csv(path, [column.name for column in fields(Row)], map(astuple, rows))
    print(f"{path.relative_to(ROOT)}: {len(rows)} rows")


def main() -> None:
    """Writes the data sets and the files of the packages that are named, or of all."""
    parser = argparse.ArgumentParser(description="Writes tests/golden.")
    parser.add_argument("packages", nargs="*", metavar="package", help=f"one of {', '.join(PACKAGES)}; all of them by default")
    parser.add_argument("--inside", choices=PACKAGES, help="run this package in this process")
    arguments = parser.parse_args()
    if arguments.inside:
        write_rows(arguments.inside)
        return
    if unknown := set(arguments.packages) - set(PACKAGES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    write_data()
    for name in arguments.packages or PACKAGES:
        subprocess.run([python_of(PACKAGES[name]), __file__, "--inside", name], check=True)


if __name__ == "__main__":
    main()
