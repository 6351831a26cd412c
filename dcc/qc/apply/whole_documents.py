"""Small documents read whole, and all their rows built, so that many can be applied in one transaction.

What is peculiar about a document is not told here: one that cannot be read, is not as it was validated, or has a text
that no column holds, is to be applied by itself, which says why.

Nothing here knows the database, as in `dcc.qc.rows.building`.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from dcc.documents import contents as said
from dcc.documents.reading import read_bytes
from dcc.naming import DocumentKind
from dcc.qc.apply.building_process import Order
from dcc.qc.apply.entity_keys import Key, key_of
from dcc.qc.rows.building import NUMBERED, RowBuilder
from dcc.qc.rows.lines import as_lines, rows_of_lines
from dcc.qc.rows.types import Row, Value
from dcc.vocabulary import EntityKind, Validity

_NEW: Final = (1, Validity.UNJUDGED)
"""The last columns of an entity: it is current, and nobody has judged whether it is valid."""


class BuiltEntities(NamedTuple):
    """The entities of one kind, in the order of the document: keys, lines, ids, and rows with all of their columns.

    Rows as if all entities were to be current. Where lines were ordered, there are no rows but their `text`.
    """

    keys: list[Key]
    lines: list[int]
    ids: list[int]
    rows: list[Row]
    text: bytes | None = None

    def all_rows(self) -> Iterable[tuple[Value, ...]]:
        """The rows, whichever way they are held; those of lines have nothing but texts and nulls."""
        return self.rows if self.text is None else rows_of_lines(self.text)

    def with_lines(self) -> BuiltEntities:
        """The same, with lines for rows."""
        return self._replace(rows=[], text=as_lines(self.rows))


Look = Callable[[Sequence[said.Content]], Any]
"""Looks at what a document says; what it notes, which `marshal` takes."""


class WholeDocument(NamedTuple):
    """All rows of a document, with the ids that it was ordered with; `next_ids` are those of what comes after it.

    `entities` by kind; their rows are in no other place. Rows by table, or their number and lines (`as_lines`);
    `measured` counts measurements by procedure. `plain`: it can be applied with others. One that cannot may still be
    applied by itself and then `takes_ids`, or leaves no row. `noted` is what was noted of one that is plain.
    """

    document_id: int
    first_ids: dict[str, int]
    next_ids: dict[str, int]
    plain: bool
    takes_ids: bool
    entities: dict[str, BuiltEntities]
    rows: dict[str, list[Row]]
    lines: dict[str, tuple[int, bytes]]
    measured: dict[str, int]
    noted: Any = None

    def fits(self, order: Order) -> bool:
        """Whether its rows may have their ids: the document's is the one that is given it, and none is taken."""
        free = all(self.first_ids[name] >= number for name, number in order.next_ids.items())
        return self.document_id == order.document_id and free


class Read(NamedTuple):
    """What a document says, and what was noted of it."""

    contents: list[said.Content]
    noted: Any = None


def read_whole(path: Path, kind: DocumentKind, md5: str, look: Look | None = None) -> Read | None:
    """Read the document at `path`; None if it has not the MD5 that it had when it was validated, or cannot be read."""
    try:
        data = path.read_bytes()
        if hashlib.md5(data, usedforsecurity=False).hexdigest() != md5:
            return None
        contents = read_bytes(data, kind)
        return Read(contents, None if look is None else look(contents))
    except Exception:
        # Applied by itself, it is read again, and fails of the same for everybody to see.
        return None


def build_whole(read: Read | None, order: Order) -> WholeDocument:
    """Build all rows of a document that `read_whole` has read."""
    if read is not None:
        # What cannot be built is applied by itself too.
        with suppress(Exception):
            return _built(read, order)
    first_ids = dict(order.next_ids)
    return WholeDocument(order.document_id, first_ids, first_ids, False, False, {}, {}, {}, {})


def _built(read: Read, order: Order) -> WholeDocument:
    tables: dict[str, list[Row]] = {name: [] for name in order.limits}
    ids = {name: itertools.count(order.next_ids[name]) for name in NUMBERED}
    new_ids = {name: one.__next__ for name, one in ids.items()}
    builder = RowBuilder(order.document_id, new_ids, tables, order.limits, as_lines=order.as_lines)
    found = {kind: BuiltEntities([], [], [], []) for kind in EntityKind}
    block: said.Block | None = None
    plain = True
    for content in read.contents:
        if isinstance(content, said.Block):
            block = content if builder.add_block(content) is None else None
        elif block is not None:
            made = builder.add_unchecked(content)
            keys, lines, row_ids, rows, _ = found[made.kind]
            keys.append(key_of(block, content))
            lines.append(content.line)
            row_ids.append(made.id)
            rows.append((*made.values, *_NEW))
        plain = plain and block is not None
    entities = {kind.value: some for kind, some in found.items() if some.keys}
    plain = plain and builder.fits({kind: some.rows for kind, some in entities.items()})
    return WholeDocument(
        order.document_id,
        dict(order.next_ids),
        {name: next(one) for name, one in ids.items()},
        plain,
        True,
        {kind: some.with_lines() for kind, some in entities.items()} if order.as_lines else entities,
        {} if order.as_lines else {name: rows for name, rows in tables.items() if rows},
        _lines(tables, builder.measurement_lines) if order.as_lines else {},
        builder.measured,
        read.noted if plain else None,
    )


def _lines(tables: dict[str, list[Row]], measurements: list[str]) -> dict[str, tuple[int, bytes]]:
    """The number of each table's rows and their lines; those of measurements are there already."""
    lines = {name: as_lines(rows) for name, rows in tables.items()}
    lines["measurement"] = "".join(measurements).encode()
    return {name: (text.count(b"\n"), text) for name, text in lines.items() if text}


def packed(whole: WholeDocument) -> tuple[object, ...]:
    """What `marshal` takes of it."""
    entities = {kind: tuple(some) for kind, some in whole.entities.items()}
    return tuple(whole._replace(entities=entities))  # type: ignore[arg-type]


def unpacked(message: Iterable[Any]) -> WholeDocument:
    """The document that `packed` told of."""
    whole = WholeDocument._make(message)
    return whole._replace(entities={kind: BuiltEntities._make(some) for kind, some in whole.entities.items()})
