"""What was current at a time, and the story of one animal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Select, String, cast, exists, func, select

from dcc.databases.list_parameters import rows_with
from dcc.documents.forms import path_of_centre
from dcc.naming import DocumentKind
from dcc.qc.apply.versions import is_lifetime_of, key_columns, key_of_row, same_text
from dcc.qc.models import (
    BLOCK,
    DOCUMENT,
    ENTITY_TABLES,
    EXPERIMENT,
    FINDING,
    LIFETIME,
    MEASUREMENT,
    NAMED,
    RUN,
    SPECIMEN,
)
from dcc.qc.rows.entity_keys import Key
from dcc.rules.upload import NOT_STORED
from dcc.vocabulary import DocumentAction, EntityKind


class EventKind(StrEnum):
    """What a document did to an entity."""

    ADDED = "added"
    EDITED = "edited"
    DELETED = "deleted"
    WITHDRAWN = "withdrawn"
    RESTORED = "restored"
    REFUSED = "refused"


class EventFinding(NamedTuple):
    """A finding about an entity in its document; inactive once another document closed it."""

    rule: str
    severity: str
    message: str
    line: int | None
    is_active: bool
    closed_by: int | None


@dataclass(frozen=True, slots=True)
class Event:
    """One document's part in the story of a specimen: an event of a specimen or experiment.

    `entity_id` is the row of the version that became current, else of the former one, else of the refused one; None if
    nothing of it was stored (rule Q1). `line` is that of the version in its own document, which is another one if a
    withdrawal restored it. `late`: the document came after newer ones; `author` and `reason` are those of a person who
    confirmed the document, or withdrew what it undoes. `findings` are about this entity.
    """

    document_id: int
    applied_at: datetime
    action: str
    zip_action: str
    zip_file: str
    file_name: str
    happening: EventKind
    entity_kind: EntityKind
    entity_key: tuple[str | bool | None, ...]
    entity_id: int | None
    line: int | None
    created: date | None
    late: bool
    undoes: int | None
    author: str | None
    reason: str | None
    findings: tuple[EventFinding, ...]


def document_at(connection: Connection, moment: datetime) -> int:
    """The last document applied at or before a time (naive, UTC), for queries of the past; 0 before any."""
    return connection.scalar(select(func.max(DOCUMENT.c.id)).where(DOCUMENT.c.applied_at <= moment)) or 0


def current_at(kind: EntityKind, document_id: int) -> ColumnElement[bool]:
    """The condition on an entity's table that a version was current after that document."""
    return exists().where(is_lifetime_of(kind), _lasts(document_id))


def _lasts(document_id: int) -> ColumnElement[bool]:
    ended = LIFETIME.c.ended_by.is_(None) | (LIFETIME.c.ended_by > document_id)
    return (LIFETIME.c.opened_by <= document_id) & ended


def measurements_at(document_id: int) -> Select[Any]:
    """All columns of the measurements that were current after that document; to be filtered on."""
    return (
        select(MEASUREMENT)
        .join(RUN, RUN.c.id == MEASUREMENT.c.procedure_run_id)
        .join(LIFETIME, (LIFETIME.c.entity_kind == RUN.c.owner_kind) & (LIFETIME.c.entity_id == RUN.c.owner_id))
        .where(_lasts(document_id))
    )


def specimen_history(connection: Connection, centre: str, specimen_id: str) -> list[Event]:
    """The events of a specimen and of the experiments on it, in the order of application.

    Empty for a specimen that no document ever named.
    """
    versions = select(SPECIMEN.c.id).where(SPECIMEN.c.centre == centre, same_text(SPECIMEN.c.specimen_id, specimen_id))
    about = (
        select(EXPERIMENT.c.id)
        .join(NAMED, NAMED.c.experiment_row == EXPERIMENT.c.id)
        .where(EXPERIMENT.c.centre == centre, same_text(NAMED.c.specimen_id, specimen_id))
    )
    events = _events(connection, EntityKind.SPECIMEN, connection.scalars(versions).all())
    events += _events(connection, EntityKind.EXPERIMENT, connection.scalars(about.distinct()).all())
    events += _not_stored(connection, centre, specimen_id)
    order = list(EntityKind)
    return sorted(events, key=lambda event: (event.document_id, order.index(event.entity_kind), event.entity_id or 0))


