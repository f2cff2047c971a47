"""CSV files: types of columns, and data that Spark would drop silently."""

from __future__ import annotations

import pandas as pd
import pytest
from chispa_rows import assert_rows

import spark_recmetrics as srm
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.storage.read import read_table
from spark_recmetrics.storage.text_files import NO_ROLES, Roles

IDS = Roles(ids=("user_id", "item_id"), names=("model",), numbers=("score", "rating"))


def read(spark, path, *, roles=NO_ROLES, **location):
    return read_table(spark, Location(path=str(path), **location), "inputs.truth", Vault(), roles)


@pytest.mark.heavy
@pytest.mark.spark
def test_ids_have_the_given_types(spark, tmp_path):
    (tmp_path / "t.csv").write_text("user_id,item_id,rating\n00123,7,3.5\n00124,8,4\n")
    text = read(spark, tmp_path / "t.csv", roles=IDS, format="csv")
    assert_rows(text, [("00123", 7, 3.5), ("00124", 8, 4.0)], "user_id string, item_id int, rating double")
    given = read(spark, tmp_path / "t.csv", roles=IDS, format="csv", types={"user_id": "bigint", "item_id": "string"})
    assert_rows(given, [(123, "7", 3.5), (124, "8", 4.0)], "user_id bigint, item_id string, rating double")


@pytest.mark.heavy
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
        f"inputs.truth: expected 3 fields in every line, like the first, found more in '{tmp_path.name}/t.csv': '1, 7, 3, 5': "
        'put fields that contain the separator, such as 4,5, in quotes, or use another separator, options: {sep: ";"}'
    )
    # Both modes notice such a line only if all columns are read.
    for mode in ("DROPMALFORMED", "FAILFAST"):
        with pytest.raises(srm.DataError, match=r"found more in '.*/t\.csv': '1, 7, 3, 5'"):
            ratings(text, options={"mode": mode})
    assert_rows(ratings(text, options={"Mode": "permissive", "Header": "true"}), [(1, 7, 3), (2, 8, 4)])
    # A separator at the end of a line adds nothing, and a line may lack its last fields.
    assert_rows(ratings("user_id,item_id,rating\n1,7,3,\n2,8\n"), [(1, 7, 3), (2, 8, None)])
    bare = {"header": "false", "sep": ";", "quote": "'"}
    assert_rows(ratings("1;a;'3;5'\n2;b;4\n", options=bare), [(1, "a", "3;5"), (2, "b", "4")])
    with pytest.raises(srm.DataError, match=r"2 fields in every line, .* found more in .*: '2, b, 4'"):
        ratings("1;a\n2;b;4\n", options=bare)


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.parametrize("line", ["1,7,3,,5", "1,7,3,NA", '1,7,3,"x"', "1,7,3" + 19 * "," + "x"])
def test_extra_fields_are_rejected_whatever_they_are(spark, tmp_path, line):
    (tmp_path / "t.csv").write_text(f"user_id,item_id,rating\n{line}\n2,8,4\n")
    with pytest.raises(srm.DataError, match=r"expected 3 fields in every line, .* found more in '.*/t.csv': "):
        read(spark, tmp_path / "t.csv", format="csv", options={"nullValue": "NA", "emptyValue": "x"})


@pytest.mark.heavy
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
        srm.DataError, match=r"""found more in .*: set options: \{escape: '"'\} if quotes in a field are doubled"""
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


@pytest.mark.heavy
@pytest.mark.spark
def test_names_of_options_ignore_case(spark, tmp_path):
    (tmp_path / "t.csv").write_text("1,07\n2,08\n")
    frame = read(spark, tmp_path / "t.csv", format="csv", options={"Header": "false", "INFERSCHEMA": "false"})
    assert_rows(frame, [("1", "07"), ("2", "08")], "_c0 string, _c1 string")


