"""Collects all metrics, part by part, and writes them in the text format of Prometheus.

A part that fails leaves the others: `dcc_metrics_part_up` says of each part whether it was collected. Every part is a
fixed number of statements, whatever the number of archives, and no label has their names.
"""

from __future__ import annotations

import logging
import platform
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

from prometheus_client import generate_latest
from prometheus_client.registry import Collector

from dcc.databases.schema import current
from dcc.operations.metrics.database_metrics import (
    archive_families,
    centre_families,
    quality_families,
    session_families,
    source_families,
    work_families,
)
from dcc.operations.metrics.disk_metrics import database_bytes, instance_families, staging_families
from dcc.operations.metrics.families import Labels, Metric, metric
from dcc.qc.database import open_qc_database
from dcc.runtime.private_files import SHARED_FILE, replacement_file
from dcc.runtime.time_limits import in_thread
from dcc.settings import Settings
from dcc.tracker.database import open_tracker

log = logging.getLogger(__name__)


class _FoundFamilies(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def exposition(families: Iterable[Metric]) -> bytes:
    """Metrics in the text format, version 0.0.4, with escaped labels."""
    return generate_latest(_FoundFamilies(list(families)))


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


class _CollectedPart(NamedTuple):
    """The metrics of a part, or why it failed, and the seconds it took."""

    found: list[Metric] | Exception
    seconds: float


_Answer = Future[_CollectedPart]


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
            seconds[name,] = self._part_seconds
            try:
                part = answer.result(max(0.0, deadline - time.monotonic()))
                found, seconds[name,] = part.found, part.seconds
            except TimeoutError:
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

    def _collected(self, part: Part) -> _CollectedPart:
        began = time.monotonic()
        found: list[Metric] | Exception
        try:
            found = list(part(self._settings))
        except Exception as error:  # whatever it is, the other parts are collected
            found = error
        return _CollectedPart(found, time.monotonic() - began)


def _merged(families: Iterable[Metric]) -> list[Metric]:
    """Families of the same name joined, in the order of their first."""
    merged: dict[str, Metric] = {}
    for family in families:
        if family.name in merged:
            merged[family.name].samples.extend(family.samples)
        else:
            merged[family.name] = family
    return list(merged.values())
