"""What other systems return: every value in tests/golden is ours too, or differs for the reason that is written there.

`scripts/make_golden.py` says what the columns of the files mean. `docs/agreement.md` has their tables, which this module
writes: `python tests/evaluation/test_agreement.py`.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

import oracle
import pandas as pd
import pytest

import spark_recmetrics as srm
from spark_recmetrics.conventions import CONVENTIONS, convention
from spark_recmetrics.errors import DataError
from spark_recmetrics.metrics import parse

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
FILES = {path.stem: path for path in sorted(GOLDEN.glob("*.csv"))}
PAGE = ROOT / "docs" / "agreement.md"
FIRST, LAST = 1001, 1040
"""The items of the data sets."""


class Row(NamedTuple):
    """A row of a golden file."""

    data: str
    call: str
    value: str
    convention: str
    metric: str
    options: str
    without: str
    ours: str
    tolerance: str
    note: str

    @property
    def evaluation(self):
        """What rows have in common that one evaluation answers."""
        return self.convention, self.options, self.without

    def __str__(self):
        return f"{self.data}, {self.convention}, {self.metric}: {self.call} is {self.value}"


@cache
def read_rows(name):
    with FILES[name].open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == list(Row._fields)
    return [Row(*row) for row in rows]


@cache
def read_data(name, part):
    return pd.read_csv(GOLDEN / "data" / f"{name}-{part}.csv")


class Inputs(NamedTuple):
    """What a row is evaluated on."""

    predictions: pd.DataFrame
    truth: pd.DataFrame
    train: pd.DataFrame | None
    catalog: list[int] | None
    item_features: pd.DataFrame | None
    baseline: str | None
    item_groups: pd.DataFrame | None
    user_segments: pd.DataFrame | None

    @property
    def beside(self):
        """The arguments that evaluations of all kinds have."""
        return {part: getattr(self, part) for part in ("train", "item_features", "baseline", "item_groups", "user_segments")}


def evaluate(row, metrics):
    """The values of the package for the data and options of a row."""
    found = inputs(row)
    size = None if found.catalog is None else len(found.catalog)
    options = {"metrics": metrics, "k": None, "convention": row.convention, "catalog": size, **found.beside}
    return srm.evaluate(found.predictions, found.truth, **options).to_dict()["model"]


def evaluate_by_oracle(row, metrics):
    """The values of the oracle for the same."""
    predictions, truth, train, catalog, items, baseline, groups, segments = (
        part.rename(columns={"user_id": "user", "item_id": "item"}).to_dict("records")
        if isinstance(part, pd.DataFrame) else part
        for part in inputs(row)
    )  # fmt: skip
    wanted = [oracle.describe(parse(metric)) for metric in metrics]
    predictions = [{"model": "model", **prediction} for prediction in predictions]
    beside = (train or [], catalog, items or [], baseline, groups or [], segments or [])
    found = oracle.evaluate(predictions, truth, convention(row.convention), wanted, *beside)
    return {metric.label: found.summary["model", metric.label]["value"] for metric in wanted}


def inputs(row):
    options = dict(option.split("=") for option in row.options.split())
    left_out = [int(user) for user in row.without.split()]
    predictions, truth = (read_data(row.data, part) for part in ("predictions", "truth"))
    baseline = options.get("baseline")
    if baseline:
        models = [predictions.assign(model="model"), read_data(baseline, "predictions").assign(model="baseline")]
        predictions = pd.concat(models, ignore_index=True)
    groups = segments = catalog = None
    if "groups" in options:
        n = int(options["groups"])
        # The oracle knows them by these names, and items by all that they belong to.
        groups = pd.DataFrame([(item, [str(item % n)]) for item in range(FIRST, LAST + 1)], columns=["item_id", "genre"])
        segments = pd.DataFrame([(user, str(user % n)) for user in range(1, 26)], columns=["user_id", "gender"])
    if "catalog_size" in options:
        catalog = [*range(FIRST, FIRST + int(options["catalog_size"]))]
    if "catalog" in options:
        catalog = sorted(read_data(options["catalog"], "train")["item_id"].unique().tolist())
    return Inputs(
        predictions[~predictions["user_id"].isin(left_out)],
        truth[~truth["user_id"].isin(left_out)],
        read_data(options["train"], "train") if "train" in options else None,
        catalog,
        described_items(options["features"]) if "features" in options else None,
        "baseline" if baseline else None,
        groups,
        segments,
    )


def is_beyond_catalog(row):
    """Whether items are recommended that the catalogue lacks, so that it has to be a table, which only Spark takes."""
    found = inputs(row)
    return found.catalog is not None and not found.predictions["item_id"].isin(found.catalog).all()


@cache
def described_items(name):
    """The features of items, as vectors and as categories."""
    rows = read_data(name, "items").set_index("item_id")
    names = rows.columns.to_list()
    return pd.DataFrame(
        {
            "item_id": rows.index,
            "features": rows.to_numpy().astype(float).tolist(),
            "categories": [[name for name, has in zip(names, row, strict=True) if has] for row in rows.to_numpy()],
        }
    )


def is_close(text, value, tolerance):
    """Whether a value is what a text of a golden file says; the names of exceptions are no values."""
    if text in {"nan", "None"}:
        return value is None
    if value is None or not re.fullmatch(r"-?\d[\d.e+-]*", text):
        return False
    return abs(float(text) - value) <= tolerance * max(1, abs(value))


def faults(rows, evaluate):
    """Rows that do not hold. A value that differs from the system's has to differ by more than rounding."""
    metrics = list(dict.fromkeys(row.metric for row in rows))
    values = evaluate(rows[0], metrics)
    for row in rows:
        value = values[row.metric]
        theirs = is_close(row.value, value, 1e-3 if row.ours else float(row.tolerance))
        if theirs == bool(row.ours) or (row.ours and not is_close(row.ours, value, 1e-12)):
            yield f"{row}, here {value}{row.ours and f' and not {row.ours}'}"


