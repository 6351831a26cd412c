"""Whether a source is due to be crawled, and if not, why and until when: `crawl_due`, a pure function of plain data.

All times are naive, in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Final, Self, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dcc.messages import count_of

MAX_BACK_OFF: Final = timedelta(days=1)
"""The longest time for which a source that keeps failing is left alone."""

_FIRST_BACK_OFF: Final = timedelta(hours=1)
_CLOCKS_DIFFER: Final = timedelta(hours=1)
"""More than the clocks of machines differ."""
_UPLOAD: Final = timedelta(hours=1)
"""How old a listing may become that saw an archive being uploaded."""
_QUIET: Final = timedelta(minutes=1)
"""The time after a change in which another one may follow."""
_READY: Final = 0.95
"""The part of its age from which a source is due, so that the next session is not too late."""

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_UNITS: Final = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_AGE: Final = re.compile(r"([1-9]\d{0,5})([mhdw])")
_SPAN: Final = re.compile(r"(?:(\w{3})(?:-(\w{3}))? +)?(\d\d?):(\d\d)-(\d\d?):(\d\d)")
_TIME: Final = re.compile(r"\d\d?:\d\d")
_WEEK: Final = timedelta(days=7)
_LONGEST_AGE: Final = timedelta(days=366)


def parse_age(text: str) -> timedelta:
    """An age such as `30m`, `6h`, `7d` or `2w`. Raises ValueError."""
    found = _AGE.fullmatch(text.strip())
    age = timedelta() if found is None else int(found[1]) * _UNITS[found[2]]
    if not timedelta() < age <= _LONGEST_AGE:
        raise ValueError(f"{text!r} is no age. Write a number with m, h, d or w, such as 6h, and a year at most.")
    return age


def shown_age(age: timedelta) -> str:
    """An age as `parse_age` reads it."""
    unit = next(unit for unit in reversed(_UNITS) if not age % _UNITS[unit])
    return f"{age // _UNITS[unit]}{unit}"


Span: TypeAlias = tuple[frozenset[int], time, time]
"""Hours of some days of the week, 0 for Monday, from one time to another; one that is not later is on the next day."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The times of the week at which a source may be used, in a time zone. `text` is what was parsed."""

    spans: tuple[Span, ...]
    zone: ZoneInfo
    text: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Windows from a text such as `20:00-06:00` or `Mon-Fri 20:00-06:00, Sat-Sun 00:00-24:00 Europe/London`.

        Without a time zone they are in UTC. Raises ValueError.
        """
        hours, _, zone = text.strip().rpartition(" ")
        if _SPAN.fullmatch(zone) or not hours:
            hours, zone = text.strip(), "UTC"
        try:
            return cls(tuple(_span(part.strip()) for part in hours.split(",")), ZoneInfo(zone), text.strip())
        except (ValueError, OSError, LookupError) as error:
            raise ValueError(
                f"{text!r} is no window ({error}). Write such as '20:00-06:00 Europe/London' or "
                "'Mon-Fri 20:00-06:00, Sat-Sun 00:00-24:00 Asia/Tokyo'."
            ) from error

    def is_open(self, at: datetime) -> bool:
        """Whether a source may be used at a time."""
        return any(begin <= at < end for begin, end in self.around(at, at))

    def opens(self, at: datetime) -> datetime:
        """The first time from `at` on at which it is open."""
        return min(max(begin, at) for begin, end in self.around(at, at + _WEEK) if end > at)

    def around(self, first: datetime, last: datetime) -> Iterator[tuple[datetime, datetime]]:
        """The beginnings and ends of all windows between two times, and of some before and after."""
        for number in range(-2, (last - first).days + 4):
            day = first.date() + timedelta(days=number)
            for days, start, end in self.spans:
                if day.weekday() in days:
                    yield self._utc(day, start), self._utc(day + timedelta(days=end <= start), end)

    def _utc(self, day: date, at: time) -> datetime:
        return datetime.combine(day, at, self.zone).astimezone(UTC).replace(tzinfo=None)


def _span(text: str) -> Span:
    found = _SPAN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not of the form HH:MM-HH:MM")
    first, last = (_DAYS.index(name.title()) if name else None for name in (found[1], found[2]))
    first, last = (0, 6) if first is None else (first, first if last is None else last)
    days = frozenset(range(first, last + 1)) if first <= last else frozenset((*range(first, 7), *range(last + 1)))
    # 24:00 is 00:00 of the next day.
    start, end = (time(0 if found[hour] == "24" else int(found[hour]), int(found[hour + 1])) for hour in (3, 5))
    return days, start, end


@dataclass(frozen=True, slots=True)
class Schedule:
    """The times of the week at which a source must be listed: the beginnings of windows. `text` is what was parsed."""

    windows: Windows
    text: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """A schedule from a text such as `Mon 06:00` or `Mon-Fri 06:00, 18:00 Europe/London`.

        Without a time zone it is in UTC. Raises ValueError.
        """
        try:
            return cls(Windows.parse(_TIME.sub(r"\g<0>-\g<0>", text)), text.strip())
        except ValueError as error:
            # Other causes quote what was made of the text.
            zone = f" ({error.__cause__})" if isinstance(error.__cause__, ZoneInfoNotFoundError) else ""
            raise ValueError(f"{text!r} is no schedule{zone}. Write such as 'Mon-Fri 06:00 Europe/London'.") from error

    def after(self, at: datetime) -> datetime:
        """The first time after another one."""
        return min(begin for begin, _ in self.windows.around(at, at + _WEEK) if begin > at)


@dataclass(frozen=True, slots=True)
class Pause:
    """A person's decision to leave a source alone, without `until` for as long as nobody resumes it."""

    reason: str
    by: str
    since: datetime
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class CrawlPolicy:
    """When a source may be crawled: `every`, the oldest that its listing may become, and `schedule`, whichever is
    first; without both: with every session.
    """

    every: timedelta | None = None
    windows: Windows | None = None
    pause: Pause | None = None
    schedule: Schedule | None = None

    @property
    def has_own_times(self) -> bool:
        """Whether sessions that others need leave it alone."""
        return self.every is not None or self.schedule is not None

    def __str__(self) -> str:
        parts = (
            f"every {shown_age(self.every)}" if self.every else "",
            f"at {self.schedule.text}" if self.schedule else "",
            self.windows.text if self.windows else "",
        )
        return " ".join(filter(None, parts)) or "every session"


