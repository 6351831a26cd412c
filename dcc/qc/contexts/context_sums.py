"""Updates data contexts when documents change data.

The table `context_member` records under what each procedure run is counted. Affected runs that must be counted
differently are removed from their former contexts and added to the new ones, by sums over their measurements. So the
cost depends on the changes, not on the size of the database.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Engine, Select, func, select

from dcc.data_outcomes import ContextCounts, ContextsBuilt
from dcc.databases.list_parameters import as_json, groups_in, sorted_chunks
from dcc.databases.transactions import run_reading, run_writing
from dcc.qc.apply.upload_lock import PATIENCE_SECONDS
from dcc.qc.archive_scope import ALL_ARCHIVES, ArchiveScope
from dcc.qc.contexts.affected_runs import affected_runs, runs_by_colony
from dcc.qc.contexts.builds import COLONIES, Basis, Build, due_documents, follow_basis, mark_built, recorded_basis
from dcc.qc.contexts.context_changes import ContextChanges, write_changes
from dcc.qc.contexts.experiment_validity import update_validity
from dcc.qc.contexts.listings import count_contexts, newest_history
from dcc.qc.contexts.membership import (
    ContextKey,
    Places,
    RunContexts,
    correct_members,
    members_of,
    present_places,
    recorded_places,
)
from dcc.qc.models import MEASUREMENT
from dcc.runtime.clock import utc_now
from dcc.vocabulary import ContextEvent


def build_contexts(qc: Engine, *, scope: ArchiveScope = ALL_ARCHIVES) -> ContextsBuilt:
    """Include all documents that the data contexts do not include yet, of the archives in `scope`.

    Those are documents with `contexts_built` false that were judged, withdrew others, or changed nothing. They are
    included oldest first, as many at once as fit into a transaction, each of which leaves the contexts consistent; the
    next build repeats a killed one. Nothing else changes their centres' data meanwhile. Experiments follow the validity
    of their animals first. If the reference data of colonies have changed, strains that follow from them change first.

    Raises the database's `unreachable` error if others were in the way, or the database away, for too long.
    """
    started = time.monotonic()
    followed: set[int] = set()
    documents = 0

    def take(connection: Connection) -> tuple[int, Events] | None:
        return _take_documents(connection, followed, scope)

    def follow(connection: Connection) -> set[int]:
        return update_validity(connection, scope)

    def count(connection: Connection) -> tuple[tuple[ContextCounts, ...], int]:
        # Servers read each statement anew: a decision after the counts must not be taken for counted.
        history = newest_history(connection)
        return _counts(connection, happened), history

    happened = Counter(_of_centres(run_writing(qc, _follow_reference_data, patience_seconds=PATIENCE_SECONDS)))
    while True:
        taken = run_writing(qc, take, patience_seconds=PATIENCE_SECONDS)
        if taken is None:
            followed = run_writing(qc, follow, patience_seconds=PATIENCE_SECONDS)
            continue
        number, events = taken
        if not number:
            break
        documents += number
        happened.update(_of_centres(events))
    counts, history = run_reading(qc, count)
    return ContextsBuilt(counts, documents, time.monotonic() - started, utc_now(), history)


Events = Mapping[ContextKey, ContextEvent]


def _of_centres(events: Events) -> Iterator[tuple[str, ContextEvent]]:
    return ((key.centre, event) for key, event in events.items())


def _follow_reference_data(connection: Connection) -> Events:
    events: dict[ContextKey, ContextEvent] = {}

    def renew(basis: Basis) -> None:
        runs = dict.fromkeys(runs_by_colony(connection))
        events.update(_count_runs(connection, runs, basis, f"Reference data: {COLONIES} {basis[COLONIES]}"))

    follow_basis(connection, Build.CONTEXTS, [COLONIES], renew)
    return events


def _take_documents(connection: Connection, followed: Set[int], scope: ArchiveScope) -> tuple[int, Events] | None:
    """Include the next documents; their number, and what happened to contexts.

    The validity of experiments follows the documents `followed`. None, and none is included, if others come next.
    """
    documents = due_documents(connection, Build.CONTEXTS, scope)
    if not set(documents) <= followed:
        return None
    if not documents:
        return 0, {}
    # The recorded strains are of this snapshot: a newer one is for the next build.
    basis = recorded_basis(connection, Build.CONTEXTS)
    events = _count_runs(connection, affected_runs(connection, documents, Build.CONTEXTS), basis)
    mark_built(connection, documents, Build.CONTEXTS)
    return len(documents), events


def _count_runs(
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
