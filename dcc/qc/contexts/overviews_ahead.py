"""Overviews built while the data contexts still are: each server's processor has one of the two builds.

The overviews follow the contexts transaction by transaction, in a thread and connections of their own. What the thread
did is a part of a build like that of a session that was killed: the build itself, in its turn, goes on from there.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Final

from sqlalchemy import Engine

from dcc.errors import DatabaseUnreachableError
from dcc.qc.contexts.overviews import BuiltAhead, build_ahead
from dcc.runtime.log_context import in_log_context

log = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 1.0
"""Enough for a deadlock. The build itself does the waiting for others, and for a database that is away."""


class OverviewsAhead:
    """Builds overviews of what contexts take account of, beside the caller; to be closed."""

    def __init__(self, qc: Engine) -> None:
        self._qc = qc
        self._built = BuiltAhead()
        self._pool: ThreadPoolExecutor | None = None
        self._asked: list[Future[None]] = []
        self._ends = Event()

    def go_on(self) -> None:
        """Have the overviews show what contexts take account of by now; returns at once."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="overviews ahead")
        self._asked.append(self._pool.submit(in_log_context(self._go_on)))

    def finish(self) -> BuiltAhead:
        """End with the transaction that goes on; what was built. Raises what the thread met but for other writers and a
        database that is away, which the build itself is to wait for.
        """
        for error in self._end():
            raise error
        return self._built

    def close(self) -> None:
        """End with the transaction that goes on. What the thread met and nobody asked for is logged."""
        for error in self._end():
            log.error("The overviews met a fault beside the data contexts", exc_info=error)

    def _end(self) -> list[BaseException]:
        """What came of the thread that is not known yet; it has ended."""
        self._ends.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        asked, self._asked = self._asked, []
        errors = [one.exception() for one in asked if not one.cancelled()]
        return [error for error in errors if error is not None]

    def _go_on(self) -> None:
        try:
            while not self._ends.is_set() and build_ahead(self._qc, self._built, patience_seconds=_PATIENCE_SECONDS):
                pass
        except DatabaseUnreachableError as error:
            self._ends.set()
            log.info("The overviews are left to their own phase: %s", error)
        except BaseException:
            self._ends.set()
            raise
