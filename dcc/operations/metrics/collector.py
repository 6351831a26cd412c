"""Collects all metrics, part by part, and writes them in the text format of Prometheus.

A part that fails leaves the others: `dcc_metrics_part_up` says of each part whether it was collected. Every part is a
fixed number of statements, whatever the number of archives, and no label has their names.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

from prometheus_client import generate_latest
from prometheus_client.registry import Collector
from sqlalchemy import Connection, Engine, text

from dcc.databases.schema import current
from dcc.operations.metrics.families import Labels, Metric, metric, timestamp
from dcc.operations.metrics.work import (
    centre_families,
    quality_families,
    session_families,
    source_families,
    work_families,
)
from dcc.operations.overview import store_overview
from dcc.qc.database import open_qc_database
from dcc.runtime.disk_space import free_bytes
from dcc.runtime.private_files import SHARED_FILE, replacement_file
from dcc.runtime.time_limits import in_thread
from dcc.settings import Settings
from dcc.tracker.database import open_tracker

_MYSQL_SIZE = text(
    "SELECT sum(data_length + index_length) FROM information_schema.tables WHERE table_schema = database()"
)


def database_bytes(engine: Engine) -> int:
    """A database's bytes on disk; on a server, its estimate."""
    if engine.dialect.name == "sqlite":
        path = str(Path(str(engine.url.database)).resolve())
        return sum(_size(Path(path + part)) for part in ("", "-wal", "-shm"))
    with engine.connect() as connection:
        return int(connection.scalar(_MYSQL_SIZE) or 0)


def staging_families(settings: Settings) -> Iterator[Metric]:
    """The size of staging, and the free space on its disk. Raises OSError."""
    yield metric("staging_free_bytes", free_bytes(settings.staging_directory))
    yield metric("staging_min_free_bytes", settings.min_free_bytes)
    count, size = tree_size(settings.staging_directory)
    yield metric("staging_bytes", size)
    yield metric("staging_files", count)


def archive_families(connection: Connection, settings: Settings) -> Iterator[Metric]:
    """The archives of the archive store, and the state of their copies."""
    found = store_overview(connection, settings)
    yield metric("archive_store_archives", found.archives.archives)
    yield metric("archive_store_bytes", found.archives.size_bytes)
    yield metric("archive_store_lost_archives", len(found.lost))
    copies = {(one.replica, state): held.archives for one in found.replicas for state, held in one.copies.items()}
    yield metric("archive_store_copies", copies)
    checks = {(one.replica,): timestamp(one.oldest_check) for one in found.replicas}
    yield metric("archive_store_oldest_check_timestamp_seconds", checks)


def instance_families(settings: Settings) -> Iterator[Metric]:
    """The size of the Dagster instance's directory."""
    yield metric("database_bytes", {("dagster",): tree_size(settings.dagster_home)[1]})


def tree_size(root: Path) -> tuple[int, int]:
    """The number of files below a directory, and their bytes; 0 for a missing directory."""
    count = size = 0
    pending = [str(root)]
    while pending:
        for entry in _entries(pending.pop()):
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
                continue
            # Sessions add and remove files meanwhile.
            with suppress(FileNotFoundError):
                size += entry.stat(follow_symlinks=False).st_size
                count += 1
    return count, size


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return list(found)
    except FileNotFoundError:
        return []


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


log = logging.getLogger(__name__)


