"""Objectives: distance and volume by hand, Pareto-optimal models, errors, and results."""

from __future__ import annotations

import json
import math
import random
import re
from fractions import Fraction
from itertools import product

import pandas as pd
import pytest
from engines import records
from job_data import load

import spark_recmetrics as srm
from spark_recmetrics.decisions.gates import Gate, check_gates
from spark_recmetrics.job import cli
from spark_recmetrics.metrics import COMBINED, DEFINITIONS, parse
from spark_recmetrics.metrics.objectives import Objective, Objectives, read_objectives
from spark_recmetrics.reports.tables import metric_table, slice_table

NDCG, GINI, RMSE = (parse(text) for text in ("ndcg@10", "gini@10", "rmse"))
EVALUATED = [parse(text) for text in ("ndcg@5", "ndcg@10", "gini@10", "mrr@3", "novelty@10", "rmse", "auc")]

# a is relevant for user 1, b for user 2: als has one hit, pop has one, none has no hit; als has two items at rank 1, the others
# one.
LISTS = [("als", 1, "a"), ("als", 2, "c"), ("none", 1, "b"), ("pop", 1, "b"), ("pop", 2, "b")]
PREDICTIONS = pd.DataFrame([(*row, 1.0) for row in LISTS], columns=["model", "user_id", "item_id", "score"])
TRUTH = pd.DataFrame({"user_id": [1, 2], "item_id": ["a", "b"]})
COUNT = "item_coverage(measure=count)"
WANTED = {"hit": {"nadir": 0.25}, COUNT: {"utopia": 4, "nadir": 0}}


def close(value):
    return pytest.approx(float(value), abs=1e-12, rel=1e-12)


def in_memory(objectives, metrics=("hit", COUNT), predictions=PREDICTIONS, truth=TRUTH, **options):
    return srm.evaluate(predictions, truth, metrics=list(metrics), k=1, objectives=objectives, **options)


# Values -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "distance", "volume"),
    [
        # Utopia (1, 0, 0), nadir (1/10, 1, 2).
        ((1, 0, 0), 0, Fraction(9, 10) * 1 * 2),
        ((Fraction(5, 7), Fraction(3, 7), Fraction(6, 7)), 1, Fraction(43, 70) * Fraction(4, 7) * Fraction(8, 7)),
        ((0, 0, 0), 1, 0),
        ((Fraction(1, 10), 0, 0), Fraction(9, 10), 0),
        ((1, 1, 0), 1, 0),
        ((1, 0, 3), 3, 0),
        ((None, 0, 0), None, None),
    ],
)
def test_distance_and_volume_by_hand(values, distance, volume):
    (together,) = read_objectives({"ndcg@10": {"nadir": 0.1}, "gini@10": {}, "rmse": {"nadir": 2}}, EVALUATED)
    own = {metric: None if value is None else float(value) for metric, value in zip((NDCG, GINI, RMSE), values, strict=True)}
    result = [together.value(metric, own) for metric in together.metrics]
    assert list(map(str, together.metrics)) == ["euc_distance@10", "hypervolume@10"]
    assert result == [None if value is None else close(value) for value in (distance, volume)]


def test_warprec_for_a_single_user():
    """Its code: the root of the sum of (score - utopia)^2, and the product of max(score - nadir, 0) or max(nadir - score,
    0)."""
    rng = random.Random(1)
    for _ in range(50):
        scores, utopia, nadir = ([rng.uniform(0, 2) for _ in range(3)] for _ in range(3))
        goals = tuple(
            Objective(metric, best, worst) for metric, best, worst in zip((NDCG, GINI, RMSE), utopia, nadir, strict=True)
        )
        together, own = Objectives(10, goals), dict(zip((NDCG, GINI, RMSE), scores, strict=True))
        volume = 1.0
        for score, worst, higher in zip(scores, nadir, (True, False, False), strict=True):
            volume *= max(score - worst if higher else worst - score, 0.0)
        squares = sum((score - best) ** 2 for score, best in zip(scores, utopia, strict=True))
        assert [together.value(metric, own) for metric in together.metrics] == [close(math.sqrt(squares)), close(volume)]


