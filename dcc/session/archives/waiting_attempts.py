"""The attempts of a session that wait: in which order, and at which source. Only the coordinating thread uses them."""

from __future__ import annotations

import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import Connection

from dcc.errors import ChecksumMismatchError, SourceError
from dcc.outcomes import SubmissionKey
from dcc.session.archives.active_submissions import ActiveSubmission
from dcc.session.fetching.archive_transfer import ReceivedArchive
from dcc.session.fetching.downloads import MAX_QUEUED, SourceDownloads
from dcc.session.fetching.transfer_events import TransferCompleted, TransferFailed, TransferNotBegun
from dcc.tracker.hostings.hosting import Hosting
from dcc.tracker.hostings.source_statistics import TransferStatistics
from dcc.tracker.hostings.urgent_requests import urgent_keys
from dcc.tracker.register.source_schedules import paused_sources

_ASKING_SECONDS = 10.0
"""Seconds between looks for archives that a person wants first, and for sources that a person paused."""


class PlannedAttempt(NamedTuple):
    """A submission, and the hosting that it is fetched from next."""

    submission: ActiveSubmission
    hosting: Hosting


class _DelayedAttempt(NamedTuple):
    """An attempt that begins when it is `due`, on the clock of `time.monotonic`; `order` tells equal ones apart."""

    due: float
    order: int
    submission: ActiveSubmission
    hosting: Hosting


