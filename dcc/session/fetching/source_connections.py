"""Connections to one source, one for each of its threads.

A server may accept fewer connections than there are threads. A refused thread has then done nothing wrong, and neither
has the server. But threads connect at the same time, so that one may be refused before it knows that another was
accepted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing

from dcc.errors import SourceError
from dcc.messages import Message
from dcc.runtime.log_context import progress_log
from dcc.sources.base import Connection

session_log = progress_log(__name__)

_FRESH_SECONDS = 30.0


class NoFurtherConnection(Exception):  # noqa: N818 - not an error: others have connections
    """No connection can be had in addition to those of others, or none is wanted any more."""


class SourceConnections:
    """Connections to the source `label`, each made by `make` in a `connection_slot`. Threads may share it.

    A thread waits for a slot as long as the given function returns true.
    """

    def __init__(
        self,
        label: Message | str,
        make: Callable[[], Connection],
        connection_slot: Callable[[Callable[[], bool]], AbstractContextManager[None]],
    ) -> None:
        self._label, self._make, self._connection_slot = label, make, connection_slot
        self._of_thread: dict[int, tuple[Connection, ExitStack, float]] = {}
        self._open = 0
        self._made = 0
        self._being_made = 0
        self._stopped = False
        self._changed = threading.Condition()

    def get(self, thread: int) -> Connection:
        """The connection of a thread, by its number, or a new one.

        If that fails, it waits for others that are being made: only they show whether the server accepts any. Raises
        NoFurtherConnection if the server accepted one meanwhile or there is one, and after `stop`; else what `make`
        raised.
        """
        if thread in self._of_thread:
            connection, _, used = self._of_thread[thread]
            if time.monotonic() - used <= _FRESH_SECONDS:
                return connection
            # The server may have closed it meanwhile, which would cost the next transfer an attempt.
            self.release(thread)
        with self._changed:
            self._being_made += 1
            before = self._made
        held = ExitStack()
        try:
            held.enter_context(self._connection_slot(lambda: not self._stopped and not self._open))
            connection = held.enter_context(closing(self._make()))
        except Exception as error:
            held.close()
            if not self._is_needed(before):
                # The transfer is left to others; an error that is not the server's must be visible.
                fault = None if isinstance(error, SourceError) else error
                session_log.info("%s is asked for no further connection: %s", self._label, error, exc_info=fault)
                raise NoFurtherConnection from error
            raise
        with self._changed:
            self._being_made -= 1
            self._open += 1
            self._made += 1
            self._changed.notify_all()
        self._of_thread[thread] = connection, held, time.monotonic()
        return connection

    def has(self, thread: int) -> bool:
        """Whether a thread has a connection."""
        return thread in self._of_thread

    def release(self, thread: int, *, keep: bool = False) -> None:
        """Close a thread's connection, if it has one, or `keep` it for its next transfer.

        Errors are logged: nobody needs it any more.
        """
        if keep:
            connection, held, _ = self._of_thread[thread]
            self._of_thread[thread] = connection, held, time.monotonic()
        elif thread in self._of_thread:
            try:
                self._of_thread.pop(thread)[1].close()
            except Exception as error:
                session_log.info("A connection to %s was not closed in order: %s", self._label, error)
            with self._changed:
                self._open -= 1

    def stop(self) -> None:
        """Let nobody wait any longer."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _is_needed(self, before: int) -> bool:
        """Whether there is no connection besides one that could not be made; `before` it, so many had been."""

        def others_do() -> bool:
            return self._stopped or self._open > 0 or self._made > before

        with self._changed:
            self._being_made -= 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: others_do() or not self._being_made)
            return not others_do()
