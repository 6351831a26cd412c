"""Metrics of disk space: the databases, the Dagster instance, staging and the archive store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, text

from dcc.operations.archive_overview import store_overview
from dcc.operations.metrics.families import Metric, gauge, timestamp
from dcc.settings import Settings

_MYSQL_SIZE = text(
    "SELECT sum(data_length + index_length) FROM information_schema.tables WHERE table_schema = database()"
)


def database_bytes(engine: Engine) -> int:
    """A database's bytes on disk; on a server, its estimate."""
    if engine.dialect.name == "sqlite":
        path = str(engine.url.database)
        return sum(_size(Path(path + part)) for part in ("", "-wal", "-shm"))
    with engine.connect() as connection:
        return int(connection.scalar(_MYSQL_SIZE) or 0)


def size_family(name: str, size: int) -> Metric:
    """The size of a database."""
    return gauge("database_bytes", "What a database takes on disk.", ("database",), {(name,): size})


def staging_families(settings: Settings) -> Iterator[Metric]:
    """The size of staging, and the free space on its disk. Raises OSError."""
    root = settings.staging_directory
    existing = root
    while not existing.exists():
        existing = existing.parent
    yield gauge("staging_free_bytes", "Bytes free on the disk of staging.", values=shutil.disk_usage(existing).free)
    yield gauge(
        "staging_min_free_bytes", "Bytes that must stay free on the disk of staging.", values=settings.min_free_bytes
    )
    count, size = tree_size(root)
    yield gauge("staging_bytes", "Bytes of archives and documents in staging.", values=size)
    yield gauge("staging_files", "Archives and documents in staging.", values=count)


def archive_families(connection: Connection, settings: Settings) -> Iterator[Metric]:
    """The archives of the archive store, and the state of their copies."""
    found = store_overview(connection, settings)
    yield gauge("archive_store_archives", "Archives in the archive store.", values=found.archives.archives)
    yield gauge("archive_store_bytes", "Bytes of archives in the archive store.", values=found.archives.size_bytes)
    yield gauge("archive_store_lost_archives", "Archives without a good copy in any replica.", values=len(found.lost))
    yield gauge(
        "archive_store_copies",
        "Copies of archives by replica and state; one that a replica lacks is pending.",
        ("replica", "state"),
        {
            (replica.replica, state): held.archives
            for replica in found.replicas
            for state, held in replica.copies.items()
        },
    )
    yield gauge(
        "archive_store_oldest_check_timestamp_seconds",
        "When the copy of a replica was last read that was read longest ago.",
        ("replica",),
        {
            (replica.replica,): timestamp(replica.oldest_check)
            for replica in found.replicas
            if replica.oldest_check is not None
        },
    )


def instance_families(settings: Settings) -> Iterator[Metric]:
    """The size of the Dagster instance's directory."""
    yield size_family("dagster", tree_size(settings.dagster_home)[1])


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
