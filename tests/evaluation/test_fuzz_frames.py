"""Malformed frames end in a documented error, or in the numbers that the oracle gives for the rows as they are meant."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import oracle
import pandas as pd
import pytest

import spark_recmetrics as srm
from spark_recmetrics.evaluation import spark as pipeline
from spark_recmetrics.metrics import DEFINITIONS, expand, parse

D = decimal.Decimal
STRICT = srm.convention("default")
LENIENT = STRICT.override(duplicates="first", nan_scores="drop", gain="exponential", negative_gains="clip")
METRICS = expand(["ndcg", "map", "precision", "mrr", "hit", "f1"], [2, 100])

Values = dict[str, "float | None"]


def ended(throw: Callable[[], Any]) -> Values | None:
    """The values, None where the frame was refused; whatever else is raised is the finding."""
    refused: srm.RecMetricsError | None = None
    try:
        found = throw()
    except srm.RecMetricsError as error:
        refused = error
    if refused is not None:
        assert (type(refused), refused.exit_code) in ((srm.ConfigError, 2), (srm.DataError, 4))
        assert str(refused).strip()
        return None
    values = next(iter(found.to_dict().values())) if isinstance(found, srm.Result) else found
    for text, value in values.items():
        definition = DEFINITIONS[parse(text).name]
        assert value is None or not math.isnan(value)
        assert value is None or definition.lower is None or value >= definition.lower
        assert value is None or definition.upper is None or value <= definition.upper + 1e-12
    return values


# In memory ----------------------------------------------------------------------------------------------------------------

PREDICTIONS = [("u", "a", 3.0), ("u", "b", 2.0), ("u", "c", 1.0), ("v", "b", 2.0), ("v", "a", 1.0), ("w", "c", 2.0)]
TRUTH = [("u", "b", 3.0), ("u", "a", 0.0), ("v", "a", 2.0), ("v", "d", 1.0), ("x", "c", 4.0), ("w", "c", 0.5)]
RANKS = [1, 2, 3, 1, 2, 1]
N = len(PREDICTIONS)

COLUMNS: dict[str, Any] = {
    "one boolean": [True] * N,
    "booleans": [True, False] * 3,
    "dates": pd.date_range("2026-01-01", periods=N),
    "zoned": pd.date_range("2026-01-01", periods=N, tz="UTC"),
    "spans": pd.to_timedelta(range(N), unit="D"),
    "periods": pd.period_range("2026-01", periods=N, freq="M"),
    "python dates": [dt.date(2026, 1, day) for day in range(1, N + 1)],
    "complex": [complex(value, 1) for value in range(N)],
    "category": pd.Categorical(list("abcabc")),
    "category of numbers": pd.Categorical([1, 2, 3, 1, 2, 3]),
    "strings": pd.array(list("abcdab"), dtype="string"),
    "number texts": ["1", "2", "3", "4", "5", "6"],
    "nullable": pd.array([3, 2, 1, 4, 5, 6], dtype="Int64"),
    "nullable with none": pd.array([3, 2, 1, 4, 5, None], dtype="Int64"),
    "nullable floats": pd.array([0.5, None, 1, 2, 3, 4], dtype="Float64"),
    "arrow": pd.array([3, 2, 1, 4, 5, 6], dtype="int64[pyarrow]"),
    "int8": np.array([3, 2, 1, 4, 5, 6], dtype=np.int8),
    "close integers": [2**53 + 1, 2**53, 2**53 + 2, 2**53, 2**53 + 1, 2**53],
    "close unsigned": np.array([2**64 - 1, 2**64 - 2, 2**63, 2**53, 2**53 + 1, 2**53], dtype=np.uint64),
    "beyond 64 bits": [2**70, 2**70 + 1, 2**65, 1, 2, 3],
    "beyond doubles": pd.Series([10**400, 1, 2, 3, 4, 5], dtype=object),
    "decimals": [D("1.10"), D("1.1"), D("-2"), D("1E+30"), D("0"), D("-0")],
    "close decimals": [D("0.1000000000000000000001"), D("0.1000000000000000000002"), D("0.1"), D(1), D(2), D(3)],
    "decimal without a number": [D("NaN"), D("1"), D("2"), D("3"), D("4"), D("5")],
    "decimal infinity": [D("Infinity"), D("1"), D("2"), D("3"), D("4"), D("5")],
    "float32": np.array([0.1, 0.2, 0.3, 4, 5, 6], dtype=np.float32),
    "zeros": [0.0, -0.0, 0.0, -0.0, 0.0, 0.0],
    "infinite": [math.inf, -math.inf, 1.0, math.inf, 0.0, 2.0],
    "NaN": [math.nan, 1.0, 2.0, math.nan, 3.0, 4.0],
    "only NaN": [math.nan] * N,
    "only None": [None] * N,
    "some None": [None, 1, 2, 3, 4, 5],
    "texts and None": [None, "a", "b", "c", "a", "b"],
    "NA": pd.array([pd.NA] * N, dtype="object"),
    "negative": [-1, -2, -3, -1, -2, -3],
    "huge": [1e308, -1e308, 1e200, 5e-324, 1e-300, 2000.0],
    "fractions": [0.5, 1.5, 2.5, 0.5, 1.5, 0.5],
    "gaps": [1, 3, 4, 1, 2, 7],
    "all equal": [1] * N,
    "mixed": [1, "1", 2, "2", 3, "3"],
    "mixed numbers": [1, 2.5, D("3"), np.float32(4), np.int8(5), 6],
    "true and one": [True, 1, 2, 3, 4, 5],
    "lists": [[1], [2], [], [1], [2], [3]],
    "dicts": [{"a": 1}] * N,
    "sets": [{1}] * N,
    "arrays": [np.array([1, 2])] * N,
    "tuples": [(1, "a")] * N,
    "tuples of lists": [(1, [2])] * N,
    "bytes": [b"a", b"b", b"\xff", b"a", b"b", b"c"],
    "odd texts": ["", " ", "\x00", "a\x00b", "\U0001f600", "e\u0301"],
    "surrogates": ["\ud800", "\udfff", "a", "b", "c", "d"],
    "long texts": ["x" * 100_000, "x" * 99_999, "a", "b", "c", "d"],
    "objects": [object() for _ in range(N)],
    "functions": [len] * N,
}


def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    predictions = pd.DataFrame(PREDICTIONS, columns=["user_id", "item_id", "score"])
    truth = pd.DataFrame(TRUTH, columns=["user_id", "item_id", "rating"])
    return predictions.assign(rank=RANKS), truth.assign(propensity=0.5)


def odd_columns() -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame, dict[str, Any]]]:
    """Every column in every type."""
    for kind, values in COLUMNS.items():
        for table, name in [
            *((0, name) for name in ("user_id", "item_id", "score", "rank", "model")),
            *((1, name) for name in ("user_id", "item_id", "rating", "propensity")),
        ]:
            both = list(frames())
            both[table] = both[table].assign(**{name: values})
            more: dict[str, Any] = {"columns": srm.Columns(rank="rank")} if name == "rank" else {}
            if name == "propensity":
                more["metrics"] = ["ess@2", "ctr(estimator=ips)@3", "hit@3"]
            yield f"{name} of {['predictions', 'truth'][table]}: {kind}", both[0], both[1], more
        predictions, truth = frames()
        yield f"ids of both: {kind}", predictions.assign(item_id=values), truth.assign(item_id=values), {}
        yield f"users of both: {kind}", predictions.assign(user_id=values), truth.assign(user_id=values), {}


def odd_shapes() -> Iterator[tuple[str, Any, Any, dict[str, Any]]]:
    """Frames that lack columns or rows, have them twice, or are no frames."""
    for table, name in ((0, "user_id"), (0, "item_id"), (0, "score"), (1, "user_id"), (1, "item_id"), (1, "rating")):
        for change in ("dropped", "renamed", "twice", "upper case"):
            both = list(frames())
            frame = both[table]
            both[table] = {
                "dropped": lambda f, n: f.drop(columns=n),
                "renamed": lambda f, n: f.rename(columns={n: f"{n}s"}),
                "twice": lambda f, n: pd.concat([f, f[[n]]], axis=1),
                "upper case": lambda f, n: f.rename(columns=str.upper),
            }[change](frame, name)
            yield f"{name} {change}", *both, {"threshold": 1.0} if name == "rating" else {}
    predictions, truth = frames()
    for table in range(2):
        for kind, frame in {
            "no columns": pd.DataFrame(),
            "rows without columns": pd.DataFrame(index=range(3)),
            "no rows": (predictions, truth)[table].iloc[:0],
            "several levels": pd.concat({"a": (predictions, truth)[table]}, axis=1),
            "numbered columns": pd.DataFrame([[1, 2, 3]]),
            "an index twice": (predictions, truth)[table].set_axis([0] * N, axis=0),
            "a series": predictions["score"],
            "an array": predictions.to_numpy(),
            "a dict": {"user_id": [1]},
            "nothing": None,
            "text": "frame",
        }.items():
            yield f"{kind}", *((frame, truth) if table == 0 else (predictions, frame)), {}
    yield "disjoint users", predictions, truth.assign(user_id=truth["user_id"] + "?"), {}
    yield "disjoint items", predictions, truth.assign(item_id=truth["item_id"] + "?"), {}
    yield "small catalogue", predictions, truth, {"metrics": ["auc", "mcc@2"], "catalog": 2}
    yield (
        "train with null",
        predictions,
        truth,
        {"metrics": ["auc"], "catalog": 9, "train": pd.DataFrame({"user_id": ["u", None], "item_id": ["z", "z"]})},
    )
    yield "repeats", pd.concat([predictions] * 2), pd.concat([truth] * 2), {}
    yield "models that look alike", predictions.assign(model=["a", "A", "a ", "1", 1, "a"]), truth, {}


def meant(table: Any, names: dict[str, str], numbers: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows of a frame for the oracle."""
    rows = [{key: row[name] for key, name in names.items() if name in row} for row in table.to_dict("records")]
    for row in rows:
        for key in numbers:
            if key in row:
                row[key] = None if pd.isna(row[key]) else row[key] if isinstance(row[key], int | D) else float(row[key])
    return rows


