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
from dcc.outcomes import AttemptOutcome, Problem, SubmissionOutcome
from dcc.phases import Phase, State, Status
from dcc.runtime.clock import utc_now
from dcc.runtime.log_context import logging_about, progress_log
from dcc.session.archives.active_submissions import ActiveSubmission
from dcc.session.archives.archive_pools import ArchivePools
from dcc.session.archives.failures import Failures
from dcc.session.archives.unwritten_results import NOT_FETCHED, UnwrittenResults, WrittenResults
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
from dcc.tracker.states import DOWNLOADING, EXTRACTED, EXTRACTING, NOT_DOWNLOADED, NOT_EXTRACTED, WRONG_CHECKSUM
from dcc.tracker.stored_archives import replicas_with_copies

session_log = progress_log(__name__)
T = TypeVar("T")

_COMMIT_SECONDS, _IDLE_SECONDS, _GATHER_SECONDS = 0.2, 0.5, 0.005
_MAX_UNCHECKED = 256
_STOP_SECONDS = 5.0

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
        self._session, settings = session, session.settings
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        staging = Staging(settings.staging_directory, min_free_bytes=settings.min_free_bytes)
        holding = partial(session.read, partial(replicas_with_copies, settings=settings))
        self._pools = ArchivePools(settings, setup, staging, holding, from_workers, in_processes=are_many)
        downloads = partial(
            SourceDownloads,
            settings=settings,
            staging=staging,
            download_slots=DownloadSlots(settings.downloaders),
            tell=self._tell_of_transfer,
            from_workers=None if from_workers is None else from_workers.connection,
            connection_slots=session.connection_slots,
        )
        sources = {number: SourceQueue(downloads(address)) for number, address in addresses.items()}
        self._attempts = WaitingAttempts(sources, settings.retry_delay)
        self._unfinished: set[int] = set()
        self._unchecked: set[int] = set()
        self._unwritten = UnwrittenResults()
        self._committed = 0.0

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
            self._unfinished.add(submission.za_id)
            if submission.downloaded:
                self._store_archive(submission)
            else:
                self._plan_or_leave(submission)
        while self._unfinished or self._unwritten:
            self._session.raise_if_over()
            for submission in self._attempts.take_stranded():
                self._plan_or_leave(submission)
            # Not many more downloads begin than arrived archives are checked.
            self._unwritten.downloads.extend(self._attempts.take(lambda: len(self._unchecked) < _MAX_UNCHECKED))
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
        number, hosting = event.transfer.download_id, event.transfer.hosting
        source = self._attempts.sources[hosting.source_id]
        match event:
            case TransferStarted():
                self._transfer_started(event, source.requested[event.transfer.key])
            case TransferProgressed():
                self._unwritten.change_download(number, downloaded_size_bytes=event.received)
            case ChecksumPublished():
                source.requested[event.transfer.key].choice.note_published(hosting, event.md5)
                self._unwritten.published.append((hosting, event.md5))
            case TransferCompleted():
                self._transfer_completed(event, source.end_attempt(event))
            case TransferFailed():
                self._transfer_failed(event, source.end_attempt(event))
            case TransferNotBegun():
                # The source was left alone: another one delivers the archive, or a later session fetches it.
                self._unwritten.cancel(number)
                self._plan_or_leave(source.end_attempt(event))

    def _plan_or_leave(self, submission: ActiveSubmission) -> None:
        """Queue the submission for its next attempt; if there is none, the result of the last one stands."""
        if self._attempts.plan(submission):
            return
        if submission.last_failure is not None:
            self._unwritten.report_state(submission, submission.last_failure)
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

    def _transfer_started(self, event: TransferStarted, submission: ActiveSubmission) -> None:
        number, now = event.transfer.download_id, utc_now()
        submission.begin_attempt(event.transfer)
        self._unwritten.change_download(number, request=now, received=now)
        self._unwritten.report_state(submission, DOWNLOADING, promote=False)

    def _transfer_completed(self, event: TransferCompleted, submission: ActiveSubmission) -> None:
        number, received = event.transfer.download_id, event.received
        submission.take_archive(received)
        self._unwritten.note_archive(submission)
        submission.fetched = AttemptOutcome.FINISHED if received.is_sent else AttemptOutcome.NOT_MODIFIED
        self._unwritten.end(number, submission.fetched, received)
        self._unwritten.report_state(submission, EXTRACTING)
        self._store_archive(submission)

    def _transfer_failed(self, event: TransferFailed, submission: ActiveSubmission) -> None:
        number, hosting, error = event.transfer.download_id, event.transfer.hosting, event.error
        self._add_reason(submission, error)
        submission.last_failure = failure = self._failure_of(submission, hosting, error)
        if failure not in _NOT_OF_SOURCE:
            submission.choice.failed.add(hosting.id)
        is_other = isinstance(error, FileChangedError | SizeMismatchError)
        # An interrupted attempt may be continued only if the file is still as listed.
        is_interrupted = event.begun and not is_other and not isinstance(error, ChecksumMismatchError)
        submission.fetched = AttemptOutcome.ABORTED if is_interrupted else AttemptOutcome.FAILED
        self._unwritten.end(number, submission.fetched)
        if isinstance(error, DiskFullError):
            self._unwritten.report_state(submission, failure, promote=False)
            self._end_for_lack_of_room(submission, hosting)
        elif self._attempts.plan(submission):
            self._unwritten.report_state(submission, failure, promote=False)
        elif failure == WRONG_CHECKSUM:
            self._await_listing(submission)
        elif is_other and not submission.staged and not submission.choice.new_bad_copies:
            # The file may still be being uploaded, which its source shows.
            self._unwritten.report_state(submission, failure, promote=False)
            self._await_listing(submission)
        else:
            self._unwritten.report_state(submission, failure)
            self._end_without_archive(submission, failure)

    def _end_for_lack_of_room(self, submission: ActiveSubmission, hosting: Hosting) -> None:
        """Larger archives have no room either, and none can be extracted again: earlier states stay."""
        for large in self._attempts.take_large(hosting.size_bytes or 0):
            large.staged = None
            self._leave_to_next_session(large)
        submission.staged = None
        if submission.choice.new_bad_copies:
            # An untried copy may be good: the bad ones decide nothing yet.
            self._end_submission(submission)
        else:
            self._end_without_archive(submission, None)

    def _await_listing(self, submission: ActiveSubmission) -> None:
        """Let the source show whether the submission failed, or its archive is still being uploaded."""
        self._release(submission)
        # Its reason is recorded at its end: if this session dies before, it must not be recorded twice.
        del self._unwritten.problems[submission.attempt.download_id]
        self.awaiting_listing.append(submission)

    def _release(self, submission: ActiveSubmission) -> None:
        """Do nothing more with the submission."""
        self._unfinished.remove(submission.za_id)
        self._unchecked.discard(submission.za_id)

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
            self._unfinished.add(submission.za_id)
            self._unwritten.add_problems(submission, submission.reasons[-1:])
            self._unwritten.report_state(submission, submission.last_failure or NOT_DOWNLOADED)
            if submission.downloaded:
                self._add_reason_of_all_copies(submission)
                self._end_submission(submission)
            else:
                self._end_without_archive(submission, submission.last_failure)
        yield from self.run(())

    def _store_archive(self, submission: ActiveSubmission) -> None:
        """Put an archive into the store before it is checked: a bad one is removed from staging then."""
        self._unchecked.add(submission.za_id)
        if submission.may_be_damaged:
            # It may not be what arrived.
            self._check_archive(submission)
        else:
            self._when_done(self._pools.store(submission), partial(self._storing_ended, submission))

    def _when_done(self, step: Future[T], handle: Callable[[Future[T]], None]) -> None:
        """Have the coordinating thread handle the end of a step."""

        def tell(done: Future[T]) -> None:
            if not done.cancelled():
                self._events.put(partial(handle, done))

        step.add_done_callback(tell)

    def _storing_ended(self, submission: ActiveSubmission, done: Future[StoredCopies]) -> None:
        try:
            self._unwritten.stored.append((submission.attempt.download_id, done.result()))
        except Exception as error:
            with submission.as_subject():
                session_log.warning("%s is not in the archive store yet: %s", submission.key, error)
        self._check_archive(submission)

    def _check_archive(self, submission: ActiveSubmission) -> None:
        self._when_done(self._pools.check(submission), partial(self._check_ended, submission))

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
            self._unwritten.add_problems(submission, submission.reasons[logged:])
        self._unwritten.extracted.append(submission)
        self._unwritten.report_state(submission, EXTRACTED)
        self._end_submission(submission)

    def _check_failed(self, submission: ActiveSubmission, error: Exception, md5: str | None = None) -> None:
        """Handle an archive that cannot be checked; `md5` is its checksum if that is the problem, else None."""
        if isinstance(error, CorruptArchiveError) and submission.may_be_damaged:
            self._replan_damaged(submission, error)
            return
        self._add_reason(submission, error)
        if isinstance(error, CorruptArchiveError) and submission.is_pieced_together:
            self._fetch_again(submission)
            return
        if md5 is not None:
            self._note_md5(submission, md5)
        if isinstance(error, CorruptArchiveError) and md5 is not None:
            self._note_bad(submission, md5, CopyFault.DAMAGED)
            submission.last_failure = NOT_EXTRACTED
            if self._attempts.plan(submission):
                self._discard_bad_archive(submission, NOT_EXTRACTED)
            else:
                self._await_listing(submission)
            return
        if isinstance(error, ArchiveError):
            self._unwritten.report_state(submission, NOT_EXTRACTED)
        else:
            self.failures.not_checked += 1
        self._end_submission(submission)

    def _note_md5(self, submission: ActiveSubmission, md5: str) -> None:
        if submission.note_md5(md5):
            self._unwritten.note_archive(submission)

    def _replan_damaged(self, submission: ActiveSubmission, error: CorruptArchiveError) -> None:
        """A damaged archive from staging that may have been intact on arrival is planned and fetched again."""
        with submission.as_subject():
            session_log.warning(
                "%s was left in staging by a session that died, and is fetched again: %s", submission.key, error
            )
        self._release(submission)
        self._pools.discard(submission)
        self.damaged.append(submission.za_id)

    def _fetch_again(self, submission: ActiveSubmission) -> None:
        """An archive joined from two attempts is bad: fetch it in one piece before blaming the centre."""
        submission.last_failure = NOT_DOWNLOADED
        self._discard_bad_archive(submission, PIECED_TOGETHER)
        submission.choice.try_again_first(submission.attempt.hosting)
        self._plan_or_leave(submission)

    def _discard_bad_archive(self, submission: ActiveSubmission, state: State) -> None:
        """Discard a bad archive, whose attempt has come to this state; another attempt follows."""
        self._unwritten.report_state(submission, state, promote=False)
        self._unchecked.remove(submission.za_id)
        submission.downloaded = False
        self._pools.discard(submission)

    def _add_reason_of_all_copies(self, submission: ActiveSubmission) -> None:
        if len(submission.choice.new_bad_copies) > 1:
            self._add_problem(submission, submission.problem_of_all_copies())

    def _add_reason(self, submission: ActiveSubmission, error: Exception) -> None:
        self._add_problem(submission, self.failures.problem_of(submission, error))

    def _add_problem(self, submission: ActiveSubmission, problem: Problem) -> None:
        submission.reasons.append(problem)
        self._unwritten.add_problems(submission, [problem])

    def _end_submission(self, submission: ActiveSubmission) -> None:
        """End the submission in this session; its outcome is yielded with the next commit."""
        self._release(submission)
        if not submission.downloaded and (submission.choice.failed or submission.last_failure not in _NOT_OF_SOURCE):
            # Else the centre corrects the copies or their checksums: nothing kept the session from fetching one.
            self.failures.not_downloaded += 1
        self._unwritten.finished.append(submission)

    def _leave_to_next_session(self, submission: ActiveSubmission) -> None:
        """Begin no attempt in this session: staging's copy is used, or the submission keeps waiting."""
        if submission.staged is not None:
            self._unwritten.staged.append(submission)
            return
        self._release(submission)
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

        def write(connection: Connection) -> WrittenResults:
            self._attempts.ask_people(connection)
            return results.write(connection, self._session.id)

        written = self._session.write(write)
        self._committed = time.monotonic()
        for submission, numbers in zip(results.extracted, written.document_ids, strict=True):
            for document, number in zip(submission.documents, numbers, strict=True):
                document.row_id = number
        for (submission, hosting), number in zip(results.downloads, written.download_ids, strict=True):
            transfer = submission.transfer(number, hosting, written.earlier.get(hosting.id))
            self._attempts.sources[hosting.source_id].downloads.put(transfer)
        for submission, staged in zip(results.staged, written.staged, strict=True):
            # No source delivered the archive.
            submission.take_from_staging(staged)
            submission.fetched = AttemptOutcome.NOT_MODIFIED
            self._store_archive(submission)
        return deque(results.finished), written.states


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
