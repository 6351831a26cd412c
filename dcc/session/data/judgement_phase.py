"""The data phase: the integrity rules judge all uploaded documents, after all of the upload.

Documents that were judged before are judged again if others require it: they are set back first, so that a killed
session forgets none. Documents that are applied in the QC database but do not count in the tracker are judged too,
before all others. Their archive was processed again with other documents, or its source removed.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import date
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection

from dcc.data_outcomes import SubmissionData
from dcc.databases.transactions import run_reading, run_writing
from dcc.documents.reading import read_document
from dcc.errors import DocumentError, NotFoundError, QcDatabaseUnreachableError, StagedDocumentLostError
from dcc.messages import count_of, mark
from dcc.naming import Action
from dcc.phases import Phase
from dcc.qc.archive_scope import ALL_ARCHIVES, ArchiveScope
from dcc.qc.judging import rejudgements
from dcc.qc.judging.documents import Judgement, JudgingBasis, judge_document, judge_together, signature_of
from dcc.qc.judging.lookups import questionable
from dcc.qc.judging.waiver_store import waivers_in_force
from dcc.qc.reference import snapshots
from dcc.qc.rows.stored_content import load_document
from dcc.rules.context import latest_day
from dcc.rules.findings import Finding, unpacked
from dcc.rules.waivers import Waiver
from dcc.runtime.clock import utc_today
from dcc.runtime.log_context import logging_about
from dcc.session.batches.batch_plans import Bound, together
from dcc.session.data.data_session import DataSession
from dcc.session.data.document_problems import problems_of, worst_first
from dcc.session.data.document_queries import (
    CountedDocument,
    QcDocument,
    counted_by_tracker,
    documents_by_id,
    documents_of,
)
from dcc.session.data.document_results import DocumentResult
from dcc.session.data.judging_basis import current_basis
from dcc.session.data.prepared_archives import PreparedFiles, basis_of, remove_prepared_files
from dcc.session.data.recorder import Recorder
from dcc.session.data.upload_order import DueDocument, in_order_of_upload
from dcc.session.data.upload_phase import FINDINGS_TOLD
from dcc.session.sessions import STOPPING
from dcc.store.staging import staged_path
from dcc.tracker.decisions import record_fault, revoke_healed
from dcc.tracker.session_statuses import TaskStatus
from dcc.tracker.states import JUDGED_FAULTY, JUDGED_WELL, NOT_UPLOADED, UPLOADED
from dcc.vocabulary import DocumentState

log = logging.getLogger(__name__)

GONE: Final = mark("The QC database does not hold the document.")
"""Why a document is set back to be uploaded."""

_TOGETHER: Final = 250
_BYTES_TOGETHER: Final = 50_000_000
"""The most documents of a transaction, and their bytes if they are several: others wait about a second at most."""

_HEALING: Final = mark("What it depends on has changed: documents, waivers or reference data.")


def judge_documents(work: DataSession) -> Iterator[SubmissionData]:
    """Judge all waiting documents, in the order of upload, and those that they require to be judged again.

    With `work.keys`, the submissions of the latter are added to them. Raises the `unreachable` error of either
    database, and SessionLostError. A document that meets a fault of the platform keeps waiting; the fault is recorded.
    """
    due = work.due(Phase.DATA)
    basis = current_basis(work)
    applied = run_reading(work.qc, lambda connection: documents_of(connection, due))
    again = _set_back(work, [applied[document.xml_id].id for document in due if document.xml_id in applied], basis)
    all_due = in_order_of_upload({document.xml_id: document for document in (*due, *again)}.values())
    due = _uploaded(work, all_due, applied)
    if not due:
        return
    task = work.session.start_task(Phase.DATA, f"Check of {count_of(len(due), 'document')}")
    faults = len(work.faults.met)
    recorder = Recorder(work, Phase.DATA, due)
    left = Counter(document.key for document in due)
    waiting = [CountedDocument(document, applied[document.xml_id]) for document in due]

    def results() -> Iterator[DocumentResult]:
        for result in _judge_all(work, waiting, basis):
            key = result.document.key
            left[key] -= 1
            if left[key] == 0:
                # Before it is recorded: nobody would look for them if the session were killed in between.
                remove_prepared_files(work.staging, key)
            yield result

    try:
        yield from recorder.record(results())
    except QcDatabaseUnreachableError:
        recorder.break_off()
        raise
    work.session.write(lambda connection: revoke_healed(connection, work.author))
    work.faults.quarantine(work.session)
    work.session.finish_task(task, TaskStatus.of(failed=len(work.faults.met) > faults))


def _set_back(work: DataSession, uploaded: list[int], basis: JudgingBasis) -> list[DueDocument]:
    """Set back the documents to be judged again; `uploaded` are the ids of those applied last.

    Documents of other centres that these affect are left to their own sessions. Documents that the tracker does not
    count are judged at once: if this session is killed, the waiting others lead the next one to them again.
    """
    again = run_reading(
        work.qc,
        lambda connection: _to_judge_again(
            connection, basis.today, basis.waivers, basis.signature, uploaded=uploaded, scope=work.scope
        ),
    )
    found = run_reading(work.qc, lambda connection: documents_by_id(connection, again.touched | again.named))
    own = [document for document in found if work.covers(document.key)]
    if left := again.touched & ({document.id for document in found} - {document.id for document in own}):
        run_writing(work.qc, lambda connection: rejudgements.mark_for_judging(connection, left))
    counted = work.session.read(lambda connection: counted_by_tracker(connection, own, work.settings.naming))
    known = {document.stored.id for document in counted}
    _judge_uncounted(work, [one for one in own if one.id not in known], basis)
    due = [document.due for document in counted]
    judged = [one for one in due if may_be_judged_again(one) and Phase.DATA not in work.left_out_of(one)]
    work.reopen({document.xml_id: UPLOADED for document in judged}, _HEALING)
    if work.keys is not None:
        work.keys.update(document.key for document in judged)
    return judged


def _judge_uncounted(work: DataSession, documents: list[QcDocument], basis: JudgingBasis) -> None:
    for document in documents:
        work.session.raise_if_over()
        try:
            _judge_rows(work, document, basis)
        except STOPPING:
            raise
        except NotFoundError as error:
            log.info("%s: %s was not judged: %s", document.key, document.file_name, error)
        except Exception as error:
            work.faults.note(f"{document.key}: {document.file_name}", error)


def may_be_judged_again(document: DueDocument) -> bool:
    """Whether a document has passed or failed the data phase."""
    return document.state.is_past(Phase.DATA) or document.state == JUDGED_FAULTY


class _Again(NamedTuple):
    """Documents to be judged again: `touched` by others, which is found once, and `named` until they are judged."""

    touched: set[int]
    named: set[int]


def _to_judge_again(
    connection: Connection,
    today: date,
    waivers: Sequence[Waiver],
    signature: str,
    *,
    uploaded: Sequence[int] = (),
    scope: ArchiveScope = ALL_ARCHIVES,
) -> _Again:
    """Documents affected by uploads, withdrawals, waivers that began or ended, or new reference data, or never judged.

    Without the uploaded ones, and only because of withdrawals of archives in `scope`.
    """
    causes = [*uploaded, *rejudgements.withdrawals_to_follow(connection, scope)]
    touched = set(rejudgements.documents_to_judge_again(connection, causes))
    named = set(rejudgements.documents_to_be_judged(connection))
    named.update(rejudgements.documents_of_begun_waivers(connection, waivers))
    named.update(rejudgements.documents_of_lapsed_waivers(connection, today))
    named.update(rejudgements.documents_of_superseded_snapshots(connection))
    named.update(rejudgements.documents_unchecked(connection, not_by=signature))
    return _Again(touched.difference(uploaded), named.difference(uploaded))


def documents_to_judge_now(connection: Connection, names: Mapping[str, str]) -> set[int]:
    """The documents that the next session judges, by their ids in the QC database, without its uploads.

    `names` are those of centres in iMits.
    """
    today = utc_today()
    signature = signature_of((one.id for one in snapshots.active_snapshots(connection).values()), names)
    again = _to_judge_again(connection, today, waivers_in_force(connection, today), signature)
    return again.touched | again.named


def _uploaded(work: DataSession, due: list[DueDocument], applied: dict[int, QcDocument]) -> list[DueDocument]:
    """The `due` documents that the QC database has, which `applied` gets too. Others are set to be uploaded again."""
    unknown = [document for document in due if document.xml_id not in applied]
    applied.update(run_reading(work.qc, lambda connection: documents_of(connection, unknown)))
    stands = {xml_id for xml_id, found in applied.items() if found.state is DocumentState.APPLIED}
    work.reopen({document.xml_id: NOT_UPLOADED for document in due if document.xml_id not in stands}, GONE)
    return [document for document in due if document.xml_id in stands]


def _judge_all(work: DataSession, due: Sequence[CountedDocument], basis: JudgingBasis) -> Iterator[DocumentResult]:
    """Judge documents, in their order: together if their prepared findings are known, otherwise one by one."""
    with closing(PreparedFiles(work.staging, basis_of(basis, work.qc))) as files:
        for portion in together(due, _TOGETHER, Bound(lambda one: one.due.size_bytes, _BYTES_TOGETHER)):
            work.session.raise_if_over()
            known: dict[int, list[Finding]] = {}
            for one in portion:
                findings = _prepared_findings(files, one.due)
                if findings is not None:
                    known[one.stored.id] = [unpacked(finding) for finding in findings]
            judged = _judge_together(work, known, basis) if known else {}
            for one in portion:
                result = judged.get(one.stored.id)
                if result is None:
                    yield _judge_one(work, one, basis)
                elif isinstance(result, NotFoundError):
                    # It was withdrawn meanwhile, and the withdrawal updates the tracker.
                    yield _unjudged(one, result)
                else:
                    yield _result_of(work, one, result, 0.0)


def _prepared_findings(files: PreparedFiles, document: DueDocument) -> Sequence[Any] | None:
    """The prepared findings of the rules that need only the document, if they are known."""
    if document.key.action is Action.DELETE:
        return ()
    prepared = files.find(document)
    # The database is queried about entities with rows.
    return prepared.findings if prepared is not None and prepared.whole else None


def _judge_together(
    work: DataSession, known: Mapping[int, Sequence[Finding]], basis: JudgingBasis
) -> Mapping[int, Judgement | NotFoundError]:
    """Judge documents with prepared findings, by id, without those to which other rules may object."""

    def judge(connection: Connection) -> Mapping[int, Judgement | NotFoundError]:
        questionable_ids = questionable(connection, known.keys(), latest_day(basis.today))
        found = {document_id: some for document_id, some in known.items() if document_id not in questionable_ids}
        return judge_together(connection, found, basis)

    try:
        return run_writing(work.qc, judge)
    except STOPPING:
        raise
    except Exception as error:
        log.info("%d documents are judged one by one: %s: %s", len(known), type(error).__name__, error)
        return {}


def _judge_one(work: DataSession, one: CountedDocument, basis: JudgingBasis) -> DocumentResult:
    work.session.raise_if_over()
    began = time.monotonic()
    document = one.due
    with logging_about(zip_action=document.key, centre=document.centre, document=document.name.file_name):
        try:
            judgement = _judge_content(work, one, basis)
        except STOPPING:
            raise
        except NotFoundError as error:
            return _unjudged(one, error)
        except Exception as error:
            return _faulty(work, one, error)
    return _result_of(work, one, judgement, time.monotonic() - began)


def _unjudged(one: CountedDocument, reason: Exception) -> DocumentResult:
    return DocumentResult.of_state(one.due, None, document_id=one.stored.id, reason=str(reason))


def _faulty(work: DataSession, one: CountedDocument, error: Exception) -> DocumentResult:
    document = one.due
    fault = work.faults.note(f"{document.key}: {document.name.file_name}", error)
    if document.za_id not in work.faults.submissions:
        work.faults.submissions.add(document.za_id)
        work.session.write(lambda connection: record_fault(connection, document.xml_id, fault))
    return _unjudged(one, fault)


def _result_of(work: DataSession, one: CountedDocument, judgement: Judgement, seconds: float) -> DocumentResult:
    result = DocumentResult.of_state(
        one.due,
        JUDGED_FAULTY if judgement.failed else JUDGED_WELL,
        document_id=one.stored.id,
        findings=tuple(worst_first(judgement.findings)[:FINDINGS_TOLD]),
        finding_counts=judgement.counts,
        cleared=judgement.cleared,
    )
    problems = problems_of(judgement.findings, sum(judgement.counts.values()), work.settings.max_document_errors)
    return replace(result, problems=problems, seconds=seconds)


def _judge_content(work: DataSession, one: CountedDocument, basis: JudgingBasis) -> Judgement:
    """Judge a document from staging or, if it is not there any more, from the QC database."""
    name, stored = one.due.name, one.stored
    try:
        path = staged_path(work.staging, one.due.key, name.file_name, one.due.md5)
    except StagedDocumentLostError:
        return _judge_rows(work, stored, basis)
    try:
        return run_writing(
            work.qc, lambda connection: judge_document(connection, stored.id, read_document(path, name.kind), basis)
        )
    except (OSError, DocumentError):
        # It was removed from staging meanwhile.
        return _judge_rows(work, stored, basis)


def _judge_rows(work: DataSession, stored: QcDocument, basis: JudgingBasis) -> Judgement:
    return run_writing(
        work.qc, lambda connection: judge_document(connection, stored.id, load_document(connection, stored.id), basis)
    )