def as_names(models: list[Any]) -> list[str]:
    """Names of models as Spark writes them: the decimals of a column have the same number of digits after the point."""
    if isinstance(models[0], D):
        digits = max(0, *(-int(model.as_tuple().exponent) for model in models))
        return [f"{abs(model) if model == 0 else model:.{digits}f}" for model in models]
    if isinstance(models[0], float):
        return [number_name(model) for model in models]
    return [str(model).lower() if isinstance(model, bool) else str(model) for model in models]


def number_name(model: float) -> str:
    """Java's name of a number: a single-precision number has the fewest digits that tell it from its neighbours."""
    if math.isinf(model):
        return "Infinity" if model > 0 else "-Infinity"
    with np.errstate(over="ignore"):
        single = np.float32(model)
    digits, _, exponent = str(single if float(single) == model else model).partition("e")
    return f"{float(digits)}E{int(exponent)}" if exponent else digits


def by_oracle(predictions: Any, truth: Any, rules: Any, more: dict[str, Any]) -> dict[str, Values]:
    ids = {"user": "user_id", "item": "item_id"}
    rank = {"rank": "rank"} if "columns" in more else {}
    lists = meant(predictions, {**ids, "score": "score", "model": "model", **rank}, ("score",))
    judged = meant(truth, {**ids, "rating": "rating", "propensity": "propensity"}, ("rating", "propensity"))
    models = iter(as_names([row.get("model", "model") for row in lists]))
    lists = [{"model": next(models), **{k: v for k, v in row.items() if k != "model"}} for row in lists]
    # An infinite rating is a missing one, which an oracle of numbers does not say.
    judged = [row for row in judged if "rating" not in row or row["rating"] is None or math.isfinite(row["rating"])]
    for row in judged:
        row |= {key: float(row[key]) for key in ("rating", "propensity") if row.get(key) is not None}
    wanted = list(map(oracle.describe, expand(more.get("metrics", METRICS))))
    found = oracle.evaluate(lists, judged, rules, wanted).summary
    values: dict[str, Values] = {}
    for (model, metric), row in found.items():
        values.setdefault(model, {})[metric] = row["value"]
    return values


