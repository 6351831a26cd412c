"""Dagster's storage on MySQL and MariaDB: runs, events and schedules in one database beside the platform's own.

The `dagster.yaml` that `dcc init --production` writes selects it. Only `dcc init` makes its tables
(`dcc_dagster.dagster_database`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from dagster import StringSource
from dagster._core.storage.runs import RunStorage
from dagster._core.storage.schedules import ScheduleStorage
from dagster_mysql import DagsterMySQLStorage, MySQLRunStorage, MySQLScheduleStorage
from sqlalchemy.engine import Connection

from dcc.databases.engines import lacks_right
from dcc.errors import DagsterUnreachableError
from dcc.settings import load_settings
from dcc_dagster.dagster_database import require_current
from dcc_dagster.mysql_connections import Connections, PatientStorage, patient
from dcc_dagster.mysql_event_storage import event_storage_of

if TYPE_CHECKING:
    from dagster._config import UserConfigSchema
    from dagster._serdes import ConfigurableClassData


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
