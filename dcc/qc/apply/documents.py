"""Applies documents to the QC database: the meaning of add, edit and delete.

Documents are prepared as rows before (`qc.rows.prepared_file`). Applying them is one write transaction that has locked
their centres, so that one document of a centre is applied at a time. All of a document's content is kept, even refused
parts and the targets of a delete; the lifetimes of versions show what took effect:

- add opens a version of a missing entity; an existing one is refused and left as it is;
- edit opens a version in the place of the current one; a missing entity is refused. An experiment with a status code
  and no procedure may be edited to one with results;
- delete ends the current version; a missing entity is refused, and so is a specimen with current experiments.

Refused parts of a document do not keep the rest from taking effect. An applied document is not applied again, unless it
is an edit whose data have changed since; nor is one with the same content under another name, while all of its entities
still have that content. One that would end too many entities is held: only its own row stays, until it is confirmed
(`holding`).

An edit or delete with data of a centre that its archive may not change is refused as a whole; an addition with such
data is held (`ownership`).

New additions share their statements: first each one's result is decided, from the database and the additions before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine, Row, Table, func, insert, select, update

from dcc.databases.columns import utc_now
from dcc.databases.list_parameters import change_rows, rows_with
from dcc.databases.transactions import run_writing
from dcc.documents.origins import Origin
from dcc.naming import Action
from dcc.qc.apply.entity_rows import NUMBERED_TABLES, copy_rows, loader_on
from dcc.qc.apply.ownership import NotPermitted, OtherCentre, OtherCentres
from dcc.qc.apply.upload_findings import (
    FindingsKept,
    Judgement,
    UploadFinding,
    duplicate,
    findings_of,
    judge,
    late,
    not_permitted,
    too_long,
)
from dcc.qc.apply.upload_lock import PATIENCE_SECONDS, Reserved, lock_centres, reserve_ids
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
    follow_tracker,
    former_applications,
    give_way,
    insert_documents,
    is_confirmed,
    is_edited_since,
    known_documents,
    refuse_held,
    same_document,
)
from dcc.qc.rows.entity_keys import Key
from dcc.qc.rows.prepared_file import Entries, PreparedDocument
from dcc.rights import Rights
from dcc.rules.upload import OWNERSHIP
from dcc.vocabulary import DocumentState, EntityKind

_COUNTED: Final = {
    EntityKind.SPECIMEN: "specimens",
    EntityKind.EXPERIMENT: "experiments",
    EntityKind.LINE: "lines",
    EntityKind.HOUSING: "housings",
}
"""The columns of `document` that count its entities."""

_COUNTS: Final = (*_COUNTED.values(), "measurements")


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of a document.

    `repeated`: it was applied before, under this name or another, and nothing was changed. `said` counts its entities
    by kind, and its measurements; `procedures` its measurements by procedure; `opened` and `ended` the versions that it
    opened and ended, by kind. `refused` counts entities that did not take effect; `findings` say why, and whether the
    document came late. For a held document they say what applying it would do. `others` are the centres other than its
    archive's whose data it changed; of a held or refused one, that it names. `confirmed_by` is who confirmed it.
    """

    document_id: int
    state: DocumentState
    repeated: bool
    late: bool
    said: dict[str, int]
    opened: dict[str, int]
    ended: dict[str, int]
    refused: int
    findings: tuple[UploadFinding, ...]
    procedures: dict[str, int] = field(default_factory=dict)
    others: tuple[OtherCentre, ...] = ()
    confirmed_by: str | None = None


class ToApply(NamedTuple):
    """A document and its rows."""

    document: DocumentToApply
    prepared: PreparedDocument


def apply_documents(
    engine: Engine,
    documents: Sequence[ToApply],
    *,
    patience_seconds: float = PATIENCE_SECONDS,
    hold_above: int | None = None,
) -> list[Applied]:
    """Apply documents in their order, in one transaction; returns their results.

    An exception leaves no row behind. An edit or delete that would end more than `hold_above` entities is held, unless
    it was confirmed; None: no limit. On SQLite the documents are in `MOST_ATTACHED` prepared files at most. Raises the
    database's `unreachable` error if others were in the way, or the database away, for `patience_seconds`.
    """
    return run_writing(
        engine,
        lambda connection: apply_on(connection, documents, hold_above=hold_above),
        patience_seconds=patience_seconds,
    )


