"""Words that we do not use in prose: each has a plain English replacement, which a failure names."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYTHON = [path for folder in ("spark_recmetrics", "jobs", "examples") for path in (ROOT / folder).rglob("*.py")]
TEMPLATES = list((ROOT / "spark_recmetrics" / "reports" / "templates").glob("*.html"))
SETTINGS = [
    ROOT / "databricks.yml",
    *(
        path
        for folder in ("conf", "examples")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".yaml", ".yml", ".conf"}
    ),
]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
FILES = sorted({*PYTHON, *TEMPLATES, *SETTINGS, *PAGES})

WORDS = {
    r"told": "reported, or say who reports what",
    r"stands? (in|behind|beside)|lies? in": "is in, follows, is stored in",
    r"held against": "checked against, compared with",
    r"mend(s|ed)?": "fix, fixed",
    r"becomes? of": "how it is handled",
    r"refus(es?|ed|al)": "rejected, or raises the error",
    r"heads": "header",
    r"texts": "strings",
    r"facts": "data checks, data report",
    r"add(s|ed|ing)? up": "aggregate, sum",
    r"nobody|whoever": "no user, any user",
    r"dear": "expensive",
    r"could (show|have shown)": "minimum detectable effect",
    r"(no )?difference (was )?found": "significant, not significant",
    r"verdicts?": "result of a gate, decision",
    r"(?<!every\s)nights?": "run, previous runs, nightly run",
    r"(by|than) chance": "statistically significant",
    r"beside": "next to, in addition to, compared with",
    r"behind": "after",
    r"catalogues?|colours?|normalis\w+": "American spelling: catalog, color, normalize",
    r"whole lists?": "full list",
    r"whole numbers?": "integer",
    r"users averaged": "evaluated users",
    r"best value of the line": "best value in the row",
}
"""Patterns, and what to write instead. A pattern matches whole words, in any case."""

ALLOWED = {
    ("spark_recmetrics/diagnostics/expected.py", "by chance"),
    ("spark_recmetrics/diagnostics/preflight_spark.py", "by chance"),
    ("spark_recmetrics/reports/drawing.py", "texts"),
}
"""Files with a word in its proper sense: a random ranking has hits by chance, and a figure has texts."""

_WORD = re.compile(
    "|".join(rf"(?P<w{place}>\b(?:{pattern})\b)".replace(" ", r"\s+") for place, pattern in enumerate(WORDS)), re.IGNORECASE
)


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """The texts that a person reads, with the number of their first line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from ((number, _without_code(prose)) for number, prose in _python(text))
    elif path.suffix == ".html":
        yield 1, re.sub(r"(?s)<style>.*?</style>|\{[{%#].*?[}%#]\}|<[^>]*>", _same_lines, text)
    elif path.suffix == ".md":
        yield 1, _without_code(re.sub(r"(?ms)^```.*?^```$|\]\([^)]*\)", _same_lines, text))
    else:
        yield 1, "\n".join(line.partition("#")[2] for line in text.splitlines())


def _python(text: str) -> Iterator[tuple[int, str]]:
    """Comments, docstrings and messages; a string without a space is a name."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def _without_code(text: str) -> str:
    return re.sub(r"`[^`]*`", _same_lines, text)


def _same_lines(removed: re.Match[str]) -> str:
    return " " + "\n" * removed[0].count("\n")


def matches_in(path: Path) -> Iterator[tuple[int, re.Match[str]]]:
    """The words of a file, with the numbers of their lines."""
    for number, text in prose_of(path):
        for match in _WORD.finditer(text):
            yield number + text.count("\n", 0, match.start()), match


def failures_of(path: Path) -> list[str]:
    """A line for each word of a file that is not allowed there."""
    name = path.relative_to(ROOT).as_posix()
    advice = list(WORDS.values())
    return [
        f"{name}:{number}: {' '.join(match[0].split())}: write {advice[int(match.lastgroup.removeprefix('w'))]}"
        for number, match in sorted(matches_in(path), key=itemgetter(0))
        if (name, match[0].lower()) not in ALLOWED
    ]


def test_words_are_recognized(tmp_path):
    module = tmp_path / "module.py"
    module.write_text(
        '"""Rows.\n\nIt is told. Rows stand\nin a `verdict`."""\n\n# Whoever reads it.\ntold = 1\nx = f"{told} nights"\n'
    )
    assert sorted((number, " ".join(match[0].split())) for number, match in matches_in(module)) == [
        (3, "stand in"),
        (3, "told"),
        (6, "Whoever"),
        (8, "nights"),
    ]
    page = tmp_path / "page.md"
    page.write_text("Once\n```\nverdict\n```\nA `verdict`, a verdict, [a link](verdict.md#verdict).\nThe nightly run\n")
    assert [(number, match[0]) for number, match in matches_in(page)] == [(5, "verdict")]
    settings = tmp_path / "settings.yaml"
    settings.write_text("night: 1 # the next night\n")
    assert [match[0] for _, match in matches_in(settings)] == ["night"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_prose_has_none_of_these_words(path):
    failures = failures_of(path)
    assert not failures, "\n" + "\n".join(failures)
