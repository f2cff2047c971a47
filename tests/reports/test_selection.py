"""Which metric represents a result."""

from __future__ import annotations

from report_data import small_result

from spark_recmetrics.reports.selection import headline_of


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
