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


class _Version(NamedTuple):
    id: int
    ended_by: int | None


class EntityPlaces:
    """The places of one document's findings."""

    def __init__(self, connection: Connection, document_id: int) -> None:
        self._connection, self._document_id = connection, document_id
        self._blocks: dict[int, int] | None = None

    def find(self, findings: Sequence[Finding]) -> list[EntityPlace]:
        """The place of each finding; a few statements whatever their number."""
        wanted: dict[EntityKind, set[tuple[int, int]]] = defaultdict(set)
        for finding in findings:
            block_id = self._block_id(finding)
            if block_id is not None and finding.entity_kind is not None and finding.entity is not None:
                wanted[finding.entity_kind].add((block_id, finding.entity))
        versions = {kind: self._versions(kind, places) for kind, places in wanted.items()}
        return [self._place(finding, versions) for finding in findings]

    def _place(self, finding: Finding, versions: dict[EntityKind, dict[tuple[int, int], _Version]]) -> EntityPlace:
        block_id = self._block_id(finding)
        if finding.entity_kind is None or finding.entity is None:
            return EntityPlace(None, None) if finding.block is None else EntityPlace(BLOCK.name, block_id)
        if block_id is None:
            return EntityPlace(finding.entity_kind.value, None)
        version = versions[finding.entity_kind].get((block_id, finding.entity))
        if version is None:
            return EntityPlace(finding.entity_kind.value, None)
        return EntityPlace(finding.entity_kind.value, version.id, version.ended_by)

    def _block_id(self, finding: Finding) -> int | None:
        if finding.block is None:
            return None
        if self._blocks is None:
            of_document = select(BLOCK.c.position, BLOCK.c.id).where(BLOCK.c.document_id == self._document_id)
            self._blocks = {row.position: row.id for row in self._connection.execute(of_document)}
        return self._blocks.get(finding.block)

    def _versions(self, kind: EntityKind, places: set[tuple[int, int]]) -> dict[tuple[int, int], _Version]:
        table = ENTITY_TABLES[kind].c
        by_block: dict[int, set[int]] = defaultdict(set)
        for block_id, position in places:
            by_block[block_id].add(position)
        found: dict[tuple[int, int], _Version] = {}
        ended: dict[int, tuple[int, int]] = {}
        columns = (table.id, table.block_id, table.position, table.is_current)
        for blocks in sorted_chunks(by_block):
            positions = set[int]().union(*(by_block[block_id] for block_id in blocks))
            here = select(*columns).where(table.block_id.in_(blocks))
            for row in rows_with(self._connection, here, table.position, positions):
                found[row.block_id, row.position] = _Version(row.id, None)
                if not row.is_current:
                    ended[row.id] = (row.block_id, row.position)
        for row_id, document_id in self._ended(kind, ended).items():
            found[ended[row_id]] = _Version(row_id, document_id)
        return found

    def _ended(self, kind: EntityKind, ids: dict[int, tuple[int, int]]) -> dict[int, int]:
        """The last document that ended each of the versions that were ever current."""
        ends = select(LIFETIME.c.entity_id, LIFETIME.c.ended_by).where(LIFETIME.c.entity_kind == kind.value)
        ends = ends.where(LIFETIME.c.ended_by.is_not(None)).order_by(LIFETIME.c.ended_by)
        return dict(rows_with(self._connection, ends, LIFETIME.c.entity_id, ids))
