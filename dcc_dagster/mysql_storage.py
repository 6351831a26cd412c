"""Dagster's storage on MySQL and MariaDB: runs, events and schedules in one database beside the platform's own.

Dagster's own classes connect for every statement, give up after a second, and store an event in up to four
transactions. These keep a few connections for the whole process, and store a batch of events in one transaction. They
repeat failed work for as long as DCC_DATABASE_RETRY says: after a lost connection, a restart of the server, a deadlock,
a lock wait that took too long. The rows are the same.

The `dagster.yaml` that `dcc init --production` writes selects it. Only `dcc init` makes its tables
(`dcc_dagster.dagster_database`).
"""

from __future__ import annotations

import functools
import inspect
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

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
from dcc.databases.transactions import insert_rows, run_patiently
from dcc.errors import DagsterUnreachableError
from dcc.settings import load_settings
from dcc_dagster import event_batches
from dcc_dagster.dagster_database import open_dagster_database, require_current, url_for_dagster
from dcc_dagster.event_batches import BatchingEventLog, has_methods

if TYPE_CHECKING:
    from dagster._config import UserConfigSchema
    from dagster._core.storage.partition_status_cache import AssetStatusCacheValue
    from dagster._serdes import ConfigurableClassData

log = logging.getLogger(__name__)

T = TypeVar("T")

LEANED_ON: Final = event_batches.LEANED_ON | {"_connect": ("self",)}
"""The methods of Dagster's class that the batches need, with their parameters."""

# Storing events repeats itself: it must not store twice when the answer to a commit is lost.
_LEFT_ALONE: Final = frozenset(
    {
        "dispose",
        "end_watch",
        "migrate",
        "optimize",
        "optimize_for_webserver",
        "register_instance",
        "store_event",
        "store_event_batch",
        "upgrade",
        "watch",
    }
)
_BYTES_AT_ONCE: Final = 1024 * 1024
_EVENTS: Final = SqlEventLogStorageTable
_ROW: Final = _EVENTS.c


class Connections:
    """The connections to a database, for all storages of an instance."""

    def __init__(self, url: str, patience_seconds: float) -> None:
        self.engine = open_dagster_database(url)
        self._patience_seconds = patience_seconds
        self._of_thread = threading.local()
        self._was_in_vain = False

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A connection in a transaction of its own; within `transaction`, that transaction's."""
        held = getattr(self._of_thread, "held", None)
        if held is not None:
            yield held
            return
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction for everything that this thread asks of the storages in the block."""
        with self.engine.begin() as connection:
            self._of_thread.held = connection
            try:
                yield connection
            finally:
                self._of_thread.held = None

    def patiently(self, work: Callable[[], T]) -> T:
        """Repeat `work` after failures, unless this thread is doing so already; see `run_patiently`.

        After waiting in vain it does not wait again until the database answers: what Dagster only shows must not delay
        a session for each message.
        """
        if getattr(self._of_thread, "is_patient", False):
            return work()
        self._of_thread.is_patient = True
        seconds = 0.0 if self._was_in_vain else self._patience_seconds
        try:
            result = run_patiently(self.engine, work, patience_seconds=seconds)
        except DagsterUnreachableError:
            self._was_in_vain = True
            raise
        else:
            self._was_in_vain = False
            return result
        finally:
            self._of_thread.is_patient = False


class PatientStorage:
    """Common parts of Dagster's storages on MySQL; stands before Dagster's class."""

    def __init__(self, connections: Connections, url: str) -> None:
        self._connections = connections
        super().__init__(url_for_dagster(url))  # type: ignore[call-arg]

    def connect(self, run_id: str | None = None) -> AbstractContextManager[Connection]:  # noqa: ARG002
        """A connection in a transaction."""
        return self._connections.connect()

    _connect = connect

    def optimize_for_webserver(self, statement_timeout: int, pool_recycle: int, max_overflow: int) -> None:
        """Nothing to do: every process keeps its connections."""

    def dispose(self) -> None:
        """Close the connections that are idle, also for the other storages: they make new ones if they need any."""
        super().dispose()  # type: ignore[misc]
        self._connections.engine.dispose()


def patient(interface: type) -> Callable[[type[T]], type[T]]:
    """Decorates a PatientStorage: every method of `interface` is repeated after failures."""

    def decorate(storage: type[T]) -> type[T]:
        for name, member in inspect.getmembers(storage, inspect.isfunction):
            if name in vars(interface) and not name.startswith("_") and name not in _LEFT_ALONE:
                setattr(storage, name, _patiently(member))
        return storage

    return decorate


def _patiently(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def done(self: PatientStorage, *arguments: Any, **named: Any) -> Any:
        return self._connections.patiently(lambda: method(self, *arguments, **named))

    return done


@patient(EventLogStorage)
class BatchingMysqlEventLogStorage(PatientStorage, BatchingEventLog, MySQLEventLogStorage):
    """Dagster's event log on MySQL, with connections that are kept and events that are stored in batches.

    The tables and rows are those of Dagster's own class, so either class reads what the other wrote, even at the same
    time.
    """

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Store events of any kinds and runs, in order, in one transaction."""
        rows = [self._event_to_row(event) for event in events]
        maybe_stored = False

        def store() -> None:
            nonlocal maybe_stored
            with self._connections.transaction() as connection:
                if maybe_stored and _is_stored(connection, rows[-1]):
                    return
                maybe_stored = True
                ids = [row_id for part in _parts(rows) for row_id in insert_rows(connection, _EVENTS, part)]
                self.store_about_assets(connection, zip(events, ids, strict=True))

        self._connections.patiently(store)

    remove_partitions = _patiently(BatchingEventLog.remove_partitions)

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
