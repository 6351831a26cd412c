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
(`holding`).

An edit or delete with data of a centre that its archive may not change is refused as a whole; an addition with such
data is held (`ownership`).

New additions share their statements: first each one's result is decided, from the database and the additions before it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine, Row, Table, func, insert, select

from dcc.databases.columns import utc_now
from dcc.databases.list_parameters import change_rows, rows_with
from dcc.databases.transactions import run_writing
from dcc.documents.origins import Origin
from dcc.naming import Action
from dcc.qc.apply.entity_rows import NUMBERED_TABLES, copy_rows, loader_on
from dcc.qc.apply.ownership import NotPermitted, OtherCentre, OtherCentres
from dcc.qc.apply.upload_findings import (
    FindingCollector,
    UploadFinding,
    UploadJudgement,
    duplicate,
    findings_of,
    judge,
    late,
    not_permitted,
    too_long,
)
from dcc.qc.apply.upload_lock import PATIENCE_SECONDS, IdReservation, lock_centres, reserve_ids
from dcc.qc.apply.versions import (
    Version,
    current_versions,
    end_versions,
    experiments_about,
    open_versions,
)
from dcc.qc.models import BLOCK, DOCUMENT, ENTITY_TABLES, FINDING, LIFETIME, MEASUREMENT, RUN
from dcc.qc.rows.building import NUMBERED
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
    path_of_document,
    refuse_held_applications,
    replace_former_applications,
    same_document,
    update_tracker_id,
)
from dcc.qc.rows.entity_keys import Key
from dcc.qc.rows.prepared_file import Entries, PreparedDocument
from dcc.rights import Rights
from dcc.rules.upload import OWNERSHIP
from dcc.vocabulary import DocumentState, EntityKind

_COUNTS: Final = (*(f"{kind}s" for kind in EntityKind), "measurements")
"""The columns of `document` that count what it says."""


@dataclass(frozen=True, slots=True)
class AppliedDocument:
    """The result of a document.

    `repeated`: it was applied before, under this name or another, and nothing was changed. `said` counts its entities
    by kind, and its measurements; `procedures` its measurements by procedure; `opened` and `ended` the versions that it
    opened and ended, by kind. `refused` counts entities that did not take effect; `findings` say why, and whether the
    document came late. For a held document they say what applying it would do. `others` are the centres other than its
    archive's whose data it changed; of a held or refused one, that it names. `confirmed_by` is who confirmed it.
    """

    document_id: int
    state: DocumentState
    said: dict[str, int]
    repeated: bool = False
    late: bool = False
    opened: dict[str, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    findings: tuple[UploadFinding, ...] = ()
    procedures: dict[str, int] = field(default_factory=dict)
    others: tuple[OtherCentre, ...] = ()
    confirmed_by: str | None = None


class DocumentWithRows(NamedTuple):
    """A document and its rows."""

    document: DocumentToApply
    prepared: PreparedDocument


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
    foreign_additions: NotPermitted = NotPermitted.REFUSE,
) -> list[AppliedDocument]:
    """Apply documents within a write transaction; see `apply_documents`.

    `foreign_additions` decides on an addition with data of a centre that its archive may not change: REFUSE holds it.
    """
    centres = {centre for document, prepared in documents for centre in (document.centre, *prepared.centres)}
    lock_centres(connection, centres)
    reserved = reserve_ids(connection, centres, _rows_of(documents))
    application = _Application(connection, documents, reserved, hold_threshold, foreign_additions)
    known = known_documents(connection, [document for document, _ in documents])
    applied: list[AppliedDocument] = []
    together: list[DocumentWithRows] = []
    for place, one in enumerate(documents):
        if place not in known and one.document.action is Action.ADD:
            together.append(one)
            continue
        applied += application.apply(together)
        together.clear()
        applied.append(application.apply_alone(one) if place in known else application.apply([one])[0])
    return applied + application.apply(together)


