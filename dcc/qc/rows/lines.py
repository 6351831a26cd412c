"""Rows as lines of text, as MySQL and MariaDB load them from a file; nothing here knows a database.

What separates fields and ends lines is escaped within values, so that a line ends where a newline is and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from dcc.qc.rows.types import Row, Value

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
