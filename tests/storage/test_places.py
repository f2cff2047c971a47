"""Outputs in the place of an input."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_recmetrics.storage.locations import Location, Output
from spark_recmetrics.storage.places import related_paths, shared_place

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