def apply_on(
    connection: Connection,
    documents: Sequence[ToApply],
    *,
    hold_above: int | None = None,
    foreign_additions: NotPermitted = NotPermitted.REFUSE,
) -> list[Applied]:
    """Apply documents within a write transaction; see `apply_documents`.

    `foreign_additions` decides on an addition with data of a centre that its archive may not change: REFUSE holds it.
    """
    centres = {centre for one in documents for centre in (one.document.centre, *one.prepared.centres)}
    lock_centres(connection, centres)
    reserved = reserve_ids(connection, centres, _rows_of(documents))
    known = known_documents(connection, [one.document for one in documents])
    applied: list[Applied] = []
    together: list[ToApply] = []

    def apply_together() -> None:
        if together:
            applied.extend(_Application(connection, together, reserved, hold_above, foreign_additions).apply())
            together.clear()

    for place, one in enumerate(documents):
        if place not in known and one.document.action is Action.ADD:
            together.append(one)
            continue
        apply_together()
        applied.append(_apply_alone(connection, one, reserved, hold_above, foreign_additions, is_known=place in known))
    apply_together()
    return applied


def _rows_of(documents: Sequence[ToApply]) -> dict[Table, int]:
    """The most rows that documents add to each table with reserved ids."""
    rows = dict.fromkeys((DOCUMENT, *NUMBERED_TABLES), 0)
    rows[DOCUMENT] = len(documents)
    for one in documents:
        for table in NUMBERED_TABLES[:-1]:
            before, last = one.prepared.rows[table.name]
            rows[table] += last - before
    rows[LIFETIME] = sum(rows[table] for table in ENTITY_TABLES.values())
    return rows


def _apply_alone(
    connection: Connection,
    one: ToApply,
    reserved: Reserved,
    hold_above: int | None,
    foreign_additions: NotPermitted,
    *,
    is_known: bool,
) -> Applied:
    """Apply a document that changes data, or that the database may have already."""
    document = one.document
    former = former_applications(connection, document) if is_known else None
    for row in former or ():
        has_effect = row.state == DocumentState.APPLIED.value and any(getattr(row, name) for name in _COUNTS)
        if has_effect and not is_edited_since(connection, document, row.id):
            refuse_held(connection, former or ())
            return _repeated(connection, row, document)
    confirmed = next((row for row in former or () if is_confirmed(row, document)), None)
    application = _Application(connection, [one], reserved, hold_above, foreign_additions)
    (applied,) = application.apply(former, confirmed)
    return applied


@dataclass(eq=False)
class _Decided:
    """A document's decided result, in rows with their final ids."""

    one: ToApply
    applied: Applied
    given: dict[str, int]
    ended: dict[EntityKind, list[int]] = field(default_factory=dict)
    not_current: dict[EntityKind, list[int]] = field(default_factory=dict)

    @property
    def is_held(self) -> bool:
        """Whether it waits for confirmation."""
        return self.applied.state is DocumentState.HELD

    @property
    def keeps_rows(self) -> bool:
        """Whether more than its own row is kept."""
        return not self.is_held and not self.applied.repeated


