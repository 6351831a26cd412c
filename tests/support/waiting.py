"""Waiting for what another thread or process does."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], seconds: float = 60, *, every: float = 0.02) -> None:
    """Wait until something holds; that it never does is a failure. To look `every` so often must not be much work."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"Waited {seconds} seconds in vain."
        time.sleep(every)
