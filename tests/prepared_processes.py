"""Processes of their own that begin at once, for the tests to kill.

They are forked from one that has imported what they need and does nothing else: it has no thread, no connection and
nothing of the test process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from multiprocessing import get_context
from typing import Final

FORKED: Final = get_context("forkserver")
_PRELOADED: Final = (
    "alembic.command",
    "pymysql",
    "tests.dying_copies",
    "tests.dying_data_session",
    "tests.dying_session",
)


def preload(*more: str) -> None:
    """Have the process that others are forked from import these modules too, unless it runs already.

    A test process has one such process alone, and whoever says last what it imports decides for all.
    """
    FORKED.set_forkserver_preload([*_PRELOADED, *more])


preload()


def run_in_process(
    work: Callable[[str], object], argument: str, settings: Mapping[str, str], *, seconds: float = 60
) -> int | None:
    """Do `work` in a process with these settings in its environment, and no others of the platform.

    How it ended: 0, 1 when `work` raised, minus the signal that killed it, or None when it took more than `seconds`.
    """
    process = FORKED.Process(target=_run, args=(work, argument, dict(settings)))
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
        return None
    return process.exitcode


def _run(work: Callable[[str], object], argument: str, settings: dict[str, str]) -> None:
    for name in [name for name in os.environ if name.startswith("DCC_")]:
        del os.environ[name]
    os.environ.update(settings)
    work(argument)
