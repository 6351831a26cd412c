"""Inserts millions of rows in one transaction: the fastest way of each database, in constant memory.

The caller gives the rows their ids. SQLite takes rows fastest from its driver, MySQL and MariaDB from a file (LOAD DATA
LOCAL INFILE). For few rows, and if the server permits no such file, these two take them from multi-row INSERTs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy import Connection, Table
from sqlalchemy.exc import DBAPIError

from dcc.errors import InternalFaultError
from dcc.qc.rows.lines import FORMAT, as_lines, rows_of_lines
from dcc.qc.rows.types import Row

_BYTES_HELD: Final = 8_000_000
_LOADING_OFF: Final = frozenset({1148, 2068, 3948, 4166})
_REFUSES_FILES: Final = "dcc_refuses_files"

_FEW_ROWS: Final = 100
"""The most rows that are inserted rather than loaded, and that a statement inserts."""
_BYTES_INSERTED: Final = 1_000_000
"""The most bytes that a statement inserts if they are of several rows."""


class LoadedLines(NamedTuple):
    """How lines become rows of a table, by the names of their `fields`.

    `computed` has, by column, what must be made of fields, such as `{id} + {base}`. Other fields go into the columns of
    their names; those that are no columns are left out.
    """

    table: Table
    fields: Sequence[str]
    computed: Mapping[str, str] = {}

    @property
    def direct(self) -> list[str]:
        """The fields that are columns as they are."""
        return [name for name in self.fields if name in self.table.columns and name not in self.computed]


class LineLoader:
    """Takes lines and has a server load them in chunks, in the transaction of `connection`.

    `tables` in an order in which parents come before their children. Lines of parents have to be taken before those of
    their children, and `flush` must be called before rows are read, and at the end. What the database refuses is raised
    as SQLAlchemy's errors, as by any statement.
    """

    def __init__(self, connection: Connection, tables: Sequence[LoadedLines]) -> None:
        self._connection = connection
        self._tables = tables
        self._lines: dict[str, list[bytes]] = {loaded.table.name: [] for loaded in tables}
        self._held = 0

    def take(self, table: Table, lines: bytes) -> None:
        """Take lines of a table; those held are loaded when they are many."""
        self._lines[table.name].append(lines)
        self._held += len(lines)
        if self._held >= _BYTES_HELD:
            self.flush()

    def flush(self) -> None:
        """Load all lines held."""
        for loaded in self._tables:
            lines = self._lines[loaded.table.name]
            if lines:
                _load(self._connection, loaded, b"".join(lines))
                lines.clear()
        self._held = 0


def insert_bulk(connection: Connection, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Insert rows, which have the values of these columns in this order, in the fastest way of the database."""
    if connection.dialect.name == "sqlite":
        names, marks = _columns(connection, table, columns), ", ".join("?" * len(columns))
        connection.exec_driver_sql(f"INSERT INTO {_name(connection, table)} ({names}) VALUES ({marks})", rows)  # noqa: S608
    else:
        _load(connection, LoadedLines(table, columns), as_lines(rows))


def _load(connection: Connection, lines_of: LoadedLines, lines: bytes) -> None:
    number = lines.count(b"\n")
    if number > _FEW_ROWS and not connection.info.get(_REFUSES_FILES):
        try:
            _load_file(connection, lines_of, lines, number)
        except DBAPIError as error:
            # The server reports this before it reads a row, and the transaction goes on.
            if error.orig is None or error.orig.args[0] not in _LOADING_OFF:
                raise
            connection.info[_REFUSES_FILES] = True
        else:
            return
    _insert(connection, lines_of, lines)


def _insert(connection: Connection, lines_of: LoadedLines, lines: bytes) -> None:
    """Insert what lines say by statements of many rows: of computed values, the driver would make one for each row."""
    table, fields, computed = lines_of
    values = [*computed.values(), *(f"{{{name}}}" for name in lines_of.direct)]
    columns = _columns(connection, table, [*computed, *lines_of.direct])
    for some in _portions(lines):
        rows: list[str] = []
        given: dict[str, object] = {}
        for number, row in enumerate(rows_of_lines(some)):
            names = {name: f"{name}_{number}" for name in fields}
            spelt = {name: f"%({one})s" for name, one in names.items()}
            rows.append(f"({', '.join(value.format_map(spelt) for value in values)})")
            given.update(zip(names.values(), row, strict=True))
        statement = f"INSERT INTO {_name(connection, table)} ({columns}) VALUES {', '.join(rows)}"  # noqa: S608
        connection.exec_driver_sql(statement, given)


def _portions(lines: bytes) -> Iterator[bytes]:
    """Lines that one statement inserts, by their number and length."""
    held: list[bytes] = []
    length = 0
    for line in lines.splitlines(keepends=True):
        if held and (len(held) == _FEW_ROWS or length + len(line) > _BYTES_INSERTED):
            yield b"".join(held)
            held, length = [], 0
        held.append(line)
        length += len(line)
    yield b"".join(held)


def _load_file(connection: Connection, lines_of: LoadedLines, lines: bytes, expected: int) -> None:
    table, fields, computed = lines_of
    direct = set(lines_of.direct)
    variables = {name: f"@{name}" for name in fields}
    read = ", ".join(_columns(connection, table, [name]) if name in direct else variables[name] for name in fields)
    assignments = [
        f"{_columns(connection, table, [name])} = {one.format_map(variables)}" for name, one in computed.items()
    ]
    handle, path = tempfile.mkstemp(prefix="dcc-rows-", suffix=".tsv")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(lines)
        statement = (
            f"LOAD DATA LOCAL INFILE '{_quoted(path)}' INTO TABLE {_name(connection, table)} CHARACTER SET utf8mb4 "
            f"{FORMAT} ({read}){' SET ' if assignments else ''}{', '.join(assignments)}"
        )
        result = connection.exec_driver_sql(statement.replace("%", "%%"))
    finally:
        Path(path).unlink(missing_ok=True)
    # With LOCAL the server only warns of what strict mode refuses otherwise: truncated values, existing keys.
    written, warnings = result.rowcount, result.context.cursor.warning_count
    if written != expected or warnings:
        raise InternalFaultError(
            f"The database took {written} of {expected} rows of {table.name} with {warnings} warnings. "
            "Nothing of the document was kept. Report this as a fault of the platform."
        )


def _name(connection: Connection, table: Table) -> str:
    return connection.dialect.identifier_preparer.format_table(table)


def _columns(connection: Connection, table: Table, names: Sequence[str]) -> str:
    preparer = connection.dialect.identifier_preparer
    return ", ".join(preparer.format_column(table.columns[name]) for name in names)


def _quoted(path: str) -> str:
    return path.replace("\\", "\\\\").replace("'", "\\'")
