"""Work that is done by several threads at once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def at_once(*works: Callable[[], T]) -> list[T]:
    """What each work returned, by a thread each, which all begin at the same moment; raises what one of them raised."""
    ready = threading.Barrier(len(works))

    def begin(work: Callable[[], T]) -> T:
        ready.wait(30)
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(begin, works))
