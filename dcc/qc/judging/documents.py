"""Judges a document in the QC database: by the rules, with the waivers in force, compared with earlier findings.

Of a document that deletes, or is the same as one that stands, only the upload's findings count. Entities that a later
document replaced or deleted no longer count either: that document closes their findings.

Most documents have no findings, and had none: `judge_together` judges these by a few statements.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from hashlib import blake2b
from itertools import islice
from typing import Final, NamedTuple

from sqlalchemy import Connection, bindparam, func, select, update

from dcc.data_outcomes import FindingEntry
from dcc.databases.list_parameters import change_rows, rows_with
from dcc.declarations import NO_DETAILS, stored_details
from dcc.documents.contents import Content
from dcc.documents.origins import Origin
from dcc.errors import NotFoundError
from dcc.naming import Action, DocumentKind
from dcc.qc.judging.entity_places import EntityPlace, find_places
from dcc.qc.judging.finding_store import (
    MESSAGE_LENGTH,
    VALUE_LENGTH,
    FindingRow,
    FindingVerdict,
    Key,
    open_findings,
    replace_findings,
    restate,
    shortened,
    upload_findings,
)
from dcc.qc.judging.lookups import SqlLookups
from dcc.qc.judging.version_validity import InvalidEntities, kinds_in, set_validity
from dcc.qc.models import DOCUMENT, ENTITY_TABLES, FINDING
from dcc.qc.reference.snapshots import ActiveReference
from dcc.rules.catalogue import CATALOGUE
from dcc.rules.checking import check_contents
from dcc.rules.context import DocumentContext
from dcc.rules.findings import MORE_RULE, Finding, facts_of, further_findings
from dcc.rules.upload import DUPLICATE
from dcc.rules.waivers import JudgedFinding, Waiver, apply_waivers
from dcc.runtime.clock import utc_now
from dcc.vocabulary import DocumentAction, DocumentState, EntityKind, Severity, Validity

LIMIT: Final = 1_000
"""The most active findings, and the most others, recorded for a document by default."""

_CHUNK: Final = 1_000


@dataclass(frozen=True, slots=True)
class JudgingBasis:
    """What documents are judged by on a day, in UTC.

    `waivers` are those in force then. `limit` is the most active findings, and the most others, recorded for a
    document, but one of each waiver at least; one more finding has the number of the rest.
    """

    reference: ActiveReference
    waivers: tuple[Waiver, ...]
    today: date
    limit: int = LIMIT

    @property
    def signature(self) -> str:
        """The judging reference data in the form of `document.judged_by`."""
        return signature_of(self.reference.snapshot_ids.values(), self.reference.data.imits_names)


def signature_of(snapshot_ids: Iterable[int], imits_names: Mapping[str, str]) -> str:
    """Snapshots, and the names of centres, in the form of `document.judged_by`."""
    names = json.dumps(sorted(imits_names.items())).encode()
    digest = [blake2b(names, digest_size=6).hexdigest()] if imits_names else []
    return " ".join([*map(str, sorted(snapshot_ids)), *digest])


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of judging a document.

    `failed`: an error or fatal finding counts, including those of its upload. `findings` are the active recorded ones,
    those of the upload first. `counts` counts active findings by rule and severity, including unrecorded ones.
    `cleared` is the number of findings of earlier judgements that are gone now.
    """

    failed: bool
    findings: tuple[FindingEntry, ...]
    counts: Mapping[tuple[str, Severity], int]
    cleared: int = 0


class StoredDocument(NamedTuple):
    """The data of a document that judging needs."""

    id: int
    tracker_id: int | None
    kind: str
    centre: str
    action: str
    state: str
    judged_by: str | None
    origin: str | None

    @property
    def was_judged(self) -> bool:
        """Whether it was ever judged; before that, the validity of its entities is unknown."""
        return self.judged_by is not None

    @property
    def deletes(self) -> bool:
        """Whether it deletes."""
        return self.action == DocumentAction.DELETE.value

    @property
    def stands(self) -> bool:
        """Whether it was not withdrawn."""
        return self.state != DocumentState.UNDONE.value


_LOCKED: Final = (
    select(*(DOCUMENT.c[name] for name in StoredDocument._fields)).order_by(DOCUMENT.c.id).with_for_update()
)


