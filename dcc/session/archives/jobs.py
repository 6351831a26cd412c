"""Submissions on their way through a session: their attempts, in which order and where; their archives and documents.

Only the coordinating thread uses jobs. Results of other threads reach it as messages. Threads store archives, open and
validate them, a few at once; processes open and validate them if there are many. Threads share the interpreter with
fetching and recording. Processes take a tenth of a second each to begin; there are no more of them than processors.
"""

from __future__ import annotations

import heapq
import itertools
import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dcc.archives.extraction import ignored_problem
from dcc.converters.conversion import all_converters
from dcc.errors import ChecksumMismatchError, SourceError
from dcc.naming import DocumentName
from dcc.outcomes import AttemptOutcome, DocumentOutcome, Problem, ZipKey, ZipOutcome, source_partition
from dcc.phases import Phase, Status
from dcc.runtime.clock import utc_now
from dcc.runtime.log_context import logging_about, with_log_context
from dcc.runtime.worker_processes import WorkerProcesses
from dcc.session.fetching.archive_transfer import ReceivedArchive, Transfer
from dcc.session.fetching.downloads import MAX_QUEUED, SourceDownloads, TransferFailed
from dcc.session.prepare import archive_checks
from dcc.session.prepare.archive_checks import ArchiveChecker, CheckedArchive, EarlierResults, Setup, UnopenedArchive
from dcc.settings import Settings
from dcc.sources.base import SourceAddress
from dcc.sources.hosting import CopyFault, EarlierCopy, Hosting, KnownBadCopy
from dcc.store.archive_store import ArchiveStore
from dcc.store.copies import StoredCopies
from dcc.tracker.archive_names import stored_name
from dcc.tracker.hostings.copies import NewBadCopy, is_fault_of_centre
from dcc.tracker.hostings.download_plan import KnownDocument, PlannedZip, StagedZip
from dcc.tracker.hostings.source_statistics import TransferStatistics
from dcc.tracker.states import VALID, WRONG_CHECKSUM, State

REFUSED_BY_NAME = State(Phase.XML_NAME, Status.FAILED)
INVALID = State(Phase.XSD, Status.FAILED)


@dataclass
class ArchiveDocument:
    """A document of the archive. `name` is None if it was refused.

    `place` is its path in the archive, None at the top level; `archives` are the inner archives that contain it.
    """

    file_name: str
    size_bytes: int
    md5: str | None
    name: DocumentName | None
    state: State
    problems: tuple[Problem, ...] = ()
    row_id: int | None = None
    place: str | None = None
    archives: tuple[tuple[str, str], ...] = ()


