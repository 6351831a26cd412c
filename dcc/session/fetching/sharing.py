"""What the threads that fetch share: the number of downloads at once, and the queue and connections of one source."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from dcc.errors import SourceError
from dcc.runtime.log_context import progress_log
from dcc.sources.base import Connection

_LOOK_SECONDS = 0.25
_SLOW_SECONDS = 2.0
_SLOW_RATE = 50_000


@dataclass(eq=False)
class DownloadSlot:
    """One running download: its holder keeps `received`, the number of received bytes, up to date.

    `slow` is the result of the last check, at the time `looked`, when `seen` bytes had arrived. `turn` is set when it
    may be the next to begin.
    """

    received: int = 0
    slow: bool = False
    seen: int = 0
    looked: float = 0.0
    turn: threading.Event = field(default_factory=threading.Event)

    def look(self, now: float) -> None:
        """Check whether it moves, if enough time has passed."""
        seconds = now - self.looked
        if seconds >= _SLOW_SECONDS:
            received = self.received
            self.slow = received - self.seen < _SLOW_RATE * seconds
            self.seen, self.looked = received, now


class DownloadSlots:
    """Permits `places` downloads at once, not counting those slower than 50 kB/s. For use by threads.

    First come, first served: a source with many downloads takes turns with the others.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._taken: list[DownloadSlot] = []
        self._line: deque[DownloadSlot] = deque()
        self._lock = threading.Lock()

    @contextmanager
    def place(self) -> Iterator[DownloadSlot]:
        """Wait for a place and keep it during the block."""
        place = DownloadSlot()
        with self._lock:
            self._line.append(place)
        while not self._take(place):
            place.turn.wait(_LOOK_SECONDS)
        try:
            yield place
        finally:
            with self._lock:
                self._taken.remove(place)
                self._call_first()

    def _take(self, place: DownloadSlot) -> bool:
        """Take a place, if it is the first in the queue and there is room."""
        with self._lock:
            place.turn.clear()
            if self._line[0] is not place or self._moving() >= self._places:
                return False
            self._line.popleft()
            place.looked = time.monotonic()
            self._taken.append(place)
            self._call_first()
            return True

    def _call_first(self) -> None:
        if self._line:
            self._line[0].turn.set()

    def _moving(self) -> int:
        now = time.monotonic()
        for place in self._taken:
            place.look(now)
        return sum(not place.slow for place in self._taken)


T = TypeVar("T")


class TransferQueue(Generic[T]):
    """A queue for `workers` threads, numbered from 0; `size_of` returns the bytes of an item, None if unknown."""

    def __init__(self, workers: int, size_of: Callable[[T], int | None]) -> None:
        self._size_of = size_of
        self._waiting: deque[T] = deque()
        self._kept: list[deque[T]] = [deque() for _ in range(workers)]
        self._stopped = False
        self._changed = threading.Condition()

    def put(self, item: T) -> None:
        """Add an item; first in, first out."""
        with self._changed:
            self._waiting.append(item)
            self._changed.notify()

    def put_back(self, item: T) -> None:
        """Let another thread take an item before all others."""
        with self._changed:
            self._waiting.appendleft(item)
            self._changed.notify()

    def stop(self) -> None:
        """Let nobody take anything more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def take(self, worker: int, patience: float | None = None) -> T | None:
        """Wait for a thread's next item: reserved for it, free, or reserved for another.

        None at the end. Raises TimeoutError after the seconds of `patience`.
        """
        with self._changed:
            while not self._stopped:
                for items in (self._kept[worker], self._waiting):
                    if items:
                        return items.popleft()
                longest = max(self._kept, key=len)
                if longest:
                    return longest.pop()
                if not self._changed.wait(patience):
                    raise TimeoutError
            return None

    def keep(self, worker: int, most: int, most_bytes: int) -> Sequence[T]:
        """Reserve items for a thread, up to `most` and `most_bytes`, and no more than its share.

        Returns all that are reserved for it, in order; nothing while it has still half of its share.
        """
        with self._changed:
            kept = self._kept[worker]
            if len(kept) > most // 2:
                return ()
            share = len(self._waiting) // len(self._kept)
            room = most_bytes - sum(self._size_of(item) or 0 for item in kept)
            added = 0
            while added < share and len(kept) < most and room > 0:
                size = self._size_of(self._waiting[0])
                if size is None:
                    break
                kept.append(self._waiting.popleft())
                room -= size
                added += 1
            return tuple(kept) if added else ()


progress = progress_log(__name__)


class FurtherRefused(Exception):  # noqa: N818 - not an error: others have connections
    """No connection can be had in addition to those of others, or none is wanted any more."""


class SourceConnections:
    """Connections to the source `label`, each made by `make` in a `place`. Threads may share it.

    A thread waits for a place as long as the given function returns true.
    """

    def __init__(
        self,
        label: str,
        make: Callable[[], Connection],
        place: Callable[[Callable[[], bool]], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        self._label, self._make, self._place = label, make, place
        self._held: dict[int, ExitStack] = {}
        self._open = 0
        self._made = 0
        self._being_made = 0
        self._stopped = False
        self._changed = threading.Condition()

    def open(self) -> Connection:
        """Make a connection.

        If that fails, it waits for others that are being made: only they show whether the server accepts any. Raises
        FurtherRefused if the server accepted one meanwhile or there is one, and after `stop`; else what `make` raised.
        """
        with self._changed:
            self._being_made += 1
            before = self._made
        held = ExitStack()
        try:
            held.enter_context(self._place(lambda: not self._stopped and not self._open))
            connection = held.enter_context(closing(self._make()))
        except Exception as error:
            held.close()
            if not self._is_needed(before):
                # The transfer is left to others; an error that is not the server's must be visible.
                fault = None if isinstance(error, SourceError) else error
                progress.info("%s is asked for no further connection: %s", self._label, error, exc_info=fault)
                raise FurtherRefused from error
            raise
        with self._changed:
            self._being_made -= 1
            self._open += 1
            self._made += 1
            self._held[id(connection)] = held
            self._changed.notify_all()
        return connection

    def close(self, connection: Connection) -> None:
        """Close a connection. Its errors are logged: nobody needs it any more."""
        try:
            self._held.pop(id(connection)).close()
        except Exception as error:
            progress.info("A connection to %s was not closed in order: %s", self._label, error)
        with self._changed:
            self._open -= 1

    def stop(self) -> None:
        """Let nobody wait any longer."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _is_needed(self, before: int) -> bool:
        """Whether there is no connection besides one that could not be made; `before` it, so many had been."""

        def others_do() -> bool:
            return self._stopped or self._open > 0 or self._made > before

        with self._changed:
            self._being_made -= 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: others_do() or not self._being_made)
            return not others_do()
