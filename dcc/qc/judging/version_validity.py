"""The rows that findings are about, and the validity of versions of entities.

Versions without an error in or above them are valid.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sqlalchemy import BindParameter, Connection, Table, bindparam, select, update

from dcc.databases.list_parameters import change_rows, rows_with, sorted_chunks
from dcc.naming import DocumentKind
from dcc.qc.models import BLOCK, ENTITY_TABLES, LIFETIME
from dcc.rules.findings import Finding
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


class EntityPlace(NamedTuple):
    """The row `id` of the table `kind` that a finding concerns; no id if the row was not written.

    `ended_by` is the document that replaced or deleted this version of the entity, if one did.
    """

    kind: str | None
    id: int | None
    ended_by: int | None = None


_Versions = dict[tuple[int, int], tuple[int, int | None]]
"""By centre element and position, the row of a version and the document that ended it, if one did."""


def find_places(connection: Connection, document_id: int, findings: Sequence[Finding]) -> list[EntityPlace]:
    """The places of findings of a document; a few statements whatever their number."""
    of_document = select(BLOCK.c.position, BLOCK.c.id).where(BLOCK.c.document_id == document_id)
    blocks: dict[int | None, int] = dict(connection.execute(of_document).all()) if findings else {}
    wanted: dict[EntityKind, set[tuple[int, int]]] = defaultdict(set)
    for finding in findings:
        if finding.block in blocks and finding.entity_kind is not None and finding.entity is not None:
            wanted[finding.entity_kind].add((blocks[finding.block], finding.entity))
    versions = {kind: _versions(connection, kind, places) for kind, places in wanted.items()}
    found = []
    for finding in findings:
        block_id = blocks.get(finding.block)
        if finding.entity_kind is not None and finding.entity is not None:
            of_kind = versions.get(finding.entity_kind, {})
            version = (None, None) if block_id is None else of_kind.get((block_id, finding.entity), (None, None))
            found.append(EntityPlace(finding.entity_kind.value, *version))
        else:
            found.append(EntityPlace(None if finding.block is None else BLOCK.name, block_id))
    return found


def _versions(connection: Connection, kind: EntityKind, places: set[tuple[int, int]]) -> _Versions:
    table = ENTITY_TABLES[kind].c
    by_block: dict[int, set[int]] = defaultdict(set)
    for block_id, position in places:
        by_block[block_id].add(position)
    found: _Versions = {}
    ended: dict[int, tuple[int, int]] = {}
    columns = (table.id, table.block_id, table.position, table.is_current)
    for blocks in sorted_chunks(by_block):
        positions = set[int]().union(*(by_block[block_id] for block_id in blocks))
        here = select(*columns).where(table.block_id.in_(blocks))
        for row in rows_with(connection, here, table.position, positions):
            found[row.block_id, row.position] = row.id, None
            if not row.is_current:
                ended[row.id] = (row.block_id, row.position)
    # The last document that ended each of the versions that were ever current.
    ends = select(LIFETIME.c.entity_id, LIFETIME.c.ended_by).where(LIFETIME.c.entity_kind == kind.value)
    ends = ends.where(LIFETIME.c.ended_by.is_not(None)).order_by(LIFETIME.c.ended_by)
    for row_id, document_id in rows_with(connection, ends, LIFETIME.c.entity_id, ended):
        found[ended[row_id]] = row_id, document_id
    return found


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
