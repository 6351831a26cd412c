"""Updates data contexts when documents change data.

The table `context_member` records under what each procedure run is counted. Affected runs that must be counted
differently are removed from their former contexts and added to the new ones, by sums over their measurements. So the
cost depends on the changes, not on the size of the database.

An error in them would stay, in a database that was repaired by hand or restored in part. `recount_contexts` compares
the recorded values with a count of the measurements, one procedure of a centre at a time. It corrects what differs.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    select,
    union,
    update,
)

from dcc.data_outcomes import ContextCounts, ContextsBuilt
from dcc.databases.columns import require_text
from dcc.databases.list_parameters import AT_ONCE, as_json, groups_in, only_compared, pairs_in, rows_with, sorted_chunks
from dcc.databases.transactions import insert_rows, run_reading, run_writing
from dcc.errors import InternalFaultError
from dcc.qc.apply.upload_lock import PATIENCE_SECONDS, lock_all
from dcc.qc.contexts.affected_runs import (
    COLONIES,
    ArchiveFilter,
    Basis,
    Build,
    affected_runs,
    due_documents,
    follow_basis,
    mark_built,
    recorded_basis,
    runs_by_colony,
)
from dcc.qc.contexts.experiment_validity import update_all_validity, update_validity
from dcc.qc.contexts.listings import newest_history
from dcc.qc.contexts.membership import (
    ContextKey,
    Places,
    RunContexts,
    correct_members,
    members_of,
    present_members,
    present_places,
    recorded_places,
    shares_of_procedure,
)
from dcc.qc.contexts.overviews import rebuild_overviews
from dcc.qc.contexts.states import SETTLED
from dcc.qc.models import CONTEXT, DOCUMENT, HISTORY, MEASUREMENT, RUN, SHARE
from dcc.qc.rows.bulk import insert_bulk
from dcc.runtime.clock import utc_now
from dcc.vocabulary import ContextEvent, ContextState


def build_contexts(qc: Engine, *, is_own: ArchiveFilter = None) -> ContextsBuilt:
    """Include all documents that the data contexts do not include yet, or those of some archives.

    Those are documents with `contexts_built` false that were judged, withdrew others, or changed nothing. They are
    included oldest first, as many at once as fit into a transaction, each of which leaves the contexts consistent; the
    next build repeats a killed one. Nothing else changes their centres' data meanwhile. Experiments follow the validity
    of their animals first. If the reference data of colonies have changed, strains that follow from them change first.

    Raises the database's `unreachable` error if others were in the way, or the database away, for too long.
    """
    started = time.monotonic()
    followed: set[int] = set()
    documents = 0
    happened: Counter[tuple[str, ContextEvent]] = Counter()

    def take(connection: Connection) -> _Taken | None:
        return _take_documents(connection, followed, is_own)

    def count(connection: Connection) -> tuple[tuple[ContextCounts, ...], int]:
        return _counts(connection, happened), newest_history(connection)

    events = run_writing(qc, _follow_reference_data, patience_seconds=PATIENCE_SECONDS)
    number: int | None = None
    while number != 0:
        happened.update((key.centre, event) for key, event in events.items())
        while (taken := run_writing(qc, take, patience_seconds=PATIENCE_SECONDS)) is None:
            followed = run_writing(
                qc, lambda connection: update_validity(connection, is_own), patience_seconds=PATIENCE_SECONDS
            )
        number, events = taken
        documents += number
    # One consistent read: a decision after the counts must not be taken for counted.
    counts, history = run_reading(qc, count)
    return ContextsBuilt(counts, documents, time.monotonic() - started, utc_now(), history)


Events = Mapping[ContextKey, ContextEvent]
_Taken = tuple[int, Events]
"""The number of documents that a transaction included, and what happened to contexts."""


def _follow_reference_data(connection: Connection) -> Events:
    events: dict[ContextKey, ContextEvent] = {}

    def renew(basis: Basis) -> None:
        runs = dict.fromkeys(runs_by_colony(connection))
        events.update(_recount(connection, runs, basis, f"Reference data: {COLONIES} {basis[COLONIES]}"))

    follow_basis(connection, Build.CONTEXTS, [COLONIES], renew)
    return events


def _take_documents(connection: Connection, followed: Set[int], is_own: ArchiveFilter) -> _Taken | None:
    """None: the validity of experiments, which follows `followed`, does not follow the next documents yet."""
    documents = due_documents(connection, Build.CONTEXTS, is_own)
    if not set(documents) <= followed:
        return None
    if not documents:
        return 0, {}
    # The recorded strains are of this snapshot: a newer one is for the next build.
    basis = recorded_basis(connection, Build.CONTEXTS)
    events = _recount(connection, affected_runs(connection, documents, Build.CONTEXTS), basis)
    mark_built(connection, documents, Build.CONTEXTS)
    return len(documents), events


def _recount(
    connection: Connection, runs: Mapping[int, int | None], basis: Basis, reason: str | None = None
) -> dict[ContextKey, ContextEvent]:
    """Count runs under their present keys; `runs` has the document that is the cause, if there is one."""
    changes = ContextChanges()
    for run_ids in sorted_chunks(runs):
        places = present_places(connection, run_ids, basis[COLONIES])
        before, now = correct_members(connection, run_ids, members_of(places))
        changed = {member.procedure_run_id for member in before | now}
        _add_shares(connection, changes, -1, runs, recorded_places(connection, before))
        _add_shares(connection, changes, 1, runs, {place: ids & changed for place, ids in places.items()})
    return write_changes(connection, changes, reason)


def _add_shares(
    connection: Connection, changes: ContextChanges, sign: int, causes: Mapping[int, int | None], places: Places
) -> None:
    """Add the sums of runs where they are counted (`sign` 1), or remove them (-1)."""
    groups: list[tuple[list[int], RunContexts, int | None]] = []
    for place, run_ids in places.items():
        of_cause: dict[int | None, list[int]] = {}
        for run_id in sorted(run_ids):
            of_cause.setdefault(causes[run_id], []).append(run_id)
        groups += [(runs, place, cause) for cause, runs in of_cause.items()]
    if not groups:
        return
    # In the order of their runs, which is that of the measurements.
    groups.sort(key=lambda group: group[0])
    found = connection.execute(_SUMS, {"runs": as_json([runs for runs, _, _ in groups])})
    for number, parameter, measurements, fingerprints in found.all():
        _, place, cause = groups[number - 1]
        key = place.context(parameter.rstrip(" "))
        changes.add(place.document_id, key, sign * measurements, sign * int(fingerprints), cause)


_GROUP: Final = groups_in("runs")
_COLUMNS: Final[Sequence[ColumnElement[Any]]] = (_GROUP.c.number, MEASUREMENT.c.parameter_id)
_SUMS: Final[Select[Any]] = (
    select(*_COLUMNS, func.count(), func.sum(MEASUREMENT.c.fingerprint))
    .select_from(_GROUP)
    .join(MEASUREMENT, MEASUREMENT.c.procedure_run_id == _GROUP.c.value)
    .group_by(*_COLUMNS)
)
"""The number and the sum of the fingerprints of each parameter's measurements, in the groups of runs `runs`."""


