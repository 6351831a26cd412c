"""What starts work by itself: the crawl schedule, and the sensors for new zip actions, failed downloads and valid data.

All run as soon as Dagster's daemon does, and can be switched off in its web page. They look at the two databases only.
"""

import time
from typing import Final

from dagster import (
    DagsterInvalidDefinitionError,
    DagsterRunStatus,
    DefaultScheduleStatus,
    DefaultSensorStatus,
    Definitions,
    RunRequest,
    RunsFilter,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SensorEvaluationContext,
    SkipReason,
    schedule,
    sensor,
)

from dcc.errors import ConfigurationError, DatabaseOutdatedError
from dcc.phases import Phase
from dcc.settings import Settings, load_settings
from dcc_assets.jobs import CRAWL_JOB, LOAD_JOB, PROCESS_JOB, SHOW_JOB
from dcc_assets.runs import GROUP_TAG, SESSION_TAG, finish_dead_runs
from dcc_assets.sync.changes import read_mark
from dcc_resources.session import SessionResource
from dcc_sensors.pending_work import TrackerView, look_at_tracker, look_for_changes, look_for_data_to_follow

NEW_ZIPS_SECONDS: Final = 15
DATA_SECONDS: Final = 15
CHANGES_SECONDS: Final = 30
RETRY_SECONDS: Final = 120
REPEAT_SECONDS: Final = 15 * 60
"""How long the same work is not asked for again, when a run has left it undone."""

_UNFINISHED = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]


@sensor(
    job_name=PROCESS_JOB,
    minimum_interval_seconds=NEW_ZIPS_SECONDS,
    default_status=DefaultSensorStatus.RUNNING,
    description="Processes waiting zip actions when no session is running.",
)
def new_zips(context: SensorEvaluationContext, session: SessionResource) -> RunRequest | SkipReason:
    """Ask for one run over all zip actions that wait; finish the runs of processes that died, which hold up others."""
    finish_dead_runs(context.instance)
    settings = session.session_settings()
    view = _look(settings)
    if isinstance(view, SkipReason):
        return view
    if stopped := _stops_before(settings, Phase.XSD):
        return stopped
    if view.waiting == 0:
        return SkipReason("No zip action is waiting.")
    what = f"{_of_group(view)}crawl {view.last_crawl}, {view.waiting} waiting"
    return _busy(context, view) or RunRequest(
        run_key=f"{what}, {int(time.time() // REPEAT_SECONDS)}",
        tags=_session_tags(view),
    )


@sensor(
    job_name=PROCESS_JOB,
    minimum_interval_seconds=RETRY_SECONDS,
    default_status=DefaultSensorStatus.RUNNING,
    description="Tries failed downloads again, once after each crawl.",
)
def retry_failed_downloads(context: SensorEvaluationContext, session: SessionResource) -> RunRequest | SkipReason:
    """Ask for one run after each crawl, if downloads failed before it; new zip actions come first."""
    settings = session.session_settings()
    view = _look(settings)
    if isinstance(view, SkipReason):
        return view
    if stopped := _stops_before(settings, Phase.XSD):
        return stopped
    if view.failed_downloads == 0:
        return SkipReason("No download has failed.")
    if view.waiting or view.last_download_session >= view.last_crawled_session:
        return SkipReason(f"{view.failed_downloads} failed downloads are tried again with or after the next crawl.")
    return _busy(context, view) or RunRequest(
        run_key=f"{_of_group(view)}downloads of session {view.last_crawled_session}", tags=_session_tags(view)
    )


@sensor(
    job_name=LOAD_JOB,
    minimum_interval_seconds=DATA_SECONDS,
    default_status=DefaultSensorStatus.RUNNING,
    description="Loads valid documents into the QC database when all archives of a crawl are processed.",
)
def valid_documents(context: SensorEvaluationContext, session: SessionResource) -> RunRequest | SkipReason:
    """Ask for one run over all documents that wait, in the session that validated them where that is still open.

    Zip actions come first, so that documents are uploaded in order across all archives of a crawl.
    """
    finish_dead_runs(context.instance)
    settings = session.session_settings()
    view = _look(settings)
    if isinstance(view, SkipReason):
        return view
    if stopped := _stops_before(settings, Phase.UPLOAD):
        return stopped
    try:
        waits = view.data_waits or (0 if view.active_session else look_for_data_to_follow(settings))
    except DatabaseOutdatedError as error:
        return SkipReason(str(error))
    if waits == 0:
        return SkipReason("No document is waiting.")
    if view.waiting and view.last_download_session < view.last_crawled_session:
        return SkipReason("The waiting zip actions are processed first.")
    return _busy(context, view) or RunRequest(
        run_key=f"{_of_group(view)}crawl {view.last_crawl}, {waits} documents, {int(time.time() // REPEAT_SECONDS)}",
        tags=_session_tags(view),
    )


