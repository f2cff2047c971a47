"""Times as whole numbers, which no setting of a session changes, and cuts in time as people write them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Literal
from zoneinfo import ZoneInfo

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, IntegralType, TimestampNTZType, TimestampType

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.text import brief

TIME_TYPES = (TimestampType, TimestampNTZType, DateType, IntegralType)

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_WRITTEN = "such as 2026-03-29T01:30:00+00:00"


@dataclass(frozen=True)
class Clock:
    """How the times of a column are read.

    Args:
        kind: `instant` for timestamps, `wall` for timestamps without a zone, `date`, or `number`.
        zone: Name of the zone that cuts without a zone, and the times of a wall, are meant in.

    Raises:
        ConfigError: There is no such zone.
    """

    kind: Literal["instant", "wall", "date", "number"]
    zone: str | None = None

    def __post_init__(self) -> None:
        if self.zone is None:
            return
        try:
            ZoneInfo(self.zone)
        except (OSError, TypeError, ValueError, KeyError) as error:
            expected = "the name of a time zone such as Europe/Berlin or UTC"
            raise ConfigError(f"zone: expected {expected}, found {self.zone!r}") from error

    def number(self, times: Column) -> Column:
        """The times as whole numbers in their order: microseconds, days, or the numbers that they are."""
        if self.kind == "instant":
            return F.unix_micros(times)
        if self.kind == "date":
            return F.unix_date(times).cast("bigint")
        if self.kind == "number":
            return times.cast("bigint")
        # A cast to a number would go by the time zone of the session; the parts of a wall's time do not.
        minutes = (F.unix_date(times.cast("date")).cast("bigint") * 24 + F.hour(times)) * 60 + F.minute(times)
        return minutes * 60_000_000 + (F.date_part(F.lit("SECOND"), times) * 1_000_000).cast("bigint")

    def cut(self, value: object) -> int:
        """A cut in time as such a number.

        Args:
            value: A whole number for a column of numbers, a date for one of dates, and otherwise a date or a time; as objects
                of `datetime` or as text of ISO 8601.

        Raises:
            ConfigError: It is of another kind or out of range, it has no zone and none is declared, or no clock or two clocks
                of that zone have shown it.

        Example:
            >>> Clock("number").cut(500), Clock("date").cut("1970-01-03"), Clock("instant").cut("1970-01-01T00:00:01Z")
            (500, 2, 1000000)
            >>> Clock("instant").cut("2026-03-29T01:30")
            Traceback (most recent call last):
            spark_recmetrics.errors.ConfigError: cut: '2026-03-29T01:30' has no zone: write one behind it, ... or give zone
        """
        if self.kind == "number":
            if isinstance(value, bool) or not isinstance(value, int):
                raise ConfigError(f"cut: expected a whole number, as the times are, found {value!r}")
            if not -(2**63) <= value < 2**63:
                raise ConfigError(f"cut: expected a whole number of 64 bits, found {brief(value)}")
            return value
        moment = _moment(value)
        if self.kind == "date":
            if isinstance(moment, datetime):
                raise ConfigError(f"cut: expected a date such as 2026-03-29, as the times are, found {value!r}")
            return (moment - _EPOCH.date()).days
        if not isinstance(moment, datetime):
            moment = datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001 - the zone follows
        if moment.tzinfo is None:
            moment = self._placed(moment, value)
        elif not _is_shown(moment):
            raise ConfigError(f"cut: the clocks of {moment.tzinfo} skip {str(value)!r}: write it in UTC, {_WRITTEN}")
        if self.kind == "wall" and self.zone is not None:
            try:
                moment = moment.astimezone(ZoneInfo(self.zone)).replace(tzinfo=timezone.utc)
            except OverflowError as error:
                expected = f"a time that the clocks of {self.zone} show in the years 1 to 9999"
                raise ConfigError(f"cut: expected {expected}, found {str(value)!r}") from error
        return (moment - _EPOCH) // timedelta(microseconds=1)

    def text(self, number: int | None) -> str | None:
        """A time of the column as text: an instant in UTC, anything else as it stands there.

        Example:
            >>> Clock("instant").text(1_000_000), Clock("wall").text(1_000_000), Clock("date").text(2)
            ('1970-01-01T00:00:01+00:00', '1970-01-01T00:00:01', '1970-01-03')
        """
        if number is None or self.kind == "number":
            return None if number is None else str(number)
        try:
            if self.kind == "date":
                return (_EPOCH.date() + timedelta(days=number)).isoformat()
            moment = _EPOCH + timedelta(microseconds=number)
        except OverflowError:  # Spark knows years that Python does not
            return str(number)
        return moment.isoformat() if self.kind == "instant" else moment.replace(tzinfo=None).isoformat()

    def _placed(self, moment: datetime, written: object) -> datetime:
        if self.zone is None:
            raise ConfigError(f"cut: {str(written)!r} has no zone: write one behind it, {_WRITTEN}, or give zone")
        first, second = (moment.replace(tzinfo=ZoneInfo(self.zone), fold=fold) for fold in (0, 1))
        if first.utcoffset() != second.utcoffset():
            raise ConfigError(
                f"cut: the clocks of {self.zone} are changed at {str(written)!r}, so that they show it never or twice: "
                f"write the offset behind it, {_WRITTEN}"
            )
        return first


def _is_shown(moment: datetime) -> bool:
    """Whether the clocks of its own zone show the moment, which they do not in the hour that summer time skips."""
    try:
        back = moment.astimezone(timezone.utc).astimezone(moment.tzinfo)
    except OverflowError:  # in the year 1 or 9999, when no clocks were changed
        return True
    return back.replace(tzinfo=None) == moment.replace(tzinfo=None)


def clock_of(kind: DataType, zone: str | None) -> Clock:
    """The clock of a column of one of TIME_TYPES."""
    if isinstance(kind, TimestampType):
        return Clock("instant", zone)
    if isinstance(kind, TimestampNTZType):
        return Clock("wall", zone)
    return Clock("date" if isinstance(kind, DateType) else "number", zone)


def _moment(value: object) -> date:
    if isinstance(value, date) and isinstance(value.year, int):  # a datetime is one, too, and so is pandas' NaT
        return value
    if isinstance(value, str):
        text = value.strip()
        try:
            if len(text) == len("2026-03-29"):
                return date.fromisoformat(text)
            return datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in ("Z", "z") else text)
        except ValueError:
            pass
    raise ConfigError(f"cut: expected a time {_WRITTEN}, found {value!r}")
