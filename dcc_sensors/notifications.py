"""The sensors that notify people of what no session reports: failed runs and checks, outages, and overdue work.

A session sends its news when it ends, whoever runs it. The first sensor also sends what could not be sent then; the
ledger prevents repeats. The other one keeps the checks of overdue work right, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import dagster as dg

from dcc.errors import DatabaseOutdatedError, TrackerUnreachableError
from dcc.messages import Message, mark, message
from dcc.notify.channels.open_channels import notifies
from dcc.notify.notifications import notify_due, notify_tracker_outage
from dcc.notify.outages import OutageEntry, SubjectKind, WatchedState
from dcc.runtime.clock import utc_now
from dcc_assets.archive_audits import AUDIT_JOB, LOST_TAG
from dcc_assets.graph import REFERENCE_FRESH
from dcc_assets.jobs import CRAWL_JOB, LOAD_JOB, PROCESS_JOB, SHOW_JOB
from dcc_assets.reference import REFERENCE_JOB
from dcc_assets.runs import FORESTALLED_TAG, SESSION_TAG
from dcc_assets.sync.overdue import OVERDUE_JOB, read_overdue, show_overdue
from dcc_dagster.partition_events import PartitionReport, latest_evaluations
from dcc_resources.session import SessionResource

_PATIENCE_SECONDS: Final = 20.0
"""Seconds to wait for a tracker that restarts: Dagster gives a sensor a minute."""

WATCHED_JOBS: Final = (CRAWL_JOB, PROCESS_JOB, LOAD_JOB, SHOW_JOB, REFERENCE_JOB, AUDIT_JOB)
"""The jobs of whose failed runs people get a message."""
_CHECKS: Final = tuple(REFERENCE_FRESH.values())
_OVER: Final = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE]


@dg.sensor(
    name="notifications",
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Notifies people of runs and checks that fail, and sends unsent mails of sessions (DCC_NOTIFY_...).",
)
def notifications(context: dg.SensorEvaluationContext, session: SessionResource) -> dg.SkipReason:
    """Send the due notifications; requests no run."""
    settings = session.session_settings()
    if not notifies(settings):
        return dg.SkipReason("Notifications are off. Set DCC_NOTIFY_... to turn them on.")
    try:
        engine = session.tracker.ready(patience_seconds=min(settings.database_retry, _PATIENCE_SECONDS))
        notified = notify_due(engine, settings, [*_runs(context.instance), *_checks(context.instance)])
    except TrackerUnreachableError as error:
        return dg.SkipReason(" ".join([str(error), *notify_tracker_outage(settings, error)]))
    except DatabaseOutdatedError as error:
        return dg.SkipReason(str(error))
    return dg.SkipReason(" ".join(notified.sentences) or "No new notifications.")


def _runs(instance: dg.DagsterInstance) -> Iterator[WatchedState]:
    """Whether the last run of each job succeeded.

    Failures that people hear of otherwise are left out: those of sessions, and those for lost archives. So are runs
    that another session forestalled, or that ended with their daemon: the next ones do their work.
    """
    for job in WATCHED_JOBS:
        runs = instance.get_runs(dg.RunsFilter(job_name=job, statuses=_OVER), limit=1)
        if not runs:
            continue
        (run,) = runs
        subject, label = f"runs of {job}", message(mark("Dagster's job {job}"), job=job)
        if run.status is dg.DagsterRunStatus.SUCCESS:
            yield WatchedState(subject, label)
        elif run.tags.keys().isdisjoint((SESSION_TAG, LOST_TAG, FORESTALLED_TAG)) and not _was_interrupted(
            instance, run.run_id
        ):
            failed = mark("Its last run ({run}) failed: see Dagster's page of the run.")
            reason = message(failed, run=run.run_id[:8])
            yield _failing(subject, label, run.run_id, reason)


def _was_interrupted(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Whether a run failed because its process was stopped."""
    found = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.RUN_FAILURE, limit=1).records
    events = [record.event_log_entry.dagster_event for record in found]
    errors = [event.job_failure_data.error for event in events if event is not None]
    return any(error and error.cls_name == dg.DagsterExecutionInterruptedError.__name__ for error in errors)


def _checks(instance: dg.DagsterInstance) -> Iterator[WatchedState]:
    """Whether each check outside of sessions passed when it was last evaluated."""
    for number, evaluation in latest_evaluations(instance, _CHECKS):
        subject = f"check {evaluation.asset_check_key.to_user_string()}"
        label = _label_of_check(evaluation.check_name, evaluation.asset_key.to_user_string())
        if evaluation.passed:
            yield WatchedState(subject, label)
        else:
            # A person can report a check without one, through Dagster.
            told = evaluation.metadata.get("message")
            reason = Message(mark("It failed: see its page in Dagster.")) if told is None else str(told.value)
            yield _failing(subject, label, str(number), reason)


def _failing(subject: str, label: Message, since: str, reason: Message | str) -> WatchedState:
    """The state of something that fails; `since` tells this failure from earlier ones."""
    return WatchedState(subject, label, OutageEntry(subject, since, label, reason, reported=False))


def _label_of_check(check: str, thing: str) -> Message:
    return message(mark("the check {check} of {thing}"), check=check, thing=thing)


@dg.sensor(
    name="overdue",
    job_name=OVERDUE_JOB,
    minimum_interval_seconds=600,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Updates the checks crawl_overdue, centre_silent and submissions_overdue while no session runs, and notifies "
        "people of failures (DCC_NOTIFY_...)."
    ),
)
def overdue(context: dg.SensorEvaluationContext, session: SessionResource) -> dg.SkipReason:
    """Show changes of overdue work, in a run of that job which begins at once, and notify people.

    They hear once of each check that fails, and again when it passes; centres are reminded of their failed archives.
    """
    settings = session.session_settings()
    try:
        engine = session.tracker.ready(patience_seconds=0)
        show_overdue(context.instance, engine, settings)
        states = map(_state, read_overdue(engine, settings))
        notified = notify_due(engine, settings, states, ends_others_of=SubjectKind.OVERDUE, remind_at=utc_now())
    except DatabaseOutdatedError as error:
        return dg.SkipReason(str(error))
    return dg.SkipReason(" ".join(["The checks are up to date.", *notified.sentences]))


def _state(report: PartitionReport) -> WatchedState:
    """Whether a check of overdue work passes."""
    (verdict,) = report.verdicts
    name = verdict.check.name
    subject = f"{SubjectKind.OVERDUE}{name} of {report.partition}"
    label = _label_of_check(name, report.partition)
    if verdict.passed:
        return WatchedState(subject, label)
    facts = verdict.metadata
    reason = message(
        mark("{reason} Who acts: {who}. {remedy}"),
        reason=verdict.description,
        who=[Message(name) for name in str(facts["Who acts"]).split(", ")],
        remedy=Message(str(facts["What to do"])),
    )
    # A failure that returns on another day is news again.
    since = f"{facts['since']}, seen on {datetime.fromtimestamp(report.timestamp or 0, UTC):%Y-%m-%d}"
    return _failing(subject, label, since, reason)
