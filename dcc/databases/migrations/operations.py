"""What revisions do: make what is missing, so that an upgrade that broke off can be repeated."""

from __future__ import annotations

from sqlalchemy import Connection, Table, inspect
from sqlalchemy.schema import CreateTable


def make_missing(connection: Connection, tables: list[Table]) -> None:
    """Make each of `tables`, and each of their indexes, that is missing; in this order, parents before children."""
    present = set(inspect(connection).get_table_names())
    for table in tables:
        if table.name not in present:
            connection.execute(CreateTable(table))
        made = {index["name"] for index in inspect(connection).get_indexes(table.name)}
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            if index.name not in made:
                index.create(connection)


def columns_of(connection: Connection, table: str) -> set[str]:
    """The names of the columns that a table has by now."""
    return {column["name"] for column in inspect(connection).get_columns(table)}
