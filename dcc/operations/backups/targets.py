"""Databases that rows are copied into, empty or to be replaced; unusable until they are complete. Moves of storage.

The table `unfinished_copy` marks a database before anything in it changes, and until it is complete. Meanwhile every
command refuses it, except those that start the copy again. On SQLite the new file is written beside the old one, which
stays as it is until the new one is complete.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy import URL, Connection, Engine, inspect, text
from sqlalchemy.exc import DBAPIError

from dcc.databases.database import MADE_FIRST, Database, database_of
from dcc.databases.engines import database_label, disposed, open_url, patient_connection, same_database
from dcc.databases.schema import UNFINISHED_COPY, create_database, init_database, revision_in
from dcc.databases.transactions import run_writing, writing
from dcc.errors import (
    ConfigurationError,
    CopyFailedError,
    DatabaseUnreachableError,
    SessionActiveError,
    StorageInUseError,
    StorageNotEmptyError,
)
from dcc.operations.backups.database_files import (
    Progress,
    Row,
    TableShape,
    TableSum,
    differences,
    disk_errors,
    finish_file,
    fsync,
    known_tables,
    last_ids,
    no_progress,
    remove_file,
    remove_log,
    snapshot,
    sum_tables,
    write_file,
)
from dcc.runtime.private_files import make_directory
from dcc.session.leases import refuse_during_session
from dcc.settings import Settings
from dcc.tracker.database import TRACKER
from dcc.tracker.reference_rows import REFERENCE_ROWS

_MADE_WITH_ROWS: Final = frozenset({*REFERENCE_ROWS, "session_lock", "upload_lock"})
_MARK: Final = f"CREATE TABLE IF NOT EXISTS {UNFINISHED_COPY} (note VARCHAR(64))"
_SHOWN: Final = 5
_USED_SECONDS: Final = 5.0
"""For how long others may have a file open: a command that is about to end, or figures for metrics."""
_UNMARK: Final = f"DROP TABLE IF EXISTS {UNFINISHED_COPY}"


class ContentState(Enum):
    """State of a database before the copy: without rows, left by an interrupted copy, or in use."""

    EMPTY = "empty"
    UNFINISHED = "unfinished"
    FILLED = "filled"


@dataclass
class Target:
    """A database that rows are copied into: `begin`, `fill`, then `replace_both` of both; at the end `discard`."""

    engine: Engine
    settings: Settings

    @property
    def database(self) -> Database:
        """Which of the databases it is."""
        return database_of(self.engine)

    @property
    def label(self) -> str:
        """The database's name in messages."""
        return f"{self.database.name} {database_label(self.engine.url)}"

    @property
    def _path(self) -> Path:
        # Where a link leads, perhaps on another disk: there the file is replaced, with the log that SQLite keeps there.
        return Path(str(self.engine.url.database)).resolve()

    @property
    def _copy_path(self) -> Path:
        return self._path.with_name(f".{self._path.name}.copy")

    @property
    def _on_server(self) -> bool:
        return self.engine.dialect.name != "sqlite"

    def look(self) -> ContentState:
        """Its state. A database that is missing on a server is made. Raises the database's `unreachable` error."""
        if not self._is_there():
            return ContentState.EMPTY
        with self._if_readable(), self.engine.connect() as connection:
            return self._content_state(connection)
        return ContentState.FILLED

    def _is_there(self) -> bool:
        """Whether the database may have tables; a database that is missing on a server is made."""
        if self._on_server:
            create_database(self.engine)
        return self._on_server or (self._path.exists() and self._path.stat().st_size > 0)

    def _content_state(self, connection: Connection) -> ContentState:
        present = set(inspect(connection).get_table_names())
        if UNFINISHED_COPY in present:
            return ContentState.UNFINISHED
        if self._not_ours(present):
            return ContentState.FILLED
        tables = [name for name in known_tables(connection, self.database) if name not in _MADE_WITH_ROWS]
        filled = any(connection.exec_driver_sql(f"SELECT 1 FROM {name} LIMIT 1").first() for name in tables)  # noqa: S608
        return ContentState.FILLED if filled else ContentState.EMPTY

    def refuse_others(self) -> None:
        """Raise ConfigurationError for a database with other tables, which would be lost.

        Tables that another system keeps beside the platform's on a server stay, and so are allowed.
        """
        if self._is_there():
            with self._if_readable(), self.engine.connect() as connection:
                self._refuse_others(connection)

    def refuse_session(self) -> None:
        """Raise SessionActiveError while a session is active in a tracker that is in use."""
        if self.look() is ContentState.FILLED:
            with self._if_readable(), writing(self.engine) as connection:
                self._refuse_session(connection)

    def refuse_users(self) -> None:
        """Raise StorageInUseError while another process has a SQLite file open: it would go on with the old file, and
        what it writes would be lost.
        """
        if self._on_server or not self._path.exists():
            return
        self.engine.dispose()
        deadline = time.monotonic() + _USED_SECONDS
        while self._is_in_use():
            if time.monotonic() > deadline:
                raise StorageInUseError(
                    f"The {self.label} is open in another process, which would lose what it writes. Stop what uses it "
                    "(dcc daemon, dcc ui, dcc metrics --serve, cron, other commands), then give the command again."
                )
            time.sleep(0.1)

    def _is_in_use(self) -> bool:
        try:
            finish_file(self._path)
        except sqlite3.Error as error:
            # A damaged file may be replaced.
            return error.sqlite_errorcode == sqlite3.SQLITE_BUSY
        return False

    def begin(self) -> None:
        """Mark a database of a server, which is made if it is missing; the file of an earlier copy is removed.

        Raises SessionActiveError, and ConfigurationError as `refuse_others` does.
        """
        if self._on_server:
            create_database(self.engine)
            self._mark()
        else:
            make_directory(self._path.parent)
            remove_file(self._copy_path)

    def fill(self, source: Connection, on_progress: Progress) -> dict[str, TableSum]:
        """Copy all rows of `source`, which has this version's schema; returns the sums of the target's rows.

        Raises CopyFailedError for a row that the target cannot hold, and OSError and sqlite3.Error for a file that
        cannot be written.
        """
        if not self._on_server:
            return write_file(source, self.database, self.database.head, self._copy_path, on_progress)
        drop_tables(self.engine, self.database)
        init_database(self.engine, unfinished=True)
        expected = load_rows(source, self.engine, self.settings.database_retry, on_progress)
        sums = self.sums("rows of the {} read back", on_progress, sum(table.rows for table in expected.values()))
        if sums != expected:
            raise CopyFailedError(
                f"What was written to the {self.label} is not what was read: {', '.join(differences(expected, sums))}. "
                "Nothing else may write to it meanwhile. Give the command again."
            )
        return sums

    def sums(self, what: str, on_progress: Progress, total: int) -> dict[str, TableSum]:
        """Rows and checksums of its tables, once they are in place."""
        with patient_connection(self.engine) as connection:
            return sum_tables(connection, self.database, what.format(self.database.name), on_progress, total)

    def being_filled(self) -> AbstractContextManager[Engine]:
        """The engine of the copied rows, before they are in place."""
        if self._on_server:
            return nullcontext(self.engine)
        return disposed(open_url(URL.create("sqlite", database=str(self._copy_path)), self.database))

    def mark(self) -> None:
        """Mark a SQLite database that is about to be replaced, unless it cannot be read.

        Raises StorageInUseError as `refuse_users` does.
        """
        if not self._on_server and self._path.exists():
            with self._if_readable():
                self._mark()
            self.refuse_users()

    def put_in_place(self) -> None:
        """Replace the old SQLite file by the new one, which is marked as well."""
        if self._on_server:
            return
        self.engine.dispose()
        with self.being_filled() as engine, writing(engine) as connection:
            connection.exec_driver_sql(_MARK)
        finish_file(self._copy_path)
        remove_log(self._path)
        self._copy_path.replace(self._path)
        fsync(self._path.parent)

    def finish(self) -> None:
        """Remove the mark: the database is complete."""
        with writing(self.engine) as connection:
            connection.exec_driver_sql(_UNMARK)

    def discard(self) -> None:
        """Remove the new file, if the old one is not replaced after all."""
        if not self._on_server:
            remove_file(self._copy_path)

    def _mark(self) -> None:
        with writing(self.engine) as connection:
            self._refuse_others(connection)
            if inspect(connection).has_table(UNFINISHED_COPY):
                return
            connection.exec_driver_sql(_MARK)
            connection.execute(text(f"INSERT INTO {UNFINISHED_COPY} VALUES (:note)"), {"note": self.database.name})  # noqa: S608
            try:
                self._refuse_session(connection)
            except SessionActiveError:
                connection.exec_driver_sql(_UNMARK)
                raise

    def _refuse_session(self, connection: Connection) -> None:
        if self.database.metadata is TRACKER.metadata and inspect(connection).has_table("session_lock"):
            refuse_during_session(connection, self.settings)

    def _refuse_others(self, connection: Connection) -> None:
        theirs = sorted(self._theirs(connection))
        if theirs:
            shown = ", ".join(theirs[:_SHOWN]) + (", ..." if len(theirs) > _SHOWN else "")
            raise ConfigurationError(
                f"The {self.label} has tables of another system ({shown}), which would be lost. Name another database."
            )

    def _theirs(self, connection: Connection) -> set[str]:
        """Tables that are not this database's, or unknown, and would be lost."""
        present = set(inspect(connection).get_table_names())
        others = self._not_ours(present)
        if {MADE_FIRST, self.database.landmark} <= present:
            # A later version has tables that this one does not know.
            is_known = revision_in(connection) in self.database.revisions
            return others if is_known and not self._on_server else set()
        if UNFINISHED_COPY not in present:
            return others if MADE_FIRST in present else others | (present & set(self.database.metadata.tables))
        # A copy began here, and the table that identifies the database may be dropped already.
        marked_for = connection.scalar(text(f"SELECT note FROM {UNFINISHED_COPY} LIMIT 1"))  # noqa: S608
        return set() if marked_for == self.database.name else others

    def _not_ours(self, present: set[str]) -> set[str]:
        # What is a view now was a table of an earlier version.
        views = self.database.views(self.engine.dialect.name)
        return present - {*self.database.metadata.tables, *views, "alembic_version", UNFINISHED_COPY}

    @contextmanager
    def _if_readable(self) -> Iterator[None]:
        """Ignore a file that is no database any more: backups are restored for such cases."""
        try:
            yield
        except DatabaseUnreachableError:
            if self._on_server or not os.access(self._path, os.R_OK | os.W_OK):
                raise


