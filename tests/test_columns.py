"""Messages about missing columns, and numbers with a decimal comma."""

from __future__ import annotations

import pytest

from spark_recmetrics.columns import is_decimal_comma, near_column


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
