"""Dagster's storage on MySQL and MariaDB: runs, events and schedules in one database beside the platform's own.

Chosen in the `dagster.yaml` that `dcc init --production` writes. Its tables are made by `dcc init` alone
(`dcc_dagster.dagster_database`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from dagster import StringSource
from dagster._core.storage.base_storage import DagsterStorage
from dagster._core.storage.event_log.base import EventLogStorage
from dagster._core.storage.runs import RunStorage
from dagster._core.storage.schedules import ScheduleStorage
from dagster._serdes import ConfigurableClass
from dagster_mysql import MySQLRunStorage, MySQLScheduleStorage
from sqlalchemy.engine import Connection

from dcc.databases.engines import lacks_right
from dcc.errors import DagsterUnreachableError
from dcc.settings import load_settings
from dcc_dagster.dagster_database import require_current
from dcc_dagster.mysql_connections import (
    Connections,
    PatientStorage,
    borrow_connections,
    give_back_connections,
    patient,
    url_for_dagster,
)
from dcc_dagster.mysql_event_storage import BatchingMysqlEventLogStorage

if TYPE_CHECKING:
    from dagster._config import UserConfigSchema
    from dagster._serdes import ConfigurableClassData


@patient(RunStorage)
class PatientMysqlRunStorage(PatientStorage, MySQLRunStorage):
    """Dagster's run storage on MySQL, on connections that are kept, and patient."""

    def __init__(self, connections: Connections, url: str) -> None:
        self._connections = connections
        super().__init__(url_for_dagster(url))

    def connect(self, run_id: str | None = None) -> AbstractContextManager[Connection]:  # noqa: ARG002
        """A connection in a transaction."""
        return self._connections.connect()

    def get_run_storage_id(self) -> str:
        """The id by which telemetry, which is off, would know this storage: every page asks for it.

        Dagster makes one when there is none yet. Pages of an account that may only read do without.
        """
        try:
            return super().get_run_storage_id()
        except DagsterUnreachableError as error:
            if not lacks_right(error):
                raise
            return ""


@patient(ScheduleStorage)
class PatientMysqlScheduleStorage(PatientStorage, MySQLScheduleStorage):
    """Dagster's schedule storage on MySQL, on connections that are kept, and patient."""

    def __init__(self, connections: Connections, url: str) -> None:
        self._connections = connections
        super().__init__(url_for_dagster(url))

    def connect(self) -> AbstractContextManager[Connection]:
        """A connection in a transaction."""
        return self._connections.connect()


class PatientMysqlStorage(DagsterStorage, ConfigurableClass):
    """Dagster's storage on MySQL or MariaDB, which must have the tables of the installed Dagster.

    Raises, when it is made, DagsterStorageError if the server is away for longer than DCC_DATABASE_RETRY says,
    DagsterStorageOutdatedError for a database without the tables, DatabaseServerUnfitError for a server or database
    that will not do, and ConfigurationError for a URL that names none.
    """

    def __init__(self, mysql_url: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._inst_data = inst_data
        patience = load_settings().database_retry
        connections = borrow_connections(mysql_url, patience)
        try:
            connections.patiently(lambda: require_current(connections.engine))
            self._runs = PatientMysqlRunStorage(borrow_connections(mysql_url, patience), mysql_url)
            self._events = BatchingMysqlEventLogStorage(borrow_connections(mysql_url, patience), mysql_url)
            self._schedules = PatientMysqlScheduleStorage(borrow_connections(mysql_url, patience), mysql_url)
        finally:
            give_back_connections(connections)
        super().__init__()  # type: ignore[no-untyped-call]

    @property
    def inst_data(self) -> ConfigurableClassData | None:
        """Its entry in `dagster.yaml`."""
        return self._inst_data

    @classmethod
    def config_type(cls) -> UserConfigSchema:
        """What `dagster.yaml` says: `mysql_url`, by `env: DCC_DAGSTER_URL`, so that no file holds the password."""
        return {"mysql_url": StringSource}

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> PatientMysqlStorage:
        """Build the storage from its entry in `dagster.yaml`."""
        return cls(config_value["mysql_url"], inst_data)

    @property
    def event_log_storage(self) -> EventLogStorage:
        """The event log."""
        return self._events

    @property
    def run_storage(self) -> RunStorage:
        """The runs."""
        return self._runs

    @property
    def schedule_storage(self) -> ScheduleStorage:
        """Schedules, sensors and their ticks."""
        return self._schedules

    @property
    def event_storage_data(self) -> ConfigurableClassData | None:
        """None: the storage is one."""
        return None

    @property
    def run_storage_data(self) -> ConfigurableClassData | None:
        """None: the storage is one."""
        return None

    @property
    def schedule_storage_data(self) -> ConfigurableClassData | None:
        """None: the storage is one."""
        return None
