"""Restorations and moves of storage that kill themselves at a point, each in a process of its own.

The processes are forked from one that has loaded everything and has no threads. They die by SIGKILL, so that nothing of
them can tidy up.
"""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dcc.operations.backups import database_files
from dcc.operations.backups.restoration import restore_backup
from dcc.operations.backups.targets import Target, migrate_storage
from dcc.settings import Settings
from tests.support.dying_session import _after
from tests.support.prepared_processes import FORKED, ended
from tests.support.stores import Store

POINTS: dict[str, tuple[Any, str, int]] = {
    "when the QC database is half there": (database_files, "shape_of", 12),
    "when the QC database is there": (Target, "fill", 1),
    "when both are there": (Target, "fill", 2),
    "when the old ones are marked": (Target, "mark", 2),
    "when one took its place": (Target, "put_in_place", 1),
    "when one is finished": (Target, "finish", 1),
}
"""Owner and name of a function, and the number of the call after which the process dies; in order."""

_SECONDS = 120


def killed_restoration(point: str, directory: Path, settings: Settings, *, replace: bool = False) -> None:
    _killed(_restore, point, directory, settings, replace)


def killed_move(point: str, source: Settings, target: Settings) -> None:
    _killed(_move, point, source, target)


def _killed(work: Callable[..., None], point: str, *arguments: object) -> None:
    process = FORKED.Process(target=work, args=(point, *arguments))
    process.start()
    exit_code = ended(process, _SECONDS)
    assert exit_code == -signal.SIGKILL, f"{point}: it ended with {exit_code}"


def _restore(point: str, directory: Path, settings: Settings, replace: bool) -> None:
    _after(*POINTS[point])
    store = Store(settings)
    restore_backup(directory, store.tracker, store.qc, settings, replace=replace)


def _move(point: str, source: Settings, target: Settings) -> None:
    _after(*POINTS[point])
    old, new = Store(source), Store(target)
    migrate_storage(old.tracker, old.qc, new.tracker, new.qc, source)
