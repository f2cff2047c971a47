"""Clocks: cuts as people write them, and times as strings."""

from __future__ import annotations

from datetime import date, datetime, timezone
from zoneinfo import ZoneInfo

import pandas as pd
import pytest

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.splits.times_spark import Clock

HALF_PAST_ONE = datetime(2026, 3, 29, 1, 30, tzinfo=timezone.utc)
ZONED = [
    ("2026-03-29T01:30:00+00:00", None),
    ("2026-03-29T01:30Z", None),
    ("2026-03-28T21:30:00-04:00", "Asia/Tokyo"),
    (HALF_PAST_ONE, None),
    ("2026-03-29T01:30", "UTC"),
    ("2026-03-29T03:30", "Europe/Berlin"),
    ("2026-03-28T21:30", "America/New_York"),
    (datetime(2026, 3, 28, 21, 30), "America/New_York"),  # noqa: DTZ001 - that it has no zone is the point
]


@pytest.mark.parametrize(("cut", "zone"), ZONED)
def test_s4_the_same_time_written_in_many_ways(cut, zone):
    assert Clock("instant", zone).cut(cut) == HALF_PAST_ONE.timestamp() * 1_000_000


@pytest.mark.parametrize(
    ("clock", "cut", "message"),
    [
        (Clock("instant"), "2026-03-29T01:30", "cut: '2026-03-29T01:30' has no time zone: add one, such as "),
        (Clock("instant"), "2026-03-29", "cut: '2026-03-29' has no time zone: "),
        (
            Clock("wall", "Europe/London"),
            "2026-03-29T01:30",
            "cut: '2026-03-29T01:30' does not exist or is ambiguous in Europe/London, where clocks are changed",
        ),
        (Clock("instant", "Europe/Berlin"), "2026-10-25T02:30", "cut: '2026-10-25T02:30' does not exist or is ambiguous in "),
        (Clock("instant"), "tomorrow", "cut: expected a time such as 2026-03-29T01:30:00+00:00, found 'tomorrow'"),
        (Clock("instant"), "", "cut: expected a time such as "),
        (Clock("instant"), 500, "cut: expected a time such as 2026-03-29T01:30:00+00:00, found 500"),
        (Clock("number"), "500", "cut: expected an integer, like the times, found '500'"),
        (Clock("number"), True, "cut: expected an integer, like the times, found True"),
        (Clock("number"), 2**63, "cut: expected a 64-bit integer, found 9223372036854775808"),
        (Clock("number"), -(10**40), "cut: expected a 64-bit integer, found -1000000000"),
        *(
            (clock, pd.NaT, "cut: expected a time such as ")
            for clock in (Clock("instant"), Clock("wall", "UTC"), Clock("date"))
        ),
        (
            Clock("wall", "Europe/Berlin"),
            "9999-12-31T23:59:59Z",
            "cut: expected a time in the years 1 to 9999 in Europe/Berlin, found '9999-12-31T23:59:59Z'",
        ),
        (Clock("wall", "America/New_York"), "0001-01-01T00:00Z", "cut: expected a time in the years 1 to 9999 in America"),
        *(
            (
                Clock(kind, "UTC"),
                datetime(2026, 3, 29, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")),
                "cut: '2026-03-29 02:30:00+01:00' does not exist in Europe/Berlin: write it in UTC, such as ",
            )
            for kind in ("instant", "wall")
        ),
        (Clock("date"), "2026-03-29T00:00Z", "cut: expected a date such as 2026-03-29, like the times, found "),
    ],
)
def test_wrong_cuts(clock, cut, message):
    with pytest.raises(ConfigError) as caught:
        clock.cut(cut)
    assert str(caught.value).startswith(message)


def test_an_unknown_time_zone():
    with pytest.raises(
        ConfigError, match=r"^zone: expected the name of a time zone such as Europe/Berlin or UTC, found 'Mars'$"
    ):
        Clock("instant", "Mars")


def test_times_of_a_clock_come_back():
    moment = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone.utc)
    assert Clock("instant").cut(moment) == -1
    assert Clock("instant").text(-1) == moment.isoformat()
    assert Clock("date").text(Clock("date").cut(date(1960, 2, 29))) == "1960-02-29"
    assert Clock("instant").text(10**18) == str(10**18)
    assert (Clock("wall").text(1_000_000), Clock("number").text(500)) == ("1970-01-01T00:00:01", "500")
    # `fold` chooses one of two ambiguous times. The first and last hours do not exist in every time zone.
    fall = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert Clock("instant").cut(fall.replace(fold=1)) - Clock("instant").cut(fall) == 3600 * 1_000_000
    for edge in ("0001-01-01T00:00+14:00", "9999-12-31T23:59:59-12:00"):
        assert Clock("instant").cut(edge) == Clock("instant").cut(datetime.fromisoformat(edge))
    assert Clock("number").cut(2**63 - 1) == 2**63 - 1
