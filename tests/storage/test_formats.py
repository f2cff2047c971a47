"""The format of files by their names."""

from __future__ import annotations

import pytest

from spark_recmetrics.storage.formats import format_of_files, local_problem


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("t.csv", "found /data/t.csv: set format: csv"),
        ("T.CSV.GZ", "found /data/T.CSV.GZ: set format: csv"),
        ("t.tsv", 'found /data/t.tsv: set format: csv, and options: {sep: "\\t"}'),
        ("t.jsonl", "found /data/t.jsonl: set format: json"),
        ("t.orc", "found /data/t.orc: set format: orc"),
    ],
)
def test_a_file_name_that_contradicts_the_format(name, advice):
    with pytest.raises(ValueError, match=r"^expected parquet files, found ") as caught:
        format_of_files([f"/data/{name}"], "parquet")
    assert str(caught.value).removeprefix("expected parquet files, ") == advice


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(("t.csv", "csv"), ("T.CSV.GZ", "csv"), ("t.tsv", "csv"), ("t.ndjson", "json"), ("t.json.zst", "json")),
        *(("part-0.c000.zlib.orc", "orc"), ("part-0.c000.snappy.parquet", "parquet"), ("t.txt", "parquet"), ("t", "parquet")),
    ],
)
def test_the_format_is_found_out(name, expected):
    assert format_of_files([f"/data/{name}", f"/data/2{name}"], None) == expected


@pytest.mark.parametrize("given", [None, "csv"])
@pytest.mark.parametrize("stray", ["a.parquet", "a.txt", "a.csv.tmp"])
def test_a_stray_file_is_named(given, stray):
    if (given, stray) == (None, "a.parquet"):
        given = "csv"  # the first file shows the format
    with pytest.raises(
        ValueError, match=r"^expected files of one format, found b\.csv and a\..*pathGlobFilter: \"\*\.csv\"\}$"
    ):
        format_of_files([stray, "b.csv"], given)


def test_names_that_show_no_format_may_have_any():
    for given in ("csv", "json", "parquet", "orc"):
        assert format_of_files(["part-00000", "t.txt"], given) == given


def test_files_of_this_machine(tmp_path):
    (tmp_path / "t" / "day=1").mkdir(parents=True)
    (tmp_path / "t" / "_SUCCESS.csv").touch()
    (tmp_path / "t" / "day=1" / "part-0.parquet").touch()
    for path in (tmp_path / "t", f"file://{tmp_path}/t"):
        assert (
            local_problem(str(path), "csv")
            == f"expected csv files, found {tmp_path}/t/day=1/part-0.parquet: set format: parquet"
        )
        assert local_problem(str(path), None) is None
    for options in ({"pathGlobFilter": "*.csv"}, {"PATHGLOBFILTER": "*.csv"}):
        assert local_problem(str(tmp_path), "csv", options) is None
    nowhere = f"file:{tmp_path}/nowhere"
    assert local_problem(nowhere, "csv") == f"expected files, found none in {nowhere} on this machine: check the path"
    for elsewhere in ("/nowhere", "nowhere.csv", f"{tmp_path}/nowhere", f"file:{tmp_path}/*.csv"):
        assert local_problem(elsewhere, "csv") is None
    assert local_problem("s3a://bucket/t", "csv") is None
    (tmp_path / "t" / "_delta_log").mkdir()
    (tmp_path / "t" / "_delta_log" / "0.json").touch()
    assert local_problem(str(tmp_path / "t"), "csv") == f"{tmp_path / 't'} is a Delta table: set format: delta"
    assert local_problem(str(tmp_path / "t"), None) is None
    (tmp_path / "t" / "_delta_log").rename(tmp_path / "t" / "log")
    (tmp_path / "t" / ".hoodie").mkdir()
    (tmp_path / "t" / ".hoodie" / "hoodie.properties").touch()
    assert "t is a Hudi table: set table to its name in the catalog" in str(local_problem(str(tmp_path / "t"), None))
