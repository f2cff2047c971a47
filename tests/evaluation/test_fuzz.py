"""What is thrown at the entry points, however malformed, ends in a documented error or in a right answer, and in nothing else.

The dice are seeded, so a run throws the same as every other one; a failure names the throw.
"""

from __future__ import annotations

import copy
import json
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from job_data import load

from spark_recmetrics.conventions import CHOICES, CONVENTIONS
from spark_recmetrics.job import cli
from spark_recmetrics.metrics import DEFINITIONS
from spark_recmetrics.request.arguments import POLICIES

# Malformed configurations -------------------------------------------------------------------------------------------------

PLACES = {"predictions": {"path": "/p"}, "truth": {"path": "/t"}}
SMALLEST: dict[str, Any] = {"inputs": PLACES, "output": {"path": "/out"}}
BASES: tuple[dict[str, Any], ...] = (
    SMALLEST,
    {
        "job": "nightly-2.0",
        "as_of": "2026-11-28",
        "inputs": {
            "predictions": {"path": "/p/{as_of}", "format": "csv", "options": {"sep": ";"}},
            "rating_predictions": {"table": "main.recs.ratings"},
            "truth": {"path": "s3://b/{as_of}/*.{csv,txt}", "format": "csv", "options": {"header": "true"}},
            "train": {"table": "a.b"},
            "catalog": 4000,
            "cast_ids": "string",
        },
        "columns": {"user": "customer id", "item": "sku", "score": "s", "rating": "r", "model": "m", "rank": "place"},
        "model_name": "модель 1",
        "evaluation": {
            "top_k": [5, 10],
            "metrics": ["ndcg", "map@3", "rmse", "auc", "f1(beta=0.5)@20"],
            "complex_metrics": [{"name": "f1", "params": {"metric_name_1": "ndcg", "metric_name_2": "map", "beta": 0.5}}],
            "threshold": 4.0,
            "convention": {"name": "warprec", "users": "truth", "users_by_metric": {"f1": "predicted"}, "beta": 2.0},
            "n_buckets": 8,
        },
        "checks": {"null_ids": "drop", "short_lists": "warn"},
        "output": {"table_prefix": "main.recs.nightly_", "format": "delta"},
    },
    {
        "inputs": {
            "models": {
                "als": {"predictions": {"path": "/als"}, "rating_predictions": {"path": "/alsr"}},
                "v1.2": {"predictions": {"table": "c.d.v"}},
            },
            "truth": {"path": "/t", "format": "delta"},
            "catalog": {"path": "/items", "format": "csv"},
        },
        "evaluation": {"k": 3, "metrics": ["mcc", "lauc", "hit"], "convention": "ranx"},
        "output": {"path": "/out", "format": "orc"},
    },
)


class Raw(str):
    """Text that stands in the file as it is, in every language."""

    __slots__ = ()


def nested(depth: int, inside: Any = None) -> Any:
    for level in range(depth):
        inside = [inside] if level % 2 else {"a": inside}
    return inside