def test_a_value_that_is_not_a_number_is_undefined():
    (together,) = read_objectives({"rmse": {"nadir": 2}, "ndcg@10": {}}, EVALUATED)
    own = {RMSE: -math.inf, NDCG: 0.0}  # infinity times 0
    assert [together.value(metric, own) for metric in together.metrics] == [math.inf, None]


# The Pareto front -----------------------------------------------------------------------------------------------------------


def front(*vectors):
    together = Objectives(10, (Objective(NDCG), Objective(GINI)))
    models = {f"m{place}": dict(zip((NDCG, GINI), vector, strict=True)) for place, vector in enumerate(vectors)}
    return [(one.optimal, one.dominated_by) for one in together.standings(models)]


@pytest.mark.parametrize(
    ("vectors", "standings"),
    [
        ([(0.3, 0.9)], [(True, ())]),
        ([(0.3, 0.5), (0.2, 0.9)], [(True, ()), (False, ("m0",))]),
        # Gini is better if lower.
        ([(0.3, 0.5), (0.2, 0.4)], [(True, ()), (True, ())]),
        ([(0.3, 0.5), (0.3, 0.4)], [(False, ("m1",)), (True, ())]),
        ([(0.3, 0.5), (0.3, 0.5)], [(True, ()), (True, ())]),
        ([(0.1, 0.9), (0.3, 0.5), (0.2, 0.6)], [(False, ("m1", "m2")), (True, ()), (False, ("m1",))]),
        ([(0.1, 0.9), (0.3, None)], [(True, ()), (None, ())]),
        ([(None, None)], [(None, ())]),
    ],
)
def test_pareto_optimal_models(vectors, standings):
    assert front(*vectors) == standings


def test_the_pareto_front_by_definition():
    """On a grid with ties: a dominated model has a dominating one, domination is not mutual, and some model is optimal."""
    rng = random.Random(2)
    grid = list(product((0.1, 0.2, 0.3), (0.4, 0.5, 0.6)))
    for _ in range(100):
        vectors = [rng.choice(grid) for _ in range(rng.randint(1, 6))]
        result = front(*vectors)
        for place, (ndcg, gini) in enumerate(vectors):
            above = {
                f"m{other}"
                for other, (a, b) in enumerate(vectors)
                if (a >= ndcg and b <= gini) and not (a == ndcg and b == gini)
            }
            assert result[place] == (not above, tuple(sorted(above)))
        assert any(optimal for optimal, _ in result)
        # The model with the largest volume is optimal.
        together = Objectives(10, (Objective(NDCG, nadir=0.0), Objective(GINI, nadir=1.0)))
        volumes = [together.value(parse("hypervolume@10"), {NDCG: a, GINI: b}) for a, b in vectors]
        assert result[volumes.index(max(volumes))][0]


# Reading ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "groups"),
    [
        (None, []),
        ({}, []),
        # Without a cut-off: at every common cut-off.
        ({"ndcg": None, "gini": {}}, [("euc_distance@10 hypervolume@10", "ndcg@10 gini@10")]),
        (
            {"nDCG": {}, "RMSE": {"nadir": 2}},
            [("euc_distance@5 hypervolume@5", "ndcg@5 rmse"), ("euc_distance@10 hypervolume@10", "ndcg@10 rmse")],
        ),
        ({"ndcg@5": {}, "gini": {}}, [("euc_distance@10 hypervolume@10", "ndcg@5 gini@10")]),
        ({"ndcg@5": {}, "mrr@3": {}}, [("euc_distance hypervolume", "ndcg@5 mrr@3")]),
        ({"ndcg@10": {}, "gini@10": {}}, [("euc_distance@10 hypervolume@10", "ndcg@10 gini@10")]),
        ({"auc": {}, "rmse": {"nadir": 3}}, [("euc_distance hypervolume", "auc rmse")]),
        # A metric without this bound, and no given point.
        ({"novelty": {}}, [("hypervolume@10", "novelty@10")]),
        ({"rmse": {}}, [("euc_distance", "rmse")]),
        ({"novelty": {}, "rmse": {}}, [("", "novelty@10 rmse")]),
    ],
)
def test_objectives_by_cut_off(given, groups):
    result = read_objectives(given, EVALUATED)
    assert [(" ".join(map(str, one.metrics)), " ".join(str(goal.metric) for goal in one.goals)) for one in result] == groups