def lock_documents(connection: Connection, document_ids: Iterable[int]) -> dict[int, StoredDocument]:
    """The existing documents with these ids, locked against other judgements until the transaction ends."""
    return {row.id: StoredDocument._make(row) for row in rows_with(connection, _LOCKED, DOCUMENT.c.id, document_ids)}


def require_standing(document_id: int, document: StoredDocument | None) -> StoredDocument:
    """A document; raises NotFoundError if it is missing or was withdrawn."""
    if document is None:
        raise NotFoundError(f"The QC database has no document {document_id}. See its submission: dcc show")
    if not document.stands:
        raise NotFoundError(f"Document {document_id} was withdrawn. To bring it back, retry its archive.")
    return document


def judge_document(
    connection: Connection, document_id: int, contents: Iterable[Content], basis: JudgingBasis
) -> Judgement:
    """Judge a document with these contents again, within a write transaction.

    Writes its findings, the validity of its entities, and the day; if a validity changed, its contexts are marked for a
    new build. The number of statements grows with the thousands of entities and findings. Raises NotFoundError for a
    document that is missing, or was withdrawn.
    """
    document = require_standing(document_id, lock_documents(connection, [document_id]).get(document_id))
    context = DocumentContext(
        Action(document.action),
        document.centre,
        basis.today,
        basis.reference.data,
        SqlLookups(connection),
        origin=Origin.from_json(document.origin),
    )
    return record_judgement(connection, document, check_contents(contents, context), basis)


def record_judgement(
    connection: Connection, document: StoredDocument, findings: Iterable[Finding], basis: JudgingBasis
) -> Judgement:
    """Judge a locked document by the rules' findings; see `judge_document`.

    `findings` are not used for a document that deletes, or is the same as one that stands: that one has them.
    """
    stored = open_findings(connection, document.id)
    tally = _Tally(basis, frozenset(row.key for row in stored))
    restate(connection, _judge(connection, document, findings, tally))
    found = tally.to_record()
    cleared = replace_findings(connection, document.id, document.tracker_id, found, stored, tally.ended_by)
    changed = set_validity(connection, document.id, DocumentKind(document.kind), tally.invalid)
    judged = {"document": document.id, "new_judged_at": utc_now(), "new_judged_by": basis.signature}
    connection.execute(_CHANGED if changed else _RESULT, judged)
    return _judgement(basis, tally, found, cleared)


def assess(
    connection: Connection, document: StoredDocument, findings: Iterable[Finding], basis: JudgingBasis
) -> Judgement:
    """The judgement of `record_judgement` on a document without findings of earlier judgements; writes nothing."""
    tally = _Tally(basis, frozenset())
    _judge(connection, document, findings, tally)
    return _judgement(basis, tally, tally.to_record())


def _judge(
    connection: Connection, document: StoredDocument, findings: Iterable[Finding], tally: _Tally
) -> dict[FindingVerdict, list[int]]:
    """Count all findings in `tally`; returns the ids of those of the upload that get another verdict."""
    basis = tally.basis
    changed = _judge_upload(connection, document, tally)
    coming = iter(() if document.deletes or tally.is_copy else findings)
    while chunk := list(islice(coming, _CHUNK)):
        places = find_places(connection, document.id, chunk)
        for each, place in zip(apply_waivers(chunk, basis.waivers, basis.today), places, strict=True):
            tally.take(each, place)
        # Nothing of a chunk is kept while the next one is read.
        del chunk, places, each, place
    return changed


_RESULT: Final = (
    update(DOCUMENT)
    .where(DOCUMENT.c.id == bindparam("document"))
    .values(
        judged_at=bindparam("new_judged_at"),
        judged_by=bindparam("new_judged_by"),
    )
)
_CHANGED: Final = _RESULT.values(contexts_built=False)


