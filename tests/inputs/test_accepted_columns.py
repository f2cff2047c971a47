"""Columns whose names differ from the expected ones by their case only."""

from __future__ import annotations

import pytest

import spark_recmetrics as srm

TRUTH = ("user_id string, item_id string, rating double", [("u", "a", -1.0), ("u", "b", 1.0)])
LISTS = ("user_id string, item_id string, score double, model string", [("u", "a", 0.9, "m")])


@pytest.mark.parametrize("column", ["rating", "model", "score"])
def test_an_optional_column_in_another_case_is_not_overlooked(session, column):
    """Without ratings all rows are relevant, and without models all lists belong to one model."""

    def evaluate(name, **options):
        tables = [session.createDataFrame(rows, schema.replace(column, name)) for schema, rows in ((LISTS[0], LISTS[1]), TRUTH)]
        return srm.evaluate(*tables, metrics="hit", k=1, n_buckets=2, **options).to_dict()

    table = "truth" if column == "rating" else "predictions"
    with pytest.raises(
        srm.DataError, match=rf"^{table}: no column '{column}' \(columns\.{column}\).*; did you mean '{column.title()}'"
    ):
        evaluate(column.title())
    expected = {"m": {"hit@1": 0.0}}
    assert evaluate(column) == expected
    assert evaluate(column.title(), columns=srm.Columns(**{column: column.title()})) == expected
