"""The methods of splitting: cases, and what holds for any table."""

from __future__ import annotations

import math
import random as chance
from datetime import date, datetime, timezone

import pytest
from chispa_rows import assert_rows
from pyspark.sql import functions as F
from split_data import RATINGS, assert_sides, days

import spark_recmetrics as srm
from spark_recmetrics import splits
from spark_recmetrics.errors import ConfigError, DataError
from spark_recmetrics.splits.methods_spark import checked_share

# Cases --------------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_s1_a_global_cut_may_take_all_rows_of_a_user(spark):
    rows = spark.createDataFrame(days(*(("u1", d) for d in range(1, 5)), *(("u2", d) for d in range(5, 9))), RATINGS)
    split = splits.temporal(rows, cut=5)
    sides = {"train": [("u1", d) for d in range(1, 5)], "test": [("u2", d) for d in range(5, 9)]}
    assert_sides(split, sides, "user_id", "timestamp")
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
    assert_sides(splits.temporal(rows, cut=500), {"train": [499], "test": [500, 501]}, "timestamp")


@pytest.mark.spark
def test_s3_one_of_two_last_rows_is_left_out_and_always_the_same(spark):
    rows = [("u1", "x", 1, 0.0), ("u1", "y", 9, 1.0), ("u1", "z", 9, 2.0), ("u1", "z", 9, 3.0)]
    for order in (rows, rows[::-1]):
        frame = spark.createDataFrame(order, RATINGS).repartition(3, "rating")
        # The items break ties of the times, and the other columns break ties of the items.
        sides = {"train": [("x", 0.0), ("y", 1.0), ("z", 3.0)], "test": [("z", 2.0)]}
        assert_sides(splits.leave_one_out(frame), sides, "item_id", "rating")


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
@pytest.mark.core
def test_ties_depend_neither_on_the_type_of_ids_nor_on_the_order_of_columns(spark):
    """As strings, 9 is greater than 10. Rows with the same user and item differ only in b and a."""
    numbers = spark.createDataFrame(
        [(1, 9, 5, 0, 0), (1, 10, 5, 0, 0), (2, 7, 5, 1, 2), (2, 7, 5, 2, 1)],
        "user_id int, item_id int, timestamp int, b int, a int",
    )
    strings = numbers.withColumns({name: F.col(name).cast("string") for name in ("user_id", "item_id")})
    turned = numbers.select(*reversed(numbers.columns))
    expected = [(1, 9, 0, 0), (2, 7, 2, 1)]  # by a, which is the first column by its name
    for frame in (numbers, strings, turned):
        for by, time in (("time", None), ("hash", None), ("hash", "timestamp")):
            test = splits.leave_one_out(frame, by=by, time=time).test
            rows = sorted((int(row["user_id"]), int(row["item_id"]), row["b"], row["a"]) for row in test.collect())
            assert rows[by == "hash" :] == expected[by == "hash" :]
    with pytest.raises(DataError, match=r"^rows: expected column names that differ not only in case, found A, a: rename"):
        splits.leave_one_out(numbers.withColumn("b", F.lit(1)).withColumnRenamed("b", "A"))


HALF_PAST_ONE = datetime(2026, 3, 29, 1, 30, tzinfo=timezone.utc)


@pytest.mark.heavy
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
    assert_sides(split, expected, "item_id")
    assert (split.report.max_train_time, split.report.min_test_time) == ("2026-03-29T01:30:00+00:00", f"{later}+00:00")
    walls = splits.temporal(rows, cut=f"{later}+00:00", time="wall", zone="Europe/Berlin")
    assert_sides(walls, expected, "item_id")
    assert_sides(splits.temporal(rows, cut="2026-03-30", time="day"), expected, "item_id")
    assert_sides(splits.temporal(rows, test_share=0.67), expected, "item_id")
    # A hash of the ids does not depend on their type.
    for frame in (rows, rows.withColumn("item_id", F.col("item_id").cast("string"))):
        hashed = splits.random(frame, test_share=0.5, seed=1)
        assert_sides(hashed, {"train": [moment + 1], "test": [moment, moment + 2]}, "us")


# What holds for any table -------------------------------------------------------------------------------------------------


def table(seed, n_rows=400):
    """Users with few and many rows, many equal times, and repeated rows."""
    draw = chance.Random(seed)
    rows = [(f"u{int(30 * draw.random() ** 2)}", f"i{draw.randrange(20)}", draw.randrange(25), float(n)) for n in range(n_rows)]
    few = [(f"few{n}", f"i{m}", m, float(n_rows + 9 * n + m)) for n in (1, 2, 3) for m in range(n)]
    return [*rows, *rows[:5], *few]


SIDES = ("train", "test", "left_out")