def refuse_same(targets: Sequence[Target], sources: Sequence[Engine] = ()) -> None:
    """Raise ConfigurationError for a target that is the other target, or any of the sources."""
    for number, target in enumerate(targets):
        for source in sources:
            if same_database(target.engine.url, source.url):
                raise ConfigurationError(
                    f"The target {database_label(target.engine.url)} is the source of the "
                    f"{database_of(source).name}. Name another database."
                )
        for other in targets[:number]:
            if same_database(target.engine.url, other.engine.url):
                raise ConfigurationError(
                    f"The {other.label} would be the {target.database.name} as well. Name a database of its own for "
                    "each."
                )


def refuse_filled(tracker: Target, qc: Target, advice: str) -> None:
    """Raise StorageNotEmptyError for the first target that has rows of its own; `advice` is what to do.

    If the tracker was left by an interrupted copy, so was the QC database, which takes effect before it.
    """
    found = tracker.look()
    if found is ContentState.UNFINISHED:
        return
    for target, state in ((tracker, found), (qc, qc.look())):
        if state is ContentState.FILLED:
            raise StorageNotEmptyError(f"The {target.label} holds data. {advice}")


@contextmanager
def replace_both(tracker: Target, qc: Target) -> Iterator[None]:
    """Let both databases take effect together at the end of the block.

    If that breaks off earlier, every command refuses the tracker.
    """
    for target in (tracker, qc):
        target.mark()
    for target in (qc, tracker):
        target.put_in_place()
    yield
    for target in (qc, tracker):
        target.finish()


