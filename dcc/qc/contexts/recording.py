"""Writes changes of data contexts: their rows, their history, and the share of each document."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, bindparam, delete, insert, select, update

from dcc.databases.columns import utc_now
from dcc.databases.list_parameters import AT_ONCE, as_json, numbers_in, only_compared, pairs_in, sorted_chunks
from dcc.databases.transactions import insert_rows
from dcc.errors import InternalFaultError
from dcc.qc.contexts.membership import ContextKey
from dcc.qc.contexts.states import after_data, event_of_change, state_with_issues
from dcc.qc.models import CONTEXT, HISTORY, SHARE
from dcc.qc.rows.bulk import insert_bulk
from dcc.vocabulary import ContextEvent, ContextState

_GENOTYPES_AT_ONCE: Final = 500
_WRITTEN: Final = ("measurements", "checksum", "state", "data_state", "document_id")


@dataclass(slots=True)
class ContextChange:
    """Changes of a context's number of measurements and sum of fingerprints, with the newest `cause`.

    `parts` are changes of each document's number of measurements in it.
    """

    measurements: int = 0
    fingerprints: int = 0
    cause: int | None = None
    parts: dict[int, int] = field(default_factory=dict)

    def add_part(self, document_id: int, measurements: int) -> None:
        """Add a document's measurements; a negative number for removed ones."""
        self.parts[document_id] = self.parts.get(document_id, 0) + measurements


@dataclass(slots=True)
class ContextChanges:
    """All changes of one transaction, by context."""

    contexts: dict[ContextKey, ContextChange] = field(default_factory=dict)

    def add(
        self, document_id: int, key: ContextKey, measurements: int, fingerprints: int, cause: int | None = None
    ) -> None:
        """Add a document's share to a context, negative for removed data, because of `cause`."""
        change = self.contexts.get(key)
        if change is None:
            change = self.contexts[key] = ContextChange()
        change.measurements += measurements
        change.fingerprints += fingerprints
        if cause is not None and (change.cause is None or change.cause < cause):
            change.cause = cause
        change.add_part(document_id, measurements)


def write_changes(
    connection: Connection, changes: ContextChanges, reason: str | None = None
) -> dict[ContextKey, ContextEvent]:
    """Write changes of contexts; returns the events of those that differ afterwards.

    `reason` is recorded for those that no document changed.
    """
    now = utc_now()
    ids: dict[ContextKey, int] = {}
    happened: dict[ContextKey, ContextEvent] = {}
    values: dict[ContextKey, dict[str, Any]] = {}
    recorded = _contexts_of(connection, changes.contexts)
    for key in sorted(changes.contexts):
        row = recorded.get(key)
        if row is not None:
            ids[key] = row.id
        event, after = _after(row, changes.contexts[key])
        if event is not None:
            happened[key], values[key] = event, after
    _write_contexts(connection, values, ids, now)
    _write_history(connection, happened, values, ids, {"reason": reason, "created": now})
    parts: dict[tuple[int, int], int] = {}
    for key, change in changes.contexts.items():
        parts.update(((document_id, ids[key]), number) for document_id, number in change.parts.items() if number)
    _write_parts(connection, parts)
    return happened


def _contexts_of(connection: Connection, keys: Collection[ContextKey]) -> dict[ContextKey, Row[Any]]:
    """The existing contexts of these keys, among others of their genotypes."""
    genotypes: dict[tuple[str, str], set[str]] = {}
    for key in keys:
        genotypes.setdefault((key.centre, key.pipeline), set()).add(key.genotype)
    procedures = sorted({key.procedure_id for key in keys})
    found: dict[ContextKey, Row[Any]] = {}
    for (centre, pipeline), of_pipeline in genotypes.items():
        ordered = sorted(of_pipeline)
        given = {"of_centre": centre, "of_pipeline": pipeline, "procedures": procedures}
        for start in range(0, len(ordered), _GENOTYPES_AT_ONCE):
            wanted = given | {"genotypes": ordered[start : start + _GENOTYPES_AT_ONCE]}
            for row in connection.execute(_OF_GENOTYPES, wanted).all():
                found[ContextKey._make(row[1 : 1 + len(ContextKey._fields)])] = row
    return found


