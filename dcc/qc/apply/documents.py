"""Documents applied to the QC database: what add, edit and delete mean.

A document is one write transaction under the upload lock, so that one is applied at a time whoever applies it. All that
it says is kept, also what was refused and what a delete names; the lifetimes of versions tell what took effect:

* add opens a version of what is not there; what is there is refused and left as it is;
* edit opens a version in the place of the current one; what is not there is refused. An experiment that had a status
  code and no procedure is there for one with results too;
* delete ends the current version; what is not there is refused, and so is a specimen with current experiments.

What is refused of a document does not keep the rest of it from taking effect. A document that was applied and stands is
not applied again, unless it is an edit that came with other contents since. One that would end more than its reader
allows is held: nothing but its own row stays, until it is confirmed (`holding`).

An edit or delete with data of a centre that its archive does not speak for is refused as a whole; an addition with such
data is held (`ownership`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine, Row, bindparam, func, insert, select, update

from dcc.databases.columns import utc_now
from dcc.databases.transactions import run_writing
from dcc.documents import contents as said
from dcc.documents.entity_paths import element_name, path_of_centre
from dcc.errors import InternalFaultError
from dcc.naming import Action
from dcc.qc.apply.entity_keys import Key, key_of, kind_of
from dcc.qc.apply.entity_rows import (
    DOCUMENT_TABLES,
    ENTITY_TABLES,
    NUMBERED_TABLES,
    DocumentRows,
    EntityRow,
    TooLong,
    entity_values,
)
from dcc.qc.apply.ownership import NotPermitted, NotPermittedError, OtherCentre, OtherCentres
from dcc.qc.apply.upload_findings import (
    FindingsKept,
    Judgement,
    UploadFinding,
    findings_of,
    judge,
    late,
    not_permitted,
    too_long,
)
from dcc.qc.apply.upload_lock import take_upload_lock
from dcc.qc.apply.versions import (
    CHUNK,
    Version,
    current_versions,
    end_versions,
    experiments_about,
)
from dcc.qc.models import CentreBlock, Document, Finding, Lifetime, Measurement, ProcedureRun
from dcc.qc.rows.bulk import BulkInserter, Counters
from dcc.qc.rows.documents import (
    DocumentToApply,
    follow_tracker,
    former_applications,
    give_way,
    is_confirmed,
    is_edited_since,
    newest_before,
    refuse_held,
)
from dcc.rights import Rights
from dcc.rules.upload import OWNERSHIP
from dcc.vocabulary import DocumentState, EntityKind

__all__ = ["PATIENCE_SECONDS", "Applied", "DocumentToApply", "apply_document", "apply_on"]

PATIENCE_SECONDS: Final = 3_600.0
"""How long a document waits for others to be applied."""

_DOCUMENT: Final = Document.__table__
COUNTED: Final = {
    EntityKind.SPECIMEN: "specimens",
    EntityKind.EXPERIMENT: "experiments",
    EntityKind.LINE: "lines",
    EntityKind.HOUSING: "housings",
}
"""The columns of `document` that count its entities."""

_COUNTS: Final = (*COUNTED.values(), "measurements")
_RESULT: Final = (
    update(_DOCUMENT)
    .where(_DOCUMENT.c.id == bindparam("document_id"))
    .values({name: bindparam(f"new_{name}") for name in ("state", "late", *_COUNTS)})
)


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a document.

    `repeated`: it had been applied before, stands, and nothing was changed. `said` counts its entities by kind, and
    its measurements; `procedures` its measurements by procedure; `opened` and `ended` the versions that it opened and
    ended, by kind. `refused` counts entities that did not take effect; `findings` tell why, and whether the document
    came late. Of a document that is held they tell what applying it would come to. `noted` is that of `WholeDocument`.
    `others` are the centres other than its archive's whose data it changed; of one that is held or refused, that it
    names. `confirmed_by` is who confirmed it.
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
    noted: Any = None
    others: tuple[OtherCentre, ...] = ()
    confirmed_by: str | None = None


def apply_document(
    engine: Engine,
    document: DocumentToApply,
    read: Callable[[], Iterable[said.Content]],
    *,
    patience_seconds: float = PATIENCE_SECONDS,
    hold_above: int | None = None,
) -> Applied:
    """Apply a document in one transaction; `read` yields what it says, anew at each call.

    `read` is called again when the transaction is. What it raises leaves no row behind. An edit or delete that would
    end more than `hold_above` entities is held, unless it was confirmed; None: nothing is. Raises the database's
    `unreachable` error when others were in the way, or the database away, for `patience_seconds`.
    """

    def attempt(not_permitted: NotPermitted) -> Applied:
        return run_writing(
            engine,
            lambda connection: apply_on(connection, document, read(), hold_above=hold_above, if_not=not_permitted),
            patience_seconds=patience_seconds,
        )

    try:
        return attempt(NotPermitted.STOP)
    except NotPermittedError:
        return attempt(NotPermitted.REFUSE)


def apply_on(
    connection: Connection,
    document: DocumentToApply,
    contents: Iterable[said.Content],
    *,
    hold_above: int | None = None,
    if_not: NotPermitted = NotPermitted.STOP,
) -> Applied:
    """Apply a document within a write transaction; see `apply_document`.

    `if_not` says what to do when its archive does not speak for a centre in it: to STOP raises `NotPermittedError`, to
    REFUSE an addition is to hold it.
    """
    take_upload_lock(connection)
    former = former_applications(connection, document)
    for row in former:
        if row.state == DocumentState.APPLIED.value and not is_edited_since(connection, document, row.id):
            refuse_held(connection, former)
            return _repeated(connection, row, document)
    confirmed = next((row for row in former if is_confirmed(row, document)), None)
    counters = Counters(connection)
    counters.read([_DOCUMENT, *NUMBERED_TABLES])
    document_id = counters.of(_DOCUMENT)()
    give_way(connection, document, document_id, former, confirmed)
    if document.action is Action.ADD:
        if confirmed is not None:
            if_not = NotPermitted.CONFIRMED
        elif if_not is NotPermitted.REFUSE:
            application = _Application(connection, document, document_id, counters, NotPermitted.NOTE)
            return _hold_addition(connection, document, application, contents)
    application = _Application(connection, document, document_id, counters, if_not)
    if confirmed is not None:
        return replace(_applied(application, contents), confirmed_by=confirmed.author)
    if hold_above is None or document.action is Action.ADD:
        return _applied(application, contents)
    savepoint = connection.begin_nested()
    applied = _applied(application, contents)
    if sum(applied.ended.values()) <= hold_above:
        savepoint.commit()
        return applied
    savepoint.rollback()
    return _hold(connection, applied)


def _applied(application: _Application, contents: Iterable[said.Content]) -> Applied:
    for content in contents:
        application.take(content)
    return application.finish()


def _hold(connection: Connection, applied: Applied) -> Applied:
    _write_result(connection, applied.document_id, DocumentState.HELD, applied.said, is_late=applied.late)
    return replace(applied, state=DocumentState.HELD)


def _hold_addition(
    connection: Connection, document: DocumentToApply, application: _Application, contents: Iterable[said.Content]
) -> Applied:
    """Hold an addition with data of a centre that its archive does not speak for; findings tell which."""
    savepoint = connection.begin_nested()
    applied = _applied(application, contents)
    savepoint.rollback()
    why = tuple(finding for finding in applied.findings if finding.rule == OWNERSHIP)
    write_findings(connection, document, applied.document_id, why)
    return replace(_hold(connection, applied), findings=why, others=application.others.counts(effective=False))


def _write_result(
    connection: Connection, document_id: int, state: DocumentState, counts: dict[str, int], *, is_late: bool
) -> None:
    """Write what became of a document, and what is in it by the names of `document`'s columns."""
    values: dict[str, Any] = {f"new_{name}": counts[name] for name in _COUNTS}
    values |= {"document_id": document_id, "new_state": state.value, "new_late": is_late}
    connection.execute(_RESULT, values)