_CHECKS: Final = "SET SESSION foreign_key_checks = {0}"


def drop_tables(engine: Engine, database: Database) -> None:
    """Drop the platform's tables of a database; if a later version made them, all tables but the mark."""
    tells = {MADE_FIRST, database.landmark, "alembic_version"}
    with engine.connect() as connection:
        present = set(inspect(connection).get_table_names())
        ours = present & {*database.metadata.tables, "alembic_version"}
        if tells <= present and revision_in(connection) not in database.revisions:
            ours = present - {UNFINISHED_COPY}
        connection.exec_driver_sql(_CHECKS.format(0))
        try:
            # The table that identifies the database is dropped last, so that an interrupted removal can be repeated.
            for name in sorted(ours, key=lambda name: (name in tells, name)):
                connection.exec_driver_sql(f"DROP TABLE `{name}`")
        finally:
            connection.exec_driver_sql(_CHECKS.format(1))


def load_rows(
    source: Connection, engine: Engine, patience_seconds: float, on_progress: Progress
) -> dict[str, TableSum]:
    """Copy all rows of `source` into new tables; returns the sums of the rows that were read.

    Raises CopyFailedError for a row that the server refuses, and the database's `unreachable` error.
    """
    database = database_of(engine)
    with disposed(open_url(engine.url, database)) as loader:
        with writing(loader) as connection:
            for name in reversed(known_tables(connection, database)):
                connection.exec_driver_sql(f"DELETE FROM {name}")  # noqa: S608
        write = partial(_insert, loader, database, patience_seconds)
        sums = sum_tables(source, database, f"rows of the {database.name}", on_progress, write=write)
        with loader.connect() as connection:
            for name, last in last_ids(source, database).items():
                connection.exec_driver_sql(f"ALTER TABLE {name} AUTO_INCREMENT = {last + 1}")
    return sums