NUMBERS: tuple[Any, ...] = (
    *(0, -1, 1, 7, 10_000_000, 10_000_001, 2**31, 2**63, 2**64, 10**15, 10**15 + 1, 10**30, -(10**30), 10**309, 10**4000),
    *(0.0, -0.0, 0.5, 1.0, 2.5, 1e-320, 1e308, -1e308, math.nan, math.inf, -math.inf),
    *(Raw("0x" + "f" * 5000), Raw("1" * 5000), Raw("1e999"), Raw("-.inf"), Raw("0o17"), Raw("010"), Raw("1_000"), Raw("+5")),
)
TEXTS: tuple[Any, ...] = (
    *(
        "",
        " ",
        "x",
        "default",
        "\t",
        "\n",
        "a\nb",
        "\x00",
        "\x1b[31m",
        "\x7f",
        "\x85",
        "a\u2028b",
        "\u202eabc",
        "\ufeff",
        "\ud800",
    ),
    *("ü", "e\u0301", "日本", "٣", "²", "\U0001f600", "\U0010ffff", "x" * 101, "x" * 10_000, "a" * 100 + "b"),
    *(
        "null",
        "true",
        "no",
        "~",
        "1",
        "1e3",
        ".nan",
        "2026-11-28",
        "12:30:45",
        "=",
        "<<",
        "*a",
        "&a",
        "!!str",
        "%YAML",
        "---",
        "...",
    ),
    *(
        "..",
        ".",
        "/",
        "../../etc/x",
        "a/b",
        "C:\\x",
        "{as_of}",
        "{as_off}",
        "{}",
        "{{as_of}}",
        "{a,b}",
        "${HOME}",
        "%s",
        "'",
        '"',
        "`",
    ),
    *(
        "ndcg@0",
        "f1(",
        "f1(f1(f1))",
        "ndcg@",
        "@5",
        "ndcg(gain=)",
        "spark.sql.x",
        "string",
        "error",
        "drop",
        "__class__",
        "self",
    ),
)
OTHERS: tuple[Any, ...] = (
    *(None, True, False, [], {}, [None], [[]], [{}], {"": 1}, {"a": 1}, {"name": "default"}, {"path": "/x"}, {"table": "t"}),
    *(["ndcg"], [1, 2], [1, "1"], ["a", "a"], {"spark": 1}, {"\n": 1}, {"\ud800": 1}, {"x" * 500: 1}, {"a.b": 1}, {"[0]": 1}),
    *(nested(5), nested(39), nested(41), nested(300), [0] * 2000, {"path": {"path": "/x"}}, {"predictions": {"path": "/x"}}),
    *(
        Raw("2026-11-28"),
        Raw("12:30:45"),
        Raw("nan"),
        Raw("inf"),
        Raw("null"),
        Raw("{}"),
        Raw("[]"),
        Raw("''"),
        Raw("?"),
        Raw("'"),
    ),
)
ODD = (*NUMBERS, *TEXTS, *OTHERS)


@dataclass(frozen=True)
class Thrown:
    """A file with the arguments beside it. Where `wrong` is true, nobody could take it for a configuration."""

    kind: str
    content: bytes
    suffix: str = ".yaml"
    arguments: tuple[str, ...] = ()
    wrong: bool = False


def as_json(value: Any) -> str:
    """JSON, which is YAML, too; with whatever a language has no form for."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {as_json(item)}" for key, item in value.items()) + "}"
    return "[" + ", ".join(map(as_json, value)) + "]" if isinstance(value, list) else json.dumps(value)


def as_toml(value: Any, top: bool = True) -> str:
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        pairs = [f"{as_toml(key, False)} = {as_toml(item, False)}" for key, item in value.items()]
        return "\n".join(pairs) + "\n" if top else "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(as_toml(item, False) for item in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else json.dumps(value)


def as_yaml(value: Any) -> str:
    """In lines, each value in the form of JSON."""

    def lines(of: dict[str, Any], depth: int) -> Iterator[str]:
        for key, item in of.items():
            head = "  " * depth + json.dumps(key) + ":"
            if isinstance(item, dict) and item and depth < 3:
                yield head
                yield from lines(item, depth + 1)
            else:
                yield f"{head} {as_json(item)}"

    return "\n".join(lines(value, 0)) + "\n"


LANGUAGES: dict[str, Callable[[Any], str]] = {".yaml": as_yaml, ".yml": as_json, ".json": as_json, ".toml": as_toml}


def written(rng: random.Random, kind: str, value: Any, *arguments: str, wrong: bool = False) -> Thrown:
    suffix = rng.choice([*LANGUAGES, ".yaml"])
    return Thrown(kind, LANGUAGES[suffix](value).encode("utf-8", "surrogatepass"), suffix, arguments, wrong)


def every_place(value: Any, keys: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*keys, key)
        yield from every_place(item, (*keys, key))


def holder_of(value: Any, keys: tuple[Any, ...]) -> Any:
    for key in keys[:-1]:
        value = value[key]
    return value


def misspelt(rng: random.Random, key: str) -> str:
    place = rng.randrange(len(key))
    return rng.choice(
        [
            key[:place] + key[place + 1 :],
            key[:place] + "q" + key[place:],
            key.upper(),
            f" {key}",
            f"{key} ",
            f"{key}\u200b",
            "'",
        ]
    )


def odd_values(rng: random.Random) -> Iterator[Thrown]:
    """Any value at any place."""
    for base in BASES:
        for keys in every_place(base):
            for value in rng.sample(ODD, 7):
                changed = copy.deepcopy(base)
                holder_of(changed, keys)[keys[-1]] = value
                yield written(rng, "value", changed)


FREE = {
    ("inputs", "models"),
    ("inputs", "truth", "options"),
    ("inputs", "predictions", "options"),
    ("evaluation", "convention", "users_by_metric"),
}
"""Mappings with keys of the user's own, or with names of metrics, which have many spellings."""