WRONG = [
    ({"ndgc": {}}, "ndgc", "'ndgc': unknown metric 'ndgc'; did you mean 'ndcg'?"),
    ({"ndcg@7": {}}, "ndcg@7", "ndcg@7 is not evaluated; did you mean 'ndcg"),
    ({"hit": {}}, "hit", "hit is not evaluated; known: auc, gini, gini@10, mrr, mrr@3, ndcg, ndcg@10, ndcg@5, novelty,"),
    ({"hypervolume": {}}, "hypervolume", "hypervolume is computed from objectives, and cannot be one"),
    ({"ndcg@5": {}, "nDCG@5": {}}, "nDCG@5", "ndcg@5 is given twice"),
    (
        {"ndcg": {"utopia": 0.1, "nadir": 0.2}},
        "ndcg.utopia",
        "expected a number above the nadir, which is 0.2, because ndcg is better if higher, found 0.1",
    ),
    (
        {"rmse": {"utopia": 2, "nadir": 2}},
        "rmse.utopia",
        "expected a number below the nadir, which is 2, because rmse is better if lower, found 2",
    ),
    (
        {"gini": {"nadir": 0}},
        "gini.utopia",
        "expected a number below the nadir, which is 0, because gini is better if lower, found 0",
    ),
    ({"ndcg": {}, "mrr": {}}, "", "expected a cut-off at which all of them are evaluated, found ndcg at 5, 10; mrr at 3"),
]


@pytest.mark.parametrize(("given", "place", "message"), WRONG)
def test_invalid_objectives(tmp_path, given, place, message):
    where = f"objectives.{place}" if place else "objectives"
    with pytest.raises(srm.ConfigError, match=f"^{re.escape(f'{where}: {message}')}"):
        read_objectives(given, EVALUATED)
    key = place if re.fullmatch(r"[\w.]*", place) else f"['{place}']"
    where = f"evaluation.objectives{'' if key.startswith('[') or not key else '.'}{key}"
    with pytest.raises(srm.ConfigError, match=re.escape(f"{where}: {message}")):
        load(written(tmp_path, objectives=given, metrics=list(map(str, EVALUATED))))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1], "objectives: expected a mapping of metrics to their points, found [1]"),
        ({3: {}}, "objectives.3: expected a metric as a string, such as 'ndcg@10', found 3"),
        ({"ndcg": 3}, "objectives.ndcg: expected a mapping with optional utopia and nadir, found 3"),
        ({"ndcg": {"utpia": 1}}, "objectives.ndcg: unknown key 'utpia'; did you mean 'utopia'?"),
        ({"ndcg": {"nadir": "0"}}, "objectives.ndcg.nadir: expected a finite number, found '0'"),
        ({"ndcg": {"utopia": True}}, "objectives.ndcg.utopia: expected a finite number, found True"),
        ({"ndcg": {"utopia": math.nan}}, "objectives.ndcg.utopia: expected a finite number, found nan"),
        (
            {"ndcg": {"utopia": math.inf}, "mrr@7": {}},
            "objectives.ndcg.utopia: expected a finite number, found inf\nobjectives.mrr@7: mrr@7 is not evaluated",
        ),
    ],
)
def test_errors_of_objectives(given, message):
    with pytest.raises(srm.ConfigError, match=f"^{re.escape(message)}"):
        read_objectives(given, EVALUATED)