def _rows_of(documents: Sequence[DocumentWithRows]) -> dict[Table, int]:
    """The most rows that documents add to each table with reserved ids."""
    rows = dict.fromkeys((DOCUMENT, *NUMBERED_TABLES), 0)
    rows[DOCUMENT] = len(documents)
    for _, prepared in documents:
        for table in NUMBERED_TABLES[:-1]:
            before, last = prepared.rows[table.name]
            rows[table] += last - before
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
        foreign_additions: NotPermitted,
    ) -> None:
        self._connection, self._documents = connection, documents
        self._hold_threshold, self._foreign_additions = hold_threshold, foreign_additions
        self._next, self._at = reserved
        self._newest = NewestDates(connection, [document for document, _ in documents])
        self._applied: dict[int, DocumentWithRows] = {}
        self._current = _CurrentVersions(connection)

    def apply_alone(self, one: DocumentWithRows) -> AppliedDocument:
        """Apply a document that the database may have already."""
        document = one.document
        former = former_applications(self._connection, document)
        for row in former:
            # Of a duplicate, a killed session may have left a row without counts.
            is_same = document.tracker_id is not None and row.tracker_id == document.tracker_id
            counts = is_same or any(getattr(row, name) for name in _COUNTS)
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
        begins = dict(self._next)
        self._current = _CurrentVersions(self._connection)
        entries: Sequence[Iterable[Entries]] = [prepared.entries() for _, prepared in documents]
        if len(entries) > 1:
            # They are small, and nearly always new: one query is for all.
            entries = [list(some) for some in entries]
            self._current.ask_about(chain.from_iterable(entries))
        decided = [self._decide(one, some, confirmed) for one, some in zip(documents, entries, strict=True)]
        if former is not None:
            replace_former_applications(
                self._connection, decided[0].document, self._row_of(decided[0]), former, confirmed
            )
        else:
            insert_documents(self._connection, [self._row_of(decision) for decision in decided])
        self._write_rows([decision for decision in decided if decision.keeps_rows], begins)
        for one in decided:
            self._note(one)
        return [decision.applied for decision in decided]

    def _write_rows(self, taken: Sequence[_Decision], begins: Mapping[str, int]) -> None:
        """Write the rows of documents, and the lifetimes that they end and open; `begins` are the first new ids."""
        loader = loader_on(self._connection)
        # Consecutive documents of a file have the same offsets.
        for _, some in groupby(taken, key=lambda one: (one.prepared.file, one.given)):
            together = list(some)
            copy_rows(self._connection, [decision.prepared for decision in together], together[0].given, loader)
        loader.flush()
        for one in taken:
            for kind, ids in one.not_current.items():
                change_rows(self._connection, ENTITY_TABLES[kind].c.id, ids, is_current=False)
            for kind, ids in one.ended.items():
                end_versions(self._connection, kind, ids, one.document_id)
        for kind, table in ENTITY_TABLES.items():
            new = range(begins[table.name], self._next[table.name])
            if new:
                open_versions(self._connection, kind, new, self._next[LIFETIME.name])
                self._next[LIFETIME.name] += len(new)

    def _row_of(self, one: _Decision) -> dict[str, Any]:
        applied, prepared = one.applied, one.prepared
        row = document_row(one.document, prepared.content, one.document_id, self._at, origin=prepared.origin)
        return row | {"state": applied.state.value, "late": applied.late} | applied.said

    def _note(self, one: _Decision) -> None:
        """Write the findings."""
        # An addition that waits for permission has its reason; one that would change much gets it when it is confirmed.
        held_for = tuple(finding for finding in one.applied.findings if finding.rule == OWNERSHIP)
        kept = held_for if one.applied.state is DocumentState.HELD else one.applied.findings
        _write_findings(self._connection, one.document, one.document_id, kept)

    def _decide(self, one: DocumentWithRows, entries: Iterable[Entries], confirmed: Row[Any] | None) -> _Decision:
        document, rows = one.document, one.prepared.rows
        newest = self._newest.before(document)
        if_not_permitted = self._if_not_permitted(one, confirmed)
        is_held = if_not_permitted is NotPermitted.REFUSE and document.action is Action.ADD
        document_id = self._next[DOCUMENT.name]
        self._next[DOCUMENT.name] += 1
        given = {table: self._next[table] - 1 - rows[table][0] for table in NUMBERED}
        to_do = NotPermitted.NOTE if is_held else if_not_permitted
        decision = _Decision(self._current, one, document_id, given, to_do)
        if newest is not None:
            decision.findings.add(late(document.created, newest))
        decision.take_all(entries, is_late=newest is not None)
        applied = decision.applied
        original = self._original_of(one, decision) if if_not_permitted is NotPermitted.CONFIRMED else None
        if original is not None:
            nothing = dict.fromkeys(_COUNTS, 0)
            findings = (duplicate(original),)
            applied = AppliedDocument(document_id, DocumentState.APPLIED, nothing, repeated=True, findings=findings)
        elif confirmed is not None:
            applied = replace(applied, confirmed_by=confirmed.author)
        elif is_held:
            why = tuple(finding for finding in applied.findings if finding.rule == OWNERSHIP)
            others = decision.others.counts(effective=False)
            applied = replace(applied, state=DocumentState.HELD, findings=why, others=others)
        elif self._hold_threshold is not None and sum(applied.ended.values()) > self._hold_threshold:
            applied = replace(applied, state=DocumentState.HELD)
        decision.applied = applied
        if decision.keeps_rows:
            self._current.update(decision)
            for table in NUMBERED:
                before, last = rows[table]
                self._next[table] += last - before
        if applied.state is DocumentState.APPLIED and not applied.repeated:
            self._newest.add(document)
            self._applied[document_id] = one
        return decision

    def _original_of(self, one: DocumentWithRows, decision: _Decision) -> DocumentPlace | None:
        """The place of an applied document with the same content; None if there is none."""
        document, content, owners = one.document, one.prepared.content, decision.owners
        if document.action is Action.DELETE:
            return same_document(self._connection, document, content, None) if owners == {None} else None
        if len(owners) != 1 or (owner := next(iter(owners))) is None:
            return None
        if owner not in self._applied:
            return same_document(self._connection, document, content, owner)
        written = self._applied[owner]
        return written.document.place if written.prepared.content == content else None

    def _if_not_permitted(self, one: DocumentWithRows, confirmed: Row[Any] | None) -> NotPermitted:
        """What to do about data of centres that the archive may not change."""
        document = one.document
        if confirmed is not None and document.action is Action.ADD:
            return NotPermitted.CONFIRMED
        if all(map(document.may_change, one.prepared.centres)):
            return NotPermitted.CONFIRMED
        return self._foreign_additions if document.action is Action.ADD else NotPermitted.REFUSE


