"""Rules about data contexts: what they say follows from the measurements, and their history tells how it came about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, Row, func, or_, select, union

from dcc.operations.consistency.inconsistency import Inconsistency
from dcc.operations.consistency.tracker_rows import pages
from dcc.qc.contexts.affected_runs import touched_runs
from dcc.qc.contexts.membership import ContextKey, present_members, recorded_members, shares_of_procedure
from dcc.qc.contexts.reference_basis import COLONIES, Build, recorded_basis
from dcc.qc.models import (
    ContextHistory,
    ContextIssue,
    DataContext,
    Document,
    DocumentContext,
    Measurement,
    ProcedureRun,
)

_CONTEXT: Final = DataContext.__table__
_HISTORY: Final = ContextHistory.__table__
_ISSUE: Final = ContextIssue.__table__
_PART: Final = DocumentContext.__table__
_MEASUREMENT: Final = Measurement.__table__
_RUN: Final = ProcedureRun.__table__
_DOCUMENT: Final = Document.__table__
_RECOUNT: Final = "Have contexts counted anew: dcc qc recount --reason ..."
_RUNS_AT_ONCE: Final = 2_000


def sums(qc: Connection) -> Iterator[Inconsistency]:
    """C16. The measurements of a procedure at a centre are added up at a time."""
    groups = union(
        select(func.rtrim(_MEASUREMENT.c.centre), func.rtrim(_MEASUREMENT.c.procedure_id)),
        select(_CONTEXT.c.centre, _CONTEXT.c.procedure_id),
    )
    for centre, procedure_id in sorted({(row[0], row[1]) for row in qc.execute(groups)}):
        yield from _group(qc, centre, procedure_id)
    yield from _history(qc)


def _group(qc: Connection, centre: str, procedure_id: str) -> Iterator[Inconsistency]:
    number, checksum = Counter[ContextKey](), Counter[ContextKey]()
    of_documents: Counter[tuple[int, ContextKey]] = Counter()
    for share in shares_of_procedure(qc, centre, procedure_id):
        number[share.key] += share.measurements
        checksum[share.key] += share.fingerprints
        of_documents[share.document_id, share.key] += share.measurements
    of_group = (_CONTEXT.c.centre == centre) & (_CONTEXT.c.procedure_id == procedure_id)
    keys: dict[int, ContextKey] = {}
    for row in qc.execute(select(_CONTEXT).where(of_group)):
        key = keys[row.id] = _key(row)
        if (row.measurements, int(row.checksum, 16)) != (number[key], checksum[key]):
            yield Inconsistency(
                "C16",
                _name(key),
                f"It says that it has {row.measurements:,} measurements (checksum {row.checksum}); counted are "
                f"{number[key]:,} ({checksum[key]:032x}). {_RECOUNT}",
            )
    for key in set(number) - set(keys.values()):
        yield Inconsistency("C16", _name(key), f"It has {number[key]:,} measurements and is not there. {_RECOUNT}")
    parts = select(_PART).join(_CONTEXT, _CONTEXT.c.id == _PART.c.context_id).where(of_group)
    for row in qc.execute(parts):
        of_documents[row.document_id, keys[row.context_id]] -= row.measurements
    for (document_id, key), left in of_documents.items():
        if left:
            yield Inconsistency(
                "C16",
                _name(key),
                f"Document {document_id} has {left:+,} measurements in it beside those said. {_RECOUNT}",
            )


def _key(row: Row[Any]) -> ContextKey:
    return ContextKey(*(getattr(row, name) for name in ContextKey._fields))


def _name(key: ContextKey) -> str:
    return "context " + " ".join(part or "-" for part in key)


def _history(qc: Connection) -> Iterator[Inconsistency]:
    newest = select(func.max(_HISTORY.c.id)).group_by(_HISTORY.c.context_id)
    last = select(_HISTORY).where(_HISTORY.c.id.in_(newest)).subquery()
    open_issues = (
        select(_ISSUE.c.context_id, func.count().label("issues"))
        .where(_ISSUE.c.resolved.is_(None))
        .group_by(_ISSUE.c.context_id)
        .subquery()
    )
    differs = or_(
        last.c.id.is_(None),
        last.c.state != _CONTEXT.c.state,
        last.c.measurements != _CONTEXT.c.measurements,
        last.c.checksum != _CONTEXT.c.checksum,
        func.coalesce(open_issues.c.issues, 0) != _CONTEXT.c.issues,
    )
    query = (
        select(_CONTEXT)
        .outerjoin(last, last.c.context_id == _CONTEXT.c.id)
        .outerjoin(open_issues, open_issues.c.context_id == _CONTEXT.c.id)
        .where(differs)
        .order_by(_CONTEXT.c.id)
    )
    for row in qc.execute(query):
        yield Inconsistency(
            "C16",
            _name(_key(row)),
            f"Its history or its open issues do not come to what it says (context {row.id}). {_RECOUNT}",
        )


def members(qc: Connection) -> Iterator[Inconsistency]:
    """C17. What documents touch of which contexts take no account yet is left out: the next session sees to it."""
    basis = recorded_basis(qc, Build.CONTEXTS)
    if not basis:
        return
    waiting = touched_runs(qc, list(qc.scalars(select(_DOCUMENT.c.id).where(_DOCUMENT.c.contexts_built.is_(False)))))
    for page in pages(qc, select(_RUN.c.id, _RUN.c.procedure_id), _RUN.c.id, _RUNS_AT_ONCE):
        runs = [row.id for row in page if row.id not in waiting]
        wrong = recorded_members(qc, runs) ^ present_members(qc, runs, basis[COLONIES])
        for run_id in sorted({member.procedure_run_id for member in wrong}):
            yield Inconsistency(
                "C17", f"procedure run {run_id}", f"It is counted in other contexts than it belongs to. {_RECOUNT}"
            )
