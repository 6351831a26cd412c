"""Applies documents to the QC database: the meaning of add, edit and delete.

Documents are prepared as rows before (`qc.rows.prepared_file`). Applying them is one write transaction that has locked
their centres, so that one document of a centre is applied at a time. All of a document's content is kept, even refused
parts and the targets of a delete; the lifetimes of versions show what took effect:

- add opens a version of a missing entity; an existing one is refused and left as it is;
- edit opens a version in the place of the current one; a missing entity is refused. An experiment with a status code
  and no procedure may be edited to one with results;
- delete ends the current version; a missing entity is refused, and so is a specimen with current experiments.

Refused parts of a document do not keep the rest from taking effect. An applied document is not applied again, unless it
is an edit whose data have changed since. Nor is one with the same content under another name, while all of its entities
still have that content. One that would end too many entities is held: only its own row stays, until it is confirmed
(`withdrawal`).

An edit or delete with data of a centre that its archive may not change is refused as a whole; an addition with such
data is held (`ownership.ForeignData`).

New additions share their statements: first each one's result is decided, from the database and the additions before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain, groupby
from typing import Any

from sqlalchemy import Connection, Engine, Row, Table, func, insert, select

from dcc.databases.list_parameters import change_rows, rows_with
from dcc.databases.transactions import run_writing
from dcc.naming import Action
from dcc.qc.apply.document_effect import (
    COUNTS,
    AppliedDocument,
    CurrentVersions,
    DecidedDocument,
    DocumentEffect,
    DocumentWithRows,
)
from dcc.qc.apply.entity_rows import NUMBERED_TABLES, copy_rows, loader_on
from dcc.qc.apply.ownership import ForeignData, OtherCentre
from dcc.qc.apply.upload_findings import UploadFinding, duplicate, findings_of, late
from dcc.qc.apply.upload_lock import PATIENCE_SECONDS, IdReservation, lock_centres, reserve_ids
from dcc.qc.apply.versions import end_versions, open_versions
from dcc.qc.models import BLOCK, DOCUMENT, ENTITY_TABLES, FINDING, LIFETIME, MEASUREMENT, RUN
from dcc.qc.rows.documents import (
    DocumentPlace,
    DocumentToApply,
    NewestDates,
    document_row,
    former_applications,
    insert_documents,
    is_confirmed,
    is_edited_since,
    known_documents,
    refuse_held_applications,
    replace_former_applications,
    same_document,
    update_tracker_id,
)
from dcc.qc.rows.prepared_file import Entries
from dcc.qc.rows.row_builder import NUMBERED
from dcc.rights import Rights
from dcc.rules.upload import OWNERSHIP
from dcc.runtime.clock import utc_now
from dcc.vocabulary import DocumentState


def apply_documents(
    engine: Engine,
    documents: Sequence[DocumentWithRows],
    *,
    patience_seconds: float = PATIENCE_SECONDS,
    hold_threshold: int | None = None,
) -> list[AppliedDocument]:
    """Apply documents in their order, in one transaction; returns their results.

    An exception leaves no row behind. An edit or delete that would end more than `hold_threshold` entities is held,
    unless it was confirmed; None: no limit. On SQLite the documents are in `MAX_ATTACHED` prepared files at most.
    Raises the database's `unreachable` error if others were in the way, or the database away, for `patience_seconds`.
    """
    return run_writing(
        engine,
        lambda connection: apply_on(connection, documents, hold_threshold=hold_threshold),
        patience_seconds=patience_seconds,
    )


def apply_on(
    connection: Connection,
    documents: Sequence[DocumentWithRows],
    *,
    hold_threshold: int | None = None,
    foreign_additions: ForeignData = ForeignData.HOLD,
) -> list[AppliedDocument]:
    """Apply documents within a write transaction; see `apply_documents`.

    `foreign_additions` decides on additions with data of a centre that their archive may not change.
    """
    centres = {centre for document, prepared in documents for centre in (document.centre, *prepared.centres)}
    lock_centres(connection, centres)
    reserved = reserve_ids(connection, centres, _rows_of(documents))
    application = _Application(connection, documents, reserved, hold_threshold, foreign_additions)
    seen_before = known_documents(connection, [document for document, _ in documents])
    applied: list[AppliedDocument] = []
    together: list[DocumentWithRows] = []
    for place, one in enumerate(documents):
        if place not in seen_before and one.document.action is Action.ADD:
            together.append(one)
            continue
        applied += application.apply(together)
        together.clear()
        applied.append(application.apply_alone(one) if place in seen_before else application.apply([one])[0])
    return applied + application.apply(together)


def _rows_of(documents: Sequence[DocumentWithRows]) -> dict[Table, int]:
    """The most rows that documents add to each table with reserved ids."""
    rows = dict.fromkeys((DOCUMENT, *NUMBERED_TABLES), 0)
    rows[DOCUMENT] = len(documents)
    for _, prepared in documents:
        for table in NUMBERED_TABLES[:-1]:
            rows[table] += prepared.number_of_rows(table.name)
    rows[LIFETIME] = sum(rows[table] for table in ENTITY_TABLES.values())
    return rows


class _Application:
    """Documents that are being applied: several new additions, or one other.

    Each one's result is decided in memory; then all are written.
    """

    def __init__(
        self,
        connection: Connection,
        documents: Sequence[DocumentWithRows],
        reserved: IdReservation,
        hold_threshold: int | None,
        foreign_additions: ForeignData,
    ) -> None:
        self._connection = connection
        self._hold_threshold, self._foreign_additions = hold_threshold, foreign_additions
        self._next_ids, self._at = reserved
        self._newest = NewestDates(connection, [document for document, _ in documents])
        self._applied: dict[int, DocumentWithRows] = {}
        self._current = CurrentVersions(connection)

    def apply_alone(self, one: DocumentWithRows) -> AppliedDocument:
        """Apply a document that the database may have already."""
        document = one.document
        (former,) = former_applications(self._connection, [document])
        for row in former:
            # Of a duplicate, a killed session may have left a row without counts.
            is_same = document.tracker_id is not None and row.tracker_id == document.tracker_id
            counts = is_same or any(getattr(row, name) for name in COUNTS)
            is_applied = row.state == DocumentState.APPLIED.value and counts
            if is_applied and not is_edited_since(self._connection, document, row.id):
                refuse_held_applications(self._connection, former)
                return _repeated(self._connection, row, document)
        confirmed = next((row for row in former if is_confirmed(row, document)), None)
        (applied,) = self.apply([one], former, confirmed)
        return applied

    def apply(
        self,
        documents: Sequence[DocumentWithRows],
        former: Sequence[Row[Any]] | None = None,
        confirmed: Row[Any] | None = None,
    ) -> list[AppliedDocument]:
        """Apply some new additions, or one other, in the place of its `former` applications with a `confirmed` one."""
        if not documents:
            return []
        first_ids = dict(self._next_ids)
        self._current = CurrentVersions(self._connection)
        entries: Sequence[Iterable[Entries]] = [prepared.entries() for _, prepared in documents]
        if len(entries) > 1:
            # They are small, and nearly always new: one query is for all.
            entries = [list(some) for some in entries]
            self._current.ask_about(chain.from_iterable(entries))
        decided = [self._decide(one, some, confirmed) for one, some in zip(documents, entries, strict=True)]
        if former is not None:
            replace_former_applications(
                self._connection, decided[0].effect.document, self._row_of(decided[0]), former, confirmed
            )
        else:
            insert_documents(self._connection, [self._row_of(one) for one in decided])
        self._write_rows([one.effect for one in decided if one.keeps_rows], first_ids)
        findings = []
        for one in decided:
            # A held addition has its reason; a document that would change much gets its findings with the confirmation.
            effect, applied = one
            common = {"document_id": effect.document_id, "tracker_id": effect.document.tracker_id}
            kept = _about_foreign_data(applied) if applied.state is DocumentState.HELD else applied.findings
            findings += [finding.columns() | common | {"created": utc_now()} for finding in kept]
        if findings:
            self._connection.execute(insert(FINDING), findings)
        return [one.applied for one in decided]

    def _write_rows(self, taken: Sequence[DocumentEffect], first_ids: Mapping[str, int]) -> None:
        """Write the rows of documents, and the lifetimes that they end and open; `first_ids` are the first new ones."""
        loader = loader_on(self._connection)
        # Consecutive documents of a file have the same offsets.
        for (_, id_offsets, are_current), some in groupby(
            taken, key=lambda one: (one.prepared.file, one.id_offsets, one.are_current)
        ):
            copy_rows(self._connection, [one.prepared for one in some], id_offsets, loader, are_current=are_current)
        loader.flush()
        for one in taken:
            for kind, ids in one.not_current.items():
                change_rows(self._connection, ENTITY_TABLES[kind].c.id, ids, is_current=False)
            for kind, ids in one.ended.items():
                end_versions(self._connection, kind, ids, one.document_id)
        for kind, table in ENTITY_TABLES.items():
            new = range(first_ids[table.name], self._next_ids[table.name])
            if new:
                open_versions(self._connection, kind, new, self._next_ids[LIFETIME.name])
                self._next_ids[LIFETIME.name] += len(new)

    def _row_of(self, one: DecidedDocument) -> dict[str, Any]:
        effect, applied = one
        content, origin = effect.prepared.content, effect.prepared.origin
        row = document_row(effect.document, content, effect.document_id, self._at, origin=origin)
        return row | {"state": applied.state.value, "late": applied.late} | applied.said

    def _decide(self, one: DocumentWithRows, entries: Iterable[Entries], confirmed: Row[Any] | None) -> DecidedDocument:
        document, prepared = one
        newest = self._newest.before(document)
        foreign_data = self._foreign_data(one, confirmed)
        document_id = self._next_ids[DOCUMENT.name]
        self._next_ids[DOCUMENT.name] += 1
        id_offsets = {}
        for table in NUMBERED:
            before, _ = prepared.rows[table]
            id_offsets[table] = self._next_ids[table] - 1 - before
        effect = DocumentEffect(self._current, one, document_id, id_offsets, foreign_data)
        applied = effect.decide(entries, is_late=newest is not None)
        if newest is not None and applied.state is DocumentState.APPLIED:
            applied = replace(applied, findings=(late(document.created, newest), *applied.findings))
        original = self._original_of(one, effect.owners) if foreign_data is ForeignData.ALLOW else None
        if original is not None:
            nothing = dict.fromkeys(COUNTS, 0)
            findings = (duplicate(original),)
            applied = AppliedDocument(document_id, DocumentState.APPLIED, nothing, repeated=True, findings=findings)
        elif confirmed is not None:
            applied = replace(applied, confirmed_by=confirmed.author)
        elif foreign_data is ForeignData.HOLD:
            others = effect.others.counts(effective=False)
            applied = replace(applied, state=DocumentState.HELD, findings=_about_foreign_data(applied), others=others)
        elif self._hold_threshold is not None and sum(applied.ended.values()) > self._hold_threshold:
            applied = replace(applied, state=DocumentState.HELD)
        decided = DecidedDocument(effect, applied)
        if decided.keeps_rows:
            self._current.update(effect)
            for table in NUMBERED:
                self._next_ids[table] += prepared.number_of_rows(table)
        if applied.state is DocumentState.APPLIED and not applied.repeated:
            self._newest.add(document)
            self._applied[document_id] = one
        return decided

    def _original_of(self, one: DocumentWithRows, owners: Set[int | None]) -> DocumentPlace | None:
        """The place of an applied document with the same content; None if there is none.

        `owners` are those of the document's entities: see `DocumentEffect`.
        """
        document, content = one.document, one.prepared.content
        if document.action is Action.DELETE:
            return same_document(self._connection, document, content, None) if owners == {None} else None
        if len(owners) != 1 or (owner := next(iter(owners))) is None:
            return None
        if owner not in self._applied:
            return same_document(self._connection, document, content, owner)
        written = self._applied[owner]
        return written.document.place if written.prepared.content == content else None

    def _foreign_data(self, one: DocumentWithRows, confirmed: Row[Any] | None) -> ForeignData:
        if all(map(one.document.may_change, one.prepared.centres)):
            return ForeignData.ALLOW
        if one.document.action is not Action.ADD:
            return ForeignData.REFUSE
        return self._foreign_additions if confirmed is None else ForeignData.ALLOW


def _about_foreign_data(applied: AppliedDocument) -> tuple[UploadFinding, ...]:
    return tuple(finding for finding in applied.findings if finding.rule == OWNERSHIP)


def _measurements_by_procedure(connection: Connection, document_id: int) -> dict[str, int]:
    """The number of a document's measurements of each procedure; reads only indexes."""
    statement = (
        select(RUN.c.procedure_id, func.count(MEASUREMENT.c.procedure_run_id))
        .join(MEASUREMENT, MEASUREMENT.c.procedure_run_id == RUN.c.id)
        .where(RUN.c.document_id == document_id)
        .group_by(RUN.c.procedure_id)
        .order_by(RUN.c.procedure_id)
    )
    return {row[0]: row[1] for row in connection.execute(statement)}


def _repeated(connection: Connection, row: Row[Any], document: DocumentToApply) -> AppliedDocument:
    # A repeated document yields nothing new: it was reported when it was applied.
    is_unheard_of = row.tracker_id == document.tracker_id
    update_tracker_id(connection, row, document)
    return AppliedDocument(
        row.id,
        DocumentState(row.state),
        {name: getattr(row, name) for name in COUNTS},
        repeated=True,
        late=row.late,
        findings=findings_of(connection, row.id),
        procedures=_measurements_by_procedure(connection, row.id),
        others=other_centres_of(connection, [row.id], document.rights) if is_unheard_of else (),
        confirmed_by=row.author,
    )


def other_centres_of(
    connection: Connection, document_ids: Sequence[int], rights: Rights | None
) -> tuple[OtherCentre, ...]:
    """The centres other than the archive's in stored documents, without counts."""
    if rights is None:
        return ()
    blocks = rows_with(connection, select(BLOCK.c.centre).distinct(), BLOCK.c.document_id, document_ids)
    return tuple(OtherCentre(centre, {}) for centre in sorted({row.centre for row in blocks} - {rights.own}))
