"""Time limits of blocks: one thread watches them all."""

import threading

import pytest

from dcc.runtime.time_limits import time_limit


def _wait(closed: threading.Event) -> None:
    """Do what fails when it is closed, which must be before long."""
    assert closed.wait(10)
    raise OSError("It was closed.")


def test_the_shorter_of_two_limits_ends_its_block_alone() -> None:
    for outer, inner in ((60.0, 0.05), (0.05, 60.0)):
        closed = {60.0: threading.Event(), 0.05: threading.Event()}
        with (
            pytest.raises(TimeoutError, match=r"^not done within 0\.05 seconds$"),
            time_limit(outer, closed[outer].set),
            time_limit(inner, closed[inner].set),
        ):
            _wait(closed[0.05])
        assert not closed[60.0].is_set()


def test_a_block_that_cannot_be_closed_fails_at_its_own_end() -> None:
    asked = threading.Event()

    def close() -> None:
        asked.set()
        raise OSError("It cannot be closed.")

    with pytest.raises(TimeoutError, match="not done within 0 seconds"), time_limit(0, close):
        asked.wait(10)
    assert asked.is_set()
