"""Downloads, extracts and validates submissions, all overlapping.

After a failed attempt comes the next source in order of preference, then further rounds after a delay; only the last
attempt decides the submission's state. An archive that is damaged, or lacks the MD5 that its centre published, is tried
at its other sources, and at the first one only after it has changed there. The centre is to blame if its own source
and another one delivered the same, or no source has another copy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from sqlalchemy import Connection

from dcc.messages import count_of, mark
from dcc.outcomes import HELD, Problem, SubmissionKey, SubmissionOutcome
from dcc.phases import Phase
from dcc.runtime.clock import utc_now
from dcc.runtime.processes import give_back_freed_memory
from dcc.session.archives.active_submissions import ActiveSubmission
from dcc.session.archives.coordination import Coordinator
from dcc.session.batches.exchange import Workers
from dcc.session.batches.worker_results import SessionWorkerResults, prepared_by_workers, remove_leftovers_of_workers
from dcc.session.faults import Faults
from dcc.session.prepare.archive_checks import Setup
from dcc.session.sessions import Session
from dcc.session.source_crawls import record_second_listing, relist
from dcc.session.source_listings import RelistedSource, list_again
from dcc.sources.base import ListedFile, SourceAddress
from dcc.store.staging import Staging, remove_leftovers
from dcc.tracker import progress
from dcc.tracker.hostings.download_plan import (
    PlannedSubmission,
    StagedSubmission,
    cancel_orphans,
    load_interrupted,
    load_plans,
    load_waiting,
    sources_to_use,
)
from dcc.tracker.hostings.foreign_archives import UnfetchedArchive, note_unfetched
from dcc.tracker.hostings.owner_notices import add_notices
from dcc.tracker.hostings.retries import (
    not_hosted_error,
    reopen_failed_downloads,
    reopen_named,
    reopen_with_registered_names,
    staged_copies_of,
    with_registered_names,
)
from dcc.tracker.hostings.source_statistics import record_transfer_statistics
from dcc.tracker.hostings.staged_copies import StagedCopy, begin_from_staging, staged_copies
from dcc.tracker.hostings.urgent_requests import take_urgent
from dcc.tracker.register.centres import centre_ids
from dcc.tracker.register.source_addresses import load_addresses
from dcc.tracker.register.source_schedules import load_crawl_dues
from dcc.tracker.reopened_by import CRAWL, session_name
from dcc.tracker.session_statuses import TaskStatus
from dcc.tracker.states import WAITING

MANY: Final = 50
"""Number of archives from which on processes are worth their start of a tenth of a second each."""
_MUCH: Final = 500
"""Number of archives from which on freeing their memory is worth a tenth of a second."""


@dataclass(frozen=True, slots=True)
class ArchiveWork:
    """A session's archives: those to continue from staging, and those to download.

    By submission, `staged` are copies for the case that no source delivers, and `further` the hostings of archives in
    staging, in case these are damaged. `unfetched` are archives that are not downloaded and not yet reported.
    """

    interrupted: tuple[StagedSubmission, ...]
    planned: tuple[PlannedSubmission, ...]
    staged: dict[int, StagedSubmission] = field(default_factory=dict)
    further: dict[int, PlannedSubmission] = field(default_factory=dict)
    unfetched: tuple[UnfetchedArchive, ...] = ()

    def __len__(self) -> int:
        return len(self.interrupted) + len(self.planned)

    def submissions(self, max_retries: int) -> Iterator[ActiveSubmission]:
        """The submission of each archive, those in staging first."""
        for interrupted in self.interrupted:
            yield ActiveSubmission.from_staging(interrupted, self.further.get(interrupted.za_id), max_retries)
        for plan in self.planned:
            yield ActiveSubmission.planned(plan, max_retries, self.staged.get(plan.za_id))

    def source_ids(self) -> list[int]:
        """The sources of the archives."""
        plans = (*self.planned, *self.further.values())
        ids = {hosting.source_id for plan in plans for hosting in (*plan.hostings, *plan.others)}
        return sorted(ids | {interrupted.source_id for interrupted in self.interrupted})


def process_zip_actions(
    session: Session, keys: Sequence[SubmissionKey] | None = None, workers: Workers | None = None
) -> Iterator[SubmissionOutcome]:
    """Process all waiting submissions, including those of dead sessions; yields each outcome.

    With `keys`, only those are opened again, in the name of whoever asked for the session, and processed. Otherwise
    `workers`, if there are any, fetch and prepare archives first, and the session does the rest. Problems of archives,
    documents and sources are outcomes, not exceptions. Raises as `reopen_named` for unusable `keys`,
    ConfigurationError if staging cannot be written to, TrackerUnreachableError, SessionLostError, and, after everything
    else is done, InternalFaultError.
    """
    staging = Staging(session.settings.staging_directory)
    staging.make()
    if keys is None:
        remove_leftovers(staging.root, lambda name: session.covers(session.settings.naming.centre_of_archive(name)))
        if workers is not None:
            remove_leftovers_of_workers(session)
    work = _take_up(session, staging, keys)
    yield from map(_unfetched_outcome, work.unfetched)
    if not work:
        return
    held_much = len(work) >= _MUCH
    with prepared_by_workers(workers if keys is None else None, session, work.planned) as results:
        faults = yield from _process(session, work, named=keys is not None, from_workers=results)
    del work
    if held_much:
        give_back_freed_memory()
    faults.raise_first()


def _process(
    session: Session, work: ArchiveWork, *, named: bool, from_workers: SessionWorkerResults | None
) -> Generator[SubmissionOutcome, None, Faults]:
    """Process the archives; returns the faults of the platform."""
    settings = session.settings
    addresses, centres = session.read(lambda connection: _sources_and_centres(connection, session, work, named=named))
    setup = Setup.from_settings(settings, centres)
    download = session.start_task(Phase.DOWNLOAD, f"Download of {count_of(len(work.planned), 'submission')}")
    check = session.start_task(Phase.XSD, f"Extraction and validation of up to {count_of(len(work), 'submission')}")
    many = len(work) >= MANY
    with Coordinator(session, setup, addresses, are_many=many, from_workers=from_workers) as coordinator:
        yield from coordinator.run(work.submissions(settings.max_retries))
        if coordinator.damaged:
            replanned = _plan_again(session, coordinator.damaged)
            yield from coordinator.run(ActiveSubmission.planned(plan, settings.max_retries) for plan in replanned)
        if coordinator.awaiting_listing:
            coordinator.end_downloads()
            uploading = _still_uploading(session, addresses, coordinator.awaiting_listing)
            left = [one for one in coordinator.awaiting_listing if one.key in uploading]
            if left:
                _leave_uploading(session, left, named=named)
            yield from coordinator.fail(one for one in coordinator.awaiting_listing if one.key not in uploading)
    session.write(
        lambda connection: record_transfer_statistics(connection, coordinator.transfer_statistics), alone=True
    )
    failures = coordinator.failures
    failures.faults.quarantine(session)
    if paused := failures.left_to_pauses:
        what = count_of(paused, "submission was", "submissions were")
        them = "it" if paused == 1 else "them"
        session.notice(f"{what} not fetched, because people paused the sources. A later session fetches {them}.")
    session.finish_task(download, TaskStatus.of(failed=failures.not_downloaded > 0))
    checked = TaskStatus.of(failed=failures.not_checked > 0)
    session.finish_task(check, TaskStatus.LACKED_ROOM if failures.lacked_room else checked)
    return failures.faults


class _Copies(NamedTuple):
    """The copies of submissions to be processed again that staging has in full, by submission.

    `same`: the submissions whose copy is what a download would bring.
    """

    archives: dict[int, StagedSubmission]
    same: set[int]


def _take_up(session: Session, staging: Staging, keys: Sequence[SubmissionKey] | None) -> ArchiveWork:
    """Find the waiting archives, or those that a person names by `keys`; repairs what a dead session left."""
    if keys is not None:
        relist(session, keys)
        named = _whole_copies(staging, session.read(lambda connection: staged_copies_of(connection, keys)))
        return session.write(lambda connection: _take_up_named(connection, session, keys, named))

    def look(connection: Connection) -> tuple[list[StagedSubmission], list[StagedCopy] | None]:
        """The interrupted submissions; the possible copies of those with registered names, None without any."""
        za_ids = [] if session.request.urgent else with_registered_names(connection, None, session.centres)
        return load_interrupted(connection), staged_copies(connection, za_ids) if za_ids else None

    interrupted, registered = session.read(look)
    left = [one for one in interrupted if session.covers(one.centre)]
    whole = [one for one in left if _is_whole(staging, one)]
    broken = sorted({one.za_id for one in left}.difference(one.za_id for one in whole))
    copies = None if registered is None else _whole_copies(staging, registered)
    return session.write(lambda connection: _take_up_waiting(connection, session, whole, broken, copies))


def _whole_copies(staging: Staging, found: Sequence[StagedCopy]) -> _Copies:
    copies = {one.archive.za_id: one for one in found if _is_whole(staging, one.archive)}
    # What lies beside it is fetched anew, which no listing tells of.
    same = {za_id for za_id, one in copies.items() if one.unchanged and not staging.has_manifest(one.archive.key)}
    return _Copies({za_id: one.archive for za_id, one in copies.items()}, same)


def _is_whole(staging: Staging, archive: StagedSubmission) -> bool:
    return staging.holds(archive.key, archive.size_bytes, archive.md5)


def _take_up_waiting(
    connection: Connection,
    session: Session,
    whole: Sequence[StagedSubmission],
    broken: Sequence[int],
    copies: _Copies | None,
) -> ArchiveWork:
    """All waiting archives; a dead session left the `whole` ones in staging, and the `broken` ones not in full.

    With `copies`, there are submissions with registered names.
    """
    reason = mark("The archive is not in staging any more.")
    progress.reopen(connection, broken, requested_by=session_name(session.id), reason=reason)
    to_fall_back = cancel_orphans(connection, session.centres)
    dues = load_crawl_dues(
        connection, session.settings.source_failure_limit, named=frozenset(session.request.source_ids or ())
    )
    sources = sources_to_use(connection, session.id, session.centres, dues)
    if copies is not None:
        reopen_with_registered_names(connection, sources, session.centres)
    reopen_failed_downloads(connection, sources, session.centres)
    waiting = load_waiting(connection, sources, centres=session.centres)
    add_notices(connection, waiting.delegated)
    # A dead session was processing them, and they cannot be fetched now.
    stranded = to_fall_back.difference(plan.za_id for plan in waiting.planned)
    progress.fall_back_to_last_bytes(connection, stranded)
    further = {plan.za_id: plan for plan in load_plans(connection, sources, [submission.za_id for submission in whole])}
    unfetched = note_unfetched(connection, waiting.unfetched)
    first = set(take_urgent(connection))
    planned = sorted(waiting.planned, key=lambda plan: plan.key not in first)
    if urgent := session.request.urgent:
        whole = [submission for submission in whole if submission.key in urgent]
        planned = [plan for plan in planned if plan.key in urgent]
    work = _without_needless_downloads(connection, session, planned, copies or _Copies({}, set()))
    return replace(
        work,
        interrupted=(*whole, *work.interrupted),
        further=work.further | further,
        unfetched=tuple(unfetched),
    )


def _take_up_named(
    connection: Connection, session: Session, keys: Sequence[SubmissionKey], copies: _Copies
) -> ArchiveWork:
    cancel_orphans(connection, session.centres)
    sources = sources_to_use(connection, session.id, session.centres)
    za_ids = reopen_named(connection, keys, session.request.requested_by)
    plans = load_waiting(connection, sources, za_ids, by_name=True).planned
    for missing in sorted(set(keys) - {plan.key for plan in plans}):
        raise not_hosted_error(connection, missing)
    return _without_needless_downloads(connection, session, plans, copies)


def _without_needless_downloads(
    connection: Connection, session: Session, plans: Sequence[PlannedSubmission], copies: _Copies
) -> ArchiveWork:
    """The planned archives; one that staging has already is not fetched again."""
    here = {plan.za_id: plan for plan in plans if plan.za_id in copies.same}
    taken = begin_from_staging(connection, session.id, [copies.archives[za_id] for za_id in here])
    planned = tuple(plan for plan in plans if plan.za_id not in here)
    return ArchiveWork(tuple(taken), planned, staged=copies.archives, further=here)


def _unfetched_outcome(archive: UnfetchedArchive) -> SubmissionOutcome:
    return SubmissionOutcome(
        key=archive.key,
        centre=archive.owner,
        phase=WAITING.phase,
        status=WAITING.status,
        finished=utc_now(),
        reasons=(Problem(HELD, archive.translatable),),
    )


def _plan_again(session: Session, za_ids: Sequence[int]) -> list[PlannedSubmission]:
    """Plan the download of archives that are damaged in staging but were intact on arrival."""

    def plan(connection: Connection) -> list[PlannedSubmission]:
        reason = mark("The archive in staging was damaged, perhaps not when it arrived.")
        progress.reopen(connection, za_ids, requested_by=session_name(session.id), reason=reason)
        return load_waiting(connection, sources_to_use(connection, session.id, session.centres), za_ids).planned

    return session.write(plan)


def _still_uploading(
    session: Session, addresses: Mapping[int, SourceAddress], submissions: Sequence[ActiveSubmission]
) -> set[SubmissionKey]:
    """The archives that differ from their listing, or are bad, and that have changed on their sources since.

    A later session lists them again; the others failed.
    """
    listed: dict[int, dict[SubmissionKey, ListedFile]] = defaultdict(dict)
    for submission in submissions:
        for hosting in submission.tried_hostings():
            listed[hosting.source_id][submission.key] = ListedFile(
                submission.key.file_name,
                hosting.size_bytes,
                hosting.modified,
                hosting.has_md5,
                hosting.folder,
                hosting.manifest,
            )
    # A copy in staging may have come from a source that is used no more.
    sources = [
        RelistedSource(addresses[source], archives) for source, archives in listed.items() if source in addresses
    ]
    uploading: set[SubmissionKey] = set()
    for second in list_again(sources, session):
        if second.error is None:
            found = record_second_listing(session, second, listed[second.address.id])
            session.notice(*(str(finding.translatable) for finding in found))
            uploading |= {finding.key for finding in found if isinstance(finding.key, SubmissionKey)}
    return uploading


def _leave_uploading(session: Session, submissions: Sequence[ActiveSubmission], *, named: bool) -> None:
    """Let archives wait that are still being uploaded; their transfers do not count as attempts."""
    staging = Staging(session.settings.staging_directory)
    for submission in submissions:
        if submission.downloaded:
            staging.archive(submission.key).unlink(missing_ok=True)

    def write(connection: Connection) -> None:
        halves = [submission.za_id for submission in submissions if submission.choice.new_bad_copies]
        progress.reopen(connection, halves, requested_by=CRAWL, reason="It is being uploaded to its file source.")
        if named:
            # A person opened them again: until they can be fetched, they keep their state.
            progress.fall_back_to_last_bytes(connection, [submission.za_id for submission in submissions])

    session.write(write)


def _sources_and_centres(
    connection: Connection, session: Session, work: ArchiveWork, *, named: bool
) -> tuple[dict[int, SourceAddress], frozenset[str]]:
    """The archives' sources, by id, without windows where a person `named` them; and the codes of all centres."""
    without_windows = frozenset(session.request.source_ids or ())
    addresses = {
        address.id: replace(address, windows=None) if named or address.id in without_windows else address
        for address in load_addresses(connection, ids=work.source_ids(), only_crawlable=False)
    }
    return addresses, frozenset(centre_ids(connection))
