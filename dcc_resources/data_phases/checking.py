"""The data phase: what was uploaded is judged by the integrity rules, all of it after all of it was uploaded.

Documents that were judged before are judged again where others gave cause to it: they are set back first, so that what
a killed session did not come to is not forgotten.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import Connection

from dcc_resources.data_outcomes import DocumentData, ZipData
from dcc_resources.data_phases.data_session import DataSession, Fact, Recorder, merged
from dcc_resources.data_phases.document_log import problems_of, worst_first
from dcc_resources.data_phases.documents import UPLOADED, DueDocument, load_documents
from dcc_resources.data_phases.qc_documents import QcDocument, documents_of, xml_ids_of
from dcc_resources.data_phases.staged_documents import staged_path
from dcc_resources.data_phases.uploading import FINDINGS_TOLD
from dcc_resources.errors import (
    DatabaseUnreachableError,
    DocumentError,
    QcDatabaseUnreachableError,
    SessionLostError,
    StagedDocumentLostError,
)
from dcc_resources.integrity import healing
from dcc_resources.integrity.judging import Basis, Judgement, judge_document
from dcc_resources.integrity.waiver_store import waivers_in_force
from dcc_resources.qc_database.contents import Content
from dcc_resources.qc_database.reading import read_document
from dcc_resources.qc_database.row_loading import load_document
from dcc_resources.qc_database.vocabulary import DocumentState
from dcc_resources.reference_data import store
from dcc_resources.reference_data.refreshing import RefreshOutcome, ensure_reference
from dcc_resources.tracker.progress import State
from dcc_resources.tracker.reference import Phase, Status

log = logging.getLogger(__name__)

JUDGED_WELL: Final = State(Phase.DATA, Status.DONE)
JUDGED_FAULTY: Final = State(Phase.DATA, Status.FAILED)

_NOT_UPLOADED: Final = State(Phase.UPLOAD, Status.PENDING)
_HEALING: Final = "What it depends on has changed: documents, waivers or reference data."
_GONE: Final = "The QC database does not hold the document."


def check_documents(work: DataSession) -> Iterator[ZipData]:
    """Judge all documents that wait, in the order of upload, and those that they give cause to judge again.

    With `work.keys`, the zip actions of the latter are added to them. Raises the `unreachable` error of either
    database, and SessionLostError. A document that meets a fault of the platform goes on waiting; the fault is noted.
    """
    due = work.due(Phase.DATA)
    if due:
        _see_to_reference_data(work)
    basis = work.read_qc(lambda connection: basis_of_today(connection, work.settings.max_document_errors))
    there = work.read_qc(lambda connection: documents_of(connection, [document.xml_id for document in due]))
    again = _set_back(work, [there[one.xml_id].id for one in due if one.xml_id in there], basis)
    due = _uploaded(work, merged(due, again), there)
    if not due:
        return
    task = work.session.start_task(Phase.DATA, f"Check of {len(due):,} documents")
    faults = len(work.faults)
    recorder = Recorder(work, Phase.DATA, due)
    try:
        for document in due:
            work.session.check()
            if recorder.is_due:
                yield from recorder.write()
            recorder.add(_check(work, document, there[document.xml_id], basis))
    except QcDatabaseUnreachableError:
        recorder.break_off()
        raise
    yield from recorder.write()
    work.session.finish_task(task, failed=len(work.faults) > faults)


def _see_to_reference_data(work: DataSession) -> None:
    """Have the sets that the settings name be there; what cannot be read makes rules go unchecked, which is said."""
    for refreshed in ensure_reference(work.qc, work.settings):
        if refreshed.outcome is RefreshOutcome.FAILED:
            log.warning("%s", refreshed.message)


def basis_of_today(connection: Connection, limit: int) -> Basis:
    """What documents are judged by: the active reference data, and the waivers in force today, in UTC."""
    today = datetime.now(UTC).date()
    return Basis(store.load_active(connection), waivers_in_force(connection, today), today, limit)


def _set_back(work: DataSession, uploaded: list[int], basis: Basis) -> list[DueDocument]:
    """Set back the documents that are to be judged again; `uploaded` are the ids of those that were just applied."""
    xml_ids = work.read_qc(
        lambda connection: list(xml_ids_of(connection, _to_judge_again(connection, uploaded, basis)).values())
    )
    found = work.read(lambda connection: load_documents(connection, xml_ids, work.settings.naming))
    judged = [document for document in found if may_be_judged_again(document)]
    work.reopen({document.xml_id: UPLOADED for document in judged}, _HEALING)
    if work.keys is not None:
        work.keys.update(document.key for document in judged)
    return judged


def may_be_judged_again(document: DueDocument) -> bool:
    """Whether a document has come through the data phase, well or not."""
    state = document.state
    return state.phase > Phase.DATA or state in (JUDGED_WELL, JUDGED_FAULTY)


def _to_judge_again(connection: Connection, uploaded: list[int], basis: Basis) -> set[int]:
    """Because of what was uploaded, of a waiver that has begun or ended, of reference data that were missing before."""
    ids = set(healing.documents_to_judge_again(connection, uploaded))
    ids.update(healing.documents_of_lapsed_waivers(connection, basis.today))
    otherwise = set(healing.documents_judged_otherwise(connection, basis.signature))
    if otherwise:
        ids.update(otherwise.intersection(healing.documents_unchecked(connection)))
    return ids - set(uploaded)


def _uploaded(work: DataSession, due: list[DueDocument], there: dict[int, QcDocument]) -> list[DueDocument]:
    """Those of `due` that the QC database holds, by `there`, which is added to; others are set to be uploaded again."""
    unknown = [document.xml_id for document in due if document.xml_id not in there]
    there.update(work.read_qc(lambda connection: documents_of(connection, unknown)))
    stands = {xml_id for xml_id, found in there.items() if found.state is DocumentState.APPLIED}
    work.reopen({document.xml_id: _NOT_UPLOADED for document in due if document.xml_id not in stands}, _GONE)
    return [document for document in due if document.xml_id in stands]


def _check(work: DataSession, document: DueDocument, stored: QcDocument, basis: Basis) -> Fact:
    began = time.monotonic()
    try:
        judgement = _judge(work, document, stored, basis)
    except (DatabaseUnreachableError, SessionLostError):
        raise
    except Exception as error:
        fault = work.note_fault(document, error)
        return Fact(document, _data(document, stored, None, str(fault)), None)
    state = JUDGED_FAULTY if judgement.failed else JUDGED_WELL
    problems = problems_of(judgement.findings, sum(judgement.counts.values()), work.settings.max_document_errors)
    return Fact(document, _data(document, stored, judgement), state, problems, time.monotonic() - began)


def _judge(work: DataSession, document: DueDocument, stored: QcDocument, basis: Basis) -> Judgement:
    """Judge a document as it is in staging or, where it is not there any more, as the QC database has it."""
    try:
        path = staged_path(work.staging, document)
    except StagedDocumentLostError:
        path = None

    def judge(connection: Connection) -> Judgement:
        contents: Iterable[Content] = (
            load_document(connection, stored.id) if path is None else read_document(path, document.name.kind)
        )
        return judge_document(connection, stored.id, contents, basis)

    try:
        return work.write_qc(judge)
    except (OSError, DocumentError):
        # It went from staging meanwhile.
        path = None
        return work.write_qc(judge)


def _data(
    document: DueDocument, stored: QcDocument, judgement: Judgement | None, reason: str | None = None
) -> DocumentData:
    findings = () if judgement is None else tuple(worst_first(judgement.findings)[:FINDINGS_TOLD])
    return DocumentData(
        file_name=document.name.file_name,
        kind=document.name.kind,
        centre=document.name.centre,
        phase=document.state.phase,
        status=document.state.status,
        document_id=stored.id,
        findings=findings,
        finding_counts={} if judgement is None else judgement.counts,
        reason=reason,
    )
