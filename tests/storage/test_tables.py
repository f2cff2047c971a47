"""Looks at several tables at once, and files that are read."""

import gzip
import json
import re
import threading

import pandas as pd
import pytest

import spark_recmetrics as srm
from spark_recmetrics.diagnostics.preflight_spark import prove
from spark_recmetrics.inputs.spark import union_models
from spark_recmetrics.storage import actions
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.storage.read import example_in_errors, read_table

pytestmark = pytest.mark.spark


def test_looks_have_the_order_they_were_given_in(spark):
    def look(n):
        return lambda: spark.range(n).count()

    assert actions.in_parallel(spark, *map(look, [5, 3, 9])) == [5, 3, 9]
    assert actions.in_parallel(spark) == []


def test_looks_are_at_once(spark):
    # Each waits for the other one, which would take for ever one behind the other.
    both = threading.Barrier(2, timeout=60)
    assert sorted(actions.in_parallel(spark, both.wait, both.wait)) == [0, 1]


def test_the_first_error_is_raised_when_all_have_ended(spark):
    ended = []

    def fail(text):
        ended.append(text)
        raise ValueError(text)

    with pytest.raises(ValueError, match=r"^one$"):
        actions.in_parallel(spark, lambda: spark.range(3).count(), lambda: fail("one"), lambda: fail("two"))
    assert sorted(ended) == ["one", "two"]


def test_a_thread_that_does_not_begin_is_an_error(spark, monkeypatch):
    class Dead(actions.InheritableThread):
        def run(self):
            """Not even begun."""

    monkeypatch.setattr(actions, "InheritableThread", Dead)
    with pytest.raises(RuntimeError, match="did not begin"):
        actions.in_parallel(spark, lambda: 1)


@pytest.mark.once
def test_looks_belong_to_the_job_group_of_the_caller(spark):
    context = spark.sparkContext
    context.setJobGroup("mine", "told")
    try:
        found = actions.in_parallel(spark, lambda: (spark.range(3).count(), context.getLocalProperty("spark.jobGroup.id")))
        assert found == [(3, "mine")]
        assert context.statusTracker().getJobIdsForGroup("mine")
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.description", None)


def test_without_threads_that_know_the_session_looks_are_one_behind_the_other(spark, monkeypatch):
    monkeypatch.setattr(actions, "_THREADS_HAVE_SESSION", False)
    own = threading.current_thread()
    assert actions.in_parallel(spark, threading.current_thread, lambda: spark.range(4).count()) == [own, 4]


# Files without types ------------------------------------------------------------------------------------------------------


def read(spark, path, *, key="inputs.truth", **location):
    return read_table(spark, Location(path=str(path), **location), key, Vault())


def test_ids_keep_leading_zeros_where_their_type_is_given(spark, tmp_path):
    (tmp_path / "t.csv").write_text("user_id,item_id,rating\n00123,0007,3.5\n00124,0008,4\n")
    guessed = read(spark, tmp_path / "t.csv", format="csv")
    assert sorted(tuple(row) for row in guessed.collect()) == [(123, 7, 3.5), (124, 8, 4.0)]
    given = read(spark, tmp_path / "t.csv", format="csv", types={"user_id": "string", "item_id": "string"})
    assert given.schema.simpleString() == "struct<user_id:string,item_id:string,rating:double>"
    assert sorted(tuple(row) for row in given.collect()) == [("00123", "0007", 3.5), ("00124", "0008", 4.0)]


