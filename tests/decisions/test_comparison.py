"""Comparing models on Spark: the tests of `stats` on the pairs that a straightforward join makes, and scipy's."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pytest
from scipy import stats as scipy_stats

import spark_recmetrics as srm
from spark_recmetrics.decisions.comparison import Question, TestOptions
from spark_recmetrics.decisions.comparison import compared as compared_by
from spark_recmetrics.job.cli import RESULT_MARK, main
from spark_recmetrics.metrics import parse
from spark_recmetrics.reports.tables import history_table
from spark_recmetrics.stats import adjust, paired_t_test, sign_test, smallest_difference, wilcoxon_test


def compared(per_user, models, metrics, convention, *, baseline=None, n_parts=4, slices=(), min_users=1, **options):
    question = Question(models, metrics, convention, baseline, TestOptions(**options), slices, min_users)
    return compared_by(per_user, question, n_parts=n_parts)


METRICS = [parse("ndcg@10"), parse("rmse")]
MODELS = ("a", "b", "c")


def values_of(seed=1, n_users=60):
    """By model and metric the value of every user; users differ, some values are undefined, some are tied."""
    chance = random.Random(seed)
    found = {}
    for place, model in enumerate(MODELS):
        for metric in METRICS:
            drawn = [round(chance.random() + 0.1 * place, 2) for _ in range(n_users)]
            found[model, str(metric)] = [None if chance.random() < 0.1 else value for value in drawn]
    return found


def per_user_of(spark, values, left_out=()):
    """PER_USER; the users of `left_out` have no row of model c. Every fifth user has nothing relevant."""
    n_users = len(next(iter(values.values())))
    rows = [
        (model, f"u{user}", int(user % 5 > 0), 1, 3, 1.0, *(values[model, str(metric)][user] for metric in METRICS))
        for model in MODELS
        for user in range(n_users)
        if not (model == "c" and user in left_out)
    ]
    slugs = ", ".join(f"{metric.slug} double" for metric in METRICS)
    counters = "n_relevant long, n_truth long, n_recommended long, n_pairs double"
    random.Random(2).shuffle(rows)
    return spark.createDataFrame(rows, f"model string, user string, {counters}, {slugs}")


def pairs_of(values, metric, a, b, left_out=()):
    """The two arrays of a pair, NaN where a value is undefined: by a loop over the users."""
    kept = [
        user
        for user in range(len(values[a, metric]))
        if (metric == "rmse" or user % 5 > 0) and not ("c" in (a, b) and user in left_out)
    ]
    return tuple(np.array([math.nan if (v := values[m, metric][u]) is None else v for u in kept]) for m in (a, b))


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.parametrize(("test", "direct"), [("paired_t", paired_t_test), ("wilcoxon", wilcoxon_test), ("sign", sign_test)])
def test_the_same_as_on_arrays(spark, test, direct):
    values, left_out = values_of(), {3, 7, 8}
    frame = per_user_of(spark, values, left_out)
    found = compared(frame, MODELS, METRICS, srm.convention("default"), test=test, n_parts=3).rows
    assert [(row["model_a"], row["model_b"]) for row in found[::2]] == [("a", "b"), ("a", "c"), ("b", "c")]
    for row in found:
        one, other = pairs_of(values, row["metric"], row["model_a"], row["model_b"], left_out)
        expected = direct(one, other)
        assert row["n_users"] == expected.n
        for ours, theirs in (("statistic",) * 2, ("p_value",) * 2, ("effect_size",) * 2, ("diff", "mean_difference")):
            assert row[ours] == pytest.approx(getattr(expected, theirs), abs=1e-9), ours
        assert (row["ci_low"], row["ci_high"]) == pytest.approx((expected.ci_low, expected.ci_high), abs=1e-9)
        better = (expected.wins, expected.losses)
        assert (row["wins"], row["losses"]) == (better if row["metric"] != "rmse" else better[::-1])
        both = ~np.isnan(one) & ~np.isnan(other)
        assert (row["mean_a"], row["mean_b"]) == pytest.approx((one[both].mean(), other[both].mean()), abs=1e-12)
        assert row["smallest_difference"] == pytest.approx(smallest_difference(expected.std, expected.n), abs=1e-9)
    assert [row["p_adjusted"] for row in found] == adjust([row["p_value"] for row in found], "holm")


@pytest.mark.spark
@pytest.mark.once
def test_the_same_as_scipy(spark):
    values = values_of(seed=5)
    frame = per_user_of(spark, values)
    for test, direct in (("paired_t", scipy_stats.ttest_rel), ("wilcoxon", scipy_stats.wilcoxon)):
        options = {"correction": False, "method": "asymptotic"} if test == "wilcoxon" else {}
        (row, _) = compared(frame, ("a", "b"), METRICS, srm.convention("default"), test=test, n_parts=4).rows
        one, other = pairs_of(values, "ndcg@10", "a", "b")
        both = ~np.isnan(one) & ~np.isnan(other)
        # In hundredths, so that equal differences are equal numbers for scipy, too; both tests are free of the unit.
        expected = direct((other[both] * 100).round(), (one[both] * 100).round(), **options)
        assert row["p_value"] == pytest.approx(expected.pvalue, abs=1e-9)


@pytest.mark.spark
def test_the_bootstrap_is_the_same_in_any_partitioning(spark):
    values = values_of(seed=7)
    frame, options = per_user_of(spark, values), {"test": "bootstrap", "n_resamples": 200, "seed": 3}
    one = compared(frame, MODELS, METRICS, srm.convention("default"), n_parts=1, baseline="b", **options).rows
    other = compared(frame.repartition(7), MODELS, METRICS, srm.convention("default"), n_parts=5, baseline="b", **options).rows
    assert [(row["model_a"], row["model_b"]) for row in one[::2]] == [("b", "a"), ("b", "c")]
    for row, again in zip(one, other, strict=True):
        assert row["p_value"] == again["p_value"] >= 1 / 201
        assert (row["ci_low"], row["ci_high"]) == pytest.approx((again["ci_low"], again["ci_high"]), abs=1e-12)
        assert row["seed"] == 3
        t = paired_t_test(*pairs_of(values, row["metric"], row["model_a"], row["model_b"]))
        half = (t.ci_high - t.ci_low) / 2
        assert (row["ci_low"], row["ci_high"]) == pytest.approx((t.ci_low, t.ci_high), abs=half / 2), "about the t interval"


@pytest.mark.spark
@pytest.mark.parametrize("test", ["paired_t", "bootstrap"])
def test_users_with_an_infinite_value_are_left_out(spark, test):
    """The difference of two infinite errors is no number, and the square of a huge one is infinite."""
    values = values_of(seed=3)
    usual = compared(per_user_of(spark, values), ("a", "b"), METRICS, srm.convention("default"), test=test, n_parts=2).rows
    users = [n for n in range(60) if None not in (values["a", "rmse"][n], values["b", "rmse"][n])]
    for model, value, user in (("a", math.inf, users[0]), ("b", math.inf, users[0]), ("b", 1e200, users[1])):
        values[model, "rmse"][user] = value
    found = compared(per_user_of(spark, values), ("a", "b"), METRICS, srm.convention("default"), test=test, n_parts=2).rows
    assert [row["n_users"] for row in found] == [usual[0]["n_users"], usual[1]["n_users"] - 2]
    assert found[0] == usual[0] | {"p_adjusted": found[0]["p_adjusted"]}
    assert 0 < found[1]["p_value"] <= 1
    assert abs(found[1]["diff"]) < 1


@pytest.mark.heavy
@pytest.mark.spark
def test_t1_a_model_against_itself_and_winners_by_direction(spark):
    """b is a: no difference. c is better than a in nDCG and worse in RMSE, for every user but by different amounts."""
    values = values_of(seed=9)
    for metric in map(str, METRICS):
        values["b", metric] = values["a", metric]
        values["c", metric] = [None if v is None else v + 0.5 + 0.001 * n for n, v in enumerate(values["a", metric])]
    found = compared(per_user_of(spark, values), MODELS, METRICS, srm.convention("default"), baseline="a", n_parts=2)
    by = {(row["model_b"], row["metric"]): row for row in found.rows}
    for metric in map(str, METRICS):
        row = by["b", metric]
        assert (row["statistic"], row["p_value"], row["effect_size"], row["winner"]) == (0, 1, 0, None)
        assert (row["wins"], row["losses"]) == (0, 0)
    assert (by["c", "ndcg@10"]["winner"], by["c", "rmse"]["winner"]) == ("c", "a")
    assert by["c", "rmse"]["wins"] == 0 < by["c", "rmse"]["losses"]
    text = str(found)
    assert text.count("not significant") == 2
    assert "c is better" in text
    assert "a is better" in text
    frame = found.to_spark(spark)
    assert [row["p_value"] for row in frame.collect()] == [row["p_value"] for row in found.rows]
    assert list(found.to_pandas().columns) == frame.columns


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.parametrize("test", ["paired_t", "bootstrap"])
def test_a_constant_difference_is_none_of_3e12_standard_errors(spark, test):
    """The differences are known to 10^-12 of the values, and are the same as far as that."""
    old = [1.0 + user / 7 for user in range(30)]
    values = {("a", str(metric)): old for metric in METRICS}
    values |= {("b", str(metric)): [v + 1e-4 for v in old] for metric in METRICS}
    values |= {("c", str(metric)): old for metric in METRICS}
    # In the last place, and two values apart: not the same.
    values["b", "rmse"] = [v + 1e-4 + 1e-9 * (user % 2) for user, v in enumerate(old)]
    one, other = (np.array(values[model, "ndcg@10"]) for model in "ab")
    assert np.ptp(other - one) > 1e-12 * 1e-4
    found = compared(per_user_of(spark, values), ("a", "b"), METRICS, srm.convention("default"), test=test, n_parts=5).rows
    same, apart = found
    assert (same["reason"], same["diff"]) == ("zero_variance", pytest.approx(1e-4))
    assert [same[name] for name in ("statistic", "p_value", "effect_size", "ci_low", "winner")] == [None] * 5
    assert (paired_t_test(one, other).reason, apart["reason"]) == ("zero_variance", None)


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.parametrize(("test", "winners"), [("wilcoxon", ["b", "a"]), ("sign", ["b", "a"]), ("paired_t", [None, None])])
def test_the_winner_is_told_by_what_is_tested(spark, test, winners):
    """b is higher for 27 of 30 users with something relevant; but three large losses make its mean the lower one."""
    users = range(38)
    fifth = [user for user in users if user % 5]  # the others have nothing relevant
    assert len(fifth) == 30
    differences = dict(zip(fifth, [*(0.001 * n for n in range(1, 28)), -1.0, -1.1, -1.2], strict=True))
    values = {("a", str(metric)): [0.5] * 38 for metric in METRICS}
    # All users have a rating: those without anything relevant differ in none.
    values |= {("b", str(metric)): [0.5 + differences.get(user, 0.0) for user in users] for metric in METRICS}
    values |= {("c", str(metric)): [0.5] * 38 for metric in METRICS}
    found = compared(per_user_of(spark, values), ("a", "b"), METRICS, srm.convention("default"), test=test, n_parts=2).rows
    assert [row["diff"] < 0 for row in found] == [True, True]
    # Of an RMSE the lower one is better.
    assert [row["winner"] for row in found] == winners


@pytest.mark.spark
@pytest.mark.once
def test_t2_t3_t4_what_a_comparison_of_few_users_says(spark):
    """In RMSE b is 1, 2, 3 and 4 above a, and c always 1; in nDCG only one user has a value of both."""
    rmse = {"a": [100.0, 200.0, 300.0, 400.0], "b": [101.0, 202.0, 303.0, 404.0], "c": [101.0, 201.0, 301.0, 401.0]}
    values = {(model, "rmse"): own for model, own in rmse.items()}
    values |= {(model, "ndcg@10"): [None, 0.5, None, None] for model in MODELS}
    found = compared(per_user_of(spark, values), MODELS, METRICS, srm.convention("default"), baseline="a", n_parts=2)
    by = {(row["model_b"], row["metric"]): row for row in found.rows}
    paired, shifted, single = by["b", "rmse"], by["c", "rmse"], by["b", "ndcg@10"]
    # d_z = (5/2) / sqrt(5/3); a pooled d would say .0193.
    assert paired["effect_size"] == pytest.approx(2.5 / math.sqrt(5 / 3))
    assert paired["effect_size"] == pytest.approx(1.936492, abs=5e-7)
    assert (shifted["diff"], shifted["effect_size"], shifted["reason"]) == (1, None, "zero_variance")
    assert (single["n_users"], single["p_value"], single["ci_low"], single["reason"]) == (1, None, None, "one_pair")
    assert [(row["smallest_difference"], row["winner"]) for row in (shifted, single)] == [(None, None)] * 2
    assert "undefined (zero_variance)" in str(found)
    assert "undefined (one_pair)" in str(found)


@pytest.mark.spark
@pytest.mark.once
def test_nobody_in_common_is_undefined(spark):
    values = {(model, str(metric)): [0.5] * 3 for model in MODELS for metric in METRICS}
    frame = per_user_of(spark, values, left_out={0, 1, 2})
    found = compared(frame, ("a", "c"), METRICS, srm.convention("default"), n_parts=2)
    assert [(row["n_users"], row["p_value"], row["reason"], row["winner"]) for row in found.rows] == [
        (0, None, "no_list", None),  # c has no row at all
        (0, None, "no_pair", None),
    ]
    assert "undefined (no_pair)" in str(found)


def test_a_model_without_a_list_is_no_loser(session):
    """The ghost recommends nothing to anybody, and half to all but one user."""
    scores = [(model, user, "x", 3.0) for user in range(20) for model in ("als", "half") if model == "als" or user < 19]
    predictions = session.createDataFrame(scores, "model string, user_id int, item_id string, score double")
    truth = session.createDataFrame([(user, "x", 4.0) for user in range(20)], "user_id int, item_id string, rating double")
    result = srm.evaluate(predictions, truth, metrics=["hit@1", "rmse"], models=["als", "ghost", "half"], n_buckets=2)
    for test in ("paired_t", "wilcoxon"):
        rows = {(row["model_a"], row["model_b"], row["metric"]): row for row in srm.compare(result, test=test).rows}
        for pair, metric, reason in ((("als", "ghost"), "hit@1", "no_list"), (("als", "ghost"), "rmse", "no_pair")):
            row = rows[(*pair, metric)]
            assert (row["n_users"], row["reason"], row["test"]) == (0, reason, test)
            assert [row[name] for name in ("mean_a", "mean_b", "diff", "p_value", "winner")] == [None] * 5
            assert (row["wins"], row["ties"], row["losses"]) == (0, 0, 0)
        # One list is enough to be there, and whoever gets none counts as before.
        assert (rows["als", "half", "hit@1"]["n_users"], rows["als", "half", "hit@1"]["diff"]) == (20, -1 / 20)
    result.release()


@pytest.mark.core
@pytest.mark.parametrize("result", [None, [1], "als"])
def test_what_is_no_result_is_rejected(result):
    with pytest.raises(srm.ConfigError, match=r"result: expected the result of srm\.evaluate, found"):
        srm.compare(result)


def test_a_result_is_compared(session):
    scores = [("pop", user, item, -float(n)) for user in range(8) for n, item in enumerate("xyz")]
    scores += [("als", user, item, -float(n)) for user in range(8) for n, item in enumerate("yxz" if user % 4 else "xyz")]
    predictions = session.createDataFrame(scores, "model string, user_id int, item_id string, score double")
    truth = session.createDataFrame([(user, "y") for user in range(8)], "user_id int, item_id string")
    result = srm.evaluate(predictions, truth, metrics=["mrr@3", "hit@3", "matched_auc@3"], n_buckets=2)
    found = srm.compare(result, baseline="pop")
    assert [(row["metric"], row["winner"], row["wins"], row["ties"]) for row in found.rows] == [
        ("mrr@3", "als", 6, 2),
        ("hit@3", None, 0, 8),
    ]
    with pytest.raises(srm.ConfigError, match=r"metrics: map@3 was not evaluated; did you mean"):
        srm.compare(result, metrics=["map@3"])
    with pytest.raises(srm.ConfigError, match="matched_auc@3: expected a metric with a value for each user"):
        srm.compare(result, metrics=["matched_auc@3"])
    result.release()
    result = srm.evaluate(predictions, truth, metrics="matched_auc@3", n_buckets=2)
    with pytest.raises(
        srm.ConfigError, match=r"^metrics: expected at least one with a value for each user, found matched_auc@3"
    ):
        srm.compare(result)
    result.release()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"baseline": "pop"}, "baseline: unknown model 'pop'"),
        ({"baseline": 3}, "baseline: expected the name of a model, found 3"),
        ({"test": "paired"}, r"test: unknown value 'paired'; did you mean 'paired_t'\?"),
        ({"correction": "bonferoni"}, r"correction: unknown value 'bonferoni'; did you mean 'bonferroni'\?"),
        ({"alpha": 5}, "alpha: expected a number from 1e-06 to 0.5, such as 0.05, found 5"),
        ({"test": "bootstrap", "n_resamples": 1}, "n_resamples: expected an integer of at least 100, found 1"),
    ],
)
def test_t5_options_are_checked_before_any_job(options, told):
    with pytest.raises(srm.ConfigError, match=told):
        compared(None, MODELS, METRICS, srm.convention("default"), **options)
    with pytest.raises(srm.ConfigError, match="models: expected at least two to compare, found a"):
        compared(None, ["a"], METRICS, srm.convention("default"))


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_the_job_compares_prints_and_publishes(spark, tmp_path, capsys):
    lists = [("pop", user, item, -float(n)) for user in range(8) for n, item in enumerate("xyz")]
    lists += [("als", user, item, -float(n)) for user in range(8) for n, item in enumerate("yxz" if user % 4 else "xyz")]
    frame = spark.createDataFrame(lists, "model string, user_id int, item_id string, score double")
    frame.write.parquet(str(tmp_path / "predictions"))
    truth = spark.createDataFrame([(user, "y") for user in range(8)], "user_id int, item_id string")
    truth.write.parquet(str(tmp_path / "truth"))
    conf = {
        "inputs": {name: {"path": str(tmp_path / name)} for name in ("predictions", "truth")},
        "evaluation": {"top_k": 3, "metrics": ["mrr"], "n_buckets": 2},
        "comparison": {"baseline": "pop", "correction": "none"},
        "output": {"path": str(tmp_path / "out")},
    }
    path = tmp_path / "conf.json"
    path.write_text(json.dumps(conf))
    assert main(["evaluate", "--config", str(path)]) == 0
    out = capsys.readouterr().out
    assert "pop  als  mrr@3" in out
    assert "als is better" in out
    (row,) = srm.read_history(spark, str(tmp_path / "out"), table="comparison").collect()
    assert (row["metric"], row["winner"], row["wins"], row["ties"], row["losses"]) == ("mrr@3", "als", 6, 2, 0)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"test": "t"}, "comparison.test: expected one of "),
        ({"alpha": 1.5}, "comparison.alpha: expected a number from 1e-06 to 0.5, such as 0.05, found 1.5"),
        ({"test": "bootstrap", "n_resamples": 5}, "comparison.n_resamples: expected an integer of at least 100, found 5"),
        ({"baseline": "pup"}, "comparison.baseline: unknown model 'pup'; did you mean 'pop'?"),
        ({"seed": -1}, "comparison.seed: expected a number of at least 0, found -1"),
        ({"seed": 2**63}, "comparison.seed: expected an integer of at least 0 and below 2^63, found 9223372036854775808"),
    ],
)
def test_a_comparison_of_the_configuration_is_checked_when_it_is_read(options, told, tmp_path, capsys):
    models = {name: {"predictions": {"path": "/nowhere"}} for name in ("pop", "als")}
    conf = {
        "inputs": {"models": models, "truth": {"path": "/nowhere"}},
        "comparison": options,
        "output": {"path": "/elsewhere"},
    }
    path = tmp_path / "conf.json"
    path.write_text(json.dumps(conf))
    assert main(["validate-config", "--config", str(path)]) == 2
    assert told in capsys.readouterr().err


def test_a_comparison_needs_a_metric_with_a_value_for_each_user(tmp_path, capsys):
    conf = {"inputs": {name: {"path": "/nowhere"} for name in ("predictions", "truth")}, "output": {"path": "/elsewhere"}}
    conf |= {"evaluation": {"metrics": ["matched_auc"], "top_k": 3}, "comparison": {}}
    path = tmp_path / "conf.json"
    path.write_text(json.dumps(conf))
    assert main(["validate-config", "--config", str(path)]) == 2
    told = "comparison: expected a metric with a value per user, found matched_auc@3"
    assert told in capsys.readouterr().err
    path.write_text(json.dumps({key: own for key, own in conf.items() if key != "comparison"}))
    assert main(["compare", "--config", str(path)]) == 2
    told = "evaluation.metrics: expected at least one metric with a value per user, found matched_auc@3"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("alpha", 0.85, "alpha: expected a number from 1e-06 to 0.5, such as 0.05, found 0.85"),
        ("alpha", 1e-300, "alpha: expected a number from 1e-06 to 0.5, such as 0.05, found 1e-300"),
        ("alpha", math.nan, "alpha: expected a number from 1e-06 to 0.5, such as 0.05, found nan"),
        *(
            ("seed", seed, f"seed: expected an integer of at least 0 and below 2^63, found {seed!r}")
            for seed in (-1, "x", 1.5, True, 2**63)
        ),
    ],
)
def test_options_are_refused_before_anything_runs(option, value, message):
    with pytest.raises(srm.ConfigError) as caught:
        compared(None, ["a", "b"], [], srm.convention("default"), **{option: value})
    assert str(caught.value) == message


def test_no_line_of_a_table_begins_with_the_mark_of_the_result_line():
    name = f'{RESULT_MARK} {{"status": "ok"}}'
    row = {
        "run_id": "r",
        "model": name,
        "as_of": "1",
        "convention": "c",
        "config_hash": "c",
        "data_hash": "d",
        "computed_at": 0,
        "n_users": 1,
    }
    text = history_table([{**row, "value": math.inf}, {**row, "as_of": "2", "value": 0.5}], 9)
    assert [line for line in text.splitlines() if line.startswith(RESULT_MARK)] == []
    assert f" {name}" in text


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.heavy
def test_a_baseline_that_is_no_model_is_an_error_before_anything_is_published(spark, tmp_path, capsys):
    rows = [(model, user, item, 9.0 if model == "b" else float(item)) for model in "ab" for user in (1, 2) for item in (1, 2)]
    spark.createDataFrame(rows, "model string, user_id int, item_id int, score double").write.parquet(str(tmp_path / "p"))
    spark.createDataFrame([(1, 1, 3.0), (2, 2, 1.0)], "user_id int, item_id int, rating double").write.parquet(
        str(tmp_path / "t")
    )
    conf = tmp_path / "conf.json"
    written = {
        "inputs": {"predictions": {"path": str(tmp_path / "p")}, "truth": {"path": str(tmp_path / "t")}},
        "evaluation": {"metrics": ["rmse"], "n_buckets": 1},
        "comparison": {"baseline": "gone"},
        "gates": [{"metric": "rmse", "max": 2}],
        "output": {"path": str(tmp_path / "out")},
    }
    conf.write_text(json.dumps(written))
    assert main(["evaluate", "--config", str(conf)]) == 2
    captured = capsys.readouterr()
    assert captured.err.splitlines()[-1] == "error: comparison.baseline: unknown model 'gone'; known: a, b"
    assert "scoring" not in captured.err
    assert not (tmp_path / "out").exists()
    assert main(["evaluate", "--config", str(conf), "--set", "comparison="]) == 3
    told = json.loads(capsys.readouterr().out.strip().splitlines()[-1].removeprefix(RESULT_MARK))
    assert set(told["tables"]) == {"data_report", "per_user", "summary", "gates"}
    assert [gate["result"] for gate in told["gates"]] == ["pass", "fail"]
