"""Work done by other threads while this one goes on: worth it where a server does most of it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Engine

from dcc.runtime.log_context import with_log_context

T = TypeVar("T")


class BackgroundWork:
    """Begins things in their order, in the threads of `pool`; None: does them at once, in the caller's."""

    def __init__(self, pool: ThreadPoolExecutor | None) -> None:
        self._pool = pool

    @property
    def is_another_thread(self) -> bool:
        """Whether the caller goes on while things are done."""
        return self._pool is not None

    def begin(self, work: Callable[[], T]) -> Callable[[], T]:
        """Begin; what waits for the end of it, yields what came of it, and raises what it raised.

        Without a thread, that is raised here.
        """
        if self._pool is None:
            done = work()
            return lambda: done
        return self._pool.submit(with_log_context(work)).result


@contextmanager
def run_in_background(engine: Engine, name: str, threads: int = 1) -> Generator[BackgroundWork]:
    """Have work with a database go on beside the block, so many things at a time; when it is left, none is any more.

    SQLite works in this process, whose threads would wait for each other: it has none.
    """
    if engine.dialect.name == "sqlite":
        yield BackgroundWork(None)
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
    try:
        yield BackgroundWork(pool)
    finally:
        pool.shutdown(cancel_futures=True)
