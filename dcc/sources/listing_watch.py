"""The time limit of listing a source, all its directories together, and the progress of the listing.

The watch belongs to the thread that lists. Connections and `action_listing` look it up, so that a protocol added later
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
from dcc.messages import Message, count_of, mark, message
from dcc.runtime.log_context import progress_log
from dcc.runtime.time_limits import time_limit
from dcc.settings import Settings

session_log = progress_log(__name__)

TRIAL_SECONDS: Final = 30.0
"""Seconds after which the trial of a source ends; a crawl takes as long as the settings say."""

PAUSE_OF_LINES: Final = 5.0
"""Seconds between two lines about the progress of a listing."""

_PAUSE: Final = 1.0
_LOG_SECONDS: Final = 10.0


def ignore_progress(_text: str) -> None:
    """Ignore the progress."""


@dataclass
class ListingWatch:
    """Watches the listing of the source `label`, which may take `seconds` in all.

    `on_progress` is called every `pause` seconds: `listing of add: 40,000 entries so far`. `crawl_seconds` is the time
    of a crawl, if this is only a trial. The time begins when the watch is made, and again with `watching`.
    """

    label: Message | str
    seconds: float
    on_progress: Callable[[str], object] = ignore_progress
    pause: float = field(default_factory=lambda: _PAUSE)
    crawl_seconds: float | None = None
    entries: int = 0
    """Received entries of the present directory."""
    deadline: float = field(init=False)
    _before: int = field(default=0, init=False)
    _directory: str = field(default="", init=False)
    _next_said: float = field(init=False)
    _next_logged: float = field(init=False)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin the time now."""
        now = time.monotonic()
        self.deadline = now + self.seconds
        self._next_said, self._next_logged = now + self.pause, now + _LOG_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self.deadline

    @property
    def all_entries(self) -> int:
        """Received entries of all directories."""
        return self._before + self.entries

    @classmethod
    def of_trial(
        cls, label: Message | str, settings: Settings, on_progress: Callable[[str], object] = ignore_progress
    ) -> Self:
        """The watch of a trial, which only checks whether the directories can be listed."""
        seconds = min(TRIAL_SECONDS, settings.list_timeout)
        return cls(label, seconds, on_progress, PAUSE_OF_LINES, settings.list_timeout)

    @property
    def has_seen_enough(self) -> bool:
        """Whether the time is up with received entries: so the directories can be listed."""
        return self.is_over and self.all_entries > 0

    @property
    def stopped(self) -> str:
        """The message about a trial that ended before the listing did."""
        return (
            f"{self._directory}: {count_of(self.entries, 'entry')} came within {self.seconds:g} s; the trial stops "
            f"there. A crawl waits {self.crawl_seconds:g} s, as DCC_LIST_TIMEOUT says."
        )

    def note(self, entries: int) -> None:
        """Record the number of received entries of the present directory."""
        self.entries = entries
        if time.monotonic() >= self._next_said:
            self.say(f"listing of {self._directory}: {count_of(entries, 'entry')} so far")

    def say(self, text: str) -> None:
        """Report the progress, unless it was reported a moment ago."""
        now = time.monotonic()
        if now >= self._next_said:
            self._next_said = now + self.pause
            self.on_progress(text)
        if now >= self._next_logged:
            self._next_logged = now + _LOG_SECONDS
            session_log.info("%s: %s", self.label, text)

    @contextmanager
    def directory(self, name: str, shown: str, close: Callable[[], object]) -> Iterator[None]:
        """Limit the listing of a directory to the time left: then `close` must make it fail.

        Messages name the directory `shown`. Raises SourceTimeoutError instead of that failure.
        """
        self.require_time(shown)
        self._before, self.entries, self._directory = self.all_entries, 0, name
        token = _WATCH.set(self)
        try:
            with time_limit(self.deadline - time.monotonic(), close):
                yield
        except TimeoutError as error:
            if self.is_over:
                raise self.timeout_error(shown) from error
            raise
        finally:
            _WATCH.reset(token)

    def require_time(self, shown: str) -> None:
        """Raise SourceTimeoutError for the next directory if the time is up already."""
        if self.is_over:
            raise self.timeout_error(shown, 0)

    def timeout_error(self, shown: str, entries: int | None = None) -> SourceTimeoutError:
        """The error for a directory whose listing takes too long; messages name it `shown`.

        `entries`: how many had come, by default those of the present directory.
        """
        limit = mark("DCC_LIST_TIMEOUT sets the limit for all directories of a file source together.")
        if self.crawl_seconds is not None:
            limit = mark("This was only a trial: a crawl waits {crawl_seconds} s, as DCC_LIST_TIMEOUT says.")
        text = mark(
            "listing {shown} was not done within {seconds} s; entries that had come by then: {entries}. Ask whoever "
            "runs the server why it is slow. {limit}"
        )
        count, told = self.entries if entries is None else entries, message(limit, crawl_seconds=self.crawl_seconds)
        return SourceTimeoutError(text, source=self.label, shown=shown, seconds=self.seconds, entries=count, limit=told)


_WATCH: ContextVar[ListingWatch | None] = ContextVar("listing", default=None)


@contextmanager
def watching(watch: ListingWatch) -> Iterator[ListingWatch]:
    """List a source under this watch, in the present thread; the time begins."""
    watch.begin()
    token = _WATCH.set(watch)
    try:
        yield watch
    finally:
        _WATCH.reset(token)


def watch_listing(label: Message | str, seconds: float) -> ListingWatch:
    """The watch of the present thread; without one, a watch of a single directory."""
    return _WATCH.get() or ListingWatch(label, seconds)


def watched() -> ListingWatch | None:
    """The watch of the present thread, if any."""
    return _WATCH.get()
