"""Quoted names of tables."""

from __future__ import annotations

import pytest

from spark_recmetrics.storage.identifiers import quoted


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.b", "`a`.`b`"),
        ("my-cat.recs.`a.b`", "`my-cat`.`recs`.`a.b`"),
        ("`my-cat`.`s`.`t`", "`my-cat`.`s`.`t`"),
        ("a-b.c.d", "`a-b`.`c`.`d`"),
        ("a; DROP TABLE b", "`a; DROP TABLE b`"),
        ("a`; DROP TABLE b", "`a``; DROP TABLE b`"),
        ("`a`; DROP TABLE b", "```a``; DROP TABLE b`"),
        ("`a``b`.c", "`a``b`.`c`"),
    ],
)
def test_names_of_tables_stay_names(name: str, expected: str) -> None:
    assert quoted(name) == expected
