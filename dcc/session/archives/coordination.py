"""The coordinating thread of a session: takes the result of each step, decides what comes next, and records it.

Threads do the work, and processes if there is much: a few threads for each source download, others extract and
validate. They never use the tracker. All results since the last commit are written in one transaction, about five times
a second.
"""

from __future__ import annotations

import logging
import queue
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from dcc.errors import (
    ArchiveError,
    BadChecksumFileError,
    ChecksumMismatchError,
    CorruptArchiveError,
    DiskFullError,
    FileChangedError,
    FileMissingError,
    FileNotReadableError,
    SizeMismatchError,
)
from dcc.messages import mark, message
from dcc.outcomes import AttemptOutcome, Problem, SubmissionOutcome
from dcc.phases import Phase, State, Status
from dcc.runtime.clock import utc_now
from dcc.runtime.log_context import logging_about, progress_log
from dcc.session.archives.active_submissions import ActiveSubmission
from dcc.session.archives.archive_pools import ArchivePools
from dcc.session.archives.failures import Failures
from dcc.session.archives.unwritten_results import UnwrittenResults, WrittenResults
from dcc.session.archives.waiting_attempts import SourceQueue, WaitingAttempts
from dcc.session.batches.worker_results import SessionWorkerResults
from dcc.session.fetching.download_slots import DownloadSlots
from dcc.session.fetching.downloads import SourceDownloads
from dcc.session.fetching.transfer_events import (
    ChecksumPublished,
    TransferCompleted,
    TransferEvent,
    TransferFailed,
    TransferNotBegun,
    TransferProgressed,
    TransferStarted,
)
from dcc.session.prepare.archive_checks import CheckedArchive, Setup, UnopenedArchive
from dcc.session.sessions import Session
from dcc.sources.base import SourceAddress
from dcc.store.copies import StoredCopies
from dcc.store.staging import Staging
from dcc.tracker.hostings.hosting import CopyFault, Hosting
from dcc.tracker.hostings.source_statistics import TransferStatistics
from dcc.tracker.hostings.urgent_requests import urgent_keys
from dcc.tracker.register.source_schedules import paused_sources
from dcc.tracker.states import DOWNLOADING, EXTRACTED, EXTRACTING, NOT_DOWNLOADED, NOT_EXTRACTED, WRONG_CHECKSUM
from dcc.tracker.stored_archives import replicas_with_copies

session_log = progress_log(__name__)
T = TypeVar("T")

_COMMIT_SECONDS, _IDLE_SECONDS, _GATHER_SECONDS = 0.2, 0.5, 0.005
_MAX_UNCHECKED = 256
_ASKING_SECONDS = 10.0
"""Seconds between looks for archives that a person wants first, and for sources that a person paused."""
_STOP_SECONDS = 5.0

NOT_FETCHED = State(Phase.DOWNLOAD, Status.CANCELLED)
_NOT_OF_SOURCE = (WRONG_CHECKSUM, NOT_FETCHED)
"""The ends of attempts that no fault of a source caused."""
PIECED_TOGETHER = State(Phase.UNZIP, Status.CANCELLED)


