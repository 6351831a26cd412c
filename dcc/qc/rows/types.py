"""The types of rows, and the limits of their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

Value: TypeAlias = str | int | float | None
Row: TypeAlias = tuple[Value, ...]
"""A row's values in the order of the table's columns; booleans as 0 and 1, dates as ISO text."""
Tables: TypeAlias = Mapping[str, list[Row]]
"""The lists to which rows are appended, by the tables' names."""
NewIds: TypeAlias = Mapping[str, Callable[[], int]]
"""By the tables' names, functions that return the next id at each call."""
Limits: TypeAlias = Mapping[str, tuple[tuple[int, int, str], ...]]
"""By table, of each text: its index in a row, the characters that its column holds, and the column's name."""


class TooLong(NamedTuple):
    """A text that its column cannot hold."""

    column: str
    length: int
    limit: int


def first_too_long(table: str, limits: Limits, rows: Iterable[Row]) -> TooLong | None:
    """The first text in rows of a table that its column cannot hold."""
    for row in rows:
        for place, limit, name in limits[table]:
            value = row[place]
            if value is not None and len(value) > limit:  # type: ignore[arg-type]
                return TooLong(f"{table}.{name}", len(value), limit)  # type: ignore[arg-type]
    return None
