"""The tracker database: its reference rows and revisions, how it is opened, and the kinds of errors in it.

All writes happen inside `writing` or, better, `run_writing`; reads use `engine.connect()` (see
`dcc.databases.transactions`). Only `dcc init` changes a schema (see `dcc.databases.schema`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, Transaction, bindparam, case, column, insert, select, table, update
from sqlalchemy.dialects import mysql, sqlite

from dcc.databases import engines
from dcc.databases.database import OUTAGE_SECONDS, Database, Revisions
from dcc.errors import ConfigurationError, TrackerOutdatedError, TrackerUnreachableError
from dcc.naming import Action
from dcc.settings import Settings
from dcc.tracker.models import AnException, Base, SessionLock


@dataclass(frozen=True, slots=True)
class ReferenceRow:
    """A row of a reference table; `rgba` is a status's colour, None for all other rows."""

    short_name: str
    description: str
    rgba: str | None = None


REFERENCE_ROWS: Final[dict[str, tuple[ReferenceRow, ...]]] = {
    "source_protocol": (
        ReferenceRow("ftp", "File Transfer Protocol, unencrypted (RFC 959)."),
        ReferenceRow("sftp", "SSH File Transfer Protocol: encrypted, the server known by its host key."),
        ReferenceRow("http", "Hypertext Transfer Protocol, unencrypted."),
        ReferenceRow("ftps", "File Transfer Protocol over explicit TLS (RFC 4217)."),
        ReferenceRow("https", "Hypertext Transfer Protocol over TLS."),
        ReferenceRow("file", "A folder that this machine can read."),
    ),
    "resource_state": (
        ReferenceRow("available", "Crawled, and used for downloads, in every session."),
        ReferenceRow("maintenance", "Left alone until its centre has it working again."),
        ReferenceRow("removed", "Given up by its centre; kept for the history of what it delivered."),
    ),
    "processing_type": (
        ReferenceRow(Action.ADD.value, "Take in the archive's data, which are new."),
        ReferenceRow(Action.EDIT.value, "Replace earlier data by the archive's."),
        ReferenceRow(Action.DELETE.value, "Withdraw the data that the archive names."),
    ),
    "phase": (
        ReferenceRow("download", "The archive is fetched from a file source into the staging area."),
        ReferenceRow("zip_name", "The archive's name is checked against the naming convention, while crawling."),
        ReferenceRow("zip_md5", "The archive's size and checksum are compared with what its centre published."),
        ReferenceRow("unzip", "The archive's documents are extracted into a folder of their own."),
        ReferenceRow("xml_name", "The document's name is checked against the naming convention."),
        ReferenceRow("xsd", "The document is validated against the XML schema of the exchange format."),
        ReferenceRow("upload", "The document's contents are loaded into the QC database."),
        ReferenceRow("data", "The integrity of the loaded data is checked."),
        ReferenceRow("context", "The data are put into the context of earlier submissions."),
        ReferenceRow("overview", "The overviews that displays and analyses read are built."),
        ReferenceRow("qc", "Data wranglers check the quality of the data."),
    ),
    "a_status": (
        ReferenceRow("pending", "Waits for the phase to begin.", "aaaaaa00"),
        ReferenceRow("running", "The phase is under way.", "0000ff00"),
        ReferenceRow("done", "The phase ended well.", "00ff0000"),
        ReferenceRow("cancelled", "The phase was given up before its end, through no fault of the data.", "77007700"),
        ReferenceRow("failed", "The phase ended with an error.", "ff000000"),
    ),
}

_MARKS = {"Warning: ": "warning", "Not checked: ": "unchecked"}


def _tell_severities(connection: Connection) -> None:
    log = table("xml_log", column("message"), column("severity"))
    for mark, severity in _MARKS.items():
        connection.execute(update(log).where(log.c.message.like(f"{mark}%")).values(severity=severity))


def _give_reasons(connection: Connection) -> None:
    """Say why earlier sessions ended: by a person, or in the only two ways that DCC distinguished."""
    session = table("crawling_session", column("status"), column("finish_time"), column("end_reason"))
    reason = case((session.c.status == 0, "finished"), (session.c.status == -2, "stopped"), else_="faults")
    ended = session.c.finish_time.is_not(None) & session.c.end_reason.is_(None)
    connection.execute(update(session).where(ended).values(end_reason=reason))


_CONVERSIONS: Final = {9: _tell_severities, 19: _give_reasons}
REVISIONS: Final[Revisions] = {f"{number:04}": _CONVERSIONS.get(number) for number in range(1, 28)}
"""All revisions, oldest first, and the function that converts the rows of the one before."""


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
