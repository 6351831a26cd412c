"""The QC database: what it is, and how it is opened; `dcc.databases.schema` makes and checks it.

It is used like the tracker, by `dcc.databases.transactions`: all writes happen inside `run_writing`, and changes of
centres' data lock these first (`dcc.qc.apply.upload_lock`).
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, Engine, insert, select

from dcc.databases import engines
from dcc.databases.database import OUTAGE_SECONDS, Database
from dcc.errors import QcDatabaseOutdatedError, QcDatabaseUnreachableError
from dcc.qc.models import UPLOAD_LOCK, QcBase
from dcc.qc.models.views import views
from dcc.qc.upgrades import REVISIONS
from dcc.settings import Settings


def open_qc_database(settings: Settings) -> Engine:
    """The engine of the QC database of the settings; it connects on first use.

    Using it raises QcDatabaseUnreachableError if the database cannot be reached. Raises ConfigurationError for a URL of
    an unknown kind (see `open_database`).
    """
    engine = engines.open_database(settings.qc_database_url, QC_DATABASE)
    engine.update_execution_options(**{OUTAGE_SECONDS: settings.database_retry})
    return engine


def _add_rows(connection: Connection) -> None:
    if connection.scalar(select(UPLOAD_LOCK.c.id)) is None:
        connection.execute(insert(UPLOAD_LOCK).values(id=1))


QC_DATABASE: Final = Database(
    noun="QC database",
    name="QC database",
    setting="DCC_QC_URL",
    file_name="qc.db",
    metadata=QcBase.metadata,
    landmark="measurement",
    revisions=REVISIONS,
    outdated=QcDatabaseOutdatedError,
    unreachable=QcDatabaseUnreachableError,
    fill=_add_rows,
    views=views,
    loads_files=True,
)
"""The QC database for `dcc.databases`."""
