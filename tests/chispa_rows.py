"""Spark frames in tests: their rows compared with expected ones by chispa."""

from __future__ import annotations

from chispa import assert_df_equality


def assert_rows(frame, rows, columns=None):
    """The frame has these rows, in any order. `columns` is a DDL string of its columns; None: types are not checked."""
    expected = frame.sparkSession.createDataFrame(rows, columns or frame.schema)
    assert_df_equality(frame, expected, ignore_row_order=True, ignore_nullable=True)
