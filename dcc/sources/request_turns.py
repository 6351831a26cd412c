"""Turns of requests to a server, so that all connections of a process send no more a second than is allowed.

Requests are those of HTTP, commands of FTP, and paths that SFTP opens or asks about. While `sharing`, all processes
that share keep to the limit together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from dcc.settings import Settings

Reserve = Callable[[str, float], float]
"""Reserves so many seconds at a server; returns when they begin, in seconds since 1970, not before now."""
_BLOCK_SECONDS: Final = 1.0
_MOST_AHEAD: Final = 3600.0
"""Seconds; a time further ahead was set by a clock that was wrong."""


def first_free(taken_until: float, now: float) -> float:
    """When new seconds at a server may begin."""
    return max(taken_until, now) if taken_until < now + _MOST_AHEAD else now


class Turns:
    """The turns at one server, `gap` seconds apart. Threads may share it."""

    def __init__(self, server: str, per_second: float) -> None:
        self._server, self._gap = server, 1 / per_second
        self._turns = max(1, int(_BLOCK_SECONDS * per_second))
        self._next = self._end = self._taken_until = 0.0
        self._lock = threading.Lock()

    def await_turn(self) -> None:
        """Sleep until the next request may be sent."""
        with self._lock:
            now = time.time()
            # Turns that were not used in time are lost, or they would be taken all at once.
            if not now <= self._next < now + _MOST_AHEAD or self._next + self._gap / 2 > self._end:
                seconds = self._turns * self._gap
                reserve = next(reversed(_shared), self._reserve)
                self._next = reserve(self._server, seconds)
                self._end = self._next + seconds
            turn = self._next
            self._next += self._gap
        time.sleep(max(turn - now, 0))

    def _reserve(self, _server: str, seconds: float) -> float:
        begin = first_free(self._taken_until, time.time())
        self._taken_until = begin + seconds
        return begin


_shared: Final[list[Reserve]] = []
_all: Final[dict[tuple[str, float], Turns]] = {}


_lock: Final = threading.Lock()


def turn_of(server: str, settings: Settings) -> Callable[[], None]:
    """What every request to a server calls before it is sent."""
    name = server.casefold()
    per_second = settings.limits_of(name).requests_per_second
    if per_second is None:
        return lambda: None
    with _lock:
        return _all.setdefault((name, per_second), Turns(name, per_second)).await_turn


@contextmanager
def sharing(reserve: Reserve) -> Iterator[None]:
    """Let this process reserve its turns by a function that other processes use too, during the block."""
    # Sessions of several groups may overlap in a process: each takes away its own alone.
    _shared.append(reserve)
    try:
        yield
    finally:
        _shared.remove(reserve)