@pytest.mark.heavy
@pytest.mark.once
@pytest.mark.spark
@pytest.mark.core
def test_a_column_from_folder_names_is_no_field_of_a_csv(spark, tmp_path):
    for day, line in (("2026-11-27", "01,7"), ("2026-11-28", "02,8,9")):
        (tmp_path / f"day={day}").mkdir()
        (tmp_path / f"day={day}" / "t.csv").write_text(f"user_id,item_id\n{line}\n")
    with pytest.raises(srm.DataError, match=r"expected 2 fields in every line, .* in 'day=2026-11-28/t\.csv': '02, 8, 9'"):
        read(spark, tmp_path, format="csv")
    (tmp_path / "day=2026-11-28" / "t.csv").write_text("user_id,item_id\n02,8\n")
    assert_rows(read(spark, tmp_path, format="csv", roles=IDS).select("user_id"), [("01",), ("02",)])


@pytest.mark.once
@pytest.mark.spark
@pytest.mark.core
def test_ids_and_names_are_what_is_written(spark, tmp_path):
    """Spark would guess numbers, booleans and dates, in which different strings become equal."""
    values = {
        "string": (
            "012,12",
            "+12,12",
            "-0,0",
            "\u0661\u0662,12",
            "1e3,1000",
            "True,true",
            "7.0,7",
            "2026-11-28,2026-11-28T00:00",
        ),
        "int": ("0,-7", "12,1"),
    }
    for kind, pairs in values.items():
        for pair in pairs:
            (tmp_path / "t.csv").write_text(
                "user_id,item_id,model\n" + "".join(f"{value},x,{value}\n" for value in pair.split(","))
            )
            frame = read(spark, tmp_path / "t.csv", roles=IDS, format="csv")
            expected = [(value if kind == "string" else int(value), "x", value) for value in pair.split(",")]
            assert_rows(frame, expected, f"user_id {kind}, item_id string, model string")


@pytest.mark.heavy
@pytest.mark.spark
def test_columns_of_groups_are_strings_unless_they_are_numbers(spark, tmp_path):
    (tmp_path / "t.csv").write_text("user_id,age,segment,member\n1,018,01234,True\n2,35,1234,true\n")
    roles = Roles(ids=("user_id",), numbers=("age",), rest="name")
    frame = read(spark, tmp_path / "t.csv", roles=roles, format="csv")
    expected = [(1, 18, "01234", "True"), (2, 35, "1234", "true")]
    assert_rows(frame, expected, "user_id int, age int, segment string, member string")
    # Columns without a role, which a split publishes, keep what Spark would change.
    frame = read(spark, tmp_path / "t.csv", format="csv")
    assert [column.dataType.simpleString() for column in frame.schema] == ["int", "string", "string", "boolean"]


@pytest.mark.spark
@pytest.mark.core
def test_ids_of_another_form_are_shown_if_tables_differ(spark, tmp_path):
    (tmp_path / "t.csv").write_text("user_id,item_id,rating\n1,12,4\n2,012,5\n")
    truth = read(spark, tmp_path / "t.csv", roles=IDS, format="csv")
    lists = spark.createDataFrame([(1, 12, 0.5)], "user_id int, item_id int, score double")
    with pytest.raises(srm.DataError) as caught:
        srm.evaluate(lists, truth, metrics="hit", k=1, n_buckets=2)
    assert str(caught.value) == (
        "column 'item_id' (columns.item): expected one type on all sides, found int in predictions, string in truth, "
        "e.g. '012' in truth: cast one of them first, or set cast_ids to string; if 012 is a number, cast it, or set its type "
        "to bigint in types of truth"
    )
    assert srm.evaluate(lists, truth, metrics="hit", k=1, n_buckets=2, cast_ids="string").to_dict() == {"model": {"hit@1": 0.5}}
    numbers = read(spark, tmp_path / "t.csv", roles=IDS, format="csv", types={"item_id": "bigint"})
    assert_rows(numbers.select("item_id"), [(12,), (12,)], "item_id bigint")


