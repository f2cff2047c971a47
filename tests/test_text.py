"""How values look in messages."""

from __future__ import annotations

from datetime import datetime

import numpy as np

from spark_recmetrics.errors import without_extra
from spark_recmetrics.text import brief, counted, did_you_mean, json_text, printable


def test_brief():
    assert brief("a\nb") == repr("a\nb")
    assert brief(10**5000) == "int too long to be written"
    assert (len(brief("x" * 1000)), brief("x" * 1000)[-3:]) == (60, "...")


def test_counted():
    assert [counted(n, "metric") for n in (0, 1, 2)] == ["0 metrics", "1 metric", "2 metrics"]


def test_printable():
    assert printable("als\nerror: no such\u2028model\u2029\x00é") == "als�error: no such�model��é"


def test_did_you_mean_shows_at_most_200_names():
    text = did_you_mean("x", [f"name{n:03}" for n in range(203)])
    assert text.endswith("name199, and 3 more")


def test_did_you_mean():
    assert did_you_mean("ndgc", ["map", "ndcg"]) == "; did you mean 'ndcg'?"
    assert did_you_mean("NDGC", ["Map", "nDCG"]) == "; did you mean 'nDCG'?"
    assert did_you_mean("x", ["ndcg", "map"]) == "; known: map, ndcg"
    assert did_you_mean("x", []) == ""


def test_json_text():
    value = {"value": float("nan"), "at": datetime(2026, 11, 28), 1: (np.int64(2), None)}  # noqa: DTZ001 - as in tables
    assert json_text(value) == '{"value": null, "at": "2026-11-28T00:00:00", "1": [2, null]}'


def test_a_missing_extra():
    assert without_extra("plots need matplotlib", "report") == (
        "plots need matplotlib, found none: install the extra report, pip install 'jinja2>=3.1' 'matplotlib>=3.8'"
    )
