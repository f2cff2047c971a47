"""Small tables of interactions, and which side their rows are on."""

from __future__ import annotations

from chispa_rows import assert_rows

RATINGS = "user_id string, item_id string, timestamp bigint, rating double"


def days(*rows):
    """Rows of (user, day), each with another item."""
    return [(user, f"i{n}", day, float(n)) for n, (user, day) in enumerate(rows)]


def assert_sides(split, sides, *names):
    """The values of some columns, by side: of a single column a value per row, of several a tuple."""
    rows = [(*values, side) if len(names) > 1 else (values, side) for side, of_side in sides.items() for values in of_side]
    assert_rows(split.rows.select(*names, "side"), rows)
