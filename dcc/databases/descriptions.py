"""Descriptions of tables and columns in the schema itself, from the docstrings of the models.

A table's description is its model's docstring. A column's is what that docstring says of the column in backticks, else
what it refers to, else what columns of its name mean everywhere (`column_meanings`). MySQL and MariaDB keep them as
comments; SQLite has none.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, MetaData, Table, text

from dcc.databases.column_meanings import MEANINGS
from dcc.databases.columns import TypedTable

_TABLE_LENGTH: Final = 2_000
_COLUMN_LENGTH: Final = 1_000
_SENTENCES: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")
_COMMENT: Final = re.compile(r" COMMENT '(?:[^'\\]|''|\\.)*'$")
_DEFINITION: Final = re.compile(r"^  (`(?P<name>(?:[^`]|``)+)` .*?),?$", re.MULTILINE)


def describe_tables(metadata: MetaData) -> None:
    """Give each table and column of models its description, as the comment of SQLAlchemy's objects."""
    for mapper in TypedTable.registry.mappers:
        table = mapper.local_table
        if isinstance(table, Table) and table.metadata is metadata and table.comment is None:
            sentences = [
                part
                for model in mapper.class_.__mro__
                for sentence in _sentences(model)
                for part in sentence.split("; ")
            ]
            table.comment = " ".join(_sentences(mapper.class_))[:_TABLE_LENGTH]
            for column in table.columns:
                column.comment = _meaning(column, sentences)[:_COLUMN_LENGTH] or None


def _sentences(model: type) -> list[str]:
    documented = model.__module__.startswith("dcc.") and model is not TypedTable
    words = inspect.cleandoc(model.__dict__.get("__doc__") or "") if documented else ""
    # Who reads the schema need not know which columns came later.
    return _SENTENCES.split(" ".join(words.split()).replace("Additive: ", "")) if words else []


def _meaning(column: Any, sentences: list[str]) -> str:
    own = [sentence for sentence in sentences if f"`{column.name}`" in sentence]
    if own:
        return " ".join(f"{part.rstrip('.')}." for part in own)
    targets = [key.target_fullname.partition(".")[0] for key in column.foreign_keys]
    return f"A row of {targets[0]}." if targets else MEANINGS.get(column.name, "")


def write_comments(connection: Connection, metadata: MetaData) -> None:
    """Write the descriptions into the tables of a MySQL or MariaDB database that have others or none.

    A column keeps the definition that the server says it has, whatever the models say.
    """
    if connection.dialect.name == "sqlite":
        return
    kept = _comments(connection)
    for table in metadata.sorted_tables:
        of_columns = {column.name: column.comment or "" for column in table.columns}
        if kept.get(table.name) == {"": table.comment or "", **of_columns}:
            continue
        (_, definition) = connection.exec_driver_sql(f"SHOW CREATE TABLE {table.name}").one()
        changes = [
            f"MODIFY COLUMN {_COMMENT.sub('', found[1])} COMMENT {_quoted(of_columns[found['name']])}"
            for found in _DEFINITION.finditer(definition)
            if of_columns.get(found["name"])
        ]
        changes.append(f"COMMENT = {_quoted(table.comment or '')}")
        changed = ", ".join(changes).replace("%", "%%")
        connection.exec_driver_sql(f"ALTER TABLE {table.name} {changed}")


def _comments(connection: Connection) -> dict[str, dict[str, str]]:
    """The comments of the present tables: of the table itself under "", and of its columns."""
    kept: dict[str, dict[str, str]] = {}
    for table, comment in connection.execute(text(_TABLE_COMMENTS)):
        kept[table] = {"": comment}
    for table, column, comment in connection.execute(text(_COLUMN_COMMENTS)):
        kept.setdefault(table, {})[column] = comment
    return kept


_TABLE_COMMENTS: Final = (
    "SELECT table_name, table_comment FROM information_schema.tables "
    "WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'"
)
_COLUMN_COMMENTS: Final = (
    "SELECT table_name, column_name, column_comment FROM information_schema.columns WHERE table_schema = DATABASE()"
)


def _quoted(comment: str) -> str:
    return "'" + comment.replace("\\", "\\\\").replace("'", "''") + "'"


def described(metadata: MetaData) -> Iterator[Table]:
    """The tables with their descriptions, by name."""
    describe_tables(metadata)
    yield from sorted(metadata.tables.values(), key=lambda table: table.name)
