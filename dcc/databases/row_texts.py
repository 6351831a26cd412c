"""Reads rows of numbers and texts from a server as texts of hundreds of rows.

The driver of MySQL and MariaDB is written in Python, and takes 10 to 20 µs for each row; the server makes a text of all
of them in a tenth of that. SQLite yields its rows at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Integer, Select, String, func, select

from dcc.databases.list_parameters import all_of

_STATEMENTS: Final = 100
"""How many statements are kept as they ask for texts; the modules that use this have two dozen."""
_NEIGHBOURS: Final = 500
"""How many rows come in a text, at most, if there are many: far less than a server cuts off."""


def rows_of(connection: Connection, query: Select[*tuple[Any, ...]], given: Mapping[str, object]) -> Iterable[Any]:
    """The rows of a query, in any order, whose columns are all numbers without a fraction, or texts.

    The query is a constant of its module; it is to yield a few hundred rows, because of more a server cuts off the
    text, and they are asked for a second time.
    """
    return _rows(connection, query, given, many=False)


def many_rows_of(connection: Connection, query: Select[*tuple[Any, ...]]) -> Iterable[Any]:
    """As `rows_of`, any number of rows, the first column of which is an id."""
    return _rows(connection, query, {}, many=True)


def _rows(
    connection: Connection, query: Select[*tuple[Any, ...]], given: Mapping[str, object], *, many: bool
) -> Iterable[Any]:
    if connection.dialect.name == "sqlite":
        return connection.execute(query, given)
    found = rows_in(connection.execute(_as_texts(query, many), given).all())
    return connection.execute(query, given) if found is None else found


def as_text(columns: Iterable[ColumnElement[Any]]) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """What a statement asks for to have all rows of a group as one text: how many there are, and the text."""
    return func.count(), func.group_concat(func.json_array(*columns))


def rows_in(texts: Iterable[Sequence[Any]]) -> list[list[Any]] | None:
    """The rows in what was asked for by `as_text`; None where a server cut a text off."""
    found: list[list[Any]] = []
    for count, text in texts:
        rows = all_of(text, count)
        if rows is None:
            return None
        found += rows
    return found


@lru_cache(maxsize=_STATEMENTS)
def _as_texts(query: Select[*tuple[Any, ...]], many: bool) -> Select[Any, Any]:
    """How many rows a query has, and all of them as one text; of `many` for each so many ids."""
    each = query.order_by(None).subquery().c
    other = [column.name for column in each if not isinstance(column.type, Integer | String)]
    if other:
        raise TypeError(f"Rows with {', '.join(other)} do not come as a text: only numbers and texts do.")
    texts = select(*as_text(each))
    return texts.group_by(each[0] // _NEIGHBOURS) if many else texts
