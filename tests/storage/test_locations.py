"""Addresses and names of tables."""

from __future__ import annotations

import pytest

from spark_recmetrics.storage.credentials import without_password
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.storage.write import quoted


@pytest.mark.parametrize(
    "address",
    [
        "hdfs://host:8020/a@b",
        "s3://bucket/a:b@c",
        "abfss://box@shop.example/x@y:z",
        "/data/{as_of}/x?y=1",
        "C:/x:y@z",
        "/tokens=3/x",
        "s3a://ann:***@bucket",
    ],
)
def test_other_addresses_stay(address: str) -> None:
    assert without_password(address) == address
    assert Location(path=address).path == address


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