@pytest.mark.heavy
@pytest.mark.spark
def test_a_header_with_a_name_twice(spark, tmp_path):
    (tmp_path / "t.csv").write_text("user_id,item_id,score,score\n1,2,3,4\n")
    message = (
        r"expected different names of columns in the header, found 'score' several times in '.*/t\.csv': rename all but one"
    )
    with pytest.raises(srm.DataError, match=message):
        read(spark, tmp_path / "t.csv", roles=IDS, format="csv")
    (tmp_path / "t.csv").write_text(",user_id,item_id,score\n0,1,02,3\n")  # pandas writes its index without a name
    frame = read(spark, tmp_path / "t.csv", roles=IDS, format="csv")
    assert_rows(frame, [(0, 1, "02", 3)], "_c0 int, user_id int, item_id string, score int")


@pytest.mark.spark
def test_ids_with_doubled_quotes(spark, tmp_path):
    (tmp_path / "t.csv").write_text('user_id,item_id\n1,"Film ""A"""\n2,"a\\"b"\n')
    with pytest.raises(srm.DataError) as caught:
        read(spark, tmp_path / "t.csv", roles=IDS, format="csv")
    assert str(caught.value) == (
        f"""inputs.truth: expected no quotes inside a quoted field, found '"Film ""A\"""' in column 'item_id' of """
        f"""'{tmp_path.name}/t.csv': set options: {{escape: '"'}} in inputs.truth, because quotes in its fields are doubled"""
    )
    (tmp_path / "t.csv").write_text('user_id,item_id\n1,"Film ""A"""\n')
    fixed = read(spark, tmp_path / "t.csv", roles=IDS, format="csv", options={"escape": '"'})
    assert_rows(fixed, [(1, 'Film "A"')])
    (tmp_path / "t.csv").write_text('user_id,item_id\n2,"a\\"b"\n')
    assert_rows(read(spark, tmp_path / "t.csv", roles=IDS, format="csv"), [(2, 'a"b')])


@pytest.mark.heavy
@pytest.mark.spark
def test_a_header_in_the_middle_of_a_file(spark, tmp_path):
    (tmp_path / "t.csv").write_text("user_id,item_id\na,x\nuser_id,item_id\nb,y\n")
    with pytest.raises(srm.DataError, match=r"expected the header user_id, item_id once, found it several times in .*t\.csv'"):
        read(spark, tmp_path, format="csv", roles=IDS)
    (tmp_path / "t.csv").write_text("user_id,item_id\na,x\nb,y\n")
    assert_rows(read(spark, tmp_path, format="csv", roles=IDS), [("a", "x"), ("b", "y")])


@pytest.mark.heavy
@pytest.mark.spark
def test_backslashes_in_quotes(spark, tmp_path):
    (tmp_path / "t.csv").write_text('user_id,item_id\n1,"p\\q,r"\n2,"p\\\\q,r"\n3,a\\\\b\n')
    with pytest.raises(srm.DataError, match=r"line 3 of .* has two backslashes in a quoted field: .*: set options: "):
        read(spark, tmp_path, format="csv", roles=IDS)
    both = read(spark, tmp_path, format="csv", roles=IDS, options={"escape": '"'})
    assert_rows(both, [(1, "p\\q,r"), (2, "p\\\\q,r"), (3, "a\\\\b")])
    escaped = read(spark, tmp_path, format="csv", roles=IDS, options={"escape": "\\"})
    assert_rows(escaped, [(1, "p\\q,r"), (2, "p\\q,r"), (3, "a\\\\b")])
    (tmp_path / "t.csv").write_text('user_id,item_id\n1,"p\\q,r"\n3,a\\\\b\n')
    assert_rows(read(spark, tmp_path, format="csv", roles=IDS), [(1, "p\\q,r"), (3, "a\\\\b")])
