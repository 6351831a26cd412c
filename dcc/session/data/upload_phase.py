"""The upload phase: documents are applied to the QC database one after the other, in their order.

Additions that are new to it share a transaction, a limited number of them; if that fails, each is applied by itself.

A document is applied before the tracker records it; one that a killed session had applied is found `repeated`. A
document that cannot be applied leaves no row of data, and always an entry in `xml_log`.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Engine

from dcc.data_outcomes import SubmissionData
from dcc.databases.engines import MAX_ATTACHED
from dcc.databases.transactions import run_reading
from dcc.errors import DccError, QcDatabaseUnreachableError, StagedDocumentLostError
from dcc.messages import count_of
from dcc.naming import ACTION_ORDER, Action
from dcc.outcomes import Problem
from dcc.phases import Phase
from dcc.qc.apply.document_effect import AppliedDocument, DocumentWithRows
from dcc.qc.apply.documents import apply_documents
from dcc.qc.apply.held_documents import additions_of_existing_entities, owners_of_held_documents
from dcc.qc.apply.ownership import OtherCentre
from dcc.qc.apply.upload_findings import findings_of
from dcc.qc.database import update_statistics
from dcc.qc.judging.documents import newest_document
from dcc.qc.rows.prepared_file import PreparedDocument
from dcc.rights import Delegations
from dcc.rules.upload import OWNERSHIP
from dcc.runtime.log_context import logging_about
from dcc.session.data.data_session import DataSession
from dcc.session.data.document_problems import held_problem, problems_of, worst_first
from dcc.session.data.document_queries import QcDocument, documents_of
from dcc.session.data.document_results import DocumentResult
from dcc.session.data.judging_basis import current_basis
from dcc.session.data.prepared_archives import LARGE, PreparedArchives, basis_of, part_of
from dcc.session.data.recorder import Recorder
from dcc.session.data.upload_order import MAX_DOCUMENTS, DueDocument, document_to_apply, groups_to_apply
from dcc.session.sessions import STOPPING
from dcc.settings import Settings
from dcc.tracker import progress
from dcc.tracker.hostings.changed_archives import replaced_since_fetched
from dcc.tracker.hostings.older_archives import OlderArchive, UploadTurn, waiting_for_older
from dcc.tracker.hostings.owner_notices import NewNotice, NoticeOutcome
from dcc.tracker.register.centres import load_delegations
from dcc.tracker.session_statuses import TaskStatus
from dcc.tracker.states import NOT_UPLOADED, UPLOAD_FAILED, UPLOADED
from dcc.vocabulary import DocumentState

log = logging.getLogger(__name__)

FINDINGS_TOLD: Final = 50
"""How many findings of a document are in its result."""

_WAITS: Final = "It would change much, or has data of another centre, so that it has to be confirmed."
_AFTER_HELD: Final = "It waits for the documents of its archive that have to be confirmed."
_LOST: Final = "Its archive is downloaded again."
_LONG_BYTES: Final = 4_000_000
_OUTCOMES: Final = {DocumentState.HELD: NoticeOutcome.HELD, DocumentState.REFUSED: NoticeOutcome.REFUSED}


@dataclass(frozen=True, slots=True)
class Uploader:
    """Applies documents; those that would change more than the settings allow are held.

    For `first_of_batch` see `DocumentToApply`.
    """

    qc: Engine
    settings: Settings
    delegations: Delegations
    first_of_batch: int | None = None

    def upload(self, documents: Sequence[DueDocument], prepared: Sequence[PreparedDocument]) -> list[DocumentResult]:
        """Apply prepared documents in one transaction; returns the results for the tracker.

        Raises DatabaseUnreachableError, and errors that are no fault of the documents.
        """
        began = time.monotonic()
        to_apply = [
            DocumentWithRows(document_to_apply(document, self.delegations, self.first_of_batch), one)
            for document, one in zip(documents, prepared, strict=True)
        ]
        applied = apply_documents(self.qc, to_apply, hold_threshold=self.settings.hold_threshold)
        seconds = (time.monotonic() - began) / len(documents)
        return [self.result_of(document, one, seconds) for document, one in zip(documents, applied, strict=True)]

    def documents_adding_existing_entities(
        self, additions: Mapping[DueDocument, PreparedDocument], may_wait_ids: Collection[int]
    ) -> set[int]:
        """The additions that name entities which are there already, by id; those of `may_wait_ids` among them."""
        to_apply = [
            (document_to_apply(document, self.delegations), prepared, document.xml_id in may_wait_ids)
            for document, prepared in additions.items()
        ]
        found = run_reading(self.qc, lambda connection: additions_of_existing_entities(connection, to_apply))
        return {document.xml_id for document, is_there in zip(additions, found, strict=True) if is_there}

    def recall(self, document: DueDocument, document_id: int) -> DocumentResult:
        """The result of a document that was refused before the tracker recorded it."""
        findings = run_reading(self.qc, lambda connection: findings_of(connection, document_id))
        refused = AppliedDocument(
            document_id,
            DocumentState.REFUSED,
            {},
            repeated=True,
            findings=findings,
            others=tuple(
                OtherCentre(centre, {})
                for centre in sorted({found.value or "" for found in findings if found.rule == OWNERSHIP})
            ),
        )
        return self.result_of(document, refused, 0.0)

    def result_of(self, document: DueDocument, applied: AppliedDocument, seconds: float) -> DocumentResult:
        """The result of an applied document, with the seconds that it took."""
        findings = worst_first(applied.findings)
        reason = None
        if applied.state is DocumentState.HELD:
            held = held_problem(document.key, applied.ended, applied.findings, document.centre)
            state, problems, reason = NOT_UPLOADED, [held], held.message
        else:
            state = UPLOAD_FAILED if applied.state is DocumentState.REFUSED else UPLOADED
            problems = problems_of(findings, len(findings), self.settings.max_document_errors)
        result = DocumentResult.of_state(
            document,
            state,
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
            finding_counts=dict(Counter((finding.rule, finding.severity) for finding in findings)),
            reason=reason,
        )
        return replace(result, problems=problems, seconds=seconds, notices=_notices(document, applied))


def failed_upload(document: DueDocument, error: DccError) -> DocumentResult:
    """The result of a document that could not be applied: the QC database has nothing of it."""
    return replace(DocumentResult.of_state(document, UPLOAD_FAILED, reason=str(error)), problems=[Problem.of(error)])


def _notices(document: DueDocument, applied: AppliedDocument) -> list[NewNotice]:
    outcome, done_by = _OUTCOMES.get(applied.state, NoticeOutcome.DONE), applied.confirmed_by
    if outcome is NoticeOutcome.DONE and done_by is not None and document.key.action is Action.ADD:
        outcome = NoticeOutcome.CONFIRMED
    name = document.name.file_name
    return [
        NewNotice(other.centre, document.za_id, outcome, document.xml_id, name, other.counts, done_by)
        for other in applied.others
    ]


def upload_documents(work: DataSession) -> Iterator[SubmissionData]:
    """Apply all waiting documents, in their order; yields each submission once all its documents are done.

    Held documents stay at (upload, pending), and are not tried again until they are confirmed, or the owners of the
    data delegate. Documents that change data wait there while an older archive of their centre is unfinished. They also
    wait for held documents of such an archive, or of their own one. Additions of what is there already wait while an
    older archive has held documents, or is on hold.

    An archive whose documents are not in staging any more is set to be downloaded again. Raises the `unreachable` error
    of either database, DiskFullError and SessionLostError; a problem of a document itself makes it (upload, failed).
    """
    due = work.due(Phase.UPLOAD)
    applied = run_reading(work.qc, lambda connection: documents_of(connection, due))
    if not due:
        return
    delegations = work.session.read(load_delegations)
    held = _held_documents(work, due, applied, delegations)
    archives_with_held = {document.za_id for document in held.values()}
    not_held = [document for document in due if document.xml_id not in held]
    za_ids = {document.za_id for document in not_held}
    # The held documents of the other archives were confirmed.
    older = work.session.read(lambda connection: waiting_for_older(connection, za_ids, za_ids - archives_with_held))
    waiting = [document for document in not_held if _changes_data(document) and document.za_id in older]
    yield from _record_waiting(work, [_result_of_waiting(document, older[document.za_id]) for document in waiting])
    waiting_ids = {document.xml_id for document in waiting}
    to_upload = [document for document in not_held if document.xml_id not in waiting_ids]
    if not to_upload:
        return
    task = work.session.start_task(Phase.UPLOAD, f"Upload of {count_of(len(to_upload), 'document')}")
    faults = len(work.faults.met)
    upload = _Upload(work, to_upload, applied, archives_with_held, older, delegations)
    try:
        yield from upload.all()
    except QcDatabaseUnreachableError:
        upload.recorder.break_off()
        raise
    finally:
        upload.close()
    if sum(document.size_bytes for document in to_upload) >= LARGE:
        update_statistics(work.qc)
    yield from upload.recorder.write()
    work.session.finish_task(task, TaskStatus.of(failed=len(work.faults.met) > faults or bool(upload.lost)))


def _held_documents(
    work: DataSession, due: Sequence[DueDocument], applied: Mapping[int, QcDocument], delegations: Delegations
) -> dict[int, DueDocument]:
    """The documents that still have to be confirmed, by their `xml_file` ids: no owner has delegated since."""
    held = [
        document
        for document in due
        if document.state == NOT_UPLOADED and document.xml_id in applied and applied[document.xml_id].is_held
    ]
    delegated = _delegated_since(work, held, applied, delegations)
    return {document.xml_id: document for document in held if document.xml_id not in delegated}


def _delegated_since(
    work: DataSession, held: Sequence[DueDocument], applied: Mapping[int, QcDocument], delegations: Delegations
) -> set[int]:
    """The `xml_file` ids of held documents whose other centres have delegated to the archive's since.

    Without those whose archives were replaced on their sources: the new content may be held for another reason.
    """
    if not held:
        return set()
    centres = run_reading(
        work.qc,
        lambda connection: owners_of_held_documents(connection, [applied[document.xml_id].id for document in held]),
    )
    za_ids = {document.za_id for document in held}
    replaced = work.session.read(lambda connection: replaced_since_fetched(connection, za_ids))
    return {
        document.xml_id
        for document in held
        if document.za_id not in replaced
        and (others := centres.get(applied[document.xml_id].id))
        and all(map(delegations.rights_of(document.centre).permit, others))
    }


def _changes_data(document: DueDocument) -> bool:
    return document.key.action is not Action.ADD


def _result_of_waiting(document: DueDocument, older: OlderArchive) -> DocumentResult:
    return DocumentResult.of_state(document, NOT_UPLOADED, reason=str(older.translatable), waits_for=older.key)


def _record_waiting(work: DataSession, waiting: Sequence[DocumentResult]) -> Iterator[SubmissionData]:
    """Show that documents wait for older archives, and report it once for each centre."""
    for (centre, older), count in Counter((one.document.centre, one.data.waits_for) for one in waiting).items():
        log.warning("%d documents of %s wait for %s, which is older and unfinished", count, centre, older)
    yield from Recorder(work, Phase.UPLOAD, [one.document for one in waiting]).record(waiting)


class _Upload:
    """The waiting documents, in their order; `applied` has those that are in the QC database.

    `archives_with_held` have a held document. `older` has, by submission, the older archive that is held or on hold,
    for which it may have to wait. `lost` has the reasons why submissions are downloaded again.
    """

    def __init__(
        self,
        work: DataSession,
        due: Sequence[DueDocument],
        applied: Mapping[int, QcDocument],
        archives_with_held: set[int],
        older: Mapping[int, OlderArchive],
        delegations: Delegations,
    ) -> None:
        self._work, self._applied = work, applied
        self._due, self._archives_with_held, self._older = due, archives_with_held, older
        self._oldest_held: dict[str, DueDocument] = {}
        self.lost: dict[int, str] = {}
        self.recorder = Recorder(work, Phase.UPLOAD, due)
        self.recorder.show_pending(due)
        self._prepared = PreparedArchives(work, due, basis_of(current_basis(work), work.qc))
        first_of_batch = run_reading(work.qc, newest_document) + 1
        self._uploader = Uploader(work.qc, work.settings, delegations, first_of_batch)

    def close(self) -> None:
        self._prepared.close()

    def all(self) -> Iterator[SubmissionData]:
        most_files = MAX_ATTACHED if self._work.qc.dialect.name == "sqlite" else MAX_DOCUMENTS
        for group in groups_to_apply(self._due, part_of, most_files, self._applied.keys()):
            self._work.session.raise_if_over()
            if _changes_data(group[0]) and group[0].za_id in self._archives_with_held:
                # What is held would replace what is newer; and animals to delete would still have their experiments.
                self.recorder.add(DocumentResult.of_state(group[0], NOT_UPLOADED, reason=_AFTER_HELD))
                continue
            waiting = self._waiting_among(group)
            for document in group:
                if document.xml_id in waiting:
                    self.recorder.add(_result_of_waiting(document, waiting[document.xml_id]))
            group = [document for document in group if document.xml_id not in waiting]
            if not group:
                continue
            for document in group:
                self.recorder.show_running(document)
            if self.recorder.is_due or group[0].size_bytes > _LONG_BYTES:
                yield from self.recorder.write()
            for result in self._apply(group):
                # It may have been shown as running, and states only advance.
                if result.data.held:
                    self._note_held(result.document)
                if result.data.held or result.state is None:
                    self._work.reopen({result.document.xml_id: NOT_UPLOADED}, _WAITS if result.data.held else _LOST)
                self.recorder.add(result)

    def _note_held(self, document: DueDocument) -> None:
        self._archives_with_held.add(document.za_id)
        if document.centre is not None:
            oldest = self._oldest_held.get(document.centre, document)
            self._oldest_held[document.centre] = min(oldest, document, key=_turn)

    def _waiting_among(self, group: Sequence[DueDocument]) -> dict[int, OlderArchive]:
        """The documents of a group that wait, by their `xml_file` ids, with the older archive that each waits for."""
        older = {one.xml_id: held for one in group if (held := self._held_before(one)) is not None}
        if not older or _changes_data(group[0]):
            return older
        readable: dict[DueDocument, PreparedDocument] = {}
        for document in group:
            try:
                readable[document] = self._prepared.document(document)
            except STOPPING:
                raise
            except Exception:
                log.debug("%s cannot be read, as its application tells", document.name.file_name, exc_info=True)
        there = self._uploader.documents_adding_existing_entities(readable, older)
        return {xml_id: held for xml_id, held in older.items() if xml_id in there}

    def _held_before(self, document: DueDocument) -> OlderArchive | None:
        """The older archive of its centre that is held, by this session too, or on hold."""
        held = self._oldest_held.get(document.centre or "")
        if held is not None and held.za_id != document.za_id and _turn(held) < _turn(document):
            return OlderArchive(held.centre or "", held.key, is_held=True)
        return self._older.get(document.za_id)

    def _apply(self, group: Sequence[DueDocument]) -> list[DocumentResult]:
        """Apply documents together; if that fails, each by itself, which shows the faulty one."""
        if len(group) > 1 and not any(document.za_id in self.lost for document in group):
            try:
                return self._uploader.upload(group, [self._prepared.document(document) for document in group])
            except STOPPING:
                raise
            except Exception as error:
                log.warning("%d documents are applied one by one, as they were not together: %s", len(group), error)
        return [self._apply_one(document) for document in group]

    def _apply_one(self, document: DueDocument) -> DocumentResult:
        with logging_about(zip_action=document.key, centre=document.centre, document=document.name.file_name):
            if document.za_id in self.lost:
                return DocumentResult.of_state(document, None, reason=self.lost[document.za_id])
            stored = self._applied.get(document.xml_id)
            try:
                if stored is not None and stored.state is DocumentState.REFUSED:
                    return self._uploader.recall(document, stored.id)
                (result,) = self._uploader.upload([document], [self._prepared.document(document)])
            except StagedDocumentLostError as error:
                self.lost[document.za_id] = str(error)
                _download_again(self._work, document, error)
                return DocumentResult.of_state(document, None, reason=str(error))
            except STOPPING:
                raise
            except DccError as error:
                return failed_upload(document, error)
            except Exception as error:
                what = f"{document.key}: {document.name.file_name}"
                return failed_upload(document, self._work.faults.note(what, error))
            return result


def _turn(document: DueDocument) -> UploadTurn:
    return UploadTurn(*document.moment, ACTION_ORDER[document.key.action])


def _download_again(work: DataSession, document: DueDocument, error: StagedDocumentLostError) -> None:
    reason = f"The document {document.name.file_name} is not in staging any more as it was extracted."
    za_ids = [document.za_id]
    work.session.write(lambda connection: progress.reopen(connection, za_ids, work.author, reason))
    log.warning("%s", error)
