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
        path = str(Path(str(engine.url.database)).resolve())
        return sum(_size(Path(path + part)) for part in ("", "-wal", "-shm"))
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
    return TreeSize(count, size)


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
