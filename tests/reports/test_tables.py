"""Results as tables of text."""

from __future__ import annotations

from spark_recmetrics.metrics.objectives import Standing
from spark_recmetrics.reports.tables import comparison_table, history_table, metric_table, pareto_table, slice_table


def row_of(day, value, **fields):
    """A row of SUMMARY of the run of this day."""
    row = {"run_id": f"r{day}", "as_of": f"2026-11-{day:02}", "model": "als", "value": value, "convention": "default"}
    return row | {"config_hash": "c", "data_hash": "d", "computed_at": 0} | fields


def test_the_last_run_of_one_as_of_counts_with_its_models():
    """The first run was repeated without pop, with another configuration."""
    first = [row_of(27, value, model=model) for model, value in (("als", 0.5), ("pop", 0.25))]
    again = row_of(27, 0.75, config_hash="d", run_id="again", computed_at=1)
    others = [row_of(28, 0.75, config_hash="d"), row_of(29, 0.75, config_hash="e")]
    for rows in ([*first, again, *others], [*others, again, *first]):
        assert history_table(rows, 30).splitlines() == [
            "as_of          als  changed",
            "2026-11-27  0.7500",
            "2026-11-28  0.7500",
            "2026-11-29  0.7500  the configuration (or only that of the comparison)",
            "",
            "als  ▄▄▄",
        ]


def test_values_with_stars():
    row = {"model": "als", "metric": "ndcg@10", "k": 10, "value": 0.25, "higher_is_better": True}
    assert metric_table([row, {**row, "model": "popularity", "value": 0.125}]).splitlines() == [
        "metric   k     als   popularity",
        "ndcg    10  0.2500*      0.1250",
    ]


def test_pareto_optimal_models():
    als = Standing(10, "als", {"ndcg@10": 0.25, "gini@10": 0.5}, True, (), None)
    pop = Standing(10, "popularity", {"ndcg@10": 0.125, "gini@10": 0.75}, False, ("als",), None)
    assert pareto_table([als, pop]).splitlines() == [
        "model       ndcg@10  gini@10  Pareto-optimal",
        "als          0.2500   0.5000  yes",
        "popularity   0.1250   0.7500  no: dominated by als",
    ]


def test_values_by_slice():
    row = {"model": "als", "slice": "all", "slice_value": "all", "metric": "hit@1", "value": 0.5, "n_users": 40}
    row |= {"ci_low": 0.345, "ci_high": 0.655, "small": False, "higher_is_better": True}
    few = {"slice": "gender", "slice_value": "F", "n_users": 3, "small": True, "ci_low": 0.0, "ci_high": 1.0}
    assert slice_table([row, {**row, **few}], "hit@1").splitlines() == [
        "hit@1       users  als",
        "all            40  0.5000  [0.3450, 0.6550]",
        "gender = F     ~3  0.5000  [0.0000, 1.0000]",
        "",
        "~ too few users for a conclusion",
    ]


def test_differences_and_counts_of_slices():
    row = {"model_a": "pop", "model_b": "als", "metric": "ndcg@10", "diff": 0.125, "ci_low": 0.0, "ci_high": 0.25}
    row |= {"p_adjusted": 0.05, "wins": 3, "ties": 1, "losses": 0, "n_users": 4, "winner": None, "reason": None}
    row |= {"slice": "all", "slice_value": "all", "smallest_difference": 0.5}
    few = {"slice": "gender", "slice_value": "F", "p_adjusted": None, "reason": "small_slice"}
    result = "not significant (minimum detectable effect 0.5000)"
    assert comparison_table([row, {**row, **few}], 0.01).splitlines() == [
        "a    b    metric     b - a           99 % CI      p  +/=/-  users  result",
        f"pop  als  ndcg@10  +0.1250  [0.0000, 0.2500]  0.050  3/1/0      4  {result}",
        "",
        "gender: 0 of 1 comparisons significant, 1 with too few users to test",
    ]


def test_a_sparkline_and_the_changes_of_each_run():
    rows = [row_of(26, 0.25), row_of(27, 0.5), row_of(28, 0.125, data_hash="e")]
    assert history_table(rows, 30).splitlines() == [
        "as_of          als  changed",
        "2026-11-26  0.2500",
        "2026-11-27  0.5000",
        "2026-11-28  0.1250  the ground truth",
        "",
        "als  ▃█▁",
    ]
