"""Work done by another thread, one thing at a time, while this one goes on: worth it where a server does most of it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Engine

from dcc_resources.log_context import in_log_context

T = TypeVar("T")


class Beside:
    """Does things in the order in which they are begun, in the one thread of `pool`; None: at once, in the caller's."""

    def __init__(self, pool: ThreadPoolExecutor | None) -> None:
        self._pool = pool

    def begin(self, work: Callable[[], T]) -> Callable[[], T]:
        """Begin; what waits for the end of it, yields what came of it, and raises what it raised.

        Without a thread, that is raised here.
        """
        if self._pool is None:
            done = work()
            return lambda: done
        return self._pool.submit(in_log_context(work)).result


@contextmanager
def beside(engine: Engine, name: str) -> Generator[Beside]:
    """Have work with a database go on beside the block; when it is left, none is going on any more.

    SQLite works in this process, whose threads would wait for each other: it has none.
    """
    if engine.dialect.name == "sqlite":
        yield Beside(None)
        return
    pool = ThreadPoolExecutor(1, thread_name_prefix=name)
    try:
        yield Beside(pool)
    finally:
        pool.shutdown(cancel_futures=True)
