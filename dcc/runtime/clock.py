"""The present time, in UTC."""

from __future__ import annotations

from datetime import UTC, date, datetime


def utc_now() -> datetime:
    """The present time as the databases store it: naive, in UTC, to the second."""
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)


def utc_today() -> date:
    """The present day in UTC."""
    return datetime.now(UTC).date()
