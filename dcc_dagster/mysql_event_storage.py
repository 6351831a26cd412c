"""Dagster's event log on MySQL and MariaDB, with events stored in batches.

Dagster's own class stores each event in up to four transactions, each on a connection of its own. This one stores a
batch in one transaction, on connections that are kept. The rows are the same. It depends on private methods of Dagster:
if they are not as expected, Dagster's own class is used instead, slower and right.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from dagster import AssetKey, EventLogEntry
from dagster._core.storage.event_log import SqlEventLogStorageTable
from dagster._core.storage.event_log.base import EventLogStorage
from dagster_mysql import MySQLEventLogStorage
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from dcc.databases.engines import lacks_right
from dcc.errors import DagsterUnreachableError
from dcc_dagster.asset_tables import has_methods, remove_rows, store_about_assets
from dcc_dagster.mysql_connections import Connections, PatientStorage, patient, url_for_dagster

if TYPE_CHECKING:
    from dagster._core.storage.partition_status_cache import AssetStatusCacheValue

log = logging.getLogger(__name__)

LEANED_ON: Final = {
    "_connect": ("self",),
    "run_connection": ("self", "run_id"),
    "index_connection": ("self",),
    "has_table": ("self", "table_name"),
    "_event_to_row": ("self", "event"),
    "_store_asset_event": ("self", "conn", "event", "event_id"),
    "_store_asset_event_tags": ("self", "conn", "events", "event_ids"),
    "store_asset_check_event": ("self", "event", "event_id"),
}
"""The methods of Dagster's class that the batches need, with their parameters."""
_BYTES_AT_ONCE: Final = 1024 * 1024
_ROW: Final = SqlEventLogStorageTable.c
_INSERT: Final = sa.insert(SqlEventLogStorageTable)
_INSERT_RETURNING: Final = _INSERT.returning(_ROW.id, sort_by_parameter_order=True)


@patient(EventLogStorage)
class BatchingMysqlEventLogStorage(PatientStorage, MySQLEventLogStorage):
    """Dagster's event log on MySQL, with connections that are kept and events that are stored in batches.

    `store_event_batch` stores a batch. The tables and rows are those of Dagster's own class, so either class reads what
    the other wrote, even at the same time.
    """

    def __init__(self, connections: Connections, url: str) -> None:
        self._known_tables: set[str] = set()
        super().__init__(connections, url)

    def _connect(self) -> AbstractContextManager[Connection]:
        return self._connections.connect()

    def store_event(self, event: EventLogEntry) -> None:
        """Store one event."""
        self.store_event_batch([event])

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Store events of any kinds and runs, in order, in one transaction."""
        if not events:
            return
        rows = [self._event_to_row(event) for event in events]
        maybe_stored = False

        def store() -> None:
            nonlocal maybe_stored
            with self._connections.transaction() as connection:
                if maybe_stored and _is_stored(connection, rows[-1]):
                    return
                maybe_stored = True
                store_about_assets(self, connection, zip(events, _insert(connection, rows), strict=True))

        self._connections.patiently(store)

    def remove_partitions(self, name: str, assets: Sequence[AssetKey], keys: Sequence[str]) -> None:
        """Remove partitions from the set `name`, with the events of `assets` about them, in one transaction."""

        def remove() -> None:
            with self._connections.transaction() as connection:
                remove_rows(connection, name, assets, keys)

        self._connections.patiently(remove)

    def has_table(self, table_name: str) -> bool:
        """Whether the database has a table; a table that was found once is not searched for again."""
        if table_name not in self._known_tables and super().has_table(table_name):
            self._known_tables.add(table_name)
        return table_name in self._known_tables

    def update_asset_cached_status_data(self, asset_key: AssetKey, cache_values: AssetStatusCacheValue) -> None:
        """Store an asset's partition status for the next page that shows it.

        Pages of an account with read access only compute it each time.
        """
        try:
            super().update_asset_cached_status_data(asset_key, cache_values)
        except DagsterUnreachableError as error:
            if not lacks_right(error):
                raise
            log.debug("The status of %s is not kept: the account may only read", asset_key)

    def add_dynamic_partitions(self, partitions_def_name: str, partition_keys: Sequence[str]) -> None:
        """Add partitions; existing ones, also from another process meanwhile, are skipped."""
        try:
            super().add_dynamic_partitions(partitions_def_name, partition_keys)
        except IntegrityError:
            super().add_dynamic_partitions(partitions_def_name, partition_keys)


def event_storage_of(connections: Connections, url: str) -> MySQLEventLogStorage:
    """The event log in a database; Dagster's own one if Dagster is not as expected."""
    if not has_methods(MySQLEventLogStorage, LEANED_ON):
        return MySQLEventLogStorage(url_for_dagster(url))
    return BatchingMysqlEventLogStorage(connections, url)


def _insert(connection: Connection, rows: Sequence[dict[str, Any]]) -> list[int]:
    """Insert event rows and return their ids, in order; on MySQL, which cannot return ids, row by row."""
    if not connection.dialect.insert_returning:
        return [_only_id(connection.execute(_INSERT, row)) for row in rows]
    ids: list[int] = []
    for part in _parts(rows):
        ids += connection.scalars(_INSERT_RETURNING, part).all()
    return ids


def _only_id(result: sa.CursorResult[Any]) -> int:
    key = result.inserted_primary_key
    if key is None:
        raise RuntimeError("The database gave no id for a new event.")
    return int(key[0])


def _parts(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Rows in chunks for one statement each."""
    parts: list[list[dict[str, Any]]] = [[]]
    size = 0
    for row in rows:
        row_size = len(row["event"])
        if parts[-1] and size + row_size > _BYTES_AT_ONCE:
            parts.append([])
            size = 0
        parts[-1].append(row)
        size += row_size
    return parts


def _is_stored(connection: Connection, row: dict[str, Any]) -> bool:
    """Whether a transaction that stored this row was committed although its answer was lost."""
    same = (_ROW.run_id == row["run_id"]) & (_ROW.timestamp == row["timestamp"]) & (_ROW.event == row["event"])
    return connection.scalar(sa.select(_ROW.id).where(same).limit(1)) is not None
