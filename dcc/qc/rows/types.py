"""The types of rows, and the limits of their columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

Value: TypeAlias = str | int | float | None
Row: TypeAlias = tuple[Value, ...]
"""A row's values in the order of the table's columns; booleans as 0 and 1, dates as ISO text."""
Tables: TypeAlias = Mapping[str, list[Row]]
"""The lists to which rows are appended, by the tables' names."""
NewIds: TypeAlias = Mapping[str, Callable[[], int]]
"""By the tables' names, functions that return the next id at each call."""
Texts: TypeAlias = tuple[tuple[int, int, str], ...]
"""Of each text of a table: its index in a row, the characters that its column holds, and its name in documents."""
Limits: TypeAlias = Mapping[str, Texts]
"""The texts of each table."""


class TooLong(NamedTuple):
    """A text that its column cannot hold; `name` is that of its attribute or element in the document."""

    name: str
    length: int
    limit: int


class NamedRows:
    """Makes rows of elements by the names of columns, in the order of each table's `columns`."""

    def __init__(self, columns: Mapping[str, Sequence[str]]) -> None:
        self._columns = columns
        self._in_order: dict[tuple[Any, ...], Callable[[Sequence[Any]], Row]] = {}

    def row(self, table: str, element: tuple[Any, ...], **given: Value) -> Row:
        """The row of an element, a named tuple: the values given, the others from its fields of the columns' names.

        Raises KeyError for a column without a value, and for a value without a column.
        """
        made_of = (table, type(element), *given)
        in_order = self._in_order.get(made_of) or self.in_order(table, type(element), *given)
        return in_order((*element, *given.values()))

    def in_order(self, table: str, kind: type[tuple[Any, ...]], *given: str) -> Callable[[Sequence[Any]], Row]:
        """For many rows: what makes them of the fields of an element of a kind, followed by the values given.

        Raises KeyError as `row`.
        """
        made_of = (table, kind, *given)
        if made_of not in self._in_order:
            if unknown := set(given).difference(self._columns[table]):
                raise KeyError(f"{table} has no columns {unknown}")
            places = {name: place for place, name in enumerate((*kind._fields, *given))}  # type: ignore[attr-defined]
            self._in_order[made_of] = itemgetter(*[places[name] for name in self._columns[table]])
        return self._in_order[made_of]


def too_long_text(rows: Iterable[Row], texts: Texts) -> TooLong | None:
    """The first text in a table's rows that its column cannot hold."""
    for row in rows:
        for place, limit, name in texts:
            text = row[place]
            if isinstance(text, str) and len(text) > limit:
                if name == "lexical":
                    name = max(json.loads(text).items(), key=lambda written: len(written[1]))[0]
                return TooLong(name, len(text), limit)
    return None