@pytest.mark.core
def test_ids_that_would_lose_their_zeros_are_refused(spark, tmp_path):
    def read_ids(text, **more):
        (tmp_path / "t.csv").write_text(text)
        location = Location(path=str(tmp_path / "t.csv"), format="csv", **more)
        return read_table(spark, location, "inputs.truth", Vault(), ("user_id", "item_id")).collect()

    told = (
        "inputs.truth: ids of 'item_id' begin with zeros, e.g. '012', and were read as numbers, which lose them, so that 012 "
        "and 12 are one: set types: {item_id: string} in inputs.truth, or {item_id: bigint} where they are numbers"
    )
    text = "user_id,item_id,rating\n0,012,05\n1,12,4\n"
    with pytest.raises(srm.DataError) as refused:
        read_ids(text)
    assert str(refused.value) == told
    assert {row["item_id"] for row in read_ids(text, types={"item_id": "string"})} == {"012", "12"}
    assert {row["item_id"] for row in read_ids(text, types={"item_id": "bigint"})} == {12}
    # What is no id may be written in any way, and so may a lone 0.
    assert {row["rating"] for row in read_ids("user_id,item_id,rating\n0,7,05\n,8,4\n")} == {5, 4}


@pytest.mark.core
def test_lines_of_more_fields_than_the_heads_are_refused(spark, tmp_path):
    """Spark reads them, and leaves the rest out without a word."""

    def ratings(text, **more):
        (tmp_path / "t.csv").write_text(text)
        return sorted(tuple(row) for row in read(spark, tmp_path / "t.csv", format="csv", **more).collect())

    text = "user_id,item_id,rating\n1,7,3,5\n2,8,4\n"
    with pytest.raises(srm.DataError) as refused:
        ratings(text)
    assert str(refused.value) == (
        "inputs.truth: expected lines of 3 fields, as many as the first one has, found more: '1, 7, 3, 5': put a field that "
        'has the separator in it, such as 4,5, in quotes, or take another separator, options: {sep: ";"}'
    )
    # Both notice such a line only where all columns are read.
    for mode in ("DROPMALFORMED", "FAILFAST"):
        with pytest.raises(srm.DataError, match="found more: '1, 7, 3, 5'"):
            ratings(text, options={"mode": mode})
    assert ratings(text, options={"Mode": "permissive", "Header": "true"}) == [(1, 7, 3), (2, 8, 4)]
    # A separator at the end of a line adds nothing, and a line may lack its last fields.
    assert ratings("user_id,item_id,rating\n1,7,3,\n2,8\n") == [(1, 7, 3), (2, 8, None)]
    bare = {"header": "false", "sep": ";", "quote": "'"}
    assert ratings("1;a;'3;5'\n2;b;4\n", options=bare) == [(1, "a", "3;5"), (2, "b", "4")]
    with pytest.raises(srm.DataError, match=r"lines of 2 fields, .* found more: '2, b, 4'"):
        ratings("1;a\n2;b;4\n", options=bare)


@pytest.mark.parametrize("line", ["1,7,3,,5", "1,7,3,NA", '1,7,3,"x"', "1,7,3" + 19 * "," + "x"])
def test_fields_behind_the_last_column_are_refused_wherever_they_stand(spark, tmp_path, line):
    (tmp_path / "t.csv").write_text(f"user_id,item_id,rating\n{line}\n2,8,4\n")
    with pytest.raises(srm.DataError, match=r"expected lines of 3 fields, .* found more: "):
        read(spark, tmp_path / "t.csv", format="csv", options={"nullValue": "NA", "emptyValue": "x"})


@pytest.mark.parametrize("line", ["1,7,3,", "1,7,3,\t", '1,7,3,""', "1,7"])
def test_nothing_behind_the_last_column_is_nothing_lost(spark, tmp_path, line):
    (tmp_path / "t.csv").write_text(f"user_id,item_id,rating\n{line}\n2,8,4\n")
    options = {"emptyValue": "x", "enforceSchema": "false", "Header": "true"}
    assert read(spark, tmp_path / "t.csv", format="csv", options=options).count() == 2