@dataclass
class Job:
    """A submission that is being processed, with the session's knowledge of it.

    `may_be_damaged`: a killed session left its archive in staging before its MD5 was known; a crash may have damaged
    it. `bad_md5s` are the checksums of bad copies, by hosting. `published` is the MD5 that the archive's own centre
    published. `staged` is the copy in staging to use if no source can be reached.
    """

    za_id: int
    zip_id: int
    key: ZipKey
    centre: str | None
    untried: Iterator[tuple[int, Hosting]] = field(default_factory=lambda: iter(()))
    download_id: int | None = None
    source_id: int | None = None
    hosting: Hosting | None = None
    last_failure: State | None = None
    attempts: int = 0
    began: float = field(default_factory=time.monotonic)
    transfer_seconds: float | None = None
    fetched: AttemptOutcome | None = None
    size_bytes: int | None = None
    md5: str | None = None
    resumed: bool = False
    may_be_damaged: bool = False
    downloaded: bool = False
    extracted: bool = False
    documents: list[ArchiveDocument] = field(default_factory=list)
    known_documents: dict[str, KnownDocument] = field(default_factory=dict)
    reasons: list[Problem] = field(default_factory=list)
    failed_hostings: set[int] = field(default_factory=set)
    lost_hostings: set[int] = field(default_factory=set)
    hostings: tuple[Hosting, ...] = ()
    others: tuple[Hosting, ...] = ()
    max_retries: int = 0
    published: str | None = None
    bad_md5s: dict[int, str] = field(default_factory=dict)
    new_bad_copies: dict[int, NewBadCopy] = field(default_factory=dict)
    has_published_md5: bool = False
    staged: StagedZip | None = None
    _before: tuple[int | None, int | None, Hosting | None] = (None, None, None)

    @classmethod
    def planned(cls, plan: PlannedZip, max_retries: int, staged: StagedZip | None = None) -> Job:
        """A job that begins with a download: each hosting in order of preference, `max_retries` times over again."""
        job = cls(plan.za_id, plan.zip_id, plan.key, plan.centre, staged=staged)
        job.may_fetch(plan, max_retries)
        return job

    @classmethod
    def from_staging(cls, staged: StagedZip, plan: PlannedZip | None = None, max_retries: int = 0) -> Job:
        """A job that continues with an archive in staging; if that is damaged, with a download as planned."""
        job = cls(staged.za_id, staged.zip_id, staged.key, staged.centre, known_documents=staged.documents)
        job.take_from_staging(staged)
        job.may_be_damaged = staged.md5 is None
        if plan is not None:
            job.may_fetch(plan, max_retries)
        return job

    def take_from_staging(self, staged: StagedZip) -> None:
        """Go on with an archive in staging, of an attempt that has begun."""
        self.download_id, self.hosting, self.source_id = staged.download_id, staged.hosting, staged.source_id
        self.size_bytes, self.md5, self.staged, self.downloaded = staged.size_bytes, staged.md5, None, True

    def as_subject(self) -> AbstractContextManager[None]:
        """The job as the subject of messages."""
        return logging_about(source=self.source_id, centre=self.centre, zip_action=self.key)

    def may_fetch(self, plan: PlannedZip, max_retries: int) -> None:
        """Set the hostings to try: each in turn, `max_retries` times over again."""
        self.hostings, self.others, self.published = plan.hostings, plan.others, plan.published
        self.bad_md5s = {hosting.id: hosting.bad.md5 for hosting in plan.bad if hosting.bad is not None}
        self.max_retries = max_retries
        self.untried = self._rounds(plan.hostings)

    def _rounds(self, hostings: tuple[Hosting, ...]) -> Iterator[tuple[int, Hosting]]:
        return ((turn, hosting) for turn in range(self.max_retries + 1) for hosting in hostings)

    def transfer(self, download_id: int, hosting: Hosting, earlier: EarlierCopy | None) -> Transfer:
        """The attempt to fetch the archive from a hosting; `earlier` is the last one there."""
        is_producer = hosting.own and hosting.has_md5
        return Transfer(download_id, self.key, hosting, None if is_producer else self.published, earlier)

    def begin_attempt(self, download_id: int, hosting: Hosting) -> None:
        """Take a requested attempt as the latest."""
        self._before = self.download_id, self.source_id, self.hosting
        self.download_id, self.source_id, self.hosting = download_id, hosting.source_id, hosting

    def forget_attempt(self) -> None:
        """Take the attempt before the latest, which did not begin, as the latest."""
        self.download_id, self.source_id, self.hosting = self._before

    def note_published(self, hosting: Hosting, md5: str) -> None:
        """Record the MD5 published beside a copy; the first from the archive's own centre counts for other copies."""
        if hosting.own and not self.has_published_md5:
            self.published, self.has_published_md5 = md5, True
            for other in self.hostings:
                # Only the checksum beside it was wrong.
                if other.bad == KnownBadCopy(md5, CopyFault.CHECKSUM):
                    del self.bad_md5s[other.id]
            if is_fault_of_centre(self.bad_md5s, md5):
                self.untried = iter(())

    def note_bad(self, md5: str, fault: CopyFault, *, certain: bool) -> list[NewBadCopy]:
        """Record that the latest hosting's copy is bad; others may be tried. Returns the copies that are certainly bad.

        These are not fetched again. Unless `certain`, the transfer may have changed the bytes: then a second transfer
        with the same checksum is needed. No copy is tried any more if the centre is to blame: two sources delivered the
        same, or one of them what the centre published.
        """
        hosting = self.hosting
        if hosting is None:
            return []
        certain = certain or self.bad_md5s.get(hosting.id) == md5
        self.new_bad_copies[hosting.id] = NewBadCopy(hosting, md5, fault)
        self.bad_md5s[hosting.id] = md5
        if is_fault_of_centre(self.bad_md5s, self.published):
            self.untried = iter(())
            return list(self.new_bad_copies.values())
        further = [*self.untried, *self._rounds(self.others)]
        self.hostings, self.others = (*self.hostings, *self.others), ()
        self.untried = iter(sorted(further, key=lambda one: one[0]))
        if not certain:
            return []
        self.lost_hostings.add(hosting.id)
        return [self.new_bad_copies[hosting.id]]

    def tried_hostings(self) -> list[Hosting]:
        """The hosting of the last attempt, and those with bad copies."""
        met = [*(found.hosting for found in self.new_bad_copies.values()), *([self.hosting] if self.hosting else [])]
        return list({hosting.id: hosting for hosting in met}.values())

    def next_hosting(self) -> tuple[int, Hosting] | None:
        """The hosting to try next, and the number of earlier tries there; None if there is none left."""
        return next(((turn, hosting) for turn, hosting in self.untried if self._is_of_use(hosting)), None)

    def _is_of_use(self, hosting: Hosting) -> bool:
        is_bad = hosting.bad is not None and not hosting.deserves_recheck(self.published)
        return hosting.id not in self.lost_hostings and not is_bad

    def try_again_first(self) -> None:
        """Try the latest hosting again next."""
        if self.hosting is not None:
            self.untried = itertools.chain([(0, self.hosting)], self.untried)

    def take_documents(self, checked: CheckedArchive) -> list[ArchiveDocument]:
        """Record the archive's documents and their problems, in their order.

        What a dead session recorded of a document stands. Returns the unfinished documents that it knew.
        """
        self.extracted = True
        for found, of_document in checked.documents:
            state = INVALID if of_document else VALID
            document = ArchiveDocument(
                found.name.file_name, found.size_bytes, found.md5, found.name, state, of_document
            )
            if found.place != document.file_name:
                document.place = found.place
                document.archives = tuple((inner.path, inner.md5) for inner in found.archives)
            self.documents.append(document)
        for file_name, size_bytes, problem in checked.archive.refused:
            self.documents.append(
                ArchiveDocument(stored_name(file_name), size_bytes, None, None, REFUSED_BY_NAME, (problem,))
            )
        self.reasons.extend(ignored_problem(member, reason) for member, reason in checked.archive.ignored)
        return [document for document in self.documents if self._recall(document)]

    def _recall(self, document: ArchiveDocument) -> bool:
        """Whether a dead session recorded the document without finishing it."""
        known = self.known_documents.get(document.file_name)
        if known is None:
            return False
        document.row_id = known.id
        if known.state in {VALID, INVALID, REFUSED_BY_NAME}:
            document.state, document.problems = known.state, known.problems
            return False
        return True

    def outcome(self, state: State, source: SourceAddress | None) -> ZipOutcome:
        """The outcome of the submission, which ended in `state`; `source` delivered it."""
        return ZipOutcome(
            key=self.key,
            centre=self.centre,
            phase=state.phase,
            status=state.status,
            downloaded=self.downloaded,
            extracted=self.extracted,
            size_bytes=self.size_bytes,
            md5=self.md5,
            source=None if source is None else str(source.label),
            attempts=self.attempts,
            seconds=time.monotonic() - self.began,
            finished=utc_now(),
            documents=tuple(
                DocumentOutcome(
                    file_name=one.file_name,
                    phase=one.state.phase,
                    status=one.state.status,
                    size_bytes=one.size_bytes,
                    errors=one.problems,
                )
                for one in self.documents
            ),
            reasons=tuple(self.reasons),
            transfer_seconds=self.transfer_seconds,
            source_partition=None if source is None else source_partition(source.centre, source.id),
            kept=self._keeps(state),
            fetched=self.fetched,
        )

    def _keeps(self, state: State) -> bool:
        """Whether nothing was fetched, and `state` is that of an earlier attempt with bytes."""
        is_new = self.downloaded or self.new_bad_copies or self.last_failure == WRONG_CHECKSUM
        return not is_new and state.phase > Phase.ZIP_NAME