def odd_keys(rng: random.Random) -> Iterator[Thrown]:
    """Keys that are misspelt, unknown, missing, or given twice."""
    for base in BASES:
        sections = [(), *(keys for keys in every_place(base) if isinstance(holder_of(base, keys)[keys[-1]], dict))]
        for keys in (keys for keys in every_place(base) if isinstance(keys[-1], str)):
            changed = copy.deepcopy(base)
            own = holder_of(changed, keys)
            for new in {misspelt(rng, keys[-1]) for _ in range(2)} - set(own) - {""}:
                moved = copy.deepcopy(base)
                holder_of(moved, keys)[new] = holder_of(moved, keys).pop(keys[-1])
                yield written(rng, "misspelt key", moved, wrong=keys[:-1] not in FREE)
            del own[keys[-1]]
            yield written(rng, "missing key", changed)
            text = as_json(base)
            found = f"{json.dumps(keys[-1])}: "
            twice = text.replace(found, f"{found}null, {found}", 1)
            yield Thrown("key given twice", twice.encode(), rng.choice([".json", ".yaml"]), wrong=True)
        for keys in sections:
            for key in rng.sample(
                ["x", "", "spark", "spark.sql.shuffle.partitions", "<<", "_target_", "$ref", "0", "self", "\n"], 4
            ):
                changed = copy.deepcopy(base)
                section = holder_of(changed, (*keys, ""))
                section[key] = rng.choice([1, "x", None, {}, {"a": 1}])
                yield written(rng, "unknown key", changed, wrong=keys not in FREE or key.startswith("spark"))


def damaged(rng: random.Random) -> Iterator[Thrown]:
    """Files that are cut, or have characters and bytes where none belong."""
    bits = [
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\x00",
        b"\x07",
        b"\x1b",
        b"\t",
        b"\r",
        b"\xc2\x85",
        b"\xe2\x80\xa8",
        b"\xef\xbb\xbf",
    ]
    marks = [
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b"- ",
        b"\n",
        b"'",
        b'"',
        b"&a ",
        b"*a ",
        b"!x ",
        b"!!int ",
        b"| ",
        b"> ",
        b"# ",
        b"? ",
        b"%",
    ]
    for base in BASES:
        for suffix, language in LANGUAGES.items():
            content = language(base).encode()
            for _ in range(14):
                yield Thrown("cut", content[: rng.randrange(len(content))], suffix)
            for _ in range(18):
                place, new = rng.randrange(len(content)), rng.choice(bits + marks)
                yield Thrown("inserted", content[:place] + new + content[place:], suffix)
            for _ in range(8):
                place = rng.randrange(len(content))
                yield Thrown("overwritten", content[:place] + rng.choice(bits + marks) + content[place + 1 :], suffix)
            yield Thrown("byte order mark", b"\xef\xbb\xbf" + content, suffix)
            yield Thrown("other encoding", content.decode().encode("utf-16"), suffix, wrong=True)
            yield Thrown("line ends", content.replace(b"\n", b"\r\n"), suffix)
            yield Thrown("two documents", content + b"\n---\n" + content, suffix, wrong=True)
            yield Thrown("unknown language", content, rng.choice([".txt", "", ".yaml~", ".ini"]), wrong=True)
    for suffix in LANGUAGES:
        for content in (
            b"",
            b" ",
            b"\n\n",
            b"\t",
            b"# x",
            b"null",
            b"[]",
            b"{}",
            b"1",
            b"''",
            b"---",
            b"...",
            b"\xef\xbb\xbf",
            b"\x00",
        ):
            yield Thrown("empty", content, suffix, wrong=True)