def report_of(rows, side_of):
    """The counts of the report, in plain Python."""
    sides = {name: [row for row, side in zip(rows, side_of, strict=True) if side == name] for name in SIDES}
    train, test = sides["train"], sides["test"]
    users, items = ([{row[n] for row in side} for side in (train, test)] for n in (0, 1))
    last = {user: max(row[2] for row in train if row[0] == user) for user in users[0]}
    first = {user: min(row[2] for row in test if row[0] == user) for user in users[1]}
    return {
        "n_rows": len(rows),
        **{f"n_{side}_rows": len(of_side) for side, of_side in sides.items()},
        **{f"n_{side}_users": len(of_side) for side, of_side in zip(("train", "test"), users, strict=True)},
        **{f"n_{side}_items": len(of_side) for side, of_side in zip(("train", "test"), items, strict=True)},
        "n_cold_users": len(users[1] - users[0]),
        "n_cold_items": len(items[1] - items[0]),
        "n_future_users": sum(last[user] > first[user] for user in users[0] & users[1]),
        "max_train_time": str(max(row[2] for row in train)),
        "min_test_time": str(min(row[2] for row in test)),
    }


def of_users(rows, side):
    """By user, how many rows are on a side, and how many there are."""
    sizes = {}
    for row in rows:
        sizes.setdefault(row[0], []).append(row[-1] == side)
    return {user: (sum(on_side), len(on_side)) for user, on_side in sizes.items()}


def check_temporal(rows, result, report):
    cut = int(report["cut"])
    assert all((row[2] >= cut) == (row[-1] == "test") for row in result)
    share = {t: sum(row[2] >= t for row in rows) / len(rows) for t in {row[2] for row in rows}}
    assert cut == min(t for t, later in share.items() if later <= 0.3)
    assert report["n_future_users"] == report["n_short_users"] == 0


def check_leave_n_out(rows, result, report):
    sizes = of_users(result, "test")
    assert {in_test for in_test, n in sizes.values() if n > 3} == {3}
    assert {in_test for in_test, n in sizes.values() if n <= 3} == {0}
    assert report["n_short_users"] == sum(n <= 3 for _, n in sizes.values()) > 0
    for user in sizes:
        last = [row[2:0:-1] for row in result if row[0] == user and row[-1] == "test"]
        assert all(row[2:0:-1] <= min(last, default=row[2:0:-1]) for row in result if row[0] == user and row[-1] == "train")


def check_leave_n_out_by_hash(rows, result, report):
    assert {in_test for in_test, n in of_users(result, "test").values() if n > 3} == {3}
    assert report["n_future_users"] > 0


def check_random(rows, result, report):
    # Within four standard deviations of a binomial; the rows that repeat a pair move together, hence the distinct ones.
    pairs = {row[:2]: row[-1] for row in result}
    assert abs(sum(side == "test" for side in pairs.values()) - 0.25 * len(pairs)) < 4 * math.sqrt(len(pairs) * 0.25 * 0.75)
    assert all(pairs[row[:2]] == row[-1] for row in result)