def count_contexts(connection: Connection, centres: Collection[str] | None = None) -> tuple[ContextCounts, ...]:
    """The data contexts of all centres that have any, or of those of `centres`, in the order of centres."""
    states: dict[str, Counter[ContextState]] = defaultdict(Counter)
    procedures: dict[str, Counter[str]] = defaultdict(Counter)
    columns = (CONTEXT.c.centre, CONTEXT.c.state, CONTEXT.c.procedure_id)
    statement = select(*columns, func.count(), func.sum(CONTEXT.c.measurements)).group_by(*columns)
    for centre, state, procedure, contexts, measurements in rows_with(connection, statement, CONTEXT.c.centre, centres):
        states[centre][ContextState(state)] += contexts
        procedures[centre][procedure] += int(measurements)
    return tuple(
        ContextCounts(
            centre,
            dict(states[centre]),
            measurements=procedures[centre].total(),
            procedures={name: number for name, number in procedures[centre].items() if number},
        )
        for centre in sorted(states)
    )


def _counts(connection: Connection, happened: Mapping[tuple[str, ContextEvent], int]) -> tuple[ContextCounts, ...]:
    """An entry for each centre with events."""
    centres = sorted({centre for centre, _ in happened})
    found = {one.centre: one for one in count_contexts(connection, centres)}
    return tuple(
        replace(
            found.get(centre, ContextCounts(centre, {})),
            added=happened.get((centre, ContextEvent.DATA_ADDED), 0),
            changed=happened.get((centre, ContextEvent.DATA_CHANGED), 0),
            removed=happened.get((centre, ContextEvent.DATA_REMOVED), 0),
        )
        for centre in centres
    )


_WAITS: Final = DOCUMENT.c.contexts_built.is_(False)


@dataclass(frozen=True, slots=True)
class RecountResult:
    """The result of a recount: the number of contexts, and of corrected ones."""

    contexts: int
    corrected: int
    seconds: float


def recount_contexts(qc: Engine, *, author: str, reason: str) -> RecountResult:
    """Recount all data contexts, correct those that differ, and rebuild the overviews.

    Corrections are in the history of the context, with author and reason. Contexts are one transaction, in which no
    document is applied, and overviews another. Raises as `decide`.
    """
    started = time.monotonic()
    require_text("reason", reason, HISTORY.c.reason)
    full_reason = f"Counted again by {author}: {reason}"
    require_text("reason", full_reason, HISTORY.c.reason)
    contexts, corrected = run_writing(
        qc, lambda connection: _recount_all(connection, full_reason), patience_seconds=PATIENCE_SECONDS
    )
    build_contexts(qc)
    rebuild_overviews(qc)
    return RecountResult(contexts, corrected, time.monotonic() - started)


