"""Dagster's event log on SQLite, fast enough to show every archive.

Dagster's own class makes a new engine for every event and commits each event up to four times: 6 ms an event. This one
keeps its engines and stores a batch of events in one transaction for each database file, in a tenth of the time. It
stores the same rows.

The `dagster.yaml` that `dcc_dagster.instance` writes selects it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from dagster import EventLogEntry, Field, StringSource
from dagster._core.events import ASSET_CHECK_EVENTS, ASSET_EVENTS, EVENT_TYPE_TO_PIPELINE_RUN_STATUS
from dagster._core.storage.event_log import SqlEventLogStorageTable, SqliteEventLogStorage
from sqlalchemy.pool import NullPool, StaticPool

from dcc_dagster import event_batches
from dcc_dagster.event_batches import BatchingEventLog, has_methods

if TYPE_CHECKING:
    from dagster._config import UserConfigSchema
    from dagster._serdes import ConfigurableClassData
    from sqlalchemy.engine import Connection, Engine

log = logging.getLogger(__name__)

_INDEX: Final = "index"
_BUSY_SECONDS: Final = 30
_ENGINES_KEPT: Final = 8
_MIRRORED: Final = ASSET_EVENTS | ASSET_CHECK_EVENTS | set(EVENT_TYPE_TO_PIPELINE_RUN_STATUS)
_INSERT: Final = SqlEventLogStorageTable.insert()
_TAKE_WRITE_LOCK: Final = "DELETE FROM event_logs WHERE 0"
_LAST_ID: Final = sa.select(sa.func.max(SqlEventLogStorageTable.c.id))
_SCHEMA: Final = (
    "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY type DESC, rowid"
)

LEANED_ON: Final = event_batches.LEANED_ON | {
    "_connect": ("self", "shard"),
    "_initdb": ("self", "engine", "for_index_shard"),
    "conn_string_for_shard": ("self", "shard_name"),
    "path_for_shard": ("self", "run_id"),
}
"""The methods of Dagster's class that the batches need, with their parameters."""


class BatchingSqliteEventLogStorage(BatchingEventLog, SqliteEventLogStorage):
    """Dagster's SQLite event log, with engines that are kept and events that are stored in batches.

    The files and rows are those of Dagster's own class, so either class reads what the other wrote, even at the same
    time.
    """

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engine_of_run = lru_cache(maxsize=_ENGINES_KEPT)(self._new_engine)
        self._lock = threading.RLock()
        self._held: dict[str, Connection] = {}
        super().__init__(base_dir, inst_data)

    @classmethod
    def config_type(cls) -> UserConfigSchema:
        """The schema of its entry in `dagster.yaml`: `base_dir`; by default Dagster's own directory of events in
        DAGSTER_HOME.
        """
        return {"base_dir": Field(StringSource, is_required=False)}

    @classmethod
    def from_config_value(  # type: ignore[override]
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> SqliteEventLogStorage:
        """Make the storage from its entry in `dagster.yaml`; Dagster's own one if Dagster is not as expected."""
        base_dir = config_value.get("base_dir") or str(Path(os.environ["DAGSTER_HOME"], "history", "runs"))
        kind = cls if has_methods(SqliteEventLogStorage, LEANED_ON) else SqliteEventLogStorage
        return kind(base_dir, inst_data)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._lock:
            if shard in self._held:
                yield self._held[shard]
                return
            engine = self._index_engine if shard == _INDEX else self._engine_of_run(shard)
            if shard not in self._initialized_dbs:
                if shard == _INDEX or not self._make_alike(shard):
                    self._initdb(engine)
                self._initialized_dbs.add(shard)
            with engine.connect() as connection, connection.begin():
                self._held[shard] = connection
                try:
                    yield connection
                finally:
                    del self._held[shard]

    @cached_property
    def _index_engine(self) -> Engine:
        return self._new_engine(_INDEX)

    def _new_engine(self, shard: str) -> Engine:
        # The web page follows a run by the changes of its file. In WAL mode the file changes when the last connection
        # closes: so a run's engine is kept, its connections are not.
        engine = sa.create_engine(
            self.conn_string_for_shard(shard),
            poolclass=StaticPool if shard == _INDEX else NullPool,
            connect_args={"timeout": _BUSY_SECONDS, "check_same_thread": False},
        )
        sa.event.listen(engine, "connect", _relax_synchronous)
        return engine

    def _make_alike(self, shard: str) -> bool:
        """Make the database of a run: with the tables of the index, as Dagster does, but in one transaction.

        False if there is one, perhaps of another process by now and unfinished, or if that is impossible, as on a disk
        without hard links.
        """
        path = Path(self.path_for_shard(shard))
        if path.exists():
            return False
        with self._connect(_INDEX) as index:
            statements = index.exec_driver_sql(_SCHEMA).scalars().all()
            revisions = index.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().all()
        draft = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        try:
            with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous=OFF")
                connection.execute("BEGIN")
                for statement in statements:
                    connection.execute(statement)
                connection.executemany("INSERT INTO alembic_version VALUES (?)", [(r,) for r in revisions])
                connection.execute("COMMIT")
                # Not before: on a full disk, a part of the tables would stay in the draft's WAL, without any error.
                connection.execute("PRAGMA journal_mode=WAL")
            path.hardlink_to(draft)
        except (OSError, sqlite3.Error):
            log.debug("The database of run %s is left to Dagster", shard, exc_info=True)
            return False
        finally:
            draft.unlink(missing_ok=True)
        return True

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Store events of any kinds and runs, in order, in one transaction for each database file."""
        rows_of_runs: dict[str, list[dict[str, Any]]] = {}
        mirrored: list[tuple[EventLogEntry, dict[str, Any]]] = []
        for event in events:
            row = self._event_to_row(event)
            rows_of_runs.setdefault(event.run_id, []).append(row)
            if event.is_dagster_event and event.dagster_event_type in _MIRRORED:
                mirrored.append((event, row))
        for run_id, rows in rows_of_runs.items():
            with self.run_connection(run_id) as connection:
                connection.execute(_INSERT, rows)
        if mirrored:
            with self.index_connection() as connection:
                self._mirror(connection, mirrored)

    def _mirror(self, connection: Connection, mirrored: list[tuple[EventLogEntry, dict[str, Any]]]) -> None:
        # SQLite has one writer at a time, which may assign the next ids itself; reading each would cost a statement a
        # row.
        connection.exec_driver_sql(_TAKE_WRITE_LOCK)
        last = connection.execute(_LAST_ID).scalar() or 0
        ids = range(last + 1, last + 1 + len(mirrored))
        connection.execute(_INSERT, [{**row, "id": number} for (_, row), number in zip(mirrored, ids, strict=True)])
        self.store_about_assets(connection, zip((event for event, _ in mirrored), ids, strict=True))

    def dispose(self) -> None:
        """Close every connection."""
        with self._lock:
            self._index_engine.dispose()
        super().dispose()


def _relax_synchronous(connection: Any, _record: object) -> None:
    # With WAL, a crash of the machine may lose the last events, but never damages the file; the tracker has everything.
    connection.execute("PRAGMA synchronous=NORMAL")
