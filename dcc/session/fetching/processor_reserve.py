"""Starts more of a source's threads only if they help: while threads wait for the source, and not for a processor.

Near by, two connections keep the processors busy, and more of them only compete. Far away, and for a slow server, the
third brings as much as the first.
"""

from __future__ import annotations

import threading
import time
from typing import Final

FIRST: Final = 2
"""Threads that begin at once."""

_FIRST_LOOK_SECONDS: Final = 0.05
_LOOK_SECONDS: Final = 0.2
_BUSY: Final = 0.35


class Reserve:
    """The threads of one source, numbered from 0; those from FIRST on wait until they are of use.

    They are of use if nothing was fetched in the first 0.05 seconds, or if the fetching threads together used less than
    0.35 of a processor for 0.2 seconds. From then on they stay so.
    """

    def __init__(self, workers: int) -> None:
        self._used = [0.0] * workers
        self._of_use = threading.Event()

    def note_fetched(self, worker: int) -> None:
        """Thread `worker`, which calls this, has fetched something."""
        self._used[worker] = time.thread_time()

    def call(self) -> None:
        """Let all threads begin."""
        self._of_use.set()

    def await_use(self, worker: int) -> None:
        """Wait until thread `worker` is of use."""
        if worker < FIRST or self._of_use.wait(_FIRST_LOOK_SECONDS):
            return
        began, before = time.monotonic(), sum(self._used)
        waiting = before == 0.0
        while not waiting and not self._of_use.wait(_LOOK_SECONDS):
            now, used = time.monotonic(), sum(self._used)
            waiting = used - before < _BUSY * (now - began)
            began, before = now, used
        self.call()
