"""Results as tables of text."""

from __future__ import annotations

from spark_recmetrics.reports.tables import history_table


def row_of(day, value, **fields):
    """A row of SUMMARY of the run of this day."""
    row = {"run_id": f"r{day}", "as_of": f"2026-11-{day:02}", "model": "als", "value": value, "convention": "default"}
    return row | {"config_hash": "c", "data_hash": "d", "computed_at": 0} | fields


def test_the_last_run_of_one_as_of_counts_with_its_models():
    """The first run was repeated without pop, with another configuration."""
    first = [row_of(27, value, model=model) for model, value in (("als", 0.5), ("pop", 0.25))]
    again = row_of(27, 0.75, config_hash="d", run_id="again", computed_at=1)
    others = [row_of(28, 0.75, config_hash="d"), row_of(29, 0.75, config_hash="e")]
    for rows in ([*first, again, *others], [*others, again, *first]):
        assert history_table(rows, 30).splitlines() == [
            "as_of          als  changed",
            "2026-11-27  0.7500",
            "2026-11-28  0.7500",
            "2026-11-29  0.7500  the configuration (or only that of the comparison)",
            "",
            "als  ▄▄▄",
        ]
