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
from enum import Enum
from functools import partial
from typing import Any

from sqlalchemy import Connection

from dcc.errors import (
    ArchiveError,
    BadChecksumFileError,
    ChecksumMismatchError,
    CorruptArchiveError,
    DccError,
    DiskFullError,
    FileChangedError,
    FileMissingError,
    FileNotReadableError,
    InternalFaultError,
    SizeMismatchError,
    platform_fault,
)
from dcc.messages import mark, message
from dcc.outcomes import AttemptOutcome, Problem, ZipOutcome
from dcc.phases import Phase, Status
from dcc.runtime.clock import utc_now
from dcc.runtime.log_context import logging_about, progress_log
from dcc.session.archives.jobs import ArchivePools, Attempts, Job, SourceQueue
from dcc.session.archives.recording import Batch, BatchResult
from dcc.session.batches.results import SessionWorkerResults
from dcc.session.fetching.downloads import (
    ChecksumPublished,
    DownloadMessage,
    DownloadSlots,
    SourceDownloads,
    TransferCompleted,
    TransferFailed,
    TransferNotBegun,
    TransferProgressed,
    TransferStarted,
)
from dcc.session.prepare.archive_checks import CheckedArchive, Setup, UnopenedArchive
from dcc.session.sessions import Session
from dcc.sources.base import SourceAddress
from dcc.sources.hosting import CopyFault
from dcc.store.copies import StoredCopies
from dcc.store.staging import Staging
from dcc.tracker.hostings.retries import urgent_keys
from dcc.tracker.hostings.source_statistics import TransferStatistics
from dcc.tracker.models import ZipDownload
from dcc.tracker.register.source_schedules import paused_sources
from dcc.tracker.states import DOWNLOADING, EXTRACTED, EXTRACTING, NOT_DOWNLOADED, NOT_EXTRACTED, WRONG_CHECKSUM, State
from dcc.tracker.stored_archives import replicas_with_copies

log = logging.getLogger(__name__)
session_log = progress_log(__name__)

_COMMIT_SECONDS, _IDLE_SECONDS, _GATHER_SECONDS = 0.2, 0.5, 0.005
_MAX_UNCHECKED = 256
_ASKING_SECONDS = 10.0
"""Seconds between looks for archives that a person wants first, and for sources that a person paused."""
_STOP_SECONDS = 5.0

NOT_FETCHED = State(Phase.DOWNLOAD, Status.CANCELLED)
_NOT_OF_SOURCE = (WRONG_CHECKSUM, NOT_FETCHED)
"""The ends of attempts that no fault of a source caused."""
PIECED_TOGETHER = State(Phase.UNZIP, Status.CANCELLED)


CoordinatorEvent = DownloadMessage | partial[None]
"""What a source's thread tells, or what to do about a step of an archive that has ended."""


class AfterFailure(Enum):
    """What becomes of a job after a failed attempt."""

    TRIES_AGAIN = "tries again"
    SET_ASIDE = "set aside"
    """Its source shows first whether the archive is still being uploaded."""
    STAYS = "stays"
    """Its submission keeps its state, and waits for the next session."""
    ENDS = "ends"
    """Its submission ends with what the attempt found."""


def after_failure(error: Exception, state: State, *, is_planned: bool, has_others: bool) -> AfterFailure:
    """What becomes of a job after an attempt that failed with an error, which gave it a state.

    `is_planned`: another attempt follows. `has_others`: staging has a copy, or another one was bad.
    """
    if is_planned:
        return AfterFailure.TRIES_AGAIN
    if isinstance(error, DiskFullError):
        return AfterFailure.STAYS
    is_other = isinstance(error, FileChangedError | SizeMismatchError)
    is_unfinished = state == WRONG_CHECKSUM or (is_other and not has_others)
    return AfterFailure.SET_ASIDE if is_unfinished else AfterFailure.ENDS


