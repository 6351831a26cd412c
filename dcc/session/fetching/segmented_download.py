"""One large archive over several connections to a source that is far away.

Far away a connection carries no more than its window for each round trip. So the rest of a large archive is cut into
segments. The first is fetched as usual, into the archive's part; each other one by any idle thread of the source, into
an unnamed file, from which it is appended to the part in its turn. Segments that nobody takes, or that somebody gives
up, come over the first connection too. So the part is a beginning of the archive at any moment.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum, auto
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from dcc.errors import TransferFailedError
from dcc.messages import mark
from dcc.outcomes import ZipKey
from dcc.sources.base import Block, Connection, ServesSegments
from dcc.sources.remote_names import path_below
from dcc.sources.transfer_speed import Pace

LEAST_BYTES: Final = 64 * 1024 * 1024
"""Smaller archives arrive about as soon as further connections are made and up to speed."""

LEAST_ROUND_TRIP: Final = 0.02
"""Seconds to an answer of the server; from nearer by one connection brings as much as several."""

_BLOCK: Final = 1024 * 1024
_LOOK_SECONDS: Final = 1.0


class RangeRequest(NamedTuple):
    """A listed file of a source, wanted from an offset on."""

    key: ZipKey
    size: int | None
    modified: int | None
    offset: int
    folder: str = ""

    @property
    def path(self) -> str:
        """Its path below the action directory."""
        return path_below(self.folder, self.key.file_name)


class _State(Enum):
    WAITING = auto()
    TAKEN = auto()
    ENDED = auto()
    OVER = auto()


class Segment:
    """The bytes of a file from `start` to `end`, which another thread may fetch.

    `received` of them have arrived, in order; `passed` of those have been passed on.
    """

    def __init__(self, wanted: RangeRequest, start: int, end: int, folder: Path) -> None:
        self.start, self.end, self.received, self.passed = start, end, 0, 0
        self.key = wanted.key
        self._wanted, self._folder = wanted, folder
        self._file: io.FileIO | None = None
        self._state = _State.WAITING
        self._changed = threading.Condition()

    def take_up(self) -> bool:
        """Claim the segment; returns whether nobody else has it, or any bytes of it."""
        with self._changed:
            free = self._state is _State.WAITING or (self._state is _State.ENDED and not self.received)
            if free:
                self._state = _State.TAKEN
            return free

    def fetch(self, connection: Connection, on_bytes: Callable[[int], object], pace: Pace) -> None:
        """Fetch a claimed segment, as far as possible.

        `on_bytes` is called with the number of received bytes, and may raise. Raises as `Connection.fetch`, OSError if
        the disk fails, TimeoutError if it is too slow, and TransferFailedError if the file differs from its listing, or
        is not wanted any longer.
        """
        try:
            with pace.kept(lambda: self.received, connection.close):
                self._fetch(connection, on_bytes)
        finally:
            with self._changed:
                if self._state is _State.OVER or not self.received:
                    self._let_go()
                if self._state is _State.TAKEN:
                    self._state = _State.ENDED
                self._changed.notify_all()

    def _fetch(self, connection: Connection, on_bytes: Callable[[int], object]) -> None:
        _see_unchanged(connection, self._wanted)
        file = self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 - let go of in the end

        def take(block: Block) -> None:
            # The server would go on to the end of the file.
            rest = memoryview(block)[: self.end - self.start - self.received]
            while rest:
                if self._state is _State.OVER:
                    raise TransferFailedError(mark("A segment of {archive} is wanted no longer."), archive=self.key)
                count = file.write(rest)
                rest = rest[count:]
                with self._changed:
                    self.received += count
                    self._changed.notify_all()
            on_bytes(self.received)

        action, path = self.key.action, self._wanted.path
        connection.fetch(action, path, take, size=self.end, offset=self.start, modified=self._wanted.modified)

    def pour(self, sink: Callable[[Block], object], look: Callable[[], object]) -> None:
        """Pass on received and arriving bytes, until the end or until its fetcher gives up.

        `look` is called each second of waiting, and may raise.
        """
        block = memoryview(bytearray(_BLOCK))
        while self._awaited(look):
            count = os.preadv(self._fileno, [block[: self.received - self.passed]], self.passed)
            if count == 0:
                raise EOFError("what arrived of a segment is not there any more")
            self.passed += count
            sink(block[:count])

    @property
    def _fileno(self) -> int:
        return -1 if self._file is None else self._file.fileno()

    def _awaited(self, look: Callable[[], object]) -> bool:
        """Whether there are bytes to pass on, now or later."""
        while True:
            with self._changed:
                if self.received > self.passed:
                    return True
                if self._state is not _State.TAKEN or self.received == self.end - self.start:
                    return False
                self._changed.wait(_LOOK_SECONDS)
            look()

    def end_here(self) -> None:
        """Release it: a thread that is fetching it ends with the next block."""
        with self._changed:
            if self._state is not _State.TAKEN:
                self._let_go()
            self._state = _State.OVER

    def _let_go(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class Sink(Protocol):
    """Takes a file in order, and has `received` of its bytes so far."""

    @property
    def received(self) -> int:
        """Bytes of the file, from its beginning."""
        ...

    def __call__(self, block: Block) -> object:
        """Take the next block."""
        ...


class Helpers(NamedTuple):
    """Threads that may take segments: `offer` is called with each; `connections` is the source's limit."""

    offer: Callable[[Segment], object]
    connections: int


