"""What threads that download share: the queue and the connections of a source, and the slots of all sources.

A server may accept fewer connections than there are threads. A refused thread has then done nothing wrong, and neither
has the server. But threads connect at the same time, so that one may be refused before it knows that another was
accepted. Servers are given up only after a long silence, and never if they send a little now and then: a download that
hardly moves costs next to nothing, so it does not count.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from dcc.errors import SourceError
from dcc.messages import Message
from dcc.runtime.log_context import progress_log
from dcc.sources.base import Connection

T = TypeVar("T")


class TransferQueue(Generic[T]):
    """A queue for `workers` threads, numbered from 0; `size_of` returns the bytes of an item, None if unknown.

    Items may be reserved for a thread, so that its connection can request them ahead. An idle thread takes another's
    reserved items anyway: a transfer that hardly moves delays no other.
    """

    def __init__(self, workers: int, size_of: Callable[[T], int | None]) -> None:
        self._size_of = size_of
        self._waiting: deque[T] = deque()
        self._kept: list[deque[T]] = [deque() for _ in range(workers)]
        self._first: deque[T] = deque()
        self._stopped = False
        self._changed = threading.Condition()

    def put(self, item: T) -> None:
        """Add an item; first in, first out."""
        with self._changed:
            self._waiting.append(item)
            self._changed.notify()

    def put_first(self, is_wanted: Callable[[T], bool]) -> None:
        """Let items go before all others, reserved or not."""
        with self._changed:
            for items in (*self._kept, self._waiting):
                if wanted := [item for item in items if is_wanted(item)]:
                    self._first.extend(wanted)
                    others = [item for item in items if not is_wanted(item)]
                    items.clear()
                    items.extend(others)

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
        """Wait for a thread's next item: one to go first, reserved for it, free, or reserved for another.

        None at the end. Raises TimeoutError after the seconds of `patience`.
        """
        with self._changed:
            while not self._stopped:
                for items in (self._first, self._kept[worker], self._waiting):
                    if items:
                        return items.popleft()
                longest = max(self._kept, key=len)
                if longest:
                    return longest.pop()
                if not self._changed.wait(patience):
                    raise TimeoutError
            return None

    def keep(self, worker: int, limit: int, max_bytes: int) -> Sequence[T]:
        """Reserve items for a thread, up to `limit` and `max_bytes`, and no more than its share.

        Returns all that are reserved for it, in order; nothing while it has still half of its share.
        """
        with self._changed:
            kept = self._kept[worker]
            if len(kept) > limit // 2:
                return ()
            share = len(self._waiting) // len(self._kept)
            room = max_bytes - sum(self._size_of(item) or 0 for item in kept)
            added = 0
            while added < share and len(kept) < limit and room > 0:
                size = self._size_of(self._waiting[0])
                if size is None:
                    break
                kept.append(self._waiting.popleft())
                room -= size
                added += 1
            return tuple(kept) if added else ()


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
    """Permits `slots` downloads at once, not counting those slower than 50 kB/s. For use by threads.

    First come, first served: a source with many downloads takes turns with the others.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._taken: list[DownloadSlot] = []
        self._line: deque[DownloadSlot] = deque()
        self._lock = threading.Lock()

    @contextmanager
    def slot(self) -> Iterator[DownloadSlot]:
        """Wait for a slot and keep it during the block."""
        slot = DownloadSlot()
        with self._lock:
            self._line.append(slot)
        while not self._take(slot):
            slot.turn.wait(_LOOK_SECONDS)
        try:
            yield slot
        finally:
            with self._lock:
                self._taken.remove(slot)
                self._call_first()

    def _take(self, slot: DownloadSlot) -> bool:
        """Take a slot, if it is the first in the queue and there is room."""
        with self._lock:
            slot.turn.clear()
            now = time.monotonic()
            for taken in self._taken:
                taken.look(now)
            if self._line[0] is not slot or sum(not taken.slow for taken in self._taken) >= self._slots:
                return False
            self._line.popleft()
            slot.looked = now
            self._taken.append(slot)
            self._call_first()
            return True

    def _call_first(self) -> None:
        if self._line:
            self._line[0].turn.set()


_FRESH_SECONDS = 30.0

session_log = progress_log(__name__)


class NoFurtherConnection(Exception):  # noqa: N818 - not an error: others have connections
    """No connection can be had in addition to those of others, or none is wanted any more."""


class SourceConnections:
    """Connections to the source `label`, each made by `make` in a `place`. Threads may share it.

    A thread waits for a place as long as the given function returns true.
    """

    def __init__(
        self,
        label: Message | str,
        make: Callable[[], Connection],
        place: Callable[[Callable[[], bool]], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        self._label, self._make, self._place = label, make, place
        self._of_thread: dict[int, tuple[Connection, ExitStack, float]] = {}
        self._open = 0
        self._made = 0
        self._being_made = 0
        self._stopped = False
        self._changed = threading.Condition()

    def get(self, thread: int) -> Connection:
        """The connection of a thread, by its number, or a new one.

        If that fails, it waits for others that are being made: only they show whether the server accepts any. Raises
        NoFurtherConnection if the server accepted one meanwhile or there is one, and after `stop`; else what `make`
        raised.
        """
        if thread in self._of_thread:
            connection, _, used = self._of_thread[thread]
            if time.monotonic() - used <= _FRESH_SECONDS:
                return connection
            # The server may have closed it meanwhile, which would cost the next transfer an attempt.
            self.release(thread)
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
                session_log.info("%s is asked for no further connection: %s", self._label, error, exc_info=fault)
                raise NoFurtherConnection from error
            raise
        with self._changed:
            self._being_made -= 1
            self._open += 1
            self._made += 1
            self._changed.notify_all()
        self._of_thread[thread] = connection, held, time.monotonic()
        return connection

    def has(self, thread: int) -> bool:
        """Whether a thread has a connection."""
        return thread in self._of_thread

    def release(self, thread: int, *, keep: bool = False) -> None:
        """Close a thread's connection, if it has one, or `keep` it for its next transfer.

        Errors are logged: nobody needs it any more.
        """
        if keep:
            connection, held, _ = self._of_thread[thread]
            self._of_thread[thread] = connection, held, time.monotonic()
        elif thread in self._of_thread:
            try:
                self._of_thread.pop(thread)[1].close()
            except Exception as error:
                session_log.info("A connection to %s was not closed in order: %s", self._label, error)
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