class Coordinator:
    """Takes jobs from their beginning to their end. Used by one thread; a context manager that stops its threads.

    If the jobs `are_many`, processes extract archives and validate documents. Work in `from_workers` is not repeated.
    `changed` are the jobs whose last attempt found another file than listed, or a bad one: they have no outcome until
    `fail` is called. `left_to_pauses` counts those that people left to a later session by pausing all their sources.
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
        self.faults: list[InternalFaultError] = []
        self.not_downloaded = 0
        self.left_to_pauses = 0
        self.not_checked = 0
        self.lacked_room = False
        self.damaged: list[int] = []
        self.changed: list[Job] = []
        self._reasons_kept: dict[int, list[tuple[int, Problem]]] = {}
        self._session, settings = session, session.settings
        self._staging = Staging(settings.staging_directory, min_free_bytes=settings.min_free_bytes)
        self._events: queue.SimpleQueue[CoordinatorEvent] = queue.SimpleQueue()
        holding = partial(session.read, partial(replicas_with_copies, settings=settings))
        self._pools = ArchivePools(settings, setup, holding, in_processes=are_many)
        self._from_workers = from_workers
        allowance, tell = DownloadSlots(settings.downloaders), self._events.put
        given = settings, self._staging, allowance, tell, from_workers, session.connection_slots
        sources = {number: SourceQueue(SourceDownloads(address, *given)) for number, address in addresses.items()}
        self._attempts = Attempts(sources, settings.retry_delay)
        self._unfinished: dict[int, Job] = {}
        self._transferring: dict[int, Job] = {}
        self._unchecked = 0
        self._batch = Batch()
        self._committed = 0.0
        self._asked = time.monotonic()

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

    def run(self, jobs: Iterable[Job]) -> Iterator[ZipOutcome]:
        """Process the jobs; yields each submission's outcome once it is recorded.

        A submission that lost all its sources before any attempt has no outcome: it keeps waiting. Raises
        SessionLostError and TrackerUnreachableError; after these, as after a crash, the next session continues.
        """
        for job in jobs:
            self._unfinished[job.za_id] = job
            if job.downloaded:
                self._keep(job)
            else:
                self._plan_or_leave(job)
        while self._unfinished or self._batch:
            self._session.check()
            for job in self._attempts.take_stranded():
                self._plan_or_leave(job)
            # Not many more downloads begin than arrived archives are checked.
            self._batch.downloads.extend(self._attempts.take(lambda: self._unchecked < _MAX_UNCHECKED))
            if self._batch and (not self._unfinished or self._until_commit() <= 0):
                yield from self._commit()
            else:
                self._handle_events()

    def _until_commit(self) -> float:
        return self._committed + _COMMIT_SECONDS - time.monotonic()

    def _handle_events(self) -> None:
        """Wait for an event, until the next due action at most; handle it and all others that have arrived."""
        wait = self._until_commit() if self._batch else _IDLE_SECONDS
        delay = self._attempts.seconds_left()
        if delay is not None:
            wait = min(wait, delay)
        try:
            event = self._events.get(timeout=max(wait, 0.001))
        except queue.Empty:
            return
        # Waking up for each event would slow its senders down.
        time.sleep(_GATHER_SECONDS)
        self._handle(event)
        for _ in range(self._events.qsize()):
            self._handle(self._events.get_nowait())

    def _handle(self, event: CoordinatorEvent) -> None:
        match event:
            case TransferStarted():
                self._started(event)
            case TransferProgressed():
                self._batch.change(ZipDownload, event.transfer.download_id, downloaded_size_bytes=event.received)
            case ChecksumPublished():
                hosting = event.transfer.hosting
                self._transferring[event.transfer.download_id].note_published(hosting, event.md5)
                self._batch.published.append((hosting, event.md5))
            case TransferCompleted():
                self._arrived(event)
            case TransferFailed():
                self._failed(event)
            case TransferNotBegun():
                self._not_begun(event)
            case partial():
                event()

    def _plan_or_leave(self, job: Job) -> None:
        """Queue the job for its next attempt; if there is none, the result of the last one stands."""
        if self._attempts.plan(job):
            return
        if job.download_id is not None and job.last_failure is not None:
            self._batch.propose(job.download_id, job.last_failure)
            self._end_without(job)
        else:
            self._leave(job)

    def _end_without(self, job: Job) -> None:
        """No attempt follows one without an archive: use staging's copy, or the result of an earlier attempt."""
        if job.staged is not None and not job.new_bad_copies:
            self._batch.staged.append(job)
            return
        self._add_reason_of_all_copies(job)
        self._batch.concluded.append(job.za_id)
        self._finish(job)

    def _started(self, event: TransferStarted) -> None:
        number = event.transfer.download_id
        job = self._transferring[number]
        job.attempts += 1
        job.began = time.monotonic()
        now = utc_now()
        self._batch.change(ZipDownload, number, request=now, received=now)
        self._batch.propose(number, DOWNLOADING, promote=False)

    def _arrived(self, event: TransferCompleted) -> None:
        number, received = event.transfer.download_id, event.received
        job = self._transferring.pop(number)
        self._attempts.sources[event.transfer.hosting.source_id].note_arrival(received)
        job.downloaded = True
        job.size_bytes, job.md5 = received.size_bytes, received.md5
        job.transfer_seconds = received.seconds if received.is_sent else None
        job.resumed = received.resumed and received.md5 is None
        self._batch.note_archive(job)
        self._batch.change(ZipDownload, number, downloaded_size_bytes=received.size_bytes if received.is_sent else 0)
        job.fetched = AttemptOutcome.FINISHED if received.is_sent else AttemptOutcome.NOT_MODIFIED
        self._batch.end(number, job.fetched, received)
        self._batch.propose(number, EXTRACTING)
        self._keep(job)

    def _failed(self, event: TransferFailed) -> None:
        number, hosting, error = event.transfer.download_id, event.transfer.hosting, event.error
        job = self._transferring.pop(number)
        self._attempts.sources[hosting.source_id].note_failure(event)
        self._log_reason(job, error)
        job.last_failure = self._failure_of(job, error)
        if job.last_failure not in _NOT_OF_SOURCE:
            job.failed_hostings.add(hosting.id)
        # An interrupted attempt may be continued only if the file is still as listed.
        is_other = isinstance(error, FileChangedError | SizeMismatchError | ChecksumMismatchError)
        job.fetched = AttemptOutcome.ABORTED if event.begun and not is_other else AttemptOutcome.FAILED
        self._batch.end(number, job.fetched)
        has_room = not isinstance(error, DiskFullError)
        if not has_room:
            # Larger archives have no room either: they are left to the next session.
            for large in self._attempts.take_large(hosting.size_bytes or 0):
                large.staged = None
                self._leave(large)
            # An earlier state stays: there is no room to extract the archive again either.
            job.staged = None
        is_planned = has_room and self._attempts.plan(job)
        has_others = bool(job.staged or job.new_bad_copies)
        following = after_failure(error, job.last_failure, is_planned=is_planned, has_others=has_others)
        if following is AfterFailure.SET_ASIDE and job.last_failure == WRONG_CHECKSUM:
            self._set_aside(job)
            return
        self._batch.propose(number, job.last_failure, promote=following is AfterFailure.ENDS)
        match following:
            case AfterFailure.SET_ASIDE:
                self._set_aside(job)
            case AfterFailure.STAYS if job.new_bad_copies:
                # An untried copy may be good: the bad ones decide nothing yet.
                self._finish(job)
            case AfterFailure.STAYS | AfterFailure.ENDS:
                self._end_without(job)

    def _not_begun(self, event: TransferNotBegun) -> None:
        """The source was paused, or its window closed: another delivers the archive, or a later session."""
        number = event.transfer.download_id
        job = self._transferring.pop(number)
        self._attempts.sources[event.transfer.hosting.source_id].note_not_begun()
        self._batch.end(number, AttemptOutcome.CANCELLED)
        self._batch.propose(number, NOT_FETCHED, promote=False)
        job.forget_attempt()
        self._plan_or_leave(job)

    def _set_aside(self, job: Job) -> None:
        """Let the source show whether the job failed, or its archive is still being uploaded."""
        del self._unfinished[job.za_id]
        if job.downloaded:
            self._unchecked -= 1
        # Its reasons are recorded at its end: if this session dies before, they must not be recorded twice.
        problems = [problem for problem in self._batch.problems if problem[0] == job.download_id]
        self._batch.problems[:] = [problem for problem in self._batch.problems if problem[0] != job.download_id]
        self._reasons_kept[job.za_id] = problems
        self.changed.append(job)

    def _failure_of(self, job: Job, error: Exception) -> State:
        """The state of a failed attempt; what it means for the copy on the source is recorded."""
        hosting = job.hosting
        if hosting is None:
            return NOT_DOWNLOADED
        if isinstance(error, FileMissingError | FileNotReadableError | BadChecksumFileError):
            job.lost_hostings.add(hosting.id)
        if isinstance(error, BadChecksumFileError):
            return WRONG_CHECKSUM
        if not isinstance(error, ChecksumMismatchError):
            return NOT_DOWNLOADED
        if error.received is None:
            job.lost_hostings.add(hosting.id)
            return NOT_FETCHED
        if error.is_resumed:
            job.try_again_first()
            return NOT_DOWNLOADED
        self._note_bad(job, error.received, CopyFault.CHECKSUM)
        return WRONG_CHECKSUM

    def _note_bad(self, job: Job, md5: str, fault: CopyFault) -> None:
        source = self._attempts.sources.get(job.source_id or 0)
        certain = source is not None and source.address.traits.detects_changed_bytes
        self._batch.bad_copies.extend(job.note_bad(md5, fault, certain=certain))

    def fail(self, jobs: Iterable[Job]) -> Iterator[ZipOutcome]:
        """End the jobs of `changed` with the failure of their last attempt; yields their outcomes."""
        for job in jobs:
            self._unfinished[job.za_id] = job
            self._batch.problems.extend(self._reasons_kept.pop(job.za_id, ()))
            self._batch.propose(job.download_id or 0, job.last_failure or NOT_DOWNLOADED)
            if job.downloaded:
                self._unchecked += 1
                self._add_reason_of_all_copies(job)
                self._finish(job)
            else:
                self._end_without(job)
        yield from self.run(())

    def _keep(self, job: Job) -> None:
        """Put an archive into the store before it is checked: a bad one is removed from staging then."""
        self._unchecked += 1
        if job.may_be_damaged:
            # It may not be what arrived.
            self._extract(job)
        else:
            self._go_on_after(self._pools.keep(job, self._staging.archive(job.key)), self._kept, job)

    def _go_on_after(self, step: Future[Any], go_on: Callable[[Job, Future[Any]], None], job: Job) -> None:
        def tell(done: Future[Any]) -> None:
            if not done.cancelled():
                self._events.put(partial(go_on, job, done))

        step.add_done_callback(tell)

    def _kept(self, job: Job, done: Future[StoredCopies]) -> None:
        try:
            self._batch.kept.append((job.download_id, done.result()))
        except Exception as error:
            with job.as_subject():
                session_log.warning("%s is not in the archive store yet: %s", job.key, error)
        self._extract(job)

    def _extract(self, job: Job) -> None:
        ready = None if self._from_workers is None else self._from_workers.ready(job.key)
        archive, contents = self._staging.archive(job.key), self._staging.contents(job.key)
        self._go_on_after(self._pools.check(job, archive, contents, ready), self._extracted, job)

    def _extracted(self, job: Job, done: Future[CheckedArchive | UnopenedArchive]) -> None:
        try:
            found = done.result()
        except Exception as error:
            self._not_checked(job, error)
            return
        if isinstance(found, UnopenedArchive):
            self._not_checked(job, found.error, found.md5)
        else:
            self._checked(job, found)

    def _checked(self, job: Job, found: CheckedArchive) -> None:
        self._note_md5(job, found.md5)
        logged = len(job.reasons)
        self._batch.checked.extend(job.take_documents(found))
        if not job.known_documents and job.download_id is not None:
            self._batch.problems.extend((job.download_id, reason) for reason in job.reasons[logged:])
        self._batch.extracted.append(job)
        self._batch.propose(job.download_id or 0, EXTRACTED)
        self._finish(job)

    def _not_checked(self, job: Job, error: Exception, md5: str | None = None) -> None:
        """Handle an archive that cannot be checked; `md5` is its checksum if that is the problem, else None."""
        if isinstance(error, CorruptArchiveError) and job.may_be_damaged:
            self._give_back(job, error)
            return
        number = job.download_id or 0
        self._log_reason(job, error)
        if isinstance(error, CorruptArchiveError) and job.resumed:
            self._fetch_again(job)
            return
        if md5 is not None:
            self._note_md5(job, md5)
        if isinstance(error, CorruptArchiveError) and md5 is not None:
            self._note_bad(job, md5, CopyFault.DAMAGED)
            if self._attempts.plan(job):
                self._batch.propose(number, NOT_EXTRACTED, promote=False)
                self._drop(job, NOT_EXTRACTED)
                return
            if job.attempts:
                job.last_failure = NOT_EXTRACTED
                self._set_aside(job)
                return
            self._add_reason_of_all_copies(job)
        if isinstance(error, ArchiveError):
            self._batch.propose(number, NOT_EXTRACTED)
        else:
            self.not_checked += 1
        self._finish(job)

    def _note_md5(self, job: Job, md5: str) -> None:
        if job.md5 != md5:
            job.md5 = md5
            self._batch.note_archive(job)

    def _give_back(self, job: Job, error: CorruptArchiveError) -> None:
        """A damaged archive from staging that may have been intact on arrival: a new job fetches it again."""
        with job.as_subject():
            session_log.warning(
                "%s was left in staging by a session that died, and is fetched again: %s", job.key, error
            )
        del self._unfinished[job.za_id]
        self._unchecked -= 1
        self._staging.archive(job.key).unlink(missing_ok=True)
        self.damaged.append(job.za_id)

    def _fetch_again(self, job: Job) -> None:
        """An archive joined from two attempts is bad: fetch it in one piece before blaming the centre."""
        self._batch.propose(job.download_id or 0, PIECED_TOGETHER, promote=False)
        self._drop(job, NOT_DOWNLOADED)
        job.try_again_first()
        self._plan_or_leave(job)

    def _drop(self, job: Job, failure: State) -> None:
        """Discard a bad archive; another attempt follows."""
        self._unchecked -= 1
        job.last_failure = failure
        job.downloaded, job.resumed = False, False
        self._staging.archive(job.key).unlink(missing_ok=True)

    def _add_reason_of_all_copies(self, job: Job) -> None:
        """If several copies were bad, name them in one further reason."""
        if len(job.new_bad_copies) < 2 or job.download_id is None:
            return
        copies = [
            message(_BAD_COPIES[found.fault], source=str(found.hosting.source_id), md5=found.md5)
            for found in job.new_bad_copies.values()
        ]
        template = mark(
            "{archive} is bad at {count} file sources: {copies}. Replace it with a good archive, under the same name."
        )
        reason = message(template, archive=str(job.key), count=len(job.new_bad_copies), copies=copies)
        problem = Problem(job.reasons[-1].kind, reason, code=job.reasons[-1].code)
        job.reasons.append(problem)
        self._batch.problems.append((job.download_id, problem))

    def _log_reason(self, job: Job, error: Exception) -> None:
        if not isinstance(error, DccError):
            with job.as_subject():
                log.error("%s met a fault of the platform", job.key, exc_info=error)
            fault = platform_fault(str(job.key), error, "its next session takes the archive up again")
            if not self.faults:
                # The one that is raised in the end: others would keep what their frames hold.
                fault.__cause__ = error
            error = fault
        if isinstance(error, InternalFaultError):
            self.faults.append(error)
        self.lacked_room = self.lacked_room or isinstance(error, DiskFullError)
        problem = Problem.of(error)
        job.reasons.append(problem)
        if job.download_id is not None:
            self._batch.problems.append((job.download_id, problem))

    def _finish(self, job: Job) -> None:
        """End the job in this session; its outcome is yielded with the next commit."""
        del self._unfinished[job.za_id]
        if job.downloaded:
            self._unchecked -= 1
        elif job.failed_hostings or job.last_failure not in _NOT_OF_SOURCE:
            # Else the centre corrects the copies or their checksums: nothing kept the session from fetching one.
            self.not_downloaded += 1
        self._batch.finished.append(job)

    def _leave(self, job: Job) -> None:
        if job.staged is not None:
            self._batch.staged.append(job)
            return
        del self._unfinished[job.za_id]
        if self._attempts.are_paused(job.hostings):
            self.left_to_pauses += 1
        else:
            self.not_downloaded += 1
        self._batch.concluded.append(job.za_id)

    def _commit(self) -> Iterator[ZipOutcome]:
        finished, states = self._write_batch()
        while finished:
            # Yielded jobs are released at once: there may be thousands more.
            job = finished.popleft()
            source = self._attempts.sources.get(job.source_id or 0) if job.downloaded else None
            outcome = job.outcome(states[job.za_id], None if source is None else source.address)
            _log_outcome(job, outcome)
            yield outcome

    def _write_batch(self) -> tuple[deque[Job], dict[int, State]]:
        """Write all results, and begin the requested attempts; returns the ended jobs, with their states."""
        batch, self._batch = self._batch, Batch()
        asks = time.monotonic() - self._asked > _ASKING_SECONDS

        def write(connection: Connection) -> BatchResult:
            if asks:
                self._attempts.put_first(set(urgent_keys(connection)))
                self._attempts.pause(paused_sources(connection))
                self._asked = time.monotonic()
            return batch.write(connection, self._session.id)

        written = self._session.write(write)
        self._committed = time.monotonic()
        for job, numbers in zip(batch.extracted, written.document_ids, strict=True):
            for document, number in zip(job.documents, numbers, strict=True):
                document.row_id = number
        for (job, hosting), number in zip(batch.downloads, written.download_ids, strict=True):
            job.begin_attempt(number, hosting)
            self._transferring[number] = job
            transfer = job.transfer(number, hosting, written.earlier.get(hosting.id))
            self._attempts.sources[hosting.source_id].downloads.put(transfer)
        for job, staged in zip(batch.staged, written.staged, strict=True):
            # No source delivered the archive.
            job.take_from_staging(staged)
            job.fetched = AttemptOutcome.NOT_MODIFIED
            self._keep(job)
        return deque(batch.finished), written.states


_BAD_COPIES = {
    CopyFault.DAMAGED: mark("file source {source} (MD5 {md5}, damaged)"),
    CopyFault.CHECKSUM: mark("file source {source} (MD5 {md5}, not the MD5 published)"),
}


def _log_outcome(job: Job, outcome: ZipOutcome) -> None:
    if not session_log.isEnabledFor(logging.INFO):
        return
    reason = outcome.main_reason
    with job.as_subject(), logging_about(phase=outcome.phase.short_name):
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
