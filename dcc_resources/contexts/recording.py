"""Changes of what data contexts count, written: their rows, their history, and what each document has in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from dcc_resources.contexts.membership import ContextKey, Share
from dcc_resources.contexts.transitions import after_data, shown, what_happened
from dcc_resources.databases.columns import utc_now
from dcc_resources.databases.transactions import insert_rows
from dcc_resources.errors import InternalFaultError
from dcc_resources.qc_database.bulk import insert_bulk
from dcc_resources.qc_database.models import ContextHistory, DataContext, DocumentContext
from dcc_resources.qc_database.versions import in_chunks
from dcc_resources.qc_database.vocabulary import ContextEvent, ContextState

_CONTEXT: Final = DataContext.__table__
_PART: Final = DocumentContext.__table__
_WRITTEN: Final = ("measurements", "checksum", "state", "data_state", "document_id")


@dataclass(slots=True)
class Change:
    """What is added to a context's number of measurements and sum of fingerprints, by the newest `cause`."""

    measurements: int = 0
    fingerprints: int = 0
    cause: int | None = None


@dataclass(slots=True)
class Changes:
    """All changes of one transaction: of contexts, and of how many measurements each document has in them."""

    contexts: dict[ContextKey, Change] = field(default_factory=dict)
    parts: dict[tuple[int, ContextKey], int] = field(default_factory=dict)

    def take(self, shares: Iterable[Share], sign: int, cause: int | None) -> None:
        """Count shares that came (`sign` 1) or went (-1) because of a document."""
        for share in shares:
            change = self.contexts.setdefault(share.key, Change())
            change.measurements += sign * share.measurements
            change.fingerprints += sign * share.fingerprints
            if cause is not None:
                change.cause = cause if change.cause is None else max(change.cause, cause)
            part = (share.document_id, share.key)
            self.parts[part] = self.parts.get(part, 0) + sign * share.measurements


def write_changes(
    connection: Connection, changes: Changes, reason: str | None = None
) -> dict[ContextKey, ContextEvent]:
    """Write changes into contexts; what happened to the data of those that differ afterwards.

    `reason` is kept in the history of those that no document changed.
    """
    now = utc_now()
    ids: dict[ContextKey, int] = {}
    happened: dict[ContextKey, ContextEvent] = {}
    values: dict[ContextKey, dict[str, Any]] = {}
    for group, of_group in groupby(sorted(changes.contexts), key=lambda key: key[:5]):
        there = _contexts_of(connection, group)
        for key in of_group:
            row = there.get(key.parameter_id)
            if row is not None:
                ids[key] = row.id
            event, after = _after(row, changes.contexts[key])
            if event is not None:
                happened[key], values[key] = event, after
    _write_contexts(connection, values, ids, now)
    _write_history(connection, happened, values, ids, {"reason": reason, "created": now})
    _write_parts(connection, {(part[0], ids[part[1]]): number for part, number in changes.parts.items() if number})
    return happened


def _contexts_of(connection: Connection, group: Sequence[str]) -> dict[str, Row[Any]]:
    """The contexts of a centre, pipeline, genotype, strain and procedure, by parameter."""
    columns = (_CONTEXT.c.centre, _CONTEXT.c.pipeline, _CONTEXT.c.genotype, _CONTEXT.c.strain_id)
    equal = [column == value for column, value in zip((*columns, _CONTEXT.c.procedure_id), group, strict=True)]
    return {row.parameter_id: row for row in connection.execute(select(_CONTEXT).where(*equal))}


def _after(row: Row[Any] | None, change: Change) -> tuple[ContextEvent | None, dict[str, Any]]:
    """What a change does to the row of a context, or to none, and the columns that it then has."""
    before = (0, 0) if row is None else (row.measurements, int(row.checksum, 16))
    after = (before[0] + change.measurements, before[1] + change.fingerprints)
    if min(after) < 0:
        raise InternalFaultError(
            f"The data context {row and row.id} would have {after[0]} measurements. Report this as a fault."
        )
    event = what_happened(before, after)
    if event is None:
        return None, {}
    data_state = after_data(ContextState.NO_DATA if row is None else ContextState(row.data_state), event)
    return event, {
        "measurements": after[0],
        "checksum": f"{after[1]:032x}",
        "state": shown(data_state, 0 if row is None else row.issues).value,
        "data_state": data_state.value,
        "document_id": change.cause if change.cause is not None or row is None else row.document_id,
        "caused_by": change.cause,
    }


def _write_contexts(
    connection: Connection, values: Mapping[ContextKey, dict[str, Any]], ids: dict[ContextKey, int], now: datetime
) -> None:
    """Write the columns that contexts have; adds the ids of new ones to `ids`."""
    rows = {key: {name: after[name] for name in _WRITTEN} | {"changed": now} for key, after in values.items()}
    new = [key for key in rows if key not in ids]
    old = [row | {"of_id": ids[key]} for key, row in rows.items() if key in ids]
    if old:
        written: dict[str, Any] = {name: bindparam(name) for name in (*_WRITTEN, "changed")}
        connection.execute(update(_CONTEXT).where(_CONTEXT.c.id == bindparam("of_id")).values(written), old)
    added = [key._asdict() | rows[key] | {"issues": 0, "created": now} for key in new]
    ids |= zip(new, insert_rows(connection, DataContext, added), strict=True)


def _write_history(
    connection: Connection,
    happened: Mapping[ContextKey, ContextEvent],
    values: Mapping[ContextKey, dict[str, Any]],
    ids: Mapping[ContextKey, int],
    common: dict[str, object],
) -> None:
    rows = []
    for key, event in happened.items():
        after = values[key]
        row: dict[str, object] = {name: after[name] for name in ("state", "measurements", "checksum")}
        of_document = {"document_id": after["caused_by"], "author": None}
        row |= {"context_id": ids[key], "event": event.value} | of_document | common
        rows.append(row if after["caused_by"] is None else row | {"reason": None})
    if rows:
        connection.execute(insert(ContextHistory.__table__), rows)


def _write_parts(connection: Connection, changes: Mapping[tuple[int, int], int]) -> None:
    """Add to how many measurements documents have in contexts, by the ids of both."""
    of_document: dict[int, list[int]] = {}
    for document_id, context_id in changes:
        of_document.setdefault(document_id, []).append(context_id)
    there: dict[tuple[int, int], int] = {}
    for document_id, context_ids in of_document.items():
        for chunk in in_chunks(context_ids):
            of_chunk = (_PART.c.document_id == document_id) & _PART.c.context_id.in_(chunk)
            there |= {
                (row.document_id, row.context_id): row.measurements
                for row in connection.execute(select(_PART).where(of_chunk))
            }
    new, changed, gone = [], [], []
    for part, number in changes.items():
        after = there.get(part, 0) + number
        row = {"of_document": part[0], "of_context": part[1], "number": after}
        if part not in there:
            new.append((*part, after))
        elif after:
            changed.append(row)
        else:
            gone.append(row)
    this = (_PART.c.document_id == bindparam("of_document")) & (_PART.c.context_id == bindparam("of_context"))
    if gone:
        connection.execute(delete(_PART).where(this), gone)
    if changed:
        connection.execute(update(_PART).where(this).values(measurements=bindparam("number")), changed)
    if new:
        insert_bulk(connection, _PART, new)
