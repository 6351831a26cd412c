"""Metrics as text, in the format of Prometheus, and as a file of it."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from prometheus_client import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from dcc.operations.metrics.collecting import Collection
from dcc.operations.metrics.families import Metric
from dcc.runtime.private_files import SHARED_FILE, in_place_of
from dcc.settings import Settings

log = logging.getLogger(__name__)


class _Collected(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def exposition(families: Iterable[Metric]) -> bytes:
    """Metrics in the text format, version 0.0.4; the values of labels are escaped."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(list(families)))
    return generate_latest(registry)


def write_metrics_file(settings: Settings) -> tuple[str, ...]:
    """Write all metrics to the file that the settings name, if any; whoever reads it finds the old or the new ones.

    Returns a sentence if that failed, which is logged as a warning too: what the session did stands all the same.
    """
    path = settings.metrics_file
    if path is None:
        return ()
    try:
        replace_file(path, exposition(Collection(settings).collect()))
    except OSError as error:
        told = (
            f"The metrics could not be written to {path} ({error.strerror or error}). See to its folder and its "
            "permissions, or name another file in DCC_METRICS_FILE."
        )
        log.warning("%s", told)
        return (told,)
    return ()


def replace_file(path: Path, content: bytes) -> None:
    """Have a file hold this, readable by its group, at one stroke. Raises OSError, and leaves the old one then."""
    with in_place_of(path, SHARED_FILE) as part:
        part.write_bytes(content)
        part.chmod(SHARED_FILE)
