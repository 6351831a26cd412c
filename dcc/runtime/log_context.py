"""The subject of log messages: session, source, centre, submission, phase and document.

It is set where work on a subject begins, and holds for all messages until that work ends, in this thread and in those
that work for it (`with_log_context`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Final, ParamSpec, TypedDict, TypeVar, Unpack

P = ParamSpec("P")
T = TypeVar("T")


class Subject(TypedDict, total=False):
    """The fields of a subject, in the order in which they are shown; None leaves a field as it is."""

    session: int | None
    source: int | None
    centre: str | None
    zip_action: object
    phase: str | None
    document: str | None


FIELDS: Final = tuple(Subject.__annotations__)
"""The names of the fields."""

_NOTHING: Final[Mapping[str, str | int]] = {}
_about: ContextVar[Mapping[str, str | int]] = ContextVar("dcc_log_context", default=_NOTHING)


def log_context() -> Mapping[str, str | int]:
    """The subject of the present messages."""
    return _about.get()


@contextmanager
def logging_about(**facts: Unpack[Subject]) -> Iterator[None]:
    """Adds fields to the subject of all messages in the block."""
    before = _about.get()
    given = {
        name: value if isinstance(value, int) else str(value) for name, value in facts.items() if value is not None
    }
    _about.set({**before, **given})
    try:
        yield
    finally:
        # Without a token: a generator may be closed in another context than the one in which it began.
        _about.set(before)


def with_log_context(work: Callable[P, T]) -> Callable[P, T]:
    """The same function for one other thread: its messages keep the caller's subject."""
    return partial(copy_context().run, work)


def progress_log(module: str) -> logging.Logger:
    """The logger for a session's progress, `dcc.<module>`.

    Dagster makes events of messages under the packages' own names, and drops information there.
    """
    return logging.getLogger(f"dcc.{module.rpartition('.')[2]}")