@dataclass(frozen=True, slots=True)
class PastCrawls:
    """When a source was last listed, wholly or in part, and how often in a row it failed since; when last.

    `changed` is when it was registered or last changed; failures before that do not count. `has_uploads`: an archive
    that waits was still being uploaded when it was listed.
    """

    listed: datetime | None = None
    failures: int = 0
    failed: datetime | None = None
    changed: datetime | None = None
    has_uploads: bool = False

    def known_at(self, now: datetime) -> PastCrawls:
        """Those without times to come, which a clock that was wrong has set, and without changes of this minute."""
        latest = now + _CLOCKS_DIFFER
        listed, failed = (None if at is not None and at > latest else at for at in (self.listed, self.failed))
        is_quiet = self.changed is not None and self.changed <= now - _QUIET
        return replace(self, listed=listed, failed=failed, changed=self.changed if is_quiet else None)

    @property
    def are_of_before(self) -> bool:
        """Whether the source was registered or changed since, so that it was not crawled as it is."""
        return self.changed is not None and not self.failures and (self.listed is None or self.listed < self.changed)


class DueReason(StrEnum):
    """Why a source is crawled now, or is not."""

    DUE = "due"
    RECENT = "recent"
    CLOSED = "closed"
    FAILING = "failing"
    PAUSED = "paused"
    MAINTENANCE = "maintenance"
    INACTIVE = "inactive"


