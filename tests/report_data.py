"""Small results for reports, worked by hand, without Spark and random numbers."""

from __future__ import annotations

import pandas as pd

from spark_recmetrics.decisions.comparison import Comparison
from spark_recmetrics.decisions.gates import Gate, check_gates
from spark_recmetrics.evaluation.stages import evaluate


def small_result(first="als", second="popularity", metrics=("mrr", "hit", "rmse", "item_coverage"), k=(1, 2)):
    """Two models and four users. The first model is right at rank 1, 2, 1, 2, the second at rank 2, 2, 2 and never."""
    lists = {first: ["xy", "yx", "xz", "zx"], second: ["yx", "yx", "yx", "yz"]}
    rows = [
        (model, user, item, 4.0 - place)
        for model, of_users in lists.items()
        for user, items in enumerate(of_users)
        for place, item in enumerate(items)
    ]
    predictions = pd.DataFrame(rows, columns=["model", "user_id", "item_id", "score"])
    truth = pd.DataFrame([(user, "x", 4.0) for user in range(4)], columns=["user_id", "item_id", "rating"])
    return evaluate(predictions, truth, metrics=metrics, k=k, catalog=4)


def many_models(values, metric="mrr@2"):
    """Rows of SUMMARY with one metric at cut-offs 1 and 2; `values` are those at 2, by model."""
    (row,) = [row for row in small_result(metrics=["mrr"]).rows if (row["model"], row["metric"]) == ("als", "mrr@2")]
    return [
        {**row, "model": model, "metric": metric.replace("@2", f"@{k}"), "k": k, "value": value and value * k / 2}
        for model, value in values.items()
        for k in (1, 2)
    ]


def with_slices(result, groups=(("gender", "F", 2), ("gender", "M", 40))):
    """A result with additional rows for each (slice, value, n_users), with the same metric values."""
    more = [
        {**row, "slice": name, "slice_value": value, "n_users": n, "small": n < 30}
        for name, value, n in groups
        for row in result.rows
    ]
    result.__dict__["rows"] = [*result.rows, *more]
    return result


def small_comparison(first="als", second="popularity", **changes):
    row = {"model_a": second, "model_b": first, "slice": "all", "slice_value": "all", "metric": "mrr@2", "k": 2}
    row |= {"mean_a": 0.375, "mean_b": 0.75, "diff": 0.375, "ci_low": 0.25, "ci_high": 0.5, "test": "paired_t"}
    row |= {"statistic": 3.0, "p_value": 0.0001, "p_adjusted": 0.0002, "effect_size": 1.0, "wins": 3, "ties": 1, "losses": 0}
    row |= {"n_users": 4, "smallest_difference": 0.125, "winner": first, "reason": None, "seed": None}
    none = {"metric": "hit@1", "k": 1, "ci_low": -0.25, "p_adjusted": 0.3, "winner": None}
    few = {"slice": "gender", "slice_value": "F", "p_adjusted": None, "winner": None, "reason": "small_slice"}
    return Comparison(({**row, **changes}, {**row, **none}, {**row, **few}), 0.05)


def small_history(result, metrics=("mrr@2",)):
    """Three runs: the first two are worse, and the last one has another ground truth."""
    runs = [("2026-11-26", "r1", "d1", 0.125), ("2026-11-27", "r2", "d1", 0.25), ("2026-11-28", "r3", "d2", 0.0)]
    return [
        {**row, "as_of": as_of, "run_id": run_id, "data_hash": data_hash, "job": "nightly"}
        | {key: row[key] - worse for key in ("value", "ci_low", "ci_high")}
        for as_of, run_id, data_hash, worse in runs
        for row in result.rows
        if row["slice"] == "all" and row["metric"] in metrics
    ]


def small_gates(result, **limits):
    return check_gates([Gate("mrr@2", **(limits or {"min": 0.5}))], result.rows)


def everything(first="als", second="popularity"):
    """A result and the other arguments of a report, with these names of models."""
    result = with_slices(small_result(first, second))
    return result, {
        "comparison": small_comparison(first, second),
        "gates": small_gates(result),
        "history": small_history(result),
        "configuration": "job: nightly\n",
    }


def in_two_ways(models):
    """Lists for one user, whose relevant item is x; the objectives are mrr and the number of recommended items."""
    import pandas as pd

    rows = [(model, 1, item, -place) for model, items in models.items() for place, item in enumerate(items)]
    predictions = pd.DataFrame(rows, columns=["model", "user_id", "item_id", "score"])
    truth = pd.DataFrame({"user_id": [1], "item_id": ["x"]})
    wanted = {"mrr": {}, "item_coverage(measure=count)": {"nadir": 0}}
    checks = {"items_in_both": "warn"}
    return evaluate(predictions, truth, metrics=list(wanted), k=[1, 2], objectives=wanted, checks=checks)
