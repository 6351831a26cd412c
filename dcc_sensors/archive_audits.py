"""The schedule that audits the archive store every night."""

from typing import Final

from dagster import DefaultScheduleStatus, Definitions, ScheduleDefinition

from dcc_assets.archive_audits import AUDIT_JOB

AUDIT_TIME: Final = "20 1 * * *"
"""The time of the audit, in UTC."""


def archive_audit_automation() -> Definitions:
    """The schedule."""
    return Definitions(
        schedules=[
            ScheduleDefinition(
                name="archive_audit_schedule",
                job_name=AUDIT_JOB,
                cron_schedule=AUDIT_TIME,
                execution_timezone="UTC",
                default_status=DefaultScheduleStatus.RUNNING,
                description="Reads a share of the archive store's copies every night, and repairs bad ones.",
            )
        ]
    )
