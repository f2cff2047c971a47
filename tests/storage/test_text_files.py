"""Text files: the encoding, and files that are not what their format says."""

from __future__ import annotations

import pytest
from chispa_rows import assert_rows

import spark_recmetrics as srm
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.storage.read import read_table
from spark_recmetrics.storage.text_files import Roles

IDS = Roles(ids=("user_id", "item_id"))
CSV = "user_id,item_id\n\na,1\nMüller,2\nMöller,3\n"
JSON = "\n" + "".join(
    f'{{"user_id": "{name}", "item_id": {n}}}\n' for n, name in enumerate(["a", "", "Müller", "Möller"]) if name
)
ROWS = {"csv": [("a", 1), ("Müller", 2), ("Möller", 3)], "json": [("a", 0), ("Müller", 2), ("Möller", 3)]}


def read(spark, path, **location):
    frame = read_table(spark, Location(path=str(path), **location), "inputs.truth", Vault(), IDS)
    return frame.select("user_id", "item_id")


def rejected(spark, path, **location):
    with pytest.raises(srm.DataError) as caught:
        read(spark, path, **location)
    return str(caught.value)


@pytest.mark.once
@pytest.mark.spark
@pytest.mark.core
@pytest.mark.parametrize(("kind", "line"), [("csv", 4), ("json", 3)])
def test_another_encoding(spark, tmp_path, kind, line):
    """Spark replaces the bytes that are not UTF-8, so that Müller and Möller become one id."""
    text = CSV if kind == "csv" else JSON
    (tmp_path / "1").write_text(text.replace("ü", "u").replace("ö", "o"))
    (tmp_path / "2").write_bytes(text.encode("latin-1"))
    message = rejected(spark, tmp_path, format=kind)
    assert message.startswith(
        f"inputs.truth: expected {kind} in UTF-8, found other bytes in line {line} of '{tmp_path.name}/2': "
    ), message
    separator = {} if kind == "csv" else {"lineSep": "\n"}
    advice = "{encoding: ISO-8859-1}" if kind == "csv" else '{encoding: ISO-8859-1, lineSep: "\\n"}'
    assert f"set options: {advice} in inputs.truth" in message
    assert "found other bytes in line" in rejected(spark, tmp_path / "2", format=kind, options={"encoding": "utf-8"})
    fixed = read(spark, tmp_path / "2", format=kind, options={"encoding": "ISO-8859-1", **separator})
    assert sorted(map(tuple, fixed.collect())) == sorted(ROWS[kind])


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_replacement_character_of_the_file_itself(spark, tmp_path, kind):
    text = {"csv": "user_id,item_id\na\ufffd,1\n", "json": '{"user_id": "a\ufffd", "item_id": 1}\n'}[kind]
    (tmp_path / "t").write_text(text)
    assert_rows(read(spark, tmp_path / "t", format=kind), [("a\ufffd", 1)])
    (tmp_path / "t").write_bytes(text.encode() + text.replace("\ufffd", "ü").encode("latin-1"))
    assert f"found other bytes in line {2 * len(text.splitlines())} of" in rejected(spark, tmp_path / "t", format=kind)


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-16LE", "UTF-16BE"])
def test_utf_16(spark, tmp_path, encoding):
    (tmp_path / "t").write_bytes(CSV.encode(encoding))
    advice = f'set options: {{encoding: {encoding}, multiLine: "true"}}'
    message = rejected(spark, tmp_path / "t", format="csv")
    assert message == f"inputs.truth: expected csv in UTF-8, found UTF-16 in '{tmp_path.name}/t': {advice} in inputs.truth"
    message = rejected(spark, tmp_path / "t", format="csv", options={"encoding": encoding})
    assert message == f"inputs.truth: Spark finds lines in {encoding} only with multiLine: {advice}"
    fixed = read(spark, tmp_path / "t", format="csv", options={"encoding": encoding, "multiLine": "true"})
    assert_rows(fixed, ROWS["csv"])
    (tmp_path / "t").write_bytes(JSON.lstrip().encode(encoding))
    assert rejected(spark, tmp_path / "t", format="json").endswith(
        "found UTF-16 in " + repr(f"{tmp_path.name}/t") + ": save it as UTF-8"
    )


@pytest.mark.heavy
@pytest.mark.spark
def test_empty_files(spark, tmp_path):
    (tmp_path / "t").write_text("")
    for kind, expected in (("csv", "a header and rows"), ("json", "records")):
        message = rejected(spark, tmp_path / "t", format=kind)
        assert message == f"inputs.truth: expected {expected}, found empty files at '{tmp_path / 't'}': check the location"


@pytest.mark.spark
def test_files_of_another_format(spark, tmp_path):
    (tmp_path / "t").write_text('{"user_id": 1, "item_id": 2}\n')
    assert rejected(spark, tmp_path / "t", format="csv").endswith(", found JSON: set format: json")
    (tmp_path / "t").write_text("user_id,item_id\n1,2\n")
    assert "found 'user_id,item_id' in line 1 of" in rejected(spark, tmp_path / "t", format="json")
    (tmp_path / "t").write_text("user_id,item_id\nPAR1,2\nORC7,2\n")
    assert_rows(read(spark, tmp_path / "t", format="csv"), [("PAR1", 2), ("ORC7", 2)])
    rows = spark.createDataFrame([(1, 2)], "user_id int, item_id int")
    for kind, name in (("parquet", "a parquet file"), ("orc", "an ORC file")):
        rows.write.format(kind).save(str(tmp_path / kind))
        (file,) = (tmp_path / kind).glob("part-*")
        file.rename(tmp_path / f"{kind}_file")
        assert rejected(spark, tmp_path / f"{kind}_file", format="csv").endswith(f", found {name}: set format: {kind}")
        assert_rows(read(spark, tmp_path / f"{kind}_file", format=kind), [(1, 2)])


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.parametrize(("kind", "more"), [("csv", {}), ("json", {"lineSep": "\n"})])
def test_utf_8_under_another_encoding(spark, tmp_path, kind, more):
    (tmp_path / "t").write_text(CSV if kind == "csv" else JSON)
    message = rejected(spark, tmp_path / "t", format=kind, options={"encoding": "ISO-8859-1", **more})
    assert f"expected {kind} in ISO-8859-1, found UTF-8 in " in message
    assert message.endswith(": remove encoding from the options")
    assert read(spark, tmp_path / "t", format=kind).count() == 3