def _events(connection: Connection, kind: EntityKind, ids: Iterable[int]) -> list[Event]:
    table = ENTITY_TABLES[kind]
    columns = (table.c.id, table.c.document_id, table.c.line, *key_columns(kind))
    versions = {row.id: row for row in rows_with(connection, select(*columns), table.c.id, ids)}
    keys = {row_id: key_of_row(row[3:]) for row_id, row in versions.items()}
    of_kind = select(LIFETIME).where(LIFETIME.c.entity_kind == kind.value).order_by(LIFETIME.c.id)
    lifetimes = sorted(rows_with(connection, of_kind, LIFETIME.c.entity_id, versions), key=lambda row: row.id)
    touched = {row.document_id for row in versions.values()} | {row.opened_by for row in lifetimes}
    touched |= {row.ended_by for row in lifetimes if row.ended_by is not None}
    documents = {row.id: row for row in rows_with(connection, select(DOCUMENT), DOCUMENT.c.id, touched)}
    found: dict[tuple[int, Key], tuple[EventKind, int]] = {}
    for row in versions.values():
        found[row.document_id, keys[row.id]] = (EventKind.REFUSED, row.id)
    for row in lifetimes:
        if row.ended_by is not None:
            found[row.ended_by, keys[row.entity_id]] = (_happening(documents[row.ended_by], opens=False), row.entity_id)
    for row in lifetimes:
        found[row.opened_by, keys[row.entity_id]] = (_happening(documents[row.opened_by], opens=True), row.entity_id)
    findings = _findings(connection, kind, keys)
    return [
        _event(documents[document_id], happening, kind, key, versions[row_id], findings.get((document_id, key), []))
        for (document_id, key), (happening, row_id) in found.items()
    ]


def _findings(
    connection: Connection, kind: EntityKind, keys: Mapping[int, Key]
) -> dict[tuple[int, Key], list[EventFinding]]:
    """The findings about versions of entities, by their document and the entity's key."""
    columns = [FINDING.c[name] for name in EventFinding._fields]
    statement = select(FINDING.c.document_id, FINDING.c.entity_id, *columns).order_by(FINDING.c.id)
    found: dict[tuple[int, Key], list[EventFinding]] = {}
    for row in rows_with(connection, statement.where(FINDING.c.entity_kind == kind.value), FINDING.c.entity_id, keys):
        found.setdefault((row.document_id, keys[row.entity_id]), []).append(EventFinding._make(row[2:]))
    return found


def _not_stored(connection: Connection, centre: str, specimen_id: str) -> list[Event]:
    """The events of a specimen that was not stored, because a text of it was too long (rule Q1)."""
    # It is of the centre element in its path; former findings have none, and go by their document.
    in_block = FINDING.c.path.startswith(_CENTRE_ELEMENT + cast(BLOCK.c.position, String) + "]")
    statement = (
        select(DOCUMENT, *[FINDING.c[name].label(f"finding_{name}") for name in EventFinding._fields])
        .join(FINDING, FINDING.c.document_id == DOCUMENT.c.id)
        .outerjoin(BLOCK, (BLOCK.c.document_id == DOCUMENT.c.id) & in_block)
        .where(func.coalesce(BLOCK.c.centre, DOCUMENT.c.centre) == centre, FINDING.c.rule == NOT_STORED)
        .where(FINDING.c.entity_kind == EntityKind.SPECIMEN.value, same_text(FINDING.c.value, specimen_id))
        .order_by(FINDING.c.id)
    )
    key = (centre, specimen_id)
    found = []
    for row in connection.execute(statement):
        finding = EventFinding._make(getattr(row, f"finding_{name}") for name in EventFinding._fields)
        found.append(_event(row, EventKind.REFUSED, EntityKind.SPECIMEN, key, None, [finding]))
    return found


def _happening(document: Row[Any], *, opens: bool) -> EventKind:
    if document.action == DocumentAction.UNDO.value:
        return EventKind.RESTORED if opens else EventKind.WITHDRAWN
    if document.action == (DocumentAction.ADD if opens else DocumentAction.DELETE).value:
        return EventKind.ADDED if opens else EventKind.DELETED
    return EventKind.EDITED


def _event(
    document: Row[Any],
    happening: EventKind,
    kind: EntityKind,
    key: Key,
    version: Row[Any] | None,
    findings: Iterable[EventFinding],
) -> Event:
    return Event(
        **{name: getattr(document, name) for name in _OF_DOCUMENT},
        document_id=document.id,
        happening=happening,
        entity_kind=kind,
        entity_key=key,
        entity_id=None if version is None else version.id,
        line=next((finding.line for finding in findings), None) if version is None else version.line,
        findings=tuple(findings),
    )


_CENTRE_ELEMENT: Final = path_of_centre(DocumentKind.SPECIMEN, 1).removesuffix("1]")
_OF_DOCUMENT: Final = (
    *("applied_at", "action", "zip_action", "zip_file", "file_name"),
    *("created", "late", "undoes", "author", "reason"),
)
