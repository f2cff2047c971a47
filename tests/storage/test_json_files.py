"""JSON files: records that Spark would read partly, and ids of two types."""

from __future__ import annotations

import pytest
from chispa_rows import assert_rows

import spark_recmetrics as srm
from spark_recmetrics.storage.credentials import Vault
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.storage.read import read_table
from spark_recmetrics.storage.text_files import Roles

IDS = Roles(ids=("user_id", "item_id", "items"), names=("model",), numbers=("rating",))
MANY = {"multiLine": "true"}


def read(spark, tmp_path, text, **location):
    (tmp_path / "t.json").write_text(text)
    return read_table(spark, Location(path=str(tmp_path / "t.json"), format="json", **location), "inputs.truth", Vault(), IDS)


def rejected(spark, tmp_path, text, **location):
    with pytest.raises(srm.DataError) as caught:
        read(spark, tmp_path, text, **location)
    return str(caught.value).replace(f"{tmp_path.name}/", "")


@pytest.mark.heavy
@pytest.mark.once
@pytest.mark.spark
@pytest.mark.core
def test_records_of_several_lines(spark, tmp_path):
    """Spark reads the other lines, and rows of nulls."""
    advice = ': if a record has several lines, or all are in one array, set options: {multiLine: "true"} in inputs.truth'
    for text, line in (
        ('[\n{"user_id": 1},\n{"user_id": 2}\n]\n', "'[' in line 1"),
        ('[{"user_id": 1},\n{"user_id": 2}]\n', """'[{"user_id": 1},' in line 1"""),
        ('{\n"user_id": 1\n}\n', "'{' in line 1"),
    ):
        message = rejected(spark, tmp_path, text)
        assert message == f"inputs.truth: expected a JSON record in every line, found {line} of 't.json'{advice}"
        n_users = text.count("user_id")
        assert_rows(read(spark, tmp_path, text, options=MANY), [(n + 1,) for n in range(n_users)], "user_id bigint")
    message = rejected(spark, tmp_path, '{"user_id": 1}\n\n{"user_id": 2\n')
    assert message.startswith(
        """inputs.truth: expected a JSON record in every line, found '{"user_id": 2' in line 3 of 't.json'"""
    )
    assert read(spark, tmp_path, '{"user_id": 1}\n{"user_id": 2\n', options={"mode": "DROPMALFORMED"}).count() == 1
    assert_rows(read(spark, tmp_path, '[{"user_id": 1}, {"user_id": 2}]\n'), [(1,), (2,)])


@pytest.mark.spark
@pytest.mark.parametrize(("pair", "options"), [(("-0", "0"), {}), (("01", "1"), {"allowNumericLeadingZeros": "true"})])
def test_integers_that_are_written_differently_are_not_one_name(spark, tmp_path, pair, options):
    text = "".join(f'{{"user_id": "u", "item_id": "x{n}", "model": {value}}}\n' for n, value in enumerate(pair))
    message = rejected(spark, tmp_path, text, options=options)
    assert f"expected integers without leading zeros in column 'model', found {pair[0]} in 't.json'" in message
    assert "set types: {model: string} in inputs.truth" in message
    arrays = f'{{"user_id": "u", "items": [7, {pair[0]}, 9]}}\n'
    message = rejected(spark, tmp_path, arrays, options=options)
    assert f"column 'items', found {pair[0]} in" in message
    assert "set types" not in message, "an array is no string"
    structs = f'{{"user_id": "u", "items": [{{"item_id": 1, "rank": -0}}, {{"item_id":{pair[0]}}}]}}\n'
    assert f"column 'items', found {pair[0]} in" in rejected(spark, tmp_path, structs, options=options)
    as_strings = read(spark, tmp_path, text, options=options, types={"model": "string"})
    assert {row["model"] for row in as_strings.collect()} == set(pair)
    usual = read(spark, tmp_path, '{"user_id": 0, "items": [0, -7], "model": 10, "rating": -0}\n')
    assert_rows(usual, [([0, -7], 10, 0, 0)], "items array<bigint>, model bigint, rating bigint, user_id bigint")


@pytest.mark.heavy
@pytest.mark.spark
def test_halves_of_characters(spark, tmp_path):
    """Spark reads each of them as a question mark, so that two models become one."""
    record = '{{"user_id": "u", "items": ["x", "{}"], "model": "{}", "title": "\\ud83c"}}\n'
    for half in ("film\\ud83d", "\\uDC00", "\\ud83d\\ud83e", "a\\\\\\ud83d b"):
        for items, model in ((half, "m"), ("y", half)):
            message = rejected(spark, tmp_path, record.format(items, model))
            assert f"expected valid Unicode in column {'model' if model == half else 'items'!r}, found an unpaired" in message
    whole = read(spark, tmp_path, record.format("\\ud83d\\ude00", "a\\\\ud83d"))
    (row,) = whole.collect()
    assert (row["items"][1], row["model"]) == ("\U0001f600", "a\\ud83d")
    long = read(spark, tmp_path, record.format("C:\\\\ud83dir", "\\u00e4" * 10_000 + "x" * 10_000))
    assert len(long.collect()[0]["model"]) == 20_000, "Java's patterns may use up its stack"


