"""Some hundred rows of numbers and texts, read from a server as one text.

The driver of MySQL and MariaDB is written in Python, and takes 10 to 20 µs for each row; the server makes a text of all
of them in a tenth of that. SQLite yields its rows at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, Integer, Select, String, func, select

from dcc_resources.databases.number_lists import all_of

_STATEMENTS: Final = 100
"""How many statements are kept as they ask for a text; the modules that use this have a dozen."""


def rows_of(connection: Connection, query: Select[*tuple[Any, ...]], given: Mapping[str, object]) -> Sequence[Any]:
    """The rows of a query, in any order, whose columns are all numbers without a fraction, or texts.

    The query is a constant of its module; it is to yield a few hundred rows, because of more a server cuts off the
    text, and they are asked for a second time.
    """
    if connection.dialect.name == "sqlite":
        return connection.execute(query, given).all()
    count, text = connection.execute(_as_text(query), given).one()
    found = all_of(text, count)
    return connection.execute(query, given).all() if found is None else found


@lru_cache(maxsize=_STATEMENTS)
def _as_text(query: Select[*tuple[Any, ...]]) -> Select[int, str]:
    """How many rows a query has, and all of them as one text."""
    each = query.order_by(None).subquery().c
    other = [column.name for column in each if not isinstance(column.type, Integer | String)]
    if other:
        raise TypeError(f"Rows with {', '.join(other)} do not come as a text: only numbers and texts do.")
    return select(func.count(), func.group_concat(func.json_array(*each)))
