"""The sensor that notifies people of what no session reports: failed runs and checks, an unreachable tracker.

A session sends its news when it ends, whoever runs it. The sensor also sends what could not be sent then; the ledger
prevents repeats.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dagster import (
    AssetCheckKey,
    DagsterInstance,
    DagsterRunStatus,
    DefaultSensorStatus,
    Definitions,
    RunsFilter,
    SensorEvaluationContext,
    SkipReason,
    sensor,
)

from dcc.errors import DatabaseOutdatedError, TrackerUnreachableError
from dcc.notify.channels.base import notifies
from dcc.notify.notifications import notify_due, notify_tracker_outage
from dcc.notify.outages import Trouble
from dcc_assets.jobs import CRAWL_JOB, LOAD_JOB, PROCESS_JOB, SHOW_JOB
from dcc_assets.reference import REFERENCE_CHECK_SPECS, REFERENCE_JOB
from dcc_assets.runs import SESSION_TAG
from dcc_dagster.check_results import latest_results
from dcc_resources.databases import TrackerResource
from dcc_resources.mail import MailResource
from dcc_resources.webhook import WebhookResource

NOTIFY_SECONDS: Final = 60
_PATIENCE_SECONDS: Final = 20.0
"""Seconds to wait for a tracker that restarts: Dagster gives a sensor a minute."""

_JOBS: Final = (CRAWL_JOB, PROCESS_JOB, LOAD_JOB, SHOW_JOB, REFERENCE_JOB)
_CHECKS: Final = tuple(AssetCheckKey(spec.asset_key, spec.name) for spec in REFERENCE_CHECK_SPECS)
_OVER: Final = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE]


@sensor(
    name="notifications",
    minimum_interval_seconds=NOTIFY_SECONDS,
    default_status=DefaultSensorStatus.RUNNING,
    description="Notifies people of runs and checks that fail, and sends unsent mails of sessions (DCC_NOTIFY_...).",
)
def notifications(
    context: SensorEvaluationContext, tracker: TrackerResource, mail: MailResource, webhook: WebhookResource
) -> SkipReason:
    """Send the due notifications; requests no run."""
    settings = tracker.settings_with(mail, webhook)
    if not notifies(settings):
        return SkipReason("Notifications are off. Set DCC_NOTIFY_... to turn them on.")
    try:
        engine = tracker.ready(patience_seconds=min(settings.database_retry, _PATIENCE_SECONDS))
        notified = notify_due(engine, settings, [*_runs(context.instance), *_checks(context.instance)])
    except TrackerUnreachableError as error:
        return SkipReason(" ".join([str(error), *notify_tracker_outage(settings, error)]))
    except DatabaseOutdatedError as error:
        return SkipReason(str(error))
    return SkipReason(" ".join(notified.sentences) or "No new notifications.")


def notification_automation() -> Definitions:
    """The sensor."""
    return Definitions(sensors=[notifications])


def _runs(instance: DagsterInstance) -> Iterator[Trouble]:
    """The last run of each job: failed ones outside of sessions, which report themselves; `since` is empty without a
    failure.
    """
    for job in _JOBS:
        runs = instance.get_runs(RunsFilter(job_name=job, statuses=_OVER), limit=1)
        if not runs:
            continue
        (run,) = runs
        subject, label = f"runs of {job}", f"Dagster's job {job}"
        if run.status is DagsterRunStatus.SUCCESS:
            yield Trouble(subject, "", label, "")
        elif SESSION_TAG not in run.tags:
            reason = f"Its last run ({run.run_id[:8]}) failed: see Dagster's page of the run."
            yield Trouble(subject, run.run_id, label, reason, reported=False)


def _checks(instance: DagsterInstance) -> Iterator[Trouble]:
    """The last evaluation of each check outside of sessions; `since` is empty if it passed."""
    for key, result in latest_results(instance, _CHECKS).items():
        subject = f"check {key.to_user_string()}"
        label = f"the check {key.name} of {key.asset_key.to_user_string()}"
        if result.passed:
            yield Trouble(subject, "", label, "")
        else:
            yield Trouble(subject, str(result.id), label, _message(result.evaluation), reported=False)


def _message(evaluation: object) -> str:
    text = getattr(evaluation, "metadata", {}).get("message")
    return str(getattr(text, "value", None) or "It failed: see its page in Dagster.")
