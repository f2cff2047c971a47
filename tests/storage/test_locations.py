"""Addresses, and types of columns."""

from __future__ import annotations

import re

import pytest

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.storage.credentials import without_password
from spark_recmetrics.storage.locations import Location, Output
from spark_recmetrics.storage.table_schemas import column_type


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
    ("text", "expected"),
    [
        ("cannot read s3a://ann:hunter2@bucket/truth", "cannot read s3a://ann:***@bucket/truth"),
        ("jdbc:db://host/shop?user=ann&password=hunter2", "jdbc:db://host/shop?user=ann&password=***"),
        ("hdfs://host:8020/truth", "hdfs://host:8020/truth"),
    ],
)
def test_passwords_in_addresses_are_masked(text: str, expected: str) -> None:
    assert without_password(text) == expected


def test_types_of_columns() -> None:
    assert [column_type(name) for name in ("string", "decimal(10, 2)")] == ["string", "decimal(10,2)"]
    with pytest.raises(ConfigError, match=r"^unknown type 'strng'; did you mean 'string'\?$"):
        column_type("strng")


@pytest.mark.parametrize("name", ["prod..truth", ".truth", "prod.", "prod. .truth", "prod.truth ", " prod.truth", "."])
def test_empty_parts_of_names_are_rejected(name: str) -> None:
    message = r"expected a name without empty parts and without blanks at their ends, found .*: is a variable not set\?$"
    with pytest.raises(ConfigError, match=f"^table: {message}"):
        Location(table=name)
    with pytest.raises(ConfigError, match=f"^table_prefix: {message}"):
        Output(table_prefix=f" {name}x_" if name == "prod." else name)


def test_names_with_dots_and_blanks_inside_are_names() -> None:
    assert Location(table="a.`b. .c`.d e").table == "a.`b. .c`.d e"
    for prefix in ("main.recs.", "main.recs.x_", "x_"):
        assert Output(table_prefix=prefix).table("summary") == f"{prefix}summary"


@pytest.mark.parametrize("name", ["parquet.`/a/b`", "Delta.`s3://b/t`"])
def test_a_path_is_no_name_of_a_table(name):
    kind, path = name.strip("`").split(".`")
    told = re.escape(
        f"table: expected a name in the catalog, found a path, {name!r}: set path: {path} and format: {kind.lower()}"
    )
    with pytest.raises(ConfigError, match=told):
        Location(table=name)
