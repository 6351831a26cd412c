"""What was accepted of a submission or a centre, from the QC database; by a few statements, whatever the size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Connection, FromClause, Select, and_, case, func, select

from dcc.outcomes import ZipKey
from dcc.qc.models import (
    DataContext,
    Document,
    DocumentContext,
    Experiment,
    Housing,
    ImpressProcedure,
    Lifetime,
    Line,
    Measurement,
    ProcedureRun,
    ReferenceSnapshot,
    Specimen,
)
from dcc.reports.submissions.model import Accepted, EntityCount, ProcedureCount
from dcc.vocabulary import DocumentAction, DocumentState, EntityKind, Validity

_DOCUMENT: Final = Document.__table__
_LIFETIME: Final = Lifetime.__table__
_RUN: Final = ProcedureRun.__table__
_MEASUREMENT: Final = Measurement.__table__
_CONTEXT: Final = DataContext.__table__
_DOCUMENT_CONTEXT: Final = DocumentContext.__table__
_ENTITIES: Final[dict[EntityKind, FromClause]] = {
    EntityKind.SPECIMEN: Specimen.__table__,
    EntityKind.EXPERIMENT: Experiment.__table__,
    EntityKind.LINE: Line.__table__,
    EntityKind.HOUSING: Housing.__table__,
}
_OWNERS: Final = (EntityKind.EXPERIMENT, EntityKind.LINE, EntityKind.HOUSING)
_STANDING_STATES: Final = (DocumentState.APPLIED.value, DocumentState.REFUSED.value)
_NAMED: Final = {
    EntityKind.SPECIMEN: _DOCUMENT.c.specimens,
    EntityKind.EXPERIMENT: _DOCUMENT.c.experiments,
    EntityKind.LINE: _DOCUMENT.c.lines,
    EntityKind.HOUSING: _DOCUMENT.c.housings,
}


def accepted_of_zip(qc: Connection, key: ZipKey, *, most: int) -> Accepted:
    """What was taken over of a zip action's documents: of each kind, and of the first `most` procedures by size."""
    return _accepted(qc, (_DOCUMENT.c.zip_file == key.file_name) & (_DOCUMENT.c.zip_action == key.action.value), most)


def accepted_of_centre(qc: Connection, centre: str, *, most: int) -> Accepted:
    """The current data of a centre by procedure, from its data contexts; entities are not counted."""
    query = (
        select(_CONTEXT.c.procedure_id, _CONTEXT.c.state, func.count(), func.sum(_CONTEXT.c.measurements))
        .where(_CONTEXT.c.centre == centre)
        .group_by(_CONTEXT.c.procedure_id, _CONTEXT.c.state)
    )
    contexts: dict[str, int] = {}
    measurements: dict[str, int] = {}
    for procedure, state, number, total in qc.execute(query):
        contexts[state] = contexts.get(state, 0) + number
        measurements[procedure] = measurements.get(procedure, 0) + int(total or 0)
    counted = [ProcedureCount(procedure, None, 0, total, total) for procedure, total in measurements.items()]
    return Accepted((), *_first(qc, counted, most), contexts)


def _accepted(qc: Connection, wanted: Any, most: int) -> Accepted:
    mine = and_(wanted, _DOCUMENT.c.action != DocumentAction.UNDO.value, _DOCUMENT.c.state.in_(_STANDING_STATES))
    counted = _procedures(qc, mine)
    return Accepted(_entities(qc, mine), *_first(qc, counted, most), _contexts(qc, mine))


def _entities(qc: Connection, mine: Any) -> tuple[EntityCount, ...]:
    named = qc.execute(select(*(func.coalesce(func.sum(column), 0) for column in _NAMED.values())).where(mine)).one()
    opened = _lifetimes(qc, mine, _LIFETIME.c.opened_by)
    ended = _lifetimes(qc, mine, _LIFETIME.c.ended_by)
    counts = []
    for (kind, table), total in zip(_ENTITIES.items(), named, strict=True):
        if not total:
            continue
        valid, faulty, animal_faulty, unchecked = _present(qc, table, mine)
        taken = opened.get(kind.value, 0)
        counts.append(
            EntityCount(
                kind=kind.value,
                named=int(total),
                accepted=valid,
                unchecked=unchecked,
                faulty=faulty,
                animal_faulty=animal_faulty,
                superseded=max(0, taken - valid - faulty - animal_faulty - unchecked),
                refused=_refused(int(total), taken, ended.get(kind.value, 0)),
                ended=ended.get(kind.value, 0),
            )
        )
    return tuple(counts)


