"""What was accepted of a submission or a centre, from the QC database; by a few statements, whatever the size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, ScalarSelect, Select, and_, case, exists, func, literal, or_, select

from dcc.analysis.parameters import counted_again
from dcc.databases.list_parameters import rows_with
from dcc.messages import from_json
from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.qc.models import CONTEXT, DOCUMENT, ENTITY_TABLES, FINDING, LIFETIME, MEASUREMENT, PROCEDURE, RUN, SHARE
from dcc.qc.reference.snapshots import active_snapshot
from dcc.qc.rows.documents import has_state
from dcc.reference.impress import Impress
from dcc.reports.submissions.model import AcceptedData, EntityCount, ProcedureCount
from dcc.rules.upload import DUPLICATE
from dcc.vocabulary import DocumentAction, DocumentState, EntityKind, Validity

_OWNERS: Final = {kind: table for kind, table in ENTITY_TABLES.items() if kind is not EntityKind.SPECIMEN}
_LATER: Final = DOCUMENT.alias("later")
_WAS_APPLIED_AGAIN: Final = exists().where(
    *(_LATER.c[name] == DOCUMENT.c[name] for name in ("zip_file", "zip_action", "file_name")),
    _LATER.c.id > DOCUMENT.c.id,
    _LATER.c.action != DocumentAction.UNDO.value,
)
_STANDS: Final = (
    DOCUMENT.c.action != DocumentAction.UNDO.value,
    or_(has_state(DocumentState.APPLIED), has_state(DocumentState.REFUSED) & ~_WAS_APPLIED_AGAIN),
)
"""Conditions on a document: it was not withdrawn, is no withdrawal, and no refusal that another attempt followed."""


def accepted_of_submission(qc: Connection, key: SubmissionKey, *, limit: int) -> AcceptedData:
    """What was taken over of a submission's documents: of each kind, and of the first `limit` procedures by size."""
    mine = and_(DOCUMENT.c.zip_file == key.file_name, DOCUMENT.c.zip_action == key.action.value, *_STANDS)
    procedures = _largest(qc, _procedures(mine), limit)
    contexts = select(CONTEXT.c.state, func.count(CONTEXT.c.id.distinct())).group_by(CONTEXT.c.state)
    contexts = contexts.join(SHARE, SHARE.c.context_id == CONTEXT.c.id)
    contexts = contexts.join(DOCUMENT, DOCUMENT.c.id == SHARE.c.document_id).where(mine)
    return AcceptedData(_entities(qc, mine), *procedures, _numbers(qc, contexts), copies_of_withdrawn(qc, [key])[key])


def copies_of_withdrawn(qc: Connection, keys: Collection[SubmissionKey]) -> Counter[SubmissionKey]:
    """How many documents of submissions were not taken, as they are the same as one that was withdrawn since."""
    named = (
        select(DOCUMENT.c.zip_action, DOCUMENT.c.zip_file, FINDING.c.details)
        .join(FINDING, FINDING.c.document_id == DOCUMENT.c.id)
        .where(FINDING.c.rule == DUPLICATE, FINDING.c.is_active, *_STANDS)
    )
    copies = [
        (key, from_json(details) or {})
        for action, file_name, details in rows_with(qc, named, DOCUMENT.c.zip_file, {key.file_name for key in keys})
        if (key := SubmissionKey(Action(action), file_name)) in keys
    ]
    places = [(key, (str(original.get("archive")), str(original.get("document")))) for key, original in copies]
    standing = select(DOCUMENT.c.zip_action, DOCUMENT.c.zip_file, DOCUMENT.c.file_name).where(
        has_state(DocumentState.APPLIED), DOCUMENT.c.action != DocumentAction.UNDO.value
    )
    rows = rows_with(qc, standing, DOCUMENT.c.zip_file, {archive.partition("/")[2] for _, (archive, _) in places})
    found = {(f"{row.zip_action}/{row.zip_file}", row.file_name) for row in rows}
    return Counter(key for key, place in places if place not in found)


def is_taken() -> ColumnElement[bool]:
    """Condition on a document: anything of it was taken over or taken out. That is entities that count or are
    unchecked, that were superseded, or that it ended.
    """
    later = LIFETIME.alias()
    of_entity = (later.c.entity_kind == LIFETIME.c.entity_kind, later.c.entity_id == LIFETIME.c.entity_id)
    is_gone = ~exists().where(*of_entity, later.c.ended_by.is_(None))
    return or_(
        *(
            exists().where(
                table.c.document_id == DOCUMENT.c.id,
                table.c.is_current.is_(True),
                table.c.validity.in_((Validity.VALID, Validity.UNJUDGED)),
            )
            for table in ENTITY_TABLES.values()
        ),
        exists().where(LIFETIME.c.opened_by == DOCUMENT.c.id, is_gone),
        exists().where(LIFETIME.c.ended_by == DOCUMENT.c.id),
    )


def taken_submissions(qc: Connection, keys: Collection[SubmissionKey]) -> set[SubmissionKey]:
    """Those submissions of whose documents anything was taken over or taken out."""
    query = select(DOCUMENT.c.zip_action, DOCUMENT.c.zip_file).where(*_STANDS, is_taken()).distinct()
    rows = rows_with(qc, query, DOCUMENT.c.zip_file, {key.file_name for key in keys})
    return {SubmissionKey(Action(action), file_name) for action, file_name in rows}