class _Collected(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def exposition(families: Iterable[Metric]) -> bytes:
    """Metrics in the text format, version 0.0.4, with escaped labels."""
    return generate_latest(_Collected(list(families)))


def write_metrics_file(settings: Settings, path: Path) -> tuple[str, ...]:
    """Write all metrics to a file; readers find either the old or the new ones.

    Returns a sentence if that failed, which is also logged as a warning; the session's work stands.
    """
    try:
        replace_file(path, exposition(Collection(settings).collect()))
    except OSError as error:
        problem = (
            f"The metrics could not be written to {path} ({error.strerror or error}). See to its folder, its "
            "permissions and its disk, or name another file in DCC_METRICS_FILE."
        )
        log.warning("%s", problem)
        return (problem,)
    return ()


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file's content, readable by its group, in one step. Raises OSError, and leaves the old one then."""
    with replacement_file(path, SHARED_FILE) as part:
        part.write_bytes(content)
        part.chmod(SHARED_FILE)


PART_SECONDS: Final = 60.0
"""How long a part may take if nobody waits for an answer."""

Part = Callable[[Settings], Iterable[Metric]]


def _tracker(settings: Settings) -> Iterator[Metric]:
    with current(open_tracker(settings)) as engine:
        with engine.connect() as connection:
            yield from session_families(connection, settings)
            yield from source_families(connection, settings.source_failure_limit)
            yield from centre_families(connection, settings)
            yield from work_families(connection)
            yield from archive_families(connection, settings)
        yield metric("database_bytes", {("tracker",): database_bytes(engine)})


def _qc(settings: Settings) -> Iterator[Metric]:
    with current(open_qc_database(settings)) as engine:
        with engine.connect() as connection:
            yield from quality_families(connection)
        yield metric("database_bytes", {("qc",): database_bytes(engine)})


PARTS: Final[dict[str, Part]] = {
    "tracker": _tracker,
    "qc": _qc,
    "staging": staging_families,
    "dagster": instance_families,
}
"""What a part measures, by the value of the label `part`."""


_Answer = Future[tuple[list[Metric] | Exception, float]]
"""The metrics of a part, or why it failed, and the seconds it took."""


class Collection:
    """Collects the metrics of an installation repeatedly. Safe to use from several threads.

    A part that takes too long is not begun again before it has ended, so that a database which does not answer keeps
    only one thread waiting.
    """

    def __init__(self, settings: Settings, part_seconds: float = PART_SECONDS) -> None:
        self._settings, self._part_seconds = settings, part_seconds
        self._under_way: dict[str, _Answer] = {}
        self._lock = threading.Lock()

    def collect(self) -> list[Metric]:
        """All families. Raises nothing: the families of a part that failed are missing, and it is reported as down."""
        answers = {name: self._begin(name, part) for name, part in PARTS.items()}
        deadline = time.monotonic() + self._part_seconds
        families = [metric("build_info", {(version("dcc"), platform.python_version()): 1})]
        up: dict[Labels, float | None] = {}
        seconds: dict[Labels, float | None] = {}
        for name, answer in answers.items():
            found: list[Metric] | Exception | None = None
            try:
                found, seconds[name,] = answer.result(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                seconds[name,] = self._part_seconds
                log.warning("The metrics of part %s were not there within %g s", name, self._part_seconds)
            if isinstance(found, Exception):
                log.warning("The metrics of part %s could not be collected: %s", name, found)
            up[name,] = float(isinstance(found, list))
            families.extend(found if isinstance(found, list) else ())
        return _merged([*families, metric("metrics_part_up", up), metric("metrics_part_seconds", seconds)])

    def _begin(self, name: str, part: Part) -> _Answer:
        with self._lock:
            before = self._under_way.get(name)
            if before is not None and not before.done():
                return before
            self._under_way[name] = in_thread(partial(self._collected, part), f"metrics {name}")
            return self._under_way[name]

    def _collected(self, part: Part) -> tuple[list[Metric] | Exception, float]:
        began = time.monotonic()
        found: list[Metric] | Exception
        try:
            found = list(part(self._settings))
        except Exception as error:  # whatever it is, the other parts are collected
            found = error
        return found, time.monotonic() - began


def _merged(families: Iterable[Metric]) -> list[Metric]:
    """Families of the same name joined, in the order of their first."""
    merged: dict[str, Metric] = {}
    for family in families:
        if family.name in merged:
            merged[family.name].samples.extend(family.samples)
        else:
            merged[family.name] = family
    return list(merged.values())
