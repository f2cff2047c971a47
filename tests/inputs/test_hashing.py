"""The hash of rows in memory is Spark's: it decides which users are resampled, and fingerprints the ground truth."""

from __future__ import annotations

import math
import random
from decimal import Decimal

import pyarrow as pa
import pytest
from engines import Table

from spark_recmetrics.inputs.hashing import xxhash64

D = Decimal
# Hashes of Spark 4.2.0.
HASHED = {
    "bigint": {
        0: -5252525462095825812,
        1: -7001672635703045582,
        -1: 3858142552250413010,
        2**63 - 1: -3246596055638297850,
        -(2**63): -8619748838626508300,
        None: 42,
    },
    "int": {
        0: 3614696996920510707,
        1: -6698625589789238999,
        -1: 2017008487422258757,
        2**31 - 1: 1508894993788531228,
        -(2**31): 2073849959933241805,
    },
    "smallint": {-1: 2017008487422258757, 300: 4595878464234128934},
    "double": {
        0.0: -5252525462095825812,
        math.nan: -3127944061524951246,
        math.inf: 5810986238603807492,
        -1.5: -1519168156472177911,
    },
    "string": {
        "": -7444071767201028348,
        "a": -8582455328737087284,
        "abc": 1423657621850124518,
        "abcd": -6810745876291105281,
        "abcdefg": 3761890393722740389,
        "abcdefgh": 2470326616177429180,
        "abcdefghi": -7093207067522615973,
        "ü\U0001f600": 1614644882579009537,
        "x" * 31: -1716462135722163746,
        "x" * 32: 1299777543150008824,
        "z" * 75: 6242026424423902959,
        "a\x00": -3991939095231492476,
    },
    "decimal(10,2)": {D("1.10"): 214815589036292259, D("-1.28"): -7035553742189352530, D("0.00"): -5252525462095825812},
    "decimal(38,2)": {
        D("1.10"): -332194713362066473,
        D("-1.28"): -7898411661632158123,  # one byte, as -128
        D("-1.29"): -6459515886037897956,
        D("-327.68"): -4443336017607688062,
        D("0.00"): -8959994473701255385,
        D("1e30"): 7289449273527730619,
        D("-1e30"): -9056374827840858744,
        D("1.28"): 6715097930120473301,
        D("-2.56"): 7330825074997746532,
    },
}


def hashed(table: Table) -> list[int]:
    rows = table.arrow()
    return xxhash64(*(rows[name] for name in rows.column_names)).view("int64").tolist()


@pytest.mark.parametrize("kind", HASHED)
def test_hashes_of_spark(kind):
    assert hashed(Table(f"a {kind}", [(value,) for value in HASHED[kind]])) == list(HASHED[kind].values())


def test_negative_zero_is_zero():
    assert hashed(Table("a double", [(-0.0,)])) == [HASHED["double"][0.0]]


def test_a_null_leaves_the_hash_of_the_columns_before_it():
    rows = [(1, "a", 2.0), (None, "a", 2.0), (1, None, None)]
    expected = [638472234165385345, -6612085442043540407, HASHED["bigint"][1]]
    assert hashed(Table("a bigint, b string, c double", rows)) == expected


def test_parts_of_a_column_are_hashed_as_the_whole():
    values = ["abc", None, "a", "abcd", "", None, "ü"]
    whole = xxhash64(pa.chunked_array([values])).tolist()
    parts = pa.chunked_array([pa.array(["x", *values[:3]])[1:], pa.array([], pa.string()), pa.array(values[3:])])
    assert xxhash64(parts).tolist() == whole
    assert xxhash64(pa.chunked_array([pa.array([], pa.string())])).tolist() == []


def random_value(rng: random.Random, kind: str):
    if rng.random() < 0.1:
        return None
    if kind == "string":
        return "".join(rng.choice("aü\U0001f600\x00 9") for _ in range(rng.choice([0, 1, 3, 7, 8, 9, 31, 32, 33, 64, 100])))
    if kind == "double":
        return rng.choice([-0.0, math.nan, math.inf, rng.gauss(0, 1e10)])
    if kind.startswith("decimal"):
        digits = int(kind[len("decimal(") :].partition(",")[0])
        number = rng.randrange(-(10 ** rng.randint(1, digits)), 10 ** rng.randint(1, digits))
        return D((int(number < 0), D(abs(number)).as_tuple().digits, -2))
    bits = {"bigint": 63, "int": 31, "smallint": 15}[kind]
    return rng.randrange(-(2**bits), 2**bits)


@pytest.mark.spark
@pytest.mark.once
def test_random_rows_are_hashed_as_by_spark(spark):
    from pyspark.sql import functions as F

    rng = random.Random(0)
    kinds = list(HASHED)
    columns = [f"c{n}" for n in range(len(kinds))]
    table = Table(
        ", ".join(f"{name} {kind}" for name, kind in zip(columns, kinds, strict=True)),
        [tuple(random_value(rng, kind) for kind in kinds) for _ in range(300)],
    )
    frame = table.spark(spark)
    each = frame.select(*(F.xxhash64(name) for name in columns), F.xxhash64(*columns)).collect()
    arrow = table.arrow()
    for place, name in enumerate(columns):
        assert xxhash64(arrow[name]).view("int64").tolist() == [row[place] for row in each]
    assert hashed(table) == [row[-1] for row in each]
