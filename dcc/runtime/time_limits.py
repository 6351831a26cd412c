"""A time limit for calls of the operating system that have none: of the name service, or of a disk that is away."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from dcc.runtime.log_context import with_log_context

T = TypeVar("T")


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
