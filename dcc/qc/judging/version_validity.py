"""The validity of versions of entities: those without an error in or above them are valid."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import BindParameter, Connection, Table, bindparam, select, update

from dcc.databases.list_parameters import change_rows, rows_with
from dcc.naming import DocumentKind
from dcc.qc.judging.entity_places import EntityPlace
from dcc.qc.models import BLOCK, ENTITY_TABLES
from dcc.vocabulary import EntityKind, Validity

_OF_DOCUMENT: Final[BindParameter[int]] = bindparam("document")
_KNOWN: Final = {
    kind: select(table.c.id).where(table.c.document_id == _OF_DOCUMENT, table.c.validity == Validity.INVALID)
    for kind, table in ENTITY_TABLES.items()
}
"""The versions of a document that are known to be invalid."""
_UNJUDGED: Final = {
    kind: update(table)
    .where(table.c.document_id == _OF_DOCUMENT, table.c.validity == Validity.UNJUDGED)
    .values(validity=Validity.VALID)
    for kind, table in ENTITY_TABLES.items()
}
"""Sets the versions of a document that were not judged yet to valid."""


@dataclass
class InvalidEntities:
    """Where the errors of a document are: in rows of entities, in centre elements, or in the document as a whole."""

    entities: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    blocks: set[int] = field(default_factory=set)
    whole: bool = False

    def add(self, place: EntityPlace) -> None:
        """Add an error's place; an error in an entity that was not written makes nothing invalid."""
        if place.kind is None:
            self.whole = True
        elif place.id is not None and place.kind == BLOCK.name:
            self.blocks.add(place.id)
        elif place.id is not None:
            self.entities[place.kind].add(place.id)


def set_validity(connection: Connection, document_id: int, kind: DocumentKind, invalid: InvalidEntities) -> bool:
    """Set the validity of all versions that a document brought; returns whether anything changed.

    A few statements, and one for every 2,000 versions whose validity changes.
    """
    changed = [_set(connection, document_id, each, invalid) for each in kinds_in(kind)]
    return any(changed)


def kinds_in(kind: DocumentKind) -> list[EntityKind]:
    """The kinds of entities in a kind of document."""
    if kind is DocumentKind.SPECIMEN:
        return [EntityKind.SPECIMEN]
    return [each for each in EntityKind if each is not EntityKind.SPECIMEN]


def _set(connection: Connection, document_id: int, kind: EntityKind, invalid: InvalidEntities) -> bool:
    table = ENTITY_TABLES[kind]
    known = set(connection.scalars(_KNOWN[kind], {"document": document_id}))
    wrong = _wrong(connection, document_id, table, invalid)
    for ids, validity in ((wrong - known, Validity.INVALID), (known - wrong, Validity.VALID)):
        change_rows(connection, table.c.id, ids, validity=validity)
    return connection.execute(_UNJUDGED[kind], {"document": document_id}).rowcount > 0 or known != wrong


def _wrong(connection: Connection, document_id: int, table: Table, invalid: InvalidEntities) -> set[int]:
    mine = select(table.c.id).where(table.c.document_id == document_id)
    if invalid.whole:
        return set(connection.scalars(mine))
    in_blocks = rows_with(connection, mine, table.c.block_id, invalid.blocks)
    return invalid.entities.get(table.name, set()).union(row.id for row in in_blocks)