class SourceQueue:
    """The submissions to download from one source, in order. Only the coordinating thread uses it.

    `downloads` are the source's threads. Submissions that wait for a source that rests are left to other sources or to
    the next session. `requested` are those whose attempts have been requested and have not ended.
    """

    def __init__(self, downloads: SourceDownloads) -> None:
        self.transfer_statistics = TransferStatistics()
        self._urgent: Collection[SubmissionKey] = ()
        self.downloads = downloads
        self._waiting: deque[PlannedAttempt] = deque()
        self.requested: dict[SubmissionKey, ActiveSubmission] = {}

    def add(self, submission: ActiveSubmission, hosting: Hosting) -> None:
        """Queue a submission."""
        attempt = PlannedAttempt(submission, hosting)
        if submission.key in self._urgent:
            self._waiting.appendleft(attempt)
        else:
            self._waiting.append(attempt)

    def put_first(self, keys: Collection[SubmissionKey]) -> None:
        """Let submissions go before all others, even those whose attempts were requested and have not begun."""
        self._urgent = keys
        self.downloads.put_first(keys)
        if any(attempt.submission.key in keys for attempt in self._waiting):
            self._waiting = deque(sorted(self._waiting, key=lambda attempt: attempt.submission.key not in keys))

    def take(self, still_wanted: Callable[[], bool]) -> list[PlannedAttempt]:
        """The submissions whose attempts may begin now; calls `still_wanted` before each."""
        taken = []
        while self._waiting and still_wanted():
            if len(self.requested) >= MAX_QUEUED and self._waiting[0].submission.key not in self._urgent:
                break
            attempt = self._waiting.popleft()
            taken.append(attempt)
            self.requested[attempt.submission.key] = attempt.submission
        return taken

    def take_all(self) -> list[PlannedAttempt]:
        """All waiting submissions, for other sources."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def end_attempt(self, event: TransferCompleted | TransferFailed | TransferNotBegun) -> ActiveSubmission:
        """Record the end of a requested attempt; returns its submission."""
        if isinstance(event, TransferCompleted):
            self._count_arrival(event.received)
        elif isinstance(event, TransferFailed) and isinstance(event.error, SourceError):
            # Without those that were not made because the copy is known to be bad.
            is_made = not isinstance(event.error, ChecksumMismatchError) or event.error.received is not None
            self.transfer_statistics.failures += is_made
        return self.requested.pop(event.transfer.key)

    def _count_arrival(self, received: ReceivedArchive) -> None:
        self.transfer_statistics.arrived += 1
        if not received.resumed and received.is_sent:
            self.transfer_statistics.bytes += received.size_bytes
            self.transfer_statistics.seconds += received.seconds


class WaitingAttempts:
    """The waiting attempts of a session, each for its turn at a source or the end of its delay.

    `sources` are by id. Only the coordinating thread uses it. `retry_delay` is in seconds; each round doubles it.
    """

    def __init__(self, sources: Mapping[int, SourceQueue], retry_delay: float) -> None:
        self.sources, self._retry_delay = sources, retry_delay
        self._retries: list[_DelayedAttempt] = []
        self._order = itertools.count()
        self._asked = time.monotonic()

    def plan(self, submission: ActiveSubmission) -> bool:
        """Queue the submission for its next attempt, at a source still in use; False if there is none."""
        while (following := submission.choice.next_hosting()) is not None:
            hosting = following.hosting
            source = self.sources.get(hosting.source_id)
            if source is None or source.downloads.is_resting:
                continue
            if following.turn == 0:
                source.add(submission, hosting)
            else:
                due = time.monotonic() + self._retry_delay * 2 ** (following.turn - 1)
                heapq.heappush(self._retries, _DelayedAttempt(due, next(self._order), submission, hosting))
            return True
        return False

    def seconds_left(self) -> float | None:
        """Seconds until the next delay ends; None without one."""
        return self._retries[0].due - time.monotonic() if self._retries else None

    def take_stranded(self) -> list[ActiveSubmission]:
        """The submissions that wait for a source at which no attempt begins: they must be planned again."""
        resting = [source for source in self.sources.values() if source.downloads.is_resting]
        stranded = [attempt.submission for source in resting for attempt in source.take_all()]
        while self._retries and self._retries[0].due <= time.monotonic():
            attempt = heapq.heappop(self._retries)
            source = self.sources[attempt.hosting.source_id]
            if source.downloads.is_resting:
                stranded.append(attempt.submission)
            else:
                source.add(attempt.submission, attempt.hosting)
        return stranded

    def take(self, still_wanted: Callable[[], bool]) -> list[PlannedAttempt]:
        """The attempts that may begin now; calls `still_wanted` before each."""
        return [taken for source in self.sources.values() for taken in source.take(still_wanted)]

    def ask_people(self, connection: Connection) -> None:
        """Let the submissions that people want go first, and the sources that they paused rest; not too often."""
        if time.monotonic() - self._asked <= _ASKING_SECONDS:
            return
        urgent = set(urgent_keys(connection))
        for source in self.sources.values():
            source.put_first(urgent)
        self.pause(paused_sources(connection))
        self._asked = time.monotonic()

    def pause(self, paused: Collection[int]) -> None:
        """Begin no attempt at the sources with these ids, which people paused, until they are left out again."""
        for number, source in self.sources.items():
            source.downloads.is_paused = number in paused

    def are_paused(self, hostings: Iterable[Hosting]) -> bool:
        """Whether people paused every source of a submission that the session could use."""
        used = [self.sources[each.source_id] for each in hostings if each.source_id in self.sources]
        return bool(used) and all(source.downloads.is_paused for source in used)

    def take_large(self, size_bytes: int) -> list[ActiveSubmission]:
        """The waiting submissions that need as many bytes, or more."""
        large = []
        for source in self.sources.values():
            for submission, hosting in source.take_all():
                if (hosting.size_bytes or 0) >= size_bytes:
                    large.append(submission)
                else:
                    source.add(submission, hosting)
        return large

    def give_up(self) -> None:
        """Plan no further attempt at any source."""
        for source in self.sources.values():
            source.downloads.given_up = True

    def stop(self) -> None:
        """End the sources' threads."""
        for source in self.sources.values():
            source.downloads.stop()

    def join(self, seconds: float) -> None:
        """Wait for the sources' threads, for so long at most."""
        deadline = time.monotonic() + seconds
        for source in self.sources.values():
            source.downloads.join(max(deadline - time.monotonic(), 0))