def same(found: Values, want: Values) -> bool:
    return found.keys() == want.keys() and all(
        (value is None) == (want[text] is None)
        and (value is None or math.isclose(value, want[text], rel_tol=1e-9, abs_tol=1e-12))
        for text, value in found.items()
    )


def unlike_the_oracle(result: Any, predictions: Any, truth: Any, rules: Any, more: dict[str, Any]) -> str | None:
    """What is wrong with the numbers, where the oracle can say."""
    found = result.to_dict()
    without_list = {
        fact.table.partition("/")[2] for fact in result.data_checks if fact.check == "users_with_list" and not fact.n_rows
    }
    for model in without_list:
        # Nothing is known of a model that recommends nothing, or nothing up to the cut-off.
        assert set(found.pop(model).values()) == {None}
    if not found or "catalog" in more or not isinstance(predictions["item_id"].iloc[0], str | int | np.integer | D):
        return None
    want = by_oracle(predictions, truth, rules, more)
    wrong = {model for model in found if not same(found[model], want.get(model, {}))}
    return f"{found} is not {want}" if wrong or found.keys() | without_list != want.keys() else None


@pytest.mark.heavy
@pytest.mark.parametrize("rules", [LENIENT, pytest.param(STRICT, marks=pytest.mark.heavy)], ids=["lenient", "strict"])
def test_malformed_frames_in_memory(rules: srm.Convention) -> None:
    ends: Counter[str] = Counter()
    failures = []
    for label, predictions, truth, chosen in [*odd_columns(), *odd_shapes()]:
        more = {"metrics": METRICS, **chosen}
        try:
            results: list[Any] = []

            def throw(p: Any = predictions, t: Any = truth, m: Any = more, r: Any = rules, into: Any = results) -> Any:
                into.append(srm.evaluate(p, t, convention=r, **m))
                return into[0]

            if ended(throw) is None:
                ends["refused"] += 1
                continue
            ends["accepted"] += 1
            if (beyond := unlike_the_oracle(results[0], predictions, truth, rules, more)) is not None:
                failures.append(f"{label}: {beyond}")
        except Exception as error:  # noqa: BLE001 - whatever came out is the finding
            failures.append(f"{label}: {type(error).__name__}: {str(error)[:300]}")
    assert failures == []
    assert ends.total() >= 500
    assert ends["refused"] > 0.5 * ends.total()
    assert ends["accepted"] > 0.1 * ends.total()