def _after(row: Row[Any] | None, change: ContextChange) -> tuple[ContextEvent | None, dict[str, Any]]:
    """The event of a change to a context's row, or to none, and its new columns."""
    before = (0, 0) if row is None else (row.measurements, int(row.checksum, 16))
    after = (before[0] + change.measurements, before[1] + change.fingerprints)
    if min(after) < 0:
        raise InternalFaultError(
            f"The data context {row and row.id} would have {after[0]} measurements. Report this as a fault."
        )
    event = event_of_change(before, after, has_removals=any(number < 0 for number in change.parts.values()))
    if event is None:
        return None, {}
    data_state = after_data(ContextState.NO_DATA if row is None else ContextState(row.data_state), event)
    return event, {
        "measurements": after[0],
        "checksum": f"{after[1]:032x}",
        "state": state_with_issues(data_state, 0 if row is None else row.issues).value,
        "data_state": data_state.value,
        "document_id": change.cause if change.cause is not None or row is None else row.document_id,
        "caused_by": change.cause,
    }


def _write_contexts(
    connection: Connection, values: Mapping[ContextKey, dict[str, Any]], ids: dict[ContextKey, int], now: datetime
) -> None:
    """Write the columns of contexts; adds the ids of new ones to `ids`."""
    rows = {key: {name: after[name] for name in _WRITTEN} | {"changed": now} for key, after in values.items()}
    new = [key for key in rows if key not in ids]
    old = [row | {"of_id": ids[key]} for key, row in rows.items() if key in ids]
    if old:
        connection.execute(_CHANGE_CONTEXT, old)
    added = [key._asdict() | rows[key] | {"issues": 0, "created": now} for key in new]
    ids |= zip(new, insert_rows(connection, CONTEXT, added), strict=True)


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
        connection.execute(_TELL, rows)


def _write_parts(connection: Connection, changes: Mapping[tuple[int, int], int]) -> None:
    """Change the documents' numbers of measurements in contexts, by the ids of both."""
    parts = sorted(changes)
    recorded = _parts_of(connection, parts)
    new, changed, gone = [], [], []
    for part in parts:
        after = recorded.get(part, 0) + changes[part]
        row = {"of_document": part[0], "of_context": part[1], "number": after}
        if part not in recorded:
            new.append((*part, after))
        elif after:
            changed.append(row)
        else:
            gone.append(row)
    if gone:
        connection.execute(_REMOVE_PART, gone)
    if changed:
        connection.execute(_CHANGE_PART, changed)
    if new:
        insert_bulk(connection, SHARE, new)


def _parts_of(connection: Connection, parts: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """The existing ones of the parts, with their numbers of measurements; most documents are new, and have none."""
    counted: set[int] = set()
    for documents in sorted_chunks({document_id for document_id, _ in parts}):
        counted.update(connection.scalars(_COUNTED, {"documents": as_json(documents)}))
    relevant = [part for part in parts if part[0] in counted]
    recorded: dict[tuple[int, int], int] = {}
    for start in range(0, len(relevant), AT_ONCE):
        rows = connection.execute(_PARTS, {"parts": as_json(relevant[start : start + AT_ONCE])})
        recorded.update(((document_id, context_id), number) for document_id, context_id, number in rows)
    return recorded


_OF_GENOTYPES: Final = select(CONTEXT).where(
    CONTEXT.c.centre == bindparam("of_centre"),
    CONTEXT.c.pipeline == bindparam("of_pipeline"),
    CONTEXT.c.genotype.in_(bindparam("genotypes", expanding=True)),
    only_compared(CONTEXT.c.procedure_id).in_(bindparam("procedures", expanding=True)),
)
_CHANGE_CONTEXT: Final = (
    update(CONTEXT)
    .where(CONTEXT.c.id == bindparam("of_id"))
    .values({name: bindparam(name) for name in (*_WRITTEN, "changed")})
)
_TELL: Final = insert(HISTORY)
_GIVEN: Final = numbers_in("documents").subquery()
_COUNTED: Final = select(_GIVEN.c.value).join(SHARE, SHARE.c.document_id == _GIVEN.c.value).distinct()
_WANTED: Final = pairs_in("parts")
_PARTS: Final = (
    select(SHARE)
    .select_from(_WANTED)
    .join(SHARE, and_(SHARE.c.document_id == _WANTED.c.first, SHARE.c.context_id == _WANTED.c.second))
)
_THIS_PART: Final = (SHARE.c.document_id == bindparam("of_document")) & (SHARE.c.context_id == bindparam("of_context"))
_REMOVE_PART: Final = delete(SHARE).where(_THIS_PART)
_CHANGE_PART: Final = update(SHARE).where(_THIS_PART).values(measurements=bindparam("number"))
