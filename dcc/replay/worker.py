"""A process that replays archives: it loads proposed rules before anything that uses rules.

Everything is received as bytes, because the classes in it import the rules.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from dcc.runtime.installed_packages import RULES, propose
from dcc.runtime.processes import collect_cycles_rarely

Run = Callable[..., Future[Any]]
"""Has a process call a method of the `Replayer`: by its name, the name of what it works on, and its arguments."""


def begin(rules: str | None, replayer: bytes) -> Any:
    """The `Replayer` to replay with from now on. Raises the error of a module of `rules` that cannot be loaded."""
    collect_cycles_rarely()
    if rules is not None:
        propose(RULES, rules)
    begun = pickle.loads(replayer)  # noqa: S301 - from the process that started this one
    gc.freeze()
    return begun


def run(replayer: Any, step: str, given: bytes) -> Any:
    """The result of a method of the `Replayer`."""
    return getattr(replayer, step)(*pickle.loads(given))  # noqa: S301 - see begin
