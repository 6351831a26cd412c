"""Compares the recorded data contexts with a count of the measurements, and corrects what differs.

An error in them would stay, in a database that was repaired by hand or restored in part. One procedure of a centre is
counted at a time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, func, select

from dcc.databases.columns import require_text
from dcc.databases.list_parameters import sorted_chunks
from dcc.databases.transactions import run_writing
from dcc.qc.apply.upload_lock import PATIENCE_SECONDS, lock_all
from dcc.qc.contexts.affected_runs import waiting_runs
from dcc.qc.contexts.builds import COLONIES, Basis, Build, recorded_basis
from dcc.qc.contexts.context_changes import ContextChanges, key_of, write_changes
from dcc.qc.contexts.context_sums import build_contexts
from dcc.qc.contexts.experiment_validity import update_all_validity
from dcc.qc.contexts.membership import correct_members, measured_procedures, present_members, shares_of_procedure
from dcc.qc.contexts.overviews import rebuild_overviews
from dcc.qc.models import CONTEXT, HISTORY, RUN, SHARE


@dataclass(frozen=True, slots=True)
class RecountResult:
    """The result of a recount: the number of contexts, and of corrected ones."""

    contexts: int
    corrected: int
    seconds: float


def recount_contexts(qc: Engine, *, author: str, reason: str) -> RecountResult:
    """Recount all data contexts, correct those that differ, and rebuild the overviews.

    Corrections are in the history of the context, with author and reason. Contexts are one transaction, in which no
    document is applied, and overviews another. Raises as `decide_on_contexts`.
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
    corrected = sum(
        len(write_changes(connection, miscounted(connection, *group), reason))
        for group in measured_procedures(connection)
    )
    return connection.scalar(select(func.count()).select_from(CONTEXT)) or 0, corrected


def _correct_members(connection: Connection, basis: Basis) -> None:
    """Correct the keys of runs, except of those that waiting documents affect."""
    waiting = waiting_runs(connection)
    runs = [run_id for run_id in connection.scalars(select(RUN.c.id).order_by(RUN.c.id)) if run_id not in waiting]
    for chunk in sorted_chunks(runs):
        correct_members(connection, chunk, present_members(connection, chunk, basis[COLONIES]))


def miscounted(connection: Connection, centre: str, procedure_id: str) -> ContextChanges:
    """What the contexts of a procedure at a centre lack, negative for what they have too much of."""
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
    return changes
