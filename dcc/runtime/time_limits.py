"""Time limits for what has none: calls of the operating system, and waits that another thread can make fail."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias, TypeVar

from dcc.runtime.log_context import with_log_context

log = logging.getLogger(__name__)
T = TypeVar("T")

Judge: TypeAlias = Callable[[float], str | float]
"""Why a block has to end at a time of `time.monotonic`; or when to ask again."""


def in_time(ask: Callable[[], T], seconds: float, who: str) -> T:
    """The answer of `ask`, from a thread of its own, which is left behind after so many seconds.

    Raises TimeoutError then, which says that `who` did not answer, and as `ask`.
    """
    answers: queue.SimpleQueue[tuple[T] | Exception] = queue.SimpleQueue()

    def answer() -> None:
        try:
            answers.put((ask(),))
        except Exception as error:
            answers.put(error)

    threading.Thread(target=with_log_context(answer), name=f"ask {who}", daemon=True).start()
    try:
        found = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"{who} did not answer within {seconds:g} seconds") from None
    if isinstance(found, Exception):
        raise found
    return found[0]


def time_limit(seconds: float, close: Callable[[], object]) -> contextlib.AbstractContextManager[None]:
    """Limit a block to `seconds`: then `close`, called from another thread, must make it fail.

    Raises TimeoutError instead of that failure.
    """
    deadline = time.monotonic() + seconds
    return ended_if(lambda now: deadline if now < deadline else f"not done within {seconds:g} seconds", close)


@contextlib.contextmanager
def ended_if(judge: Judge, close: Callable[[], object]) -> Iterator[None]:
    """End a block for a reason that another thread finds by `judge`: then `close`, called there, must make it fail.

    A blocked read of a disk, which no `close` ends, goes on. Raises TimeoutError with the reason, instead of the
    failure. Nothing is closed after the block.
    """
    reasons: list[str] = []
    is_over, closing = threading.Event(), threading.Lock()

    def watch(found: str | float) -> None:
        while not isinstance(found, str):
            if is_over.wait(min(found - time.monotonic(), threading.TIMEOUT_MAX)):
                return
            found = judge(time.monotonic())
        with closing:
            if is_over.is_set():
                return
            reasons.append(found)
            try:
                close()
            except Exception:
                log.exception("What took too long could not be closed")

    threading.Thread(target=watch, args=(judge(time.monotonic()),), name="time limit", daemon=True).start()
    try:
        yield
    except Exception as error:
        if reasons:
            raise TimeoutError(reasons[0]) from error
        raise
    finally:
        with closing:
            is_over.set()
    if reasons:
        raise TimeoutError(reasons[0])