class SourceQueue:
    """The submissions to download from one source, in order. Only the coordinating thread uses it.

    `downloads` are the source's threads. Submissions that wait for a source that is given up are left to other sources
    or to the next session.
    """

    def __init__(self, downloads: SourceDownloads) -> None:
        self.transfer_statistics = TransferStatistics()
        self._is_given_up = False
        self._urgent: Collection[ZipKey] = ()
        self.downloads = downloads
        self._waiting: deque[tuple[Job, Hosting]] = deque()
        self._queued = 0

    @property
    def address(self) -> SourceAddress:
        """The source's address."""
        return self.downloads.address

    @property
    def given_up(self) -> bool:
        """Whether no further attempt begins: the source is given up, paused, or outside its windows."""
        return self._is_given_up or self.downloads.is_resting

    def add(self, job: Job, hosting: Hosting) -> None:
        """Queue a submission."""
        if job.key in self._urgent:
            self._waiting.appendleft((job, hosting))
        else:
            self._waiting.append((job, hosting))

    def put_first(self, keys: Collection[ZipKey]) -> None:
        """Let submissions go before all others, even those whose attempts were requested and have not begun."""
        self._urgent = keys
        self.downloads.put_first(keys)
        if any(job.key in keys for job, _ in self._waiting):
            self._waiting = deque(sorted(self._waiting, key=lambda waiting: waiting[0].key not in keys))

    def take(self, still_wanted: Callable[[], bool]) -> list[tuple[Job, Hosting]]:
        """The submissions whose attempts may begin now; calls `still_wanted` before each."""
        taken = []
        while self._waiting and still_wanted():
            if self._queued >= MAX_QUEUED and self._waiting[0][0].key not in self._urgent:
                break
            taken.append(self._waiting.popleft())
            self._queued += 1
        return taken

    def take_all(self) -> list[tuple[Job, Hosting]]:
        """All waiting submissions, for other sources."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def note_arrival(self, received: ReceivedArchive) -> None:
        """Record a successful attempt."""
        self._queued -= 1
        self.transfer_statistics.arrived += 1
        if not received.resumed and received.is_sent:
            self.transfer_statistics.bytes += received.size_bytes
            self.transfer_statistics.seconds += received.seconds

    def note_not_begun(self) -> None:
        """Record that an attempt was requested and did not begin."""
        self._queued -= 1

    def note_failure(self, message: TransferFailed) -> None:
        """Record a failed attempt, unless it was not made because the copy is known to be bad."""
        self._queued -= 1
        if isinstance(message.error, ChecksumMismatchError) and message.error.received is None:
            return
        if isinstance(message.error, SourceError) and not self._is_given_up:
            self.transfer_statistics.failures += 1
            self._is_given_up = self.downloads.given_up


class Attempts:
    """The waiting attempts of a session, each for its turn at a source or the end of its delay.

    `sources` are by id. Only the coordinating thread uses it. `retry_delay` is in seconds; each round doubles it.
    """

    def __init__(self, sources: Mapping[int, SourceQueue], retry_delay: float) -> None:
        self.sources, self._retry_delay = sources, retry_delay
        self._retries: list[tuple[float, int, Job, Hosting]] = []
        self._order = itertools.count()

    def plan(self, job: Job) -> bool:
        """Queue the job for its next attempt, at a source still in use; False if there is none."""
        while (following := job.next_hosting()) is not None:
            turn, hosting = following
            source = self.sources.get(hosting.source_id)
            if source is None or source.given_up:
                continue
            if turn == 0:
                source.add(job, hosting)
            else:
                due = time.monotonic() + self._retry_delay * 2 ** (turn - 1)
                heapq.heappush(self._retries, (due, next(self._order), job, hosting))
            return True
        return False

    def seconds_left(self) -> float | None:
        """Seconds until the next delay ends; None without one."""
        return self._retries[0][0] - time.monotonic() if self._retries else None

    def take_stranded(self) -> list[Job]:
        """The jobs that wait for a source that was given up: they must be planned again."""
        stranded = [job for source in self.sources.values() if source.given_up for job, _ in source.take_all()]
        while self._retries and self._retries[0][0] <= time.monotonic():
            _, _, job, hosting = heapq.heappop(self._retries)
            source = self.sources[hosting.source_id]
            if source.given_up:
                stranded.append(job)
            else:
                source.add(job, hosting)
        return stranded

    def take(self, still_wanted: Callable[[], bool]) -> list[tuple[Job, Hosting]]:
        """The attempts that may begin now; calls `still_wanted` before each."""
        return [taken for source in self.sources.values() for taken in source.take(still_wanted)]

    def put_first(self, keys: Collection[ZipKey]) -> None:
        """Let submissions go before all others that have not begun."""
        for source in self.sources.values():
            source.put_first(keys)

    def pause(self, paused: Collection[int]) -> None:
        """Begin no attempt at the sources with these ids, which people paused, until they are left out again."""
        for number, source in self.sources.items():
            source.downloads.is_paused = number in paused

    def are_paused(self, hostings: Iterable[Hosting]) -> bool:
        """Whether people paused every source of a submission that the session could use."""
        used = [self.sources[each.source_id] for each in hostings if each.source_id in self.sources]
        return bool(used) and all(source.downloads.is_paused for source in used)

    def take_large(self, size_bytes: int) -> list[Job]:
        """The waiting jobs that need as many bytes, or more."""
        large = []
        for source in self.sources.values():
            for job, hosting in source.take_all():
                if (hosting.size_bytes or 0) >= size_bytes:
                    large.append(job)
                else:
                    source.add(job, hosting)
        return large

    def stop(self) -> None:
        """End the sources' threads."""
        for source in self.sources.values():
            source.downloads.stop()

    def join(self, seconds: float) -> None:
        """Wait for the sources' threads, for so long at most."""
        deadline = time.monotonic() + seconds
        for source in self.sources.values():
            source.downloads.join(max(deadline - time.monotonic(), 0))


