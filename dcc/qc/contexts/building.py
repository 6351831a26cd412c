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
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, Row, Select, func, select, union

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
    Member,
    Places,
    RunContexts,
    members_of,
    newest_member,
    present_members,
    present_places,
    recorded_members,
    recorded_places,
    replace_members,
    shares_of_procedure,
)
from dcc.qc.contexts.overviews import rebuild_overviews
from dcc.qc.contexts.recording import ContextChange, ContextChanges, write_changes
from dcc.qc.models import CONTEXT, DOCUMENT, HISTORY, MEASUREMENT, RUN, SHARE
from dcc.vocabulary import ContextEvent, ContextState


@dataclass(slots=True)
class _Step:
    """One transaction's work: the number of included documents, and the events by centre.

    `unfollowed`: none yet, because the validity of experiments does not follow these documents yet.
    """

    documents: int = 0
    happened: Counter[tuple[str, ContextEvent]] = field(default_factory=Counter)
    more: bool = True
    unfollowed: bool = False

    def take(self, happened: Mapping[ContextKey, ContextEvent]) -> None:
        self.happened.update((key.centre, event) for key, event in happened.items())


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

    def take(connection: Connection) -> _Step:
        return _take_documents(connection, followed, is_own)

    total = run_writing(qc, _follow_reference_data, patience_seconds=PATIENCE_SECONDS)
    while True:
        step = run_writing(qc, take, patience_seconds=PATIENCE_SECONDS)
        if step.unfollowed:
            followed = run_writing(
                qc, lambda connection: update_validity(connection, is_own), patience_seconds=PATIENCE_SECONDS
            )
            continue
        total.documents += step.documents
        total.happened.update(step.happened)
        if not step.more:
            break

    def count(connection: Connection) -> tuple[tuple[ContextCounts, ...], int]:
        return _counts(connection, total.happened), newest_history(connection)

    # One consistent read: a decision after the counts must not be taken for counted.
    counts, history = run_reading(qc, count)
    return ContextsBuilt(counts, total.documents, time.monotonic() - started, utc_now(), history)


def _follow_reference_data(connection: Connection) -> _Step:
    step = _Step()

    def renew(basis: Basis) -> None:
        runs = dict.fromkeys(runs_by_colony(connection))
        step.take(_recount(connection, runs, basis, f"Reference data: {COLONIES} {basis[COLONIES]}"))

    follow_basis(connection, Build.CONTEXTS, [COLONIES], renew)
    return step


def _take_documents(connection: Connection, followed: Set[int], is_own: ArchiveFilter) -> _Step:
    """`followed` are documents that the validity of experiments follows."""
    step = _Step()
    documents = due_documents(connection, Build.CONTEXTS, is_own)
    if not set(documents) <= followed:
        return _Step(unfollowed=True)
    if documents:
        # The recorded strains are of this snapshot: a newer one is for the next build.
        basis = recorded_basis(connection, Build.CONTEXTS)
        step.take(_recount(connection, affected_runs(connection, documents, Build.CONTEXTS), basis))
        mark_built(connection, documents, Build.CONTEXTS)
    step.documents, step.more = len(documents), bool(documents)
    return step


def _recount(
    connection: Connection, runs: Mapping[int, int | None], basis: Basis, reason: str | None = None
) -> dict[ContextKey, ContextEvent]:
    """Count runs under their present keys; `runs` has the document that is the cause, if there is one."""
    changes = ContextChanges()
    newest = newest_member(connection)
    for run_ids in sorted_chunks(runs):
        difference = _compare(connection, run_ids, runs, basis[COLONIES], newest)
        for share in difference.shares:
            changes.add(*share)
        replace_members(connection, difference.before, difference.now)
    return write_changes(connection, changes, reason)


class _Difference(NamedTuple):
    """Runs that must be counted differently: their former and present keys, and the arguments of `Changes.add`."""

    before: Collection[Member]
    now: Collection[Member]
    shares: Sequence[tuple[int, ContextKey, int, int, int | None]]


