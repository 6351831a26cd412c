"""What a session judges documents by."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from sqlalchemy import Connection

from dcc.databases.transactions import run_reading
from dcc.errors import ReferenceDataError, ReferenceUnreachableError
from dcc.phases import Phase
from dcc.qc.judging.documents import Basis
from dcc.qc.judging.waiver_store import waivers_in_force
from dcc.qc.reference import snapshots
from dcc.qc.reference.refresh import RefreshOutcome, ensure_reference
from dcc.session.data.data_session import DataSession

log = logging.getLogger(__name__)


def refresh_reference_data(work: DataSession, known: snapshots.ActiveReference | None = None) -> bool:
    """Refresh the sets of reference data that the settings name; returns whether one was read.

    Once a session. If one cannot be read, its rules are unchecked, or use the earlier snapshot: the session reports
    that. `known` spares a query.
    """
    if work.has_reference:
        return False
    work.has_reference = True
    refreshed = ensure_reference(work.qc, work.settings, None if known is None else known.stored)
    for each in refreshed:
        if each.outcome is RefreshOutcome.FAILED:
            log.warning("%s", each.message)
            kind = ReferenceUnreachableError if each.is_unreachable else ReferenceDataError
            work.session.note_trouble(Phase.DATA, kind(each.message))
    return bool(refreshed)


def current_basis(work: DataSession) -> Basis:
    """The basis of judging: the active reference data, after a refresh, and today's waivers, in UTC."""

    def load(connection: Connection) -> tuple[snapshots.ActiveReference, Basis]:
        reference, today = snapshots.load_active(connection), datetime.now(UTC).date()
        waivers = waivers_in_force(connection, today)
        return reference, Basis(reference, waivers, today, work.settings.max_document_errors)

    reference, basis = run_reading(work.qc, load)
    # One query is enough if nothing has to be read.
    return run_reading(work.qc, load)[1] if refresh_reference_data(work, reference) else basis
