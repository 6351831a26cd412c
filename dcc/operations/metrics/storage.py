"""Metrics of disk space: the databases, the Dagster instance, staging and the archive store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection, Engine, text

from dcc.operations.metrics.families import Metric, metric, timestamp
from dcc.operations.overview import store_overview
from dcc.runtime.disk_space import free_bytes
from dcc.settings import Settings

_MYSQL_SIZE = text(
    "SELECT sum(data_length + index_length) FROM information_schema.tables WHERE table_schema = database()"
)


def database_bytes(engine: Engine) -> int:
    """A database's bytes on disk; on a server, its estimate."""
    if engine.dialect.name == "sqlite":
        path = str(Path(str(engine.url.database)).resolve())
        return sum(filter(None, (_size(path + part) for part in ("", "-wal", "-shm"))))
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
    """The number of files below a directory, and their bytes; 0 for a missing directory. Raises OSError."""
    found = (_size(f"{folder}/{name}") for folder, _, names in os.walk(root, onerror=_raise) for name in names)
    sizes = [size for size in found if size is not None]
    return len(sizes), sum(sizes)


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _size(path: str) -> int | None:
    """The bytes of a file; None if it is gone, as sessions add and remove files meanwhile."""
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return None
