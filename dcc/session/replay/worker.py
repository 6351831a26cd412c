"""A process that replays archives: it loads proposed rules before anything that uses rules.

Everything is received as bytes, because the classes in it import the rules.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from dcc.runtime.installed_packages import RULES, propose
from dcc.runtime.worker_processes import portable

Run = Callable[..., Future[Any]]
"""Has a process call a method of the `Replayer`: by its name, the name of what it works on, and its arguments."""


@dataclass
class _Process:
    replayer: Any = None
    error: Exception | None = None


_process = _Process()


def begin(rules: str | None, replayer: bytes) -> None:
    """Replay with this `Replayer` from now on; a module of `rules` that cannot be loaded fails each task."""
    try:
        if rules is not None:
            propose(RULES, rules)
        _process.replayer = pickle.loads(replayer)  # noqa: S301 - from the process that started this one
    except Exception as error:
        _process.error = portable(error)
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def run(step: str, given: bytes) -> Any:
    """The result of a method of the `Replayer`."""
    if _process.error is not None:
        raise _process.error
    return getattr(_process.replayer, step)(*pickle.loads(given))  # noqa: S301 - see begin
