"""The time limit of listing a file source, all its directories together, and the progress of the listing.

The watch belongs to the thread that lists. Connections and `action_listing` ask for it, so that a protocol added later
needs to know nothing of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Self

from dcc.errors import SourceTimeoutError
from dcc.messages import mark
from dcc.runtime.log_context import progress_log
from dcc.settings import Settings
from dcc.sources.sockets import time_limit

progress = progress_log(__name__)

TRIAL_SECONDS: Final = 30.0
"""Seconds after which the trial of a file source ends; a crawl takes as long as the settings say."""

PAUSE_OF_LINES: Final = 5.0
"""Seconds between lines that say how far a listing is."""

_PAUSE: Final = 1.0
_LOG_SECONDS: Final = 10.0


def unheard(_text: str) -> None:
    """Where nobody wants to hear how far a listing is."""


@dataclass
class ListingWatch:
    """Watches the listing of the file source `label`, which may take `seconds` in all.

    `heard` is told how far it is, every `pause` seconds: `listing of add: 40,000 entries so far`. `crawl_seconds`
    is how long a crawl may take, where this is only a trial. The time begins when the watch is made, and again with
    `watching`.
    """

    label: str
    seconds: float
    heard: Callable[[str], object] = unheard
    pause: float = field(default_factory=lambda: _PAUSE)
    crawl_seconds: float | None = None
    entries: int = 0
    """Entries of the present directory that have come."""
    deadline: float = field(init=False)
    _before: int = field(default=0, init=False)
    _directory: str = field(default="", init=False)
    _next_said: float = field(init=False)
    _next_logged: float = field(init=False)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Have the time begin at present."""
        now = time.monotonic()
        self.deadline = now + self.seconds
        self._next_said, self._next_logged = now + self.pause, now + _LOG_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self.deadline

    @property
    def all_entries(self) -> int:
        """Entries that have come, of all directories."""
        return self._before + self.entries

    @classmethod
    def of_trial(cls, label: str, settings: Settings, heard: Callable[[str], object] = unheard) -> Self:
        """The watch of a trial, which only looks whether the directories can be listed."""
        seconds = min(TRIAL_SECONDS, settings.list_timeout)
        return cls(label, seconds, heard, PAUSE_OF_LINES, settings.list_timeout)

    @property
    def has_seen_enough(self) -> bool:
        """Whether the time is up, but entries have come by then: so the directories can be listed."""
        return self.is_over and self.all_entries > 0

    @property
    def stopped(self) -> str:
        """What to say of a trial that ended before the listing did."""
        return (
            f"{self._directory}: {self.entries:,} entries came within {self.seconds:g} seconds; the trial stops there. "
            f"A crawl waits {self.crawl_seconds:g} seconds, as DCC_LIST_TIMEOUT says."
        )

    def note(self, entries: int) -> None:
        """Note how many entries of the present directory have come."""
        self.entries = entries
        if time.monotonic() >= self._next_said:
            self.say(f"listing of {self._directory}: {entries:,} entries so far")

    def say(self, text: str) -> None:
        """Tell how far the listing is, unless that was told a moment ago."""
        now = time.monotonic()
        if now >= self._next_said:
            self._next_said = now + self.pause
            self.heard(text)
        if now >= self._next_logged:
            self._next_logged = now + _LOG_SECONDS
            progress.info("%s: %s", self.label, text)

    @contextmanager
    def directory(self, name: str, shown: str, close: Callable[[], object]) -> Iterator[None]:
        """Bound the listing of a directory by what is left of the time: then `close` must make it fail.

        Messages name the directory `shown`. Raises SourceTimeoutError in place of that failure.
        """
        self.require_time(shown)
        self._before, self.entries, self._directory = self.all_entries, 0, name
        token = _WATCH.set(self)
        try:
            with time_limit(self.deadline - time.monotonic(), close):
                yield
        except TimeoutError as error:
            if self.is_over:
                raise self.outstayed(shown) from error
            raise
        finally:
            _WATCH.reset(token)

    def require_time(self, shown: str) -> None:
        """Raise SourceTimeoutError for the directory that comes next if the time is up already."""
        if self.is_over:
            raise self._outstayed(shown, 0)

    def outstayed(self, shown: str) -> SourceTimeoutError:
        """What to raise for the present directory, whose listing takes too long; messages name it `shown`."""
        return self._outstayed(shown, self.entries)

    def _outstayed(self, shown: str, entries: int) -> SourceTimeoutError:
        if self.crawl_seconds is not None:
            return SourceTimeoutError(
                mark(
                    "listing {shown} was not done within {seconds} seconds; {entries} entries had come by "
                    "then. This was only a trial: a crawl waits {crawl_seconds} seconds, as DCC_LIST_TIMEOUT says. Ask "
                    "whoever runs the server why it is slow."
                ),
                source=self.label,
                shown=shown,
                seconds=self.seconds,
                entries=entries,
                crawl_seconds=self.crawl_seconds,
            )
        return SourceTimeoutError(
            mark(
                "listing {shown} was not done within {seconds} seconds; {entries} entries had come by "
                "then. Ask whoever runs the server why it is slow. DCC_LIST_TIMEOUT sets the limit for all "
                "directories of a file source together."
            ),
            source=self.label,
            shown=shown,
            seconds=self.seconds,
            entries=entries,
        )


_WATCH: ContextVar[ListingWatch | None] = ContextVar("listing", default=None)


@contextmanager
def watching(watch: ListingWatch) -> Iterator[ListingWatch]:
    """Have a file source be listed under this watch, by the present thread; the time begins."""
    watch.begin()
    token = _WATCH.set(watch)
    try:
        yield watch
    finally:
        _WATCH.reset(token)


def watch_listing(label: str, seconds: float) -> ListingWatch:
    """The watch that the present thread lists under; without one, a watch of a single directory."""
    return _WATCH.get() or ListingWatch(label, seconds)


def watched() -> ListingWatch | None:
    """The watch that the present thread lists under, if any."""
    return _WATCH.get()
