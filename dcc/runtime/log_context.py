"""What log messages are about, beside their text: the session, file source, centre, zip action, phase and document.

It is said where work on such a thing begins, and holds for all that is logged until it ends, in this thread and in
those that work for it (`with_log_context`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

FIELDS: Final = ("session", "source", "centre", "zip_action", "phase", "document")
"""What a message may be about, in the order in which it is shown."""

_NOTHING: Final[Mapping[str, str | int]] = {}
_about: ContextVar[Mapping[str, str | int]] = ContextVar("dcc_log_context", default=_NOTHING)


def log_context() -> Mapping[str, str | int]:
    """What is logged at present is about this."""
    return _about.get()


@contextmanager
def logging_about(
    *,
    session: int | None = None,
    source: int | None = None,
    centre: str | None = None,
    zip_action: object = None,
    phase: str | None = None,
    document: str | None = None,
) -> Iterator[None]:
    """What is logged in the block is about these too; None: as it was."""
    said = {
        "session": session,
        "source": source,
        "centre": centre,
        "zip_action": None if zip_action is None else str(zip_action),
        "phase": phase,
        "document": document,
    }
    before = _about.get()
    _about.set({**before, **{name: value for name, value in said.items() if value is not None}})
    try:
        yield
    finally:
        # Not by a token: a generator may be closed in another context than it was begun in.
        _about.set(before)


def with_log_context(work: Callable[P, T]) -> Callable[P, T]:
    """The same work, to be done by another thread: what it logs is about what the caller's messages are about."""
    here = _about.get()

    def work_there(*arguments: P.args, **named: P.kwargs) -> T:
        before = _about.get()
        _about.set(here)
        try:
            return work(*arguments, **named)
        finally:
            _about.set(before)

    return work_there


def progress_log(module: str) -> logging.Logger:
    """The logger for what sessions do, as `dcc.<module>`.

    Dagster makes events of what is logged under the packages' own names, and keeps information from being logged
    there.
    """
    return logging.getLogger(f"dcc.{module.rpartition('.')[2]}")
