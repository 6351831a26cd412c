"""Rows by the million into one transaction: the fastest way that each database has, in memory that does not grow.

Whoever writes gives the rows their ids. SQLite takes rows fastest from its driver, MySQL and MariaDB from
a file (LOAD DATA LOCAL INFILE); where the server allows no such file, and for few rows, from INSERT statements of many.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Table
from sqlalchemy.exc import DBAPIError

from dcc.errors import InternalFaultError
from dcc.qc.rows.types import Row, Value

__all__ = ["BulkInserter", "Row", "Value", "insert_bulk"]

_ROWS_HELD: Final = 20_000
_LOADING_OFF: Final = frozenset({1148, 2068, 3948, 4166})
_REFUSES_FILES: Final = "dcc_refuses_files"

_FEW_ROWS: Final = 100
"""How many rows at most are better inserted than loaded."""

_NULL: Final = "\\N"
"""What a line has for null."""
_AS_TEXT: Final = str(None)
_SPECIAL: Final = re.compile(r"[\\\t\n\r\0]")
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"})
_ESCAPED: Final = re.compile(r"\\(.)")
_MEANT: Final = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "\\": "\\"}


def as_lines(rows: Sequence[Row]) -> bytes:
    """The rows in UTF-8, a line each, for FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n'.

    They are of one table, so that all are as long.
    """
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


def _fields_of(values: Iterable[Value]) -> str:
    """A part of a line: values with tabs between them."""
    return "\t".join([_field(one) for one in values])


def rows_of_lines(lines: bytes) -> Iterator[tuple[str | None, ...]]:
    """The fields of each line as texts; None for nulls."""
    for line in lines.decode().split("\n")[:-1]:
        yield tuple([None if field == _NULL else _ESCAPED.sub(_meant, field) for field in line.split("\t")])


def _meant(match: re.Match[str]) -> str:
    return _MEANT[match[1]]


def _field(value: Value) -> str:
    if value is None:
        return _NULL
    if type(value) is str:
        return value.translate(_ESCAPES) if _SPECIAL.search(value) else value
    return repr(value)


class BulkInserter:
    """Takes rows and writes them in chunks, in the transaction of `connection`.

    `tables` in an order in which parents come before their children. Rows of an entity need not be added in any order,
    but `flush` must be called before they are read, and at the end. What the database refuses is raised as SQLAlchemy's
    errors, as by any statement.
    """

    def __init__(self, connection: Connection, tables: Sequence[Table]) -> None:
        self._connection = connection
        self._tables = tuple(tables)
        self._rows: dict[str, list[Row]] = {table.name: [] for table in self._tables}
        self._held = 0

    def rows_of(self, table: Table) -> list[Row]:
        """The list to which rows of a table are appended; the same one all the time."""
        return self._rows[table.name]

    def take(self, table: Table, row: Row) -> None:
        """Take a row; what is held is written when it is much, so that rows of parents have to come before."""
        self._rows[table.name].append(row)
        self._held += 1
        if self._held >= _ROWS_HELD:
            self.flush()

    def flush(self) -> None:
        """Write all rows that are held."""
        for table in self._tables:
            rows = self._rows[table.name]
            if rows:
                insert_bulk(self._connection, table, rows)
                rows.clear()
        self._held = 0


def insert_bulk(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows with all the columns of `table`, in their order, the fastest way that the database has."""
    if connection.dialect.name == "sqlite":
        _insert_bound(connection, table, rows)
    elif len(rows) > _FEW_ROWS and not connection.info.get(_REFUSES_FILES):
        _insert_lines(connection, table, as_lines(rows))
    else:
        _insert(connection, table, rows)


def _insert_bound(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows by SQLite's driver, which binds nulls as slowly as values: not those of columns that no row has."""
    columns = range(len(table.columns))
    bound = [place for place in columns if any(row[place] is not None for row in rows)]
    # Of a single column `itemgetter` makes no tuples.
    if 1 < len(bound) < len(columns):
        rows = list(map(itemgetter(*bound), rows))
    else:
        bound = list(columns)
    marks = ", ".join("?" if place in bound else "NULL" for place in columns)
    connection.exec_driver_sql(f"INSERT INTO {_name(connection, table)} VALUES ({marks})", rows)  # noqa: S608


def _insert_lines(connection: Connection, table: Table, lines: bytes) -> None:
    if not connection.info.get(_REFUSES_FILES):
        try:
            _load_file(connection, table, lines)
        except DBAPIError as error:
            # The server says so before it reads a row, and the transaction goes on.
            if error.orig is None or error.orig.args[0] not in _LOADING_OFF:
                raise
            connection.info[_REFUSES_FILES] = True
        else:
            return
    _insert(connection, table, list(rows_of_lines(lines)))


def _insert(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    marks = ", ".join(["%s"] * len(table.columns))
    statement = f"INSERT INTO {_name(connection, table)} ({_columns(connection, table)}) VALUES ({marks})"  # noqa: S608
    connection.exec_driver_sql(statement, list(rows))


def _load_file(connection: Connection, table: Table, lines: bytes) -> None:
    expected = lines.count(b"\n")
    handle, path = tempfile.mkstemp(prefix="dcc-rows-", suffix=".tsv")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(lines)
        statement = (
            f"LOAD DATA LOCAL INFILE '{_quoted(path)}' INTO TABLE {_name(connection, table)} CHARACTER SET utf8mb4 "
            "FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' "
            f"({_columns(connection, table)})"
        )
        result = connection.exec_driver_sql(statement.replace("%", "%%"))
    finally:
        Path(path).unlink(missing_ok=True)
    # With LOCAL the server only warns of what strict mode refuses elsewhere: values cut short, keys there already.
    written, warnings = result.rowcount, result.context.cursor.warning_count
    if written != expected or warnings:
        raise InternalFaultError(
            f"The database took {written} of {expected} rows of {table.name} with {warnings} warnings. "
            "Nothing of the document was kept. Report this as a fault of the platform."
        )


def _name(connection: Connection, table: Table) -> str:
    return connection.dialect.identifier_preparer.format_table(table)


def _columns(connection: Connection, table: Table) -> str:
    preparer = connection.dialect.identifier_preparer
    return ", ".join(preparer.format_column(column) for column in table.columns)


def _quoted(path: str) -> str:
    return path.replace("\\", "\\\\").replace("'", "\\'")
