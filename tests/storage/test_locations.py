"""Addresses and names of tables."""

from __future__ import annotations

import pytest

from spark_recmetrics.storage.credentials import without_password
from spark_recmetrics.storage.locations import Location


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
