"""The data phase: what was uploaded is judged by the integrity rules, all of it after all of it was uploaded.

Documents that were judged before are judged again where others gave cause to it: they are set back first, so that what
a killed session did not come to is not forgotten. What stands in the QC database and the tracker does not count, since
the archive was processed again with other documents or its file source removed, is judged too, before all others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Final

from sqlalchemy import Connection

from dcc_resources.data_outcomes import DocumentData, ZipData
from dcc_resources.data_phases.data_session import DataSession, Fact, Recorder, merged
from dcc_resources.data_phases.document_log import problems_of, worst_first
from dcc_resources.data_phases.documents import UPLOADED, DueDocument
from dcc_resources.data_phases.qc_documents import (
    QcDocument,
    counted_by_tracker,
    documents_by_id,
    documents_of,
)
from dcc_resources.data_phases.staged_documents import staged_path
from dcc_resources.data_phases.uploading import FINDINGS_TOLD
from dcc_resources.errors import (
    DatabaseUnreachableError,
    DocumentError,
    NotFoundError,
    QcDatabaseUnreachableError,
    SessionLostError,
    StagedDocumentLostError,
)
from dcc_resources.integrity import healing
from dcc_resources.integrity.judging import Basis, Judgement, judge_document, signature_of
from dcc_resources.integrity.waiver_store import waivers_in_force
from dcc_resources.integrity.waivers import Waiver
from dcc_resources.log_context import logging_about
from dcc_resources.qc_database.reading import read_document
from dcc_resources.qc_database.row_loading import load_document
from dcc_resources.qc_database.vocabulary import DocumentState
from dcc_resources.reference_data import store
from dcc_resources.reference_data.refreshing import RefreshOutcome, ensure_reference
from dcc_resources.tracker.progress import State
from dcc_resources.tracker.reference import Phase, Status

log = logging.getLogger(__name__)

NOT_UPLOADED: Final = State(Phase.UPLOAD, Status.PENDING)
GONE: Final = "The QC database does not hold the document."
"""Where a document goes that is further on in the tracker, and why."""
JUDGED_WELL: Final = State(Phase.DATA, Status.DONE)
JUDGED_FAULTY: Final = State(Phase.DATA, Status.FAILED)

_HEALING: Final = "What it depends on has changed: documents, waivers or reference data."


def check_documents(work: DataSession) -> Iterator[ZipData]:
    """Judge all documents that wait, in the order of upload, and those that they give cause to judge again.

    With `work.keys`, the zip actions of the latter are added to them. Raises the `unreachable` error of either
    database, and SessionLostError. A document that meets a fault of the platform goes on waiting; the fault is noted.
    """
    due = work.due(Phase.DATA)
    if due:
        _see_to_reference_data(work)
    basis = work.read_qc(lambda connection: basis_of_today(connection, work.settings.max_document_errors))
    there = work.read_qc(lambda connection: documents_of(connection, due))
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
            with logging_about(zip_action=document.key, centre=document.centre, document=document.name.file_name):
                fact = _check(work, document, there[document.xml_id], basis)
            recorder.add(fact)
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
    """Set back the documents that are to be judged again; `uploaded` are the ids of those that were just applied.

    What the tracker does not count is judged at once: as long as the others wait, a session that is killed is followed
    by one that finds it again.
    """
    found = work.read_qc(lambda connection: documents_by_id(connection, _to_judge_again(connection, uploaded, basis)))
    counted = work.read(lambda connection: counted_by_tracker(connection, found, work.settings.naming))
    _judge_uncounted(work, [one for one in found if one.id not in {stored.id for _, stored in counted}], basis)
    judged = [document for document, _ in counted if may_be_judged_again(document)]
    work.reopen({document.xml_id: UPLOADED for document in judged}, _HEALING)
    if work.keys is not None:
        work.keys.update(document.key for document in judged)
    return judged


def _judge_uncounted(work: DataSession, documents: list[QcDocument], basis: Basis) -> None:
    """Judge documents as the QC database has them, which alone hears of it."""
    for document in documents:
        work.session.check()
        try:
            _judge_rows(work, document, basis)
        except (DatabaseUnreachableError, SessionLostError):
            raise
        except NotFoundError as error:
            log.info("%s: %s was not judged: %s", document.key, document.file_name, error)
        except Exception as error:
            work.note_fault(document.key, document.file_name, error)


def may_be_judged_again(document: DueDocument) -> bool:
    """Whether a document has come through the data phase, well or not."""
    state = document.state
    return state.phase > Phase.DATA or state in (JUDGED_WELL, JUDGED_FAULTY)


def _to_judge_again(connection: Connection, uploaded: list[int], basis: Basis) -> set[int]:
    """The documents to be judged because of those that were uploaded, and of what `_because_of_changes` says."""
    ids = set(healing.documents_to_judge_again(connection, uploaded))
    return (ids | _because_of_changes(connection, basis.today, basis.waivers, basis.signature)) - set(uploaded)


def _because_of_changes(connection: Connection, today: date, waivers: Sequence[Waiver], signature: str) -> set[int]:
    """Because of withdrawals, of waivers that began or ended, of reference data that changed, or never judged yet.

    Each is named no more once it was judged for the cause.
    """
    ids = set(healing.documents_to_judge_again(connection, healing.withdrawals_to_follow(connection)))
    ids.update(healing.documents_to_be_judged(connection))
    ids.update(healing.documents_of_begun_waivers(connection, waivers))
    ids.update(healing.documents_of_lapsed_waivers(connection, today))
    ids.update(healing.documents_of_superseded_snapshots(connection))
    ids.update(healing.documents_unchecked(connection, not_by=signature))
    return ids


def documents_to_judge_now(connection: Connection) -> set[int]:
    """The documents that the next session judges, by their ids in the QC database, but for what it uploads before."""
    today = datetime.now(UTC).date()
    signature = signature_of(snapshot.id for snapshot in store.active_snapshots(connection).values())
    return _because_of_changes(connection, today, waivers_in_force(connection, today), signature)


def _uploaded(work: DataSession, due: list[DueDocument], there: dict[int, QcDocument]) -> list[DueDocument]:
    """Those of `due` that the QC database holds, by `there`, which is added to; others are set to be uploaded again."""
    unknown = [document for document in due if document.xml_id not in there]
    there.update(work.read_qc(lambda connection: documents_of(connection, unknown)))
    stands = {xml_id for xml_id, found in there.items() if found.state is DocumentState.APPLIED}
    work.reopen({document.xml_id: NOT_UPLOADED for document in due if document.xml_id not in stands}, GONE)
    return [document for document in due if document.xml_id in stands]


def _check(work: DataSession, document: DueDocument, stored: QcDocument, basis: Basis) -> Fact:
    began = time.monotonic()
    try:
        judgement = _judge(work, document, stored, basis)
    except (DatabaseUnreachableError, SessionLostError):
        raise
    except NotFoundError as error:
        # It was withdrawn meanwhile, which the tracker hears of from whoever did it.
        return Fact(document, _data(document, stored, None, str(error)), None)
    except Exception as error:
        fault = work.note_fault(document.key, document.name.file_name, error)
        return Fact(document, _data(document, stored, None, str(fault)), None)
    state = JUDGED_FAULTY if judgement.failed else JUDGED_WELL
    problems = problems_of(judgement.findings, sum(judgement.counts.values()), work.settings.max_document_errors)
    return Fact(document, _data(document, stored, judgement), state, problems, time.monotonic() - began)


def _judge(work: DataSession, document: DueDocument, stored: QcDocument, basis: Basis) -> Judgement:
    """Judge a document as it is in staging or, where it is not there any more, as the QC database has it."""
    try:
        path = staged_path(work.staging, document)
    except StagedDocumentLostError:
        return _judge_rows(work, stored, basis)
    kind = document.name.kind
    try:
        return work.write_qc(lambda connection: judge_document(connection, stored.id, read_document(path, kind), basis))
    except (OSError, DocumentError):
        # It went from staging meanwhile.
        return _judge_rows(work, stored, basis)


def _judge_rows(work: DataSession, stored: QcDocument, basis: Basis) -> Judgement:
    """Judge a document as the QC database has it."""
    return work.write_qc(
        lambda connection: judge_document(connection, stored.id, load_document(connection, stored.id), basis)
    )


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
        cleared=0 if judgement is None else len(judgement.cleared),
    )
