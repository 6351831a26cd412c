"""Dagster's event log on SQLite, fast enough to show every archive.

Dagster's own class makes a new engine for every event and commits each event up to four times: 6 ms an event. This one
keeps its engines and stores a batch of events in one transaction for each database file, in a tenth of the time. It
stores the same rows. It depends on private methods of Dagster: if they are not as expected, Dagster's own class is used
instead, slower and right.

The `dagster.yaml` that `dcc_dagster.instance` writes selects it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from dagster import AssetKey, EventLogEntry, Field, StringSource
from dagster._core.events import ASSET_CHECK_EVENTS, ASSET_EVENTS, EVENT_TYPE_TO_PIPELINE_RUN_STATUS
from dagster._core.storage.event_log import SqlEventLogStorageTable, SqliteEventLogStorage
from sqlalchemy.pool import NullPool, StaticPool

from dcc_dagster.asset_tables import has_methods, remove_rows, store_about_assets

if TYPE_CHECKING:
    from dagster._config import UserConfigSchema
    from dagster._serdes import ConfigurableClassData
    from sqlalchemy.engine import Connection, Engine

log = logging.getLogger(__name__)

EVENTS_BELOW_HOME: Final = ("history", "runs")
"""The directory of events in a Dagster instance's directory, as in Dagster's default."""

_INDEX = "index"
_BUSY_SECONDS = 30
_RUN_ENGINES_KEPT = 8

LEANED_ON: Final = {
    "_connect": ("self", "shard"),
    "_initdb": ("self", "engine", "for_index_shard"),
    "conn_string_for_shard": ("self", "shard_name"),
    "path_for_shard": ("self", "run_id"),
    "run_connection": ("self", "run_id"),
    "index_connection": ("self",),
    "has_table": ("self", "table_name"),
    "_event_to_row": ("self", "event"),
    "_has_asset_key_col_on_connection": ("self", "conn", "column_name"),
    "_store_asset_event": ("self", "conn", "event", "event_id"),
    "_store_asset_event_tags": ("self", "conn", "events", "event_ids"),
    "store_asset_check_event": ("self", "event", "event_id"),
}
"""The methods of Dagster's class that the batches need, with their parameters."""


class BatchingSqliteEventLogStorage(SqliteEventLogStorage):
    """Dagster's SQLite event log, with engines that are kept and events that are stored in batches.

    `store_event_batch` stores a batch. The files and rows are those of Dagster's own class, so either class reads what
    the other wrote, even at the same time.
    """

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engines: OrderedDict[str, Engine] = OrderedDict()
        self._engines_lock = threading.RLock()
        self._held: dict[str, Connection] = {}
        self._known_tables: set[str] = set()
        self._known_columns: set[str] = set()
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
        base_dir = config_value.get("base_dir") or str(Path(os.environ["DAGSTER_HOME"], *EVENTS_BELOW_HOME))
        kind = cls if has_methods(SqliteEventLogStorage, LEANED_ON) else SqliteEventLogStorage
        return kind(base_dir, inst_data)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._engines_lock:
            if shard in self._held:
                yield self._held[shard]
                return
            with self._engine(shard).connect() as connection, connection.begin():
                self._held[shard] = connection
                try:
                    yield connection
                finally:
                    del self._held[shard]

    def _engine(self, shard: str) -> Engine:
        engine = self._engines.get(shard)
        if engine is None:
            # The web page follows a run by the changes of its file. In WAL mode the file changes when the last
            # connection closes:
            # so a run's engine is kept, its connections are not.
            engine = sa.create_engine(
                self.conn_string_for_shard(shard),
                poolclass=StaticPool if shard == _INDEX else NullPool,
                connect_args={"timeout": _BUSY_SECONDS, "check_same_thread": False},
            )
            sa.event.listen(engine, "connect", _relax_synchronous)
            self._engines[shard] = engine
            while len(self._engines) > _RUN_ENGINES_KEPT:
                oldest = next(name for name in self._engines if name not in {_INDEX, shard} and name not in self._held)
                self._engines.pop(oldest).dispose()
        self._engines.move_to_end(shard)
        if shard not in self._initialized_dbs:
            if shard == _INDEX or Path(self.path_for_shard(shard)).exists() or not self._make_alike(shard):
                self._initdb(engine)
            self._initialized_dbs.add(shard)
        return engine

    def _make_alike(self, shard: str) -> bool:
        """Make the database of a run: with the tables of the index, as Dagster does, but in one transaction.

        False if that is impossible, for instance on a disk without hard links.
        """
        with self._connect(_INDEX) as index:
            statements = index.exec_driver_sql(_SCHEMA).scalars().all()
            revisions = index.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().all()
        path = Path(self.path_for_shard(shard))
        draft = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        try:
            with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous=OFF")
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("BEGIN")
                for statement in statements:
                    connection.execute(statement)
                connection.executemany("INSERT INTO alembic_version VALUES (?)", [(r,) for r in revisions])
                connection.execute("COMMIT")
            # Another process was faster: its database stays.
            with suppress(FileExistsError):
                path.hardlink_to(draft)
        except (OSError, sqlite3.Error):
            log.debug("The database of run %s is left to Dagster", shard, exc_info=True)
            return False
        finally:
            draft.unlink(missing_ok=True)
        return True

    def store_event(self, event: EventLogEntry) -> None:
        """Store one event."""
        self.store_event_batch([event])

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
        rows = [{**row, "id": event_id} for (_, row), event_id in zip(mirrored, ids, strict=True)]
        connection.execute(_INSERT, rows)
        store_about_assets(self, connection, zip((event for event, _ in mirrored), ids, strict=True))

    def remove_partitions(self, name: str, assets: Sequence[AssetKey], keys: Sequence[str]) -> None:
        """Remove partitions from the set `name`, with the events of `assets` about them, in one transaction."""
        with self.index_connection() as connection:
            remove_rows(connection, name, assets, keys)

    def has_table(self, table_name: str) -> bool:
        """Whether the index database has a table; a table that was found once is not searched for again."""
        if table_name not in self._known_tables and super().has_table(table_name):
            self._known_tables.add(table_name)
        return table_name in self._known_tables

    def _has_asset_key_col_on_connection(self, conn: Connection, column_name: str) -> bool:
        if column_name not in self._known_columns and super()._has_asset_key_col_on_connection(conn, column_name):
            self._known_columns.add(column_name)
        return column_name in self._known_columns

    def wipe(self) -> None:
        """Delete every event."""
        self._dispose_engines()
        super().wipe()

    def dispose(self) -> None:
        """Close every connection."""
        self._dispose_engines()
        super().dispose()

    def _dispose_engines(self) -> None:
        with self._engines_lock:
            while self._engines:
                self._engines.popitem()[1].dispose()


_SCHEMA = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY type DESC, rowid"
_MIRRORED = ASSET_EVENTS | ASSET_CHECK_EVENTS | set(EVENT_TYPE_TO_PIPELINE_RUN_STATUS)
_INSERT = SqlEventLogStorageTable.insert()
_TAKE_WRITE_LOCK = "DELETE FROM event_logs WHERE 0"
_LAST_ID = sa.select(sa.func.max(SqlEventLogStorageTable.c.id))


def _relax_synchronous(connection: Any, _record: object) -> None:
    # With WAL, a crash of the machine may lose the last events, but never damages the file; the tracker has everything.
    connection.execute("PRAGMA synchronous=NORMAL")
