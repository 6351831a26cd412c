"""A session's work on valid documents: the phases after validation, each for all of them in turn.

Documents show steps that the settings leave out as cancelled, and go on where what follows needs them not. The upload
is needed by all that follows, and contexts by overviews and quality control: there documents stay. When a step is left
out no more, the next session makes up for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from sqlalchemy import Connection, Engine

from dcc.data_outcomes import DataOutcome, SubmissionData, left_out_message
from dcc.databases.transactions import run_reading, run_writing
from dcc.messages import count_of, mark, message
from dcc.outcomes import LEFT_OUT, STEP_LEFT_OUT, Problem, SubmissionKey
from dcc.phases import Phase, State, Status
from dcc.qc.judging.documents import judge_together
from dcc.runtime.log_context import logging_about, progress_log
from dcc.session.data.data_session import DataSession
from dcc.session.data.document_log import clear_entries
from dcc.session.data.document_queries import documents_of, load_documents
from dcc.session.data.document_results import DocumentResult
from dcc.session.data.judgement_phase import judge_documents
from dcc.session.data.judging_basis import current_basis
from dcc.session.data.quality_control import build_contexts_of, build_overviews_of, update_document_states
from dcc.session.data.recorder import Recorder
from dcc.session.data.upload_order import DueDocument
from dcc.session.data.upload_phase import upload_documents
from dcc.session.data.withdrawals import record_missed_withdrawals
from dcc.session.sessions import Session
from dcc.store.staging import Staging
from dcc.tracker.models import AnException, XmlLog
from dcc.tracker.problems import KIND, entries_that_hold
from dcc.tracker.session_statuses import TaskStatus
from dcc.vocabulary import Severity

session_log = progress_log(__name__)

_WORK_OF: Final[dict[Phase, Callable[[DataSession], Iterator[DataOutcome]]]] = {
    Phase.UPLOAD: upload_documents,
    Phase.DATA: judge_documents,
    Phase.CONTEXT: build_contexts_of,
    Phase.OVERVIEW: build_overviews_of,
    Phase.QC: update_document_states,
}
"""What a session does in each phase; their numbers are their order."""

_PORTION: Final = 250
_AGAIN: Final = mark("The step {step} is not left out any more.")


def process_data(
    qc: Engine,
    session: Session,
    *,
    until: Phase = Phase.QC,
    keys: Collection[SubmissionKey] | None = None,
) -> Iterator[DataOutcome]:
    """Process all waiting documents through the phases after validation, up to and including `until`.

    Those of killed sessions are among them. With `keys`, or in a session of urgent ones, only those submissions are
    processed, and those with documents that they require to be judged again. Each submission is yielded once for each
    phase with documents of it; what is built of centres once if it changed. Problems of documents are outcomes,
    not exceptions. Raises the `unreachable` error of either database, SessionLostError and, after everything else is
    done, InternalFaultError.
    """
    if until < Phase.UPLOAD:
        return
    staging = Staging(session.settings.staging_directory)
    wanted = session.request.urgent or None if keys is None else keys
    work = DataSession(qc, session, None if wanted is None else set(wanted), staging)
    record_missed_withdrawals(work)
    resume_left_out_steps(work)
    for phase in sorted(_WORK_OF):
        if phase <= until:
            yield from process_phase(work, phase)
    work.faults.raise_first()


def process_phase(work: DataSession, phase: Phase) -> Iterator[DataOutcome]:
    """Process all documents that wait for a phase; see `process_data`, which keeps the order of phases."""
    with logging_about(phase=phase.short_name):
        for outcome in chain(leave_out(work, phase), _WORK_OF[phase](work)):
            _log_outcome(outcome, phase)
            yield outcome


def _log_outcome(outcome: DataOutcome, phase: Phase) -> None:
    if not session_log.isEnabledFor(logging.INFO):
        return
    if not isinstance(outcome, SubmissionData):
        built = (phase.short_name, len(outcome.centres), outcome.seconds)
        session_log.info("%s: built for %d centres in %.1f s", *built)
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


def leave_out(work: DataSession, phase: Phase) -> Iterator[SubmissionData]:
    """Show the documents that wait for a step which is left out for them as (step, cancelled)."""
    due = work.due(phase, left_out=True)
    if not due:
        return
    task = work.session.start_task(phase, f"Left out, for {count_of(len(due), 'document')}")
    recorder = Recorder(work, phase, due)
    for start in range(0, len(due), _PORTION):
        work.session.raise_if_over()
        portion = due[start : start + _PORTION]
        if phase is Phase.DATA:
            _accept_unchecked(work, portion)
        yield from recorder.record(_left_out_result(document, phase) for document in portion)
    work.session.finish_task(task, TaskStatus.SUCCEEDED)


def _left_out_result(document: DueDocument, phase: Phase) -> DocumentResult:
    reason = left_out_message(phase)
    kind = LEFT_OUT[phase]
    state = State(phase, Status.CANCELLED)
    problem = Problem(kind, reason, code=kind, severity=Severity.UNCHECKED)
    return replace(DocumentResult.of_state(document, state, reason=str(reason), left_out=(phase,)), noted=(problem,))


def _accept_unchecked(work: DataSession, documents: Sequence[DueDocument]) -> None:
    """Have what the documents brought count as valid, since no rule is asked."""
    stored = run_reading(work.qc, lambda connection: documents_of(connection, documents))
    basis = current_basis(work)
    found = {document.id: () for document in stored.values()}
    run_writing(work.qc, lambda connection: judge_together(connection, found, basis))


def resume_left_out_steps(work: DataSession) -> None:
    """Have documents go back to the first step that was left out of them and is left out no more."""
    if work.keys is not None:
        return
    noted = work.session.read(_recorded_steps)
    if not noted:
        return
    documents = work.session.read(lambda connection: load_documents(connection, noted, work.settings.naming))
    back: dict[int, Phase] = {}
    entries: list[int] = []
    for document in documents:
        steps = noted[document.xml_id]
        again = [phase for phase in sorted(steps) if phase not in work.left_out_of(document)]
        if again and work.covers(document.key):
            back[document.xml_id] = again[0]
            entries += [entry for phase in again for entry in steps[phase]]
    for phase in set(back.values()):
        ids = [xml_id for xml_id, first in back.items() if first is phase]
        reason = str(message(_AGAIN, step=phase.short_name))
        work.reopen(dict.fromkeys(ids, State(phase, Status.PENDING)), reason)
    work.session.write(lambda connection: clear_entries(connection, entries))


def _recorded_steps(connection: Connection) -> Mapping[int, dict[Phase, list[int]]]:
    """The steps that are noted as left out, by the ids of documents; with the ids of the entries in their logs."""
    query = entries_that_hold(XmlLog.id, KIND).where(AnException.short_name.in_(STEP_LEFT_OUT))
    found: dict[int, dict[Phase, list[int]]] = {}
    for xml_id, entry, kind in connection.execute(query):
        found.setdefault(xml_id, {}).setdefault(STEP_LEFT_OUT[kind], []).append(entry)
    return found
