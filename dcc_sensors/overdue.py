"""The sensor for overdue work: it keeps the checks right and notifies people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from dagster import DefaultSensorStatus, Definitions, SensorEvaluationContext, SkipReason, sensor
from sqlalchemy import Engine

from dcc.databases.columns import utc_now
from dcc.errors import DatabaseOutdatedError
from dcc.notify.channels.base import notifies
from dcc.notify.notifications import notify_due
from dcc.notify.outages import Trouble
from dcc.settings import Settings
from dcc_assets.sync.overdue import OVERDUE_JOB, read_overdue, show_overdue
from dcc_dagster.partition_events import Report
from dcc_resources.databases import TrackerResource
from dcc_resources.mail import MailResource
from dcc_resources.webhook import WebhookResource

OVERDUE_SECONDS: Final = 600
_SUBJECT: Final = "overdue: "


@sensor(
    name="overdue",
    job_name=OVERDUE_JOB,
    minimum_interval_seconds=OVERDUE_SECONDS,
    default_status=DefaultSensorStatus.RUNNING,
    description=(
        "Updates the checks crawl_overdue, centre_silent and submissions_overdue while no session runs, and notifies "
        "people of failures (DCC_NOTIFY_...)."
    ),
)
def overdue(
    context: SensorEvaluationContext, tracker: TrackerResource, mail: MailResource, webhook: WebhookResource
) -> SkipReason:
    """Show changes of overdue work, in a run of that job which begins at once, and notify people."""
    settings = tracker.settings_with(mail, webhook)
    try:
        engine = tracker.ready(patience_seconds=0)
        show_overdue(context.instance, engine, settings)
        notified = _notify(engine, settings)
    except DatabaseOutdatedError as error:
        return SkipReason(str(error))
    return SkipReason(" ".join(["The checks are up to date.", *notified]))


def _notify(tracker: Engine, settings: Settings) -> Sequence[str]:
    """Notify of each check that fails, once, and again when it passes, and remind centres of their failed archives.

    Returns sentences for the sensor's page.
    """
    if not notifies(settings):
        return ()
    states = map(_state, read_overdue(tracker, settings))
    return notify_due(tracker, settings, states, watched=_SUBJECT, remind=utc_now()).sentences


def _state(report: Report) -> Trouble:
    """A check as an outage; `since` is empty if it passes."""
    (verdict,) = report.verdicts
    name = verdict.check.name
    subject = f"{_SUBJECT}{name} of {report.partition}"
    label = f"the check {name} of {report.partition}"
    if verdict.passed:
        return Trouble(subject, "", label, "")
    facts = verdict.metadata
    reason = f"{verdict.description} Who acts: {facts['Who acts']}. {facts['What to do']}"
    # A failure that returns on another day is news again.
    since = f"{facts['since']}, seen on {datetime.fromtimestamp(report.timestamp or 0, UTC):%Y-%m-%d}"
    return Trouble(subject, since, label, reason, reported=False)


def overdue_automation() -> Definitions:
    """The sensor."""
    return Definitions(sensors=[overdue])