ODD: tuple[Any, ...] = (
    *(
        None,
        5,
        "x",
        [1],
        {},
        {"a": 1},
        math.nan,
        10**400,
        10**5000,
        True,
        [None],
        [["a"]],
        "\ud800",
        b"x",
        {5},
        range(1, 3),
        object(),
    ),
    *(
        np.array([1, 2]),
        np.int64(3),
        np.float64(2.5),
        pd.DataFrame({"user_id": [1]}),
        pd.Series([1]),
        D("1.5"),
        1j,
        float,
        (1, 2),
    ),
    *(
        (1, 2, 3, 4),
        ("i", 1.0, None),
        -math.inf,
        "",
        "\x00",
        {"x": math.nan},
        {"x": "y"},
        {"x": -1e308},
        [("x", 1.0)],
        ["x", ("y", 1.0)],
    ),
)


def odd_arguments() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every argument of the functions that need no Spark."""
    predictions, truth = frames()
    pair = {"u": ["x", "y"]}, {"u": ["y"]}
    one = srm.Evaluator(1)
    for number, odd in enumerate(ODD):

        def of(call: Callable[[Any], Any], value: Any = odd) -> Callable[[], Any]:
            return lambda: call(value)

        for name in ("metrics", "k", "threshold", "convention", "columns", "train", "catalog", "model_name"):
            more: dict[str, Any] = {"metrics": "auc", "catalog": 9} if name == "train" else {}
            yield (f"{name} {number}", of(lambda v, n=name, m=more: srm.evaluate(predictions, truth, **{**m, n: v})))
        for kind, call in {
            "k_values": lambda v: srm.Evaluator(v).evaluate(*pair),
            "metrics": lambda v: srm.Evaluator(1, v).evaluate(*pair),
            "convention": lambda v: srm.Evaluator(1, "hit", v).evaluate(*pair),
            "recommendations": lambda v: one.evaluate(v, pair[1]),
            "truth": lambda v: one.evaluate(pair[0], v),
            "recommendations of a user": lambda v: one.evaluate({"u": v}, pair[1]),
            "truth of a user": lambda v: one.evaluate(pair[0], {"u": v}),
            "recommended item": lambda v: one.evaluate({"u": [v]}, {"u": [v]}),
            "score": lambda v: one.evaluate({"u": {"x": v, "y": 1.0}}, pair[1]),
            "rating": lambda v: one.evaluate(pair[0], {"u": {"x": v, "y": 1.0}}),
            "catalogue": lambda v: srm.Evaluator(1, "auc").evaluate(*pair, catalog_size=v),
            "rated": srm.compute_metrics,
            "rated of a user": lambda v: srm.compute_metrics({"u": v}),
            "entry": lambda v: srm.compute_metrics({"u": [v]}, ["rmse", "hit"]),
            "predicted": lambda v: srm.compute_metrics({"u": [(v, 4.0)]}, ["rmse", "hit"]),
            "true": lambda v: srm.compute_metrics({"u": [(4.0, v)]}, ["rmse", "hit"]),
            "item": lambda v: srm.compute_metrics({"u": [(v, 4.0, 4.0)]}),
            "rated metrics": lambda v: srm.compute_metrics({"u": [(4.0, 4.0)]}, v),
            "rated k": lambda v: srm.compute_metrics({"u": [(4.0, 4.0)]}, "hit", v),
            "rated threshold": lambda v: srm.compute_metrics({"u": [(4.0, 4.0)]}, "hit", 5, v),
        }.items():
            yield f"{kind} {number}", of(call)


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::spark_recmetrics.errors.DataWarning")  # a warning is no failure here
def test_odd_arguments_in_memory() -> None:
    ends: Counter[bool] = Counter()
    failures = []
    for label, throw in odd_arguments():
        try:
            ends[ended(throw) is None] += 1
        except Exception as error:  # noqa: BLE001, PERF203 - whatever came out is the finding
            failures.append(f"{label}: {type(error).__name__}: {str(error)[:300]}")
    assert failures == []
    assert ends.total() >= 900
    assert ends[True] > 0.6 * ends.total()
    assert ends[False] > 0.02 * ends.total()


# On Spark, by the schema --------------------------------------------------------------------------------------------------

WHOLE = ("tinyint", "smallint", "int", "bigint")
NUMERIC = (*WHOLE, "float", "double", "decimal(1,0)", "decimal(38,0)", "decimal(38,38)")
TYPES = (
    *NUMERIC,
    *("boolean", "string", "char(5)", "varchar(5)", "binary", "date", "timestamp", "timestamp_ntz", "void"),
    *("interval day to second", "interval year to month", "interval", "map<string,int>", "struct<item_id:string>", "struct<>"),
    *("array<string>", "array<bigint>", "array<double>", "array<boolean>", "array<array<string>>", "array<map<string,int>>"),
    *("array<struct<>>", "array<struct<item_id:string>>", "array<struct<a:string,A:double>>", "array<struct<x:date,y:double>>"),
    *("array<struct<item_id:string,score:string>>", "array<struct<`a.b`:string,`c d`:decimal(10,2)>>", "array<void>"),
)
TEXT = ("string", "char(5)", "varchar(5)")
DECIMALS = tuple(kind for kind in NUMERIC if kind.startswith("decimal"))
SERVES = {
    ("predictions", "user_id"): TEXT,
    ("predictions", "item_id"): TEXT,
    ("predictions", "score"): NUMERIC,
    ("predictions", "rank"): WHOLE,
    ("truth", "user_id"): TEXT,
    ("truth", "item_id"): TEXT,
    ("truth", "rating"): NUMERIC,
    ("truth", "propensity"): NUMERIC,
    ("train", "user_id"): TEXT,
    ("catalog", "item_id"): TEXT,
    ("predictions", "items"): ("array<string>", "array<struct<item_id:string>>", "array<struct<item_id:string,score:string>>"),
}
"""Which types a column may have where the other ids are texts, as docs/inputs.md says. A column of nulls alone has no type and
serves everywhere; its rows are counted as faulty ones."""

TABLES = {
    "predictions": {"user_id": "string", "item_id": "string", "score": "double"},
    "truth": {"user_id": "string", "item_id": "string", "rating": "double", "propensity": "double"},
    "train": {"user_id": "string", "item_id": "string"},
    "catalog": {"item_id": "string"},
}


ARGUMENTS = ("metrics", "convention", "columns", "models", "model_name", "checks", "cast_ids", "n_buckets", "slices", "run")


class ReachedError(Exception):
    """The schemas were accepted, so that a job would be next."""


@pytest.fixture
def by_schema(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Whether `evaluate` refuses these frames before any job; the frames it accepts are not computed."""

    def reached(*_: Any, **__: Any) -> None:
        raise ReachedError

    monkeypatch.setattr(pipeline, "learn", reached)

    def refused(**given: Any) -> bool:
        try:
            return ended(lambda: srm.evaluate(**given)) is None
        except ReachedError:
            return False

    return refused