_KEPT_AT_ONCE: Final = 4


class ArchivePools:
    """Work on archives begins in the order in which it is given. `holding` is as of `ArchiveStore`."""

    def __init__(
        self, settings: Settings, setup: Setup, holding: Callable[[], Collection[str]], *, in_processes: bool
    ) -> None:
        # A package that cannot be loaded ends the session, rather than each of its archives.
        all_converters()
        self._store = ArchiveStore(settings, holding)
        self._keeping = ThreadPoolExecutor(_KEPT_AT_ONCE, thread_name_prefix="keep")
        self._processes: WorkerProcesses | None = None
        if in_processes:
            number = min(settings.workers, os.cpu_count() or 1)
            self._processes = WorkerProcesses(number, archive_checks.begin, setup)
        else:
            self._checker = ArchiveChecker(setup)
            self._checking = ThreadPoolExecutor(settings.workers, thread_name_prefix="check")

    def keep(self, job: Job, archive: Path) -> Future[StoredCopies]:
        """Put a complete archive into the store; it must stay where it is until that is done."""
        with job.as_subject():
            return self._keeping.submit(with_log_context(self._store.put), archive)

    def check(
        self, job: Job, archive: Path, target: Path, ready: EarlierResults | None
    ) -> Future[CheckedArchive | UnopenedArchive]:
        """Check an archive, and write its documents to `target`; work that is `ready` is not repeated."""
        given = archive, target, job.md5, ready
        if self._processes is not None:
            return self._processes.submit(str(job.key), archive_checks.ArchiveChecker.check, *given)
        with job.as_subject():
            return self._checking.submit(with_log_context(self._checker.check), *given)

    def stop(self) -> None:
        """Begin no more. Running threads finish theirs, within the time limits of the replicas."""
        self._keeping.shutdown(wait=False, cancel_futures=True)
        self._store.close()
        if self._processes is not None:
            self._processes.stop()
        else:
            self._checking.shutdown(wait=False, cancel_futures=True)
