"""The QC database: opened, made or brought up to date, and checked before use.

It is worked with as the tracker is, by `dcc.databases.transactions`: everything that writes does so inside
`run_writing`, and whoever changes what belongs to centres locks these first (`dcc.qc.apply.upload_lock`).
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, Engine, insert, select

from dcc.databases import engines, schema
from dcc.databases.database import OUTAGE_SECONDS, Database
from dcc.databases.schema import InitReport
from dcc.databases.transactions import insert_rows, run_reading, run_writing, writing
from dcc.errors import QcDatabaseOutdatedError, QcDatabaseUnreachableError
from dcc.qc.models import QcBase, UploadLock
from dcc.qc.models.views import views
from dcc.qc.upgrades import REVISIONS
from dcc.settings import Settings

__all__ = [
    "QC_DATABASE",
    "InitReport",
    "init_qc_database",
    "insert_rows",
    "open_qc_database",
    "require_current",
    "run_reading",
    "run_writing",
    "writing",
]


def open_qc_database(settings: Settings) -> Engine:
    """The engine of the QC database that the settings name; connects on first use only.

    Connecting or working raises QcDatabaseUnreachableError when the database cannot be reached, at any time. Raises
    ConfigurationError for a URL that names no database of a kind that is known (see `open_database`).
    """
    engine = engines.open_database(settings.qc_database_url, QC_DATABASE)
    engine.update_execution_options(**{OUTAGE_SECONDS: settings.database_retry})
    return engine


def init_qc_database(engine: Engine) -> InitReport:
    """Create the QC database, or bring it up to the schema of this version; without effect when it has it.

    Raises QcDatabaseOutdatedError for a schema newer than this version, ConfigurationError for a database with such
    tables of another system, QcDatabaseUnreachableError.
    """
    return schema.init_database(engine, QC_DATABASE)


def require_current(engine: Engine, *, patience_seconds: float | None = None) -> None:
    """Raise QcDatabaseOutdatedError unless the database has the schema of this version; changes nothing.

    As `dcc.databases.schema.require_current`.
    """
    schema.require_current(engine, QC_DATABASE, patience_seconds=patience_seconds)


def _add_rows(connection: Connection) -> None:
    if connection.scalar(select(UploadLock.id)) is None:
        connection.execute(insert(UploadLock).values(id=1))


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
"""The QC database, as `dcc.databases` works with it."""
