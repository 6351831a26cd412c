"""Parses values by their type.

The complete text counts, in ASCII: a text that only begins with a number is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Final

from dcc.documents.lexical import GROUPED_DIGITS, is_number, parse_boolean, parse_date, parse_number
from dcc.messages import Message, mark
from dcc.reference.impress import ValueType

_INTEGER = re.compile(rf"[+-]?(?:[0-9]+|{GROUPED_DIGITS})")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})")
_DATE_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?(?:(Z)|([+-])([0-9]{2})(?::?([0-9]{2}))?)"
)
_DPC = re.compile(r"E?([0-9]+(?:\.[0-9]+)?)", re.IGNORECASE | re.ASCII)
LONGEST_STAGE: Final = 20
"""The most characters of an embryo's stage."""
_LARGEST_INTEGER = 2**63 - 1
_LONGEST_INTEGER = 40
_LARGEST_OFFSET = timedelta(hours=14)

Value = str | int | float | bool | date | time | datetime


class UnreadableValueError(ValueError):
    """The text is no value of its type; `message` says why, without the text."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.message: Final = Message(why, {})


def read_integer(text: str) -> int:
    """A whole number of 64 bits; well-formed separators of thousands (2,643) are permitted. Raises
    UnreadableValueError.
    """
    if _INTEGER.fullmatch(text) is None:
        raise UnreadableValueError(_why_no_number(text) or mark("it is no whole number"))
    digits = text.replace(",", "")
    if len(digits) > _LONGEST_INTEGER or abs(int(digits)) > _LARGEST_INTEGER:
        raise UnreadableValueError(mark("it is beyond the range of whole numbers"))
    return int(digits)


def read_float(text: str) -> float:
    """A finite number; well-formed separators of thousands (2,643.85) are permitted. Raises UnreadableValueError."""
    number = None if text != text.strip() else parse_number(text)
    if number is None:
        why = mark("it is beyond the range of numbers") if is_number(text) else mark("it is not a number")
        raise UnreadableValueError(_why_no_number(text) or why)
    return number


def read_boolean(text: str) -> bool:
    """True or false. Raises UnreadableValueError."""
    try:
        return parse_boolean(text)
    except KeyError:
        raise UnreadableValueError(mark("it is none of true, false, 1 and 0")) from None


def read_date(text: str) -> date:
    """A day, yyyy-mm-dd. Raises UnreadableValueError."""
    if _DAY.fullmatch(text) is None:
        raise UnreadableValueError(mark("it is not written yyyy-mm-dd"))
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UnreadableValueError(mark("it is not in the calendar")) from None


def read_time(text: str) -> time:
    """A time of day, hh:mm:ss. Raises UnreadableValueError."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise UnreadableValueError(mark("it is not written hh:mm:ss"))
    try:
        return time(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        raise UnreadableValueError(mark("it is no time of day")) from None


def read_date_time(text: str) -> datetime:
    """A day and time with its offset from UTC, yyyy-mm-ddThh:mm:ss+hh:mm; a fraction finer than a microsecond is cut.

    Raises UnreadableValueError.
    """
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        raise UnreadableValueError(
            mark("it is not written yyyy-mm-ddThh:mm:ss with Z or an offset such as +0100 after it")
        )
    day, time_of_day, fraction, _, sign, hours, minutes = match.groups()
    microsecond = int((fraction or "0").ljust(6, "0")[:6])
    local = datetime.combine(read_date(day), read_time(time_of_day)).replace(microsecond=microsecond)
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    if offset > _LARGEST_OFFSET or int(minutes or 0) > 59:
        raise UnreadableValueError(mark("its offset from UTC is more than 14 hours"))
    return local.replace(tzinfo=timezone(-offset if sign == "-" else offset) if offset else UTC)


_READERS: dict[str, Callable[[str], Value]] = {
    ValueType.TEXT: str,
    ValueType.IMAGE: str,
    ValueType.INT: read_integer,
    ValueType.FLOAT: read_float,
    ValueType.BOOL: read_boolean,
    ValueType.DATE: read_date,
    ValueType.TIME: read_time,
    ValueType.DATETIME: read_date_time,
}


def read_value(value_type: str, text: str) -> Value:
    """The value of a text. Raises UnreadableValueError; KeyError for a type outside of ValueType."""
    return _READERS[value_type](text)


def day_of(text: str) -> date:
    """The day of a valid xs:date; the first or last day for years outside of 1 to 9999."""
    day = parse_date(text)
    if day is not None:
        return day
    return date.min if text.startswith(("-", "0000")) else date.max


def days_of_stage(stage: str | None) -> float | None:
    """The days of an embryo's DPC stage; None if it is none."""
    match = _DPC.fullmatch(stage or "")
    if match is None or len(match[0]) > LONGEST_STAGE:
        return None
    days = float(match[1])
    return days if 0 <= days < 20 else None


def is_blank(text: str | None) -> bool:
    """Whether a text is empty or only white space."""
    return text is None or not text.strip()


def _why_no_number(text: str) -> str | None:
    if text != text.strip():
        return mark("it has blanks around it")
    if _DECIMAL_COMMA.fullmatch(text):
        return mark("a comma separates thousands, in groups of three digits; write a decimal point")
    return None
