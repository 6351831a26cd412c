"""Work that waits in the two databases for sessions, and the sessions and runs that it has to wait for."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import dagster as dg
from sqlalchemy import ColumnElement, Connection, Engine, func, or_, select, true

from dcc.databases.schema import current
from dcc.phases import Phase
from dcc.qc.contexts.builds import count_due
from dcc.qc.database import open_qc_database
from dcc.runtime.clock import utc_now
from dcc.session.data.document_queries import count_due_documents
from dcc.session.data.judgement_phase import documents_to_judge_now
from dcc.session.leases import Lease, read_leases
from dcc.settings import Settings
from dcc.settings.centre_groups import CentreGroup
from dcc.tracker.database import open_tracker
from dcc.tracker.hostings.retries import count_not_arrived
from dcc.tracker.models import CrawlingSession, SessionTask, SourceCrawlRow
from dcc.tracker.queries.waiting_work import waiting_submissions
from dcc.tracker.register.centres import imits_names
from dcc.tracker.register.source_addresses import load_addresses
from dcc.tracker.register.source_schedules import load_crawl_dues, usable_sources
from dcc_assets.jobs import CRAWL_JOB, LOAD_JOB, PROCESS_JOB
from dcc_assets.runs import GROUP_TAG, UNFINISHED, finish_dead_runs
from dcc_assets.sync.changes import ChangeWatermark, changes_since
from dcc_assets.sync.watermarks import CentresShown


@dataclass(frozen=True, slots=True)
class PendingWork:
    """Work for a `group` of centres, or for all (None), and the sessions on it.

    `waiting` and `failed_downloads` count submissions. `open_session` is the session that a later run may resume.
    `active` is one that a process has at this moment, so that it cannot be resumed, or none of these centres can begin.
    `last_crawl` and `last_crawled_session` are the newest crawl of any source and its session, `last_download_session`
    the newest session of these centres that downloaded; 0 for none. `data_waits` counts the documents that wait for the
    steps after validation, without held ones.
    """

    group: str | None
    waiting: int
    failed_downloads: int
    open_session: int | None
    active: Lease | None
    last_crawl: int
    last_crawled_session: int
    last_download_session: int
    data_waits: int


def read_pending_work(settings: Settings) -> list[PendingWork]:
    """The pending work of each session that a run may resume or begin; at least one.

    First those that can be resumed. While other sessions are open, one of each group with other centres may begin;
    otherwise one of all centres. Raises TrackerOutdatedError and TrackerUnreachableError.
    """
    with _connected(open_tracker(settings)) as connection:
        leases = read_leases(connection, settings)
        unfinished = [lease for lease in leases if not lease.is_dead]
        pending = [
            _pending_work(connection, settings, leases, lease.group, lease.session) for lease in leases if lease.is_open
        ]
        for group in settings.centre_groups.values() if unfinished else ():
            if not any(lease.shares_centres_with(group) for lease in unfinished):
                pending.append(_pending_work(connection, settings, leases, group))
        return pending or [_pending_work(connection, settings, leases)]


@dataclass(frozen=True, slots=True)
class DueSources:
    """Due sources that sessions of a `group` crawl, or of all (None); `key` tells them and their last crawls apart."""

    group: CentreGroup | None
    key: str


def read_due_sources(settings: Settings) -> list[DueSources]:
    """The due sources that wait for no other, by the group that crawls them. Raises as `read_pending_work`."""
    groups = [settings.centre_groups[name] for name in settings.intervals_of_groups]
    keys: dict[CentreGroup | None, str] = {}
    with _connected(open_tracker(settings)) as connection:
        dues = load_crawl_dues(connection, settings.source_failure_limit)
        for address in load_addresses(connection):
            due = dues[address.id]
            if due.needs_no_other:
                group = next((group for group in groups if address.centre in group.centres), None)
                keys[group] = f"{keys.get(group, '')}{address.id} after {due.past.listed}, {due.past.failures}; "
    return [DueSources(group, key) for group, key in keys.items()]


@contextmanager
def _connected(opened: Engine) -> Iterator[Connection]:
    with current(opened) as engine, engine.connect() as connection:
        yield connection


def count_changes(settings: Settings, shown: Iterable[CentresShown[ChangeWatermark]]) -> int:
    """The number of submissions and centres that changed since the watermarks of Dagster's events.

    Changes within the watermark's own second, or by a clock that was ahead, are left to the next session. Raises
    DatabaseOutdatedError and DatabaseUnreachableError.
    """
    closed = [replace(centres, watermark=replace(centres.watermark, is_open=False)) for centres in shown]
    with _connected(open_qc_database(settings)) as qc, _connected(open_tracker(settings)) as tracker:
        changes = changes_since(tracker, qc, closed, until=utc_now())
    return len(changes.zips) + len(changes.centres)


def count_follow_up_data(settings: Settings) -> int:
    """The number of documents that need judging again, or new contexts and overviews, although none waits.

    That is due to withdrawals, waivers or reference data. Raises DatabaseOutdatedError and DatabaseUnreachableError.
    """
    until = settings.last_phase
    if until < Phase.DATA:
        return 0
    with _connected(open_tracker(settings)) as tracker:
        names = imits_names(tracker)
    with _connected(open_qc_database(settings)) as connection:
        judged = len(documents_to_judge_now(connection, names))
        return judged + count_due(connection, until)


def _active(leases: Iterable[Lease], group: CentreGroup | None) -> Lease | None:
    return next((lease for lease in leases if lease.is_active and lease.shares_centres_with(group)), None)


def _pending_work(
    connection: Connection,
    settings: Settings,
    leases: Iterable[Lease],
    group: CentreGroup | None = None,
    open_session: int | None = None,
) -> PendingWork:
    centres = None if group is None else group.centres
    of_centres: ColumnElement[bool] = true()
    if group is not None:
        of_centres = or_(CrawlingSession.centre_group.is_(None), CrawlingSession.centre_group == group.name)
    last_crawl, last_crawled_session = connection.execute(
        select(func.coalesce(func.max(SourceCrawlRow.id), 0), func.coalesce(func.max(SourceCrawlRow.session_id), 0))
        .join(CrawlingSession, CrawlingSession.id == SourceCrawlRow.session_id)
        .where(of_centres)
    ).one()
    last_download = connection.scalar(
        select(func.max(SessionTask.session_id))
        .join(CrawlingSession, CrawlingSession.id == SessionTask.session_id)
        .where(SessionTask.phase_id == Phase.DOWNLOAD, of_centres)
    )
    usable = usable_sources(connection, settings.source_failure_limit)
    return PendingWork(
        group=None if group is None else group.name,
        waiting=len(waiting_submissions(connection, centres=centres, sources=usable)),
        failed_downloads=count_not_arrived(connection, centres),
        open_session=open_session,
        active=_active(leases, group),
        last_crawl=last_crawl,
        last_crawled_session=last_crawled_session,
        last_download_session=last_download or 0,
        data_waits=count_due_documents(connection, settings, centres, settings.last_phase),
    )


def reason_to_wait(instance: dg.DagsterInstance, settings: Settings, group: CentreGroup | None) -> dg.SkipReason | None:
    """Why no session of a group of centres, or of all, can begin; ends dead runs. Raises DatabaseOutdatedError."""
    with current(open_tracker(settings)) as tracker:
        finish_dead_runs(instance, tracker, settings)
        with tracker.connect() as connection:
            active = _active(read_leases(connection, settings), group)
    return reason_to_wait_for(instance, active, None if group is None else group.name)


def reason_to_wait_for(instance: dg.DagsterInstance, active: Lease | None, group: str | None) -> dg.SkipReason | None:
    """Why no run for a group of centres, or for all, can begin beside the `active` session and other runs."""
    if active is not None:
        return dg.SkipReason(f"{active.label} is active.")
    for job in (CRAWL_JOB, PROCESS_JOB, LOAD_JOB):
        runs = instance.get_runs(dg.RunsFilter(job_name=job, statuses=UNFINISHED))
        # Runs for two groups of centres exclude each other if one is for all centres, or both for the same.
        if any(run.tags.get(GROUP_TAG) in (None, group) or group is None for run in runs):
            return dg.SkipReason(f"A run of {job} is under way or queued.")
    return None
