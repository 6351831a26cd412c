"""What was accepted of a submission or a centre, from the QC database; by a few statements, whatever the size."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Connection, FromClause, Select, and_, case, exists, func, or_, select

from dcc.databases.list_parameters import rows_with
from dcc.messages import from_json
from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.qc.models import (
    CONTEXT,
    DOCUMENT,
    EXPERIMENT,
    FINDING,
    HOUSING,
    LIFETIME,
    LINE,
    MEASUREMENT,
    PROCEDURE,
    RUN,
    SHARE,
    SNAPSHOT,
    SPECIMEN,
)
from dcc.qc.rows.documents import DocumentPlace
from dcc.reports.submissions.model import Accepted, EntityCount, ProcedureCount
from dcc.rules.upload import DUPLICATE
from dcc.vocabulary import DocumentAction, DocumentState, EntityKind, Validity

_ENTITIES: Final[dict[EntityKind, FromClause]] = {
    EntityKind.SPECIMEN: SPECIMEN,
    EntityKind.EXPERIMENT: EXPERIMENT,
    EntityKind.LINE: LINE,
    EntityKind.HOUSING: HOUSING,
}
_OWNERS: Final = (EntityKind.EXPERIMENT, EntityKind.LINE, EntityKind.HOUSING)
_LATER: Final = DOCUMENT.alias("later")
_WAS_APPLIED_AGAIN: Final = exists().where(
    *(_LATER.c[name] == DOCUMENT.c[name] for name in ("zip_file", "zip_action", "file_name")),
    _LATER.c.id > DOCUMENT.c.id,
    _LATER.c.action != DocumentAction.UNDO.value,
)
_STANDS: Final = (
    DOCUMENT.c.action != DocumentAction.UNDO.value,
    or_(
        DOCUMENT.c.state == DocumentState.APPLIED.value,
        (DOCUMENT.c.state == DocumentState.REFUSED.value) & ~_WAS_APPLIED_AGAIN,
    ),
)
"""Conditions on a document: it was not withdrawn, is no withdrawal, and no refusal that another attempt followed."""
_NAMED: Final = {
    EntityKind.SPECIMEN: DOCUMENT.c.specimens,
    EntityKind.EXPERIMENT: DOCUMENT.c.experiments,
    EntityKind.LINE: DOCUMENT.c.lines,
    EntityKind.HOUSING: DOCUMENT.c.housings,
}


def accepted_of_zip(qc: Connection, key: ZipKey, *, most: int) -> Accepted:
    """What was taken over of a submission's documents: of each kind, and of the first `most` procedures by size."""
    mine = and_(DOCUMENT.c.zip_file == key.file_name, DOCUMENT.c.zip_action == key.action.value, *_STANDS)
    procedures = _first(qc, _procedures(qc, mine), most)
    return Accepted(_entities(qc, mine), *procedures, _contexts(qc, mine), _copies_of_withdrawn(qc, mine))


def _copies_of_withdrawn(qc: Connection, mine: Any) -> int:
    """How many of these documents were not taken, as they are the same as one that was withdrawn since."""
    named = (
        select(FINDING.c.details)
        .join(DOCUMENT, DOCUMENT.c.id == FINDING.c.document_id)
        .where(mine, FINDING.c.rule == DUPLICATE, FINDING.c.is_active)
    )
    originals = [from_json(details) or {} for details in qc.scalars(named)]
    places = [DocumentPlace(str(one.get("archive")), str(one.get("document"))) for one in originals]
    standing = select(DOCUMENT.c.zip_action, DOCUMENT.c.zip_file, DOCUMENT.c.file_name).where(
        DOCUMENT.c.state == DocumentState.APPLIED.value, DOCUMENT.c.action != DocumentAction.UNDO.value
    )
    zip_files = {place.archive.partition("/")[2] for place in places}
    found = {
        DocumentPlace(f"{row.zip_action}/{row.zip_file}", row.file_name)
        for row in rows_with(qc, standing, DOCUMENT.c.zip_file, zip_files)
    }
    return sum(place not in found for place in places)


def taken_zips(qc: Connection, keys: Collection[ZipKey]) -> set[ZipKey]:
    """Those submissions of whose documents anything was taken over or taken out, as `Accepted.anything` says of one."""
    later = LIFETIME.alias()
    of_entity = (later.c.entity_kind == LIFETIME.c.entity_kind, later.c.entity_id == LIFETIME.c.entity_id)
    is_gone = ~exists().where(*of_entity, later.c.ended_by.is_(None))
    is_taken = or_(
        *(
            exists().where(
                table.c.document_id == DOCUMENT.c.id,
                table.c.is_current.is_(True),
                table.c.validity.in_((Validity.VALID, Validity.UNJUDGED)),
            )
            for table in _ENTITIES.values()
        ),
        exists().where(LIFETIME.c.opened_by == DOCUMENT.c.id, is_gone),
        exists().where(LIFETIME.c.ended_by == DOCUMENT.c.id),
    )
    query = select(DOCUMENT.c.zip_action, DOCUMENT.c.zip_file).where(*_STANDS, is_taken).distinct()
    rows = rows_with(qc, query, DOCUMENT.c.zip_file, {key.file_name for key in keys})
    return {ZipKey(Action(action), file_name) for action, file_name in rows}


