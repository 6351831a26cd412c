"""Databases with their schema in place, made once a test process and handed from test to test.

On SQLite a test gets a copy of a file. On MariaDB it gets a database that an earlier test had, with its rows as they
were at first; one that cannot be brought back to that, because a test changed its schema or left locks in it, is
dropped. The schema is compared only where the server has meanwhile changed one: to ask for all columns and indexes
takes longer than many tests.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pymysql
from sqlalchemy import Engine

from tests.support.asking import closing_all

_LOCK_SECONDS = 3
_SCHEMA = (
    "SELECT table_name, column_name, column_type FROM information_schema.columns WHERE table_schema = DATABASE() "
    "ORDER BY table_name, column_name"
)
_INDEXES = (
    "SELECT table_name, index_name, column_name FROM information_schema.statistics WHERE table_schema = DATABASE() "
    "ORDER BY table_name, index_name, column_name"
)
_TABLES = (
    "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'"
)
_SCHEMA_CHANGES = (
    "SHOW GLOBAL STATUS WHERE variable_name IN ('Com_alter_table', 'Com_create_index', 'Com_create_table', "
    "'Com_create_view', 'Com_drop_index', 'Com_drop_table', 'Com_drop_view', 'Com_rename_table')"
)
Rows = tuple[tuple[Any, ...], ...]


@dataclass
class PreparedFile:
    """A SQLite database that is made by `make`, which gets its URL, on first use."""

    folder: Path
    make: Callable[[str], None]
    _made: bool = False

    def copy_to(self, path: Path) -> None:
        """Put a copy of it at `path`."""
        original = self.folder / "original.db"
        if not self._made:
            self.make(f"sqlite:///{original}")
            self._made = True
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.copy(original, path)


@dataclass
class PreparedDatabases:
    """MariaDB databases that are made by `make`, which gets their URL; `connect` opens one by its name."""

    prefix: str
    url: Callable[[str], str]
    make: Callable[[str], None]
    connect: Callable[[str | None], pymysql.Connection[Any]]
    _free: list[str] = field(default_factory=list)
    _schema: tuple[Rows, Rows] | None = None
    _rows: dict[str, Rows] = field(default_factory=dict)
    _checksums: Rows = ()

    @contextmanager
    def lend(self) -> Iterator[str]:
        """The URL of one, for as long as the block lasts."""
        name = self._free.pop() if self._free else self._new()
        with self.connect(None) as connection, connection.cursor() as cursor:
            before = _schema_changes(cursor)
        try:
            yield self.url(name)
        finally:
            if self._restored(name, before):
                self._free.append(name)
            else:
                self._drop(name)

    def _new(self) -> str:
        name = f"{self.prefix}_{uuid4().hex[:12]}"
        self.make(self.url(name))
        if self._schema is None:
            with self.connect(name) as connection, connection.cursor() as cursor:
                self._schema = _schema_of(cursor)
                self._rows = {table: rows for table in _tables_of(cursor) if (rows := _rows_of(cursor, table))}
                self._checksums = self._checksums_of(cursor)
        return name

    def _restored(self, name: str, before: Rows) -> bool:
        try:
            with self.connect(name) as connection, connection.cursor() as cursor:
                cursor.execute(f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}, foreign_key_checks = 0")
                # A server that was started meanwhile has counted anew.
                if _schema_changes(cursor) != before and _schema_of(cursor) != self._schema:
                    return False
                self._restore_rows(cursor)
                connection.commit()
        except pymysql.MySQLError:
            return False
        return True

    def _restore_rows(self, cursor: Any) -> None:
        tables = _tables_of(cursor)
        cursor.execute(
            " UNION ALL ".join(f"SELECT '{name}' FROM DUAL WHERE EXISTS (SELECT 1 FROM `{name}`)" for name in tables)
        )
        filled = {row[0] for row in cursor.fetchall()}
        # Whoever still has a lock on one of these is in the way of this.
        cursor.execute(f"LOCK TABLES {', '.join(f'`{table}` WRITE' for table in self._rows)}")
        cursor.execute("UNLOCK TABLES")
        sums = zip(self._rows, self._checksums_of(cursor), self._checksums, strict=True)
        changed = {table for table, (_, now), (_, then) in sums if now != then}
        for table in changed | (filled - set(self._rows)):
            cursor.execute(f"TRUNCATE TABLE `{table}`")
            rows = self._rows.get(table, ())
            if rows:
                places = ", ".join(["%s"] * len(rows[0]))
                cursor.executemany(f"INSERT INTO `{table}` VALUES ({places})", rows)

    def _checksums_of(self, cursor: Any) -> Rows:
        cursor.execute(f"CHECKSUM TABLE {', '.join(f'`{table}`' for table in self._rows)}")
        rows: Rows = cursor.fetchall()
        return rows

    def _drop(self, name: str) -> None:
        with self.connect(None) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")


def maker(open_engine: Callable[[str], Engine], init: Callable[[Engine], object]) -> Callable[[str], None]:
    """What makes a database by its URL."""

    def make(url: str) -> None:
        with closing_all(open_engine(url)) as engine:
            init(engine)

    return make


def _schema_of(cursor: Any) -> tuple[Rows, Rows]:
    cursor.execute(_SCHEMA)
    columns = cursor.fetchall()
    cursor.execute(_INDEXES)
    return columns, cursor.fetchall()


def _schema_changes(cursor: Any) -> Rows:
    """How often the server has changed the schema of any database since it was started."""
    cursor.execute(_SCHEMA_CHANGES)
    counted: Rows = cursor.fetchall()
    return counted


def _tables_of(cursor: Any) -> list[str]:
    cursor.execute(_TABLES)
    return [row[0] for row in cursor.fetchall()]


def _rows_of(cursor: Any, table: str) -> Rows:
    cursor.execute(f"SELECT * FROM `{table}`")
    rows: Rows = cursor.fetchall()
    return rows