PARTS = [
    pytest.param(name, data, id=f"{name}-{data}") for name in FILES for data in sorted({row.data for row in read_rows(name)})
]


@pytest.mark.parametrize("evaluate", [evaluate, evaluate_by_oracle], ids=["package", "oracle"])
@pytest.mark.parametrize(("name", "data"), PARTS)
def test_values_agree_or_differ_as_written(name, data, evaluate):
    groups = defaultdict(list)
    for row in read_rows(name):
        if row.data == data and row.ours != "refused":
            groups[row.evaluation].append(row)
    groups = {key: rows for key, rows in groups.items() if not is_beyond_catalog(rows[0])}
    assert [fault for rows in groups.values() for fault in faults(rows, evaluate)] == []


@pytest.mark.parametrize("row", [row for name in FILES for row in read_rows(name) if row.ours == "refused"], ids=str)
def test_refused_data_are_refused(row):
    with pytest.raises(DataError, match="duplicate"):
        evaluate(row, [row.metric])


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.once
def test_values_agree_where_items_are_recommended_that_the_catalogue_lacks(spark):
    rows = [row for name in FILES for row in read_rows(name) if row.options.startswith("catalog=") and is_beyond_catalog(row)]
    assert {row.call.partition("(")[0] for row in rows} == {"catalog_coverage", "Coverage"}
    groups = defaultdict(list)
    for row in rows:
        groups[(row.data, *row.evaluation)].append(row)

    def evaluate_on_spark(row, metrics):
        found = inputs(row)
        predictions, truth, train, catalog = map(spark.createDataFrame, (*found[:3], [(item,) for item in found.catalog]))
        options = {"metrics": metrics, "k": None, "convention": row.convention, "train": train}
        result = srm.evaluate(predictions, truth, catalog=catalog.toDF("item_id"), n_buckets=1, **options)
        values = result.to_dict()["model"]
        result.release()
        return values

    assert [fault for own in groups.values() for fault in faults(own, evaluate_on_spark)] == []


# The files ----------------------------------------------------------------------------------------------------------------


def test_the_files_are_there():
    systems = {name.rpartition("-")[0] for name in FILES}
    assert len(systems) == len(FILES) >= 8, "one version of each system"
    assert all(len(read_rows(name)) > 50 for name in FILES)


def test_every_file_of_data_is_read():
    rows = [row for name in FILES for row in read_rows(name)]
    part_of = {"train": "train", "catalog": "train", "features": "items", "baseline": "predictions"}
    named = [option.split("=") for row in rows for option in row.options.split()]
    read = {f"{row.data}-{part}" for row in rows for part in ("predictions", "truth")}
    read |= {f"{data}-{part_of[option]}" for option, data in named if option in part_of}
    assert {path.stem for path in (GOLDEN / "data").iterdir()} == read
    assert {path.name for path in GOLDEN.iterdir()} == {"data", *(path.name for path in FILES.values())}


def test_rows_say_why_they_are_not_simply_equal():
    for name in FILES:
        for row in read_rows(name):
            assert row.note or not (row.ours or row.without), row
            assert 0 < float(row.tolerance) <= 1e-6, row


