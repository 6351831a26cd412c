"""What a step needs to know of its run, and how a command executes one."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import dagster as dg
from sqlalchemy import Engine

from dcc.databases.transactions import run_reading
from dcc.errors import SessionActiveError
from dcc.operations.session_work import SessionWork
from dcc.runtime.interrupts import raise_missed_interrupts
from dcc.runtime.processes import Process
from dcc.session.leases import sessions_over
from dcc.session.session_request import SessionRequest
from dcc.session.sessions import Session
from dcc.settings import Settings
from dcc_dagster.event_recorder import RunStep
from dcc_dagster.instance import QC_DATABASE_POOL
from dcc_dagster.run_processes import FORMER_PROCESS_TAG, LIFE_SECONDS, PROCESS_TAG, own_tags, process_in, process_tag
from dcc_resources.file_sources import FileSourceResource
from dcc_resources.session import SessionResource

SESSION_TAG: Final = "dcc/session"
"""Tag of every run of a crawling session: the session's id in the tracker."""
GROUP_TAG: Final = "dcc/group"
"""Tag of every run of a session for a group of centres: the group. A run started with it is such a session."""
SCHEDULED_TAG: Final = "dcc/only_scheduled"
"""Tag of runs that crawl only sources with an age of their own, because one of them is due."""
STARTED_BY_TAG: Final = "dcc/started_by"
"""Tag of every run that no sensor, schedule or person in the UI started: the command, or what else did."""

FORESTALLED_TAG: Final = "dcc/forestalled"
"""Tag of runs that another session was faster than, which is no outage: it does the work, or the next run."""

_QUIET: Final = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}

_UNDER_WAY = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
UNFINISHED: Final = [dg.DagsterRunStatus.QUEUED, *_UNDER_WAY]
"""The states of runs that have not ended."""

_START_TIME: Final = timedelta(minutes=10)
"""How long the start of a run may take, with the pull of an image."""
_TIME_WITHOUT_LIFE: Final = timedelta(seconds=4 * LIFE_SECONDS)
"""How long a run of the daemon without a session, such as an audit, may show no sign of life."""
_TIME_WITHOUT_SESSION: Final = timedelta(hours=12)
"""How long a run of a command without a session may take, which shows none."""
_TAGS_OF_WORK: Final = {PROCESS_TAG, FORMER_PROCESS_TAG}
"""The tags of processes with an open session, and of commands, which show no life by further tags."""
_POOL_SECONDS: Final = 0.5

log = logging.getLogger("dcc.sessions")


def run_here(
    job: dg.JobDefinition,
    instance: dg.DagsterInstance,
    tags: Mapping[str, str],
    resources: Mapping[str, Any] | None = None,
) -> dg.ExecuteInProcessResult:
    """Execute a job in this process. Dagster prints nothing: the command prints instead.

    Raises KeyboardInterrupt when it is interrupted, and what the job raises.
    """
    try:
        # Between steps, Dagster only notes interrupts, and forgets them with the run.
        with raise_missed_interrupts():
            named = {**tags, **process_tag()}
            return job.execute_in_process(instance=instance, run_config=_QUIET, tags=named, resources=resources)
    except dg.DagsterExecutionInterruptedError:
        raise KeyboardInterrupt from None


def step_of(context: dg.OpExecutionContext) -> RunStep:
    """The step, as events about partitions name it."""
    return RunStep(context.run.run_id, context.job_name, context.get_step_execution_context().step.key)


@contextmanager
def session_work(
    context: dg.OpExecutionContext, session: SessionResource, *kinds: FileSourceResource
) -> Iterator[SessionWork]:
    """The work of the run's crawling session; `kinds` configure the connections to sources of each kind.

    Tags the run with its session and process, or as forestalled, and marks runs of dead processes as failed. Raises as
    SessionResource.work.
    """
    resumed = context.run.tags.get(SESSION_TAG, "")
    request = SessionRequest(
        group=context.run.tags.get(GROUP_TAG),
        only_scheduled=SCHEDULED_TAG in context.run.tags,
        requested_by="Dagster",
    )
    with ExitStack() as stack:
        try:
            wanted = int(resumed) if resumed.isdecimal() else None
            work = stack.enter_context(session.work(request, *kinds, resume=wanted))
        except SessionActiveError:
            context.instance.add_run_tags(context.run.run_id, {FORESTALLED_TAG: "yes"})
            raise
        if not (tags := session_tags(work.session)).items() <= context.run.tags.items():
            context.instance.add_run_tags(context.run.run_id, tags)
        finish_dead_runs(context.instance, work.tracker, work.settings)
        yield work