class _CurrentVersions:
    """The current versions of entities, in the database and in decided documents that are not written yet.

    None: there is none.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._known: dict[EntityKind, dict[Key, Version | None]] = {kind: {} for kind in EntityKind}
        self._paths: dict[int, str] = {}

    def ask_about(self, entries: Iterable[Entries]) -> None:
        """Query all entities of some documents at once."""
        named: dict[EntityKind, set[Key]] = {}
        for some in entries:
            if some.kind is not None:
                named.setdefault(some.kind, set()).update(some.keys)
        for kind, keys in named.items():
            self.of(kind, keys)

    def of(self, kind: EntityKind, keys: Collection[Key]) -> dict[Key, Version]:
        """The current versions of these entities, if they have one."""
        known = self._known[kind]
        unknown = [key for key in keys if key not in known]
        if unknown:
            known.update(dict.fromkeys(unknown))
            known.update(current_versions(self.connection, kind, unknown))
        return {key: version for key in keys if (version := known[key]) is not None}

    def path_of(self, document_id: int) -> str:
        """The path of the document of a version."""
        if document_id not in self._paths:
            self._paths[document_id] = path_of_document(self.connection, document_id)
        return self._paths[document_id]

    def update(self, decision: _Decision) -> None:
        """Include the versions that a document opens or ends."""
        self._paths[decision.document_id] = decision.document.place.path
        for kind, versions in decision.opened.items():
            self._known[kind].update(versions)


class _Decision:
    """Decides the result of one document, in rows with their final ids.

    `applied` is the result. `opened` are the versions that it leaves, `ended` those that it ends, and `not_current` its
    own ones that do not take effect. `owners` are the documents of the current versions of its entities; None for an
    entity that is missing, or cannot be stored. `given` is for `copy_rows`.
    """

    applied: AppliedDocument

    def __init__(
        self,
        current: _CurrentVersions,
        one: DocumentWithRows,
        document_id: int,
        given: dict[str, int],
        if_not_permitted: NotPermitted,
    ) -> None:
        self._current, self.document_id, self._if_not_permitted = current, document_id, if_not_permitted
        self.document, self.prepared = one
        self._opens = self.document.action is not Action.DELETE and if_not_permitted is not NotPermitted.REFUSE
        shift = document_id - self.prepared.number
        self.given = {**given, "document": shift, "are_current": int(self._opens)}
        self.ended: defaultdict[EntityKind, list[int]] = defaultdict(list)
        self.not_current: defaultdict[EntityKind, list[int]] = defaultdict(list)
        self._counts, self._opened = Counter[EntityKind](), Counter[EntityKind]()
        self._refused = 0
        self.owners: set[int | None] = set()
        self.opened: dict[EntityKind, dict[Key, Version | None]] = {kind: {} for kind in EntityKind}
        self.others = OtherCentres(self.document.rights)
        self.findings = FindingCollector(Origin.from_json(self.prepared.origin))

    @property
    def keeps_rows(self) -> bool:
        """Whether more than its own row is kept."""
        return self.applied.state is not DocumentState.HELD and not self.applied.repeated

    def take_all(self, entries: Iterable[Entries], *, is_late: bool) -> None:
        """Decide all entities of the document, and its result."""
        for some in entries:
            if some.kind is None:
                self._take_blocks(some)
            else:
                self._take(some, some.kind)
        ended = {kind.value: len(ids) for kind, ids in self.ended.items()}
        opened = {kind.value: self._opened[kind] for kind in EntityKind if self._opened[kind]}
        state = DocumentState.REFUSED if self._refused and not (opened or ended) else DocumentState.APPLIED
        counts = {f"{kind}s": self._counts[kind] for kind in EntityKind}
        self.applied = AppliedDocument(
            self.document_id,
            state,
            counts | {"measurements": sum(self.prepared.measured.values())},
            late=is_late,
            opened=opened,
            ended=ended,
            refused=self._refused,
            findings=self.findings.all(),
            procedures=dict(self.prepared.measured),
            others=self.others.counts(effective=state is DocumentState.APPLIED),
        )

    def _take_blocks(self, some: Entries) -> None:
        """Record too long texts in centre elements, and data that the document may not change."""
        document, named = self.document, set(self.prepared.centres)
        own = None if document.rights is None else document.rights.own
        for line, path, (name,), excess in zip(some.lines, some.paths, some.keys, some.too_long, strict=True):
            centre = str(name)
            if excess is not None:
                self.findings.add(too_long(line, "centre element", excess)._replace(path=path))
            if (
                self._if_not_permitted is not NotPermitted.CONFIRMED
                and centre in named
                and not document.may_change(centre)
            ):
                self.findings.add(not_permitted(document.action, own, centre, line))

    def _take(self, some: Entries, kind: EntityKind) -> None:
        """Decide entities; those without a row do not take effect."""
        self._counts[kind] += len(some.keys)
        self.others.name(some.keys, kind)
        if None in some.row_ids:
            some = self._stored(some, kind)
        if self._if_not_permitted is NotPermitted.REFUSE:
            self._refused += len(some.keys)
            return
        base = self.given[kind.value]
        row_ids = [base + (row_id or 0) for row_id in some.row_ids]
        if self.document.action is not Action.ADD or not self._are_new(kind, some.keys):
            self._judge(kind, some, row_ids)
            return
        # Nearly always so, and much faster than deciding each.
        self.owners.add(None)
        self.others.take_effect(some.keys, kind)
        self._opened[kind] += len(row_ids)
        versions = [Version(row_id, self.document_id) for row_id in row_ids]
        self.opened[kind].update(zip(some.keys, versions, strict=True))

    def _stored(self, some: Entries, kind: EntityKind) -> Entries:
        """Those with rows; the others are recorded and refused."""
        entries = list(zip(*some[1:], strict=True))
        for line, path, key, row_id, excess in entries:
            if row_id is None:
                self._refused += 1
                self.owners.add(None)
                if excess is not None:
                    self.findings.add(too_long(line, kind.value, excess, key)._replace(path=path))
        stored = [entry for entry in entries if entry[3] is not None]
        return Entries(kind, *(map(list, zip(*stored, strict=True)) if stored else ([], [], [], [], [])))

    def _are_new(self, kind: EntityKind, keys: Sequence[Key]) -> bool:
        """Whether all entities are new, and each is named once."""
        different = set(keys)
        is_there = self._current.of(kind, different) or not self.opened[kind].keys().isdisjoint(different)
        return not is_there and len(different) == len(keys)

    def _judge(self, kind: EntityKind, some: Entries, row_ids: Sequence[int]) -> None:
        """Decide each of some entities."""
        action, keys = self.document.action, set(some.keys)
        asked = keys | {_without_results(action, kind, key) for key in keys}
        current = self._current.of(kind, asked)
        changed = self.opened[kind]
        for key, version in changed.items():
            if key in asked:
                current.pop(key, None)
                if version is not None:
                    current[key] = version
        held: dict[Key, list[str]] = {}
        if action is Action.DELETE and kind is EntityKind.SPECIMEN:
            held = experiments_about(self._current.connection, keys)
        for line, path, key, row_id in zip(some.lines, some.paths, some.keys, row_ids, strict=True):
            there_as = key if key in current else _without_results(action, kind, key)
            current_version = current.get(there_as)
            if current_version is None or current_version.document_id != self.document_id:
                self.owners.add(current_version and current_version.document_id)
            judgement = UploadJudgement(
                action, kind, key, current_version, self.document_id, held.get(key, ()), self._current.path_of
            )
            finding = judge(judgement, line, row_id)
            if finding is not None:
                self._refused += 1
                self.findings.add(finding._replace(path=path))
                if self._opens:
                    self.not_current[kind].append(row_id)
                continue
            self.others.take_effect([key], kind)
            if current_version is not None:
                self.ended[kind].append(current_version.id)
                del current[there_as]
                changed[there_as] = None
            if self._opens:
                current[key] = changed[key] = Version(row_id, self.document_id)
                self._opened[kind] += 1


def _without_results(action: Action, kind: EntityKind, key: Key) -> Key:
    """The key that an edited experiment had without results, with a status code alone; else its own."""
    return (*key[:3], None) if action is Action.EDIT and kind is EntityKind.EXPERIMENT else key


def _write_findings(
    connection: Connection, document: DocumentToApply, document_id: int, findings: Sequence[UploadFinding]
) -> None:
    if findings:
        common = {"document_id": document_id, "tracker_id": document.tracker_id, "created": utc_now()}
        connection.execute(insert(FINDING), [finding.columns() | common for finding in findings])


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
        {name: getattr(row, name) for name in _COUNTS},
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
