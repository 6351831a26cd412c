"""Downloading, extracting and validating zip actions, all overlapping (seed 000 section 4, figures 4 and 5).

A failed attempt is followed by the next file source in order of preference, then by further rounds after a delay; it
is promoted to the zip action only when no attempt follows it in the session. An archive that arrived with the size and
checksum of its source and cannot be read is the centre's to mend: no other source is tried.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Engine, select

from dcc_resources.archives import ArchiveLimits
from dcc_resources.documents.schema_set import SchemaSet
from dcc_resources.errors import InternalFaultError
from dcc_resources.file_sources.base import SourceAddress
from dcc_resources.outcomes import ZipKey, ZipOutcome
from dcc_resources.process_memory import give_back_freed_memory
from dcc_resources.sessions import Session
from dcc_resources.settings import Settings
from dcc_resources.staging import Staging, remove_leftovers
from dcc_resources.tracker import progress
from dcc_resources.tracker.database import run_reading
from dcc_resources.tracker.download_plan import (
    InterruptedZip,
    PlannedZip,
    cancel_orphans,
    load_interrupted,
    load_waiting,
    reopen_failed_downloads,
    sources_to_use,
)
from dcc_resources.tracker.models import Centre
from dcc_resources.tracker.reference import Phase
from dcc_resources.tracker.retries import not_hosted, reopen_named
from dcc_resources.tracker.source_statistics import record_conduct
from dcc_resources.tracker.sources import load_addresses
from dcc_resources.zip_coordination import Coordinator
from dcc_resources.zip_jobs import Checker, Job

log = logging.getLogger(__name__)

MANY: Final = 50
"""Archives from which on processes of their own, which take a tenth of a second each to begin, are of use."""
_MUCH: Final = 500
"""Archives from which on what was held for them is worth a tenth of a second to be let go of at once."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a session has to process: archives to take up from staging, and archives to download."""

    interrupted: tuple[InterruptedZip, ...]
    planned: tuple[PlannedZip, ...]

    def __len__(self) -> int:
        return len(self.interrupted) + len(self.planned)

    def jobs(self, max_retries: int) -> Iterator[Job]:
        """A job for each, those taken up first."""
        yield from (Job.taken_up(interrupted) for interrupted in self.interrupted)
        yield from (Job.planned(plan, max_retries) for plan in self.planned)

    def source_ids(self) -> list[int]:
        """The file sources that have to do with it."""
        ids = {hosting.source_id for plan in self.planned for hosting in plan.hostings}
        return sorted(ids | {interrupted.source_id for interrupted in self.interrupted})


def process_zip_actions(
    tracker: Engine,
    settings: Settings,
    session: Session,
    keys: Sequence[ZipKey] | None = None,
    *,
    requested_by: str = "dcc",
) -> Iterator[ZipOutcome]:
    """Process all zip actions that wait, with what a dead session left unfinished; yield what became of each.

    With `keys`, those are re-opened in the name of `requested_by` and processed, and nothing else. What is wrong
    with an archive, a document or a file source is an outcome, not an exception. Raises NotFoundError and
    ConfigurationError for `keys` that cannot be processed, ConfigurationError for a staging area that cannot be written
    to, TrackerUnreachableError, SessionLostError, and, after everything else has been processed, InternalFaultError.
    """
    staging = Staging(settings.staging_directory)
    staging.make()
    if keys is None:
        remove_leftovers(staging.root)
    work = _take_up(tracker, settings, session, staging, keys, requested_by)
    if not work:
        return
    held_much = len(work) >= _MUCH
    faults = yield from _process(tracker, settings, session, work)
    del work
    if held_much:
        give_back_freed_memory()
    _raise_first(faults)


def _process(
    tracker: Engine, settings: Settings, session: Session, work: Work
) -> Generator[ZipOutcome, None, list[InternalFaultError]]:
    """Process what was taken up; the faults of the platform that were met."""
    addresses, centres = run_reading(
        tracker, lambda connection: _surroundings(connection, work), patience_seconds=settings.database_retry
    )
    schemas = SchemaSet.load(settings.xsd_dir)
    checker = Checker(settings, schemas, centres, ArchiveLimits.from_settings(settings))
    download = session.start_task(Phase.DOWNLOAD, f"Download of {len(work.planned)} zip actions")
    check = session.start_task(Phase.XSD, f"Extraction and validation of up to {len(work)} zip actions")
    with Coordinator(settings, session, checker, addresses, are_many=len(work) >= MANY) as coordinator:
        yield from coordinator.run(work.jobs(settings.max_retries))
        if coordinator.damaged:
            anew = _plan_anew(session, coordinator.damaged)
            yield from coordinator.run(Job.planned(plan, settings.max_retries) for plan in anew)
    session.write(lambda connection: record_conduct(connection, coordinator.conduct))
    session.finish_task(download, failed=coordinator.not_downloaded > 0)
    session.finish_task(check, failed=coordinator.not_checked > 0)
    return coordinator.faults


def _take_up(
    tracker: Engine,
    settings: Settings,
    session: Session,
    staging: Staging,
    keys: Sequence[ZipKey] | None,
    requested_by: str,
) -> Work:
    """Find the work; what a dead session left is put right on the way."""
    whole: list[InterruptedZip] = []
    broken: list[int] = []
    if keys is None:
        for left in run_reading(tracker, load_interrupted, patience_seconds=settings.database_retry):
            if staging.holds(left.key, left.size_bytes, left.md5):
                whole.append(left)
            else:
                broken.append(left.za_id)

    def take_up(connection: Connection) -> list[PlannedZip]:
        cancel_orphans(connection)
        sources = sources_to_use(connection, session.id)
        if keys is not None:
            plans = load_waiting(connection, sources, reopen_named(connection, keys, requested_by))
            for missing in sorted(set(keys) - {plan.key for plan in plans}):
                raise not_hosted(connection, missing)
            return plans
        if broken:
            reason = "The archive is not in staging any more."
            progress.reopen(connection, broken, requested_by=f"session {session.id}", reason=reason)
        reopen_failed_downloads(connection, sources)
        return load_waiting(connection, sources)

    return Work(tuple(whole), tuple(session.write(take_up)))


def _plan_anew(session: Session, za_ids: Sequence[int]) -> list[PlannedZip]:
    """Plan the download of archives that were found damaged in staging and had been whole for all that is known."""

    def plan(connection: Connection) -> list[PlannedZip]:
        reason = "The archive in staging was damaged, perhaps not when it arrived."
        progress.reopen(connection, za_ids, requested_by=f"session {session.id}", reason=reason)
        return load_waiting(connection, sources_to_use(connection, session.id), za_ids)

    return session.write(plan)


def _surroundings(connection: Connection, work: Work) -> tuple[dict[int, SourceAddress], frozenset[str]]:
    """The file sources that the work has to do with, by id, and the codes of all centres."""
    addresses = load_addresses(connection, ids=work.source_ids(), only_crawlable=False)
    return {address.id: address for address in addresses}, frozenset(connection.scalars(select(Centre.short_name)))


def _raise_first(faults: Iterable[InternalFaultError]) -> None:
    for fault in faults:
        raise fault
