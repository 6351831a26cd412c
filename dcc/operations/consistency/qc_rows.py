"""Rules about the QC database alone: versions of entities, their lifetimes, counts of documents, and data contexts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, Row, String, and_, case, exists, func, or_, select, union

from dcc.operations.consistency.inconsistency import Inconsistency, in_rows
from dcc.operations.consistency.tracker_rows import pages
from dcc.qc.apply.versions import key_columns
from dcc.qc.contexts.affected_runs import COLONIES, Build, affected_runs, recorded_basis
from dcc.qc.contexts.membership import ContextKey, present_members, recorded_members, shares_of_procedure
from dcc.qc.models import CONTEXT, DOCUMENT, ENTITY_TABLES, FINDING, HISTORY, ISSUE, LIFETIME, MEASUREMENT, RUN, SHARE
from dcc.rules.upload import UPLOAD_RULES, describe
from dcc.vocabulary import DocumentState, EntityKind

_RESTORE: Final = "Restore the QC database from a backup, or have it filled again from staging; report this as a fault."
_COUNTED: Final = {
    EntityKind.SPECIMEN: "specimens",
    EntityKind.EXPERIMENT: "experiments",
    EntityKind.LINE: "lines",
    EntityKind.HOUSING: "housings",
}


def one_current_version(qc: Connection) -> Iterator[Inconsistency]:
    """C13."""
    for kind, table in ENTITY_TABLES.items():
        columns = key_columns(kind)
        # Databases may treat texts as equal that differ in trailing blanks.
        lengths = [func.length(column) for column in columns if isinstance(column.type, String)]
        twice = select(*columns).where(table.c.is_current).group_by(*columns, *lengths).having(func.count() > 1)
        for row in qc.execute(twice):
            yield Inconsistency("C13", str(describe(kind, list(row))), f"It has several current versions. {_RESTORE}")
        yield from _lifetimes_of(qc, kind, table)


def _lifetimes_of(qc: Connection, kind: EntityKind, table: Any) -> Iterator[Inconsistency]:
    living = and_(LIFETIME.c.entity_kind == kind.value, LIFETIME.c.entity_id == table.c.id)
    number = func.count(LIFETIME.c.id)
    expected = case((table.c.is_current, 1), else_=0)
    stands = case((table.c.is_current, "current"), else_="not current")
    query = (
        select(table.c.id, table.c.document_id, stands.label("stands"), number.label("number"))
        .outerjoin(LIFETIME, living & LIFETIME.c.ended_by.is_(None))
        .group_by(table.c.id, table.c.document_id, table.c.is_current)
        .having(number != expected)
        .order_by(table.c.id)
    )
    said = f"This version is said to be {{stands}}, and has {{number}} open lifetimes. {_RESTORE}"
    yield from in_rows(qc, "C13", query, f"{kind.value} {{id}} of document {{document_id}}", said)


def lifetimes(qc: Connection) -> Iterator[Inconsistency]:
    """C14."""
    without_effect = [DocumentState.HELD.value, DocumentState.REFUSED.value]
    undone = and_(DOCUMENT.c.state == DocumentState.UNDONE.value, LIFETIME.c.ended_by.is_(None))
    wrong = or_(LIFETIME.c.ended_by < LIFETIME.c.opened_by, DOCUMENT.c.state.in_(without_effect), undone)
    query = (
        select(LIFETIME, DOCUMENT.c.state)
        .join(DOCUMENT, DOCUMENT.c.id == LIFETIME.c.opened_by)
        .where(wrong)
        .order_by(LIFETIME.c.id)
    )
    for row in qc.execute(query):
        end = "is open" if row.ended_by is None else f"was ended by document {row.ended_by}"
        yield Inconsistency(
            "C14",
            f"lifetime {row.id} of {row.entity_kind} {row.entity_id}",
            f"Document {row.opened_by}, which is {row.state}, opened it, and it {end}. {_RESTORE}",
        )


def document_counts(qc: Connection) -> Iterator[Inconsistency]:
    """C15. A held document has no rows; an entity that was refused for its length has none."""
    tables: dict[str, Any] = {_COUNTED[kind]: table for kind, table in ENTITY_TABLES.items()}
    undo = DOCUMENT.alias("undo")
    held = or_(
        DOCUMENT.c.state.in_([DocumentState.HELD.value, DocumentState.REFUSED.value]),
        # What was withdrawn while it was held has no withdrawal of its own.
        and_(DOCUMENT.c.state == DocumentState.UNDONE.value, ~exists().where(undo.c.undoes == DOCUMENT.c.id)),
    )
    findings = exists().where(FINDING.c.document_id == DOCUMENT.c.id, FINDING.c.rule.in_(UPLOAD_RULES))
    for name, table in {**tables, "measurements": MEASUREMENT}.items():
        rows = select(table.c.document_id, func.count().label("number")).group_by(table.c.document_id).subquery()
        there, said = func.coalesce(rows.c.number, 0), DOCUMENT.c[name]
        without = and_(held, there == 0)
        fewer = and_(there < said, findings) if name != "measurements" else and_(there < said, held)
        query = (
            select(DOCUMENT.c.id, DOCUMENT.c.file_name, said.label("said"), there.label("number"))
            .outerjoin(rows, rows.c.document_id == DOCUMENT.c.id)
            .where(there != said, ~without, ~fewer)
            .order_by(DOCUMENT.c.id)
        )
        wrong = f"It says that it has {{said:,}} {name}, and there are {{number:,}}. {_RESTORE}"
        yield from in_rows(qc, "C15", query, "document {id}, {file_name}", wrong)
        lost = select(table.c.document_id, func.count().label("number")).group_by(table.c.document_id)
        lost = lost.where(~exists().where(DOCUMENT.c.id == table.c.document_id))
        gone = f"There are {{number:,}} {name} of it, and it is not there. {_RESTORE}"
        yield from in_rows(qc, "C15", lost, "document {document_id}", gone)


_RECOUNT: Final = "Have contexts counted again: dcc qc recount --reason ..."
_RUNS_AT_ONCE: Final = 2_000


def context_sums(qc: Connection) -> Iterator[Inconsistency]:
    """C16. Adds up the measurements of one procedure at one centre at a time."""
    groups = union(
        select(func.rtrim(MEASUREMENT.c.centre), func.rtrim(MEASUREMENT.c.procedure_id)),
        select(CONTEXT.c.centre, CONTEXT.c.procedure_id),
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
    of_group = (CONTEXT.c.centre == centre) & (CONTEXT.c.procedure_id == procedure_id)
    keys: dict[int, ContextKey] = {}
    for row in qc.execute(select(CONTEXT).where(of_group)):
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
    parts = select(SHARE).join(CONTEXT, CONTEXT.c.id == SHARE.c.context_id).where(of_group)
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
    newest = select(func.max(HISTORY.c.id)).group_by(HISTORY.c.context_id)
    last = select(HISTORY).where(HISTORY.c.id.in_(newest)).subquery()
    open_issues = (
        select(ISSUE.c.context_id, func.count().label("issues"))
        .where(ISSUE.c.resolved.is_(None))
        .group_by(ISSUE.c.context_id)
        .subquery()
    )
    differs = or_(
        last.c.id.is_(None),
        last.c.state != CONTEXT.c.state,
        last.c.measurements != CONTEXT.c.measurements,
        last.c.checksum != CONTEXT.c.checksum,
        func.coalesce(open_issues.c.issues, 0) != CONTEXT.c.issues,
    )
    query = (
        select(CONTEXT)
        .outerjoin(last, last.c.context_id == CONTEXT.c.id)
        .outerjoin(open_issues, open_issues.c.context_id == CONTEXT.c.id)
        .where(differs)
        .order_by(CONTEXT.c.id)
    )
    for row in qc.execute(query):
        yield Inconsistency(
            "C16",
            _name(_key(row)),
            f"Its history or its open issues do not come to what it says (context {row.id}). {_RECOUNT}",
        )


def context_members(qc: Connection) -> Iterator[Inconsistency]:
    """C17. Contexts with documents that are not counted yet are left out: the next session counts them."""
    basis = recorded_basis(qc, Build.CONTEXTS)
    if not basis:
        return
    waiting = affected_runs(qc, list(qc.scalars(select(DOCUMENT.c.id).where(DOCUMENT.c.contexts_built.is_(False)))))
    for page in pages(qc, select(RUN.c.id, RUN.c.procedure_id), RUN.c.id, _RUNS_AT_ONCE):
        runs = [row.id for row in page if row.id not in waiting]
        wrong = recorded_members(qc, runs) ^ present_members(qc, runs, basis[COLONIES])
        for run_id in sorted({member.procedure_run_id for member in wrong}):
            yield Inconsistency(
                "C17", f"procedure run {run_id}", f"It is counted in other contexts than it belongs to. {_RECOUNT}"
            )
