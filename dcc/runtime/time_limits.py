"""Time limits for what has none: calls of the operating system, and waits that another thread can make fail."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import TypeAlias, TypeVar

from dcc.messages import count_of
from dcc.runtime.log_context import with_log_context

log = logging.getLogger(__name__)
T = TypeVar("T")

_LINGER_SECONDS = 5.0
_LONGEST_WAIT = 3600.0

Judge: TypeAlias = Callable[[float], str | float]
"""Why a block has to end at a time of `time.monotonic`; or when to ask again."""


def in_thread(work: Callable[[], T], name: str) -> Future[T]:
    """Begin work in a thread of its own, which ends with the process whatever it does."""
    future: Future[T] = Future()

    def answer() -> None:
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=with_log_context(answer), name=name, daemon=True).start()
    return future


def call_with_timeout(ask: Callable[[], T], seconds: float, who: str) -> T:
    """The answer of `ask`, from a thread of its own, which is left behind after so many seconds.

    Raises TimeoutError then, which says that `who` did not answer, and as `ask`.
    """
    answer = in_thread(ask, f"ask {who}")
    if not wait([answer], seconds).done:
        raise TimeoutError(f"{who} did not answer within {count_of(seconds, 'second')}")
    return answer.result()


def time_limit(seconds: float, close: Callable[[], object]) -> contextlib.AbstractContextManager[None]:
    """Limit a block to `seconds`: then `close`, called from another thread, must make it fail.

    Raises TimeoutError instead of that failure.
    """
    deadline = time.monotonic() + seconds
    return watchdog(lambda now: deadline if now < deadline else f"not done within {count_of(seconds, 'second')}", close)


@contextlib.contextmanager
def watchdog(judge: Judge, close: Callable[[], object]) -> Iterator[None]:
    """End a block for a reason that another thread finds by `judge`: then `close`, called there, must make it fail.

    A blocked read of a disk, which no `close` ends, goes on. Raises TimeoutError with the reason, instead of the
    failure. Nothing is closed after the block.
    """
    watched = _Watched(judge, close)
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
    """A block: the time of its next check, and why it was ended."""

    def __init__(self, judge: Judge, close: Callable[[], object]) -> None:
        self.reason: str | None = None
        self._judge, self._close = judge, close
        self._is_over = False
        self._lock = threading.Lock()
        now = time.monotonic()
        found = judge(now)
        self.due = now if isinstance(found, str) else found

    def look(self) -> None:
        """End it if there is a reason."""
        with self._lock:
            if self._is_over:
                return
            found = self._judge(time.monotonic())
            if not isinstance(found, str):
                self.due = found
                return
            self.reason, self._is_over, self.due = found, True, math.inf
            try:
                self._close()
            except Exception:
                log.exception("What took too long could not be closed")

    def end(self) -> None:
        """Stop watching; waits for a running check."""
        with self._lock:
            self._is_over = True


class _Watcher:
    """The one thread that watches all blocks: a thread for each small file or request took longer than that."""

    def __init__(self) -> None:
        self.forget_all()

    def forget_all(self) -> None:
        """Watch nothing, without a thread: for a forked process."""
        self._all: set[_Watched] = set()
        self._changed = threading.Condition()
        self._wakes = 0.0
        self._running = False

    def add(self, watched: _Watched) -> None:
        with self._changed:
            self._all.add(watched)
            if not self._running:
                threading.Thread(target=self._watch, name="time limits", daemon=True).start()
                self._running = True
            elif watched.due < self._wakes:
                self._changed.notify()

    def remove(self, watched: _Watched) -> None:
        watched.end()
        with self._changed:
            self._all.discard(watched)

    def _watch(self) -> None:
        while (due := self._await_due()) is not None:
            for watched in due:
                watched.look()

    def _await_due(self) -> list[_Watched] | None:
        """The blocks to check, when their time has come; None after a while without any."""
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
os.register_at_fork(after_in_child=_WATCHER.forget_all)