class _Application:
    """Documents that are being applied: several new additions, or one other.

    Each one's result is decided in memory; then all are written.
    """

    def __init__(
        self,
        connection: Connection,
        documents: Sequence[ToApply],
        reserved: Reserved,
        hold_above: int | None,
        foreign_additions: NotPermitted,
    ) -> None:
        self._connection, self._documents = connection, documents
        self._hold_above, self._foreign_additions = hold_above, foreign_additions
        self._next, self._at = reserved
        self._first = dict(self._next)
        self._newest = NewestDates(connection, [one.document for one in documents])
        self._current = _CurrentVersions(connection)
        self._applied: dict[int, ToApply] = {}

    def apply(self, former: Sequence[Row[Any]] | None = None, confirmed: Row[Any] | None = None) -> list[Applied]:
        """Apply the documents, replacing `former` applications of a single one; `confirmed` is one of these."""
        told: Sequence[Iterable[Entries]] = [one.prepared.entries() for one in self._documents]
        if len(told) > 1:
            # They are small, and nearly always new: one query is for all.
            told = [list(some) for some in told]
            self._current.ask_about(chain.from_iterable(told))
        decided = [self._decide(one, some, confirmed) for one, some in zip(self._documents, told, strict=True)]
        if former is not None:
            (only,) = decided
            give_way(self._connection, only.one.document, self._row_of(only), former, confirmed)
            _write_result(self._connection, only)
        else:
            insert_documents(self._connection, [self._row_of(one) | _result(one) for one in decided])
        taken = [one for one in decided if one.keeps_rows]
        loader = loader_on(self._connection)
        # Consecutive documents of a file have the same offsets.
        for _, some in groupby(taken, key=lambda one: (one.one.prepared.file, one.given)):
            together = list(some)
            copy_rows(self._connection, [one.one.prepared for one in together], together[0].given, loader)
        loader.flush()
        for one in taken:
            self._end(one)
        for kind, table in ENTITY_TABLES.items():
            first, following = self._first[table.name], self._next[table.name]
            if following > first:
                new_id = self._next[LIFETIME.name]
                open_versions(self._connection, kind, range(first, following), new_id)
                self._next[LIFETIME.name] += following - first
        for one in decided:
            self._note(one)
        return [one.applied for one in decided]

    def _row_of(self, one: _Decided) -> dict[str, Any]:
        prepared = one.one.prepared
        return document_row(
            one.one.document, prepared.content, one.applied.document_id, self._at, origin=prepared.origin
        )

    def _end(self, one: _Decided) -> None:
        """Write which versions of entities end, and which of the written ones did not take effect."""
        for kind, ids in one.not_current.items():
            change_rows(self._connection, ENTITY_TABLES[kind].c.id, ids, is_current=False)
        for kind, ids in one.ended.items():
            end_versions(self._connection, kind, ids, one.applied.document_id)

    def _note(self, one: _Decided) -> None:
        """Write the findings."""
        # An addition that waits for permission has its reason; one that would change much gets it when it is confirmed.
        held_for = [finding for finding in one.applied.findings if finding.rule == OWNERSHIP]
        kept = held_for if one.is_held else one.applied.findings
        write_findings(self._connection, one.one.document, one.applied.document_id, kept)

    def _decide(self, one: ToApply, told: Iterable[Entries], confirmed: Row[Any] | None) -> _Decided:
        document = one.document
        newest = self._newest.before(document)
        if_not = self._if_not(one, confirmed)
        is_held = if_not is NotPermitted.REFUSE and document.action is Action.ADD
        document_id = self._next[DOCUMENT.name]
        self._next[DOCUMENT.name] += 1
        rows = one.prepared.rows
        given = {table: self._next[table] - 1 - rows[table][0] for table in NUMBERED}
        decision = _Decision(self._current, one, document_id, given, NotPermitted.NOTE if is_held else if_not)
        if newest is not None:
            decision.findings.add(late(document.created, newest))
        decision.take_all(told)
        decided = decision.decided(is_late=newest is not None)
        applied = decided.applied
        original = self._original_of(one, decision) if if_not is NotPermitted.CONFIRMED else None
        if original is not None:
            decided.applied = replace(
                applied,
                repeated=True,
                late=False,
                said=dict.fromkeys(applied.said, 0),
                state=DocumentState.APPLIED,
                opened={},
                ended={},
                refused=0,
                findings=(duplicate(original),),
                procedures={},
                others=(),
            )
        elif confirmed is not None:
            decided.applied = replace(applied, confirmed_by=confirmed.author)
        elif is_held:
            why = tuple(finding for finding in applied.findings if finding.rule == OWNERSHIP)
            others = decision.others.counts(effective=False)
            decided.applied = replace(applied, state=DocumentState.HELD, findings=why, others=others)
        elif self._hold_above is not None and sum(applied.ended.values()) > self._hold_above:
            decided.applied = replace(applied, state=DocumentState.HELD)
        if decided.keeps_rows:
            self._current.update(decision.opened)
            for table in NUMBERED:
                before, last = rows[table]
                self._next[table] += last - before
        if decided.applied.state is DocumentState.APPLIED and not decided.applied.repeated:
            self._newest.add(document)
            self._applied[document_id] = one
        return decided

    def _original_of(self, one: ToApply, decision: _Decision) -> DocumentPlace | None:
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

    def _if_not(self, one: ToApply, confirmed: Row[Any] | None) -> NotPermitted:
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
        self._connection = connection
        self._known: dict[EntityKind, dict[Key, Version | None]] = {kind: {} for kind in EntityKind}

    def ask_about(self, told: Iterable[Entries]) -> None:
        """Query all entities of some documents at once."""
        named: dict[EntityKind, set[Key]] = {}
        for some in told:
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
            known.update(current_versions(self._connection, kind, unknown))
        return {key: version for key in keys if (version := known[key]) is not None}

    def update(self, changed: dict[EntityKind, dict[Key, Version | None]]) -> None:
        """Include the versions that a document opens or ends."""
        for kind, versions in changed.items():
            self._known[kind].update(versions)

    def experiments_about(self, keys: Collection[Key]) -> dict[Key, list[str]]:
        """The experimentIDs of the current experiments on specimens."""
        return experiments_about(self._connection, keys)


