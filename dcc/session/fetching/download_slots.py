"""Slots for downloads, which the threads of all sources share."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

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
