"""Who opened a submission again, as its row in `reopening` says: a part of the platform, or a person."""

from __future__ import annotations

from typing import Final

from sqlalchemy import ColumnElement, or_
from sqlalchemy.orm import InstrumentedAttribute

CRAWL: Final = "crawl"
"""A crawl, because the archive or what is known of it changed."""

RETRY_POLICY: Final = "retry policy"
"""The retry policy, which opens failed downloads again in each session."""

_SESSION: Final = "session "


def session_name(session_id: int) -> str:
    """The name in which a session opens submissions and documents again."""
    return f"{_SESSION}{session_id}"


def person_name(person: str) -> str:
    """The name of a person, other than all names of the platform's parts: of a user `crawl` it is `user crawl`."""
    name = person.casefold()
    is_taken = name.strip() in (CRAWL, RETRY_POLICY) or name.startswith(_SESSION)
    return f"user {person}" if is_taken else person


def is_automatic_retry(requested_by: InstrumentedAttribute[str]) -> ColumnElement[bool]:
    """Whether the platform tried the same archive again: no crawl saw a change, and no person asked."""
    return or_(requested_by == RETRY_POLICY, requested_by.like(f"{_SESSION}%"))
