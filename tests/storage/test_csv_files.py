"""CSV and JSON files: types of columns, and data that Spark would drop silently."""

from __future__ import annotations

import pandas as pd
import pytest
from chispa_rows import assert_rows

import spark_recmetrics as srm
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.storage.read import read_table


def read(spark, path, *, ids=(), **location):
    return read_table(spark, Location(path=str(path), **location), "inputs.truth", Vault(), ids)


@pytest.mark.spark
def test_ids_keep_leading_zeros_if_their_type_is_given(spark, tmp_path):
    (tmp_path / "t.csv").write_text("user_id,item_id,rating\n00123,0007,3.5\n00124,0008,4\n")
    guessed = read(spark, tmp_path / "t.csv", format="csv")
    assert_rows(guessed, [(123, 7, 3.5), (124, 8, 4.0)], "user_id int, item_id int, rating double")
    given = read(spark, tmp_path / "t.csv", format="csv", types={"user_id": "string", "item_id": "string"})
    expected = [("00123", "0007", 3.5), ("00124", "0008", 4.0)]
    assert_rows(given, expected, "user_id string, item_id string, rating double")


@pytest.mark.once
@pytest.mark.spark
@pytest.mark.core
def test_ids_that_would_lose_their_zeros_are_rejected(spark, tmp_path):
    def read_ids(text, **more):
        (tmp_path / "t.csv").write_text(text)
        return read(spark, tmp_path / "t.csv", ids=("user_id", "item_id"), format="csv", **more).collect()

    text = "user_id,item_id,rating\n0,012,05\n1,12,4\n"
    with pytest.raises(srm.DataError) as caught:
        read_ids(text)
    assert str(caught.value) == (
        "inputs.truth: ids in column 'item_id' start with zeros, e.g. '012', and would be read as numbers, so that 012 and 12 "
        "become the same id: set types: {item_id: string} in inputs.truth, or {item_id: bigint} if the ids are numbers"
    )
    assert {row["item_id"] for row in read_ids(text, types={"item_id": "string"})} == {"012", "12"}
    assert {row["item_id"] for row in read_ids(text, types={"item_id": "bigint"})} == {12}
    # Other columns, and an id that is 0, may be written in any way.
    assert {row["rating"] for row in read_ids("user_id,item_id,rating\n0,7,05\n,8,4\n")} == {5, 4}


@pytest.mark.once
@pytest.mark.spark
@pytest.mark.core
def test_lines_with_more_fields_than_the_header_are_rejected(spark, tmp_path):
    """Spark reads them and drops the extra fields silently."""

    def ratings(text, **more):
        (tmp_path / "t.csv").write_text(text)
        return read(spark, tmp_path / "t.csv", format="csv", **more)

    text = "user_id,item_id,rating\n1,7,3,5\n2,8,4\n"
    with pytest.raises(srm.DataError) as caught:
        ratings(text)
    assert str(caught.value) == (
        "inputs.truth: expected 3 fields in every line, like the first, found more: '1, 7, 3, 5': put fields that contain the "
        'separator, such as 4,5, in quotes, or use another separator, options: {sep: ";"}'
    )
    # Both modes notice such a line only if all columns are read.
    for mode in ("DROPMALFORMED", "FAILFAST"):
        with pytest.raises(srm.DataError, match="found more: '1, 7, 3, 5'"):
            ratings(text, options={"mode": mode})
    assert_rows(ratings(text, options={"Mode": "permissive", "Header": "true"}), [(1, 7, 3), (2, 8, 4)])
    # A separator at the end of a line adds nothing, and a line may lack its last fields.
    assert_rows(ratings("user_id,item_id,rating\n1,7,3,\n2,8\n"), [(1, 7, 3), (2, 8, None)])
    bare = {"header": "false", "sep": ";", "quote": "'"}
    assert_rows(ratings("1;a;'3;5'\n2;b;4\n", options=bare), [(1, "a", "3;5"), (2, "b", "4")])
    with pytest.raises(srm.DataError, match=r"2 fields in every line, .* found more: '2, b, 4'"):
        ratings("1;a\n2;b;4\n", options=bare)


@pytest.mark.spark
@pytest.mark.parametrize("line", ["1,7,3,,5", "1,7,3,NA", '1,7,3,"x"', "1,7,3" + 19 * "," + "x"])
def test_extra_fields_are_rejected_whatever_they_are(spark, tmp_path, line):
    (tmp_path / "t.csv").write_text(f"user_id,item_id,rating\n{line}\n2,8,4\n")
    with pytest.raises(srm.DataError, match=r"expected 3 fields in every line, .* found more: "):
        read(spark, tmp_path / "t.csv", format="csv", options={"nullValue": "NA", "emptyValue": "x"})


@pytest.mark.spark
@pytest.mark.parametrize("line", ["1,7,3,", "1,7,3,\t", '1,7,3,""', "1,7"])
def test_empty_extra_fields_are_no_loss(spark, tmp_path, line):
    (tmp_path / "t.csv").write_text(f"user_id,item_id,rating\n{line}\n2,8,4\n")
    options = {"emptyValue": "x", "enforceSchema": "false", "Header": "true"}
    assert read(spark, tmp_path / "t.csv", format="csv", options=options).count() == 2


