"""The daily schedules: of the refresh of reference data, and of the audit of the archive store."""

from typing import Final

import dagster as dg

from dcc.errors import QcDatabaseOutdatedError
from dcc_assets.archive_audits import AUDIT_JOB
from dcc_assets.reference import REFERENCE_JOB
from dcc_resources.databases import QcDatabaseResource

REFRESH_TIME: Final = "20 3 * * *"
"""The time of the refresh, in UTC: at night in Europe, where most of the sources are."""
AUDIT_TIME: Final = "20 1 * * *"
"""The time of the audit, in UTC."""


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
