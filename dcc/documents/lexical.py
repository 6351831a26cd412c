"""The typed values of texts in documents (XML Schema part 2, sections 3.2 and 3.3).

A document may contain more than a type can hold: a date with a time zone, a number of a hundred digits. If a function
here returns None, or a value that would be written differently, keep the text itself.
"""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from math import isfinite

GROUPED_DIGITS = r"[1-9][0-9]{0,2}(?:,[0-9]{3})+"
"""A pattern of a whole number with separators of thousands."""

is_number = re.compile(
    r"[ \t\r\n]*+[+-]?"
    rf"(?:(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?|{GROUPED_DIGITS}(?:\.[0-9]*+)?)"
    r"[ \t\r\n]*+"
).fullmatch
"""Whether a text is written as a number, be it too large for one; the match, or None."""
_DATE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:Z|[+-][0-9]{2}:[0-9]{2})?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_LONGEST_NUMBER = 1_000
_LONGEST_INTEGER = 4_000


def parse_number(text: str) -> float | None:
    """The finite number of the whole text, in ASCII digits; None for other texts.

    White space around it and well-formed separators of thousands (2,643.85) are ignored. `NaN`, `INF`, `1e400`, `0x1F`,
    `1_000`, `1,5`, `0,123` and digits of other scripts are no numbers, nor are texts of more than 1,000 characters.
    """
    if len(text) > _LONGEST_NUMBER or is_number(text) is None:
        return None
    number = float(text.replace(",", ""))
    return number if isfinite(number) else None


def parse_boolean(text: str) -> bool:
    """The value of an xs:boolean: `true`, `1`, `false` or `0`. Raises KeyError for anything else."""
    return _BOOLEANS[text]


@lru_cache(maxsize=2_000)
def parse_date(text: str) -> date | None:
    """The day of an xs:date without its time zone; None before the year 1, after 9999 or for other texts."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    try:
        return date.fromisoformat(match[1])
    except ValueError:
        return None


def parse_integer(text: str) -> int | None:
    """The value of an xs:integer or xs:int; None for more than 4,000 characters, or other texts."""
    if len(text) > _LONGEST_INTEGER or _INTEGER.fullmatch(text) is None:
        return None
    return int(text)
