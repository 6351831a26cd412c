"""Inserts millions of rows in one transaction: the fastest way of each database, in constant memory.

The caller gives the rows their ids. SQLite takes rows fastest from its driver, MySQL and MariaDB from a file (LOAD DATA
LOCAL INFILE). For few rows, and if the server permits no such file, these two take them from multi-row INSERTs.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Table
from sqlalchemy.exc import DBAPIError

from dcc.errors import InternalFaultError
from dcc.qc.rows.types import Row, Value

_BYTES_HELD: Final = 8_000_000
_ROWS_READ: Final = 200
_LOADING_OFF: Final = frozenset({1148, 2068, 3948, 4166})
_REFUSES_FILES: Final = "dcc_refuses_files"

_FEW_ROWS: Final = 100
"""The most rows that are inserted rather than loaded."""

_FORMAT: Final = "FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n'"
"""What LOAD DATA needs to know of lines. What separates fields and ends lines is escaped within values."""
_NULL: Final = "\\N"
"""What a line has for null."""
_AS_TEXT: Final = str(None)
_SPECIAL: Final = re.compile(r"[\\\t\n\r\0]")
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"})
_ESCAPED: Final = re.compile(r"\\(.)")
_MEANT: Final = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "\\": "\\"}


class RowLoader:
    """Takes rows and has a server load them in chunks, in the transaction of `connection`.

    `tables` in an order in which parents come before their children. Rows of parents have to be taken before those of
    their children, and `flush` must be called before rows are read, and at the end. What the database refuses is raised
    as SQLAlchemy's errors, as by any statement.
    """

    def __init__(self, connection: Connection, tables: Sequence[Table]) -> None:
        self._connection = connection
        self._lines: dict[Table, list[bytes]] = {table: [] for table in tables}
        self._held = 0

    def take(self, table: Table, rows: Iterator[Row]) -> None:
        """Take rows of a table, with all its columns in their order; those held are loaded when they are many."""
        while some := list(islice(rows, _ROWS_READ)):
            lines = as_lines(some)
            self._lines[table].append(lines)
            self._held += len(lines)
            if self._held >= _BYTES_HELD:
                self.flush()

    def flush(self) -> None:
        """Load all rows held."""
        for table, lines in self._lines.items():
            if lines:
                _load(self._connection, table, b"".join(lines))
                lines.clear()
        self._held = 0


def insert_bulk(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows with all the columns of `table`, in their order, in the fastest way of the database."""
    if connection.dialect.name == "sqlite":
        _insert(connection, table, "?", rows)
    else:
        _load(connection, table, as_lines(rows))


def _load(connection: Connection, table: Table, lines: bytes) -> None:
    number = lines.count(b"\n")
    if number > _FEW_ROWS and not connection.info.get(_REFUSES_FILES):
        try:
            _load_file(connection, table, lines, number)
        except DBAPIError as error:
            # The server reports this before it reads a row, and the transaction goes on.
            if error.orig is None or error.orig.args[0] not in _LOADING_OFF:
                raise
            connection.info[_REFUSES_FILES] = True
        else:
            return
    _insert(connection, table, "%s", list(rows_of_lines(lines)))


def _insert(connection: Connection, table: Table, mark: str, rows: Sequence[Row]) -> None:
    """Insert rows by the driver, which makes statements of many rows for a server."""
    marks = ", ".join([mark] * len(table.columns))
    statement = f"INSERT INTO {_name(connection, table)} ({_columns(connection, table)}) VALUES ({marks})"  # noqa: S608
    connection.exec_driver_sql(statement, rows)


def _load_file(connection: Connection, table: Table, lines: bytes, expected: int) -> None:
    handle, path = tempfile.mkstemp(prefix="dcc-rows-", suffix=".tsv")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(lines)
        statement = (
            f"LOAD DATA LOCAL INFILE '{_quoted(path)}' INTO TABLE {_name(connection, table)} CHARACTER SET utf8mb4 "
            f"{_FORMAT} ({_columns(connection, table)})"
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


def _columns(connection: Connection, table: Table) -> str:
    return ", ".join(map(connection.dialect.identifier_preparer.format_column, table.columns))


def _quoted(path: str) -> str:
    return path.replace("\\", "\\\\").replace("'", "\\'")


def as_lines(rows: Sequence[Row]) -> bytes:
    """The rows in UTF-8, a line each. They are of one table, so that all are as long."""
    if not rows:
        return b""
    fields = len(rows[0])
    line = "\t".join(["%s"] * fields) + "\n"
    text = "".join([line % row for row in rows])
    # Rows that hold nothing special are told by what there is of tabs, ends of lines and nulls, and nothing else.
    plain = (
        text.count("\n") == len(rows)
        and text.count("\t") == (fields - 1) * len(rows)
        and text.count(_AS_TEXT) == sum([row.count(None) for row in rows])
        and "\\" not in text
        and "\r" not in text
        and "\0" not in text
    )
    if plain:
        return text.replace(_AS_TEXT, _NULL).encode()
    return "".join([_fields_of(row) + "\n" for row in rows]).encode()


def rows_of_lines(lines: bytes) -> Iterator[tuple[str | None, ...]]:
    """The fields of each line as texts; None for nulls."""
    for line in lines.decode().split("\n")[:-1]:
        yield tuple(
            [
                None if field == _NULL else _ESCAPED.sub(lambda match: _MEANT[match[1]], field)
                for field in line.split("\t")
            ]
        )


def _fields_of(values: Iterable[Value]) -> str:
    """A part of a line: values with tabs between them."""
    return "\t".join([_field(value) for value in values])


def _field(value: Value) -> str:
    if value is None:
        return _NULL
    if type(value) is str:
        return value.translate(_ESCAPES) if _SPECIAL.search(value) else value
    return repr(value)