def test_quotes_that_are_written_twice(spark, tmp_path):
    """As pandas and spreadsheets write them; Spark has a backslash."""
    pd.DataFrame({"user_id": [1], "item_id": [7], "title": ['Say "hi", you']}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(srm.DataError, match=r"""found more: .*: set options: \{escape: '"'\} if quotes in a text are """):
        read(spark, tmp_path / "t.csv", format="csv")
    rows = read(spark, tmp_path / "t.csv", format="csv", options={"escape": '"'}).collect()
    assert [tuple(row) for row in rows] == [(1, 7, 'Say "hi", you')]


@pytest.mark.core
def test_files_of_other_heads_are_refused(spark, tmp_path):
    """Spark takes their columns by their order."""
    folder = tmp_path / "t"
    folder.mkdir()
    (folder / "1.csv").write_text("user_id,item_id\nann,x\n")
    for other in ("item_id,user_id\ny,bob\n", "bob,y\n", "user_id\nbob\n"):
        (folder / "2.csv").write_text(other)
        # Spark takes the heads of one of them.
        told = r"inputs\.truth: expected all files to have a line of the heads .*, found 't/[12]\.csv' without, of which "
        with pytest.raises(srm.DataError, match=told):
            read(spark, folder, format="csv")
    (folder / "2.csv").write_text("\ufeffUser_ID, item_id\nbob,y\n")
    (folder / "3.csv").write_text("")
    assert sorted(tuple(row) for row in read(spark, folder, format="csv").collect()) == [("ann", "x"), ("bob", "y")]
    (folder / "2.csv").write_text("bob,y\n")
    bare = read(spark, folder, format="csv", options={"header": "false"})
    assert bare.count() == 3
    # Spark calls heads that are there twice by other names.
    (folder / "2.csv").unlink()
    (folder / "1.csv").write_text("user_id,item_id,item_id\nann,x,y\n")
    assert read(spark, folder, format="csv").count() == 1


def test_options_have_names_in_small_and_large_letters(spark, tmp_path):
    (tmp_path / "t.csv").write_text("1,07\n2,08\n")
    frame = read(spark, tmp_path / "t.csv", format="csv", options={"Header": "false", "INFERSCHEMA": "false"})
    assert sorted(tuple(row) for row in frame.collect()) == [("1", "07"), ("2", "08")]


def test_a_file_that_ends_too_soon_is_named(spark, tmp_path):
    whole = gzip.compress("".join(f"{n},{n * n}\n" for n in range(5000)).encode())
    (tmp_path / "t.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(srm.DataError, match=r"^inputs\.truth: cannot read csv at '.*t\.csv\.gz': "):
        read(spark, tmp_path / "t.csv.gz", format="csv", options={"header": "false", "inferSchema": "false"})


@pytest.mark.core
def test_a_folder_whose_name_is_a_column_is_no_field_of_a_csv(spark, tmp_path):
    for day, line in (("2026-11-27", "01,7"), ("2026-11-28", "02,8,9")):
        (tmp_path / f"day={day}").mkdir()
        (tmp_path / f"day={day}" / "t.csv").write_text(f"user_id,item_id\n{line}\n")
    with pytest.raises(srm.DataError, match="expected lines of 2 fields, as many as the first one has, found more: '02, 8, 9'"):
        read(spark, tmp_path, format="csv")
    (tmp_path / "day=2026-11-28" / "t.csv").write_text("user_id,item_id\n02,8\n")
    assert sorted(row["user_id"] for row in read(spark, tmp_path, format="csv").collect()) == [1, 2]
    with pytest.raises(srm.DataError, match=r"ids of 'user_id' begin with zeros, e\.g\. '01',"):
        read_table(spark, Location(path=str(tmp_path), format="csv"), "inputs.truth", Vault(), ("user_id", "item_id"))
    # The column may stand in the files, too, which Spark then reads from the names of the folders.
    for day, line in (("2026-11-27", "1,2026-11-27,7"), ("2026-11-28", "2,2026-11-28,8")):
        (tmp_path / f"day={day}" / "t.csv").write_text(f"user_id,day,item_id\n{line}\n")
    assert sorted((row["user_id"], row["item_id"]) for row in read(spark, tmp_path, format="csv").collect()) == [(1, 7), (2, 8)]
    (tmp_path / "day=2026-11-28" / "t.csv").write_text("user_id,day,item_id\n2,2026-11-28,8,9\n")
    with pytest.raises(srm.DataError, match="expected lines of 3 fields"):
        read(spark, tmp_path, format="csv")


def test_json_has_the_types_that_are_given(spark, tmp_path):
    (tmp_path / "t.json").write_text('{"user_id": 7, "item_id": "a", "rating": 4}\n')
    frame = read(spark, tmp_path / "t.json", format="json", types={"user_id": "string", "rating": "float"})
    assert frame.schema.simpleString() == "struct<item_id:string,rating:float,user_id:string>"
    assert [tuple(row) for row in frame.collect()] == [("a", 4.0, "7")]


def test_a_type_of_a_column_that_is_not_there(spark, tmp_path):
    (tmp_path / "t.csv").write_text("user_id,item_id\n1,2\n")
    with pytest.raises(srm.DataError, match=r"^inputs\.truth\.types: no column 'user'; did you mean 'user_id'\?$"):
        read(spark, tmp_path / "t.csv", format="csv", types={"user": "string"})


COMMAS = "user_id;item_id;{}\n00123;0007;3,5\n00124;0008;4,25\n"


def test_decimal_commas_are_read_as_the_documentation_says(spark, tmp_path):
    for name in ("score", "rating"):
        (tmp_path / name).write_text(COMMAS.format(name))
    how = {"format": "csv", "options": {"sep": ";", "locale": "de"}}
    lists, truth = (read(spark, tmp_path / name, types={name: "decimal(10, 4)"}, **how) for name in ("score", "rating"))
    assert sorted(float(row["rating"]) for row in truth.collect()) == [3.5, 4.25]
    assert srm.evaluate(lists, truth, metrics="mae", n_buckets=2).to_dict() == {"model": {"mae": 0.0}}


@pytest.mark.parametrize(
    ("rating", "told"),
    [
        ("3,5", ", e.g. '3,5' in truth, with a decimal comma: write points, or let the reader of the file know ("),
        ("-1.234,50", ", e.g. '-1.234,50' in truth, with a decimal comma: "),
        ("n/a", ", e.g. 'n/a' in truth: cast it first"),
        ("1;5", ", e.g. '1;5' in truth: cast it first"),
    ],
)
def test_a_text_among_numbers_is_told(spark, tmp_path, rating, told):
    (tmp_path / "t.csv").write_text(f"user_id|item_id|rating\n1|7|4\n2|7|{rating}\n")
    lists = spark.createDataFrame([(1, 7, 0.5)], "user_id int, item_id int, score double")
    truth = read(spark, tmp_path / "t.csv", format="csv", options={"sep": "|"})
    told = f"truth: column 'rating' (columns.rating): expected a number, found string{told}"
    with pytest.raises(srm.DataError, match=f"^{re.escape(told)}"):
        srm.evaluate(lists, truth, metrics="hit", n_buckets=2)


def test_texts_that_are_all_numbers_have_no_example(spark):
    lists = spark.createDataFrame([(1, 7, "0.5"), (1, 8, None)], "user_id int, item_id int, score string")
    with pytest.raises(srm.DataError, match=r"expected a number, found string: cast it first$"):
        srm.rank_items(lists)


def test_a_text_among_the_numbers_of_a_slice_is_told(spark):
    lists = spark.createDataFrame([(1, 7, 0.5)], "user_id int, item_id int, score double")
    users = spark.createDataFrame([(1, "18"), (2, "n/a")], "user_id int, age string")
    with pytest.raises(srm.DataError, match=r"found string, e\.g\. 'n/a' in user_segments: cast it first"):
        srm.evaluate(lists, lists, metrics="hit", user_segments=users, slices=["age(18)"], n_buckets=2)


def test_a_decimal_comma_in_memory():
    lists = pd.DataFrame({"user_id": [1], "item_id": [7], "score": [0.5]})
    truth = pd.DataFrame({"user_id": [1], "item_id": [7], "rating": ["3,5"]})
    with pytest.raises(srm.DataError, match="expected numbers, found '3,5', with a decimal comma: write points"):
        srm.evaluate_in_memory(lists, truth, metrics="mae")


NO_ROWS = "^{}: expected rows, found none, so that its columns are texts: check its location and filters$"


@pytest.mark.parametrize("cast_ids", [None, "string"])
def test_a_file_of_a_header_alone_has_no_rows(spark, tmp_path, cast_ids):
    """Its ids would be said to be of another type, or where these are cast its ratings."""
    (tmp_path / "t.csv").write_text("user_id,item_id,rating\n")
    lists = spark.createDataFrame([(1, 7, 0.5)], "user_id int, item_id int, score double")
    empty = read(spark, tmp_path / "t.csv", format="csv")
    with pytest.raises(srm.DataError, match=NO_ROWS.format("truth")):
        srm.evaluate(lists, empty, metrics="mae", cast_ids=cast_ids, n_buckets=2)
    (check,) = prove(lists, lists.withColumnRenamed("score", "rating"), metrics="mae", train=empty, n_buckets=2)
    assert (check.level, check.name, re.match(NO_ROWS.format("train"), check.found)[0]) == ("FAIL", "sample", check.found)
    with pytest.raises(srm.DataError, match=NO_ROWS.format("rows")):
        srm.splits.temporal(empty, cut=3, columns=srm.Columns(), time="rating")
    models = {"a": lists, "b": empty.withColumnRenamed("rating", "score")}
    with pytest.raises(srm.DataError, match=NO_ROWS.format("predictions of b")), example_in_errors():
        union_models("predictions", models, srm.Columns(), cast_ids)


@pytest.mark.parametrize("mark", [";", "|", "\t"])
def test_a_line_that_was_read_as_one_column_names_the_separator(spark, tmp_path, mark):
    (tmp_path / "t.csv").write_text("user_id,item_id,rating\n1,7,4\n".replace(",", mark))
    lists = spark.createDataFrame([(1, 7, 0.5)], "user_id int, item_id int, score double")
    quoted = json.dumps(mark)
    told = (
        f"if {quoted} separates columns, read with sep={quoted}, in a configuration options: {{sep: {quoted}}} of the location"
    )
    with pytest.raises(srm.DataError, match=re.escape(told)):
        srm.evaluate(lists, read(spark, tmp_path / "t.csv", format="csv"), metrics="hit", n_buckets=2)
    with pytest.raises(srm.DataError, match=re.escape(told)):
        srm.evaluate_in_memory(lists.toPandas(), pd.read_csv(tmp_path / "t.csv"), metrics="hit")
    segments = read(spark, tmp_path / "t.csv", format="csv")
    with pytest.raises(srm.ConfigError, match=re.escape(told)):
        srm.evaluate(lists, lists, metrics="hit", user_segments=segments, slices=["rating"], n_buckets=2)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("t.csv", "its name ends in .csv: set format: csv"),
        ("T.CSV.GZ", "its name ends in .CSV.GZ: set format: csv"),
        ("t.tsv", 'its name ends in .tsv: set format: csv, and options: {sep: "\\t"}'),
        ("t.jsonl", "its name ends in .jsonl: set format: json"),
        ("t.orc", "its name ends in .orc: set format: orc"),
        ("t.txt", "check the location and the format"),
    ],
)
def test_the_name_of_a_file_tells_its_format(spark, tmp_path, name, advice):
    (tmp_path / name).write_text("user_id,item_id\n1,2\n")
    with pytest.raises(srm.DataError, match=f": {re.escape(advice)}$"):
        read(spark, tmp_path / name)
    with pytest.raises(srm.DataError, match=r": check the location and the format$"):
        read(spark, tmp_path / "nowhere" / name)
