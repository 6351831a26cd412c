"""The schedules of crawls: of all file sources, and of those of groups of centres with an interval of their own."""

import dagster as dg

from dcc.errors import DatabaseOutdatedError
from dcc.settings import Settings
from dcc.settings.centre_groups import CentreGroup
from dcc_assets.jobs import CRAWL_JOB
from dcc_assets.runs import GROUP_TAG
from dcc_dagster.crawl_intervals import require_crawl_intervals
from dcc_resources.session import SessionResource
from dcc_sensors.pending_work import reason_to_wait


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