class SegmentedFetch:
    """Fetches a file in order over one connection, with `helpers` if they pay; otherwise like any other fetch.

    `folder` is for unnamed files.
    """

    def __init__(self, connection: Connection, wanted: RangeRequest, folder: Path, helpers: Helpers | None) -> None:
        self._connection, self._wanted, self._helpers = connection, wanted, helpers
        self._segments = [Segment(wanted, start, end, folder) for start, end in _bounds(connection, wanted, helpers)]
        self._closed = False

    @property
    def room(self) -> int:
        """Bytes of the disk that it temporarily takes beyond the file's own."""
        return max((segment.end - segment.start for segment in self._segments), default=0)

    @property
    def ahead(self) -> int:
        """Received bytes that are not in the sink yet."""
        return sum(segment.received - segment.passed for segment in self._segments)

    @property
    def helped(self) -> int:
        """Bytes received over other connections so far."""
        return sum(segment.received for segment in self._segments)

    def close(self) -> None:
        """Make a running fetch in another thread fail."""
        self._closed = True
        self._connection.close()

    def into(self, sink: Sink, look: Callable[[], object]) -> None:
        """Fetch into a sink; raises as `Connection.fetch` and `sink`, and EOFError once closed.

        `look` is called each second of waiting for a segment, and may raise.
        """
        if not self._segments:
            self._fetch(sink, self._wanted.offset)
            return
        with self._offered():
            following = deque(self._segments)
            while sink.received < self._segments[-1].end:
                if following and following[0].start == sink.received:
                    segment = following.popleft()
                    if not segment.take_up():
                        segment.pour(sink, lambda: self._look(look))
                        segment.end_here()
                        continue
                if sink.received > self._wanted.offset:
                    _see_unchanged(self._connection, self._wanted)
                if not self._stopped_before(sink, following):
                    return

    def _fetch(self, sink: Callable[[Block], object], offset: int) -> None:
        wanted = self._wanted
        self._connection.fetch(
            wanted.key.action, wanted.path, sink, size=wanted.size, offset=offset, modified=wanted.modified
        )

    def _look(self, look: Callable[[], object]) -> None:
        look()
        if self._closed:
            raise EOFError("the transfer was ended")

    @contextlib.contextmanager
    def _offered(self) -> Iterator[None]:
        try:
            for segment in self._segments:
                if self._helpers is not None:
                    self._helpers.offer(segment)
            yield
        finally:
            for segment in self._segments:
                segment.end_here()

    def _stopped_before(self, sink: Sink, following: deque[Segment]) -> bool:
        """Fetch up to the first segment that another thread has; returns whether there was one."""

        def take(block: Block) -> None:
            rest = memoryview(block)
            while following and sink.received + len(rest) >= following[0].start:
                length = following[0].start - sink.received
                sink(rest[:length])
                rest = rest[length:]
                if not following[0].take_up():
                    raise _SegmentNext
                following.popleft()
            if rest:
                sink(rest)

        try:
            self._fetch(take, sink.received)
        except _SegmentNext:
            return True
        return False


class _SegmentNext(Exception):  # noqa: N818 - not an error: what comes next is a segment that somebody else has
    pass


def _see_unchanged(connection: Connection, wanted: RangeRequest) -> None:
    """Raise TransferFailedError unless a file that is begun in its middle is as listed."""
    key = wanted.key
    if not isinstance(connection, ServesSegments) or connection.modified(key.action, wanted.path) != wanted.modified:
        raise TransferFailedError(
            mark("{archive} is not as it was listed. The next listing tells how it is."), archive=key
        )


def _bounds(connection: Connection, wanted: RangeRequest, helpers: Helpers | None) -> list[tuple[int, int]]:
    """The beginnings and ends of the segments for other threads."""
    size, offset = wanted.size, wanted.offset
    if helpers is None or helpers.connections < 2 or size is None or size - offset < LEAST_BYTES:
        return []
    # A transfer that cannot be continued cannot begin in the middle either.
    if wanted.modified is None:
        return []
    round_trip = connection.round_trip() if isinstance(connection, ServesSegments) else None
    if round_trip is None or round_trip < LEAST_ROUND_TRIP:
        return []
    length = -(-(size - offset) // helpers.connections)
    return [(start, min(start + length, size)) for start in range(offset + length, size, length)]
