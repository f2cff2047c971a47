"""Messages about missing columns, and numbers with a decimal comma."""

from __future__ import annotations

import pytest

from spark_recmetrics.columns import WrongTypeError, is_decimal_comma, near_column


def test_a_missing_column():
    assert near_column("user_id", ["user", "item"]) == "; did you mean 'user'?"
    assert near_column("user_id", ["user_id;item_id"]) == (
        '; found one column, \'user_id;item_id\': if ";" is the separator, read the file with sep=";" (in '
        'a configuration file: options: {sep: ";"} of the location)'
    )


@pytest.mark.parametrize(
    ("text", "expected"), [("3,5", True), ("-1.234,5", True), (" 3,5 ", True), ("3.5", False), ("a,b", False), ("1,2,3", False)]
)
def test_numbers_with_a_decimal_comma(text, expected):
    assert is_decimal_comma(text) == expected


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("1,234", "'1,234' in predictions: 1,234 may be 1234 or 1.234: write decimal points, and no"),
        ("-1,234.5", "'-1,234.5' in predictions: 1,234 may be 1234 or 1.234: write decimal points"),
        ("3,5", "'3,5' in predictions, with a decimal comma: write decimal points"),
        ("-inf", "'-inf' in predictions: in a configuration, set options: {positiveInf: inf, negativeInf: -inf}"),
        ("INF", "'INF' in predictions: in a configuration, set options: {positiveInf: INF, negativeInf: -INF}"),
    ],
)
def test_a_string_among_numbers_shows_what_to_do(word, advice):
    error = WrongTypeError("predictions: expected a number", "cast it first", {"predictions": None})
    assert f"e.g. {advice}" in error.with_examples(lambda *_: word, lambda _: False)