@pytest.mark.heavy
@pytest.mark.spark
def test_ids_of_two_types_under_keys_in_single_quotes(spark, tmp_path):
    assert "expected only strings in column 'user_id'" in rejected(spark, tmp_path, "{'user_id': 7}\n{'user_id': '7'}\n")


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.parametrize("pair", [("0.10", "0.1"), ("1e3", "1000"), ("1e-3", "0.001")])
def test_fractions_as_names_are_rejected_and_kept_as_strings(spark, tmp_path, pair):
    text = "".join(f'{{"user_id": "u", "item_id": "x", "score": 1.0, "model": {value}}}\n' for value in pair)
    truth = spark.createDataFrame([("u", "x")], "user_id string, item_id string")
    with pytest.raises(srm.DataError, match=r"found double: .*set types: \{model: string\}"):
        srm.evaluate(read(spark, tmp_path, text), truth, metrics="hit", k=1, n_buckets=2)
    named = read(spark, tmp_path, text, types={"model": "string"})
    result = srm.evaluate(named, truth, metrics="hit", k=1, n_buckets=2)
    assert result.to_dict() == {value: {"hit@1": 1.0} for value in pair}


@pytest.mark.heavy
@pytest.mark.spark
def test_records_of_which_spark_reads_the_first(spark, tmp_path):
    lines = '{"user_id": 1}\n{"user_id": 2}\n'
    message = "inputs.truth: expected one JSON record, or an array of them, found {}. Spark would read only the first: {}"
    assert rejected(spark, tmp_path, lines, options=MANY) == message.format(
        "a record in each line of 't.json'", "remove multiLine from the options"
    )
    assert read(spark, tmp_path, lines).count() == 2
    assert rejected(spark, tmp_path, '{"user_id": 0}\n{"user_id": 1}{"user_id": 2}\n') == message.format(
        """several in line 2 of 't.json': '{"user_id": 1}{"user_id": 2}'""", "write each in a line of its own"
    )
    assert_rows(read(spark, tmp_path, '{"user_id": "}{"}\n'), [("}{",)])


@pytest.mark.once
@pytest.mark.spark
@pytest.mark.core
def test_keys_of_a_record_are_different(spark, tmp_path):
    message = (
        "inputs.truth: expected different keys in a JSON record, in any case, found one twice in 't.json': {}: "
        "rename or remove one of them"
    )
    for keys in ('"user_id": 1, "user_id": 2', '"user_id": 1, "User_ID": 2'):
        assert rejected(spark, tmp_path, f'{{"user_id": 0}}\n{{{keys}}}\n') == message.format(repr(f"{{{keys}}}"))
    assert " twice in 't.json'" in rejected(spark, tmp_path, '[{"user_id": 0},\n{"user_id": 1, "user_id": 2}]', options=MANY)
    text = '{"user_id": 1, "rating": 5}\n{"user_id": 2, "Rating": 4}\n'
    assert "in 't.json' in another case. Spark would read it as null: write it alike" in rejected(spark, tmp_path, text)


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.core
@pytest.mark.parametrize(
    ("name", "values", "shown"),
    [
        ("user_id", ('"7"', "7"), "7"),
        ("item_id", ('"7"', "7.5"), "7.5"),
        ("model", ('"true"', "true"), "true"),
        ("items", ('["7"]', '["x, 7", 7]'), '["x, 7",7]'),
        ("items", ('[{"item_id": "7", "score": 1}]', '[{"item_id": 7, "score": 1}]'), '[{"item_id":7,"score":1}]'),
    ],
)
def test_ids_and_names_of_two_types(spark, tmp_path, name, values, shown):
    """Spark makes strings of numbers, so that 7 and "7" become one id."""
    text = "".join(f'{{"{name}": {value}}}\n' for value in values)
    advice = "" if name == "items" else f", or set types: {{{name}: string}} in inputs.truth"
    assert rejected(spark, tmp_path, text) == (
        f"inputs.truth: expected only strings in column {name!r}, as in other records, found {shown!r} in 't.json'. "
        f'Spark would read 7 and "7" as one value: write all alike{advice}'
    )
    if advice:
        assert read(spark, tmp_path, text, types={name: "string"}).count() == 2
    assert read(spark, tmp_path, f'{{"{name}": {values[0]}}}\n{{"{name}": null}}\n').count() == 2
    array = "[" + ",\n".join(f'{{"{name}": {value}}}' for value in values) + "]"
    assert f"found {shown!r} in 't.json'" in rejected(spark, tmp_path, array, options=MANY)


@pytest.mark.heavy
@pytest.mark.spark
def test_a_column_that_records_lack_is_null_there(spark, tmp_path):
    text = '{"user_id": "a", "item_id": "x", "rating": 4}\n{"user_id": "b", "item_id": "x"}\n'
    truth = read(spark, tmp_path, text)
    assert_rows(truth, [("x", 4, "a"), ("x", None, "b")], "item_id string, rating bigint, user_id string")
    lists = spark.createDataFrame([("a", "x", 0.5)], "user_id string, item_id string, score double")
    with pytest.raises(srm.DataError, match=r"truth: nan_ratings: 1 row \(50 %\)"):
        srm.evaluate(lists, truth, metrics="hit", n_buckets=2)


@pytest.mark.spark
def test_columns_have_the_given_types(spark, tmp_path):
    text = '{"user_id": 7, "item_id": 3.0, "rating": "4.5"}\n{"user_id": "8", "item_id": 4, "rating": 4}\n'
    frame = read(spark, tmp_path, text, types={"user_id": "string", "item_id": "bigint", "rating": "float"})
    assert_rows(frame, [(3, 4.5, "7"), (4, 4.0, "8")], "item_id bigint, rating float, user_id string")