@pytest.mark.parametrize("name", COMBINED)
def test_they_cannot_be_requested_as_metrics(tmp_path, name):
    assert name not in DEFINITIONS
    message = f"{name}@1 is computed from objectives: set objectives, and remove it here"
    with pytest.raises(srm.ConfigError, match=re.escape(message)):
        in_memory(WANTED, metrics=["hit", f"{name}@1"])
    with pytest.raises(srm.ConfigError, match=re.escape(f"evaluation: {message}")):
        load(written(tmp_path, metrics=["hit", f"{name}@1"]))
    assert str(parse(f"{name.upper()}@5")) == f"{name}@5"


# In memory ----------------------------------------------------------------------------------------------------------------

ALL_VALUES = {
    # Utopia (1, 4) and nadir (1/4, 0).
    "als": {"hit@1": 0.5, f"{COUNT}@1": 2.0, "euc_distance@1": math.sqrt(1 / 4 + 4), "hypervolume@1": 1 / 4 * 2},
    "none": {"hit@1": 0.0, f"{COUNT}@1": 1.0, "euc_distance@1": math.sqrt(1 + 9), "hypervolume@1": 0.0},
    "pop": {"hit@1": 0.5, f"{COUNT}@1": 1.0, "euc_distance@1": math.sqrt(1 / 4 + 9), "hypervolume@1": 1 / 4 * 1},
}
STANDINGS = [("als", True, ()), ("none", False, ("als", "pop")), ("pop", False, ("als",))]


def test_in_memory():
    result = in_memory(WANTED)
    assert {model: {text: close(value) for text, value in own.items()} for model, own in ALL_VALUES.items()} == result.to_dict()
    assert [(one.model, one.optimal, one.dominated_by) for one in result.pareto()] == STANDINGS
    assert result.pareto()[0] == (1, "als", {"hit@1": 0.5, f"{COUNT}@1": 2.0}, True, (), None)
    rows = result.to_pandas().set_index(["model", "metric"]).loc["als"]
    assert rows["higher_is_better"].to_dict()["euc_distance@1"] == False  # noqa: E712 - a bool of numpy
    assert rows["higher_is_better"].to_dict()["hypervolume@1"] == True  # noqa: E712
    assert rows.loc["hypervolume@1", ["k", "n_users", "n_undefined", "small"]].tolist() == [1, 2, 0, False]
    assert rows.loc["hypervolume@1", ["std", "ci_low", "ci_method"]].isna().all()
    assert not [name for name in result.per_user if name.startswith(("euc", "hyper"))]
    assert str(result).endswith(
        f"""
model   hit@1  {COUNT}@1  Pareto-optimal
als    0.5000                          2.0000  yes
none   0.0000                          1.0000  no: dominated by als, pop
pop    0.5000                          1.0000  no: dominated by als"""
    )
    without = in_memory(None)
    assert without.pareto() == []
    assert "Pareto" not in str(without)
    assert without.to_dict()["als"] == {"hit@1": 0.5, f"{COUNT}@1": 2.0}


def test_an_undefined_objective_makes_the_value_undefined_with_a_reason():
    """Without a matched recommendation the click-through rate is undefined."""
    truth = pd.DataFrame({"user_id": [1, 2], "item_id": ["a", "b"], "rating": [1.0, 1.0]})
    result = in_memory({"hit": {}, "ctr": {"utopia": 1, "nadir": 0}}, ["hit", "ctr"], truth=truth)
    assert result.to_dict()["none"] == {"hit@1": 0.0, "ctr@1": None, "euc_distance@1": None, "hypervolume@1": None}
    assert [(one.model, one.optimal, one.reason) for one in result.pareto()] == [
        ("als", True, None),
        ("none", None, "ctr@1 is undefined"),
        ("pop", True, None),
    ]
    assert "model none: no Pareto front at 1, distance or volume: ctr@1 is undefined" in result.warnings
    assert result.emptiness[-1] == "model none: no users to average for ctr@1"
    assert "none   0.0000  undefined  unknown: ctr@1 is undefined" in str(result)


