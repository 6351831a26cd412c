"""The times at which the daemon crawls, as the settings name them: Dagster knows what a cron expression is."""

from dagster import DagsterInvalidDefinitionError, ScheduleDefinition

from dcc.errors import ConfigurationError
from dcc.settings import Settings


def require_crawl_intervals(settings: Settings) -> None:
    """Raises ConfigurationError for an invalid cron expression, and for an interval of an unknown group."""
    intervals = [("DCC_CRAWL_INTERVAL", settings.crawl_interval)]
    for group, interval in settings.intervals_of_groups.items():
        if group not in settings.centre_groups:
            raise ConfigurationError(f"DCC_GROUP_INTERVALS: DCC_GROUPS has no group {group!r}. Add it there.")
        intervals.append(("DCC_GROUP_INTERVALS", interval))
    for setting, interval in intervals:
        try:
            ScheduleDefinition(name="crawl", cron_schedule=interval, job_name="crawl")
        except DagsterInvalidDefinitionError as error:
            raise ConfigurationError(
                f"{setting}: {interval!r} is not a cron expression. Write five fields, such as '0 * * * *' for every "
                "hour."
            ) from error
