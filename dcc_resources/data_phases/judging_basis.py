"""What a session judges documents by."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from sqlalchemy import Connection

from dcc_resources.data_phases.data_session import DataSession
from dcc_resources.integrity.judging import Basis
from dcc_resources.integrity.waiver_store import waivers_in_force
from dcc_resources.reference_data import store
from dcc_resources.reference_data.refreshing import RefreshOutcome, ensure_reference

log = logging.getLogger(__name__)


def see_to_reference_data(work: DataSession) -> None:
    """Have the sets that the settings name be there; what cannot be read makes rules go unchecked, which is said.

    Once a session.
    """
    if work.has_reference:
        return
    for refreshed in ensure_reference(work.qc, work.settings):
        if refreshed.outcome is RefreshOutcome.FAILED:
            log.warning("%s", refreshed.message)
    work.has_reference = True


def basis_of_today(connection: Connection, limit: int) -> Basis:
    """What documents are judged by: the active reference data, and the waivers in force today, in UTC."""
    today = datetime.now(UTC).date()
    return Basis(store.load_active(connection), waivers_in_force(connection, today), today, limit)
