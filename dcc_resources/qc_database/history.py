"""What was current when, and the story of one animal (issue 3, item 3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, exists, func, select

from dcc_resources.qc_database.models import (
    Document,
    Experiment,
    ExperimentSpecimen,
    Lifetime,
    Measurement,
    ProcedureRun,
    Specimen,
)
from dcc_resources.qc_database.rows import ENTITY_TABLES
from dcc_resources.qc_database.versions import key_columns, key_of_row
from dcc_resources.qc_database.vocabulary import DocumentAction, EntityKind

_DOCUMENT: Final = Document.__table__
_LIFETIME: Final = Lifetime.__table__


class Happening(StrEnum):
    """What a document did to an entity."""

    ADDED = "added"
    EDITED = "edited"
    DELETED = "deleted"
    WITHDRAWN = "withdrawn"
    RESTORED = "restored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Event:
    """One document's part in the story of a specimen: what happened, to which specimen or experiment.

    `entity_id` is the row of the version that became current, else of the one that was, else of the one refused.
    """

    document_id: int
    applied_at: datetime
    action: str
    zip_action: str
    zip_file: str
    file_name: str
    happening: Happening
    entity_kind: EntityKind
    entity_key: tuple[str | bool | None, ...]
    entity_id: int


def document_at(connection: Connection, moment: datetime) -> int:
    """The last document applied at or before a time (naive, UTC), to ask what was current then; 0 before any."""
    return connection.scalar(select(func.max(_DOCUMENT.c.id)).where(_DOCUMENT.c.applied_at <= moment)) or 0


def current_at(kind: EntityKind, document_id: int) -> ColumnElement[bool]:
    """The condition on an entity's table that a version was current once that document had been applied."""
    ended = _LIFETIME.c.ended_by.is_(None) | (_LIFETIME.c.ended_by > document_id)
    return exists().where(
        _LIFETIME.c.entity_kind == kind.value,
        _LIFETIME.c.entity_id == ENTITY_TABLES[kind].c.id,
        _LIFETIME.c.opened_by <= document_id,
        ended,
    )


def measurements_at(document_id: int) -> Select[Any]:
    """All columns of the measurements that were current once that document had been applied; to be filtered on."""
    measurement, run = Measurement.__table__, ProcedureRun.__table__
    ended = _LIFETIME.c.ended_by.is_(None) | (_LIFETIME.c.ended_by > document_id)
    return (
        select(measurement)
        .join(run, run.c.id == measurement.c.procedure_run_id)
        .join(_LIFETIME, (_LIFETIME.c.entity_kind == run.c.owner_kind) & (_LIFETIME.c.entity_id == run.c.owner_id))
        .where(_LIFETIME.c.opened_by <= document_id, ended)
    )


def specimen_history(connection: Connection, centre: str, specimen_id: str) -> list[Event]:
    """What documents did to a specimen and to the experiments about it, in the order of application.

    Empty for a specimen that no document ever named.
    """
    specimen, experiment, named = Specimen.__table__, Experiment.__table__, ExperimentSpecimen.__table__
    versions = select(specimen.c.id).where(specimen.c.centre == centre, specimen.c.specimen_id == specimen_id)
    about = (
        select(experiment.c.id)
        .join(named, named.c.experiment_row == experiment.c.id)
        .where(experiment.c.centre == centre, named.c.specimen_id == specimen_id)
    )
    events = _events(connection, EntityKind.SPECIMEN, connection.scalars(versions).all())
    events += _events(connection, EntityKind.EXPERIMENT, connection.scalars(about.distinct()).all())
    order = list(EntityKind)
    return sorted(events, key=lambda event: (event.document_id, order.index(event.entity_kind), event.entity_id))


def _events(connection: Connection, kind: EntityKind, ids: Iterable[int]) -> list[Event]:
    table = ENTITY_TABLES[kind]
    versions = {
        row.id: row
        for row in connection.execute(
            select(table.c.id, table.c.document_id, *key_columns(kind)).where(table.c.id.in_(list(ids)))
        )
    }
    of_these = (_LIFETIME.c.entity_kind == kind.value) & _LIFETIME.c.entity_id.in_(versions)
    lifetimes = connection.execute(select(_LIFETIME).where(of_these).order_by(_LIFETIME.c.id)).all()
    touched = {row.document_id for row in versions.values()} | {row.opened_by for row in lifetimes}
    touched |= {row.ended_by for row in lifetimes if row.ended_by is not None}
    documents = {row.id: row for row in connection.execute(select(_DOCUMENT).where(_DOCUMENT.c.id.in_(touched)))}
    found: dict[tuple[int, Any], tuple[Happening, int]] = {}
    for row in versions.values():
        found[row.document_id, key_of_row(row[2:])] = (Happening.REFUSED, row.id)
    for row in lifetimes:
        if row.ended_by is not None:
            found[row.ended_by, key_of_row(versions[row.entity_id][2:])] = (
                _ending(documents[row.ended_by]),
                row.entity_id,
            )
    for row in lifetimes:
        found[row.opened_by, key_of_row(versions[row.entity_id][2:])] = (
            _opening(documents[row.opened_by]),
            row.entity_id,
        )
    return [
        _event(documents[document_id], happening, kind, key, entity_id)
        for (document_id, key), (happening, entity_id) in found.items()
    ]


def _opening(document: Row[Any]) -> Happening:
    if document.action == DocumentAction.UNDO.value:
        return Happening.RESTORED
    return Happening.ADDED if document.action == DocumentAction.ADD.value else Happening.EDITED


def _ending(document: Row[Any]) -> Happening:
    if document.action == DocumentAction.UNDO.value:
        return Happening.WITHDRAWN
    return Happening.DELETED if document.action == DocumentAction.DELETE.value else Happening.EDITED


def _event(document: Row[Any], happening: Happening, kind: EntityKind, key: Any, entity_id: int) -> Event:
    return Event(
        document.id,
        document.applied_at,
        document.action,
        document.zip_action,
        document.zip_file,
        document.file_name,
        happening,
        kind,
        key,
        entity_id,
    )
