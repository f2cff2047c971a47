"""Addresses, types of columns, names of tables, and outputs in the place of an input."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.storage.credentials import without_password
from spark_recmetrics.storage.locations import Location, Output, quoted, related_paths, shared_place
from spark_recmetrics.storage.table_schemas import spark_type_name
from spark_recmetrics.storage.write import destination


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
    assert [spark_type_name(name) for name in ("string", "decimal(10, 2)")] == ["string", "decimal(10,2)"]
    with pytest.raises(ConfigError, match=r"^unknown type 'strng'; did you mean 'string'\?$"):
        spark_type_name("strng")


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


SAME, INSIDE, CONTAINS = "is the same place as", "lies inside", "contains"


@pytest.mark.parametrize(
    ("written", "read", "relation"),
    [
        ("/a/b", "/a/b", SAME),
        ("/a/./x/../b/", "/a//b", SAME),
        ("file:/a/b", "/a/b", SAME),
        ("file:///a/b", "file:/a/b/", SAME),
        ("hdfs://host:8020/a", "/a", SAME),
        ("hdfs:///a", "hdfs://host/a", SAME),
        ("dbfs:/a", "/dbfs/a", SAME),
        ("s3a://bucket/a/", "s3://bucket/a", SAME),
        ("a/b", str(Path.cwd() / "a" / "b"), SAME),
        ("/a/b/c", "/a/b", INSIDE),
        ("/a/b/c", "/a/*", INSIDE),
        ("/a/2026", "/a/{2025,2026}", INSIDE),
        ("/a/2026/out", "/a/20[0-9][!7]", INSIDE),
        ("/a", "/a/b/c.csv", CONTAINS),
        ("/a/b", "/a/b/*.csv", CONTAINS),
        ("s3://bucket", "s3a://bucket/x", CONTAINS),
        ("/", "/a", CONTAINS),
        ("/a/bc", "/a/b", None),
        ("/a/b", "/a/bc", None),
        ("/a/out", "/a/*/lists", None),
        ("/a/2027", "/a/{2025,2026}", None),
        ("/a/2027", "/a/{2025,2026}/[", None),
        ("s3://one/a", "s3://other/a", None),
        ("s3://bucket/a", "/a", None),
        ("file:/a", "hdfs:/a", None),
    ],
)
def test_related_paths(written: str, read: str, relation: str | None) -> None:
    assert related_paths(written, read) == relation


@pytest.mark.parametrize(
    ("prefix", "table", "relation"),
    [
        ("main.recs.", "main.recs.summary", "includes"),
        ("Main.`recs`.", "`main`.Recs.SUMMARY", "includes"),
        ("recs.", "main.recs.summary", "includes"),
        ("main.recs.nightly_", "main.recs.summary", None),
        ("main.recs.", "main.other.summary", None),
        ("main.recs.", "main.recs.truth", None),
    ],
)
def test_tables_of_the_output(prefix: str, table: str, relation: str | None) -> None:
    assert shared_place(Output(table_prefix=prefix), Location(table=table), ["runs", "summary"]) == relation


def test_a_path_and_a_table_are_apart() -> None:
    assert shared_place(Output(table_prefix="a"), Location(path="/a"), ["summary"]) is None
    assert shared_place(Output(path="/a"), Location(table="a"), ["summary"]) is None


def test_links_lead_to_the_place(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert related_paths(f"{tmp_path}/link/out", f"file:{tmp_path}/data") == INSIDE
    assert related_paths(f"{tmp_path}/data", f"{tmp_path}/link/*.csv") == CONTAINS
