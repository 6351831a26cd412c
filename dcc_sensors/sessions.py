"""The sensors that start sessions: for new submissions, failed downloads, due sources, valid data, and changes.

All run as soon as Dagster's daemon runs, and can be switched off in its web page. They only read the two databases.
"""

import time
from collections.abc import Callable
from typing import Final, TypeAlias

import dagster as dg

from dcc.databases.schema import current
from dcc.errors import DatabaseOutdatedError
from dcc.phases import Phase
from dcc.settings import Settings
from dcc.tracker.database import open_tracker
from dcc_assets.jobs import CRAWL_JOB, LOAD_JOB, PROCESS_JOB, SHOW_JOB
from dcc_assets.runs import GROUP_TAG, SCHEDULED_TAG, SESSION_TAG, finish_dead_runs
from dcc_assets.sync.changes import DATA_SHOWN
from dcc_resources.session import SessionResource
from dcc_sensors.pending_work import (
    PendingWork,
    count_changes,
    count_follow_up_data,
    read_due_sources,
    read_pending_work,
    reason_to_wait,
    reason_to_wait_for,
)

DUE_SECONDS: Final = 60
REPEAT_SECONDS: Final = 15 * 60
"""Seconds before the same work is requested again, if a run left it undone."""

Evaluate: TypeAlias = Callable[[dg.SensorEvaluationContext, SessionResource], dg.RunRequest | dg.SkipReason]


def _watch(job: str, *, seconds: int, description: str) -> Callable[[Evaluate], dg.SensorDefinition]:
    """Decorates what a sensor does; it requests no run of the job while a database is outdated."""

    def decorate(evaluate: Evaluate) -> dg.SensorDefinition:
        def evaluated(context: dg.SensorEvaluationContext, session: SessionResource) -> dg.RunRequest | dg.SkipReason:
            try:
                return evaluate(context, session)
            except DatabaseOutdatedError as error:
                return dg.SkipReason(str(error))

        return dg.sensor(
            name=evaluate.__name__,
            job_name=job,
            minimum_interval_seconds=seconds,
            default_status=dg.DefaultSensorStatus.RUNNING,
            description=description,
        )(evaluated)

    return decorate


@_watch(PROCESS_JOB, seconds=15, description="Processes waiting submissions when no session is running.")
def new_zips(context: dg.SensorEvaluationContext, session: SessionResource) -> dg.RunRequest | dg.SkipReason:
    """Request a run for waiting submissions."""

    def due(pending: PendingWork) -> str | dg.SkipReason:
        if pending.waiting == 0:
            return dg.SkipReason("No submission is waiting.")
        return f"crawl {pending.last_crawl}, {pending.waiting} waiting, {int(time.time() // REPEAT_SECONDS)}"

    return _first_due(context.instance, session.session_settings(), Phase.XSD, due)


@_watch(PROCESS_JOB, seconds=120, description="Tries failed downloads again, once after each crawl.")
def retry_failed_downloads(
    context: dg.SensorEvaluationContext, session: SessionResource
) -> dg.RunRequest | dg.SkipReason:
    """Request one run after each crawl with failed downloads before it; new submissions come first."""

    def due(pending: PendingWork) -> str | dg.SkipReason:
        if pending.failed_downloads == 0:
            return dg.SkipReason("No download has failed.")
        if pending.waiting or pending.last_download_session >= pending.last_crawled_session:
            return dg.SkipReason(
                f"{pending.failed_downloads} failed downloads are tried again with or after the next crawl."
            )
        return f"downloads of session {pending.last_crawled_session}"

    return _first_due(context.instance, session.session_settings(), Phase.XSD, due)