def table_of(spark: Any, columns: dict[str, str]) -> Any:
    """An empty table. Names may stand twice in it where they differ in blanks at their end."""
    nulls = ", ".join(f"cast(null as {kind}) as `{name.rstrip()}`" for name, kind in columns.items())
    return spark.sql(f"select {nulls} where false")


def odd_schemas(spark: Any) -> Iterator[tuple[str, dict[str, Any], dict[str, Any], bool]]:
    """Frames by their names, options, and whether they can serve."""
    right = {name: table_of(spark, columns) for name, columns in TABLES.items()}
    every = {"metrics": ["auc", "ess@3", "hit@3"], "models": ["m"]}
    for (table, name), serving in SERVES.items():
        for kind in TYPES:
            columns = {**TABLES[table], name: kind}
            if name == "items":
                del columns["item_id"], columns["score"]
            more = {**every, "columns": srm.Columns(rank="rank")} if name == "rank" else every
            more = {**more, "metrics": "hit@3"} if name == "items" else more
            yield (
                f"{table}.{name} as {kind}",
                {**right, table: table_of(spark, columns)},
                more,
                kind in (*serving, "array<void>" if name == "items" else "void"),
            )
    for table, columns in TABLES.items():
        for name in columns:
            rest = {key: kind for key, kind in columns.items() if key != name}
            # A truth table without ratings is all relevant.
            yield f"{table} without {name}", {**right, table: table_of(spark, rest or {"x": "int"})}, every, name == "rating"
            for twin in (f"{name} ", name.upper()):
                twice = {**columns, twin: columns[name]}
                yield f"{table} with {name} twice", {**right, table: table_of(spark, twice)}, every, False
        yield f"{table} without columns", {**right, table: spark.range(0).select()}, every, False
        for odd in (None, 5, "x", [], pd.DataFrame(columns=list(columns)), {"user_id": [1]}):
            if not (odd is None and table == "train") and not (isinstance(odd, int) and table == "catalog"):
                yield f"{table} of another kind", {**right, table: odd}, every, False
        stream = spark.readStream.format("rate").load()
        texts = {name: stream["value"].cast(kind).alias(name) for name, kind in columns.items()}
        yield f"{table} as a stream", {**right, table: stream.select(*texts.values())}, every, False
    for name in ("user_id", "model"):
        columns = {"user_id": "string", "items": "array<string>", "model": "string", f"{name} ": "string"}
        yield f"arrays with {name} twice", {**right, "predictions": table_of(spark, columns)}, {"metrics": "hit"}, False
    for number, odd in enumerate(ODD):
        for name in ARGUMENTS:
            empty = isinstance(odd, dict) and not odd
            serves = (odd is None and name in ("cast_ids", "models", "checks", "n_buckets")) or (
                name in ("checks", "convention") and empty
            )
            serves |= name == "n_buckets" and isinstance(odd, int | np.integer) and odd in (5, 3) and odd is not True
            serves |= name == "model_name" and odd in ("x", "\x00") if isinstance(odd, str) else False
            yield f"{name} {number}", right, {"metrics": "hit", name: odd}, serves or (name == "models" and odd == ["x"])


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.once
def test_malformed_schemas(spark: Any, by_schema: Callable[..., bool]) -> None:
    ends: Counter[bool] = Counter()
    failures = []
    for label, tables, more, serves in odd_schemas(spark):
        try:
            refused = by_schema(**tables, **more)
            ends[refused] += 1
            if refused is serves:
                failures.append(f"{label}: {'refused' if refused else 'accepted'}")
        except Exception as error:  # noqa: BLE001, PERF203 - whatever came out is the finding
            failures.append(f"{label}: {type(error).__name__}: {str(error)[:300]}")
    assert failures == []
    assert ends.total() >= 300
    assert ends[True] > 0.6 * ends.total()
    assert ends[False] > 0.05 * ends.total()


