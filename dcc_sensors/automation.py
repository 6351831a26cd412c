"""What starts work by itself: the crawl schedule, and the sensors for new zip actions and for failed downloads.

All three run as soon as Dagster's daemon does, and can be switched off in its web page. They look at the tracker only.
"""

import time
from typing import Final

from dagster import (
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
from dagster._utils.schedules import is_valid_cron_schedule

from dcc_assets.catalogue import SESSION_TAG
from dcc_assets.jobs import CRAWL_JOB, PROCESS_JOB
from dcc_assets.runs import finish_dead_runs
from dcc_resources.errors import ConfigurationError, TrackerOutdatedError
from dcc_resources.settings import Settings, load_settings
from dcc_sensors.tracker_watch import TrackerView, look_at_tracker

NEW_ZIPS_SECONDS: Final = 15
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
    description="Has the zip actions that wait processed, as soon as no session is active.",
)
def new_zips(context: SensorEvaluationContext) -> RunRequest | SkipReason:
    """Ask for one run over all zip actions that wait; finish the runs of processes that died, which hold up others."""
    finish_dead_runs(context.instance)
    view = _look()
    if isinstance(view, SkipReason):
        return view
    if view.waiting == 0:
        return SkipReason("No zip action waits.")
    return _busy(context, view) or RunRequest(
        run_key=f"crawl {view.last_crawl}, {view.waiting} waiting, {int(time.time() // REPEAT_SECONDS)}",
        tags=_session_tags(view),
    )


@sensor(
    job_name=PROCESS_JOB,
    minimum_interval_seconds=RETRY_SECONDS,
    default_status=DefaultSensorStatus.RUNNING,
    description="Has downloads that failed tried again, once after each crawl.",
)
def retry_failed_downloads(context: SensorEvaluationContext) -> RunRequest | SkipReason:
    """Ask for one run after each crawl, if downloads failed before it; new zip actions come first."""
    view = _look()
    if isinstance(view, SkipReason):
        return view
    if view.failed_downloads == 0:
        return SkipReason("No download has failed.")
    if view.waiting or view.last_download_session >= view.last_crawled_session:
        return SkipReason(f"{view.failed_downloads} failed downloads are tried again with or after the next crawl.")
    return _busy(context, view) or RunRequest(
        run_key=f"downloads of session {view.last_crawled_session}", tags=_session_tags(view)
    )


def crawl_schedule(settings: Settings) -> ScheduleDefinition:
    """The schedule that has all file sources crawled. Raises ConfigurationError for a wrong `crawl_interval`."""
    if not is_valid_cron_schedule(settings.crawl_interval):
        raise ConfigurationError(
            f"DCC_CRAWL_INTERVAL: {settings.crawl_interval!r} is no cron expression. Write five fields, such as "
            "'0 * * * *' for every hour."
        )

    @schedule(
        name="crawl_schedule",
        cron_schedule=settings.crawl_interval,
        job_name=CRAWL_JOB,
        execution_timezone="UTC",
        default_status=DefaultScheduleStatus.RUNNING,
        description="Has all available file sources crawled; DCC_CRAWL_INTERVAL says when.",
    )
    def crawl(_context: ScheduleEvaluationContext) -> RunRequest | SkipReason:
        view = _look()
        if isinstance(view, SkipReason):
            return view
        if view.active_session is not None:
            return SkipReason(f"Session {view.active_session} is active.")
        return RunRequest()

    return crawl


def automation_definitions(settings: Settings | None = None) -> Definitions:
    """The schedule and the sensors. Raises ConfigurationError."""
    return Definitions(
        schedules=[crawl_schedule(settings or load_settings())], sensors=[new_zips, retry_failed_downloads]
    )


def _look() -> TrackerView | SkipReason:
    try:
        return look_at_tracker(load_settings())
    except TrackerOutdatedError as error:
        return SkipReason(str(error))


def _busy(context: SensorEvaluationContext, view: TrackerView) -> SkipReason | None:
    if view.active_session is not None:
        return SkipReason(f"Session {view.active_session} is active.")
    for job in (CRAWL_JOB, PROCESS_JOB):
        if context.instance.get_runs(RunsFilter(job_name=job, statuses=_UNFINISHED), limit=1):
            return SkipReason(f"A run of {job} is under way or queued.")
    return None


def _session_tags(view: TrackerView) -> dict[str, str]:
    return {} if view.open_session is None else {SESSION_TAG: str(view.open_session)}