def accepted_of_centre(qc: Connection, centre: str, *, limit: int) -> AcceptedData:
    """The current data of a centre by procedure, from its data contexts; entities are not counted."""
    own = CONTEXT.c.centre == centre
    states = select(CONTEXT.c.state, func.count()).where(own).group_by(CONTEXT.c.state)
    procedure, total = CONTEXT.c.procedure_id, func.sum(CONTEXT.c.measurements)
    query = select(procedure, _name_of(procedure), literal(0), total, total).where(own).group_by(procedure)
    again = _numbers(qc, counted_again(MEASUREMENT.c.procedure_id).where(MEASUREMENT.c.centre == centre))
    return AcceptedData((), *_largest(qc, query, limit, again), _numbers(qc, states))


def _entities(qc: Connection, mine: Any) -> tuple[EntityCount, ...]:
    sums = [func.coalesce(func.sum(DOCUMENT.c[f"{kind.value}s"]), 0) for kind in ENTITY_TABLES]
    totals = qc.execute(select(*sums).where(mine)).one()
    opened = _lifetimes(qc, mine, LIFETIME.c.opened_by)
    ended = _lifetimes(qc, mine, LIFETIME.c.ended_by)
    counts = []
    for (kind, table), total in zip(ENTITY_TABLES.items(), totals, strict=True):
        if not total:
            continue
        stands = select(table.c.validity, func.count()).join(DOCUMENT, DOCUMENT.c.id == table.c.document_id)
        present = _numbers(qc, stands.where(mine, table.c.is_current.is_(True)).group_by(table.c.validity))
        taken, gone = opened.get(kind.value, 0), ended.get(kind.value, 0)
        counts.append(
            EntityCount(
                kind=kind.value,
                named=int(total),
                accepted=present.get(Validity.VALID, 0),
                unchecked=present.get(Validity.UNJUDGED, 0),
                faulty=present.get(Validity.INVALID, 0),
                animal_faulty=present.get(Validity.INVALID_ANIMAL, 0),
                superseded=max(0, taken - sum(present.values())),
                # Documents that delete open nothing, those that replace open what they end.
                refused=max(0, int(total) - max(taken, gone)),
                ended=gone,
            )
        )
    return tuple(counts)


def _lifetimes(qc: Connection, mine: Any, by: Any) -> dict[str, int]:
    query = select(LIFETIME.c.entity_kind, func.count(LIFETIME.c.entity_id.distinct()))
    return _numbers(qc, query.join(DOCUMENT, DOCUMENT.c.id == by).where(mine).group_by(LIFETIME.c.entity_kind))


def _numbers(qc: Connection, query: Select[*tuple[Any, ...]]) -> dict[Any, int]:
    return {row[0]: row[1] for row in qc.execute(query)}


def _procedures(mine: Any) -> Select[*tuple[Any, ...]]:
    """The fields of `ProcedureCount` for each procedure that these documents have runs of."""
    counting = (("is_current", 1), ("validity", Validity.VALID))
    of_counting_owner = [
        func.coalesce(*(table.c[name] for table in _OWNERS.values())) == value for name, value in counting
    ]
    query = (
        select(
            RUN.c.procedure_id,
            _name_of(RUN.c.procedure_id),
            func.count(RUN.c.id.distinct()),
            func.count(MEASUREMENT.c.id),
            func.count(case((and_(*of_counting_owner), MEASUREMENT.c.id))),
        )
        .join(DOCUMENT, DOCUMENT.c.id == RUN.c.document_id)
        .outerjoin(MEASUREMENT, MEASUREMENT.c.procedure_run_id == RUN.c.id)
    )
    for kind, table in _OWNERS.items():
        query = query.outerjoin(table, (RUN.c.owner_kind == kind.value) & (table.c.id == RUN.c.owner_id))
    return query.where(mine).group_by(RUN.c.procedure_id)


def _name_of(procedure: ColumnElement[str]) -> ScalarSelect[str]:
    """The name of a procedure in IMPReSS, if known."""
    named = PROCEDURE.c.snapshot_id == active_snapshot(Impress.NAME), PROCEDURE.c.procedure_id == procedure
    return select(func.min(PROCEDURE.c.name)).where(*named).correlate_except(PROCEDURE).scalar_subquery()


def _largest(
    qc: Connection, query: Select[*tuple[Any, ...]], limit: int, again: Mapping[str, int] = MappingProxyType({})
) -> tuple[tuple[ProcedureCount, ...], int, int]:
    """The largest `limit` procedures of a query for their fields, by id; and how many there are in all, with how many
    accepted measurements.

    `again`: how many measurements of a procedure the query counts again.
    """
    counted = []
    for procedure, name, runs, *numbers in qc.execute(query):
        measurements = (int(number or 0) - int(again.get(procedure, 0)) for number in numbers)
        counted.append(ProcedureCount(procedure, name, int(runs or 0), *measurements))
    largest = sorted(counted, key=lambda one: (-one.measurements, one.procedure))[:limit]
    accepted = sum(one.accepted for one in counted)
    return tuple(sorted(largest, key=lambda one: one.procedure)), len(counted), accepted
