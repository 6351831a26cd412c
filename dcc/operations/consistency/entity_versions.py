"""Rules about the rows of the QC database: versions of entities, their lifetimes, and what documents say they hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, String, and_, case, exists, func, or_, select

from dcc.operations.consistency.inconsistency import Inconsistency
from dcc.qc.apply.entity_rows import ENTITY_TABLES
from dcc.qc.apply.versions import describe, key_columns
from dcc.qc.models import Document, Finding, Lifetime, Measurement
from dcc.rules.upload import UPLOAD_RULES
from dcc.vocabulary import DocumentState, EntityKind

_DOCUMENT: Final = Document.__table__
_LIFETIME: Final = Lifetime.__table__
_MEASUREMENT: Final = Measurement.__table__
_FINDING: Final = Finding.__table__
_RESTORE: Final = "Restore the QC database from a backup, or have it filled anew from staging; report this as a fault."
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
        # Databases may take texts for equal that differ in trailing blanks.
        lengths = [func.length(column) for column in columns if isinstance(column.type, String)]
        twice = select(*columns).where(table.c.is_current).group_by(*columns, *lengths).having(func.count() > 1)
        for row in qc.execute(twice):
            yield Inconsistency("C13", describe(kind, list(row)), f"It has several current versions. {_RESTORE}")
        yield from _lifetimes_of(qc, kind, table)


def _lifetimes_of(qc: Connection, kind: EntityKind, table: Any) -> Iterator[Inconsistency]:
    living = and_(_LIFETIME.c.entity_kind == kind.value, _LIFETIME.c.entity_id == table.c.id)
    living &= _LIFETIME.c.ended_by.is_(None)
    number = func.count(_LIFETIME.c.id)
    expected = case((table.c.is_current, 1), else_=0)
    query = (
        select(table.c.id, table.c.document_id, table.c.is_current, number.label("number"))
        .outerjoin(_LIFETIME, living)
        .group_by(table.c.id, table.c.document_id, table.c.is_current)
        .having(number != expected)
        .order_by(table.c.id)
    )
    for row in qc.execute(query):
        said = "current" if row.is_current else "not current"
        yield Inconsistency(
            "C13",
            f"{kind.value} {row.id} of document {row.document_id}",
            f"This version is said to be {said}, and has {row.number} open lifetimes. {_RESTORE}",
        )


def lifetimes(qc: Connection) -> Iterator[Inconsistency]:
    """C14."""
    without_effect = [DocumentState.HELD.value, DocumentState.REFUSED.value]
    undone = and_(_DOCUMENT.c.state == DocumentState.UNDONE.value, _LIFETIME.c.ended_by.is_(None))
    wrong = or_(_LIFETIME.c.ended_by < _LIFETIME.c.opened_by, _DOCUMENT.c.state.in_(without_effect), undone)
    query = (
        select(_LIFETIME, _DOCUMENT.c.state)
        .join(_DOCUMENT, _DOCUMENT.c.id == _LIFETIME.c.opened_by)
        .where(wrong)
        .order_by(_LIFETIME.c.id)
    )
    for row in qc.execute(query):
        end = "is open" if row.ended_by is None else f"was ended by document {row.ended_by}"
        yield Inconsistency(
            "C14",
            f"lifetime {row.id} of {row.entity_kind} {row.entity_id}",
            f"Document {row.opened_by}, which is {row.state}, opened it, and it {end}. {_RESTORE}",
        )


def counts(qc: Connection) -> Iterator[Inconsistency]:
    """C15. Of a document that was held no row is there; what was refused for its length has none."""
    tables: dict[str, Any] = {_COUNTED[kind]: table for kind, table in ENTITY_TABLES.items()}
    held = _DOCUMENT.c.state.in_([DocumentState.HELD.value, DocumentState.REFUSED.value])
    findings = exists().where(_FINDING.c.document_id == _DOCUMENT.c.id, _FINDING.c.rule.in_(UPLOAD_RULES))
    for name, table in {**tables, "measurements": _MEASUREMENT}.items():
        rows = select(table.c.document_id, func.count().label("number")).group_by(table.c.document_id).subquery()
        there, said = func.coalesce(rows.c.number, 0), _DOCUMENT.c[name]
        without = and_(held, there == 0)
        fewer = and_(there < said, findings) if name != "measurements" else and_(there < said, held)
        query = (
            select(_DOCUMENT.c.id, _DOCUMENT.c.file_name, said.label("said"), there.label("number"))
            .outerjoin(rows, rows.c.document_id == _DOCUMENT.c.id)
            .where(there != said, ~without, ~fewer)
            .order_by(_DOCUMENT.c.id)
        )
        for row in qc.execute(query):
            yield Inconsistency(
                "C15",
                f"document {row.id}, {row.file_name}",
                f"It says that it has {row.said:,} {name}, and there are {row.number:,}. {_RESTORE}",
            )
        lost = select(table.c.document_id, func.count()).where(~exists().where(_DOCUMENT.c.id == table.c.document_id))
        for document_id, number in qc.execute(lost.group_by(table.c.document_id)):
            yield Inconsistency(
                "C15", f"document {document_id}", f"There are {number:,} {name} of it, and it is not there. {_RESTORE}"
            )