@dataclass
class _Tally:
    """The findings in a document as they come: those to record, and counts of all.

    `is_copy`: the upload found that it is the same as one that stands. `waivers` decided the findings to record.
    """

    basis: JudgingBasis
    known: Collection[Key]
    rows: list[FindingRow] = field(default_factory=list)
    of_upload: list[FindingRow] = field(default_factory=list)
    counts: Counter[tuple[str, Severity]] = field(default_factory=Counter)
    excess: Counter[tuple[str, Severity]] = field(default_factory=Counter)
    recorded: Counter[bool] = field(default_factory=Counter)
    waivers: set[int | None] = field(default_factory=lambda: {None})
    invalid: InvalidEntities = field(default_factory=InvalidEntities)
    ended_by: dict[Key, int] = field(default_factory=dict)
    is_copy: bool = False

    def take(self, judged: JudgedFinding, place: EntityPlace) -> None:
        row = self.row(judged, place)
        counts = row.verdict.is_active and row.verdict.severity.fails
        if counts:
            self.invalid.add(place)
        if place.ended_by is not None:
            if row.key in self.known:
                self.ended_by[row.key] = place.ended_by
            return
        if row.verdict.is_active:
            self.counts[row.rule, row.verdict.severity] += 1
        # One of each waiver at least: its end has documents judged again that have any.
        if self.recorded[counts] < self.basis.limit or row.verdict.waiver_id not in self.waivers:
            self.recorded[counts] += 1
            self.waivers.add(row.verdict.waiver_id)
            self.rows.append(row)
        elif row.verdict.is_active:
            self.excess[row.rule, row.verdict.severity] += 1

    def row(self, judged: JudgedFinding, place: EntityPlace) -> FindingRow:
        finding = judged.finding
        ids = self.basis.reference.snapshot_ids
        snapshot = next((ids[name] for name in finding.references if name in ids), None)
        facts = facts_of(finding.code, finding.details, finding.value)
        return FindingRow(
            *facts._replace(message=shortened(facts.message, MESSAGE_LENGTH)),
            line=finding.line,
            path=shortened(finding.path, VALUE_LENGTH),
            value=None if finding.value is None else shortened(finding.value, VALUE_LENGTH),
            entity_kind=place.kind,
            entity_id=place.id,
            verdict=_verdict(judged, snapshot),
        )

    def take_uploaded(self, row: FindingRow) -> None:
        self.is_copy |= row.rule == DUPLICATE
        if row.verdict.is_active:
            self.counts[row.rule, row.verdict.severity] += 1
            if row.verdict.severity.fails and row.entity_id is not None:
                self.invalid.add(EntityPlace(row.entity_kind, row.entity_id))
        self.of_upload.append(row)

    def to_record(self) -> list[FindingRow]:
        """The findings of the rules to store; the last has the number of the others."""
        if not self.excess:
            return self.rows
        severity, details = further_findings(self.excess, len(self.rows))
        verdict = FindingVerdict(severity, None, None, is_active=True)
        facts = facts_of(MORE_RULE, details, None)
        further = FindingRow(
            *facts, line=None, path=None, value=None, entity_kind=None, entity_id=None, verdict=verdict
        )
        return [*self.rows, further]


def _judge_upload(connection: Connection, document: StoredDocument, tally: _Tally) -> dict[FindingVerdict, list[int]]:
    """Apply the waivers in force to the findings of the upload; returns the ids of those that change."""
    changed: dict[FindingVerdict, list[int]] = defaultdict(list)
    for row, centre, procedure in upload_findings(connection, document.id, document.centre):
        place = (row.line or 0, row.path or "")
        severity = CATALOGUE[row.rule].severity
        finding = Finding(row.code, severity, NO_DETAILS, *place, centre=centre, procedure=procedure)
        (judged,) = apply_waivers([finding], tally.basis.waivers, tally.basis.today)
        verdict = _verdict(judged)
        if verdict != row.verdict:
            changed[verdict].append(row.id)
        tally.take_uploaded(row._replace(verdict=verdict))
    return changed


def _verdict(judged: JudgedFinding, snapshot_id: int | None = None) -> FindingVerdict:
    waiver = judged.waiver.id if judged.waiver is not None else None
    return FindingVerdict(judged.finding.severity, snapshot_id, waiver, not judged.is_waived)


def _judgement(basis: JudgingBasis, tally: _Tally, found: Iterable[FindingRow], cleared: int = 0) -> Judgement:
    names = {snapshot_id: name for name, snapshot_id in basis.reference.snapshot_ids.items()}
    failed = any(severity.fails for _, severity in tally.counts)
    recorded = tuple(_entry_of(row, names) for row in (*tally.of_upload, *found) if row.verdict.is_active)
    return Judgement(failed, recorded, dict(tally.counts), cleared)