class _Pending(NamedTuple):
    key: Key
    line: int
    path: str
    row: EntityRow


class _Application:
    """One document on its way into the database. Entities are decided upon in chunks, with a few statements each."""

    def __init__(
        self,
        connection: Connection,
        document: DocumentToApply,
        document_id: int,
        counters: Counters,
        if_not: NotPermitted,
    ) -> None:
        self.others = OtherCentres(document.rights)
        self._if_not = if_not
        self._connection, self._document, self._document_id = connection, document, document_id
        self._bulk = BulkInserter(connection, DOCUMENT_TABLES)
        self._rows = DocumentRows(document_id, counters, self._bulk)
        self._lifetime_id = counters.of(Lifetime.__table__)
        self._block: said.Block | None = None
        self._noted: said.Block | None = None
        self._numbers: Counter[str] = Counter()
        self._usable = False
        self._pending: list[_Pending] = []
        self._findings = FindingsKept()
        self._said = dict.fromkeys(EntityKind, 0)
        self._opened = dict.fromkeys(EntityKind, 0)
        self._ended = dict.fromkeys(EntityKind, 0)
        self._refused = 0
        self._late_after = newest_before(connection, document, document_id)
        if self._late_after is not None:
            self._findings.add(late(document.created, self._late_after))

    def take(self, content: said.Content) -> None:
        """Take what comes next in the document."""
        if isinstance(content, said.Block):
            self._block = content
            self._numbers.clear()
            excess = self._rows.add_block(content)
            self._usable = excess is None
            if excess is not None:
                path = path_of_centre(self._document.kind, content.position)
                self._findings.add(too_long(content.line, "centre element", excess)._replace(path=path))
            return
        if self._block is None:
            raise InternalFaultError("An entity was read before its centre element. Report this as a fault.")
        kind = kind_of(content)
        self._said[kind] += 1
        self.others.name(self._block.centre, kind)
        self._check_permission(self._block)
        name = element_name(content)
        self._numbers[name] += 1
        if not self._usable:
            self._refused += 1
            return
        path = f"{path_of_centre(self._document.kind, self._block.position)}/{name}[{self._numbers[name]}]"
        made = self._rows.add_entity(content)
        if isinstance(made, TooLong):
            self._refused += 1
            finding = too_long(content.line, kind.value, made, key_of(self._block, content))
            self._findings.add(finding._replace(path=path))
            return
        self._pending.append(_Pending(key_of(self._block, content), content.line, path, made))
        if len(self._pending) >= CHUNK or self._bulk.is_full():
            self._settle()

    def _check_permission(self, block: said.Block) -> None:
        """See whether the document may change data of a block's centre; note once of each block that it may not."""
        if self._if_not is NotPermitted.CONFIRMED or self._document.may_change(block.centre):
            return
        if self._if_not is NotPermitted.STOP:
            raise NotPermittedError
        if self._noted is block:
            return
        self._noted = block
        own = None if self._document.rights is None else self._document.rights.own
        self._findings.add(not_permitted(self._document.action, own, block.centre, block.line))

    def finish(self) -> Applied:
        """Write what is left, and what became of the document."""
        self._settle()
        changed = sum(self._opened.values()) + sum(self._ended.values())
        nothing = self._refused > 0 and changed == 0
        state = DocumentState.REFUSED if nothing else DocumentState.APPLIED
        counts = {COUNTED[kind]: number for kind, number in self._said.items()}
        counts["measurements"] = self._bulk.counts[Measurement.__tablename__]
        _write_result(self._connection, self._document_id, state, counts, is_late=self._late_after is not None)
        findings = self._findings.all()
        write_findings(self._connection, self._document, self._document_id, findings)
        return Applied(
            self._document_id,
            state,
            repeated=False,
            late=self._late_after is not None,
            said=counts,
            opened={kind.value: number for kind, number in self._opened.items() if number},
            ended={kind.value: number for kind, number in self._ended.items() if number},
            refused=self._refused,
            findings=findings,
            procedures=dict(sorted(self._rows.measured.items())),
            others=self.others.counts(effective=state is DocumentState.APPLIED),
        )

    def _settle(self) -> None:
        """Decide upon the entities that wait, and write all rows."""
        for kind in EntityKind:
            pending = [one for one in self._pending if one.row.kind is kind]
            if pending:
                self._settle_kind(kind, pending)
        self._pending.clear()
        self._bulk.flush()

    def _settle_kind(self, kind: EntityKind, pending: list[_Pending]) -> None:
        keys = {one.key for one in pending}
        asked = keys | {_without_results(self._document.action, kind, key) for key in keys}
        current = current_versions(self._connection, kind, asked)
        held: dict[Key, list[str]] = {}
        if self._document.action is Action.DELETE and kind is EntityKind.SPECIMEN:
            held = experiments_about(self._connection, keys)
        rows = self._bulk.rows_of(ENTITY_TABLES[kind])
        lifetimes = self._bulk.rows_of(Lifetime.__table__)
        ended: list[int] = []
        for key, line, path, row in pending:
            if self._if_not is NotPermitted.REFUSE:
                rows.append(entity_values(row, is_current=False))
                self._refused += 1
                continue
            there_as = key if key in current else _without_results(self._document.action, kind, key)
            there = current.get(there_as)
            judgement = Judgement(self._document.action, kind, key, there, self._document_id, held.get(key, ()))
            finding = judge(judgement, line, row.id)
            opens = finding is None and self._document.action is not Action.DELETE
            rows.append(entity_values(row, is_current=opens))
            if finding is not None:
                self._refused += 1
                self._findings.add(finding._replace(path=path))
                continue
            self.others.take_effect(key, kind)
            if there is not None:
                ended.append(there.id)
                del current[there_as]
            if opens:
                lifetimes.append((self._lifetime_id(), kind.value, row.id, self._document_id, None))
                current[key] = Version(row.id, self._document_id)
                self._opened[kind] += 1
        self._ended[kind] += len(ended)
        end_versions(self._connection, kind, ended, self._document_id)