READABLE = ("job: !!int 1_0", "job: >", "job: x\u2028")
"""Odd YAML that may be read: to YAML 1.1, a line separator ends a line."""


def odd_yaml(rng: random.Random) -> Iterator[Thrown]:
    """What YAML has beyond JSON."""
    text = as_yaml(SMALLEST)
    for more in (
        *(
            "job: &a x\nas_of: *a",
            "columns: &c {user: u}\nevaluation: *c",
            "<<: {job: x}",
            "<<: [{job: x}]",
            "? [job]\n: x",
            "? {a: b}",
        ),
        *(
            "evaluation: &e\n  k: *e",
            "columns:\n  <<: {user: u}",
            "!!str job: x\njob: y",
            "? job\n: x\n? job\n: y",
            "'job': x\njob: y",
        ),
        *("? !!python/name:os.system x\n: 1", "evaluation: !!set {k}", "evaluation: !!omap [k: 5]", "evaluation: !!map [k]"),
        *(
            "job: !!python/object/apply:os.system [id]",
            "job: !<tag:yaml.org,2002:python/none> x",
            "job: !!timestamp 2026-11-28",
        ),
        *(
            "job: !!int 1_0",
            "job: !!int x",
            "evaluation: {k: !!int '٣x'}",
            "evaluation: {threshold: !!float x}",
            "job: !!bool perhaps",
        ),
        *(
            "job: !!null x",
            "job: !!binary eA==",
            "evaluation: {k: !!int ''}",
            "evaluation: {k: !!int 0x}",
            "evaluation: {k: !!int '-'}",
        ),
        *("evaluation: {n_buckets: 0o9}", "evaluation: {threshold: 1:30}", "job: |\n  x\n  y", "job: >\n  x", 'job: "\\x00"'),
        *(
            "\tjob: x",
            "job:\tx\n\tas_of: y",
            "job: x\n as_of: y",
            "job: [x",
            "job: {x",
            'job: "x',
            "job: 'x",
            "- job",
            "job: - x",
            "job: x: y",
        ),
        *(
            "evaluation: {metrics: [ndcg, map,, hit]}",
            "evaluation: {metrics: [*]}",
            "job: @x",
            "job: `x",
            "job: %x",
            "%TAG ! x\njob: x",
        ),
        *(
            'job: "\\ud800"',
            'job: "\\U00110000"',
            'job: "\\q"',
            "job: \ufeffx",
            "job: x\u2028as_of: y",
            "evaluation: {metrics: {ndcg: 1}}",
        ),
        *(f"job: {'[' * n}{']' * n}" for n in (39, 41, 1000)),
        *(f"job: {'{a: ' * n}{'}' * n}" for n in (39, 41, 1000)),
    ):
        yield Thrown("YAML", f"{text}{more}\n".encode("utf-8", "surrogatepass"), wrong=not more.startswith(READABLE))
    for tag in ("str", "int", "float", "bool", "null", "map", "seq", "set", "binary", "timestamp", "python/tuple", "x"):
        for value in ("x", "1", "''", "[]", "{}", "~", ".nan", "٣", "1" * 5000):
            key = rng.choice(["job", "evaluation", "inputs", "evaluation.k", "as_of", "model_name", "checks"])
            section, _, inside = key.partition(".")
            yield Thrown(
                "tag", f"{text}{section}: {f'{{{inside}: ' if inside else ''}!!{tag} {value}{'}' if inside else ''}\n".encode()
            )


