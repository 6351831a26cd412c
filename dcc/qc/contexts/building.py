"""Updates data contexts when documents change data.

The table `context_member` records under what each procedure run is counted. Affected runs that must be counted
differently are removed from their former contexts and added to the new ones, by sums over their measurements. So the
cost depends on the changes, not on the size of the database.

An error in them would stay. So `recount_contexts`, for a database that was repaired by hand or restored in part,
compares the recorded values with a count of the measurements, one procedure of a centre at a time, and corrects them.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Engine, func, select, union

from dcc.data_outcomes import ContextCounts, ContextsBuilt
from dcc.databases.columns import require_text, utc_now
from dcc.databases.list_parameters import as_json, groups_in, rows_with, sorted_chunks
from dcc.databases.transactions import run_reading, run_writing
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
from dcc.qc.contexts.recording import ContextChanges, key_of, write_changes
from dcc.qc.models import CONTEXT, DOCUMENT, HISTORY, MEASUREMENT, RUN, SHARE
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
    events = _recount(connection, affected_runs(connection, documents), basis)
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
_SUMS: Final = (
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
    recounted = run_writing(qc, partial(_recount_all, reason=full_reason), patience_seconds=PATIENCE_SECONDS)
    build_contexts(qc)
    rebuild_overviews(qc)
    return replace(recounted, seconds=time.monotonic() - started)


def _recount_all(connection: Connection, *, reason: str) -> RecountResult:
    lock_all(connection)
    update_all_validity(connection)
    basis = recorded_basis(connection, Build.CONTEXTS)
    if basis:
        _correct_members(connection, basis)
    corrected = sum(len(_correct_sums(connection, *group, reason)) for group in _groups(connection))
    contexts = connection.scalar(select(func.count()).select_from(CONTEXT)) or 0
    return RecountResult(contexts, corrected, 0.0)


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
        change = changes[key_of(row)]
        change.measurements -= row.measurements
        change.fingerprints -= int(row.checksum, 16)
    parts = select(SHARE.c.document_id, SHARE.c.measurements.label("part"), CONTEXT)
    for row in connection.execute(parts.join(CONTEXT, CONTEXT.c.id == SHARE.c.context_id).where(of_group)):
        changes[key_of(row)].parts[row.document_id] -= row.part
    return write_changes(connection, changes, reason)