def accepted_of_centre(qc: Connection, centre: str, *, most: int) -> Accepted:
    """The current data of a centre by procedure, from its data contexts; entities are not counted."""
    query = (
        select(CONTEXT.c.procedure_id, CONTEXT.c.state, func.count(), func.sum(CONTEXT.c.measurements))
        .where(CONTEXT.c.centre == centre)
        .group_by(CONTEXT.c.procedure_id, CONTEXT.c.state)
    )
    contexts: dict[str, int] = {}
    measurements: dict[str, int] = {}
    for procedure, state, number, total in qc.execute(query):
        contexts[state] = contexts.get(state, 0) + number
        measurements[procedure] = measurements.get(procedure, 0) + int(total or 0)
    counted = [ProcedureCount(procedure, None, 0, total, total) for procedure, total in measurements.items()]
    return Accepted((), *_first(qc, counted, most), contexts)


def _entities(qc: Connection, mine: Any) -> tuple[EntityCount, ...]:
    named = qc.execute(select(*(func.coalesce(func.sum(column), 0) for column in _NAMED.values())).where(mine)).one()
    opened = _lifetimes(qc, mine, LIFETIME.c.opened_by)
    ended = _lifetimes(qc, mine, LIFETIME.c.ended_by)
    counts = []
    for (kind, table), total in zip(_ENTITIES.items(), named, strict=True):
        if not total:
            continue
        valid, faulty, animal_faulty, unchecked = _present(qc, table, mine)
        taken, gone = opened.get(kind.value, 0), ended.get(kind.value, 0)
        counts.append(
            EntityCount(
                kind=kind.value,
                named=int(total),
                accepted=valid,
                unchecked=unchecked,
                faulty=faulty,
                animal_faulty=animal_faulty,
                superseded=max(0, taken - valid - faulty - animal_faulty - unchecked),
                # Documents that delete open nothing, those that replace open what they end.
                refused=max(0, int(total) - max(taken, gone)),
                ended=gone,
            )
        )
    return tuple(counts)


def _present(qc: Connection, table: FromClause, mine: Any) -> tuple[int, int, int, int]:
    """How many entities of these documents stand.

    Those that no rule objects to, that one does, that have an animal which one objects to, and that are unchecked.
    """
    query = (
        select(table.c.validity, func.count())
        .join(DOCUMENT, DOCUMENT.c.id == table.c.document_id)
        .where(mine, table.c.is_current.is_(True))
        .group_by(table.c.validity)
    )
    counts: dict[int, int] = {row[0]: row[1] for row in qc.execute(query)}
    valid, invalid = counts.get(Validity.VALID, 0), counts.get(Validity.INVALID, 0)
    return valid, invalid, counts.get(Validity.INVALID_ANIMAL, 0), counts.get(Validity.UNJUDGED, 0)


def _lifetimes(qc: Connection, mine: Any, by: Any) -> dict[str, int]:
    query: Select[Any] = (
        select(LIFETIME.c.entity_kind, func.count(LIFETIME.c.entity_id.distinct()))
        .join(DOCUMENT, DOCUMENT.c.id == by)
        .where(mine)
        .group_by(LIFETIME.c.entity_kind)
    )
    return {row[0]: row[1] for row in qc.execute(query)}


def _procedures(qc: Connection, mine: Any) -> list[ProcedureCount]:
    totals: dict[str, list[int]] = {}
    for kind in _OWNERS:
        owner = _ENTITIES[kind]
        counts = and_(owner.c.is_current.is_(True), owner.c.validity == Validity.VALID)
        query = (
            select(
                RUN.c.procedure_id,
                func.count(RUN.c.id.distinct()),
                func.count(MEASUREMENT.c.id),
                func.sum(case((and_(counts, MEASUREMENT.c.id.is_not(None)), 1), else_=0)),
            )
            .select_from(RUN)
            .join(DOCUMENT, DOCUMENT.c.id == RUN.c.document_id)
            .join(owner, owner.c.id == RUN.c.owner_id)
            .outerjoin(MEASUREMENT, MEASUREMENT.c.procedure_run_id == RUN.c.id)
            .where(mine, RUN.c.owner_kind == kind.value)
            .group_by(RUN.c.procedure_id)
        )
        for procedure, *numbers in qc.execute(query):
            former = totals.get(procedure, [0, 0, 0])
            totals[procedure] = [one + int(other or 0) for one, other in zip(former, numbers, strict=True)]
    return [ProcedureCount(procedure, None, *numbers) for procedure, numbers in totals.items()]


def _first(qc: Connection, counted: list[ProcedureCount], most: int) -> tuple[tuple[ProcedureCount, ...], int]:
    """The largest `most` procedures, by id and with their names; and how many there are in all."""
    largest = sorted(counted, key=lambda one: (-one.measurements, one.procedure))[:most]
    names = _names(qc, [procedure.procedure for procedure in largest])
    in_order = sorted(largest, key=lambda one: one.procedure)
    return tuple(replace(procedure, name=names.get(procedure.procedure)) for procedure in in_order), len(counted)


def _names(qc: Connection, procedures: list[str]) -> Mapping[str, str]:
    query = (
        select(PROCEDURE.c.procedure_id, func.min(PROCEDURE.c.name))
        .join(SNAPSHOT, SNAPSHOT.c.id == PROCEDURE.c.snapshot_id)
        .where(SNAPSHOT.c.is_active.is_(True), PROCEDURE.c.procedure_id.in_(procedures), PROCEDURE.c.name.is_not(None))
        .group_by(PROCEDURE.c.procedure_id)
    )
    return {row[0]: row[1] for row in qc.execute(query)}


def _contexts(qc: Connection, mine: Any) -> dict[str, int]:
    query = (
        select(CONTEXT.c.state, func.count(CONTEXT.c.id.distinct()))
        .join(SHARE, SHARE.c.context_id == CONTEXT.c.id)
        .join(DOCUMENT, DOCUMENT.c.id == SHARE.c.document_id)
        .where(mine)
        .group_by(CONTEXT.c.state)
    )
    return {row[0]: row[1] for row in qc.execute(query)}
