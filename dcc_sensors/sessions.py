"""What starts work: schedules of crawls, and sensors for new submissions, failed downloads and valid data.

All run as soon as Dagster's daemon runs, and can be switched off in its web page. They only read the two databases.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import dagster as dg
from sqlalchemy import ColumnElement, Connection, Engine, func, or_, select, true

from dcc.databases.schema import current
from dcc.errors import DatabaseOutdatedError
from dcc.naming import Action
from dcc.phases import Phase
from dcc.qc.contexts.affected_runs import Build, count_due
from dcc.qc.database import open_qc_database
from dcc.runtime.clock import utc_now
from dcc.session.data.document_queries import count_waiting, in_state, load_due
from dcc.session.data.judging import documents_to_judge_now
from dcc.session.leases import Lease, read_leases
from dcc.settings import Settings, load_settings
from dcc.settings.centre_groups import CentreGroup
from dcc.tracker.database import open_tracker
from dcc.tracker.hostings.download_plan import count_not_arrived
from dcc.tracker.hostings.older_archives import waiting_for_older
from dcc.tracker.models import CrawlingSession, SessionTask, SourceCrawlRow
from dcc.tracker.queries.zip_action_lists import waiting_zip_actions
from dcc.tracker.register.source_addresses import load_addresses
from dcc.tracker.register.source_schedules import load_crawl_dues
from dcc.tracker.states import AWAITING_QC
from dcc.vocabulary import DocumentState
from dcc_assets.jobs import CRAWL_JOB, LOAD_JOB, PROCESS_JOB, SHOW_JOB
from dcc_assets.runs import GROUP_TAG, SCHEDULED_TAG, SESSION_TAG, UNFINISHED, finish_dead_runs
from dcc_assets.sync.changes import DATA_SHOWN, ChangeMark, changes_since
from dcc_assets.sync.marks import Part
from dcc_dagster.crawl_intervals import require_crawl_intervals
from dcc_resources.session import SessionResource
from dcc_sensors.daily import audit_schedule, refresh_reference
from dcc_sensors.notifications import notifications, overdue

NEW_ZIPS_SECONDS: Final = 15
DATA_SECONDS: Final = 15
CHANGES_SECONDS: Final = 30
RETRY_SECONDS: Final = 120
DUE_SECONDS: Final = 60
REPEAT_SECONDS: Final = 15 * 60
"""Seconds before the same work is requested again, if a run left it undone."""

Evaluate: TypeAlias = Callable[[dg.SensorEvaluationContext, SessionResource], dg.RunRequest | dg.SkipReason]


@dataclass(frozen=True, slots=True)
class TrackerView:
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


def read_tracker(settings: Settings) -> list[TrackerView]:
    """Read the tracker: a view for each session that a run may resume or begin; at least one.

    First those that can be resumed. While other sessions are open, one of each group with other centres may begin;
    otherwise one of all centres. Raises TrackerOutdatedError and TrackerUnreachableError.
    """
    with _connected(open_tracker(settings)) as connection:
        leases = read_leases(connection, settings)
        unfinished = [lease for lease in leases if not lease.is_dead]
        views = [_view(connection, settings, leases, lease.group, lease.session) for lease in leases if lease.is_open]
        for group in settings.centre_groups.values() if unfinished else ():
            if not any(lease.shares_centres_with(group) for lease in unfinished):
                views.append(_view(connection, settings, leases, group))
        return views or [_view(connection, settings, leases)]


def due_by_schedule(settings: Settings) -> dict[CentreGroup | None, str]:
    """The due sources that wait for no other, by the group that crawls them: a text that tells work apart.

    Raises as `read_tracker`.
    """
    groups = [settings.centre_groups[name] for name in settings.intervals_of_groups]
    found: dict[CentreGroup | None, str] = {}
    with _connected(open_tracker(settings)) as connection:
        dues = load_crawl_dues(connection, settings.source_failure_limit)
        for address in load_addresses(connection):
            one = dues[address.id]
            if one.needs_no_other:
                group = next((group for group in groups if address.centre in group.centres), None)
                found[group] = f"{found.get(group, '')}{address.id} after {one.past.listed}, {one.past.failures}; "
    return found


@contextmanager
def _connected(opened: Engine) -> Iterator[Connection]:
    with current(opened) as engine, engine.connect() as connection:
        yield connection


def count_changes(settings: Settings, marks: Iterable[Part[ChangeMark]]) -> int:
    """The number of submissions and centres that changed since the marks of Dagster's events.

    Changes within the mark's own second, or by a clock that was ahead, are left to the next session. Raises
    DatabaseOutdatedError and DatabaseUnreachableError.
    """
    closed = [replace(part, mark=replace(part.mark, is_open=False)) for part in marks]
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
    with _connected(open_qc_database(settings)) as connection:
        judged = len(documents_to_judge_now(connection))
        wanted = [(Phase.CONTEXT, Build.CONTEXTS), (Phase.OVERVIEW, Build.OVERVIEWS)]
        return judged + count_due(connection, *(build for phase, build in wanted if until >= phase))


def _active(leases: Iterable[Lease], group: CentreGroup | None) -> Lease | None:
    return next((lease for lease in leases if lease.is_active and lease.shares_centres_with(group)), None)


def _view(
    connection: Connection,
    settings: Settings,
    leases: Iterable[Lease],
    group: CentreGroup | None = None,
    open_session: int | None = None,
) -> TrackerView:
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
        select(func.coalesce(func.max(SessionTask.session_id), 0))
        .join(CrawlingSession, CrawlingSession.id == SessionTask.session_id)
        .where(SessionTask.phase_id == int(Phase.DOWNLOAD), of_centres)
    )
    return TrackerView(
        group=None if group is None else group.name,
        waiting=len(waiting_zip_actions(connection, centres=centres)),
        failed_downloads=count_not_arrived(connection, centres),
        open_session=open_session,
        active=_active(leases, group),
        last_crawl=last_crawl,
        last_crawled_session=last_crawled_session,
        last_download_session=last_download or 0,
        data_waits=_data_waits(connection, settings, centres),
    )


def _data_waits(connection: Connection, settings: Settings, centres: Collection[str] | None) -> int:
    until = settings.last_phase
    if count_waiting(connection, centres, until) == 0:
        return 0
    found = [
        document
        for phase in Phase
        if Phase.UPLOAD <= phase <= until
        for document in load_due(connection, phase, settings.naming)
        if document.state != AWAITING_QC and (centres is None or document.centre in centres)
    ]
    to_upload = [document for document in found if document.state.phase <= Phase.UPLOAD]
    # The session that takes the older archive, or the next one after the decision about it, takes these too.
    # An addition waits only after a session that saw to it.
    may_wait = [one for one in to_upload if one.key.action is not Action.ADD or one.state.phase is Phase.UPLOAD]
    older = waiting_for_older(connection, {document.za_id for document in may_wait})
    left = {document.xml_id for document in may_wait if document.za_id in older}
    if any(document.state.phase is Phase.UPLOAD for document in to_upload):
        with _connected(open_qc_database(settings)) as qc:
            left |= {one.xml_id for one in in_state(qc, DocumentState.HELD) if one.is_held and one.xml_id is not None}
    return len({document.xml_id for document in found} - left)


def _watch(job: str, seconds: int, description: str) -> Callable[[Evaluate], dg.SensorDefinition]:
    """Decorates what a sensor does; it requests no run of the job while a database is outdated."""

    def decorate(evaluate: Evaluate) -> dg.SensorDefinition:
        def evaluated(context: dg.SensorEvaluationContext, session: SessionResource) -> dg.RunRequest | dg.SkipReason:
            try:
                return evaluate(context, session)
            except DatabaseOutdatedError as error:
                return dg.SkipReason(str(error))

        return dg.sensor(
            name=evaluate.__name__,
            job_name=job,
            minimum_interval_seconds=seconds,
            default_status=dg.DefaultSensorStatus.RUNNING,
            description=description,
        )(evaluated)

    return decorate


@_watch(PROCESS_JOB, NEW_ZIPS_SECONDS, "Processes waiting submissions when no session is running.")
def new_zips(context: dg.SensorEvaluationContext, session: SessionResource) -> dg.RunRequest | dg.SkipReason:
    """Request a run for waiting submissions; mark runs of dead processes as failed, because they block others."""
    finish_dead_runs(context.instance)
    settings = session.session_settings()

    def due(view: TrackerView) -> str | dg.SkipReason:
        if view.waiting == 0:
            return dg.SkipReason("No submission is waiting.")
        return f"crawl {view.last_crawl}, {view.waiting} waiting, {int(time.time() // REPEAT_SECONDS)}"

    return _first_due(context.instance, settings, Phase.XSD, due)


@_watch(PROCESS_JOB, RETRY_SECONDS, "Tries failed downloads again, once after each crawl.")
def retry_failed_downloads(
    context: dg.SensorEvaluationContext, session: SessionResource
) -> dg.RunRequest | dg.SkipReason:
    """Request one run after each crawl with failed downloads before it; new submissions come first."""

    def due(view: TrackerView) -> str | dg.SkipReason:
        if view.failed_downloads == 0:
            return dg.SkipReason("No download has failed.")
        if view.waiting or view.last_download_session >= view.last_crawled_session:
            return dg.SkipReason(
                f"{view.failed_downloads} failed downloads are tried again with or after the next crawl."
            )
        return f"downloads of session {view.last_crawled_session}"

    return _first_due(context.instance, session.session_settings(), Phase.XSD, due)


@_watch(
    CRAWL_JOB,
    DUE_SECONDS,
    "Crawls new and changed file sources after a minute, and those with an age of their own "
    "(`dcc source change --every`) when they are due.",
)
def due_sources(context: dg.SensorEvaluationContext, session: SessionResource) -> dg.RunRequest | dg.SkipReason:
    """Request a run that crawls the sources of the first group, or of all, that are due and can be crawled."""
    settings = session.session_settings()
    reason = dg.SkipReason("No file source is new, changed or due by an age of its own.")
    for group, sources in due_by_schedule(settings).items():
        busy = _busy(context.instance, settings, group)
        if busy is None:
            tags = {SCHEDULED_TAG: "yes"} | ({} if group is None else {GROUP_TAG: group.name})
            return dg.RunRequest(run_key=f"{sources}{int(time.time() // REPEAT_SECONDS)}", tags=tags)
        reason = busy
    return reason


@_watch(
    LOAD_JOB, DATA_SECONDS, "Loads valid documents into the QC database when all archives of a crawl are processed."
)
def valid_documents(context: dg.SensorEvaluationContext, session: SessionResource) -> dg.RunRequest | dg.SkipReason:
    """Request one run for all waiting documents, in the session that validated them if it is still open.

    Submissions come first, so that documents are uploaded in order across all archives of a crawl.
    """
    finish_dead_runs(context.instance)
    settings = session.session_settings()

    def due(view: TrackerView) -> str | dg.SkipReason:
        # Follow-up work is counted for all centres together, and by a session of a group when it comes to the data.
        is_free = view.active is None and view.group is None
        waits = view.data_waits or (count_follow_up_data(settings) if is_free else 0)
        if waits == 0:
            return dg.SkipReason("No document is waiting.")
        if view.waiting and view.last_download_session < view.last_crawled_session:
            return dg.SkipReason("The waiting submissions are processed first.")
        return f"crawl {view.last_crawl}, {waits} documents, {int(time.time() // REPEAT_SECONDS)}"

    return _first_due(context.instance, settings, Phase.UPLOAD, due)


@_watch(
    SHOW_JOB, CHANGES_SECONDS, "Shows changes made with `dcc` commands: quality control, withdrawals, confirmations."
)
def changes_beside_sessions(
    context: dg.SensorEvaluationContext, session: SessionResource
) -> dg.RunRequest | dg.SkipReason:
    """Request one run that shows changes in the databases since the last such run."""
    settings = session.session_settings()
    parts = DATA_SHOWN.parts(context.instance, settings)
    if any(view.data_waits for view in read_tracker(settings)):
        return dg.SkipReason("The next session shows the changes.")
    changed = count_changes(settings, parts)
    if changed == 0:
        return dg.SkipReason("No changes to show.")
    since = "; ".join(f"{part.mark.zips}, {part.mark.contexts}" for part in parts)
    return _busy(context.instance, settings, None) or dg.RunRequest(
        run_key=f"{since}, {changed} changed, {int(time.time() // REPEAT_SECONDS)}"
    )


def crawl_schedules(settings: Settings) -> list[dg.ScheduleDefinition]:
    """The schedule that crawls all sources, and those of groups of centres with an interval of their own.

    Raises ConfigurationError for an invalid cron expression, and for an interval of an unknown group.
    """
    require_crawl_intervals(settings)
    groups = [settings.centre_groups[name] for name in settings.intervals_of_groups]
    return [_crawl_schedule(settings), *(_crawl_schedule(settings, group) for group in groups)]


def _crawl_schedule(settings: Settings, group: CentreGroup | None = None) -> dg.ScheduleDefinition:
    name, whose = "crawl_schedule", "all available file sources"
    setting, interval = "DCC_CRAWL_INTERVAL", settings.crawl_interval
    if group is not None:
        setting, interval = "DCC_GROUP_INTERVALS", settings.intervals_of_groups[group.name]
        name, whose = f"{name}_{group.identifier}", f"the file sources of the centres of {group.name}"

    def crawl(context: dg.ScheduleEvaluationContext, session: SessionResource) -> dg.RunRequest | dg.SkipReason:
        try:
            busy = _busy(context.instance, session.session_settings(), group)
        except DatabaseOutdatedError as error:
            return dg.SkipReason(str(error))
        return busy or dg.RunRequest(tags={} if group is None else {GROUP_TAG: group.name})

    return dg.schedule(
        name=name,
        cron_schedule=interval,
        job_name=CRAWL_JOB,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Crawls {whose} that are due. {setting} says when.",
    )(crawl)


def automation_definitions(settings: Settings | None = None) -> dg.Definitions:
    """All schedules and sensors. Raises ConfigurationError."""
    return dg.Definitions(
        schedules=[*crawl_schedules(settings or load_settings()), refresh_reference, audit_schedule],
        sensors=[
            new_zips,
            retry_failed_downloads,
            due_sources,
            valid_documents,
            changes_beside_sessions,
            notifications,
            overdue,
        ],
    )


def _first_due(
    instance: dg.DagsterInstance, settings: Settings, phase: Phase, due: Callable[[TrackerView], str | dg.SkipReason]
) -> dg.RunRequest | dg.SkipReason:
    """A run of the first session that can be resumed or begun and has something `due`, or why there is none.

    `due` returns the run key. There is none if sessions stop before a phase.
    """
    until = settings.last_phase
    if until < phase:
        return dg.SkipReason(f"Sessions stop at {until.short_name} (DCC_UNTIL).")
    reasons = []
    for view in read_tracker(settings):
        key = due(view)
        reason = key if isinstance(key, dg.SkipReason) else _busy_beside(instance, view.active, view.group)
        if reason is None:
            tags = {} if view.open_session is None else {SESSION_TAG: str(view.open_session)}
            if view.group is not None:
                tags, key = tags | {GROUP_TAG: view.group}, f"{view.group}: {key}"
            return dg.RunRequest(run_key=str(key), tags=tags)
        reasons.append(reason)
    return reasons[0]


def _busy(instance: dg.DagsterInstance, settings: Settings, group: CentreGroup | None) -> dg.SkipReason | None:
    """Why no session of a group of centres, or of all, can begin. Raises DatabaseOutdatedError."""
    with _connected(open_tracker(settings)) as connection:
        active = _active(read_leases(connection, settings), group)
    return _busy_beside(instance, active, None if group is None else group.name)


def _busy_beside(instance: dg.DagsterInstance, active: Lease | None, group: str | None) -> dg.SkipReason | None:
    if active is not None:
        return dg.SkipReason(f"{active.label} is active.")
    for job in (CRAWL_JOB, PROCESS_JOB, LOAD_JOB):
        runs = instance.get_runs(dg.RunsFilter(job_name=job, statuses=UNFINISHED))
        # Runs for two groups of centres exclude each other if one is for all centres, or both for the same.
        if any(run.tags.get(GROUP_TAG) in (None, group) or group is None for run in runs):
            return dg.SkipReason(f"A run of {job} is under way or queued.")
    return None