# On Spark, by the rows ----------------------------------------------------------------------------------------------------

IDS = ["", " ", "\x00", "a\x00", "a", "A", "\U0001f600", "e\u0301", "é", "x" * 70_000, "1", "1.0", "null", "NaN"]


def faulty_rows() -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]], dict[tuple[str, str], int]]:
    """Predictions and truth with odd ids and every fault of a row, and how often each is there."""
    predictions: list[tuple[Any, ...]] = []
    truth: list[tuple[Any, ...]] = []
    for place, user in enumerate(IDS):
        predictions += [("m", user, item, float((3 * n + place) % 5) - 2.0) for n, item in enumerate(IDS) if (n + place) % 3]
        truth += [(user, item, float((n + place) % 4), 0.5) for n, item in enumerate(IDS) if (n * place) % 4 == 1]
    predictions += [
        ("m", "zeros", "a", 0.0),
        ("m", "zeros", "A", -0.0),
        ("m", "zeros", "1", 5e-324),
        ("m", "zeros", "", -math.inf),
    ]
    truth += [("zeros", "A", 1.0, 1.0), ("alone", "a", 1000.0, 1e-9), ("minus", "a", -1.0, 0.5)]
    predictions += [
        ("m", None, "a", 1.0),
        ("m", "a", None, 1.0),
        (None, "a", "a", 1.0),
        ("m", "a", "nan", math.nan),
        ("m", "a", "n", None),
    ]
    truth += [
        (None, "a", 1.0, 0.5),
        ("a", None, 1.0, 0.5),
        ("a", "nan", math.nan, 0.5),
        ("a", "n", None, 0.5),
        ("a", "i", math.inf, 0.5),
    ]
    truth += [("a", f"p{n}", 1.0, chance) for n, chance in enumerate((0.0, -1.0, 1.5, math.nan, None, math.inf))]
    counted = {
        ("null_ids", "predictions"): 3,
        ("nan_scores", "predictions"): 2,
        ("null_ids", "truth"): 2,
        ("nan_ratings", "truth"): 3,
        ("bad_propensities", "truth"): 6,
    }
    return predictions, truth, counted


