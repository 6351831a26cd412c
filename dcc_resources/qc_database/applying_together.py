"""Small documents that add, many applied in one transaction: each as if it were applied by itself, in their order.

A transaction costs more than the rows of a small document, and so do its statements; here both are shared. Documents
that are more than plain additions are applied by themselves (`applying`): those that edit or delete, came before, are
large, or cannot be read or stored as they are. A failure leaves nothing of any of those that were applied together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from sqlalchemy import Connection, Engine

from dcc_resources.databases.transactions import run_writing
from dcc_resources.naming import Action
from dcc_resources.qc_database.applying import COUNTED, PATIENCE_SECONDS, Applied, write_findings
from dcc_resources.qc_database.building_process import Order
from dcc_resources.qc_database.bulk import BulkInserter, Counters
from dcc_resources.qc_database.document_rows import (
    DocumentToApply,
    NewestDates,
    document_row,
    insert_documents,
    known_documents,
)
from dcc_resources.qc_database.entity_keys import Key
from dcc_resources.qc_database.models import Document, Lifetime, Measurement
from dcc_resources.qc_database.row_building import NUMBERED
from dcc_resources.qc_database.rows import BY_NAME, DOCUMENT_TABLES, ENTITY_TABLES, LIMITS, NUMBERED_TABLES
from dcc_resources.qc_database.upload_findings import FindingsKept, Judgement, UploadFinding, judge, late
from dcc_resources.qc_database.upload_lock import take_upload_lock
from dcc_resources.qc_database.versions import Version, current_versions
from dcc_resources.qc_database.vocabulary import DocumentState, EntityKind
from dcc_resources.qc_database.whole_documents import BuiltEntities, WholeDocument

Build = Callable[[int, Order], Sequence[WholeDocument]]

SMALL_BYTES: Final = 1_000_000
"""How large a document may be that is applied with others."""
MOST_DOCUMENTS: Final = 100
MOST_BYTES: Final = 5_000_000
"""How many are applied together, and how large they are in all: so little is lost when a session is killed."""

_DOCUMENT: Final = Document.__table__
_MEASUREMENT: Final = Measurement.__tablename__


def apply_together(
    engine: Engine,
    documents: Sequence[DocumentToApply],
    build: Build,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
) -> list[Applied]:
    """Apply documents that add in one transaction; what became of the first ones, as many as could be applied so.

    The next one is to be applied by itself. `build`, given a number of documents and how their rows are to be built,
    yields as many of the first documents as are plain, anew at each call; it is called again when the transaction is.
    What it raises leaves no row behind. Raises as `apply_document`.
    """
    return run_writing(
        engine, lambda connection: _apply(connection, documents, build), patience_seconds=patience_seconds
    )


def _apply(connection: Connection, documents: Sequence[DocumentToApply], build: Build) -> list[Applied]:
    take_upload_lock(connection)
    number = min(known_documents(connection, documents), default=len(documents))
    if number == 0:
        return []
    counters = Counters(connection)
    counters.read([_DOCUMENT, *NUMBERED_TABLES])
    bulk = BulkInserter(connection, DOCUMENT_TABLES)
    next_ids = {name: counters.following(BY_NAME[name]) for name in NUMBERED}
    built = build(number, Order(counters.following(_DOCUMENT), next_ids, LIMITS, bulk.wants_lines))
    if not built:
        return []
    group = _Group(connection, documents[: len(built)], built, bulk, counters.of(Lifetime.__table__))
    return group.apply()


class _Group:
    """Documents on their way into the database together."""

    def __init__(
        self,
        connection: Connection,
        documents: Sequence[DocumentToApply],
        built: Sequence[WholeDocument],
        bulk: BulkInserter,
        lifetime_id: Callable[[], int],
    ) -> None:
        self._connection, self._documents, self._built, self._bulk = connection, documents, built, bulk
        self._lifetime_id = lifetime_id
        self._lifetimes = bulk.rows_of(Lifetime.__table__)
        self._entities = {kind: bulk.rows_of(table) for kind, table in ENTITY_TABLES.items()}
        self._newest = NewestDates(connection, documents)
        self._current = {kind: self._current_versions(kind) for kind in EntityKind}

    def apply(self) -> list[Applied]:
        """Decide upon each document in turn, then write all rows."""
        applied = [self._apply(*pair) for pair in zip(self._documents, self._built, strict=True)]
        rows = [
            document_row(document, one.document_id) | {"state": one.state.value, "late": one.late} | one.said
            for document, one in zip(self._documents, applied, strict=True)
        ]
        insert_documents(self._connection, rows)
        self._bulk.flush()
        for document, one in zip(self._documents, applied, strict=True):
            write_findings(self._connection, document, one.document_id, one.findings)
        return applied

    def _current_versions(self, kind: EntityKind) -> dict[Key, Version]:
        keys = {key for one in self._built if kind.value in one.entities for key in one.entities[kind.value].keys}
        return current_versions(self._connection, kind, keys) if keys else {}

    def _apply(self, document: DocumentToApply, built: WholeDocument) -> Applied:
        findings = FindingsKept()
        newest = self._newest.before(document)
        if newest is not None:
            findings.add(late(document.created, newest))
        said = dict.fromkeys(COUNTED.values(), 0)
        opened: dict[str, int] = {}
        refused = 0
        for name, entities in built.entities.items():
            kind = EntityKind(name)
            objections = self._add_entities(kind, entities, built.document_id)
            for finding in objections:
                findings.add(finding)
            said[COUNTED[kind]] = len(entities.keys)
            refused += len(objections)
            if len(entities.keys) > len(objections):
                opened[name] = len(entities.keys) - len(objections)
        said["measurements"] = self._add_rows(built)
        state = DocumentState.REFUSED if refused and not opened else DocumentState.APPLIED
        if state is DocumentState.APPLIED:
            self._newest.add(document)
        return Applied(
            built.document_id,
            state,
            repeated=False,
            late=newest is not None,
            said=said,
            opened=opened,
            ended={},
            refused=refused,
            findings=findings.all(),
            procedures=dict(sorted(built.measured.items())),
            noted=built.noted,
        )

    def _add_rows(self, built: WholeDocument) -> int:
        """Take the rows of a document but its entities'; the number of its measurements."""
        for name, rows in built.rows.items():
            self._bulk.rows_of(BY_NAME[name]).extend(rows)
        for name, (number, lines) in built.lines.items():
            self._bulk.add_lines(name, number, lines)
        if _MEASUREMENT in built.lines:
            return built.lines[_MEASUREMENT][0]
        return len(built.rows.get(_MEASUREMENT, ()))

    def _add_entities(self, kind: EntityKind, entities: BuiltEntities, document_id: int) -> list[UploadFinding]:
        """Take the entities of one kind, and open versions of those that are new; what keeps the others from it."""
        keys = entities.keys
        current, own, new_id = self._current[kind], kind.value, self._lifetime_id
        if current.keys().isdisjoint(keys) and len(set(keys)) == len(keys):
            # Nearly always so, and much faster than to judge each.
            if entities.text is None:
                self._entities[kind].extend(entities.rows)
            else:
                self._bulk.add_lines(ENTITY_TABLES[kind].name, len(keys), entities.text)
            self._lifetimes.extend([(new_id(), own, row_id, document_id, None) for row_id in entities.ids])
            current.update((key, Version(row_id, document_id)) for key, row_id in zip(keys, entities.ids, strict=True))
            return []
        return [*self._judged(kind, entities, document_id)]

    def _judged(self, kind: EntityKind, entities: BuiltEntities, document_id: int) -> Iterator[UploadFinding]:
        current = self._current[kind]
        built = zip(entities.keys, entities.lines, entities.ids, entities.all_rows(), strict=True)
        for key, line, row_id, (*values, _, is_valid) in built:
            judgement = Judgement(Action.ADD, kind, key, current.get(key), document_id, ())
            finding = judge(judgement, line, row_id)
            self._entities[kind].append((*values, int(finding is None), is_valid))
            if finding is not None:
                yield finding
                continue
            self._lifetimes.append((self._lifetime_id(), kind.value, row_id, document_id, None))
            current[key] = Version(row_id, document_id)
