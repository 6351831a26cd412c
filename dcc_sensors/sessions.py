"""What starts work: schedules of crawls, and sensors for new submissions, failed downloads and valid data.

All run as soon as Dagster's daemon runs, and can be switched off in its web page. They only read the two databases.
"""

import time
from collections.abc import Callable
from typing import Final, TypeAlias

import dagster as dg

from dcc.errors import DatabaseOutdatedError
from dcc.phases import Phase
from dcc.session.leases import Lease
from dcc.settings import Settings, load_settings
from dcc.settings.centre_groups import CentreGroup
from dcc_assets.jobs import CRAWL_JOB, LOAD_JOB, PROCESS_JOB, SHOW_JOB
from dcc_assets.runs import GROUP_TAG, SCHEDULED_TAG, SESSION_TAG, UNFINISHED, finish_dead_runs
from dcc_assets.sync.changes import DATA_SHOWN
from dcc_dagster.crawl_intervals import require_crawl_intervals
from dcc_resources.session import SessionResource
from dcc_sensors.pending_work import (
    TrackerView,
    active_session,
    count_changes,
    count_follow_up_data,
    due_by_schedule,
    read_tracker,
)

NEW_ZIPS_SECONDS: Final = 15
DATA_SECONDS: Final = 15
CHANGES_SECONDS: Final = 30
RETRY_SECONDS: Final = 120
DUE_SECONDS: Final = 60
REPEAT_SECONDS: Final = 15 * 60
"""Seconds before the same work is requested again, if a run left it undone."""

Evaluate: TypeAlias = Callable[[dg.SensorEvaluationContext, SessionResource], dg.RunRequest | dg.SkipReason]


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
    """The schedules and the sensors of sessions. Raises ConfigurationError."""
    return dg.Definitions(
        schedules=crawl_schedules(settings or load_settings()),
        sensors=[new_zips, retry_failed_downloads, due_sources, valid_documents, changes_beside_sessions],
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
    return _busy_beside(instance, active_session(settings, group), None if group is None else group.name)


def _busy_beside(instance: dg.DagsterInstance, active: Lease | None, group: str | None) -> dg.SkipReason | None:
    if active is not None:
        return dg.SkipReason(f"{active.label} is active.")
    for job in (CRAWL_JOB, PROCESS_JOB, LOAD_JOB):
        runs = instance.get_runs(dg.RunsFilter(job_name=job, statuses=UNFINISHED))
        # Runs for two groups of centres exclude each other if one is for all centres, or both for the same.
        if any(run.tags.get(GROUP_TAG) in (None, group) or group is None for run in runs):
            return dg.SkipReason(f"A run of {job} is under way or queued.")
    return None