def odd_overrides(rng: random.Random) -> Iterator[Thrown]:
    """--set of every kind."""
    keys = [
        "job",
        "evaluation.k",
        "evaluation.metrics[0]",
        "inputs.truth.path",
        "inputs.truth.options['a.b']",
        "columns.user",
        "checks.x",
    ]
    paths = [
        *keys,
        "",
        ".",
        "a..b",
        "[0]",
        "a[",
        "a[x]",
        "a[-1]",
        "a[999999999]",
        "a[9999999999]",
        "['']",
        "a['",
        "a'b",
        "\ud800",
        "\x00",
    ]
    paths += [
        "evaluation.metrics[5]",
        "job.x",
        "job[0]",
        "inputs[0]",
        "spark.x",
        " job",
        "job ",
        "日本",
        "a" * 5000,
        ".".join("a" * 60),
    ]
    values = [text for text in TEXTS if isinstance(text, str)] + [str(value) for value in NUMBERS if isinstance(value, Raw)]
    values += [
        "[",
        "]",
        "{",
        "}",
        "[1, 2",
        "{a: 1, a: 1}",
        "[*a]",
        "[!!python/name:os.system x]",
        "{a: &b 1}",
        "'x",
        '"\\ud800"',
        "[" * 500,
    ]
    for _ in range(260):
        chosen = [
            f"{rng.choice(paths)}{rng.choice(['=', '=', '=', ' = ', '==', ''])}{rng.choice(values)}"
            for _ in range(rng.choice([1, 1, 3]))
        ]
        yield written(rng, "--set", rng.choice(BASES), *(f"--set={text}" for text in chosen))
    for key in [*keys, "inputs", "output", "evaluation", "evaluation.convention.gain", "inputs.catalog", "as_of", "model_name"]:
        for value in rng.sample(values, 8):
            yield written(rng, "--set", rng.choice(BASES), f"--set={key}={value}")


def odd_days(rng: random.Random) -> Iterator[Thrown]:
    """--as-of of every kind, and paths with placeholders."""
    for text in (text for text in TEXTS if isinstance(text, str)):
        wrong = not re.fullmatch(r"[A-Za-z0-9._:+-]{1,100}", text) or not text.strip("._")
        yield written(rng, "--as-of", rng.choice(BASES), f"--as-of={text}", wrong=wrong)
    for path in (
        "{as_of}",
        "/x/{as_of}/{as_of}",
        "{ as_of }",
        "{AS_OF}",
        "{as_of",
        "as_of}",
        "{{as_of}}",
        "{date}",
        "{a,b}",
        "{1}",
        "{}",
        "{é}",
    ):
        for keys in (("inputs", "truth", "path"), ("output", "path"), ("inputs", "predictions", "path")):
            changed = copy.deepcopy(SMALLEST)
            holder_of(changed, keys)[keys[-1]] = path
            yield written(rng, "placeholder", changed, *rng.choice([(), ("--as-of=2026-11-28",), ("--as-of={as_of}",)]))


def odd_metrics(rng: random.Random) -> Iterator[Thrown]:
    """Metric texts: right ones with something taken out or put in, and pieces in any order."""
    pieces = [
        *rng.sample(sorted(DEFINITIONS), 8),
        "f1(",
        "(",
        ")",
        ",",
        "=",
        "@",
        "5",
        "0",
        "-1",
        "1e9",
        "beta",
        "gain",
        "linear",
        " ",
        "٣",
        "\n",
    ]
    right = [
        "ndcg@10",
        "f1(ndcg, map, beta=0.5)@20",
        "ndcg(gain=exponential, idcg=all)@5",
        "rbp(p=0.5)",
        "ctr(estimator=dr)",
        "rmse",
    ]
    for _ in range(220):
        text = rng.choice(right)
        if rng.random() < 0.5:
            place = rng.randrange(len(text))
            text = text[:place] + rng.choice(["", *pieces]) + text[place + rng.choice([0, 1]) :]
        else:
            text = "".join(rng.choices(pieces, k=rng.randint(1, 6)))
        changed = copy.deepcopy(SMALLEST)
        changed["inputs"]["catalog"] = 99
        if rng.random() < 0.2:
            params = {
                "metric_name_1": text,
                "metric_name_2": "map",
                "beta": rng.choice([0.5, 0, -1, math.nan, "x", 10**400, None]),
            }
            changed["evaluation"] = {"metrics": [], "complex_metrics": [{"name": rng.choice(["f1", text]), "params": params}]}
        else:
            changed["evaluation"] = {"metrics": [text], "k": rng.choice([5, [], [1, 1], 10_000_000])}
        yield written(rng, "metric", changed)


