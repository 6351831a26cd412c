"""Changes of data contexts: collected for one transaction, and written with their history."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from dcc.databases.list_parameters import only_compared, sorted_chunks
from dcc.databases.transactions import insert_rows
from dcc.errors import InternalFaultError
from dcc.qc.apply.upload_lock import upsert
from dcc.qc.contexts.membership import ContextKey
from dcc.qc.models import CONTEXT, HISTORY, SHARE
from dcc.runtime.clock import utc_now
from dcc.vocabulary import ContextEvent, ContextState

_GENOTYPES_AT_ONCE: Final = 500


@dataclass(slots=True)
class ContextChange:
    """Changes of a context's number of measurements and sum of fingerprints, with the newest `cause`.

    `parts` are changes of each document's number of measurements in it.
    """

    measurements: int = 0
    fingerprints: int = 0
    cause: int | None = None
    parts: Counter[int] = field(default_factory=Counter)


class ContextChanges(defaultdict[ContextKey, ContextChange]):
    """All changes of one transaction, by context; so far of nothing for one that is new here."""

    def __init__(self) -> None:
        super().__init__(ContextChange)

    def add(
        self, document_id: int, key: ContextKey, measurements: int, fingerprints: int, cause: int | None = None
    ) -> None:
        """Add a document's share to a context, negative for removed data, because of `cause`."""
        change = self[key]
        change.measurements += measurements
        change.fingerprints += fingerprints
        if cause is not None and (change.cause is None or change.cause < cause):
            change.cause = cause
        change.parts[document_id] += measurements


def key_of(row: Row[Any]) -> ContextKey:
    """The key in a row of `data_context`."""
    return ContextKey(*(getattr(row, name) for name in ContextKey._fields))


def write_changes(
    connection: Connection, changes: ContextChanges, reason: str | None = None
) -> dict[ContextKey, ContextEvent]:
    """Write changes of contexts; returns the events of those that differ afterwards.

    `reason` is recorded for those that no document changed.
    """
    now = utc_now()
    recorded = _contexts_of(connection, changes)
    ids = {key: row.id for key, row in recorded.items()}
    happened: dict[ContextKey, ContextEvent] = {}
    rows: dict[ContextKey, dict[str, Any]] = {}
    for key in sorted(changes):
        event, row = _after(recorded.get(key), changes[key])
        if event is not None:
            happened[key], rows[key] = event, row | {"changed": now}
    old = [row | {"of_id": ids[key]} for key, row in rows.items() if key in ids]
    if old:
        connection.execute(_CHANGE_CONTEXT, old)
    new = [key for key in rows if key not in ids]
    added = [key._asdict() | rows[key] | {"issues": 0, "created": now} for key in new]
    ids |= zip(new, insert_rows(connection, CONTEXT, added), strict=True)
    history = []
    for key, event in happened.items():
        cause = changes[key].cause
        row = {name: rows[key][name] for name in ("state", "measurements", "checksum")}
        row |= {"context_id": ids[key], "event": event.value, "document_id": cause, "author": None, "created": now}
        history.append(row | {"reason": reason if cause is None else None})
    if history:
        connection.execute(insert(HISTORY), history)
    parts: dict[tuple[int, int], int] = {}
    for key, change in changes.items():
        parts.update(((document_id, ids[key]), number) for document_id, number in change.parts.items() if number)
    _write_parts(connection, parts)
    return happened


def _contexts_of(connection: Connection, keys: Collection[ContextKey]) -> dict[ContextKey, Row[Any]]:
    """The existing ones of these contexts."""
    genotypes: dict[tuple[str, str], set[str]] = {}
    for key in keys:
        genotypes.setdefault((key.centre, key.pipeline), set()).add(key.genotype)
    found: dict[ContextKey, Row[Any]] = {}
    for (centre, pipeline), of_pipeline in genotypes.items():
        given = {"of_centre": centre, "of_pipeline": pipeline, "procedures": sorted({key.procedure_id for key in keys})}
        for some in sorted_chunks(of_pipeline, _GENOTYPES_AT_ONCE):
            rows = connection.execute(_OF_GENOTYPES, given | {"genotypes": some}).all()
            found.update((key, row) for row in rows if (key := key_of(row)) in keys)
    return found


def _after(row: Row[Any] | None, change: ContextChange) -> tuple[ContextEvent | None, dict[str, Any]]:
    """The event of a change to a context's row, or to none, and its new columns.

    Data that were both removed and added have changed, unless they are fewer than before: these were removed.
    """
    before = (0, 0) if row is None else (row.measurements, int(row.checksum, 16))
    after = (before[0] + change.measurements, before[1] + change.fingerprints)
    if min(after) < 0:
        raise InternalFaultError(
            f"The data context {row and row.id} would have {after[0]} measurements. Report this as a fault."
        )
    if after == before:
        return None, {}
    event = ContextEvent.DATA_ADDED
    if after[0] < before[0]:
        event = ContextEvent.DATA_REMOVED
    elif after[0] == before[0] or min(change.parts.values(), default=0) < 0:
        event = ContextEvent.DATA_CHANGED
    state = ContextState(event.value)
    if row is not None:
        state = max(ContextState(row.data_state), state, key=list(ContextState).index)
    return event, {
        "measurements": after[0],
        "checksum": f"{after[1]:032x}",
        "state": (ContextState.HAS_ISSUES if row is not None and row.issues else state).value,
        "data_state": state.value,
        "document_id": change.cause if change.cause is not None or row is None else row.document_id,
    }


def _write_parts(connection: Connection, changes: Mapping[tuple[int, int], int]) -> None:
    """Change the documents' numbers of measurements in contexts, by the ids of both."""
    names = ("document_id", "context_id", "measurements")
    more = [dict(zip(names, (*part, number), strict=True)) for part, number in sorted(changes.items()) if number > 0]
    fewer = [
        {"of_document": part[0], "of_context": part[1], "number": -number}
        for part, number in sorted(changes.items())
        if number < 0
    ]
    if more:
        upsert(connection, SHARE, more, adds=True)
    if fewer:
        connection.execute(_TAKE_FROM_PART, fewer)
        connection.execute(_REMOVE_EMPTY_PART, fewer)


_OF_GENOTYPES: Final = select(CONTEXT).where(
    CONTEXT.c.centre == bindparam("of_centre"),
    CONTEXT.c.pipeline == bindparam("of_pipeline"),
    CONTEXT.c.genotype.in_(bindparam("genotypes", expanding=True)),
    only_compared(CONTEXT.c.procedure_id).in_(bindparam("procedures", expanding=True)),
)
_CHANGE_CONTEXT: Final = update(CONTEXT).where(CONTEXT.c.id == bindparam("of_id"))
"""Sets the columns that a context's row is given."""
_THIS_PART: Final = (SHARE.c.document_id == bindparam("of_document")) & (SHARE.c.context_id == bindparam("of_context"))
_TAKE_FROM_PART: Final = update(SHARE).where(_THIS_PART).values(measurements=SHARE.c.measurements - bindparam("number"))
_REMOVE_EMPTY_PART: Final = delete(SHARE).where(_THIS_PART, SHARE.c.measurements == 0)
