"""Rows as the lines that LOAD DATA reads, with tabs between fields, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from dcc_resources.qc_database.procedure_rows import Row, Value

FEW_ROWS: Final = 100
"""How many rows at most are better inserted than loaded."""

_NULL: Final = "\\N"
_SPECIAL: Final = re.compile(r"[\\\t\n\r\0]")
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"})
_ESCAPED: Final = re.compile(r"\\(.)")
_MEANT: Final = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "\\": "\\"}


def as_lines(rows: Iterable[Row]) -> bytes:
    """The rows in UTF-8, a line each, for FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n'."""
    lines = []
    for row in rows:
        fields = [_NULL if one is None else one if type(one) is str else repr(one) for one in row]
        # Most rows hold nothing special, and one search is then enough; that of a null is the first to be found.
        line = "\t".join(fields)
        if line.count("\t") != len(row) - 1 or line.count("\\") != row.count(None) or _BREAKS(line):
            line = "\t".join([_field(one) for one in row])
        lines.append(line)
    lines.append("")
    return "\n".join(lines).encode()


def rows_of_lines(lines: bytes) -> Iterator[tuple[str | None, ...]]:
    """The fields of each line as texts; None for nulls."""
    for line in lines.decode().split("\n")[:-1]:
        yield tuple([None if field == _NULL else _ESCAPED.sub(_meant, field) for field in line.split("\t")])


_BREAKS = re.compile(r"[\n\r\0]").search


def _meant(match: re.Match[str]) -> str:
    return _MEANT[match[1]]


def _field(value: Value) -> str:
    if value is None:
        return _NULL
    if type(value) is str:
        return value.translate(_ESCAPES) if _SPECIAL.search(value) else value
    return repr(value)
