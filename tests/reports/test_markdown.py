"""Results as Markdown, in which names stay plain text."""

from __future__ import annotations

import html
import math
import re

import pytest
from report_data import small_comparison, small_gates, small_result

from spark_recmetrics.reports import drawing as canvas


def test_markdown():
    result = small_result(metrics=["mrr", "rmse"], k=2)
    text = result.to_markdown(comparison=small_comparison(), gates=small_gates(result))
    half = 1.959964 / math.sqrt(12) / 2
    # popularity has the values 1/2, 1/2, 1/2, 0, with standard deviation 1/4.
    other = 1.959964 * 0.25 / 2
    level, interval = "95 % confidence interval", f"[{0.75 - half:.4f}, {0.75 + half:.4f}]"
    assert text.splitlines()[:14] == [
        "**FAIL**: gates failed: 1 of 2",
        "",
        f"- mrr@2: als is best with 0.7500 ({level} {interval}, 4 evaluated users), followed by popularity with 0.3750.",
        "- als is significantly better than popularity: mean difference 0.3750 (4 users, p &#60; .001).",
        "",
        "| result | model | gate | reason |",
        "| --- | --- | --- | --- |",
        "| PASS | als | mrr@2: min 0.5 | 0.7500 is within bounds |",
        "| FAIL | popularity | mrr@2: min 0.5 | 0.3750 is below min 0.5 |",
        "",
        "| metric | users | als | popularity |",
        "| --- | ---: | ---: | ---: |",
        f"| mrr@2 | 4 | **0.7500** {interval} | 0.3750 [{0.375 - other:.4f}, {0.375 + other:.4f}] |",
        # als has the errors 0, 1, 0, 1, popularity 1, 1, 1 and no pair of the fourth user.
        f"| rmse | 3 to 4 | **{math.sqrt(2 / 4):.4f}** (4 users) | 1.0000 (3 users) |",
    ]
    assert (
        "| popularity | als | mrr@2 | +0.3750 | [0.2500, 0.5000] | &#60;.001 | 3/1/0 | 4 | significant: als is better |" in text
    )
    assert "| a | b | metric | b - a |" in text


@pytest.mark.parametrize(
    "name",
    [
        "a|b",
        "**bold**",
        "`code`",
        "[text](http://x.y)",
        "@somebody",
        "#12",
        "<b>",
        "http://x.y",
        "www.x.y",
        "a\nb",
        "[0.2500, 0.5000](http://x.y)",
        "[0.2500, 0.5000]: http://x.y",
        "~~x~~",
        "_x_",
    ],
)
def test_a_name_is_plain_text_in_markdown(name):
    text = small_result(name, metrics=["mrr"], k=2).to_markdown()
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert [line.count("|") for line in table] == [5, 5, 5]
    cells = table[0].strip("| ").split(" | ")
    assert not re.search(r"[|*`\[\]<>#~_]|(?<!\w)@|://|www\.", re.sub(r"&#\d+;", "", "".join(cells)))
    assert {html.unescape(cell) for cell in cells} == {"metric", "users", "popularity", canvas.printable(name)}
