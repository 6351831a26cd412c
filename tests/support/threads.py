"""The same work done by several threads at once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def at_once(number: int, work: Callable[[], T]) -> list[T]:
    """What each of so many threads returned, which all begin at the same moment; raises what one of them raised."""
    ready = threading.Barrier(number)

    def begin() -> T:
        ready.wait(30)
        return work()

    with ThreadPoolExecutor(number) as pool:
        return [done.result() for done in [pool.submit(begin) for _ in range(number)]]
