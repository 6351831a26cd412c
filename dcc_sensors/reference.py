"""The schedule that refreshes the reference data every day."""

from typing import Final

from dagster import (
    DefaultScheduleStatus,
    Definitions,
    RunRequest,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SkipReason,
    schedule,
)

from dcc.errors import QcDatabaseOutdatedError
from dcc_assets.reference import REFERENCE_JOB
from dcc_resources.qc_database import QcDatabaseResource

REFRESH_TIME: Final = "20 3 * * *"
"""The time of the refresh, in UTC: at night in Europe, where most of the sources are."""


@schedule(
    name="reference_schedule",
    cron_schedule=REFRESH_TIME,
    job_name=REFERENCE_JOB,
    execution_timezone="UTC",
    default_status=DefaultScheduleStatus.RUNNING,
    description="Brings all sets of reference data up to date, every day.",
)
def refresh_reference(_context: ScheduleEvaluationContext, qc_database: QcDatabaseResource) -> RunRequest | SkipReason:
    """Request a refresh of all sets, once there is a QC database for them."""
    try:
        qc_database.ready(patience_seconds=0)
    except QcDatabaseOutdatedError as error:
        return SkipReason(str(error))
    return RunRequest()


def reference_automation() -> Definitions:
    """The schedule."""
    schedules: list[ScheduleDefinition] = [refresh_reference]
    return Definitions(schedules=schedules)