def odd_rules(rng: random.Random) -> Iterator[Thrown]:
    """Conventions with odd options, and checks with odd policies."""
    for option in (
        *CHOICES,
        "threshold",
        "beta",
        "entropy_base",
        "users_by_metric",
        "name",
        "self",
        "overrides",
        "options",
        "__init__",
    ):
        for value in rng.sample(ODD, 5):
            chosen = {"name": rng.choice([*CONVENTIONS, "nobody"]), option: value}
            yield written(rng, "convention", {**SMALLEST, "evaluation": {"convention": chosen}})
    for metric in ("f1", "NDCG", "ndcg@5", "f1(ndcg, map)", "nobody", "", "\n", "1"):
        for users in ("all", "al", 1, None, ["all"]):
            chosen = {"users_by_metric": {metric: users}}
            yield written(rng, "convention", {**SMALLEST, "evaluation": {"convention": chosen}}, wrong=users != "all")
    for check in (*POLICIES, "duplicates", "nan_scores", "null_id", "", "\n"):
        for policy in (*rng.sample(ODD, 3), "drop", "DROP", "warn", ["drop"]):
            right = check in POLICIES and isinstance(policy, str) and policy in POLICIES[check]
            yield written(
                rng, "checks", {**SMALLEST, "checks": {check: policy}}, wrong=not right and not isinstance(policy, Raw)
            )


THROWERS = (odd_values, odd_keys, damaged, odd_yaml, odd_overrides, odd_days, odd_metrics, odd_rules)


def ended_well(path: Path, thrown: Thrown, capsys: pytest.CaptureFixture[str]) -> int:
    """The exit code, after what a user saw with it was looked at."""
    path.write_bytes(thrown.content)
    given = ["--config", str(path), *thrown.arguments]
    code = cli.main(["validate-config", *given])
    out, err = capsys.readouterr()
    assert code in (0, 2)
    if code:
        assert out == ""
        lines = err.removesuffix("\n").split("\n")
        # Each line names the file with its line and key, or the argument.
        places = tuple(f"error: {start}" for start in (path, "--set ", "--as-of "))
        assert all(line.startswith(places) and ": " in line[7:] and line.isprintable() for line in lines), err
        assert "Traceback" not in err
        assert max(map(len, lines)) < 20_000
        return code
    assert cli.main(["explain-config", *given]) == 0
    explained, warned = capsys.readouterr()
    assert err == warned == ""
    hashed = re.search(r"^# config_hash: ([0-9a-f]{16})$", explained, re.MULTILINE)
    assert hashed is not None
    assert f"valid, configuration {hashed[1]}, " in out
    resolved = path.with_name("resolved.yaml")
    resolved.write_text(explained, encoding="utf-8")
    assert load(resolved).hash == hashed[1]
    resolved.write_text(json.dumps(yaml.safe_load(explained), allow_nan=False), encoding="utf-8")
    assert not thrown.wrong
    return code


@pytest.mark.heavy
@pytest.mark.parametrize("throw", THROWERS, ids=lambda throw: throw.__name__)
def test_malformed_configurations(
    throw: Callable[[random.Random], Iterator[Thrown]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ends: Counter[int] = Counter()
    failures = []
    for thrown in throw(random.Random(throw.__name__)):
        try:
            ends[ended_well(tmp_path / f"c{thrown.suffix}", thrown, capsys)] += 1
        except (Exception, SystemExit) as error:  # noqa: BLE001, PERF203 - whatever came out is the finding
            capsys.readouterr()
            what = f"{thrown.kind}{thrown.suffix} {thrown.arguments} {thrown.content[:300]!r}"
            failures.append(f"{what}: {type(error).__name__}: {str(error)[:300]}")
    assert failures == []
    THROWN[throw.__name__] = ends


THROWN: dict[str, Counter[int]] = {}


@pytest.mark.heavy
def test_enough_was_thrown_and_both_ends_were_met() -> None:
    """Nothing is proved where all are refused, or all accepted."""
    if len(THROWN) < len(THROWERS):
        pytest.skip("only some of the throws above have run")
    total = sum(THROWN.values(), Counter[int]())
    assert total.total() >= 2000
    assert total[2] > 0.6 * total.total()
    assert total[0] > 0.05 * total.total()
    assert all(ends[2] for ends in THROWN.values()), THROWN