@sensor(
    job_name=SHOW_JOB,
    minimum_interval_seconds=CHANGES_SECONDS,
    default_status=DefaultSensorStatus.RUNNING,
    description="Shows changes made with `dcc` commands: quality control, withdrawals, confirmations.",
)
def changes_beside_sessions(context: SensorEvaluationContext, session: SessionResource) -> RunRequest | SkipReason:
    """Ask for one run that shows what changed in the databases since that was done last."""
    mark = read_mark(context.instance)
    settings = session.session_settings()
    view = _look(settings)
    if isinstance(view, SkipReason):
        return view
    if view.data_waits:
        return SkipReason("The next session shows the changes.")
    try:
        changed = look_for_changes(settings, mark)
    except DatabaseOutdatedError as error:
        return SkipReason(str(error))
    if changed == 0:
        return SkipReason("No changes to show.")
    return _busy(context, view) or RunRequest(
        run_key=f"{mark.zips}, {mark.contexts}, {changed} changed, {int(time.time() // REPEAT_SECONDS)}"
    )


def crawl_schedule(settings: Settings) -> ScheduleDefinition:
    """The schedule that has all file sources crawled. Raises ConfigurationError for a wrong `crawl_interval`."""
    try:
        return _crawl_schedule(settings)
    except DagsterInvalidDefinitionError as error:
        raise ConfigurationError(
            f"DCC_CRAWL_INTERVAL: {settings.crawl_interval!r} is not a cron expression. Write five fields, such as "
            "'0 * * * *' for every hour."
        ) from error


def _crawl_schedule(settings: Settings) -> ScheduleDefinition:
    @schedule(
        name="crawl_schedule",
        cron_schedule=settings.crawl_interval,
        job_name=CRAWL_JOB,
        execution_timezone="UTC",
        default_status=DefaultScheduleStatus.RUNNING,
        description="Crawls all available file sources. DCC_CRAWL_INTERVAL says when.",
    )
    def crawl(_context: ScheduleEvaluationContext, session: SessionResource) -> RunRequest | SkipReason:
        view = _look(session.session_settings())
        if isinstance(view, SkipReason):
            return view
        if view.active_session is not None:
            return SkipReason(f"Session {view.active_session} is active.")
        return RunRequest()

    return crawl


def automation_definitions(settings: Settings | None = None) -> Definitions:
    """The schedule and the sensors. Raises ConfigurationError."""
    return Definitions(
        schedules=[crawl_schedule(settings or load_settings())],
        sensors=[new_zips, retry_failed_downloads, valid_documents, changes_beside_sessions],
    )


def _look(settings: Settings) -> TrackerView | SkipReason:
    try:
        return look_at_tracker(settings)
    except DatabaseOutdatedError as error:
        return SkipReason(str(error))


def _stops_before(settings: Settings, phase: Phase) -> SkipReason | None:
    until = settings.last_phase
    return SkipReason(f"Sessions stop at {until.short_name} (DCC_UNTIL).") if until < phase else None


def _busy(context: SensorEvaluationContext, view: TrackerView) -> SkipReason | None:
    if view.active_session is not None:
        return SkipReason(f"Session {view.active_session} is active.")
    for job in (CRAWL_JOB, PROCESS_JOB, LOAD_JOB):
        runs = context.instance.get_runs(RunsFilter(job_name=job, statuses=_UNFINISHED))
        if any(_excludes(run.tags.get(GROUP_TAG), view.open_group) for run in runs):
            return SkipReason(f"A run of {job} is under way or queued.")
    return None


def _session_tags(view: TrackerView) -> dict[str, str]:
    if view.open_session is None:
        return {}
    tags = {SESSION_TAG: str(view.open_session)}
    return tags if view.open_group is None else tags | {GROUP_TAG: view.open_group}


def _excludes(one: str | None, other: str | None) -> bool:
    """Whether runs for two groups of centres, or for all, may not go on at once."""
    return one is None or other is None or one == other


def _of_group(view: TrackerView) -> str:
    """What tells the key of a run for a group from that of one for another."""
    return "" if view.open_group is None else f"{view.open_group}: "