def test_wrong_values_are_noticed():
    row = next(row for row in read_rows(next(iter(FILES))) if not row.ours)
    value = evaluate(row, [row.metric])[row.metric]
    assert list(faults([row._replace(value=repr(value + 1e-9))], evaluate))
    assert list(faults([row._replace(ours=repr(value))], evaluate)), "equal, though it says different"
    assert list(faults([row._replace(value="ZeroDivisionError")], evaluate))


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_the_evaluators_of_spark_ml_are_those_of_mllib(spark):
    """What the page says of them: on the same lists and sets they have the values that the file has of mllib."""
    from pyspark.ml.evaluation import RankingEvaluator, RegressionEvaluator

    golden = {row.call: float(row.value) for row in read_rows("pyspark-4.2.0") if row.data == "stars-1"}
    predictions, truth = (read_data("stars-1", part) for part in ("predictions", "truth"))
    lists = predictions.sort_values("score", ascending=False).groupby("user_id")["item_id"].apply(lambda own: own.tolist())
    sets = truth.groupby("user_id")["item_id"].apply(lambda own: own.tolist())
    rows = [([*map(float, lists[user])], [*map(float, sets[user])]) for user in lists.index.intersection(sets.index)]
    frame = spark.createDataFrame(rows, "prediction array<double>, label array<double>")
    named = {"precisionAtK": "precisionAt", "recallAtK": "recallAt", "ndcgAtK": "ndcgAt"}
    for theirs, call in {**named, "meanAveragePrecisionAtK": "meanAveragePrecisionAt"}.items():
        found = RankingEvaluator(metricName=theirs, k=3).evaluate(frame)
        assert found == pytest.approx(golden[f"RankingMetrics.{call}(3)"], abs=1e-12)
    found = RankingEvaluator(metricName="meanAveragePrecision").evaluate(frame)
    assert found == pytest.approx(golden["RankingMetrics.meanAveragePrecision"], abs=1e-12)
    pairs = predictions.merge(truth, on=["user_id", "item_id"])[["score", "rating"]].astype(float)
    scored = spark.createDataFrame(pairs.to_numpy().tolist(), "prediction double, label double")
    errors = {"rmse": "rootMeanSquaredError", "mse": "meanSquaredError", "mae": "meanAbsoluteError", "r2": "r2"}
    for theirs, call in {**errors, "var": "explainedVariance"}.items():
        found = RegressionEvaluator(metricName=theirs).evaluate(scored)
        assert found == pytest.approx(golden[f"RegressionMetrics.{call}"], abs=1e-12)


# The page -----------------------------------------------------------------------------------------------------------------


def tables():
    """What the page has about each file: a table of what is equal and then of what differs, and who is left out."""
    for name in FILES:
        equal, different = {}, {}
        for row in read_rows(name):
            metric = parse(row.metric)
            # Without it the metric would be cut at the default k.
            whole = ", `k=None`" if metric.k is None and metric.definition.has_cut_off else ""
            there = [f"`{row.call}`", f"`{row.convention}`", f"`{row.metric}`{whole}"]
            at_any_k, k = list(there), metric.k
            if k is not None:
                at_any_k[0] = re.sub(rf"(?<=[=@_([]){k}(?!\d)", "k", there[0], count=1)
                at_any_k[2] = there[2].replace(f"@{k}", "@k")
            if row.ours:
                # Who is left out is told below the table.
                why = row.note.partition("; ")[2] if row.without else row.note
                values = f"{number(row.value)} there, {number(row.ours)} here (`{row.data}`): {why}"
                # One line for each reason: the values of the first data set and cut-off stand for all.
                different.setdefault((*at_any_k, why), [*there, values])
            else:
                reason = "" if row.without or not row.note else f": {row.note}"
                equal[(*at_any_k, reason)] = [*at_any_k, f"equal{reason}"]
        lines = [f"| {' | '.join(line)} |" for line in (*equal.values(), *different.values())]
        left_out = list(dict.fromkeys(row.note for row in read_rows(name) if row.without and not row.ours))
        after = f"\n\nLeft out: {'; '.join(left_out)}." if left_out else ""
        yield name, "\n".join(["| there | convention | metric | values |", "|---|---|---|---|", *lines]) + after


def number(text):
    """A value of a file as the page shows it."""
    return f"{float(text):.4g}" if is_number(text) else text if text == "refused" else f"`{text}`"


def is_number(text):
    return re.fullmatch(r"-?\d[\d.e+-]*", text) is not None


TABLE = r"(^## {system} {version}$.*?)(^\| there \|.*?\|$(?:\n\nLeft out: [^\n]*)?)(?=\n\n|\n*\Z)"


def section(name):
    system, _, version = name.rpartition("-")
    return re.compile(TABLE.format(system=re.escape(system), version=re.escape(version)), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("name", "table"), [pytest.param(*pair, id=pair[0]) for pair in tables()])
def test_the_page_has_the_table(name, table):
    found = section(name).search(PAGE.read_text(encoding="utf-8"))
    assert found, f"no section '## {name}'"
    assert found[2] == table, "write it anew: python tests/evaluation/test_agreement.py"


def test_the_page_claims_nothing_else():
    page = PAGE.read_text(encoding="utf-8")
    headings = re.findall(r"^## (\S+) (\d\S*)$", page, re.MULTILINE)
    assert {f"{system}-{version}" for system, version in headings} == set(FILES)
    assert page.count("| there |") == len(FILES)
    shown = {row.convention for name in FILES for row in read_rows(name)}
    named = {text for text in re.findall(r"`([a-z_]+\([^`]*\))`", page) if text.partition("(")[0] in CONVENTIONS}
    assert named <= shown


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    for name, table in tables():
        text, count = section(name).subn(lambda found, table=table: found[1] + table, text)
        assert count, f"no section with a table for {name}"
    PAGE.write_text(text, encoding="utf-8")
