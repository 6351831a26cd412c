"""Reads rows of numbers and texts from a server as texts of hundreds of rows.

The driver of MySQL and MariaDB is written in Python, and takes 10 to 20 µs for each row. The server makes a text of all
rows in a tenth of that. SQLite yields its rows directly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Integer, Select, String, func, select

from dcc.databases.list_parameters import all_of

_STATEMENTS: Final = 100
"""The size of the statement cache; the modules that use this have two dozen statements."""
_NEIGHBOURS: Final = 500
"""The most rows in a text: far less than a server cuts off."""


def rows_of(connection: Connection, query: Select[*tuple[Any, ...]], given: Mapping[str, object]) -> Iterable[Any]:
    """The rows of a query as lists, in any order; its columns are all whole numbers or texts.

    The query is a constant of its module and should yield a few hundred rows. The server cuts off the text of many
    more, and they are read a second time.
    """
    return _rows(connection, query, given, many=False)


def many_rows_of(connection: Connection, query: Select[*tuple[Any, ...]]) -> Iterable[Any]:
    """As `rows_of`, for any number of rows, whose first column is an id."""
    return _rows(connection, query, {}, many=True)


def _rows(
    connection: Connection, query: Select[*tuple[Any, ...]], given: Mapping[str, object], *, many: bool
) -> Iterable[Any]:
    found: Iterable[Any] | None = None
    if connection.dialect.name != "sqlite":
        found = rows_in(connection.execute(_as_texts(query, many), given).all())
    # Without the names of columns on every server.
    return map(list, connection.execute(query, given)) if found is None else found


def as_text(columns: Iterable[ColumnElement[Any]]) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """The columns that return a group's rows as one text: their number, and the text."""
    return func.count(), func.group_concat(func.json_array(*columns))


def rows_in(texts: Iterable[Sequence[Any]]) -> list[list[Any]] | None:
    """The rows in the columns of `as_text`; None if the server cut the text off."""
    found: list[list[Any]] = []
    for count, text in texts:
        rows = all_of(text, count)
        if rows is None:
            return None
        found += rows
    return found


@lru_cache(maxsize=_STATEMENTS)
def _as_texts(query: Select[*tuple[Any, ...]], many: bool) -> Select[Any, Any]:
    """The number of a query's rows and all of them as one text; with `many`, for each so many ids."""
    each = query.order_by(None).subquery().c
    other = [column.name for column in each if not isinstance(column.type, Integer | String)]
    if other:
        raise TypeError(f"Rows with {', '.join(other)} do not come as a text: only numbers and texts do.")
    texts = select(*as_text(each))
    return texts.group_by(each[0] // _NEIGHBOURS) if many else texts
