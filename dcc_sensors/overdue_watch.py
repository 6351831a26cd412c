"""The sensor that has the pages show what ought to have happened by now and has not."""

from __future__ import annotations

from typing import Final

from dagster import DefaultSensorStatus, Definitions, SensorEvaluationContext, SkipReason, sensor

from dcc_assets.freshness import show_overdue
from dcc_resources.errors import DatabaseOutdatedError
from dcc_resources.settings import load_settings
from dcc_resources.tracker.database import open_tracker, require_current

OVERDUE_SECONDS: Final = 600


@sensor(
    name="overdue",
    minimum_interval_seconds=OVERDUE_SECONDS,
    default_status=DefaultSensorStatus.RUNNING,
    description="Keeps the checks crawled_lately, heard_from and through_in_time right while no session runs.",
)
def overdue(context: SensorEvaluationContext) -> SkipReason:
    """Show what has changed of what is overdue; there is nothing to be run for it."""
    settings = load_settings()
    tracker = open_tracker(settings)
    try:
        require_current(tracker)
        show_overdue(context.instance, tracker, settings)
    except DatabaseOutdatedError as error:
        return SkipReason(str(error))
    finally:
        tracker.dispose()
    return SkipReason("The checks of what is overdue are right.")


def overdue_automation() -> Definitions:
    """The sensor."""
    return Definitions(sensors=[overdue])