def _refused(named: int, opened: int, ended: int) -> int:
    """What took no effect: documents that delete open nothing, those that replace open what they end."""
    return max(0, named - max(opened, ended))


def _present(qc: Connection, table: FromClause, mine: Any) -> tuple[int, int, int, int]:
    """How many entities of these documents stand.

    Those that no rule objects to, that one does, that have an animal which one objects to, and that are unchecked.
    """
    query = (
        select(table.c.validity, func.count())
        .join(_DOCUMENT, _DOCUMENT.c.id == table.c.document_id)
        .where(mine, table.c.is_current.is_(True))
        .group_by(table.c.validity)
    )
    counts: dict[int, int] = {row[0]: row[1] for row in qc.execute(query)}
    valid, invalid = counts.get(Validity.VALID, 0), counts.get(Validity.INVALID, 0)
    return valid, invalid, counts.get(Validity.INVALID_ANIMAL, 0), counts.get(Validity.UNJUDGED, 0)


def _lifetimes(qc: Connection, mine: Any, by: Any) -> dict[str, int]:
    query: Select[Any] = (
        select(_LIFETIME.c.entity_kind, func.count(_LIFETIME.c.entity_id.distinct()))
        .join(_DOCUMENT, _DOCUMENT.c.id == by)
        .where(mine)
        .group_by(_LIFETIME.c.entity_kind)
    )
    return {row[0]: row[1] for row in qc.execute(query)}


def _procedures(qc: Connection, mine: Any) -> list[ProcedureCount]:
    totals: dict[str, list[int]] = {}
    for kind in _OWNERS:
        owner = _ENTITIES[kind]
        counts = and_(owner.c.is_current.is_(True), owner.c.validity == Validity.VALID)
        query = (
            select(
                _RUN.c.procedure_id,
                func.count(_RUN.c.id.distinct()),
                func.count(_MEASUREMENT.c.id),
                func.sum(case((and_(counts, _MEASUREMENT.c.id.is_not(None)), 1), else_=0)),
            )
            .select_from(_RUN)
            .join(_DOCUMENT, _DOCUMENT.c.id == _RUN.c.document_id)
            .join(owner, owner.c.id == _RUN.c.owner_id)
            .outerjoin(_MEASUREMENT, _MEASUREMENT.c.procedure_run_id == _RUN.c.id)
            .where(mine, _RUN.c.owner_kind == kind.value)
            .group_by(_RUN.c.procedure_id)
        )
        for procedure, *numbers in qc.execute(query):
            former = totals.get(procedure, [0, 0, 0])
            totals[procedure] = [one + int(other or 0) for one, other in zip(former, numbers, strict=True)]
    return [ProcedureCount(procedure, None, *numbers) for procedure, numbers in totals.items()]


def _first(qc: Connection, counted: list[ProcedureCount], most: int) -> tuple[tuple[ProcedureCount, ...], int]:
    """The largest `most` procedures, by id and with their names; and how many there are in all."""
    largest = sorted(counted, key=lambda one: (-one.measurements, one.procedure))[:most]
    names = _names(qc, [one.procedure for one in largest])
    shown = [
        ProcedureCount(one.procedure, names.get(one.procedure), one.runs, one.measurements, one.accepted)
        for one in sorted(largest, key=lambda one: one.procedure)
    ]
    return tuple(shown), len(counted)


def _names(qc: Connection, procedures: list[str]) -> Mapping[str, str]:
    procedure, snapshot = ImpressProcedure.__table__, ReferenceSnapshot.__table__
    query = (
        select(procedure.c.procedure_id, func.min(procedure.c.name))
        .join(snapshot, snapshot.c.id == procedure.c.snapshot_id)
        .where(snapshot.c.is_active.is_(True), procedure.c.procedure_id.in_(procedures), procedure.c.name.is_not(None))
        .group_by(procedure.c.procedure_id)
    )
    return {row[0]: row[1] for row in qc.execute(query)}


def _contexts(qc: Connection, mine: Any) -> dict[str, int]:
    query = (
        select(_CONTEXT.c.state, func.count(_CONTEXT.c.id.distinct()))
        .join(_DOCUMENT_CONTEXT, _DOCUMENT_CONTEXT.c.context_id == _CONTEXT.c.id)
        .join(_DOCUMENT, _DOCUMENT.c.id == _DOCUMENT_CONTEXT.c.document_id)
        .where(mine)
        .group_by(_CONTEXT.c.state)
    )
    return {row[0]: row[1] for row in qc.execute(query)}