def test_gates():
    gates = [Gate("hypervolume@1", min=0.2), Gate("euc_distance@1", max_drop=1.0, against="model(als)")]
    result = {(one.model, one.metric): one.result for one in check_gates(gates, in_memory(WANTED).rows)}
    volumes = {"als": "pass", "none": "fail", "pop": "pass"}
    assert {model: result for (model, metric), result in result.items() if metric == "hypervolume@1"} == volumes
    # The distance of none is 3.16 and that of als 2.06.
    assert (result["none", "euc_distance@1"], result["pop", "euc_distance@1"]) == ("fail", "pass")


# On Spark, and as a job ---------------------------------------------------------------------------------------------------


def frames_of(spark):
    return spark.createDataFrame(PREDICTIONS), spark.createDataFrame(TRUTH)


@pytest.mark.heavy
@pytest.mark.spark
def test_spark_gives_the_values_of_memory(spark):
    predictions, truth = frames_of(spark)
    segments = spark.createDataFrame([(1, "x"), (2, "y")], "user_id long, side string")
    asked = {"metrics": ["hit", COUNT, "mrr"], "k": 1, "n_buckets": 2, "user_segments": segments, "slices": ["side"]}
    result = srm.evaluate(predictions, truth, objectives={"hit": {"nadir": 0.25}, "mrr": {}}, **asked)
    summary = {(row["model"], row["slice_value"], row["metric"]): row["value"] for row in records(result.summary)}
    assert summary["als", "all", "euc_distance@1"] == close(math.sqrt(1 / 2))
    assert summary["als", "x", "hypervolume@1"] == close(Fraction(3, 4))
    assert summary["als", "y", "hypervolume@1"] == 0
    # Item metrics have no values of slices, so neither have objectives with them.
    result = srm.evaluate(predictions, truth, objectives=WANTED, **asked)
    values = {model: {text: own[text] for text in ALL_VALUES[model]} for model, own in result.to_dict().items()}
    assert values == {model: {text: close(value) for text, value in own.items()} for model, own in ALL_VALUES.items()}
    assert [(one.model, one.optimal, one.dominated_by) for one in result.pareto()] == STANDINGS
    assert not [row for row in result.rows if row["slice"] != "all" and row["metric"].startswith(("euc", "hyper"))]
    result.release()
    with pytest.raises(srm.ConfigError, match=r"objectives\.hit@7: hit@7 is not evaluated"):
        srm.evaluate(predictions, truth, objectives={"hit@7": {}}, **asked)


def written(tmp_path, **evaluation):
    config = {
        "inputs": {"predictions": {"path": "/p"}, "truth": {"path": "/t"}, "train": {"path": "/n"}, "catalog": 5},
        "evaluation": evaluation,
        "output": {"path": "/o"},
    }
    path = tmp_path / "conf.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "evaluation.objectives: expected a mapping of keys to values, found a list"),
        ({"hit": 3}, "evaluation.objectives.hit: expected a mapping of keys to values, found 3"),
        ({"hit": {"utpia": 1}}, "evaluation.objectives.hit.utpia: expected one of 'utopia' or 'nadir', found 'utpia'"),
        ({"hit": {"nadir": "0"}}, "evaluation.objectives.hit.nadir: expected a finite number, found '0'"),
    ],
)
def test_configuration(tmp_path, given, message):
    with pytest.raises(srm.ConfigError, match=re.escape(message)):
        load(written(tmp_path, metrics=["hit"], objectives=given))


