"""Times as integers, independent of the session's settings, and cuts as people write them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Literal
from zoneinfo import ZoneInfo

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, IntegralType, TimestampNTZType, TimestampType

from spark_recmetrics.errors import ConfigError, check_argument

TIME_TYPES = (TimestampType, TimestampNTZType, DateType, IntegralType)

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_EXAMPLE = "such as 2026-03-29T01:30:00+00:00"


@dataclass(frozen=True)
class Clock:
    """How the times of a column are read: `instant` for timestamps, `wall` for timestamps without a time zone."""

    kind: Literal["instant", "wall", "date", "number"]
    zone: str | None = None
    """The time zone of cuts without one, and of the times of a `wall`."""

    def __post_init__(self) -> None:
        if self.zone is None:
            return
        try:
            ZoneInfo(self.zone)
        except (OSError, TypeError, ValueError, KeyError) as error:
            expected = "the name of a time zone such as Europe/Berlin or UTC"
            raise ConfigError(f"zone: expected {expected}, found {self.zone!r}") from error
        check_argument("zone", self.zone, "none, because the times are integers", valid=self.kind != "number")

    def number(self, times: Column) -> Column:
        """The times as integers in the same order: microseconds, days, or the integers themselves."""
        if self.kind == "instant":
            return F.unix_micros(times)
        if self.kind == "date":
            return F.unix_date(times).cast("bigint")
        if self.kind == "number":
            return times.cast("bigint")
        # A cast to a number would use the time zone of the session; the parts of a local time do not.
        minutes = (F.unix_date(times.cast("date")).cast("bigint") * 24 + F.hour(times)) * 60 + F.minute(times)
        return minutes * 60_000_000 + (F.date_part(F.lit("SECOND"), times) * 1_000_000).cast("bigint")

    def cut(self, value: object) -> int:
        """A cut as such an integer. Dates and times are objects of `datetime` or strings in ISO 8601."""
        if self.kind == "number":
            if isinstance(value, bool) or not isinstance(value, int):
                raise ConfigError(f"cut: expected an integer, like the times, found {value!r}")
            check_argument("cut", value, "a 64-bit integer", valid=-(2**63) <= value < 2**63)
            return value
        time = _parsed(value)
        if self.kind != "date":
            return (self._in_utc(time, value) - _EPOCH) // timedelta(microseconds=1)
        check_argument("cut", value, "a date such as 2026-03-29, like the times", valid=not isinstance(time, datetime))
        return (time - _EPOCH.date()).days

    def _in_utc(self, time: date, written: object) -> datetime:
        """The time of a cut; for a `wall` the local time, as if it were in UTC."""
        if not isinstance(time, datetime):
            time = datetime(time.year, time.month, time.day)  # noqa: DTZ001 - its zone is set below
        if time.tzinfo is None:
            time = self._with_zone(time, written)
        elif not _exists(time):
            raise ConfigError(f"cut: {str(written)!r} does not exist in {time.tzinfo}: write it in UTC, {_EXAMPLE}")
        if self.kind == "instant" or self.zone is None:
            return time
        try:
            return time.astimezone(ZoneInfo(self.zone)).replace(tzinfo=timezone.utc)
        except OverflowError as error:
            raise ConfigError(f"cut: expected a time in the years 1 to 9999 in {self.zone}, found {str(written)!r}") from error

    def _with_zone(self, time: datetime, written: object) -> datetime:
        if self.zone is None:
            raise ConfigError(f"cut: {str(written)!r} has no time zone: add one, {_EXAMPLE}, or set zone")
        first, second = (time.replace(tzinfo=ZoneInfo(self.zone), fold=fold) for fold in (0, 1))
        if first.utcoffset() != second.utcoffset():
            raise ConfigError(
                f"cut: {str(written)!r} does not exist or is ambiguous in {self.zone}, where clocks are changed: "
                f"add the offset, {_EXAMPLE}"
            )
        return first

    def text(self, number: int | None) -> str | None:
        """A time of the column as a string: a timestamp in UTC, other times as they are."""
        if number is None or self.kind == "number":
            return None if number is None else str(number)
        try:
            if self.kind == "date":
                return (_EPOCH.date() + timedelta(days=number)).isoformat()
            time = _EPOCH + timedelta(microseconds=number)
        except OverflowError:  # Spark has years that Python lacks
            return str(number)
        return time.isoformat() if self.kind == "instant" else time.replace(tzinfo=None).isoformat()


def clock_of(kind: DataType, zone: str | None) -> Clock:
    """The clock of a column of one of TIME_TYPES."""
    if isinstance(kind, TimestampType):
        return Clock("instant", zone)
    if isinstance(kind, TimestampNTZType):
        return Clock("wall", zone)
    return Clock("date" if isinstance(kind, DateType) else "number", zone)


def _exists(time: datetime) -> bool:
    """Whether the clocks of its time zone show this time; they skip an hour when summer time begins."""
    try:
        back = time.astimezone(timezone.utc).astimezone(time.tzinfo)
    except OverflowError:  # in the years 1 and 9999, when no clocks are changed
        return True
    return back.replace(tzinfo=None) == time.replace(tzinfo=None)


def _parsed(value: object) -> date:
    if isinstance(value, date) and isinstance(value.year, int):  # datetime is a date, too, and so is pandas' NaT
        return value
    if isinstance(value, str):
        text = value.strip()
        with suppress(ValueError):
            if len(text) == len("2026-03-29"):
                return date.fromisoformat(text)
            return datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in ("Z", "z") else text)
    raise ConfigError(f"cut: expected a time {_EXAMPLE}, found {value!r}")
