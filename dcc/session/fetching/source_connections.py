"""The connections that the threads of one file source have, and what a refusal means beside the others.

A server may take fewer of them than there are threads. Whom it refuses then has done nothing wrong, and nor has the
server; but threads connect at the same time, so that one may be refused before another one knows that it is let in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext

from dcc.errors import SourceError
from dcc.runtime.log_context import progress_log
from dcc.sources.base import Connection

progress = progress_log(__name__)


class FurtherRefused(Exception):  # noqa: N818 - not an error: others have connections
    """No connection can be had beside those that others have, or none is wanted any more."""


class SourceConnections:
    """Connections to the file source `label`, each made by `make` in a `place`. Safe to share between threads.

    A place is waited for as long as what it is given says that this goes on.
    """

    def __init__(
        self,
        label: str,
        make: Callable[[], Connection],
        place: Callable[[Callable[[], bool]], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        self._label, self._make, self._place = label, make, place
        self._held: dict[int, ExitStack] = {}
        self._open = 0
        self._made = 0
        self._being_made = 0
        self._stopped = False
        self._changed = threading.Condition()

    @property
    def any_open(self) -> bool:
        """Whether somebody has a connection."""
        return self._open > 0

    def open(self) -> Connection:
        """Make a connection.

        Where that fails, it waits for others that are being made: only they tell whether the server takes any. Raises
        FurtherRefused where it took one meanwhile or somebody has one, and after `stop`; else what `make` raised.
        """
        with self._changed:
            self._being_made += 1
            before = self._made
        held = ExitStack()
        try:
            held.enter_context(self._place(lambda: not self._stopped and not self._open))
            connection = held.enter_context(closing(self._make()))
        except Exception as error:
            held.close()
            if not self._is_needed(before):
                # The transfer is left to others; but what is no fault of the server is to be seen.
                fault = None if isinstance(error, SourceError) else error
                progress.info("%s is asked for no further connection: %s", self._label, error, exc_info=fault)
                raise FurtherRefused from error
            raise
        with self._changed:
            self._being_made -= 1
            self._open += 1
            self._made += 1
            self._held[id(connection)] = held
            self._changed.notify_all()
        return connection

    def close(self, connection: Connection) -> None:
        """Close a connection. What it raises is logged: nobody needs it any more."""
        try:
            self._held.pop(id(connection)).close()
        except Exception as error:
            progress.info("A connection to %s was not closed in order: %s", self._label, error)
        with self._changed:
            self._open -= 1

    def stop(self) -> None:
        """Let nobody wait any longer."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _is_needed(self, before: int) -> bool:
        """Whether there is no other connection than one that could not be made; `before` it, so many had been."""

        def others_do() -> bool:
            return self._stopped or self._open > 0 or self._made > before

        with self._changed:
            self._being_made -= 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: others_do() or not self._being_made)
            return not others_do()