@_watch(
    CRAWL_JOB,
    seconds=DUE_SECONDS,
    description="Crawls new and changed file sources after a minute, and those with an age of their own "
    "(`dcc source change --every`) when they are due.",
)
def due_sources(context: dg.SensorEvaluationContext, session: SessionResource) -> dg.RunRequest | dg.SkipReason:
    """Request a run that crawls the sources of the first group, or of all, that are due and can be crawled."""
    settings = session.session_settings()
    reason = dg.SkipReason("No file source is new, changed or due by an age of its own.")
    for due in read_due_sources(settings):
        waits = reason_to_wait(context.instance, settings, due.group)
        if waits is None:
            tags = {SCHEDULED_TAG: "yes"} | ({} if due.group is None else {GROUP_TAG: due.group.name})
            return dg.RunRequest(run_key=f"{due.key}{int(time.time() // REPEAT_SECONDS)}", tags=tags)
        reason = waits
    return reason


@_watch(
    LOAD_JOB,
    seconds=15,
    description="Loads valid documents into the QC database when all archives of a crawl are processed.",
)
def valid_documents(context: dg.SensorEvaluationContext, session: SessionResource) -> dg.RunRequest | dg.SkipReason:
    """Request one run for all waiting documents, in the session that validated them if it is still open.

    Submissions come first, so that documents are uploaded in order across all archives of a crawl.
    """
    settings = session.session_settings()

    def due(pending: PendingWork) -> str | dg.SkipReason:
        # Follow-up work is counted for all centres together, and by a session of a group when it comes to the data.
        is_free = pending.active is None and pending.group is None
        waits = pending.data_waits or (count_follow_up_data(settings) if is_free else 0)
        if waits == 0:
            return dg.SkipReason("No document is waiting.")
        if pending.waiting and pending.last_download_session < pending.last_crawled_session:
            return dg.SkipReason("The waiting submissions are processed first.")
        return f"crawl {pending.last_crawl}, {waits} documents, {int(time.time() // REPEAT_SECONDS)}"

    return _first_due(context.instance, settings, Phase.UPLOAD, due)


@_watch(
    SHOW_JOB,
    seconds=30,
    description="Shows changes made with `dcc` commands: quality control, withdrawals, confirmations.",
)
def changes_beside_sessions(
    context: dg.SensorEvaluationContext, session: SessionResource
) -> dg.RunRequest | dg.SkipReason:
    """Request one run that shows changes in the databases since the last such run."""
    settings = session.session_settings()
    shown = DATA_SHOWN.centres_shown(context.instance, settings)
    if any(pending.data_waits for pending in read_pending_work(settings)):
        return dg.SkipReason("The next session shows the changes.")
    changed = count_changes(settings, shown)
    if changed == 0:
        return dg.SkipReason("No changes to show.")
    since = "; ".join(f"{centres.watermark.zips}, {centres.watermark.contexts}" for centres in shown)
    return reason_to_wait(context.instance, settings, None) or dg.RunRequest(
        run_key=f"{since}, {changed} changed, {int(time.time() // REPEAT_SECONDS)}"
    )


def _first_due(
    instance: dg.DagsterInstance, settings: Settings, phase: Phase, due: Callable[[PendingWork], str | dg.SkipReason]
) -> dg.RunRequest | dg.SkipReason:
    """A run of the first session that can be resumed or begun and has something `due`, or why there is none.

    `due` returns the run key. There is none if sessions stop before a phase. Runs of dead processes, which block
    others, are marked as failed.
    """
    with current(open_tracker(settings)) as tracker:
        finish_dead_runs(instance, tracker, settings)
    until = settings.last_phase
    if until < phase:
        return dg.SkipReason(f"Sessions stop at {until.short_name} (DCC_UNTIL).")
    reasons = []
    for pending in read_pending_work(settings):
        key = due(pending)
        reason = key if isinstance(key, dg.SkipReason) else reason_to_wait_for(instance, pending.active, pending.group)
        if reason is None:
            tags = {} if pending.open_session is None else {SESSION_TAG: str(pending.open_session)}
            if pending.group is not None:
                tags, key = tags | {GROUP_TAG: pending.group}, f"{pending.group}: {key}"
            return dg.RunRequest(run_key=str(key), tags=tags)
        reasons.append(reason)
    return reasons[0]
