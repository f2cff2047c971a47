"""Quoted names of tables."""

from __future__ import annotations

import pytest

from spark_recmetrics.storage.identifiers import quoted
from spark_recmetrics.storage.locations import Output
from spark_recmetrics.storage.write import destination


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


def test_the_name_of_a_published_table() -> None:
    assert destination(Output(table_prefix="my-cat.recs.nightly_"), "summary") == "`my-cat`.`recs`.`nightly_summary`"
    assert destination(Output(path="/out/"), "summary") == "/out/summary"