def _recount_all(connection: Connection, reason: str) -> tuple[int, int]:
    lock_all(connection)
    update_all_validity(connection)
    basis = recorded_basis(connection, Build.CONTEXTS)
    if basis:
        _correct_members(connection, basis)
    corrected = sum(len(_correct_sums(connection, *group, reason)) for group in _groups(connection))
    return connection.scalar(select(func.count()).select_from(CONTEXT)) or 0, corrected


def _correct_members(connection: Connection, basis: Basis) -> None:
    """Correct the keys of runs, except of those that waiting documents affect."""
    waiting = affected_runs(connection, list(connection.scalars(select(DOCUMENT.c.id).where(_WAITS))))
    runs = [run_id for run_id in connection.scalars(select(RUN.c.id).order_by(RUN.c.id)) if run_id not in waiting]
    for chunk in sorted_chunks(runs):
        correct_members(connection, chunk, present_members(connection, chunk, basis[COLONIES]))


def _groups(connection: Connection) -> list[tuple[str, str]]:
    """The centres and procedures of measurements and contexts."""
    columns = (func.rtrim(MEASUREMENT.c.centre), func.rtrim(MEASUREMENT.c.procedure_id))
    of_contexts = select(CONTEXT.c.centre, CONTEXT.c.procedure_id)
    return sorted({(row[0], row[1]) for row in connection.execute(union(select(*columns), of_contexts))})


def _correct_sums(
    connection: Connection, centre: str, procedure_id: str, reason: str
) -> dict[ContextKey, ContextEvent]:
    """Correct the sums of the contexts of a procedure at a centre."""
    changes = ContextChanges()
    for share in shares_of_procedure(connection, centre, procedure_id):
        changes.add(*share)
    of_group = (CONTEXT.c.centre == centre) & (CONTEXT.c.procedure_id == procedure_id)
    for row in connection.execute(select(CONTEXT).where(of_group)):
        change = changes.of(key_of(row))
        change.measurements -= row.measurements
        change.fingerprints -= int(row.checksum, 16)
    parts = select(SHARE.c.document_id, SHARE.c.measurements.label("part"), CONTEXT)
    for row in connection.execute(parts.join(CONTEXT, CONTEXT.c.id == SHARE.c.context_id).where(of_group)):
        changes.of(key_of(row)).parts[row.document_id] -= row.part
    return write_changes(connection, changes, reason)


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


class ContextChanges(dict[ContextKey, ContextChange]):
    """All changes of one transaction, by context."""

    def of(self, key: ContextKey) -> ContextChange:
        """The change of a context, so far of nothing if it is new here."""
        change = self.get(key)
        if change is None:
            change = self[key] = ContextChange()
        return change

    def add(
        self, document_id: int, key: ContextKey, measurements: int, fingerprints: int, cause: int | None = None
    ) -> None:
        """Add a document's share to a context, negative for removed data, because of `cause`."""
        change = self.of(key)
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
    if row is not None and row.data_state not in SETTLED:
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
    parts = sorted(changes)
    recorded: dict[tuple[int, int], int] = {}
    for start in range(0, len(parts), AT_ONCE):
        rows = connection.execute(_PARTS, {"parts": as_json(parts[start : start + AT_ONCE])})
        recorded.update(((document_id, context_id), number) for document_id, context_id, number in rows)
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


_OF_GENOTYPES: Final = select(CONTEXT).where(
    CONTEXT.c.centre == bindparam("of_centre"),
    CONTEXT.c.pipeline == bindparam("of_pipeline"),
    CONTEXT.c.genotype.in_(bindparam("genotypes", expanding=True)),
    only_compared(CONTEXT.c.procedure_id).in_(bindparam("procedures", expanding=True)),
)
_WRITTEN: Final = ("measurements", "checksum", "state", "data_state", "document_id", "changed")
_CHANGE_CONTEXT: Final = (
    update(CONTEXT).where(CONTEXT.c.id == bindparam("of_id")).values({name: bindparam(name) for name in _WRITTEN})
)
_WANTED: Final = pairs_in("parts")
_PARTS: Final = (
    select(SHARE)
    .select_from(_WANTED)
    .join(SHARE, and_(SHARE.c.document_id == _WANTED.c.first, SHARE.c.context_id == _WANTED.c.second))
)
_THIS_PART: Final = (SHARE.c.document_id == bindparam("of_document")) & (SHARE.c.context_id == bindparam("of_context"))
_REMOVE_PART: Final = delete(SHARE).where(_THIS_PART)
_CHANGE_PART: Final = update(SHARE).where(_THIS_PART).values(measurements=bindparam("number"))
