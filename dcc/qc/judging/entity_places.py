"""The rows that findings are about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, select

from dcc.databases.list_parameters import rows_with, sorted_chunks
from dcc.qc.models import BLOCK, ENTITY_TABLES, LIFETIME
from dcc.rules.findings import Finding
from dcc.vocabulary import EntityKind


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
    blocks: dict[int | None, int] = dict(connection.execute(of_document).all())
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
