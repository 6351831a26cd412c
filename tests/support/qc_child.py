"""Processes of their own that apply documents, for the tests to kill or to let run beside each other."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from sqlalchemy import Engine
from sqlalchemy.event import listen, remove

from dcc.qc.database import open_qc_database
from dcc.settings import Settings
from tests.support.prepared_processes import ended

T = TypeVar("T")

_fork = get_context("fork")
event = _fork.Event
"""Makes what a process that is started can set, and this one wait for."""
finish = ended


def start(settings: Settings, work: Callable[[Engine], object]) -> BaseProcess:
    """A process that does `work` with an engine of its own; it ends with 0, or with 3 when that raises."""
    process = _fork.Process(target=_run, args=(settings, work))
    process.start()
    return process


def _run(settings: Settings, work: Callable[[Engine], object]) -> None:
    # Nothing of what the parent has open, or does at its end, is to be done here.
    code = 3
    try:
        work(open_qc_database(settings))
        code = 0
    finally:
        os._exit(code)


@contextmanager
def before_statement(engine: Engine, number: int, act: Callable[[], None]) -> Iterator[list[int]]:
    """Do something right before the statement of this number, from 0; yields a list of how many there were."""
    seen = [0]

    def count(*_: Any) -> None:
        if seen[0] == number:
            act()
        seen[0] += 1

    listen(engine, "before_cursor_execute", count)
    try:
        yield seen
    finally:
        remove(engine, "before_cursor_execute", count)


def fail_at_each_statement(engine: Engine, work: Callable[[], T], look: Callable[[], None]) -> tuple[T, int]:
    """Do `work` with a failure at its first statement, then at its second one, and so on, until there is none.

    `look` is called after each failure. What came of the work at last, and how often it failed.
    """

    def fail() -> None:
        raise OSError("the disk is gone")

    number = 0
    while True:
        try:
            with before_statement(engine, number, fail):
                return work(), number
        except OSError:
            number += 1
            look()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