def _without_results(action: Action, kind: EntityKind, key: Key) -> Key:
    """The key that an experiment which is edited had without results, with a status code alone; else its own."""
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
    connection.execute(insert(Finding.__table__), [finding.columns() | common for finding in findings])


def _measurements_by_procedure(connection: Connection, document_id: int) -> dict[str, int]:
    """How many measurements a document has of each procedure; indexes alone are read, not the measurements."""
    run, measurement = ProcedureRun.__table__, Measurement.__table__
    statement = (
        select(run.c.procedure_id, func.count(measurement.c.procedure_run_id))
        .join(measurement, measurement.c.procedure_run_id == run.c.id)
        .where(run.c.document_id == document_id)
        .group_by(run.c.procedure_id)
        .order_by(run.c.procedure_id)
    )
    return {row[0]: row[1] for row in connection.execute(statement)}


def _repeated(connection: Connection, row: Row[Any], document: DocumentToApply) -> Applied:
    # Of a document that came anew nothing is told: it was when it was applied.
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
    """The centres other than the archive's that stored documents name; they are not counted."""
    if rights is None:
        return ()
    block = CentreBlock.__table__.c
    centres: set[str] = set()
    for start in range(0, len(document_ids), CHUNK):
        some = document_ids[start : start + CHUNK]
        centres.update(connection.scalars(select(block.centre).distinct().where(block.document_id.in_(some))))
    return tuple(OtherCentre(centre, {}) for centre in sorted(centres - {rights.own}))