def check_random_per_user(rows, result, report):
    sizes = of_users(result, "test")
    assert all(in_test == 29 * n // 100 for in_test, n in sizes.values())
    assert report["n_short_users"] == sum(n < 4 for _, n in sizes.values()) > 0


def check_minima(rows, result, report):
    few = {row[0] for row in rows if sum(other[0] == row[0] for other in rows) < 8}
    rare = {row[1] for row in rows if sum(other[1] == row[1] for other in rows) < 21}
    assert few
    assert rare
    assert all((row[-1] == "left_out") == (row[0] in few or row[1] in rare) for row in result)
    sizes = of_users([row for row in result if row[-1] != "left_out"], "test")
    assert all(in_test == (n > 1) for in_test, n in sizes.values())


METHODS = {
    "temporal": (lambda rows: splits.temporal(rows, test_share=0.3), check_temporal),
    "leave_n_out": (lambda rows: splits.leave_n_out(rows, n=3), check_leave_n_out),
    "leave_n_out by hash": (
        lambda rows: splits.leave_n_out(rows, n=3, by="hash", seed=5, time="timestamp"),
        check_leave_n_out_by_hash,
    ),
    "random": (lambda rows: splits.random(rows, test_share=0.25, seed=1), check_random),
    "random per user": (
        lambda rows: splits.random(rows, test_share=0.29, seed=1, per_user=True, time="timestamp"),
        check_random_per_user,
    ),
    "minima": (lambda rows: splits.leave_one_out(rows, min_user_rows=8, min_item_rows=21), check_minima),
}


@pytest.mark.by_turns
@pytest.mark.spark
@pytest.mark.parametrize("method", METHODS)
def test_any_order_and_partitions_of_the_rows_give_the_same_split(spark, method):
    (call, check), rows, results = METHODS[method], table(3), []
    for n, order in ((1, rows), (5, chance.Random(0).sample(rows, len(rows)))):
        frame = spark.createDataFrame(order, RATINGS).repartition(n, "rating")
        split = call(frame)
        assert split.rows.columns == [*frame.columns, "side"]
        assert split.train.columns == split.test.columns == frame.columns
        results.append(sorted(tuple(row) for row in split.rows.collect()))
    assert results[0] == results[1]
    # Every row is on exactly one side, unchanged.
    assert sorted(row[:-1] for row in results[0]) == sorted(rows)
    report = split.report.to_dict()
    expected = report_of([row[:-1] for row in results[0]], [row[-1] for row in results[0]])
    if report["max_train_time"] is None:
        expected |= dict.fromkeys(("n_future_users", "max_train_time", "min_test_time"))
    assert {key: report[key] for key in expected} == expected
    check(rows, results[0], report)


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.parametrize("per_user", [False, True])
def test_folds_are_disjoint_and_cover_all_rows(spark, per_user):
    rows = table(4)
    shuffled = chance.Random(1).sample(rows, len(rows))
    results = []
    for n, order in ((1, rows), (4, shuffled)):
        frame = spark.createDataFrame(order, RATINGS).repartition(n, "rating")
        folds = splits.k_fold(frame, n_folds=3, seed=2, per_user=per_user, time="timestamp", min_user_rows=3)
        results.append(sorted((tuple(row) for row in folds.rows.collect()), key=str))
    assert results[0] == results[1]
    assert sorted(row[:-1] for row in results[0]) == sorted(rows)
    assert {row[-1] for row in results[0]} == {0, 1, 2, None}
    for fold, report in enumerate(folds.reports):
        side_of = ["left_out" if row[-1] is None else "test" if row[-1] == fold else "train" for row in results[0]]
        expected = report_of([row[:-1] for row in results[0]], side_of)
        assert {key: report.to_dict()[key] for key in expected} == expected
        assert (report.fold, report.n_short_users) == (fold, 0)
    train, test = folds.folds[1]
    assert_rows(test, [row[:-1] for row in results[0] if row[-1] == 1])
    assert train.columns == test.columns == frame.columns
    for user in {row[0] for row in results[0] if row[-1] is not None}:
        sizes = [sum(row[0] == user and row[-1] == fold for row in results[0]) for fold in range(3)]
        assert not per_user or max(sizes) - min(sizes) <= 1


@pytest.mark.spark
def test_another_seed_is_another_split(spark):
    rows = spark.createDataFrame(table(5), RATINGS)
    tests = [splits.leave_one_out(rows, by="hash", seed=seed).test.select("rating").collect() for seed in (1, 2)]
    assert len(tests[0]) == len(tests[1])
    assert sorted(tests[0]) != sorted(tests[1])


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


# Errors ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: splits.temporal(None), "expected either cut or test_share, found neither"),
        (lambda: splits.temporal(None, cut=1, test_share=0.1), "expected either cut or test_share, found both"),
        (lambda: splits.temporal(None, test_share=1), "test_share: expected a number above 0 and below 1, found 1"),
        (lambda: splits.random(None, test_share=1e-9), "test_share: expected a share from 1e-06 to 1 - 1e-06, found 1e-09"),
        (lambda: splits.leave_n_out(None, n=0), "n: expected an integer of at least 1, found 0"),
        (lambda: splits.leave_n_out(None, by="tmie"), "by: expected one of time, hash, found 'tmie'; did you mean "),
        (lambda: splits.random([1, 2]), "rows: expected a Spark DataFrame, found builtins.list"),
        (lambda: splits.random(None, columns="x"), "columns: expected srm.Columns(...), found str"),
        (lambda: splits.random(None, per_user="no"), "per_user: expected True or False, found 'no'"),
        (lambda: splits.k_fold(None, per_user=0), "per_user: expected True or False, found 0"),
        (lambda: splits.random(None, seed=1.5), "seed: expected a 64-bit integer, found 1.5"),
        (lambda: splits.k_fold(None, n_folds=1), "n_folds: expected an integer of at least 2, found 1"),
    ],
)
def test_wrong_options(call, message):
    with pytest.raises(ConfigError) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_shares_are_exact():
    assert checked_share(0.29) * 100 == 29


@pytest.mark.spark
def test_options_that_do_not_fit_the_table(spark):
    rows = spark.createDataFrame(days(("a", 1), ("a", 2)), RATINGS)
    wall = rows.withColumn("timestamp", F.lit("2026-01-01").cast("timestamp_ntz"))
    for call, message in (
        (lambda: splits.temporal(rows, cut=1, zone="Mars"), "zone: expected the name of a time zone such as "),
        (lambda: splits.temporal(rows, cut=1, zone="UTC"), "zone: expected none, because the times are integers, found 'U"),
        (lambda: splits.temporal(wall, cut="2026-01-01"), "zone: expected the time zone of column 'timestamp'"),
        (lambda: splits.temporal(rows, cut="2026-01-01T00:00Z"), "cut: expected an integer, like the times, found "),
        (lambda: splits.temporal(rows, cut=2**63), "cut: expected a 64-bit integer, found 92233720"),
        (lambda: splits.temporal(rows, cut=1, time=None), "time: expected the name of a column, found None"),
        (lambda: splits.random(rows, min_user_rows=0), "min_user_rows: expected an integer of at least 1, found 0"),
    ):
        with pytest.raises(ConfigError) as caught:
            call()
        assert str(caught.value).startswith(message)
