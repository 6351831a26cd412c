"""Measurements as rows.

Most of a document is measurements, and many of these are largely alike: common parts are processed once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, TypeAlias
from zlib import crc32

from dcc.documents import contents
from dcc.documents.lexical import parse_number
from dcc.qc.rows.types import Limits, NewIds, Row, Tables, Texts, TooLong, Value, too_long_text
from dcc.vocabulary import MeasurementType

MEASURED: Final = (
    "id",
    "procedure_run_id",
    "position",
    "item",
    "type",
    "parameter_id",
    "sequence_id",
    "increment",
    "increment_status",
    "value",
    "number",
    "unit",
    "status",
    "line",
    "fingerprint",
)
"""The columns of a row, in its order."""
OF_RUN: Final = (
    "document_id",
    "procedure_id",
    "centre",
    "pipeline",
    "project",
    "experiment_id",
    "date",
    "specimen_id",
)
"""The further columns of measurements, equal within a procedure: they are in the row of that."""

_SIMPLE: Final = MeasurementType.SIMPLE.value
_ONTOLOGY: Final = MeasurementType.ONTOLOGY.value
_SERIES: Final = MeasurementType.SERIES.value

_HEAD: Final = ("type", "parameter_id", "sequence_id", "increment", "increment_status", "unit", "status")
_Head: TypeAlias = tuple[str, str, str | None, str | None, str | None, str | None, str | None]
"""What a measurement says in the columns `_HEAD`: many say the same."""
_Measured: TypeAlias = tuple[int, int | None, _Head, str | None, int]
"""The position of a parameter in its procedure; the position of a value in that, if any; head, value and line."""

_NOTHING: Final = "\x1e"
_PRIME: Final = 4_294_967_291
"""CRC-32s that differ in the same bits may have the same sum, as those of swapped values; their squares have not."""
_MAX_HEADS: Final = 5_000


class MeasurementRows:
    """Makes the rows of a document's measurements.

    `too_long` is the first text of the last addition that no column holds. `held_text` counts the characters of values
    and terms.
    """

    def __init__(self, new_ids: NewIds, tables: Tables, limits: Limits) -> None:
        self._new_id = new_ids["measurement"]
        self._rows = tables["measurement"]
        self._heads = _heads_by(limits["measurement"])
        self.too_long: TooLong | None = None
        self.held_text = 0

    def add(self, run_id: int, procedure: contents.Procedure, tail: Row) -> None:
        """Add the measurements of a procedure, a row for each value or term; `tail` is what each repeats of its run.

        That part is only in their fingerprints: the rows lack it.
        """
        found = _measured_in(procedure)
        self._heads.bound()
        # What measurements repeat of their run begins their fingerprints.
        self._add_rows(run_id, found, crc32("\x1f".join(map(str, tail)).encode()))
        self.too_long = self._heads.first_too_long(found)
        self.held_text += sum([len(value) for _, _, _, value, _ in found if value])

    def _add_rows(self, run_id: int, found: list[_Measured], start: int) -> None:
        new_id, append, heads = self._new_id, self._rows.append, self._heads
        for place, item, head, value, line in found:
            before, after = heads[head]
            mark = crc32(f"{before}{_NOTHING if value is None else value}{after}".encode(), start)
            kind, name, sequence, increment, increment_status, unit, status = head
            number = None if value is None else parse_number(value)
            # In the order of MEASURED: to look for names would slow down every measurement.
            append((new_id(), run_id, place, item, kind, name, sequence, increment, increment_status,
                    value, number, unit, status, line, mark * mark % _PRIME))  # fmt: skip


def _measured_in(procedure: contents.Procedure) -> list[_Measured]:
    found: list[_Measured] = [
        (place, None if value is None else 1, (_SIMPLE, name, sequence, None, None, unit, status), value, line)
        for place, (line, name, sequence, unit, value, status) in enumerate(procedure.simple, start=1)
    ]
    done = len(procedure.simple)
    for place, (line, name, sequence, terms, status) in enumerate(procedure.ontology, start=done + 1):
        head = (_ONTOLOGY, name, sequence, None, None, None, status)
        found += [(place, item, head, term, line) for item, term in enumerate(terms, start=1)]
    done += len(procedure.ontology)
    for place, (first_line, name, sequence, unit, values, status) in enumerate(procedure.series, start=done + 1):
        found += [
            (place, item, (_SERIES, name, sequence, increment, increment_status, unit, status), value, line)
            for item, (line, increment, increment_status, value) in enumerate(values, start=1)
        ]
        if not values:
            found.append((place, None, (_SERIES, name, sequence, None, None, unit, status), None, first_line))
    return found


class _Heads(dict[_Head, tuple[str, str]]):
    """The parts of heads in fingerprints before the value and after it, by head."""

    def __init__(self, texts: Texts) -> None:
        super().__init__()
        self._texts = texts
        self._too_long: dict[_Head, TooLong] = {}

    def __missing__(self, head: _Head) -> tuple[str, str]:
        _, *named, unit, status = head
        before = [_NOTHING if text is None else text for text in (*named, "")]
        after = [_NOTHING if text is None else text for text in ("", unit, status)]
        self[head] = constant = ("\x1f".join(before), "\x1f".join(after))
        row: dict[str, Value] = {**dict.fromkeys(MEASURED), **dict(zip(_HEAD, head, strict=True))}
        too_long = too_long_text([tuple(row.values())], self._texts)
        if too_long is not None:
            self._too_long[head] = too_long
        return constant

    def first_too_long(self, found: list[_Measured]) -> TooLong | None:
        if not self._too_long:
            return None
        return next((self._too_long[head] for _, _, head, _, _ in found if head in self._too_long), None)

    def bound(self) -> None:
        if len(self) > _MAX_HEADS:
            self.clear()
            self._too_long.clear()


_heads_by = lru_cache(maxsize=2)(_Heads)
"""Shared by documents that are checked alike."""