def session_tags(session: Session) -> dict[str, str]:
    """The tags of a run in a session of this process."""
    tags = {SESSION_TAG: str(session.id), **process_tag()}
    return tags if session.group is None else tags | {GROUP_TAG: session.group.name}


def ready_made(resource: object) -> dg.ResourceDefinition:
    """A resource that Dagster uses as it is, without configuring or closing it."""
    return dg.ResourceDefinition.hardcoded_resource(resource)


def finish_dead_runs(instance: dg.DagsterInstance, tracker: Engine, settings: Settings) -> int:
    """Mark runs as failed whose process died without reporting it; returns their number.

    Otherwise Dagster would wait for them, and for their places in the pool, for ever. A process has died if this
    machine says so, or the machine was started again, or nobody holds the run's session any more. A run has died, too,
    that has had no process for ten minutes, or that has no session and shows no life from another machine. A command's
    run shows none, and has twelve hours.
    """
    dead: list[dg.DagsterRun] = []
    of_sessions: dict[int, list[dg.DagsterRun]] = {}
    for record in instance.get_run_records(dg.RunsFilter(statuses=_UNDER_WAY)):
        run, tags = record.dagster_run, own_tags(instance, record.dagster_run)
        if _has_died(tags, session := _session_in(tags), datetime.now(UTC) - record.update_timestamp):
            dead.append(run)
        elif session is not None:
            of_sessions.setdefault(session, []).append(run)
    if of_sessions:
        for session in run_reading(tracker, lambda connection: sessions_over(connection, settings, of_sessions)):
            dead.extend(of_sessions[session])
    # A process may have ended well since its run was read.
    present = (instance.get_run_by_id(run.run_id) for run in dead)
    dead = [run for run in present if run is not None and not run.is_finished]
    for run in dead:
        instance.report_run_failed(
            run, "The process of this run died. What it had begun is taken up again by the next crawling session."
        )
    _free_pool(instance)
    return len(dead)


def _session_in(tags: Mapping[str, str]) -> int | None:
    """The session of a run; None if it has none, or waits for its turn to open the one that its tag names."""
    number = tags.get(SESSION_TAG, "") if tags.keys() & _TAGS_OF_WORK else ""
    return int(number) if number.isdecimal() else None


def _has_died(tags: Mapping[str, str], session: int | None, age: timedelta) -> bool:
    """Whether a run is dead whose state or tags last changed that long ago, as far as its process tells."""
    process = process_in(tags)
    if process is None:
        return age > _START_TIME
    if process.is_gone or process.is_of_earlier_boot:
        return True
    longest = _TIME_WITHOUT_SESSION if tags.keys() & _TAGS_OF_WORK else _TIME_WITHOUT_LIFE
    return session is None and process.host != Process.this().host and age > longest


def await_pool(instance: dg.DagsterInstance, tracker: Engine, settings: Settings) -> None:
    """Wait until no run has the pool's place; dead ones are finished meanwhile.

    While Dagster itself waits for it, it takes no interrupts.
    """
    is_told = False
    while True:
        finish_dead_runs(instance, tracker, settings)
        holders = instance.event_log_storage.get_concurrency_info(QC_DATABASE_POOL).active_run_ids
        if not holders:
            return
        if not is_told:
            log.info("Waiting for run %s in Dagster, which has the QC database", ", ".join(sorted(holders)))
            is_told = True
        time.sleep(_POOL_SECONDS)


def _free_pool(instance: dg.DagsterInstance) -> None:
    """Free the pool's places of finished runs: a killed process frees none."""
    storage = instance.event_log_storage
    if QC_DATABASE_POOL not in storage.get_concurrency_keys():
        return
    info = storage.get_concurrency_info(QC_DATABASE_POOL)
    for run_id in {*info.active_run_ids, *info.pending_run_ids, *info.assigned_run_ids}:
        run = instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            storage.free_concurrency_slots_for_run(run_id)
