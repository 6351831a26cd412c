"""The phases context, overview and qc: judged documents are assigned to their contexts, and follow their states.

A document is (qc, done) once all its data contexts are qcdone; it returns to (qc, pending), with a log entry, if one of
them is opened again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from sqlalchemy import Connection, Engine

from dcc.data_outcomes import CentresBuilt, DataOutcome, SubmissionData
from dcc.databases.transactions import run_reading, run_writing
from dcc.messages import count_of
from dcc.phases import Phase, State, Status
from dcc.qc.contexts.builds import documents_behind
from dcc.qc.contexts.context_sums import build_contexts
from dcc.qc.contexts.overviews import build_overviews
from dcc.qc.contexts.states import open_documents
from dcc.session.data.data_session import DataSession
from dcc.session.data.document_queries import QcDocument, documents_of, load_documents, load_qc_states, load_unfinished
from dcc.session.data.document_results import DocumentResult
from dcc.session.data.judgement_phase import GONE
from dcc.session.data.recorder import Recorder
from dcc.session.data.upload_order import DueDocument
from dcc.settings import Settings
from dcc.tracker import progress
from dcc.tracker.progress import StateReport, Subject
from dcc.tracker.session_statuses import TaskStatus
from dcc.tracker.states import AWAITING_QC, NOT_UPLOADED, QC_DONE

_REOPENED: Final = "A data context that the document has data in was opened again."


class _ChangedDocument(NamedTuple):
    document: DueDocument
    state: State


def build_contexts_of(work: DataSession) -> Iterator[DataOutcome]:
    """Update the data contexts with uploaded and judged documents; then the waiting documents have passed the phase."""
    yield from _build(work, Phase.CONTEXT, "Build of data contexts", build_contexts)


def build_overviews_of(work: DataSession) -> Iterator[DataOutcome]:
    """Update the overviews; then the waiting documents have passed the phase."""
    yield from _build(work, Phase.OVERVIEW, "Build of overviews", build_overviews)


def _build(work: DataSession, phase: Phase, comment: str, build: Callable[..., CentresBuilt]) -> Iterator[DataOutcome]:
    # Listed before the build, which then includes all of them.
    due = work.due(phase)
    task = work.session.start_task(phase, f"{comment}, for {count_of(len(due), 'document')}") if due else None
    built = build(work.qc, scope=work.scope_of(phase))
    if built.centres:
        yield built
    done = State(phase, Status.DONE)
    stored = run_reading(work.qc, lambda connection: documents_of(connection, due))
    # A document that was withdrawn, or set to be judged again, since it was listed has not passed.
    behind = run_reading(
        work.qc, lambda connection: documents_behind(connection, [document.id for document in stored.values()])
    )
    through = [
        document for document in due if document.xml_id not in stored or stored[document.xml_id].id not in behind
    ]
    yield from _record(work, phase, [_ChangedDocument(document, done) for document in through], stored)
    if task is not None:
        work.session.finish_task(task, TaskStatus.SUCCEEDED)


def update_document_states(work: DataSession) -> Iterator[SubmissionData]:
    """Let the documents that have passed the phases before follow the states of their contexts.

    Documents that are missing in the QC database are set to be uploaded again.
    """
    open_ids = run_reading(work.qc, open_documents)
    settling = work.session.read(lambda connection: _to_settle(connection, open_ids, work.settings))
    wanted = [
        one
        for one in settling
        if (work.keys is None or one.document.key in work.keys) and work.covers(one.document.key)
    ]
    gone = run_reading(work.qc, lambda connection: _gone(connection, wanted))
    work.reopen(dict.fromkeys(gone, NOT_UPLOADED), GONE)
    changed = [one for one in wanted if one.document.xml_id not in gone]
    if not changed:
        return
    task = work.session.start_task(Phase.QC, f"Hand-over of {count_of(len(changed), 'document')} to quality control")
    work.reopen({document.xml_id: AWAITING_QC for document, _ in changed if document.state == QC_DONE}, _REOPENED)
    stored = run_reading(work.qc, lambda connection: documents_of(connection, [one for one, _ in changed]))
    yield from _record(work, Phase.QC, changed, stored)
    work.session.finish_task(task, TaskStatus.SUCCEEDED)


def update_qc_states(tracker: Engine, qc: Engine, settings: Settings, *, author: str, reason: str) -> None:
    """Let the tracker's documents follow the states of the data contexts, after a wrangler changed those.

    Documents that are missing in the QC database are left to the next session. `author` and `reason` are recorded with
    the documents that go back. Raises the `unreachable` error of either database.
    """
    open_ids = run_reading(qc, open_documents)
    settling = run_reading(tracker, lambda asked: _to_settle(asked, open_ids, settings))
    gone = run_reading(qc, lambda connection: _gone(connection, settling))

    def settle(connection: Connection) -> None:
        states = load_qc_states(connection, [one.xml_id for one, _ in settling])
        changed = [
            (one, state)
            for one, state in settling
            if one.state.phase is Phase.QC and one.xml_id not in gone and states.get(one.xml_id) == one.state
        ]
        back = [document.xml_id for document, _ in changed if document.state == QC_DONE]
        progress.reopen_documents(connection, dict.fromkeys(back, AWAITING_QC), author, reason)
        progress.report(connection, [StateReport(Subject.XML_FILE, one.xml_id, state) for one, state in changed])

    run_writing(tracker, settle)


def _to_settle(connection: Connection, open_ids: set[int], settings: Settings) -> list[_ChangedDocument]:
    """The documents whose contexts differ from the tracker, in the order of upload, with their new states.

    Documents that are done and have no open context, in the long run nearly all, are not read.
    """
    unsettled = load_unfinished(connection)
    wanted = {xml_id: AWAITING_QC if xml_id in open_ids else QC_DONE for xml_id in unsettled}
    changed = {xml_id: state for xml_id, state in wanted.items() if state != unsettled[xml_id]}
    others = load_qc_states(connection, open_ids - unsettled.keys())
    changed |= {xml_id: AWAITING_QC for xml_id, state in others.items() if state == QC_DONE}
    documents = load_documents(connection, changed, settings.naming)
    return [_ChangedDocument(document, changed[document.xml_id]) for document in documents]


def _gone(connection: Connection, settling: Iterable[_ChangedDocument]) -> set[int]:
    """The `xml_file` ids of documents that would be done, although the QC database misses them."""
    to_be_done = [document for document, state in settling if state == QC_DONE]
    applied = documents_of(connection, to_be_done)
    return {document.xml_id for document in to_be_done if document.xml_id not in applied}


def _record(
    work: DataSession, phase: Phase, changed: list[_ChangedDocument], stored: Mapping[int, QcDocument]
) -> Iterator[SubmissionData]:
    ids = {xml_id: found.id for xml_id, found in stored.items()}
    yield from Recorder(work, phase, (document for document, _ in changed)).record(
        DocumentResult.of_state(document, state, document_id=ids.get(document.xml_id)) for document, state in changed
    )
