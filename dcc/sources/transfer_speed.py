"""Ends transfers that are too slow or take too long: a server may trickle without end."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

from dcc.settings import Settings

_LINGER_SECONDS = 5.0
_LONGEST_WAIT = 3600.0


@dataclass(frozen=True, slots=True)
class Pace:
    """At least `slowest` bytes a second over every `over` seconds, and no more than `longest` seconds in all."""

    slowest: int = 0
    over: float = 300.0
    longest: float = 24 * 3600.0

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The pace of the settings."""
        return cls(slowest=settings.min_download_speed, longest=settings.download_timeout)

    @contextlib.contextmanager
    def kept(self, received: Callable[[], int], close: Callable[[], object]) -> Iterator[None]:
        """Watch the block; `received` returns the bytes so far.

        If it is too slow, `close`, called from another thread, must end it; a blocked read of a disk, which no `close`
        ends, goes on. Raises TimeoutError then, with the reason. Nothing is closed after the block.
        """
        watched = _Watched(self, received, close)
        _WATCHER.add(watched)
        try:
            yield
        except Exception as error:
            if watched.reason is not None:
                raise TimeoutError(watched.reason) from error
            raise
        finally:
            _WATCHER.remove(watched)
        if watched.reason is not None:
            raise TimeoutError(watched.reason)


class _Watched:
    """A watched transfer: the time of its next check, and why it was ended."""

    def __init__(self, pace: Pace, received: Callable[[], int], close: Callable[[], object]) -> None:
        self.reason: str | None = None
        self._pace, self._received, self._close = pace, received, close
        self._ended = False
        self._lock = threading.Lock()
        now = time.monotonic()
        self._deadline, self._before = now + pace.longest, received()
        self.due = min(now + pace.over, self._deadline)

    def look(self, now: float) -> None:
        """End it if it was too slow since the last check."""
        with self._lock:
            if self._ended:
                return
            self.reason = self._judge(now)
            self._ended = self.reason is not None
            if self._ended:
                self._close()
            self.due = math.inf if self._ended else min(now + self._pace.over, self._deadline)

    def _judge(self, now: float) -> str | None:
        count, before = self._received(), self._before
        self._before = count
        if now >= self._deadline:
            return f"it was not done within {self._pace.longest:g} seconds; DCC_DOWNLOAD_TIMEOUT sets the limit"
        if count - before < self._pace.slowest * self._pace.over:
            few = f"{count - before:,} bytes arrived in {self._pace.over:g} seconds"
            return f"{few}; DCC_MIN_DOWNLOAD_SPEED sets the limit"
        return None

    def end(self) -> None:
        """Stop watching; waits for a running check."""
        with self._lock:
            self._ended = True


class _Watcher:
    """The one thread that watches all transfers: a thread for each small file took longer than the file."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Watch nothing, without a thread: for a forked process."""
        self._all: set[_Watched] = set()
        self._changed = threading.Condition()
        self._wakes = 0.0
        self._running = False

    def add(self, watched: _Watched) -> None:
        """Look at it from now on."""
        with self._changed:
            self._all.add(watched)
            if not self._running:
                threading.Thread(target=self._watch, name="pace", daemon=True).start()
                self._running = True
            elif watched.due < self._wakes:
                self._changed.notify()

    def remove(self, watched: _Watched) -> None:
        """Look at it no more."""
        watched.end()
        with self._changed:
            self._all.discard(watched)

    def _watch(self) -> None:
        try:
            while (due := self._await_due()) is not None:
                for watched in due:
                    watched.look(time.monotonic())
        except BaseException:
            # The next addition starts it again.
            with self._changed:
                self._running = False
            raise

    def _await_due(self) -> list[_Watched] | None:
        """The transfers to check, when their time has come; None after a while without any."""
        with self._changed:
            idle = False
            while True:
                now = time.monotonic()
                due = [watched for watched in self._all if watched.due <= now]
                if due:
                    return due
                if idle and not self._all:
                    self._running = False
                    return None
                idle = not self._all
                self._wakes = now + _LINGER_SECONDS
                if self._all:
                    self._wakes = min(now + _LONGEST_WAIT, *(watched.due for watched in self._all))
                self._changed.wait(self._wakes - now)


_WATCHER = _Watcher()
os.register_at_fork(after_in_child=_WATCHER.begin_anew)
