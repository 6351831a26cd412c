"""The number of simultaneous downloads, limited so that a server that stalls or trickles blocks nobody.

Servers are given up only after a long silence, and never if they send a little now and then. A download that hardly
moves costs next to nothing, so it does not count.
"""

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

    `slow` is the result of the last check, at the time `looked`, when `seen` bytes had arrived.
    """

    received: int = 0
    slow: bool = False
    seen: int = 0
    looked: float = field(default_factory=time.monotonic)

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
        self._line: deque[threading.Event] = deque()
        self._lock = threading.Lock()

    @contextmanager
    def place(self) -> Iterator[DownloadSlot]:
        """Wait for a place and keep it during the block."""
        place = self._take_at_once() or self._wait_for_one()
        try:
            yield place
        finally:
            self._give_back(place)

    def _give_back(self, place: DownloadSlot) -> None:
        with self._lock:
            self._taken.remove(place)
            self._call_next()

    def _take_at_once(self) -> DownloadSlot | None:
        """A place, if there is one and nobody waits."""
        with self._lock:
            return None if self._line else self._take()

    def _wait_for_one(self) -> DownloadSlot:
        turn = threading.Event()
        with self._lock:
            self._line.append(turn)
        while (place := self._take_in_turn(turn)) is None:
            turn.wait(_LOOK_SECONDS)
        return place

    def _take_in_turn(self, turn: threading.Event) -> DownloadSlot | None:
        """A place for the first in the queue, if there is one."""
        with self._lock:
            place = self._take() if self._line[0] is turn else None
            if place is None:
                turn.clear()
            else:
                self._line.popleft()
                self._call_next()
            return place

    def _take(self) -> DownloadSlot | None:
        if self._moving() >= self._places:
            return None
        place = DownloadSlot()
        self._taken.append(place)
        return place

    def _call_next(self) -> None:
        if self._line:
            self._line[0].set()

    def _moving(self) -> int:
        now = time.monotonic()
        for place in self._taken:
            place.look(now)
        return sum(not place.slow for place in self._taken)
