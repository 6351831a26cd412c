"""A session's work on valid documents: upload, data, context, overview and qc, each for all of them in turn."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import Final

from sqlalchemy import Engine

from dcc.data_outcomes import ContextsBuilt, DataOutcome, ZipData
from dcc.outcomes import ZipKey
from dcc.phases import Phase
from dcc.runtime.log_context import logging_about, progress_log
from dcc.session.data.corrections import record_missed_withdrawals
from dcc.session.data.data_session import DataSession
from dcc.session.data.judging import check_documents
from dcc.session.data.left_out_steps import leave_out, resume_left_out_steps
from dcc.session.data.quality_control import (
    build_contexts_of,
    build_overviews_of,
    update_document_states,
)
from dcc.session.data.uploading import upload_documents
from dcc.session.sessions import Session
from dcc.store.staging import Staging

session_log = progress_log(__name__)

_PHASES: Final[dict[Phase, Callable[[DataSession], Iterator[DataOutcome]]]] = {
    Phase.UPLOAD: upload_documents,
    Phase.DATA: check_documents,
    Phase.CONTEXT: build_contexts_of,
    Phase.OVERVIEW: build_overviews_of,
    Phase.QC: update_document_states,
}
"""The phases in their order."""


def process_data(
    qc: Engine,
    session: Session,
    *,
    until: Phase = Phase.QC,
    keys: Collection[ZipKey] | None = None,
) -> Iterator[DataOutcome]:
    """Process all waiting documents through the phases after validation, up to and including `until`.

    Those of killed sessions are among them. With `keys`, or in a session of urgent ones, only those submissions are
    processed, and those with documents that they require to be judged again. Each submission is yielded once for each
    phase with documents of it; data contexts and overviews once if they changed. Problems of documents are outcomes,
    not exceptions. Raises the `unreachable` error of either database, SessionLostError and, after everything else is
    done, InternalFaultError.
    """
    if until < Phase.UPLOAD:
        return
    staging = Staging(session.settings.staging_directory)
    wanted = session.urgent or None if keys is None else keys
    work = DataSession(qc, session, None if wanted is None else set(wanted), staging)
    record_missed_withdrawals(work)
    resume_left_out_steps(work)
    for phase in _PHASES:
        if phase <= until:
            yield from process_phase(work, phase)
    if work.faults:
        raise work.faults[0]


def process_phase(work: DataSession, phase: Phase) -> Iterator[DataOutcome]:
    """Process all documents that wait for a phase; see `process_data`, which keeps the order of phases."""
    with logging_about(phase=phase.short_name):
        for outcome in chain(leave_out(work, phase), _PHASES[phase](work)):
            _log_outcome(outcome)
            yield outcome


def _log_outcome(outcome: DataOutcome) -> None:
    if not session_log.isEnabledFor(logging.INFO):
        return
    if not isinstance(outcome, ZipData):
        built = "Data contexts" if isinstance(outcome, ContextsBuilt) else "Overviews"
        session_log.info("%s of %d centres were built in %.1f s", built, len(outcome.centres), outcome.seconds)
        return
    for document in outcome.documents:
        with logging_about(zip_action=outcome.key, centre=outcome.centre, document=document.file_name):
            session_log.info(
                "%s: %s: %s %s, %d findings%s",
                outcome.key,
                document.file_name,
                document.phase.short_name,
                document.status.short_name,
                sum(document.finding_counts.values()),
                f"; {document.reason}" if document.reason else "",
            )
