"""What a session judges documents by: reference data, which it refreshes once, and waivers."""

from __future__ import annotations

import logging

from sqlalchemy import Connection

from dcc.databases.transactions import run_reading
from dcc.errors import ReferenceDataError, ReferenceUnreachableError
from dcc.phases import Phase
from dcc.qc.judging.documents import JudgingBasis
from dcc.qc.judging.waiver_store import waivers_in_force
from dcc.qc.reference import snapshots
from dcc.qc.reference.refresh import RefreshOutcome, ensure_reference
from dcc.runtime.clock import utc_today
from dcc.session.data.data_session import DataSession
from dcc.tracker.register.centres import imits_names

log = logging.getLogger(__name__)


def current_basis(work: DataSession) -> JudgingBasis:
    """The basis of judging: the active reference data, after a refresh, and today's waivers, in UTC."""
    names = run_reading(work.session.tracker, imits_names)

    def load(connection: Connection) -> tuple[snapshots.ActiveReference, JudgingBasis]:
        reference, today = snapshots.load_active(connection, names), utc_today()
        waivers = waivers_in_force(connection, today)
        return reference, JudgingBasis(reference, waivers, today, work.settings.max_document_errors)

    reference, basis = run_reading(work.qc, load)
    # One query is enough if nothing has to be read.
    return run_reading(work.qc, load)[1] if _refresh_reference_data(work, reference) else basis


def _refresh_reference_data(work: DataSession, known: snapshots.ActiveReference) -> bool:
    """Refresh the sets of reference data that the settings name; returns whether one was read.

    Once a session. If one cannot be read, its rules are unchecked, or use the earlier snapshot: the session reports
    that. `known` are the active ones.
    """
    if work.has_reference:
        return False
    work.has_reference = True
    refreshed = ensure_reference(work.qc, work.settings, known.stored)
    for each in refreshed:
        if each.outcome is RefreshOutcome.FAILED:
            log.warning("%s", each.message)
            kind = ReferenceUnreachableError if each.is_unreachable else ReferenceDataError
            work.session.record_task_error(Phase.DATA, kind(each.message))
    return bool(refreshed)