@pytest.mark.spark
@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["double", "decimal(20,6)"])
def test_faulty_rows_on_spark(spark: Any, kind: str) -> None:
    """All faults in one frame: each is counted, and without them the numbers are the oracle's."""
    predictions, truth, counted = faulty_rows()
    if kind != "double":
        predictions = [row for row in predictions if row[3] is None or (math.isfinite(row[3]) and abs(row[3]) != 5e-324)]
        del counted["nan_scores", "predictions"]
    lists = spark.createDataFrame(predictions, "model string, user_id string, item_id string, score double")
    lists = lists.withColumn("score", lists["score"].cast(kind))
    judged = spark.createDataFrame(truth, "user_id string, item_id string, rating double, propensity double")
    more: dict[str, Any] = {"metrics": ["ndcg@3", "map@5", "mrr", "hit@1", "ess@5"], "k": None, "n_buckets": 3, "models": ["m"]}
    with pytest.raises(srm.DataError) as caught:
        srm.evaluate(lists, judged, **more)
    assert caught.value.exit_code == 4
    facts = {(fact[0], fact[1]): fact[3] for fact in caught.value.data_checks}
    assert {key: facts[key] for key in counted} == counted
    result = srm.evaluate(lists, judged, convention=LENIENT, checks={"null_ids": "drop", "bad_propensities": "drop"}, **more)
    clean = [dict(zip(("model", "user", "item", "score"), row, strict=True)) for row in predictions if None not in row[:3]]
    kept = [dict(zip(("user", "item", "rating", "propensity"), row, strict=True)) for row in truth if None not in row]
    kept = [row for row in kept if math.isfinite(row["rating"]) and 0 < row["propensity"] <= 1]
    wanted = list(map(oracle.describe, expand(more["metrics"])))
    summary = oracle.evaluate(clean, kept, LENIENT, wanted).summary
    assert same(result.to_dict()["m"], {metric: row["value"] for (_, metric), row in summary.items()})
    assert ended(lambda: result) is not None
    result.release()