def _entry_of(row: FindingRow, snapshot_names: Mapping[int, str]) -> FindingEntry:
    verdict = row.verdict
    snapshot = None
    if verdict.snapshot_id is not None:
        snapshot = f"{snapshot_names.get(verdict.snapshot_id, 'snapshot')} {verdict.snapshot_id}"
    return FindingEntry(
        row.code,
        verdict.severity,
        stored_details(row.code, row.details, row.message),
        row.line,
        row.path,
        row.value,
        snapshot,
    )


_TOLD_OF: Final = select(FINDING.c.document_id).distinct().where(FINDING.c.closed.is_(None))
_UNJUDGED: Final = {kind: table.c.validity == Validity.UNJUDGED for kind, table in ENTITY_TABLES.items()}


def newest_document(connection: Connection) -> int:
    """The id of the newest document, 0 without any: versions change only with a newer one."""
    return connection.scalar(select(func.max(DOCUMENT.c.id))) or 0


def judge_together(
    connection: Connection, found: Mapping[int, Sequence[Finding]], basis: JudgingBasis
) -> dict[int, Judgement | NotFoundError]:
    """Judge documents by the rules' findings that were computed for their ids, within a write transaction.

    Returns what `judge_document` does for each; a NotFoundError for one that is missing or was withdrawn.
    """
    documents = lock_documents(connection, found)
    clean = [documents[document_id] for document_id, some in found.items() if document_id in documents and not some]
    quiet = _without_history(connection, clean)
    _judge_quiet(connection, quiet, basis)
    unheard_of = {document.id for document in quiet}
    judged: dict[int, Judgement | NotFoundError] = {}
    for document_id, findings in found.items():
        try:
            document = require_standing(document_id, documents.get(document_id))
        except NotFoundError as error:
            judged[document_id] = error
            continue
        if document_id in unheard_of:
            judged[document_id] = Judgement(failed=False, findings=(), counts={})
        else:
            judged[document_id] = record_judgement(connection, document, findings, basis)
    return judged


def _without_history(connection: Connection, documents: Collection[StoredDocument]) -> list[StoredDocument]:
    """The applied documents with neither open findings nor invalid versions."""
    loud = {
        row.document_id
        for row in rows_with(connection, _TOLD_OF, FINDING.c.document_id, [document.id for document in documents])
    }
    for kind, ids in _by_entity_kind(document for document in documents if document.was_judged).items():
        loud |= _with_validity(connection, kind, ids, Validity.INVALID)
    return [document for document in documents if document.id not in loud and document.stands]


def _with_validity(connection: Connection, kind: EntityKind, document_ids: Iterable[int], validity: int) -> set[int]:
    """The documents with an entity of that kind and validity."""
    own = ENTITY_TABLES[kind].c
    having = select(own.document_id).distinct().where(own.validity == validity)
    return {row.document_id for row in rows_with(connection, having, own.document_id, document_ids)}


def _judge_quiet(connection: Connection, documents: Collection[StoredDocument], basis: JudgingBasis) -> None:
    """Record that documents without present and former findings are valid."""
    unjudged = _by_entity_kind(document for document in documents if not document.was_judged)
    for kind, ids in _by_entity_kind(document for document in documents if document.was_judged).items():
        unjudged.setdefault(kind, []).extend(_with_validity(connection, kind, ids, Validity.UNJUDGED))
    for kind, ids in unjudged.items():
        change_rows(connection, ENTITY_TABLES[kind].c.document_id, ids, _UNJUDGED[kind], validity=Validity.VALID)
    changed = set[int]().union(*unjudged.values())
    judged = {"judged_at": utc_now(), "judged_by": basis.signature}
    change_rows(connection, DOCUMENT.c.id, changed, **judged, contexts_built=False)
    change_rows(connection, DOCUMENT.c.id, {document.id for document in documents} - changed, **judged)


def _by_entity_kind(documents: Iterable[StoredDocument]) -> dict[EntityKind, list[int]]:
    """The ids of the documents that may have a kind of entity."""
    ids: dict[EntityKind, list[int]] = {}
    for document in documents:
        for kind in kinds_in(DocumentKind(document.kind)):
            ids.setdefault(kind, []).append(document.id)
    return ids
