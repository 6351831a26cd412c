"""All schedules and sensors of the Dagster code location."""

import dagster as dg

from dcc.settings import Settings, load_settings
from dcc_sensors.notifications import notifications, overdue
from dcc_sensors.schedules import audit_schedule, crawl_schedules, refresh_reference
from dcc_sensors.sessions import changes_beside_sessions, due_sources, new_zips, retry_failed_downloads, valid_documents


def automation_definitions(settings: Settings | None = None) -> dg.Definitions:
    """Everything that starts work, and that notifies people. Raises ConfigurationError."""
    return dg.Definitions(
        schedules=[*crawl_schedules(settings or load_settings()), refresh_reference, audit_schedule],
        sensors=[
            new_zips,
            retry_failed_downloads,
            due_sources,
            valid_documents,
            changes_beside_sessions,
            notifications,
            overdue,
        ],
    )
