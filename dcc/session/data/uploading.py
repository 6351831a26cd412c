"""The upload phase: documents are applied to the QC database one after the other, in their order.

Small documents that add are applied together, a bounded number in one transaction, as if each were applied by itself;
what does not go that way, or fails there, is applied by itself.

What a document does there stands before the tracker hears of it; a document that a killed session had applied is found
`repeated`. A document that cannot be applied leaves no row of data, and always an entry in `xml_log`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from dcc.data_outcomes import ZipData
from dcc.errors import (
    DatabaseUnreachableError,
    DccError,
    QcDatabaseUnreachableError,
    StagedDocumentLostError,
)
from dcc.naming import Action
from dcc.phases import Phase
from dcc.qc.apply.holding import held_for
from dcc.qc.judging.many_documents import newest_document
from dcc.qc.statistics import update_statistics
from dcc.runtime.background_work import run_in_background
from dcc.runtime.log_context import logging_about
from dcc.session.data.data_session import DataSession, Fact, Recorder
from dcc.session.data.documents import DueDocument
from dcc.session.data.qc_documents import QcDocument, documents_of
from dcc.session.data.upload_groups import UploadQueue
from dcc.session.data.upload_turns import groups_in_turn
from dcc.session.data.uploader import HELD, Uploader, failed_upload, not_applied
from dcc.tracker import progress
from dcc.tracker.hostings.older_archives import OlderArchive, waiting_for_older
from dcc.tracker.register.delegations import load_delegations
from dcc.vocabulary import DocumentState

log = logging.getLogger(__name__)

_WAITS: Final = "It would change much, or has data of another centre, so that it has to be confirmed."
_LONG_BYTES: Final = 4_000_000


def upload_documents(work: DataSession) -> Iterator[ZipData]:
    """Apply all documents that wait, in their order; tell of each zip action once all of its are through.

    Documents that are held stay at (upload, pending), and are not tried again until they are confirmed, or the centres
    whose data they have delegate; those that change data wait there while an older archive of their centre is on its
    way. A zip whose documents are not in staging any more is set to be downloaded again. Raises the `unreachable` error
    of either database, and SessionLostError; what went wrong with a document itself makes it (upload, failed).
    """
    due = work.due(Phase.UPLOAD)
    there = work.read_qc(lambda connection: documents_of(connection, due))
    if not due:
        return
    work.delegations = work.read(load_delegations)
    held = {one.xml_id for one in due if one.state == HELD and one.xml_id in there and there[one.xml_id].is_held}
    held -= _delegated_since(work, [one for one in due if one.xml_id in held], there)
    due = [one for one in due if one.xml_id not in held]
    waiting = _wait_for_older(work, due)
    if waiting:
        yield from _told_waiting(work, waiting)
        still = {one.document.xml_id for one in waiting}
        due = [one for one in due if one.xml_id not in still]
    if not due:
        return
    task = work.session.start_task(Phase.UPLOAD, f"Upload of {len(due):,} documents")
    faults = len(work.faults)
    lost: dict[int, str] = {}
    with run_in_background(work.tracker, "tracker") as tracker:
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


def _delegated_since(work: DataSession, held: Sequence[DueDocument], there: Mapping[int, QcDocument]) -> set[int]:
    """The ids of the `xml_file` of held documents whose other centres have delegated since to the archive's."""
    if not held:
        return set()
    centres = work.read_qc(lambda connection: held_for(connection, [there[one.xml_id].id for one in held]))
    return {
        one.xml_id
        for one in held
        if (others := centres.get(there[one.xml_id].id))
        and all(map(work.delegations.rights_of(one.centre).permit, others))
    }


def _wait_for_older(work: DataSession, due: Sequence[DueDocument]) -> list[Fact]:
    """The documents that edit or delete while an older archive of their centre is on its way, as they are told of."""
    changing = {one.za_id for one in due if one.key.action is not Action.ADD}
    if not changing:
        return []
    older = work.read(lambda connection: waiting_for_older(connection, changing))
    return [_waiting(one, older[one.za_id]) for one in due if one.za_id in older]


def _waiting(document: DueDocument, older: OlderArchive) -> Fact:
    return Fact(document, not_applied(document, HELD, older.message, older.key), HELD)


def _told_waiting(work: DataSession, waiting: Sequence[Fact]) -> list[ZipData]:
    """Show that documents wait for older archives, and say it once for each centre."""
    documents = [one.document for one in waiting]
    recorder = Recorder(work, Phase.UPLOAD, documents)
    for one in waiting:
        recorder.add(one)
    for (centre, older), count in Counter((one.document.centre, one.data.waits_for) for one in waiting).items():
        log.warning("%d documents of %s wait for %s, which is still on its way", count, centre, older)
    return recorder.write()


def _upload_all(
    work: DataSession, queue: UploadQueue, recorder: Recorder, there: Mapping[int, QcDocument], lost: dict[int, str]
) -> Iterator[ZipData]:
    """Apply the documents of `queue`; `there` tells of those that are stored, `lost` see `_upload`."""
    together_from = work.read_qc(newest_document) + 1
    uploader = Uploader(work.qc, work.settings, work.delegations, queue.ahead, together_from)
    with groups_in_turn(work, uploader, queue, recorder) as groups:
        while queue or not (groups is None or groups.settle(())):
            work.session.check()
            group = queue.take(lost)
            for document in group:
                recorder.show_running(document)
            if recorder.is_due or group[0].size_bytes > _LONG_BYTES:
                recorder.begin()
            if groups is not None and queue.is_small(group[0]):
                groups.upload(group)
                yield from recorder.finish()
                continue
            yield from recorder.finish()
            if groups is not None and not groups.settle(group):
                continue
            document = group[0]
            with logging_about(zip_action=document.key, centre=document.centre, document=document.name.file_name):
                fact = _upload(work, uploader, document, there.get(document.xml_id), lost)
            if fact.data.held:
                # It may have been shown to be running, and states go on only.
                work.reopen({document.xml_id: HELD}, _WAITS)
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


def _untouched(document: DueDocument, reason: str) -> Fact:
    return Fact(document, not_applied(document, document.state, reason), None)


def _download_again(work: DataSession, document: DueDocument, error: StagedDocumentLostError) -> None:
    reason = f"The document {document.name.file_name} is not in staging any more as it was extracted."
    za_ids = [document.za_id]
    work.session.write(lambda connection: progress.reopen(connection, za_ids, work.author, reason))
    log.warning("%s", error)
