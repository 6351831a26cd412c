"""The upload phase: documents are applied to the QC database one after the other, in their order.

Small documents that add are applied together, a bounded number in one transaction, as if each were applied by itself;
what does not go that way, or fails there, is applied by itself.

What a document does there stands before the tracker hears of it; a document that a killed session had applied is found
`repeated`. A document that cannot be applied leaves no row of data, and always an entry in `xml_log`
(existing_system_defects row 41).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from sqlalchemy import Engine

from dcc_resources.data_outcomes import DocumentData, FindingEntry, ZipData
from dcc_resources.data_phases.beside import beside
from dcc_resources.data_phases.data_session import DataSession, Fact, Recorder
from dcc_resources.data_phases.document_log import held_problem, problems_of, worst_first
from dcc_resources.data_phases.documents import UPLOADED, DueDocument
from dcc_resources.data_phases.qc_documents import QcDocument, documents_of
from dcc_resources.data_phases.staged_documents import staged_path
from dcc_resources.data_phases.upload_groups import UploadQueue, document_to_apply
from dcc_resources.databases.transactions import run_reading
from dcc_resources.errors import (
    DatabaseUnreachableError,
    DccError,
    HelperEndedError,
    QcDatabaseUnreachableError,
    StagedDocumentLostError,
)
from dcc_resources.integrity.checked_at_upload import CheckedAtUpload
from dcc_resources.log_context import logging_about
from dcc_resources.outcomes import Problem
from dcc_resources.qc_database.applying import Applied, apply_document
from dcc_resources.qc_database.applying_together import apply_together
from dcc_resources.qc_database.building_process import read_for_upload
from dcc_resources.qc_database.reading_ahead import ReadingAhead
from dcc_resources.qc_database.statistics import update_statistics
from dcc_resources.qc_database.upload_findings import UploadFinding, findings_of
from dcc_resources.qc_database.vocabulary import DocumentState, Severity
from dcc_resources.settings import Settings
from dcc_resources.staging import Staging
from dcc_resources.tracker import progress
from dcc_resources.tracker.progress import State
from dcc_resources.tracker.reference import Phase, Status

log = logging.getLogger(__name__)

FINDINGS_TOLD: Final = 50
"""How many findings of a document are told of with it."""

_FAILED: Final = State(Phase.UPLOAD, Status.FAILED)
_HELD: Final = State(Phase.UPLOAD, Status.PENDING)
_WAITS: Final = "It would change or delete so much that it has to be confirmed."
_LONG_BYTES: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class Uploader:
    """Applies documents that are in staging; those that would change more than the settings let them are held."""

    qc: Engine
    settings: Settings
    ahead: ReadingAhead | None = None

    def upload(self, document: DueDocument) -> Fact:
        """Apply a document; what became of it, to be told to the tracker.

        Where the process that reads it ends, as when the machine is short of memory, it is read once more. Raises
        StagedDocumentLostError when it is not in staging as it was, DatabaseUnreachableError, and what else is no fault
        of the document.
        """
        began = time.monotonic()
        path = staged_path(Staging(self.settings.staging_directory), document)
        read = read_for_upload if self.ahead is None else self.ahead.read
        apply = partial(
            apply_document,
            self.qc,
            document_to_apply(document),
            lambda: read(path, document.name.kind),
            hold_above=self.settings.hold_threshold,
        )
        try:
            applied = apply()
        except HelperEndedError as error:
            log.warning("%s: %s It is read once more.", document.key, error)
            applied = apply()
        return self._fact(document, applied, time.monotonic() - began)

    def upload_together(
        self, documents: Sequence[DueDocument], ahead: ReadingAhead, checked: CheckedAtUpload | None = None
    ) -> list[Fact] | None:
        """Apply small documents that add, in one transaction; what became of the first ones.

        `checked` is told what was found in them.

        The one after these is to be uploaded by itself. None: it failed, and each is to be, which tells whose fault it
        was. Raises DatabaseUnreachableError.
        """
        began = time.monotonic()
        contents = Staging(self.settings.staging_directory).contents
        paths = [contents(document.key) / document.name.file_name for document in documents]
        try:
            applied = apply_together(
                self.qc,
                [document_to_apply(document) for document in documents],
                lambda number, order: ahead.read_whole(paths[:number], order),
            )
        except DatabaseUnreachableError:
            raise
        except Exception as error:
            log.warning("%d documents are applied one by one, because together they were not: %s", len(paths), error)
            return None
        seconds = (time.monotonic() - began) / max(1, len(applied))
        if checked is not None:
            for one in applied:
                checked.add(one.document_id, one.noted)
        return [self._fact(document, one, seconds) for document, one in zip(documents, applied, strict=False)]

    def recall(self, document: DueDocument, document_id: int) -> Fact:
        """What became of a document that was refused before the tracker heard of it."""
        findings = run_reading(
            self.qc,
            lambda connection: findings_of(connection, document_id),
            patience_seconds=self.settings.database_retry,
        )
        refused = Applied(
            document_id,
            DocumentState.REFUSED,
            repeated=True,
            late=False,
            said={},
            opened={},
            ended={},
            refused=0,
            findings=findings,
        )
        return self._fact(document, refused, 0.0)

    def _fact(self, document: DueDocument, applied: Applied, seconds: float) -> Fact:
        findings = worst_first(map(_entry, applied.findings))
        counts: dict[tuple[str, Severity], int] = {}
        for finding in findings:
            counts[finding.rule, finding.severity] = counts.get((finding.rule, finding.severity), 0) + 1
        data = DocumentData(
            file_name=document.name.file_name,
            kind=document.name.kind,
            centre=document.name.centre,
            phase=Phase.UPLOAD,
            status=Status.DONE,
            document_id=applied.document_id,
            repeated=applied.repeated,
            late=applied.late,
            held=applied.state is DocumentState.HELD,
            said=applied.said,
            opened=applied.opened,
            ended=applied.ended,
            refused=applied.refused,
            procedures=applied.procedures,
            findings=tuple(findings[:FINDINGS_TOLD]),
            finding_counts=counts,
        )
        if applied.state is DocumentState.HELD:
            return Fact(document, data, _HELD, [held_problem(document.key, applied.ended)], seconds)
        problems = problems_of(findings, len(findings), self.settings.max_document_errors)
        state = _FAILED if applied.state is DocumentState.REFUSED else UPLOADED
        return Fact(document, data, state, problems, seconds)


def upload_documents(work: DataSession) -> Iterator[ZipData]:
    """Apply all documents that wait, in their order; tell of each zip action once all of its are through.

    Documents that are held stay at (upload, pending), and are not tried again until they are confirmed. A zip whose
    documents are not in staging any more is set to be downloaded again. Raises the `unreachable` error of either
    database, and SessionLostError; what went wrong with a document itself makes it (upload, failed).
    """
    due = work.due(Phase.UPLOAD)
    there = work.read_qc(lambda connection: documents_of(connection, due))
    due = [one for one in due if one.state != _HELD or one.xml_id not in there or not there[one.xml_id].is_held]
    if not due:
        return
    task = work.session.start_task(Phase.UPLOAD, f"Upload of {len(due):,} documents")
    faults = len(work.faults)
    lost: dict[int, str] = {}
    with beside(work.tracker, "tracker") as tracker:
        recorder = Recorder(work, Phase.UPLOAD, due, tracker)
        recorder.show_pending(due)
        queue = UploadQueue(work, due, there)
        try:
            yield from _upload_all(work, queue, recorder, there, lost)
        except QcDatabaseUnreachableError:
            ended = recorder.finish()
            recorder.break_off()
            yield from ended
            raise
        finally:
            if queue.ahead is not None:
                queue.ahead.close()
        if queue.ahead is not None:
            update_statistics(work.qc, patience_seconds=work.settings.database_retry)
        yield from recorder.write()
    work.session.finish_task(task, failed=len(work.faults) > faults or bool(lost))


def _upload_all(
    work: DataSession, queue: UploadQueue, recorder: Recorder, there: Mapping[int, QcDocument], lost: dict[int, str]
) -> Iterator[ZipData]:
    """Apply the documents of `queue`; `there` tells of those that are stored, `lost` see `_upload`."""
    uploader = Uploader(work.qc, work.settings, queue.ahead)
    while queue:
        work.session.check()
        group = queue.take(lost)
        for document in group:
            recorder.show_running(document)
        if recorder.is_due or group[0].size_bytes > _LONG_BYTES:
            recorder.begin()
        if queue.ahead is not None and queue.is_small(group[0]):
            facts = uploader.upload_together(group, queue.ahead, work.checked)
            ended = recorder.finish()
            for fact in facts or ():
                recorder.add(fact)
            queue.give_back(group[len(facts or ()) :], alone=len(group) if facts is None else 1)
            yield from ended
            continue
        yield from recorder.finish()
        document = group[0]
        with logging_about(zip_action=document.key, centre=document.centre, document=document.name.file_name):
            fact = _upload(work, uploader, document, there.get(document.xml_id), lost)
        if fact.data.held:
            # It may have been shown to be running, and states go on only.
            work.reopen({document.xml_id: _HELD}, _WAITS)
        recorder.add(fact)


def _upload(
    work: DataSession, uploader: Uploader, document: DueDocument, stored: QcDocument | None, lost: dict[int, str]
) -> Fact:
    """What becomes of a document, which may be `stored` already.

    `lost` says of zip actions why they are downloaded again, and is added to.
    """
    if document.za_id in lost:
        return _untouched(document, lost[document.za_id])
    try:
        if stored is not None and stored.state is DocumentState.REFUSED:
            return uploader.recall(document, stored.id)
        return uploader.upload(document)
    except StagedDocumentLostError as error:
        lost[document.za_id] = str(error)
        _download_again(work, document, error)
        return _untouched(document, str(error))
    except DatabaseUnreachableError:
        raise
    except DccError as error:
        return failed_upload(document, error)
    except Exception as error:
        return failed_upload(document, work.note_fault(document.key, document.name.file_name, error))


def failed_upload(document: DueDocument, error: DccError) -> Fact:
    """What is told of a document that could not be applied: nothing of it is in the QC database."""
    data = DocumentData(
        file_name=document.name.file_name,
        kind=document.name.kind,
        centre=document.name.centre,
        phase=Phase.UPLOAD,
        status=Status.FAILED,
        reason=str(error),
    )
    return Fact(document, data, _FAILED, [Problem(error.short_name(), str(error))])


def _untouched(document: DueDocument, reason: str) -> Fact:
    data = DocumentData(
        file_name=document.name.file_name,
        kind=document.name.kind,
        centre=document.name.centre,
        phase=document.state.phase,
        status=document.state.status,
        reason=reason,
    )
    return Fact(document, data, None)


def _download_again(work: DataSession, document: DueDocument, error: StagedDocumentLostError) -> None:
    reason = f"The document {document.name.file_name} is not in staging any more as it was extracted."
    za_ids = [document.za_id]
    work.session.write(lambda connection: progress.reopen(connection, za_ids, work.author, reason))
    log.warning("%s", error)


def _entry(finding: UploadFinding) -> FindingEntry:
    return FindingEntry(finding.rule, finding.severity, finding.message, finding.line, value=finding.value)