def _insert(engine: Engine, database: Database, patience_seconds: float, shape: TableShape, rows: list[Row]) -> None:
    statement = shape.insertion("%s")

    def insert(connection: Connection) -> None:
        # The source has checked these references already.
        connection.exec_driver_sql(_CHECKS.format(0))
        connection.exec_driver_sql(statement, rows)
        connection.exec_driver_sql(_CHECKS.format(1))

    try:
        run_writing(engine, insert, patience_seconds=patience_seconds)
    except DatabaseUnreachableError:
        raise
    except DBAPIError as error:
        raise CopyFailedError(
            f"The table {shape.name} of the {database.name} has a row that the server does not take: "
            f"{error.orig.args[-1] if error.orig and error.orig.args else error}. Correct it where it is, then give "
            "the command again."
        ) from error


_AGAIN: Final = "Nothing was taken over half. Check the disk, then give the command again."


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """The rows of each copied table of both databases, and the seconds it took."""

    tracker: Mapping[str, TableSum]
    qc: Mapping[str, TableSum]
    seconds: float

    @property
    def rows(self) -> int:
        """The rows of all tables."""
        return sum(table.rows for tables in (self.tracker, self.qc) for table in tables.values())


def migrate_storage(
    tracker: Engine,
    qc: Engine,
    to_tracker: Engine,
    to_qc: Engine,
    settings: Settings,
    *,
    on_progress: Progress = no_progress,
) -> MigrationReport:
    """Copy both databases, which have this version's schema, into empty ones. The sources are not changed.

    Targets that do not exist are made. After the copy, the sources are read once more and compared with the targets
    table by table, so that nothing that was written meanwhile is missed. If the copy breaks off, call it again: it
    starts from the beginning. Raises SessionActiveError during a session, StorageNotEmptyError, CopyFailedError, and
    the `unreachable` error of a database. Raises ConfigurationError for a target that is a source, the other target or
    of another system, or whose file cannot be written.
    """
    began = time.monotonic()
    targets = of_tracker, of_qc = Target(to_tracker, settings), Target(to_qc, settings)
    refuse_same(targets, (tracker, qc))
    source_tracker, source_qc = Target(tracker, settings), Target(qc, settings)
    source_tracker.refuse_session()
    for target in targets:
        target.refuse_others()
    refuse_filled(of_tracker, of_qc, "Name an empty database, or remove that one.")
    what = f"The databases could not be copied to the {of_tracker.label} and the {of_qc.label}"
    with disk_errors(ConfigurationError, what, _AGAIN):
        for target in targets:
            target.begin()
        try:
            with snapshot(tracker, qc, settings) as both:
                sums_of_qc = of_qc.fill(both.qc, on_progress)
                sums_of_tracker = of_tracker.fill(both.tracker, on_progress)
            source_tracker.refuse_session()
            _compare(source_qc, sums_of_qc, on_progress)
            _compare(source_tracker, sums_of_tracker, on_progress)
            with replace_both(of_tracker, of_qc):
                pass
        finally:
            for target in targets:
                target.discard()
    return MigrationReport(sums_of_tracker, sums_of_qc, time.monotonic() - began)


def _compare(source: Target, copied: Mapping[str, TableSum], on_progress: Progress) -> None:
    found = source.sums("rows of the {} compared", on_progress, sum(table.rows for table in copied.values()))
    if found != copied:
        raise CopyFailedError(
            f"The {source.label} was written to while it was copied: {', '.join(differences(found, copied))}. See that "
            "nothing works with it, then give the command again."
        )