def test_a_gate_of_a_configuration(tmp_path):
    path = written(tmp_path, metrics=["hit"], objectives={"hit": {}}, top_k=[1])
    assert load(path, ["gates=[{metric: hypervolume@1, min: 0.2}]"]).gates[0].metric == "hypervolume@1"
    with pytest.raises(srm.ConfigError, match=re.escape("gates[0].metric: hypervolume@2 is not evaluated")):
        load(path, ["gates=[{metric: hypervolume@2, min: 0.2}]"])


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_as_a_job(spark, tmp_path, capsys):
    for name, frame in zip(("predictions", "truth"), frames_of(spark), strict=True):
        frame.write.parquet(str(tmp_path / name))
    config = {
        "job": "several",
        "as_of": "2026-11-28",
        "inputs": {name: {"path": str(tmp_path / name)} for name in ("predictions", "truth")},
        "evaluation": {"metrics": ["hit", COUNT], "top_k": 1, "objectives": WANTED},
        "gates": [{"metric": "hypervolume@1", "model": "als", "min": 0.4}],
        "output": {"path": str(tmp_path / "out")},
    }
    path = tmp_path / "conf.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    assert cli.main(["evaluate", "--config", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "none   0.0000                          1.0000  no: dominated by als, pop" in printed
    result = json.loads(printed.strip().splitlines()[-1].partition(" ")[2])
    assert [(one["model"], one["optimal"], tuple(one["dominated_by"])) for one in result["pareto"]] == STANDINGS
    assert result["models"]["pop"]["hypervolume@1"] == close(ALL_VALUES["pop"]["hypervolume@1"])
    rows = srm.read_history(spark, str(tmp_path / "out")).where("metric = 'euc_distance@1'").collect()
    assert {row.model: row.value for row in rows} == {model: close(own["euc_distance@1"]) for model, own in ALL_VALUES.items()}
    assert cli.main(["history", "--config", str(path), "--metric", "Hypervolume@1"]) == 0
    assert "0.5000" in capsys.readouterr().out


def test_a_metric_cannot_be_two_objectives():
    with pytest.raises(srm.ConfigError, match=r"^objectives\.hit@10: hit@10 is given twice: hit includes it$"):
        srm.evaluate(
            pd.DataFrame({"user_id": [1], "item_id": ["a"], "score": [1.0]}),
            pd.DataFrame({"user_id": [1], "item_id": ["a"]}),
            metrics="hit",
            k=10,
            objectives={"hit": {}, "hit@10": {}},
        )


def test_values_that_are_equal_up_to_rounding_do_not_dominate():
    """Means of the same values, summed in another order."""
    one, other = math.fsum([0.1, 0.2, 0.3]) / 3, (0.1 + 0.2 + 0.3) / 3
    assert one != other
    together = Objectives(10, (Objective(NDCG),))
    result = together.standings({"a": {NDCG: one}, "b": {NDCG: other}, "c": {NDCG: one - 1e-6}})
    assert [own.optimal for own in result] == [True, True, False]
    rows = [
        {"model": name, "metric": "ndcg@10", "k": 10, "value": value} for name, value in (("a", one), ("b", other), ("c", 0.1))
    ]
    for higher, line in ((True, "0.2000*  0.2000*  0.1000"), (False, "0.2000   0.2000   0.1000*")):
        assert line in metric_table([{**row, "higher_is_better": higher} for row in rows])
    assert "*" not in metric_table([{**row, "higher_is_better": True} for row in rows[:2]])


def test_slices_that_print_alike_have_separate_lines():
    row = {"model": "als", "metric": "hit@1", "slice": "gender", "n_users": 40, "ci_low": 0.0, "ci_high": 1.0}
    rows = [{**row, "slice_value": name, "value": 0.5, "small": False, "higher_is_better": True} for name in ("F\x01", "F\x02")]
    assert slice_table(rows, "hit@1").count("gender = F") == 2
