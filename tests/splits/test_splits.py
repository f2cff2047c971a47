"""Splits: the cases, what must hold for any table, and the job. Every look at a result is a Spark job, so looks are shared."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random as chance
import re
from datetime import date, datetime, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
import yaml
from pyspark.sql import functions as F

import spark_recmetrics as srm
from spark_recmetrics import splits
from spark_recmetrics.errors import ConfigError, DataError
from spark_recmetrics.job.cli import RESULT_MARK, main
from spark_recmetrics.job.files.split_config import OPTIONS, SplitConfig, SplitOptions, load_split
from spark_recmetrics.splits.times_spark import Clock
from spark_recmetrics.storage import write as storage_write
from spark_recmetrics.storage.schemas import RUN_COLUMNS, SPLIT_REPORT, SPLIT_TABLES

CONF = Path(__file__).resolve().parents[2] / "conf"
RATINGS = "user_id string, item_id string, timestamp bigint, rating double"


def days(*rows):
    """Rows of (user, day), each with an item of its own."""
    return [(user, f"i{n}", day, float(n)) for n, (user, day) in enumerate(rows)]


def landed(split, *names):
    """By side, the sorted values of some columns."""
    found = {}
    for row in split.rows.select(*names, "side").collect():
        found.setdefault(row["side"], []).append(tuple(row)[:-1] if len(names) > 1 else row[0])
    return {side: sorted(values) for side, values in found.items()}


# Cases --------------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_s1_a_global_cut_may_take_all_rows_of_a_user(spark):
    rows = spark.createDataFrame(days(*(("u1", d) for d in range(1, 5)), *(("u2", d) for d in range(5, 9))), RATINGS)
    split = splits.temporal(rows, cut=5)
    assert landed(split, "user_id", "timestamp") == {
        "train": [("u1", d) for d in range(1, 5)],
        "test": [("u2", d) for d in range(5, 9)],
    }
    report = split.report
    assert report == splits.SplitReport(
        method="temporal(cut='5')",
        fold=None,
        cut="5",
        n_rows=8,
        n_train_rows=4,
        n_test_rows=4,
        n_left_out_rows=0,
        n_train_users=1,
        n_test_users=1,
        n_train_items=4,
        n_test_items=4,
        n_cold_users=1,
        n_cold_items=4,
        n_short_users=0,
        n_future_users=0,
        max_train_time="4",
        min_test_time="5",
    )
    assert report.warnings == ["1 of 1 users in test have no row in train", "4 of 4 items in test have no row in train"]
    assert str(report) == "train: 4 rows, 1 users, 4 items, until 4\ntest: 4 rows, 1 users, 4 items, from 5"


@pytest.mark.spark
def test_s2_rows_at_the_cut_are_in_test(spark):
    rows = spark.createDataFrame(days(("a", 499), ("a", 500), ("b", 501)), RATINGS)
    assert landed(splits.temporal(rows, cut=500), "timestamp") == {"train": [499], "test": [500, 501]}


@pytest.mark.spark
def test_s3_one_of_two_last_rows_is_left_out_and_always_the_same(spark):
    rows = [("u1", "x", 1, 0.0), ("u1", "y", 9, 1.0), ("u1", "z", 9, 2.0), ("u1", "z", 9, 3.0)]
    found = []
    for order in (rows, rows[::-1]):
        frame = spark.createDataFrame(order, RATINGS).repartition(3, "rating")
        found.append(landed(splits.leave_one_out(frame), "item_id", "rating"))
    # The items break the tie of the times, and what is left the other columns.
    assert found == [{"train": [("x", 0.0), ("y", 1.0), ("z", 3.0)], "test": [("z", 2.0)]}] * 2


@pytest.mark.spark
@pytest.mark.once
@pytest.mark.core
def test_ties_depend_neither_on_the_type_of_ids_nor_on_the_order_of_columns(spark):
    """As numbers 10 is greater than 9, and as texts 9 than 10; and rows that repeat user and item differ in b and a only."""
    numbers = spark.createDataFrame(
        [(1, 9, 5, 0, 0), (1, 10, 5, 0, 0), (2, 7, 5, 1, 2), (2, 7, 5, 2, 1)],
        "user_id int, item_id int, timestamp int, b int, a int",
    )
    texts = numbers.withColumns({name: F.col(name).cast("string") for name in ("user_id", "item_id")})
    turned = numbers.select(*reversed(numbers.columns))
    expected = [(1, 9, 0, 0), (2, 7, 2, 1)]  # by a, which is the first column by its name
    for frame in (numbers, texts, turned):
        for by, time in (("time", None), ("hash", None), ("hash", "timestamp")):
            test = splits.leave_one_out(frame, by=by, time=time).test
            rows = sorted((int(row["user_id"]), int(row["item_id"]), row["b"], row["a"]) for row in test.collect())
            assert rows[by == "hash" :] == expected[by == "hash" :]
    with pytest.raises(
        DataError, match=r"^rows: expected columns with different names in any case, found A, a: rename or drop"
    ):
        splits.leave_one_out(numbers.withColumn("b", F.lit(1)).withColumnRenamed("b", "A"))


HALF_PAST_ONE = datetime(2026, 3, 29, 1, 30, tzinfo=timezone.utc)
ZONED = [
    ("2026-03-29T01:30:00+00:00", None),
    ("2026-03-29T01:30Z", None),
    ("2026-03-28T21:30:00-04:00", "Asia/Tokyo"),
    (HALF_PAST_ONE, None),
    ("2026-03-29T01:30", "UTC"),
    ("2026-03-29T03:30", "Europe/Berlin"),
    ("2026-03-28T21:30", "America/New_York"),
    (datetime(2026, 3, 28, 21, 30), "America/New_York"),  # noqa: DTZ001 - that it has no zone is the point
]


@pytest.mark.parametrize(("cut", "zone"), ZONED)
def test_s4_the_same_moment_written_in_many_ways(cut, zone):
    assert Clock("instant", zone).cut(cut) == HALF_PAST_ONE.timestamp() * 1_000_000


@pytest.mark.spark
@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_s4_neither_time_zone_nor_ansi_mode_of_the_session_matters(spark, zone, ansi):
    spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    moment = int(HALF_PAST_ONE.timestamp()) * 1_000_000
    rows = spark.createDataFrame([(f"u{n % 2}", n, moment + n) for n in range(3)], "user_id string, item_id int, us bigint")
    wall = F.make_timestamp_ntz(*(F.lit(n) for n in (2026, 3, 29, 3, 30)), F.col("item_id") / F.lit(1_000_000))
    rows = rows.select("*", F.timestamp_micros("us").alias("timestamp"), wall.alias("wall"))
    rows = rows.withColumn("day", F.date_add(F.lit(date(2026, 3, 29)), F.col("item_id")))
    expected = {"train": [0], "test": [1, 2]}
    later = "2026-03-29T01:30:00.000001"
    split = splits.temporal(rows, cut=later, zone="UTC")
    assert landed(split, "item_id") == expected
    assert (split.report.max_train_time, split.report.min_test_time) == ("2026-03-29T01:30:00+00:00", f"{later}+00:00")
    walls = splits.temporal(rows, cut=f"{later}+00:00", time="wall", zone="Europe/Berlin")
    assert landed(walls, "item_id") == expected
    assert landed(splits.temporal(rows, cut="2026-03-30", time="day"), "item_id") == expected
    assert landed(splits.temporal(rows, test_share=0.67), "item_id") == expected
    # A hash of the ids does not ask for their type either.
    texts = rows.withColumn("item_id", F.col("item_id").cast("string"))
    hashed = [landed(splits.random(frame, test_share=0.5, seed=1), "us") for frame in (rows, texts)]
    assert hashed[0] == hashed[1] == {"train": [moment + 1], "test": [moment, moment + 2]}


# What holds for any table -------------------------------------------------------------------------------------------------


def table(seed, n_rows=400):
    """Users with few and with many rows, many equal times, and repeated rows."""
    draw = chance.Random(seed)
    rows = [(f"u{int(30 * draw.random() ** 2)}", f"i{draw.randrange(20)}", draw.randrange(25), float(n)) for n in range(n_rows)]
    few = [(f"few{n}", f"i{m}", m, float(n_rows + 9 * n + m)) for n in (1, 2, 3) for m in range(n)]
    return [*rows, *rows[:5], *few]


METHODS = {
    "temporal": lambda rows: splits.temporal(rows, test_share=0.3),
    "leave_n_out": lambda rows: splits.leave_n_out(rows, n=3),
    "leave_n_out by hash": lambda rows: splits.leave_n_out(rows, n=3, by="hash", seed=5, time="timestamp"),
    "random": lambda rows: splits.random(rows, test_share=0.25, seed=1),
    "random per user": lambda rows: splits.random(rows, test_share=0.29, seed=1, per_user=True, time="timestamp"),
    "minima": lambda rows: splits.leave_one_out(rows, min_user_rows=8, min_item_rows=21),
}


def looked_at(rows, side_of):
    """The report, in plain Python."""
    sides = {
        side: [row for row, own in zip(rows, side_of, strict=True) if own == side] for side in ("train", "test", "left_out")
    }
    train, test = sides["train"], sides["test"]
    users, items = ([{row[n] for row in side} for side in (train, test)] for n in (0, 1))
    last = {user: max(row[2] for row in train if row[0] == user) for user in users[0]}
    first = {user: min(row[2] for row in test if row[0] == user) for user in users[1]}
    return {
        "n_rows": len(rows),
        **{f"n_{side}_rows": len(own) for side, own in sides.items()},
        **{f"n_{side}_users": len(own) for side, own in zip(("train", "test"), users, strict=True)},
        **{f"n_{side}_items": len(own) for side, own in zip(("train", "test"), items, strict=True)},
        "n_cold_users": len(users[1] - users[0]),
        "n_cold_items": len(items[1] - items[0]),
        "n_future_users": sum(last[user] > first[user] for user in users[0] & users[1]),
        "max_train_time": str(max(row[2] for row in train)),
        "min_test_time": str(min(row[2] for row in test)),
    }


@pytest.mark.by_turns
@pytest.mark.spark
@pytest.mark.parametrize("method", METHODS)
def test_any_order_and_partitions_of_the_rows_give_the_same_split(spark, method):
    rows = table(3)
    found = []
    for n, order in ((1, rows), (5, chance.Random(0).sample(rows, len(rows)))):
        frame = spark.createDataFrame(order, RATINGS).repartition(n, "rating")
        split = METHODS[method](frame)
        assert split.rows.columns == [*frame.columns, "side"]
        assert split.train.columns == split.test.columns == frame.columns
        found.append(sorted(tuple(row) for row in split.rows.collect()))
    assert found[0] == found[1]
    # Every row lands on exactly one side, unchanged.
    assert sorted(row[:-1] for row in found[0]) == sorted(rows)
    report = split.report.to_dict()
    expected = looked_at([row[:-1] for row in found[0]], [row[-1] for row in found[0]])
    if report["max_train_time"] is None:
        expected |= dict.fromkeys(("n_future_users", "max_train_time", "min_test_time"))
    assert {key: report[key] for key in expected} == expected
    globals()[f"check_{method.replace(' ', '_')}"](rows, found[0], report)


def of_users(found, side):
    sizes = {}
    for row in found:
        sizes.setdefault(row[0], []).append(row[-1] == side)
    return {user: (sum(own), len(own)) for user, own in sizes.items()}


def check_temporal(rows, found, report):
    cut = int(report["cut"])
    assert all((row[2] >= cut) == (row[-1] == "test") for row in found)
    share = {t: sum(row[2] >= t for row in rows) / len(rows) for t in {row[2] for row in rows}}
    assert cut == min(t for t, later in share.items() if later <= 0.3)
    assert report["n_future_users"] == report["n_short_users"] == 0


def check_leave_n_out(rows, found, report):
    sizes = of_users(found, "test")
    assert {in_test for in_test, n in sizes.values() if n > 3} == {3}
    assert {in_test for in_test, n in sizes.values() if n <= 3} == {0}
    assert report["n_short_users"] == sum(n <= 3 for _, n in sizes.values()) > 0
    for user in sizes:
        last = [row[2:0:-1] for row in found if row[0] == user and row[-1] == "test"]
        assert all(row[2:0:-1] <= min(last, default=row[2:0:-1]) for row in found if row[0] == user and row[-1] == "train")


def check_leave_n_out_by_hash(rows, found, report):
    assert {in_test for in_test, n in of_users(found, "test").values() if n > 3} == {3}
    assert report["n_future_users"] > 0


def check_random(rows, found, report):
    # Within four standard deviations of a binomial; the rows that repeat a pair move together, hence the distinct ones.
    pairs = {row[:2]: row[-1] for row in found}
    assert abs(sum(side == "test" for side in pairs.values()) - 0.25 * len(pairs)) < 4 * math.sqrt(len(pairs) * 0.25 * 0.75)
    assert all(pairs[row[:2]] == row[-1] for row in found)


def check_random_per_user(rows, found, report):
    sizes = of_users(found, "test")
    assert all(in_test == 29 * n // 100 for in_test, n in sizes.values())
    assert report["n_short_users"] == sum(n < 4 for _, n in sizes.values()) > 0


def check_minima(rows, found, report):
    few = {row[0] for row in rows if sum(other[0] == row[0] for other in rows) < 8}
    rare = {row[1] for row in rows if sum(other[1] == row[1] for other in rows) < 21}
    assert few
    assert rare
    assert all((row[-1] == "left_out") == (row[0] in few or row[1] in rare) for row in found)
    sizes = of_users([row for row in found if row[-1] != "left_out"], "test")
    assert all(in_test == (n > 1) for in_test, n in sizes.values())


@pytest.mark.by_turns
@pytest.mark.spark
@pytest.mark.parametrize("per_user", [False, True])
def test_folds_are_disjoint_and_cover_all_rows(spark, per_user):
    rows = table(4)
    shuffled = chance.Random(1).sample(rows, len(rows))
    found = []
    for n, order in ((1, rows), (4, shuffled)):
        frame = spark.createDataFrame(order, RATINGS).repartition(n, "rating")
        folds = splits.k_fold(frame, n_folds=3, seed=2, per_user=per_user, time="timestamp", min_user_rows=3)
        found.append(sorted((tuple(row) for row in folds.rows.collect()), key=str))
    assert found[0] == found[1]
    assert sorted(row[:-1] for row in found[0]) == sorted(rows)
    assert {row[-1] for row in found[0]} == {0, 1, 2, None}
    for fold, report in enumerate(folds.reports):
        side_of = ["left_out" if row[-1] is None else "test" if row[-1] == fold else "train" for row in found[0]]
        expected = looked_at([row[:-1] for row in found[0]], side_of)
        assert {key: report.to_dict()[key] for key in expected} == expected
        assert (report.fold, report.n_short_users) == (fold, 0)
    train, test = folds.folds[1]
    assert sorted(tuple(row) for row in test.collect()) == sorted(row[:-1] for row in found[0] if row[-1] == 1)
    assert train.columns == test.columns == frame.columns
    for user in {row[0] for row in found[0] if row[-1] is not None}:
        sizes = [sum(row[0] == user and row[-1] == fold for row in found[0]) for fold in range(3)]
        assert not per_user or max(sizes) - min(sizes) <= 1


@pytest.mark.spark
def test_another_seed_is_another_split(spark):
    rows = spark.createDataFrame(table(5), RATINGS)
    one, other = (landed(splits.leave_one_out(rows, by="hash", seed=seed), "rating")["test"] for seed in (1, 2))
    assert len(one) == len(other)
    assert one != other


@pytest.mark.spark
def test_odd_names_and_columns_without_an_order_are_kept(spark):
    rows = spark.createDataFrame(
        [(1, 2, 3, {"a": 1}, [1]), (1, 2, 3, {"b": 1}, [2]), (1, 1, 1, None, None)],
        "`a.b` int, `c``d` int, `my time` int, tags map<string,int>, list array<int>",
    )
    columns = srm.Columns(user="a.b", item="c`d")
    split = splits.leave_one_out(rows, time="my time", columns=columns, min_item_rows=2)
    assert split.rows.schema.fields[:-1] == rows.schema.fields
    assert [row["list"] for row in split.test.collect()] == [[1]]
    assert (split.report.n_left_out_rows, split.report.n_train_rows, split.report.n_test_rows) == (1, 1, 1)


# What is refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clock", "cut", "told"),
    [
        (Clock("instant"), "2026-03-29T01:30", "cut: '2026-03-29T01:30' has no zone: write one behind it, such as "),
        (Clock("instant"), "2026-03-29", "cut: '2026-03-29' has no zone: "),
        (
            Clock("wall", "Europe/London"),
            "2026-03-29T01:30",
            "cut: the clocks of Europe/London are changed at '2026-03-29T01:30'",
        ),
        (Clock("instant", "Europe/Berlin"), "2026-10-25T02:30", "cut: the clocks of Europe/Berlin are changed at "),
        (Clock("instant"), "tomorrow", "cut: expected a time such as 2026-03-29T01:30:00+00:00, found 'tomorrow'"),
        (Clock("instant"), "", "cut: expected a time such as "),
        (Clock("instant"), 500, "cut: expected a time such as 2026-03-29T01:30:00+00:00, found 500"),
        (Clock("number"), "500", "cut: expected a whole number, as the times are, found '500'"),
        (Clock("number"), True, "cut: expected a whole number, as the times are, found True"),
        (Clock("number"), 2**63, "cut: expected a whole number of 64 bits, found 9223372036854775808"),
        (Clock("number"), -(10**40), "cut: expected a whole number of 64 bits, found -1000000000"),
        *(
            (clock, pd.NaT, "cut: expected a time such as ")
            for clock in (Clock("instant"), Clock("wall", "UTC"), Clock("date"))
        ),
        (
            Clock("wall", "Europe/Berlin"),
            "9999-12-31T23:59:59Z",
            "cut: expected a time that the clocks of Europe/Berlin show in the years 1 to 9999, found '9999-12-31T23:59:59Z'",
        ),
        (Clock("wall", "America/New_York"), "0001-01-01T00:00Z", "cut: expected a time that the clocks of America/New_York "),
        *(
            (
                Clock(kind, "UTC"),
                datetime(2026, 3, 29, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")),
                "cut: the clocks of Europe/Berlin skip '2026-03-29 02:30:00+01:00': write it in UTC, such as ",
            )
            for kind in ("instant", "wall")
        ),
        (Clock("date"), "2026-03-29T00:00Z", "cut: expected a date such as 2026-03-29, as the times are, found "),
    ],
)
def test_wrong_cuts(clock, cut, told):
    with pytest.raises(ConfigError) as caught:
        clock.cut(cut)
    assert str(caught.value).startswith(told)


def test_times_of_a_clock_come_back():
    moment = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone.utc)
    assert Clock("instant").cut(moment) == -1
    assert Clock("instant").text(-1) == moment.isoformat()
    assert Clock("date").text(Clock("date").cut(date(1960, 2, 29))) == "1960-02-29"
    assert Clock("instant").text(10**18) == str(10**18)
    # One of the two clocks that show it is meant by its fold; and the first and last hours are not in every zone.
    fall = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert Clock("instant").cut(fall.replace(fold=1)) - Clock("instant").cut(fall) == 3600 * 1_000_000
    for edge in ("0001-01-01T00:00+14:00", "9999-12-31T23:59:59-12:00"):
        assert Clock("instant").cut(edge) == Clock("instant").cut(datetime.fromisoformat(edge))
    assert Clock("number").cut(2**63 - 1) == 2**63 - 1


@pytest.mark.spark
def test_wrong_options_and_tables_are_told(spark):
    rows = spark.createDataFrame(days(("a", 1), ("a", 2)), RATINGS)
    other = rows.select("user_id", "item_id", F.col("rating").alias("timestamp"))
    wall = rows.withColumn("timestamp", F.lit("2026-01-01").cast("timestamp_ntz"))
    nulls = spark.createDataFrame([(None, "x", 1, 1.0), ("a", "x", None, 1.0), ("a", "y", 2, 1.0)], RATINGS)
    calls = [
        (lambda: splits.temporal(rows), ConfigError, "expected either cut or test_share, found neither"),
        (lambda: splits.temporal(rows, cut=1, test_share=0.1), ConfigError, "expected either cut or test_share, found both"),
        (
            lambda: splits.temporal(rows, test_share=1),
            ConfigError,
            "test_share: expected a number above 0 and below 1, found 1",
        ),
        (lambda: splits.random(rows, test_share=1e-9), ConfigError, "test_share: expected a share of at least 1e-06, "),
        (lambda: splits.temporal(rows, cut=1, zone="Mars"), ConfigError, "zone: expected the name of a time zone such as "),
        (lambda: splits.temporal(wall, cut="2026-01-01"), ConfigError, "zone: expected the time zone of column 'timestamp'"),
        (lambda: splits.temporal(rows, cut="2026-01-01T00:00Z"), ConfigError, "cut: expected a whole number"),
        (lambda: splits.leave_n_out(rows, n=0), ConfigError, "n: expected a whole number from 1, found 0"),
        (
            lambda: splits.leave_n_out(rows, by="tmie"),
            ConfigError,
            "by: expected one of time, hash, found 'tmie'; did you mean ",
        ),
        (lambda: splits.random([1, 2]), ConfigError, "rows: expected a Spark DataFrame, found builtins.list"),
        (lambda: splits.random(rows, columns="x"), ConfigError, "columns: expected srm.Columns(...), found str"),
        (lambda: splits.temporal(rows, cut=2**63), ConfigError, "cut: expected a whole number of 64 bits, found 92233720"),
        (lambda: splits.random(rows, per_user="no"), ConfigError, "per_user: expected True or False, found 'no'"),
        (lambda: splits.k_fold(rows, per_user=0), ConfigError, "per_user: expected True or False, found 0"),
        (lambda: splits.random(rows, seed=1.5), ConfigError, "seed: expected a whole number of 64 bits, found 1.5"),
        (lambda: splits.k_fold(rows, n_folds=1), ConfigError, "n_folds: expected a whole number from 2, found 1"),
        (lambda: splits.random(rows, min_user_rows=0), ConfigError, "min_user_rows: expected a whole number from 1, found 0"),
        (lambda: splits.temporal(rows, cut=1, time="tme"), DataError, "rows: no column 'tme' (columns.time); known: "),
        (lambda: splits.random(rows.drop("user_id")), DataError, "rows: no column 'user_id' (columns.user)"),
        (
            lambda: splits.temporal(other, cut=1),
            DataError,
            "rows: column 'timestamp' (columns.time): expected a timestamp, a date ",
        ),
        (
            lambda: splits.random(rows.withColumn("Side", F.lit(1))),
            DataError,
            "rows: expected no column side, which the split adds",
        ),
        (
            lambda: splits.temporal(nulls, cut=1),
            DataError,
            "rows: expected user, item, time in every row, found 1 without a user ('user_id' is null), 1 without a time ('tim",
        ),
        (
            lambda: splits.temporal(nulls, test_share=0.5),
            DataError,
            "rows: expected user, item, time in every row, found 1 without a user",
        ),
        (lambda: splits.random(rows.where("rating < 0")), DataError, "rows: expected at least one row, found none"),
        (
            lambda: splits.temporal(rows.where("rating < 0"), test_share=0.5),
            DataError,
            "rows: expected at least one row, found none",
        ),
        (
            lambda: splits.random(rows, min_user_rows=3),
            DataError,
            "rows: expected at least one row, found 2 rows, and in none enough",
        ),
        (
            lambda: splits.temporal(rows, test_share=0.4),
            DataError,
            "rows: expected at most 0.4 of the rows at the last time, found 1 of 2: give a larger test_share, or a cut",
        ),
    ]
    for call, kind, told in calls:
        with pytest.raises(kind) as caught:
            call()
        assert str(caught.value).startswith(told)


# The job ------------------------------------------------------------------------------------------------------------------

SMALLEST = "input: {path: /r}\nsplit: {method: random}\noutput: {path: /out}\n"


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="c.yaml"):
        path = tmp_path / name
        path.write_text(content)
        return path

    return write_file


def test_smallest_file_has_the_defaults_of_the_functions(write):
    config = load_split(write(SMALLEST))
    assert config.arguments == {"columns": srm.Columns(), "min_user_rows": 1, "min_item_rows": 1}
    assert (config.job, config.as_of, config.output) == ("split", None, srm.Output(path="/out"))


def test_documented_file_has_every_key_with_its_default(write):
    text = (CONF / "split.yaml").read_text()
    active, config = yaml.safe_load(text), load_split(CONF / "split.yaml")
    assert set(active) == set(SplitConfig.model_fields)
    assert set(active["split"]) == set(SplitOptions.model_fields)
    assert set(active["columns"]) == set(type(config.columns).model_fields)
    small = "input: {path: /data/ratings}\nsplit: {method: temporal, test_share: 0.2}\noutput: {path: /data/splits}\n"
    assert config.resolved() == load_split(write(small)).resolved()
    assert all(
        re.search(rf"\b{value}\b", text) for value in (*OPTIONS, "time", "hash", "parquet", "csv", "json", "orc", "delta")
    )
    again = load_split(write(json.dumps(config.resolved()), "r.json"))
    assert (again.hash, again.run_id) == (config.hash, config.run_id)
    assert set(OPTIONS) | {"publish"} == {name for name in splits.__all__ if name.islower()}


def test_options_of_the_file_are_those_of_the_functions():
    minima = {"min_user_rows", "min_item_rows"}
    for method, options in OPTIONS.items():
        parameters = set(getattr(splits, method).__kwdefaults__)
        assert {*options, *minima, "time", "columns"} == parameters, method


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ("split: {method: randm}", "split.method: expected one of 'temporal', 'leave_one_out', "),
        ("split: {method: random, cut: 5, n: 1}", "split.cut: not an option of random, which has test_share, seed, per_user"),
        ("split: {method: random, test_share: 2}", "split.test_share: expected a number above 0 and below 1, found 2"),
        ("split: {method: random, test_share: x}", "split.test_share: expected a finite number, found 'x'"),
        ("split: {method: random, per_user: 1}", "split.per_user: expected true or false, found 1"),
        ("split: {method: random, seed: x}", "split.seed: expected an integer, found 'x'"),
        (
            "split: {method: random, seed: 9223372036854775808}",
            "split.seed: expected a number below 9223372036854775808, found 9223372036854775808",
        ),
        (
            "split: {method: random, seed: -9223372036854775809}",
            "split.seed: expected a number of at least -9223372036854775808, found -9223372036854775809",
        ),
        ("split: {method: k_fold, n_folds: 1}", "split.n_folds: expected an integer of at least 2, found 1"),
        ("split: {method: temporal}", "split: expected either cut or test_share, found neither"),
        (
            "split: {method: temporal, cut: 1.5}",
            "split.cut: expected a time such as 2026-03-29T01:30:00+00:00, or an integer",
        ),
        ("split: {method: temporal, cut: 2026-03-29T01:30}", "split.cut: '2026-03-29T01:30' has no zone: "),
        ("split: {method: temporal, cut: 9223372036854775808}", "split.cut: expected a 64-bit integer, found 92233"),
        ("split: {method: temporal, cut: 5, zone: Mars}", "split.zone: expected the name of a time zone such as "),
        (
            "split: {method: random}\ncolumns: {user: a, item: a}",
            "columns.user and columns.item are both 'a': expected different columns",
        ),
        ("split: {method: random}\ncolumns: {usr: a}", "columns.usr: unknown key; did you mean 'user'?"),
        ("split: {method: random}\nmetrics: [ndcg]", "metrics: unknown key; known: "),
        ("split: {method: random}\nspark.x: 1", "['spark.x']: Spark settings belong in "),
    ],
)
def test_what_is_wrong_with_a_file(write, changed, line):
    with pytest.raises(ConfigError) as caught:
        load_split(write(SMALLEST.replace("split: {method: random}", changed)))
    told = str(caught.value).split("\n")[0].partition("c.yaml:")[2].partition(": ")[2]
    assert told.startswith(line)


def test_a_path_with_a_day_needs_one(write):
    path = write(SMALLEST.replace("/r", "'/{as_of}/r'"))
    with pytest.raises(ConfigError, match=r"input\.path: '/\{as_of\}/r' needs an as_of"):
        load_split(path)
    config = load_split(path, as_of="2026-11-28")
    assert config.located(config.input).path == "/2026-11-28/r"


def test_the_table_of_reports_has_the_fields_of_the_report():
    assert SPLIT_REPORT.names == [field.name for field in dataclasses.fields(splits.SplitReport)]


def test_commands_know_a_split_by_its_file(write, capsys):
    path = str(write(SMALLEST))
    assert main(["validate-config", "--config", path]) == 0
    assert capsys.readouterr().out.endswith(", random\n")
    assert main(["explain-config", "--config", path]) == 0
    assert "method: random" in capsys.readouterr().out
    assert main(["config-schema", "split"]) == 0
    assert "leave_n_out" in capsys.readouterr().out
    assert main(["split", "--config", path, "--set", "split.n=0"]) == 2
    last = json.loads(capsys.readouterr().out.splitlines()[-1].removeprefix(f"{RESULT_MARK} "))
    assert (last["exit_code"], last["error"]["type"], last["reports"]) == (2, "ConfigError", [])


@pytest.mark.spark
@pytest.mark.heavy
def test_the_job_publishes_all_tables_at_once(spark, tmp_path, write, capsys):
    spark.createDataFrame(days(*itertools.product(("u1", "u2"), range(4))), RATINGS).write.parquet(str(tmp_path / "r"))
    out = str(tmp_path / "out")
    conf = {"as_of": "2026-11-28", "input": {"path": str(tmp_path / "r")}, "output": {"path": out}}
    path = str(write(json.dumps(conf | {"split": {"method": "leave_n_out", "n": 2}}), "c.json"))
    lines = []
    for _ in range(2):  # a repeated run replaces its rows
        assert main(["split", "--config", path, "--result-json", str(tmp_path / "result.json")]) == 0
        lines.append(capsys.readouterr().out)
    outcome = json.loads(lines[1].splitlines()[-1].removeprefix(f"{RESULT_MARK} "))
    assert outcome == json.loads((tmp_path / "result.json").read_text())
    assert outcome["tables"] == {name: f"{out}/{name}" for name in ("train", "test", "split_report")}
    assert (outcome["status"], outcome["as_of"], outcome["warnings"]) == (
        "ok",
        "2026-11-28",
        ["4 of 4 items in test have no row in train"],
    )
    assert "train: 4 rows, 2 users, 4 items, until 1\ntest: 4 rows, 2 users, 4 items, from 2\n" in lines[1]
    found = srm.read_history(spark, out, table="test")
    assert found.columns == ["user_id", "item_id", "timestamp", "rating", *RUN_COLUMNS]
    assert sorted(row.timestamp for row in found.collect()) == [2, 2, 3, 3]
    # Older attempts are gone, so that a path of a configuration reads the same.
    assert spark.read.parquet(f"{out}/train/as_of=2026-11-28").count() == 4
    (report,) = srm.read_history(spark, out, table="split_report").drop(*RUN_COLUMNS).collect()
    assert report.asDict() == outcome["reports"][0]

    assert main(["split", "--config", path, "--set", 'split={"method": "k_fold", "n_folds": 2}']) == 0
    assert srm.read_history(spark, out, table="folds").where("fold is not null").count() == 8
    assert {folder.name for folder in Path(out).iterdir()} == {*SPLIT_TABLES, "runs"}
    # With a cut before all rows nothing is published, and what is there stays.
    assert main(["split", "--config", path, "--set", 'split={"method": "temporal", "cut": -5}']) == 4
    assert "expected rows on both sides, found 0 in train and 8 in test: nothing was published" in capsys.readouterr().err
    assert srm.read_history(spark, out, table="train").count() == 4


@pytest.mark.spark
@pytest.mark.once
def test_a_run_that_ends_between_its_tables_leaves_no_half_split(spark, tmp_path, monkeypatch):
    add = storage_write.add_partitions

    def interrupted(rows, output, name, partitions):
        if name == "test":
            raise KeyboardInterrupt
        add(rows, output, name, partitions)

    monkeypatch.setattr(storage_write, "add_partitions", interrupted)
    split = splits.leave_one_out(spark.createDataFrame(days(("a", 1), ("a", 2)), RATINGS))
    with pytest.raises(KeyboardInterrupt):
        splits.publish(split, srm.Output(path=str(tmp_path)))
    assert (tmp_path / "train").is_dir()
    with pytest.raises(DataError, match="expected published runs, found none"):
        srm.read_history(spark, str(tmp_path), table="train")


@pytest.mark.spark
def test_columns_of_published_tables_are_refused(spark, tmp_path):
    rows = spark.createDataFrame([("a", "x"), ("a", "y")], "user_id string, item_id string").withColumn("AS_OF", F.lit(1))
    with pytest.raises(DataError, match="rows: expected no column as_of, which published tables have: rename it first"):
        splits.publish(splits.leave_one_out(rows, by="hash"), srm.Output(path=str(tmp_path)))
