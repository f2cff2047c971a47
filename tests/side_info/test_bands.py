"""Columns with slices and groups, as both engines read them."""

from __future__ import annotations

import pandas as pd
import pytest

import spark_recmetrics as srm


def test_columns_with_groups_differ_by_more_than_punctuation():
    lists = pd.DataFrame({"user_id": [1, 1, 2], "item_id": ["a", "b", "c"], "score": [2.0, 1.0, 1.0]})
    truth = lists[["user_id", "item_id"]]
    groups = pd.DataFrame({"item_id": ["a", "b", "c"], "Main genre": ["x", "x", "y"], "main_genre": ["p", "q", "p"]})
    metrics = ["reo(groups=Main genre)", "rsp(groups=main_genre)"]
    message = "^groups: main_genre: expected columns whose names differ in letters or digits, found also Main genre$"
    with pytest.raises(srm.ConfigError, match=message):
        srm.evaluate(lists, truth, train=truth, item_groups=groups, metrics=metrics, k=2)