class _Decision:
    """Decides the result of one document.

    `opened` are the versions that it leaves. `owners` are the documents of the current versions of its entities; None
    for an entity that is missing, or cannot be stored.
    """

    def __init__(
        self,
        current: _CurrentVersions,
        one: ToApply,
        document_id: int,
        given: dict[str, int],
        if_not: NotPermitted,
    ) -> None:
        self._current, self._one, self._document_id, self._if_not = current, one, document_id, if_not
        self._document = one.document
        self._opens = one.document.action is not Action.DELETE and if_not is not NotPermitted.REFUSE
        self._base = given
        self._ended: dict[EntityKind, list[int]] = {kind: [] for kind in EntityKind}
        self._not_current: dict[EntityKind, list[int]] = {kind: [] for kind in EntityKind}
        self._said = dict.fromkeys(EntityKind, 0)
        self._opened = dict.fromkeys(EntityKind, 0)
        self._refused = 0
        self.owners: set[int | None] = set()
        self.opened: dict[EntityKind, dict[Key, Version | None]] = {kind: {} for kind in EntityKind}
        self.others = OtherCentres(one.document.rights)
        self.findings = FindingsKept(Origin.from_json(one.prepared.origin))

    def take_all(self, told: Iterable[Entries]) -> None:
        """Decide all entities of the document."""
        for some in told:
            if some.kind is None:
                self._take_blocks(some)
            else:
                self._take(some, some.kind)

    def _take_blocks(self, some: Entries) -> None:
        """Record too long texts in centre elements, and data that the document may not change."""
        document, named = self._document, set(self._one.prepared.centres)
        own = None if document.rights is None else document.rights.own
        for line, path, (name,), excess in zip(some.lines, some.paths, some.keys, some.too_long, strict=True):
            centre = str(name)
            if excess is not None:
                self.findings.add(too_long(line, "centre element", excess)._replace(path=path))
            if self._if_not is not NotPermitted.CONFIRMED and centre in named and not document.may_change(centre):
                self.findings.add(not_permitted(document.action, own, centre, line))

    def _take(self, some: Entries, kind: EntityKind) -> None:
        """Decide entities; those without a row do not take effect."""
        self._said[kind] += len(some.keys)
        self.others.name(some.keys, kind)
        if None in some.row_ids:
            some = self._stored(some, kind)
        if self._if_not is NotPermitted.REFUSE:
            self._refused += len(some.keys)
            return
        base = self._base[kind.value]
        row_ids = [base + (row_id or 0) for row_id in some.row_ids]
        if self._document.action is not Action.ADD or not self._are_new(kind, some.keys):
            self._judge(kind, some, row_ids)
            return
        # Nearly always so, and much faster than deciding each.
        self.owners.add(None)
        self.others.take_effect(some.keys, kind)
        self._opened[kind] += len(row_ids)
        versions = [Version(row_id, self._document_id) for row_id in row_ids]
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
        action, keys = self._document.action, set(some.keys)
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
            held = self._current.experiments_about(keys)
        for line, path, key, row_id in zip(some.lines, some.paths, some.keys, row_ids, strict=True):
            there_as = key if key in current else _without_results(action, kind, key)
            there = current.get(there_as)
            if there is None or there.document_id != self._document_id:
                self.owners.add(there and there.document_id)
            judgement = Judgement(action, kind, key, there, self._document_id, held.get(key, ()))
            finding = judge(judgement, line, row_id)
            if finding is not None:
                self._refused += 1
                self.findings.add(finding._replace(path=path))
                if self._opens:
                    self._not_current[kind].append(row_id)
                continue
            self.others.take_effect([key], kind)
            if there is not None:
                self._ended[kind].append(there.id)
                del current[there_as]
                changed[there_as] = None
            if self._opens:
                current[key] = changed[key] = Version(row_id, self._document_id)
                self._opened[kind] += 1

    def decided(self, *, is_late: bool) -> _Decided:
        """The document's result."""
        prepared = self._one.prepared
        ended = {kind.value: len(ids) for kind, ids in self._ended.items() if ids}
        opened = {kind.value: number for kind, number in self._opened.items() if number}
        state = DocumentState.REFUSED if self._refused and not (opened or ended) else DocumentState.APPLIED
        said = {_COUNTED[kind]: number for kind, number in self._said.items()}
        said["measurements"] = sum(prepared.measured.values())
        applied = Applied(
            self._document_id,
            state,
            repeated=False,
            late=is_late,
            said=said,
            opened=opened,
            ended=ended,
            refused=self._refused,
            findings=self.findings.all(),
            procedures=dict(prepared.measured),
            others=self.others.counts(effective=state is DocumentState.APPLIED),
        )
        shift = self._document_id - prepared.number
        given = {**self._base, "document": shift, "are_current": int(self._opens)}
        return _Decided(self._one, applied, given, self._ended, self._not_current)


