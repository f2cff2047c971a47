"""Which metric represents a result, and which models are shown."""

from __future__ import annotations

from report_data import small_result

from spark_recmetrics.reports.selection import best_models, headline_of


def test_the_headline_is_a_metric_of_accuracy():
    result = small_result(metrics=["item_coverage", "rmse", "hit"], k=2)
    assert "hit@2: als is best with" in result.to_markdown().splitlines()[0]
    for metrics, expected in (
        (["arp@2", "novelty@2", "mrr@2"], "mrr@2"),
        (["arp@2", "rmse"], "rmse"),
        (["item_coverage@2", "arp@2"], "arp@2"),
        (["item_coverage@2"], "item_coverage@2"),
    ):
        assert headline_of([{"metric": metric, "model": "als"} for metric in metrics]) == expected


def test_the_best_models_are_shown_in_their_order():
    values = {"a": 0.25, "b": None, "c": 0.5, "d": 1.0}
    rows = [{"slice": "all", "metric": "mrr@10", "model": model, "value": value} for model, value in values.items()]
    assert best_models(rows, 2) == ["c", "d"]
    assert best_models(rows, 2, keep=["b"]) == ["b", "d"]