def _compare(
    connection: Connection, run_ids: Collection[int], causes: Mapping[int, int | None], colonies: int, newest: int
) -> _Difference:
    """`newest` is the highest id of a run that may be counted: higher ones are not read."""
    present = present_places(connection, run_ids, colonies)
    now, before = members_of(present), recorded_members(connection, [one for one in run_ids if one <= newest])
    if not before:
        return _Difference((), now, list(_shares(connection, 1, causes, present)))
    changed = {member.procedure_run_id for member in before.symmetric_difference(now)}
    was = {member for member in before if member.procedure_run_id in changed}
    moved = {place: runs & changed for place, runs in present.items()}
    shares = [
        *_shares(connection, -1, causes, recorded_places(connection, was)),
        *_shares(connection, 1, causes, moved),
    ]
    return _Difference(was, [one for one in now if one.procedure_run_id in changed], shares)


def _shares(
    connection: Connection, sign: int, causes: Mapping[int, int | None], places: Places
) -> Iterator[tuple[int, ContextKey, int, int, int | None]]:
    """The sums of runs where they are counted: added (`sign` 1) or removed (-1)."""
    groups: list[tuple[list[int], RunContexts, int | None]] = []
    for place, run_ids in places.items():
        of_cause: dict[int | None, list[int]] = {}
        for run_id in sorted(run_ids):
            of_cause.setdefault(causes[run_id], []).append(run_id)
        groups += [(runs, place, cause) for cause, runs in of_cause.items()]
    # In the order of their runs, which is that of the measurements.
    groups.sort(key=lambda group: group[0])
    # Hundreds of documents have data in the same contexts: a key is made once.
    keys: dict[tuple[str, ...], dict[str, ContextKey]] = {}
    by_parameter = [keys.setdefault(place[1:], {}) for _, place, _ in groups]
    for number, parameter_id, measurements, fingerprints in _sums(connection, [runs for runs, _, _ in groups]):
        _, place, cause = groups[number]
        key = by_parameter[number].get(parameter_id)
        if key is None:
            key = by_parameter[number][parameter_id] = place.context(parameter_id)
        yield place.document_id, key, sign * measurements, sign * fingerprints, cause


def _sums(connection: Connection, groups: Sequence[Sequence[int]]) -> Iterator[tuple[int, str, int, int]]:
    """The sums of runs in groups.

    The index of a group, a parameter, the number of its measurements, and the sum of their fingerprints.
    """
    found = connection.execute(_SUMS, {"runs": as_json(groups)}).all() if groups else ()
    for number, parameter, measurements, fingerprints in found:
        yield number - 1, parameter.rstrip(" "), measurements, int(fingerprints)


def _summed() -> Select[Any]:
    """The number and the sum of the fingerprints of each parameter's measurements, in the groups of runs `runs`."""
    group = groups_in("runs")
    columns: Sequence[ColumnElement[Any]] = (group.c.number, MEASUREMENT.c.parameter_id)
    summed = select(*columns, func.count(), func.sum(MEASUREMENT.c.fingerprint)).select_from(group)
    return summed.join(MEASUREMENT, MEASUREMENT.c.procedure_run_id == group.c.value).group_by(*columns)


_SUMS: Final = _summed()


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
        before, now = recorded_members(connection, chunk), present_members(connection, chunk, basis[COLONIES])
        changed = {member.procedure_run_id for member in before ^ now}
        if changed:
            was = [one for one in before if one.procedure_run_id in changed]
            replace_members(connection, was, [one for one in now if one.procedure_run_id in changed])


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
        change = changes.contexts.setdefault(_key_of(row), ContextChange())
        change.measurements -= row.measurements
        change.fingerprints -= int(row.checksum, 16)
    parts = select(SHARE.c.document_id, SHARE.c.measurements.label("part"), CONTEXT)
    for row in connection.execute(parts.join(CONTEXT, CONTEXT.c.id == SHARE.c.context_id).where(of_group)):
        changes.contexts.setdefault(_key_of(row), ContextChange()).add_part(row.document_id, -row.part)
    return write_changes(connection, changes, reason)


def _key_of(row: Row[Any]) -> ContextKey:
    return ContextKey(*(getattr(row, name) for name in ContextKey._fields))
