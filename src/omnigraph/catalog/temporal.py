"""Dates and instants as text: what is accepted, and what it means.

Used by schema defaults, query literals, parameters and data input alike, so one text means one
value everywhere.
"""

from __future__ import annotations

import datetime
import re

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}\Z", re.ASCII)
_INSTANT = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})(?:(:\d{2})(?:\.(\d+))?)?(Z|z|[+-]\d{2}:?\d{2})?\Z",
    re.ASCII,
)

DAYS_MIN, DAYS_MAX = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31 as days since 1970-01-01: no other day has a date in Python."""

MILLIS_MIN, MILLIS_MAX = DAYS_MIN * 86_400_000, (DAYS_MAX + 1) * 86_400_000 - 1
"""The first and the last millisecond of these days, in UTC."""

DATE_FORM = "YYYY-MM-DD"
DATETIME_FORM = "YYYY-MM-DDTHH:MM:SS[.mmm][Z|+HH:MM]"


def parse_date(text: str) -> datetime.date:
    """Read a date, or the date part (in UTC) of a longer instant. Raises `ValueError`."""
    if _DATE.match(text):
        return datetime.date.fromisoformat(text)
    if _INSTANT.match(text) is None:
        raise ValueError(f"{text!r} is not of the form {DATE_FORM}")
    return parse_datetime(text).date()


def parse_datetime(text: str) -> datetime.datetime:
    """Read an instant to millisecond precision, in UTC. Raises `ValueError`.

    Without a zone it is UTC; a bare date is its midnight; seconds may be left out, but a fraction
    needs them; further fraction digits are cut off.
    """
    if _DATE.match(text):
        day = datetime.date.fromisoformat(text)
        return datetime.datetime(day.year, day.month, day.day, tzinfo=datetime.UTC)
    match = _INSTANT.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not of the form {DATETIME_FORM}")
    day_text, time_text, seconds, fraction, zone = match.groups()
    moment = datetime.datetime.fromisoformat(f"{day_text}T{time_text}{seconds or ''}")
    moment = moment.replace(microsecond=int((fraction or "0")[:3].ljust(3, "0")) * 1000)
    if zone is None or zone in "Zz":
        return moment.replace(tzinfo=datetime.UTC)
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    if hours > 23 or minutes > 59:
        raise ValueError(f"{zone} is not a zone offset")
    offset = datetime.timedelta(hours=hours, minutes=minutes)
    try:
        shifted = moment + offset if zone[0] == "-" else moment - offset
    except OverflowError as error:
        raise ValueError(f"{text!r} lies outside the years 1 to 9999") from error
    return shifted.replace(tzinfo=datetime.UTC)


def check_days(days: int) -> int:
    """Return a number of days since 1970-01-01 if it is a date. Raises `ValueError`."""
    return _within(days, DAYS_MIN, DAYS_MAX, "days")


def check_millis(millis: int) -> int:
    """Return a number of milliseconds since 1970-01-01 if it is an instant.

    Raises `ValueError`.
    """
    return _within(millis, MILLIS_MIN, MILLIS_MAX, "milliseconds")


def _within(number: int, low: int, high: int, unit: str) -> int:
    if low <= number <= high:
        return number
    raise ValueError(outside_years(number, low, high, unit))


def outside_years(number: object, low: int, high: int, unit: str) -> str:
    """Return what to say about a number that is no date or instant."""
    return f"{number} is outside the years 1 to 9999 ({low} to {high} {unit} since 1970)"
