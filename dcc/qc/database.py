"""The QC database: what it is, how it is opened, its statistics; `dcc.databases.schema` makes and checks it.

It is used like the tracker, by `dcc.databases.transactions`: all writes happen inside `run_writing`, and changes of
centres' data lock these first (`dcc.qc.apply.upload_lock`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, event, insert, select
from sqlalchemy.exc import DBAPIError

from dcc.databases import engines
from dcc.databases.database import OUTAGE_SECONDS, Database
from dcc.databases.engines import disposed, open_database
from dcc.databases.transactions import run_reading
from dcc.errors import QcDatabaseOutdatedError, QcDatabaseUnreachableError
from dcc.qc.models import DOCUMENT, DOCUMENT_TABLES, UPLOAD_LOCK, QcBase
from dcc.qc.models.views import views
from dcc.qc.upgrades import REVISIONS
from dcc.settings import Settings

log = logging.getLogger(__name__)

_DENIED: Final = frozenset({1044, 1142, 1227})


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

EMPTY_TABLES: Final = frozenset(
    {
        *("genotype", "parental_strain", "chromosomal_alteration", "chromosome"),
        *("measurement", "media", "media_association", "dimension", "metadata"),
    }
)
"""The tables that stay empty in a scratch database."""


@contextmanager
def scratch_database(place: Path) -> Iterator[Engine]:
    """A QC database in an existing file, in which documents are applied and judged as in a session, and nobody keeps.

    It has the entities of documents, and not their measurements: no rule compares these with those of other documents.
    """
    with disposed(open_database(f"sqlite:///{place}", QC_DATABASE)) as engine:
        event.listen(engine, "connect", _forget_safety)
        yield engine


def _forget_safety(connection: Any, record: object) -> None:  # noqa: ARG001
    """Have a scratch database not wait for the disk; it names waivers and snapshots that it does not have."""
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = MEMORY")
    connection.execute("PRAGMA foreign_keys = OFF")


def update_statistics(engine: Engine) -> None:
    """Let a server update the statistics with which it chooses access paths, from a few pages of each index.

    It does so itself, but seconds later: until then it takes new tables for empty ones, and may read all their rows for
    each of a session's documents. If the account may not ask for it, that is logged. Raises QcDatabaseUnreachableError.
    """
    if engine.dialect.name == "sqlite":
        return
    run_reading(engine, _analyze)


def _analyze(connection: Connection) -> None:
    preparer = connection.dialect.identifier_preparer
    names = ", ".join(preparer.format_table(table) for table in (DOCUMENT, *DOCUMENT_TABLES))
    try:
        # Local: replicas have statistics of their own.
        messages = connection.exec_driver_sql(f"ANALYZE LOCAL TABLE {names}").all()
    except DBAPIError as error:
        if error.orig is None or error.orig.args[0] not in _DENIED:
            raise
        log.info("The statistics of the QC database could not be updated: %s", error.orig.args[1])
        return
    for table, _, kind, message in messages:
        if kind == "Error":
            log.info("The statistics of %s could not be updated: %s", table, message)
