"""What waits for one file source in a session, and how the source has behaved."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from dcc_resources.downloading import HOPELESS, Broke, Hosting, Received, SourceDownloads, Transfer
from dcc_resources.errors import (
    SourceError,
    SourceTimeoutError,
)
from dcc_resources.tracker.source_statistics import Conduct
from dcc_resources.zip_jobs import Job

_QUEUED = 64


class SourceQueue:
    """The zip actions to be downloaded from one file source, in order. Used by the coordinating thread only.

    A source to which `failure_limit` connections in a row could not be made, or over which as many transfers in a row
    stalled, or that refuses the login or cannot prove who it is, is given up for the session: what waits for it is left
    to other sources or to the next session.
    """

    def __init__(self, downloads: SourceDownloads, failure_limit: int) -> None:
        self.conduct = Conduct()
        self.given_up = False
        self._downloads = downloads
        self._failure_limit = failure_limit
        self._waiting: deque[tuple[Job, Hosting]] = deque()
        self._queued = 0
        self._failures_in_a_row = 0

    @property
    def label(self) -> str:
        """How messages name the source."""
        return self._downloads.address.label

    def add(self, job: Job, hosting: Hosting) -> None:
        """Let a zip action wait for its turn."""
        self._waiting.append((job, hosting))

    def take(self, still_wanted: Callable[[], bool]) -> list[tuple[Job, Hosting]]:
        """The zip actions whose attempts may begin by now; asks `still_wanted` before each."""
        taken = []
        while self._waiting and self._queued < _QUEUED and still_wanted():
            taken.append(self._waiting.popleft())
            self._queued += 1
        return taken

    def take_all(self) -> list[tuple[Job, Hosting]]:
        """Everything that waits, to be sent elsewhere."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def put(self, transfer: Transfer) -> None:
        """Hand over an attempt to the source's threads."""
        self._downloads.put(transfer)

    def note_arrival(self, received: Received) -> None:
        """An attempt succeeded."""
        self._queued -= 1
        self._failures_in_a_row = 0
        self.conduct.arrived += 1
        if not received.resumed:
            self.conduct.bytes += received.size_bytes
            self.conduct.seconds += received.seconds

    def note_failure(self, message: Broke) -> None:
        """An attempt failed; gives the source up if there is no use in going on with it."""
        self._queued -= 1
        if not isinstance(message.error, SourceError) or self.given_up:
            return
        self.conduct.failures += 1
        costs_time = message.connecting or isinstance(message.error, SourceTimeoutError)
        self._failures_in_a_row = self._failures_in_a_row + 1 if costs_time else 0
        if self._failures_in_a_row >= self._failure_limit or isinstance(message.error, HOPELESS):
            self.given_up = True
            self._downloads.give_up(message.error)

    def stop(self) -> None:
        """End the source's threads."""
        self._downloads.stop()

    def join(self, timeout: float) -> None:
        """Wait for the source's threads, `timeout` seconds at most for each."""
        self._downloads.join(timeout)