def _write_result(connection: Connection, one: _Decided) -> None:
    """Write the result of a document whose row exists."""
    connection.execute(update(DOCUMENT).where(DOCUMENT.c.id == one.applied.document_id).values(_result(one)))


def _result(one: _Decided) -> dict[str, Any]:
    return {"state": one.applied.state.value, "late": one.applied.late} | one.applied.said


def _without_results(action: Action, kind: EntityKind, key: Key) -> Key:
    """The key that an edited experiment had without results, with a status code alone; else its own."""
    return (*key[:3], None) if action is Action.EDIT and kind is EntityKind.EXPERIMENT else key


def write_findings(
    connection: Connection, document: DocumentToApply, document_id: int, findings: Sequence[UploadFinding]
) -> None:
    """Write the findings on a document."""
    if not findings:
        return
    common = {
        "document_id": document_id,
        "tracker_id": document.tracker_id,
        "is_active": True,
        "created": utc_now(),
    }
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


def _repeated(connection: Connection, row: Row[Any], document: DocumentToApply) -> Applied:
    # A repeated document yields nothing new: it was reported when it was applied.
    is_unheard_of = row.tracker_id == document.tracker_id
    follow_tracker(connection, row, document)
    counts = {name: getattr(row, name) for name in _COUNTS}
    return Applied(
        row.id,
        DocumentState(row.state),
        repeated=True,
        late=row.late,
        said=counts,
        opened={},
        ended={},
        refused=0,
        findings=findings_of(connection, row.id),
        procedures=_measurements_by_procedure(connection, row.id),
        others=others_of(connection, [row.id], document.rights) if is_unheard_of else (),
        confirmed_by=row.author,
    )


def others_of(connection: Connection, document_ids: Sequence[int], rights: Rights | None) -> tuple[OtherCentre, ...]:
    """The centres other than the archive's in stored documents, without counts."""
    if rights is None:
        return ()
    blocks = rows_with(connection, select(BLOCK.c.centre).distinct(), BLOCK.c.document_id, document_ids)
    return tuple(OtherCentre(centre, {}) for centre in sorted({row.centre for row in blocks} - {rights.own}))
