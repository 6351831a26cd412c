"""Dagster's storage on MySQL and MariaDB: runs, events and schedules in one database beside the platform's own.

Dagster's own event log stores each event in up to four transactions, each on a connection of its own. This one stores a
batch in one transaction, on connections that are kept. The rows are the same. It depends on private methods of Dagster:
if they are not as expected, Dagster's own class is used instead, slower and right.

The `dagster.yaml` that `dcc init --production` writes selects it. Only `dcc init` makes its tables
(`dcc_dagster.dagster_database`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from dagster import AssetKey, EventLogEntry, StringSource
from dagster._core.storage.event_log import SqlEventLogStorageTable
from dagster._core.storage.event_log.base import EventLogStorage
from dagster._core.storage.runs import RunStorage
from dagster._core.storage.schedules import ScheduleStorage
from dagster_mysql import DagsterMySQLStorage, MySQLEventLogStorage, MySQLRunStorage, MySQLScheduleStorage
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from dcc.databases.engines import lacks_right
from dcc.databases.transactions import insert_rows
from dcc.errors import DagsterUnreachableError
from dcc.settings import load_settings
from dcc_dagster.asset_tables import has_methods, remove_rows, store_about_assets
from dcc_dagster.dagster_database import require_current
from dcc_dagster.mysql_connections import Connections, PatientStorage, patient, url_for_dagster

if TYPE_CHECKING:
    from dagster._config import UserConfigSchema
    from dagster._core.storage.partition_status_cache import AssetStatusCacheValue
    from dagster._serdes import ConfigurableClassData

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
_EVENTS: Final = SqlEventLogStorageTable
_ROW: Final = _EVENTS.c


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
                ids = [row_id for part in _parts(rows) for row_id in insert_rows(connection, _EVENTS, part)]
                store_about_assets(self, connection, zip(events, ids, strict=True))

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


def _parts(rows: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Rows in chunks for one statement each."""
    part: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        size += len(row["event"])
        if part and size > _BYTES_AT_ONCE:
            yield part
            part, size = [], len(row["event"])
        part.append(row)
    yield part


def _is_stored(connection: Connection, row: dict[str, Any]) -> bool:
    """Whether a transaction that stored this row was committed although its answer was lost."""
    same = (_ROW.run_id == row["run_id"]) & (_ROW.timestamp == row["timestamp"]) & (_ROW.event == row["event"])
    return connection.scalar(sa.select(_ROW.id).where(same).limit(1)) is not None


@patient(RunStorage)
class PatientMysqlRunStorage(PatientStorage, MySQLRunStorage):
    """Dagster's run storage on MySQL, with kept connections and repeats."""

    def connect(self, run_id: str | None = None) -> AbstractContextManager[Connection]:  # noqa: ARG002
        """A connection in a transaction."""
        return self._connections.connect()

    def get_run_storage_id(self) -> str:
        """The id of this storage for telemetry, which is off: every page asks for it.

        Dagster makes one if it is missing; pages of an account with read access only do without.
        """
        try:
            return super().get_run_storage_id()
        except DagsterUnreachableError as error:
            if not lacks_right(error):
                raise
            return ""


@patient(ScheduleStorage)
class PatientMysqlScheduleStorage(PatientStorage, MySQLScheduleStorage):
    """Dagster's schedule storage on MySQL, with kept connections and repeats."""

    def connect(self) -> AbstractContextManager[Connection]:
        """A connection in a transaction."""
        return self._connections.connect()


class PatientMysqlStorage(DagsterMySQLStorage):
    """Dagster's storage on MySQL or MariaDB, which must have the tables of the installed Dagster.

    Its constructor raises DagsterStorageError if the server is away for longer than DCC_DATABASE_RETRY, and
    DagsterStorageOutdatedError for a database without the tables. It raises DatabaseServerUnfitError for an unfit
    server or database, and ConfigurationError for another kind of URL.
    """

    def __init__(self, mysql_url: str, inst_data: ConfigurableClassData | None = None) -> None:
        connections = Connections(mysql_url, load_settings().database_retry)
        try:
            connections.patiently(lambda: require_current(connections.engine))
        except BaseException:
            connections.engine.dispose()
            raise
        self._inst_data = inst_data
        self._run_storage = PatientMysqlRunStorage(connections, mysql_url)
        self._event_log_storage = event_storage_of(connections, mysql_url)
        self._schedule_storage = PatientMysqlScheduleStorage(connections, mysql_url)
        # Not Dagster's own constructor, which makes its own parts.
        super(DagsterMySQLStorage, self).__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def config_type(cls) -> UserConfigSchema:
        """Its entry in `dagster.yaml`: `mysql_url`, by `env: DCC_DAGSTER_URL`, so no file contains the password."""
        return {"mysql_url": StringSource}

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> PatientMysqlStorage:
        """Make the storage from its entry in `dagster.yaml`."""
        return cls(config_value["mysql_url"], inst_data)
