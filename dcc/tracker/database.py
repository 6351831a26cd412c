"""The tracker database: its tables and reference rows, how it is opened, and the kinds of errors in it.

All writes happen inside `writing` or, better, `run_writing`; reads use `engine.connect()` (see
`dcc.databases.transactions`). Only `dcc init` changes a schema (see `dcc.databases.schema`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, Transaction, bindparam, insert, select
from sqlalchemy.dialects import mysql, sqlite

from dcc.databases import engines
from dcc.databases.database import OUTAGE_SECONDS, Database
from dcc.errors import ConfigurationError, TrackerOutdatedError, TrackerUnreachableError
from dcc.settings import Settings
from dcc.tracker.models import AnException, Base, SessionLock
from dcc.tracker.reference_rows import REFERENCE_ROWS
from dcc.tracker.upgrades import REVISIONS

_ids_in: WeakKeyDictionary[Transaction, dict[str, int]] = WeakKeyDictionary()
"""The ids of kinds of errors that open transactions have looked up."""


def exception_id(connection: Connection, name: str, description: str) -> int:
    """The id of the kind of error `name` in `an_exception`; adds a row with `description` if there is none.

    Safe if others add the same row at the same time. Call inside a write transaction, which looks up a kind once.
    """
    transaction = connection.get_transaction()
    known = {} if transaction is None else _ids_in.setdefault(transaction, {})
    if name not in known:
        found = connection.scalar(_FIND_EXCEPTION, {"name": name})
        if found is None:
            insert_missing(connection, AnException, [{"short_name": name, "description": description}])
            found = connection.execute(_FIND_EXCEPTION, {"name": name}).scalar_one()
        known[name] = int(found)
    return known[name]


_FIND_EXCEPTION = select(AnException.id).where(AnException.short_name == bindparam("name"))


def insert_missing(connection: Connection, table: type[Base], rows: Sequence[Mapping[str, object]]) -> None:
    """Insert rows that do not exist; others may insert the same at the same time."""
    if rows and connection.dialect.name == "sqlite":
        connection.execute(sqlite.insert(table).on_conflict_do_nothing(), rows)
    elif rows:
        connection.execute(mysql.insert(table).prefix_with("IGNORE"), rows)


def open_tracker(settings: Settings) -> Engine:
    """The engine of the tracker database of the settings; it connects on first use.

    Using it raises TrackerUnreachableError if the database cannot be reached. Raises ConfigurationError for a URL of an
    unknown kind (see `open_database`).
    """
    engine = engines.open_database(settings.tracker_database_url, TRACKER)
    engine.update_execution_options(**{OUTAGE_SECONDS: settings.database_retry})
    return engine


def _add_rows(connection: Connection) -> None:
    if connection.scalar(select(SessionLock.id)) is None:
        connection.execute(insert(SessionLock).values(id=1))
    for name, rows in REFERENCE_ROWS.items():
        table = Base.metadata.tables[name]
        present = {row.id: row.short_name for row in connection.execute(select(table.c.id, table.c.short_name))}
        for row_id, row in enumerate(rows, start=1):
            if present.get(row_id, row.short_name) != row.short_name:
                raise ConfigurationError(
                    f"Row {row_id} of {name} is {present[row_id]!r} and should be {row.short_name!r}: the database was "
                    "not made for this platform. Name another one in DCC_TRACKER_URL."
                )
        missing = [
            {"id": row_id, "short_name": row.short_name, "description": row.description}
            | ({"rgba": row.rgba} if row.rgba is not None else {})
            for row_id, row in enumerate(rows, start=1)
            if row_id not in present
        ]
        if missing:
            connection.execute(insert(table), missing)


TRACKER: Final = Database(
    noun="tracker",
    name="tracker database",
    setting="DCC_TRACKER_URL",
    file_name="tracker.db",
    metadata=Base.metadata,
    landmark="zip_action",
    revisions=REVISIONS,
    outdated=TrackerOutdatedError,
    unreachable=TrackerUnreachableError,
    fill=_add_rows,
)
"""The tracker database for `dcc.databases`."""