@pytest.mark.spark
def test_doubled_quotes(spark, tmp_path):
    """pandas and spreadsheets double quotes inside a field; Spark expects a backslash."""
    pd.DataFrame({"user_id": [1], "item_id": [7], "title": ['Say "hi", you']}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(
        srm.DataError, match=r"""found more: .*: set options: \{escape: '"'\} if quotes in a field are doubled"""
    ):
        read(spark, tmp_path / "t.csv", format="csv")
    assert_rows(read(spark, tmp_path / "t.csv", format="csv", options={"escape": '"'}), [(1, 7, 'Say "hi", you')])


@pytest.mark.once
@pytest.mark.spark
@pytest.mark.core
def test_files_with_different_headers_are_rejected(spark, tmp_path):
    """Spark reads their columns by position."""
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "1.csv").write_text("user_id,item_id\nann,x\n")
    for other in ("item_id,user_id\ny,bob\n", "bob,y\n", "user_id\nbob\n"):
        (folder / "2.csv").write_text(other)
        # Spark takes the header of either file.
        message = r"inputs\.truth: expected the header .* in every file, found 't/[12]\.csv' without it\. Spark would drop "
        with pytest.raises(srm.DataError, match=message):
            read(spark, folder, format="csv")
    (folder / "2.csv").write_text("\ufeffUser_ID, item_id\nbob,y\n")
    (folder / "3.csv").write_text("")
    frame = read(spark, folder, format="csv")
    assert_rows(frame, [("ann", "x"), ("bob", "y")])
    (folder / "2.csv").write_text("bob,y\n")
    bare = read(spark, folder, format="csv", options={"header": "false"})
    assert bare.count() == 3
    # Spark renames the columns of a header that has a name twice.
    (folder / "2.csv").unlink()
    (folder / "1.csv").write_text("user_id,item_id,item_id\nann,x,y\n")
    assert read(spark, folder, format="csv").count() == 1


@pytest.mark.spark
def test_names_of_options_ignore_case(spark, tmp_path):
    (tmp_path / "t.csv").write_text("1,07\n2,08\n")
    frame = read(spark, tmp_path / "t.csv", format="csv", options={"Header": "false", "INFERSCHEMA": "false"})
    assert_rows(frame, [("1", "07"), ("2", "08")], "_c0 string, _c1 string")


@pytest.mark.once
@pytest.mark.spark
@pytest.mark.core
def test_a_column_from_folder_names_is_no_field_of_a_csv(spark, tmp_path):
    for day, line in (("2026-11-27", "01,7"), ("2026-11-28", "02,8,9")):
        (tmp_path / f"day={day}").mkdir()
        (tmp_path / f"day={day}" / "t.csv").write_text(f"user_id,item_id\n{line}\n")
    with pytest.raises(srm.DataError, match="expected 2 fields in every line, like the first, found more: '02, 8, 9'"):
        read(spark, tmp_path, format="csv")
    (tmp_path / "day=2026-11-28" / "t.csv").write_text("user_id,item_id\n02,8\n")
    assert_rows(read(spark, tmp_path, format="csv").select("user_id"), [(1,), (2,)])
    with pytest.raises(srm.DataError, match=r"ids in column 'user_id' start with zeros, e\.g\. '01',"):
        read(spark, tmp_path, format="csv", ids=("user_id", "item_id"))
    # If the files contain the column, too, Spark takes it from the folder names.
    for day, line in (("2026-11-27", "1,2026-11-27,7"), ("2026-11-28", "2,2026-11-28,8")):
        (tmp_path / f"day={day}" / "t.csv").write_text(f"user_id,day,item_id\n{line}\n")
    assert_rows(read(spark, tmp_path, format="csv").select("user_id", "item_id"), [(1, 7), (2, 8)])
    (tmp_path / "day=2026-11-28" / "t.csv").write_text("user_id,day,item_id\n2,2026-11-28,8,9\n")
    with pytest.raises(srm.DataError, match="expected 3 fields in every line"):
        read(spark, tmp_path, format="csv")


@pytest.mark.spark
def test_json_has_the_given_types(spark, tmp_path):
    (tmp_path / "t.json").write_text('{"user_id": 7, "item_id": "a", "rating": 4}\n')
    frame = read(spark, tmp_path / "t.json", format="json", types={"user_id": "string", "rating": "float"})
    assert_rows(frame, [("a", 4.0, "7")], "item_id string, rating float, user_id string")


@pytest.mark.spark
def test_a_type_for_a_missing_column(spark, tmp_path):
    (tmp_path / "t.csv").write_text("user_id,item_id\n1,2\n")
    with pytest.raises(srm.DataError, match=r"^inputs\.truth\.types: no column 'user'; did you mean 'user_id'\?$"):
        read(spark, tmp_path / "t.csv", format="csv", types={"user": "string"})