class Coordinator:
    """Takes submissions from their beginning to their end. For one thread; a context manager that stops its threads.

    If they `are_many`, processes extract archives and validate documents. Work in `from_workers` is not repeated.
    `awaiting_listing` are the submissions whose last attempt found another file than listed, or a bad one: they have no
    outcome until `fail` is called.
    """

    def __init__(
        self,
        session: Session,
        setup: Setup,
        addresses: Mapping[int, SourceAddress],
        *,
        are_many: bool = False,
        from_workers: SessionWorkerResults | None = None,
    ) -> None:
        self.failures = Failures()
        self.damaged: list[int] = []
        self.awaiting_listing: list[ActiveSubmission] = []
        self._reasons_kept: dict[int, list[Problem]] = {}
        self._session, settings = session, session.settings
        self._staging = Staging(settings.staging_directory, min_free_bytes=settings.min_free_bytes)
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        holding = partial(session.read, partial(replicas_with_copies, settings=settings))
        self._pools = ArchivePools(settings, setup, holding, in_processes=are_many)
        self._from_workers = from_workers
        slots = DownloadSlots(settings.downloaders)
        sources = {number: self._queue_of(address, slots) for number, address in addresses.items()}
        self._attempts = WaitingAttempts(sources, settings.retry_delay)
        self._unfinished: dict[int, ActiveSubmission] = {}
        self._transferring: dict[int, ActiveSubmission] = {}
        self._unchecked = 0
        self._unwritten = UnwrittenResults()
        self._committed = 0.0
        self._asked = time.monotonic()

    def _queue_of(self, address: SourceAddress, slots: DownloadSlots) -> SourceQueue:
        downloads = SourceDownloads(
            address,
            self._session.settings,
            self._staging,
            download_slots=slots,
            tell=self._tell_of_transfer,
            from_workers=self._from_workers,
            connection_slots=self._session.connection_slots,
        )
        return SourceQueue(downloads)

    def __enter__(self) -> Coordinator:
        return self

    def __exit__(self, *_: object) -> None:
        self._attempts.stop()
        self._pools.stop()
        self._attempts.join(_STOP_SECONDS)

    @property
    def transfer_statistics(self) -> dict[int, TransferStatistics]:
        """How each file source behaved, by id."""
        return {number: source.transfer_statistics for number, source in self._attempts.sources.items()}

    def run(self, submissions: Iterable[ActiveSubmission]) -> Iterator[SubmissionOutcome]:
        """Process the submissions; yields each submission's outcome once it is recorded.

        A submission that lost all its sources before any attempt has no outcome: it keeps waiting. Raises
        SessionLostError and TrackerUnreachableError; after these, as after a crash, the next session continues.
        """
        for submission in submissions:
            self._unfinished[submission.za_id] = submission
            if submission.downloaded:
                self._store_archive(submission)
            else:
                self._plan_or_leave(submission)
        while self._unfinished or self._unwritten:
            self._session.raise_if_over()
            for submission in self._attempts.take_stranded():
                self._plan_or_leave(submission)
            # Not many more downloads begin than arrived archives are checked.
            self._unwritten.downloads.extend(self._attempts.take(lambda: self._unchecked < _MAX_UNCHECKED))
            if self._unwritten and (not self._unfinished or self._until_commit() <= 0):
                yield from self._commit()
            else:
                self._handle_events()

    def _until_commit(self) -> float:
        return self._committed + _COMMIT_SECONDS - time.monotonic()

    def _handle_events(self) -> None:
        """Wait for an event, until the next due action at most; handle it and all others that have arrived."""
        wait = self._until_commit() if self._unwritten else _IDLE_SECONDS
        delay = self._attempts.seconds_left()
        if delay is not None:
            wait = min(wait, delay)
        try:
            handle = self._events.get(timeout=max(wait, 0.001))
        except queue.Empty:
            return
        # Waking up for each event would slow its senders down.
        time.sleep(_GATHER_SECONDS)
        handle()
        for _ in range(self._events.qsize()):
            self._events.get_nowait()()

    def _tell_of_transfer(self, event: TransferEvent) -> None:
        """Leave an event of a source's thread to the coordinating one."""
        self._events.put(partial(self._handle_transfer, event))

    def _handle_transfer(self, event: TransferEvent) -> None:
        match event:
            case TransferStarted():
                self._transfer_started(event)
            case TransferProgressed():
                self._unwritten.change_download(event.transfer.download_id, downloaded_size_bytes=event.received)
            case ChecksumPublished():
                hosting = event.transfer.hosting
                self._transferring[event.transfer.download_id].choice.note_published(hosting, event.md5)
                self._unwritten.published.append((hosting, event.md5))
            case TransferCompleted():
                self._transfer_completed(event)
            case TransferFailed():
                self._transfer_failed(event)
            case TransferNotBegun():
                self._transfer_not_begun(event)

    def _plan_or_leave(self, submission: ActiveSubmission) -> None:
        """Queue the submission for its next attempt; if there is none, the result of the last one stands."""
        if self._attempts.plan(submission):
            return
        if submission.last_failure is not None:
            self._unwritten.report_state(submission.attempt.id, submission.last_failure)
            self._end_without_archive(submission, submission.last_failure)
        else:
            self._leave_to_next_session(submission)

    def _end_without_archive(self, submission: ActiveSubmission, failure: State | None) -> None:
        """No attempt follows one without an archive: use staging's copy, or the result of an earlier attempt.

        If the archive changed since that one, it ends with this `failure`; None: it waits.
        """
        if submission.staged is not None and not submission.choice.new_bad_copies:
            self._unwritten.staged.append(submission)
            return
        self._add_reason_of_all_copies(submission)
        self._unwritten.without_further_attempt[submission.za_id] = failure
        self._end_submission(submission)

    def _transfer_started(self, event: TransferStarted) -> None:
        number = event.transfer.download_id
        submission = self._transferring[number]
        submission.attempts += 1
        submission.began = time.monotonic()
        now = utc_now()
        self._unwritten.change_download(number, request=now, received=now)
        self._unwritten.report_state(number, DOWNLOADING, promote=False)

    def _transfer_completed(self, event: TransferCompleted) -> None:
        number, received = event.transfer.download_id, event.received
        submission = self._transferring.pop(number)
        self._attempts.sources[event.transfer.hosting.source_id].note_arrival(received)
        submission.downloaded = True
        submission.size_bytes, submission.md5 = received.size_bytes, received.md5
        submission.transfer_seconds = received.seconds if received.is_sent else None
        submission.resumed = received.resumed and received.md5 is None
        self._unwritten.note_archive(submission)
        sent_bytes = received.size_bytes if received.is_sent else 0
        self._unwritten.change_download(number, downloaded_size_bytes=sent_bytes)
        submission.fetched = AttemptOutcome.FINISHED if received.is_sent else AttemptOutcome.NOT_MODIFIED
        self._unwritten.end(number, submission.fetched, received)
        self._unwritten.report_state(number, EXTRACTING)
        self._store_archive(submission)

    def _transfer_failed(self, event: TransferFailed) -> None:
        number, hosting, error = event.transfer.download_id, event.transfer.hosting, event.error
        submission = self._transferring.pop(number)
        self._attempts.sources[hosting.source_id].note_failure(event)
        self._add_reason(submission, error)
        submission.last_failure = failure = self._failure_of(submission, hosting, error)
        if failure not in _NOT_OF_SOURCE:
            submission.failed_hostings.add(hosting.id)
        # An interrupted attempt may be continued only if the file is still as listed.
        is_other = isinstance(error, FileChangedError | SizeMismatchError | ChecksumMismatchError)
        submission.fetched = AttemptOutcome.ABORTED if event.begun and not is_other else AttemptOutcome.FAILED
        self._unwritten.end(number, submission.fetched)
        has_room = not isinstance(error, DiskFullError)
        if not has_room:
            # Larger archives have no room either: they are left to the next session.
            for large in self._attempts.take_large(hosting.size_bytes or 0):
                large.staged = None
                self._leave_to_next_session(large)
            # An earlier state stays: there is no room to extract the archive again either.
            submission.staged = None
        is_planned = has_room and self._attempts.plan(submission)
        has_others = bool(submission.staged or submission.choice.new_bad_copies)
        if failure == WRONG_CHECKSUM and not is_planned:
            self._await_listing(submission)
            return
        # The file may still be being uploaded, which its source shows.
        awaits_listing = isinstance(error, FileChangedError | SizeMismatchError) and not has_others
        is_end = has_room and not is_planned and not awaits_listing
        self._unwritten.report_state(number, failure, promote=is_end)
        if is_planned:
            return
        if not has_room and submission.choice.new_bad_copies:
            # An untried copy may be good: the bad ones decide nothing yet.
            self._end_submission(submission)
        elif not has_room:
            self._end_without_archive(submission, None)
        elif awaits_listing:
            self._await_listing(submission)
        else:
            self._end_without_archive(submission, failure)

    def _transfer_not_begun(self, event: TransferNotBegun) -> None:
        """The source was left alone: another one delivers the archive, or a later session fetches it."""
        number = event.transfer.download_id
        submission = self._transferring.pop(number)
        self._attempts.sources[event.transfer.hosting.source_id].note_not_begun()
        self._unwritten.end(number, AttemptOutcome.CANCELLED)
        self._unwritten.report_state(number, NOT_FETCHED, promote=False)
        submission.forget_attempt()
        self._plan_or_leave(submission)

    def _await_listing(self, submission: ActiveSubmission) -> None:
        """Let the source show whether the submission failed, or its archive is still being uploaded."""
        del self._unfinished[submission.za_id]
        if submission.downloaded:
            self._unchecked -= 1
        # Its reasons are recorded at its end: if this session dies before, they must not be recorded twice.
        self._reasons_kept[submission.za_id] = self._unwritten.problems.pop(submission.attempt.id, [])
        self.awaiting_listing.append(submission)

    def _failure_of(self, submission: ActiveSubmission, hosting: Hosting, error: Exception) -> State:
        """The state of a failed attempt; what it means for the copy on the source is recorded."""
        if isinstance(error, FileMissingError | FileNotReadableError | BadChecksumFileError):
            submission.choice.lost.add(hosting.id)
        if isinstance(error, BadChecksumFileError):
            return WRONG_CHECKSUM
        if not isinstance(error, ChecksumMismatchError):
            return NOT_DOWNLOADED
        if error.received is None:
            submission.choice.lost.add(hosting.id)
            return NOT_FETCHED
        if error.is_resumed:
            submission.choice.try_again_first(hosting)
            return NOT_DOWNLOADED
        self._note_bad(submission, error.received, CopyFault.CHECKSUM)
        return WRONG_CHECKSUM

    def _note_bad(self, submission: ActiveSubmission, md5: str, fault: CopyFault) -> None:
        hosting = submission.attempt.hosting
        source = self._attempts.sources.get(hosting.source_id)
        certain = source is not None and source.downloads.address.traits.detects_changed_bytes
        self._unwritten.bad_copies.extend(submission.choice.note_bad(hosting, md5, fault, certain=certain))

    def end_downloads(self) -> None:
        """Begin no further download and close the connections: a server may serve no other beside them."""
        self._attempts.give_up()
        self._attempts.stop()
        self._attempts.join(_STOP_SECONDS)

    def fail(self, submissions: Iterable[ActiveSubmission]) -> Iterator[SubmissionOutcome]:
        """End the submissions of `awaiting_listing` with the failure of their last attempt; yields their outcomes."""
        for submission in submissions:
            self._unfinished[submission.za_id] = submission
            self._unwritten.add_problems(submission.attempt.id, self._reasons_kept.pop(submission.za_id))
            self._unwritten.report_state(submission.attempt.id, submission.last_failure or NOT_DOWNLOADED)
            if submission.downloaded:
                self._unchecked += 1
                self._add_reason_of_all_copies(submission)
                self._end_submission(submission)
            else:
                self._end_without_archive(submission, submission.last_failure)
        yield from self.run(())

    def _store_archive(self, submission: ActiveSubmission) -> None:
        """Put an archive into the store before it is checked: a bad one is removed from staging then."""
        self._unchecked += 1
        if submission.may_be_damaged:
            # It may not be what arrived.
            self._check_archive(submission)
        else:
            step = self._pools.store(submission, self._staging.archive(submission.key))
            self._when_done(step, partial(self._storing_ended, submission))

    def _when_done(self, step: Future[T], handle: Callable[[Future[T]], None]) -> None:
        """Have the coordinating thread handle the end of a step."""

        def tell(done: Future[T]) -> None:
            if not done.cancelled():
                self._events.put(partial(handle, done))

        step.add_done_callback(tell)

    def _storing_ended(self, submission: ActiveSubmission, done: Future[StoredCopies]) -> None:
        try:
            self._unwritten.stored.append((submission.attempt.id, done.result()))
        except Exception as error:
            with submission.as_subject():
                session_log.warning("%s is not in the archive store yet: %s", submission.key, error)
        self._check_archive(submission)

    def _check_archive(self, submission: ActiveSubmission) -> None:
        ready = None if self._from_workers is None else self._from_workers.ready(submission.key)
        archive, contents = self._staging.archive(submission.key), self._staging.contents(submission.key)
        step = self._pools.check(submission, archive, contents, ready)
        self._when_done(step, partial(self._check_ended, submission))

    def _check_ended(self, submission: ActiveSubmission, done: Future[CheckedArchive | UnopenedArchive]) -> None:
        try:
            found = done.result()
        except Exception as error:
            self._check_failed(submission, error)
            return
        if isinstance(found, UnopenedArchive):
            self._check_failed(submission, found.error, found.md5)
        else:
            self._record_documents(submission, found)

    def _record_documents(self, submission: ActiveSubmission, found: CheckedArchive) -> None:
        self._note_md5(submission, found.md5)
        logged = len(submission.reasons)
        self._unwritten.checked.update(submission.take_documents(found))
        if not submission.known_documents:
            self._unwritten.add_problems(submission.attempt.id, submission.reasons[logged:])
        self._unwritten.extracted.append(submission)
        self._unwritten.report_state(submission.attempt.id, EXTRACTED)
        self._end_submission(submission)

    def _check_failed(self, submission: ActiveSubmission, error: Exception, md5: str | None = None) -> None:
        """Handle an archive that cannot be checked; `md5` is its checksum if that is the problem, else None."""
        if isinstance(error, CorruptArchiveError) and submission.may_be_damaged:
            self._replan_damaged(submission, error)
            return
        number = submission.attempt.id
        self._add_reason(submission, error)
        if isinstance(error, CorruptArchiveError) and submission.resumed:
            self._fetch_again(submission)
            return
        if md5 is not None:
            self._note_md5(submission, md5)
        if isinstance(error, CorruptArchiveError) and md5 is not None:
            self._note_bad(submission, md5, CopyFault.DAMAGED)
            if self._attempts.plan(submission):
                self._unwritten.report_state(number, NOT_EXTRACTED, promote=False)
                self._discard_bad_archive(submission, NOT_EXTRACTED)
                return
            submission.last_failure = NOT_EXTRACTED
            self._await_listing(submission)
            return
        if isinstance(error, ArchiveError):
            self._unwritten.report_state(number, NOT_EXTRACTED)
        else:
            self.failures.not_checked += 1
        self._end_submission(submission)

    def _note_md5(self, submission: ActiveSubmission, md5: str) -> None:
        if submission.md5 != md5:
            submission.md5 = md5
            self._unwritten.note_archive(submission)

    def _replan_damaged(self, submission: ActiveSubmission, error: CorruptArchiveError) -> None:
        """A damaged archive from staging that may have been intact on arrival is planned and fetched again."""
        with submission.as_subject():
            session_log.warning(
                "%s was left in staging by a session that died, and is fetched again: %s", submission.key, error
            )
        del self._unfinished[submission.za_id]
        self._unchecked -= 1
        self._staging.archive(submission.key).unlink(missing_ok=True)
        self.damaged.append(submission.za_id)

    def _fetch_again(self, submission: ActiveSubmission) -> None:
        """An archive joined from two attempts is bad: fetch it in one piece before blaming the centre."""
        self._unwritten.report_state(submission.attempt.id, PIECED_TOGETHER, promote=False)
        self._discard_bad_archive(submission, NOT_DOWNLOADED)
        submission.choice.try_again_first(submission.attempt.hosting)
        self._plan_or_leave(submission)

    def _discard_bad_archive(self, submission: ActiveSubmission, failure: State) -> None:
        """Discard a bad archive; another attempt follows."""
        self._unchecked -= 1
        submission.last_failure = failure
        submission.downloaded, submission.resumed = False, False
        self._staging.archive(submission.key).unlink(missing_ok=True)

    def _add_reason_of_all_copies(self, submission: ActiveSubmission) -> None:
        """If several copies were bad, name them in one further reason."""
        bad_copies = submission.choice.new_bad_copies
        if len(bad_copies) < 2:
            return
        copies = [
            message(_BAD_COPIES[found.fault], source=str(found.hosting.source_id), md5=found.md5)
            for found in bad_copies.values()
        ]
        template = mark(
            "{archive} is bad at {count} file sources: {copies}. Replace it with a good archive, under the same name."
        )
        reason = message(template, archive=str(submission.key), count=len(bad_copies), copies=copies)
        problem = Problem(submission.reasons[-1].kind, reason, code=submission.reasons[-1].code)
        submission.reasons.append(problem)
        self._unwritten.add_problems(submission.attempt.id, [problem])

    def _add_reason(self, submission: ActiveSubmission, error: Exception) -> None:
        problem = self.failures.problem_of(submission, error)
        submission.reasons.append(problem)
        self._unwritten.add_problems(submission.attempt.id, [problem])

    def _end_submission(self, submission: ActiveSubmission) -> None:
        """End the submission in this session; its outcome is yielded with the next commit."""
        del self._unfinished[submission.za_id]
        if submission.downloaded:
            self._unchecked -= 1
        elif submission.failed_hostings or submission.last_failure not in _NOT_OF_SOURCE:
            # Else the centre corrects the copies or their checksums: nothing kept the session from fetching one.
            self.failures.not_downloaded += 1
        self._unwritten.finished.append(submission)

    def _leave_to_next_session(self, submission: ActiveSubmission) -> None:
        """Begin no attempt in this session: staging's copy is used, or the submission keeps waiting."""
        if submission.staged is not None:
            self._unwritten.staged.append(submission)
            return
        del self._unfinished[submission.za_id]
        if self._attempts.are_paused(submission.choice.hostings):
            self.failures.left_to_pauses += 1
        else:
            self.failures.not_downloaded += 1
        self._unwritten.without_further_attempt[submission.za_id] = None

    def _commit(self) -> Iterator[SubmissionOutcome]:
        finished, states = self._write_results()
        while finished:
            # Yielded submissions are released at once: there may be thousands more.
            submission = finished.popleft()
            source = self._attempts.sources.get(submission.attempt.hosting.source_id) if submission.downloaded else None
            address = None if source is None else source.downloads.address
            outcome = submission.outcome(states[submission.za_id], address)
            _log_outcome(submission, outcome)
            yield outcome

    def _write_results(self) -> tuple[deque[ActiveSubmission], dict[int, State]]:
        """Write all results, and begin the requested attempts; returns the ended submissions, with their states."""
        results, self._unwritten = self._unwritten, UnwrittenResults()
        asks = time.monotonic() - self._asked > _ASKING_SECONDS

        def write(connection: Connection) -> WrittenResults:
            if asks:
                self._attempts.put_first(set(urgent_keys(connection)))
                self._attempts.pause(paused_sources(connection))
                self._asked = time.monotonic()
            return results.write(connection, self._session.id)

        written = self._session.write(write)
        self._committed = time.monotonic()
        for submission, numbers in zip(results.extracted, written.document_ids, strict=True):
            for document, number in zip(submission.documents, numbers, strict=True):
                document.row_id = number
        for (submission, hosting), number in zip(results.downloads, written.download_ids, strict=True):
            submission.begin_attempt(number, hosting)
            self._transferring[number] = submission
            transfer = submission.transfer(number, hosting, written.earlier.get(hosting.id))
            self._attempts.sources[hosting.source_id].downloads.put(transfer)
        for submission, staged in zip(results.staged, written.staged, strict=True):
            # No source delivered the archive.
            submission.take_from_staging(staged)
            submission.fetched = AttemptOutcome.NOT_MODIFIED
            self._store_archive(submission)
        return deque(results.finished), written.states


_BAD_COPIES = {
    CopyFault.DAMAGED: mark("file source {source} (MD5 {md5}, damaged)"),
    CopyFault.CHECKSUM: mark("file source {source} (MD5 {md5}, not the MD5 published)"),
}


def _log_outcome(submission: ActiveSubmission, outcome: SubmissionOutcome) -> None:
    if not session_log.isEnabledFor(logging.INFO):
        return
    reason = outcome.main_reason
    with submission.as_subject(), logging_about(phase=outcome.phase.short_name):
        session_log.info(
            "%s: %s %s after %.1f s: %s bytes, %d documents%s",
            outcome.key,
            outcome.phase.short_name,
            outcome.status.short_name,
            outcome.seconds,
            outcome.size_bytes,
            len(outcome.documents),
            "" if reason is None else f"; {reason.kind}: {reason.message}",
        )
