"""The schedules: of crawls, of the daily refresh of reference data, and of the daily audit of the archive store."""

from typing import Final

import dagster as dg

from dcc.errors import DatabaseOutdatedError, QcDatabaseOutdatedError
from dcc.settings import Settings
from dcc.settings.centre_groups import CentreGroup
from dcc_assets.archive_audits import AUDIT_JOB
from dcc_assets.jobs import CRAWL_JOB
from dcc_assets.reference import REFERENCE_JOB
from dcc_assets.runs import GROUP_TAG
from dcc_dagster.crawl_intervals import require_crawl_intervals
from dcc_resources.databases import QcDatabaseResource
from dcc_resources.session import SessionResource
from dcc_sensors.pending_work import reason_to_wait

REFRESH_TIME: Final = "20 3 * * *"
"""The time of the refresh, in UTC: at night in Europe, where most of the sources are."""
AUDIT_TIME: Final = "20 1 * * *"
"""The time of the audit, in UTC."""


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
            reason = reason_to_wait(context.instance, session.session_settings(), group)
        except DatabaseOutdatedError as error:
            return dg.SkipReason(str(error))
        return reason or dg.RunRequest(tags={} if group is None else {GROUP_TAG: group.name})

    return dg.schedule(
        name=name,
        cron_schedule=interval,
        job_name=CRAWL_JOB,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Crawls {whose} that are due. {setting} says when.",
    )(crawl)


@dg.schedule(
    name="reference_schedule",
    cron_schedule=REFRESH_TIME,
    job_name=REFERENCE_JOB,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Brings all sets of reference data up to date, every day.",
)
def refresh_reference(
    _context: dg.ScheduleEvaluationContext, qc_database: QcDatabaseResource
) -> dg.RunRequest | dg.SkipReason:
    """Request a refresh of all sets, once there is a QC database for them."""
    try:
        qc_database.ready(patience_seconds=0)
    except QcDatabaseOutdatedError as error:
        return dg.SkipReason(str(error))
    return dg.RunRequest()


audit_schedule: Final = dg.ScheduleDefinition(
    name="archive_audit_schedule",
    job_name=AUDIT_JOB,
    cron_schedule=AUDIT_TIME,
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Reads a share of the archive store's copies every night, and repairs bad ones.",
)
