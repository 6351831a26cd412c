"""The SQLite files of a Dagster instance: each is made complete elsewhere and then moved to its place.

Dagster makes its tables one by one. If it is killed meanwhile, it takes them for those of an older version from then
on. Their version stays wrong, and its migrations of rows run in the slow way. Such files, of an earlier version of the
platform or of Dagster's own processes, are repaired here. A file that is there is never replaced.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import yaml  # type: ignore[import-untyped]
from dagster import DagsterInstance
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.event_log.migration import ASSET_DATA_MIGRATIONS, EVENT_LOG_DATA_MIGRATIONS
from dagster._core.storage.runs.migration import OPTIONAL_DATA_MIGRATIONS, REQUIRED_DATA_MIGRATIONS
from dagster._core.storage.schedules.migration import (
    OPTIONAL_SCHEDULE_DATA_MIGRATIONS,
    REQUIRED_SCHEDULE_DATA_MIGRATIONS,
)
from dagster._core.storage.sqlite import LAST_KNOWN_STAMPED_SQLITE_ALEMBIC_REVISION

from dcc.runtime.private_files import make_directory
from dcc_dagster.instance_configuration import CONFIGURATION_FILE

_MARKS: Final[Mapping[str, frozenset[str]]] = {
    "history/runs.db": frozenset({*REQUIRED_DATA_MIGRATIONS, *OPTIONAL_DATA_MIGRATIONS}),
    "history/runs/index.db": frozenset({*EVENT_LOG_DATA_MIGRATIONS, *ASSET_DATA_MIGRATIONS}),
    "schedules/schedules.db": frozenset({*REQUIRED_SCHEDULE_DATA_MIGRATIONS, *OPTIONAL_SCHEDULE_DATA_MIGRATIONS}),
}
"""For each file, the names of the migrations of its rows that a complete file has recorded."""

_OF_OTHERS: Final = frozenset({"storage", "run_storage", "schedule_storage"})
_BEING_MADE: Final = ".being-made-"
_BUSY_SECONDS: Final = 30.0


def are_complete(home: Path) -> bool:
    """Whether the instance's SQLite files exist and are complete; true if it has none."""
    return not _keeps_sqlite(home) or all(_is_whole(home / name, _MARKS[name]) for name in _MARKS)


def complete_files(home: Path) -> bool:
    """Make missing SQLite files and repair incomplete ones; returns whether their rows need a migration.

    No other process may be making them. Raises OSError, sqlite3.Error and errors of Dagster.
    """
    if are_complete(home):
        return False
    with _made_elsewhere(home) as whole:
        kept = [_mend(home / name, whole / name, marks) for name, marks in _MARKS.items()]
    return any(kept)


def migrate_rows(instance: DagsterInstance) -> None:
    """Migrate the rows of storages that have not recorded this, and record it."""
    instance.run_storage.migrate()
    instance.run_storage.optimize()
    instance.event_log_storage.reindex_events()
    instance.event_log_storage.reindex_assets()
    if instance.schedule_storage is not None:
        instance.schedule_storage.migrate()
        instance.schedule_storage.optimize()


def _keeps_sqlite(home: Path) -> bool:
    """Whether `dagster.yaml` keeps everything in SQLite files in the instance's own directory.

    True if it cannot be read; opening the instance reports that.
    """
    try:
        configuration: Any = yaml.safe_load((home / CONFIGURATION_FILE).read_text("utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError):
        return True
    if not isinstance(configuration, dict) or _OF_OTHERS & configuration.keys():
        return False
    events = configuration.get("event_log_storage")
    return events is None or (
        isinstance(events, dict) and not events.get("config") and "Sqlite" in str(events.get("class"))
    )


def _is_whole(path: Path, marks: frozenset[str]) -> bool:
    if not path.exists():
        return False
    try:
        with closing(_opened(path)) as connection:
            revision = _revision(connection)
            return revision not in (None, LAST_KNOWN_STAMPED_SQLITE_ALEMBIC_REVISION) and marks <= _marks(connection)
    except sqlite3.Error:
        return False


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=_BUSY_SECONDS, isolation_level=None)


def _revision(connection: sqlite3.Connection) -> str | None:
    if "alembic_version" not in _schema(connection):
        return None
    found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return None if found is None else str(found[0])


def _marks(connection: sqlite3.Connection) -> set[str]:
    if "secondary_indexes" not in _schema(connection):
        return set()
    return {
        row[0] for row in connection.execute("SELECT name FROM secondary_indexes WHERE migration_completed IS NOT NULL")
    }


@contextmanager
def _made_elsewhere(home: Path) -> Iterator[Path]:
    """A directory beside the files with new ones, complete and closed."""
    for left_over in home.glob(f"{_BEING_MADE}*"):
        shutil.rmtree(left_over, ignore_errors=True)
    directory = home / f"{_BEING_MADE}{uuid4().hex}"
    make_directory(directory)
    try:
        # Without one, Dagster warns.
        (directory / CONFIGURATION_FILE).touch()
        with DagsterInstance.from_ref(InstanceRef.from_dir(str(directory))) as instance:
            migrate_rows(instance)
        for name in _MARKS:
            with closing(_opened(directory / name)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _mend(path: Path, whole: Path, marks: frozenset[str]) -> bool:
    """Make or complete a file, or leave it to Dagster; returns whether its rows need a migration."""
    if path.exists():
        return not _is_whole(path, marks) and _complete(path, whole)
    make_directory(path.parent)
    for left_over in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + left_over).unlink(missing_ok=True)
    with whole.open("rb") as file:
        os.fsync(file.fileno())
    whole.replace(path)
    return False


def _complete(path: Path, whole: Path) -> bool:
    """Add the tables, indexes and version that a file of Dagster's present schema lacks, in one transaction.

    Returns False without a change for an older schema, which Dagster migrates on request.
    """
    with closing(_opened(whole)) as connection:
        wanted, head = _schema(connection), _revision(connection)
        columns = {name: _columns(connection, name) for name, (kind, _) in wanted.items() if kind == "table"}
    with closing(_opened(path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        present = _schema(connection)
        if _revision(connection) not in (None, LAST_KNOWN_STAMPED_SQLITE_ALEMBIC_REVISION, head) or any(
            columns[name] != _columns(connection, name) for name in columns.keys() & present.keys()
        ):
            connection.execute("ROLLBACK")
            return False
        for name, (_, statement) in sorted(wanted.items(), key=lambda each: each[1][0], reverse=True):
            if name not in present:
                connection.execute(statement)
        connection.execute("DELETE FROM alembic_version")
        connection.execute("INSERT INTO alembic_version VALUES (?)", (head,))
        connection.execute("COMMIT")
    return True


def _schema(connection: sqlite3.Connection) -> dict[str, tuple[str, str]]:
    """The schema of a file: the kind and the statement of each table and index."""
    return {name: (kind, made_by) for name, kind, made_by in connection.execute(_SCHEMA)}


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')}


_SCHEMA: Final = "SELECT name, type, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
