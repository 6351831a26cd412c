"""The types of rows, the limits of their columns, rows as lines, and the keys of entities.

MySQL and MariaDB load lines of text from a file. What separates fields and ends lines is escaped within values, so that
a line ends where a newline is and nowhere else.

A key identifies an entity among all of its kind: a specimen by its centre and specimenID; an experiment by its centre,
procedure, experimentID and sequenceID (rule E9). A line by its centre, procedure, colony and sequenceID; a housing by
its centre, pipeline, procedure, fromLIMS and lastUpdated. Keys are tuples, never joined texts; texts are compared
exactly.

Uses no database, like `dcc.qc.rows.building`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from dcc.documents import contents
from dcc.documents.lexical import parse_boolean, parse_date

Value: TypeAlias = str | int | float | None
Row: TypeAlias = tuple[Value, ...]
"""A row's values in the order of the table's columns; booleans as 0 and 1, dates as ISO text."""
Tables: TypeAlias = Mapping[str, list[Row]]
"""The lists to which rows are appended, by the tables' names."""
NewIds: TypeAlias = Mapping[str, Callable[[], int]]
"""By the tables' names, functions that return the next id at each call."""
Limits: TypeAlias = Mapping[str, tuple[tuple[int, int, str], ...]]
"""By table, of each text: its index in a row, the characters that its column holds, and the column's name."""

_MANY: Final = 3
"""Number of rows from which on it pays to check whether their texts are known."""
_MAX_KNOWN: Final = 1_000


class TooLong(NamedTuple):
    """A text that its column cannot hold."""

    column: str
    length: int
    limit: int


def checks_by(limits: Limits) -> Mapping[str, LengthCheck]:
    """The length checks of each table's rows; equal limits share checks, which remember fitting texts."""
    return _checks(tuple(limits.items()))


@lru_cache(maxsize=4)
def _checks(limits: tuple[tuple[str, tuple[tuple[int, int, str], ...]], ...]) -> Mapping[str, LengthCheck]:
    return {table: LengthCheck(table, texts) for table, texts in limits}


class LengthCheck:
    """Finds the first text in a table's rows that its column cannot hold. Rows often have the same texts."""

    def __init__(self, table: str, limits: tuple[tuple[int, int, str], ...]) -> None:
        self._table = table
        self._limits = limits
        places = [place for place, _, _ in self._limits]
        self._texts_of: Callable[[Row], Any] | None = itemgetter(*places) if places else None
        self._known_to_fit: set[object] = set()

    def of_rows(self, rows: Sequence[Row]) -> TooLong | None:
        """The first text that is too long in any of the rows."""
        if self._texts_of is None:
            return None
        texts = set(map(self._texts_of, rows)) if len(rows) >= _MANY else set()
        if texts and texts <= self._known_to_fit:
            return None
        for row in rows:
            if too_long := self.of_row(row):
                return too_long
        if len(self._known_to_fit) > _MAX_KNOWN:
            self._known_to_fit.clear()
        self._known_to_fit |= texts
        return None

    def of_row(self, row: Row) -> TooLong | None:
        """A text that is too long in a row."""
        for place, limit, name in self._limits:
            value = row[place]
            if value is not None and len(value) > limit:  # type: ignore[arg-type]
                return TooLong(f"{self._table}.{name}", len(value), limit)  # type: ignore[arg-type]
        return None


Key = tuple[str | bool | None, ...]


def entity_key_of(block: contents.Block, entity: contents.Entity) -> Key:
    """The key of an entity in a block."""
    if isinstance(entity, contents.Specimen):
        return (block.centre, entity.specimen_id)
    procedure_id = entity.procedure.procedure_id if entity.procedure else None
    if isinstance(entity, contents.Experiment):
        return (block.centre, entity.experiment_id, entity.sequence_id, procedure_id)
    if isinstance(entity, contents.Line):
        return (block.centre, entity.colony_id, entity.sequence_id, procedure_id)
    day = parse_date(entity.last_updated) if entity.last_updated else None
    # A day outside of databases' calendars is kept as its text.
    updated = iso_day(day) or entity.last_updated
    return (block.centre, procedure_id, block.pipeline, parse_boolean(entity.from_lims), updated)


def iso_day(day: date | None) -> str | None:
    """A day in a key."""
    return None if day is None else day.isoformat()


FORMAT: Final = "FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n'"
"""What LOAD DATA needs to know of lines."""

_NULL: Final = "\\N"
"""What a line has for null."""
_AS_TEXT: Final = str(None)
_SPECIAL: Final = re.compile(r"[\\\t\n\r\0]")
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"})
_ESCAPED: Final = re.compile(r"\\(.)")
_MEANT: Final = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "\\": "\\"}


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


def with_fields(lines: bytes, fields: Iterable[Value]) -> bytes:
    """Lines with further fields at the end of each, the same in all."""
    return lines.replace(b"\n", f"\t{_fields_of(fields)}\n".encode())


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
