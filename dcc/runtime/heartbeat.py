"""Signs of life: a thread renews a lease while a process works."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from dcc.runtime.log_context import with_log_context

log = logging.getLogger(__name__)

RENEWALS: Final = 6
"""How often a lease is renewed in the time after which it expires."""


@contextmanager
def renewing(lease: str, seconds: float, renew: Callable[[], bool]) -> Iterator[None]:
    """Call `renew` in a thread during the block, `RENEWALS` times in `seconds`, until it returns False.

    What it raises is logged, with the name of the `lease`.
    """
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(seconds / RENEWALS):
            try:
                if not renew():
                    return
            except Exception as error:
                # The database may come back before the lease expires. Dagster's handler of the log raises what keeps it
                # from writing, such as a full disk.
                with suppress(Exception):
                    log.warning("%s could not be renewed: %s", lease, error)

    beat = threading.Thread(target=with_log_context(go_on), name=lease, daemon=True)
    beat.start()
    try:
        yield
    finally:
        over.set()
        beat.join()
