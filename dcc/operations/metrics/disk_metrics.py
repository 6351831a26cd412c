"""Metrics of disks: what staging, both databases and the Dagster instance take, and the free space."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Engine, text

from dcc.operations.metrics.families import Metric, metric
from dcc.runtime.disk_space import free_bytes
from dcc.settings import Settings

_MYSQL_SIZE = text(
    "SELECT sum(data_length + index_length) FROM information_schema.tables WHERE table_schema = database()"
)


def database_bytes(engine: Engine) -> int:
    """A database's bytes on disk; on a server, its estimate."""
    if engine.dialect.name == "sqlite":
        path, size = Path(str(engine.url.database)).resolve(), 0
        for ending in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                size += path.with_name(path.name + ending).stat().st_size
        return size
    with engine.connect() as connection:
        return int(connection.scalar(_MYSQL_SIZE) or 0)


def staging_families(settings: Settings) -> Iterator[Metric]:
    """The size of staging, and the free space on its disk. Raises OSError."""
    yield metric("staging_free_bytes", free_bytes(settings.staging_directory))
    yield metric("staging_min_free_bytes", settings.min_free_bytes)
    found = tree_size(settings.staging_directory)
    yield metric("staging_bytes", found.size_bytes)
    yield metric("staging_files", found.files)


def instance_families(settings: Settings) -> Iterator[Metric]:
    """The size of the Dagster instance's directory."""
    yield metric("database_bytes", {("dagster",): tree_size(settings.dagster_home).size_bytes})


class TreeSize(NamedTuple):
    """The number of files below a directory, and their bytes."""

    files: int
    size_bytes: int


def tree_size(root: Path) -> TreeSize:
    """What is below a directory; nothing below a missing one."""
    count = size = 0
    for folder, _, names in os.walk(root, onerror=_raise_unless_gone):
        for name in names:
            # Sessions add and remove files meanwhile.
            with suppress(FileNotFoundError):
                size += Path(folder, name).lstat().st_size
                count += 1
    return TreeSize(count, size)


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
