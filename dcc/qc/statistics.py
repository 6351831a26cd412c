"""The statistics with which MySQL and MariaDB choose access paths, updated after many rows were added.

The server does so itself, but seconds later: until then it takes new tables for empty ones, and may read all their rows
for each of a session's documents. SQLite keeps none.
"""

from __future__ import annotations

import logging
from typing import Final

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from dcc.databases.transactions import run_reading
from dcc.qc.models import DOCUMENT, DOCUMENT_TABLES

log = logging.getLogger(__name__)

_DENIED: Final = frozenset({1044, 1142, 1227})


def update_statistics(engine: Engine) -> None:
    """Let the server update the statistics of documents' tables, from a few pages of each index.

    If the account may not ask for it, that is logged, and the server does so in its time. Raises
    QcDatabaseUnreachableError.
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
