"""What waits for one file source in a session, and how the source has behaved."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from dcc.errors import ChecksumMismatchError, SourceError
from dcc.session.archives.jobs import Job
from dcc.session.fetching.archive_transfer import Received, Transfer
from dcc.session.fetching.downloads import MOST_QUEUED, SourceDownloads, TransferFailed
from dcc.sources.base import SourceAddress
from dcc.sources.hosting import Hosting
from dcc.tracker.hostings.source_statistics import Conduct


class SourceQueue:
    """The zip actions to be downloaded from one file source, in order. Used by the coordinating thread only.

    What waits for a source that is given up is left to other sources or to the next session.
    """

    def __init__(self, downloads: SourceDownloads) -> None:
        self.conduct = Conduct()
        self.given_up = False
        self._downloads = downloads
        self._waiting: deque[tuple[Job, Hosting]] = deque()
        self._queued = 0

    @property
    def address(self) -> SourceAddress:
        """Where the source is."""
        return self._downloads.address

    def add(self, job: Job, hosting: Hosting) -> None:
        """Let a zip action wait for its turn."""
        self._waiting.append((job, hosting))

    def take(self, still_wanted: Callable[[], bool]) -> list[tuple[Job, Hosting]]:
        """The zip actions whose attempts may begin by now; asks `still_wanted` before each."""
        taken = []
        while self._waiting and self._queued < MOST_QUEUED and still_wanted():
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
        self.conduct.arrived += 1
        if not received.resumed:
            self.conduct.bytes += received.size_bytes
            self.conduct.seconds += received.seconds

    def note_failure(self, message: TransferFailed) -> None:
        """An attempt failed; one that was not made, for the copy is known to be bad, is no failure."""
        self._queued -= 1
        if isinstance(message.error, ChecksumMismatchError) and message.error.received is None:
            return
        if isinstance(message.error, SourceError) and not self.given_up:
            self.conduct.failures += 1
            self.given_up = self._downloads.given_up

    def stop(self) -> None:
        """End the source's threads."""
        self._downloads.stop()

    def join(self, timeout: float) -> None:
        """Wait for the source's threads, `timeout` seconds at most for each."""
        self._downloads.join(timeout)