@dataclass(frozen=True, slots=True)
class CrawlDue:
    """Whether a source is due, and if not, why and until when; a pause may be without an end: None."""

    why: DueReason
    until: datetime | None
    policy: CrawlPolicy
    past: PastCrawls

    @property
    def is_due(self) -> bool:
        """Whether it must be crawled now."""
        return self.why is DueReason.DUE

    @property
    def needs_no_other(self) -> bool:
        """Whether it must be crawled now even if no other source is: by its own policy, or as new or changed."""
        return self.is_due and (self.policy.has_own_times or self.past.are_of_before)

    @property
    def may_be_used(self) -> bool:
        """Whether archives may be fetched from it now."""
        return self.why in (DueReason.DUE, DueReason.RECENT)

    @property
    def description(self) -> str:
        """When the source is crawled, and why it is left alone at present."""
        return str(self.policy) if self.is_due else f"{self.policy}; {self}"

    def __str__(self) -> str:
        until = "" if self.until is None else f" until {self.until:%Y-%m-%d %H:%M} UTC"
        match self.why:
            case DueReason.PAUSED if self.policy.pause is not None:
                return f"paused by {self.policy.pause.by}{until}: {self.policy.pause.reason}"
            case DueReason.FAILING:
                return f"failed {count_of(self.past.failures, 'time')} in a row, left alone{until}"
            case DueReason.CLOSED:
                return f"outside its window{until}"
            case DueReason.RECENT:
                return f"not due{until}"
            case DueReason.MAINTENANCE:
                return "in the state maintenance"
            case DueReason.INACTIVE:
                return "left alone because its centre is not active"
        return "due"


def crawl_due(
    policy: CrawlPolicy,
    past: PastCrawls,
    now: datetime,
    failure_limit: int,
    *,
    is_named: bool = False,
    is_active: bool = True,
    is_available: bool = True,
) -> CrawlDue:
    """Whether a source is due at a time.

    After `failure_limit` failures in a row it is left alone for an hour, and for twice as long after each further one,
    up to `MAX_BACK_OFF`. `is_named`: a person asks for it, which overrides all but a pause, a source in maintenance
    (`is_available`), and a centre that is not active (`is_active`).
    """
    past = past.known_at(now)

    def not_before(why: DueReason, until: datetime | None) -> CrawlDue:
        return CrawlDue(why, until, policy, past)

    if not is_active:
        return not_before(DueReason.INACTIVE, None)
    if not is_available:
        return not_before(DueReason.MAINTENANCE, None)
    pause = policy.pause
    if pause is not None and (pause.until is None or pause.until > now):
        return not_before(DueReason.PAUSED, pause.until)
    if is_named:
        return not_before(DueReason.DUE, None)
    if past.failed is not None and past.failures >= failure_limit:
        doublings = min(past.failures - failure_limit, 10)
        again = past.failed + min(_FIRST_BACK_OFF * 2**doublings, MAX_BACK_OFF)
        if again > now:
            return not_before(DueReason.FAILING, again if policy.windows is None else policy.windows.opens(again))
    ready = ready_at(policy, past)
    if ready is not None and ready > now:
        return not_before(DueReason.RECENT, ready)
    if policy.windows is not None and not policy.windows.is_open(now):
        return not_before(DueReason.CLOSED, policy.windows.opens(now))
    return not_before(DueReason.DUE, None)


def overdue_at(policy: CrawlPolicy, since: datetime, patience: timedelta) -> datetime:
    """When a source that was listed at a time is overdue: it was due, the patience is over, and it could be used."""
    scheduled = [] if policy.schedule is None else [policy.schedule.after(since)]
    aged = [since + (policy.every or timedelta())] if policy.every or not scheduled else []
    at = min(scheduled + aged) + patience
    if policy.windows is None or policy.windows.is_open(at):
        return at
    return policy.windows.opens(at) + patience


def ready_at(policy: CrawlPolicy, past: PastCrawls) -> datetime | None:
    """From when on a source without failures is due; None: at any time."""
    if past.listed is None or not policy.has_own_times:
        return None
    scheduled = [] if policy.schedule is None else [policy.schedule.after(past.listed)]
    ages = (policy.every, _UPLOAD if past.has_uploads else None)
    return min(scheduled + [_aged(past.listed, age, policy.windows) for age in ages if age is not None])


def _aged(listed: datetime, every: timedelta, windows: Windows | None) -> datetime:
    """From when on a listing must be made again: in time for its age, if windows allow it, else when they next open."""
    ready, oldest = listed + _READY * every, listed + every
    if windows is None:
        return ready
    opens = windows.opens(ready)
    if opens <= oldest:
        return opens
    before = [begin for begin, _ in windows.around(ready - _WEEK, ready) if listed < begin <= ready]
    return max(before, default=opens)
