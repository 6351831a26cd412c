"""What a step needs to know of its run, and how a command executes one."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import dagster as dg
from sqlalchemy import Engine

from dcc.databases.transactions import run_reading
from dcc.operations.session_work import SessionWork
from dcc.runtime.interrupts import raise_missed_interrupts
from dcc.runtime.processes import Process
from dcc.session.leases import sessions_over
from dcc.session.session_request import SessionRequest
from dcc.session.sessions import Session
from dcc.settings import Settings
from dcc_dagster.event_recorder import RunStep
from dcc_dagster.instance import QC_DATABASE_POOL
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

_QUIET: Final = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}

PROCESS_TAG: Final = ".dagster/dcc_process"
"""Tag of every run that has begun its work: its process. Dagster hides tags that begin with `.dagster/`."""

_FORMER_PROCESS_TAG: Final = "dcc/process"
"""The tag of runs that earlier versions started."""

_UNDER_WAY = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
UNFINISHED: Final = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, *_UNDER_WAY]
"""The states of runs that have not ended."""

_START_TIME: Final = timedelta(minutes=10)
"""How long the start of a run may take, with the pull of an image."""
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
            named = {**tags, **_process_tag()}
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

    Tags the run with its session and process, and marks runs of dead processes as failed. Raises as
    SessionResource.work.
    """
    resumed = context.run.tags.get(SESSION_TAG, "")
    request = SessionRequest(
        group=context.run.tags.get(GROUP_TAG),
        only_scheduled=SCHEDULED_TAG in context.run.tags,
        requested_by="Dagster",
    )
    with session.work(request, *kinds, resume=int(resumed) if resumed.isdecimal() else None) as work:
        _tag(context, session_tags(work.session))
        finish_dead_runs(context.instance, work.tracker, work.settings, excluding=context.run.run_id)
        yield work


def tag_with_process(context: dg.OpExecutionContext | dg.AssetExecutionContext) -> None:
    """Tag a run without a session with its process, so that it can be finished when that dies."""
    _tag(context, _process_tag())


def _tag(context: dg.OpExecutionContext | dg.AssetExecutionContext, tags: Mapping[str, str]) -> None:
    if not tags.items() <= context.run.tags.items():
        context.instance.add_run_tags(context.run.run_id, tags)


def session_tags(session: Session) -> dict[str, str]:
    """The tags of a run in a session of this process."""
    tags = {SESSION_TAG: str(session.id), **_process_tag()}
    return tags if session.group is None else tags | {GROUP_TAG: session.group.name}


def _process_tag() -> dict[str, str]:
    process = Process.this()
    return {PROCESS_TAG: f"{process.host}:{process.pid}:{process.started}"}


def ready_made(resource: object) -> dg.ResourceDefinition:
    """A resource that Dagster uses as it is, without configuring or closing it."""
    return dg.ResourceDefinition.hardcoded_resource(resource)


def finish_dead_runs(instance: dg.DagsterInstance, tracker: Engine, settings: Settings, *, excluding: str = "") -> int:
    """Mark runs as failed whose process died without reporting it; returns their number.

    Otherwise Dagster would wait for them, and for their places in the pool, for ever. A process has died if this
    machine says so, or the machine was started again, or nobody holds the run's session any more. A run without a
    process yet is dead if its start takes too long.
    """
    under_way = {
        run.run_id: run for run in instance.get_runs(dg.RunsFilter(statuses=_UNDER_WAY)) if run.run_id != excluding
    }
    processes = {
        run_id: process
        for run_id, run in under_way.items()
        if (process := _process_of(run)) is not None and not _is_copied(instance, run)
    }
    dead = {run_id for run_id, process in processes.items() if process.is_gone or process.is_of_earlier_boot}
    if without_process := list(under_way.keys() - processes.keys()):
        statuses, before = [dg.DagsterRunStatus.STARTING], datetime.now(UTC) - _START_TIME
        starting = dg.RunsFilter(run_ids=without_process, statuses=statuses, updated_before=before)
        dead |= {run.run_id for run in instance.get_runs(starting)}
    sessions = {
        run_id: int(number)
        for run_id in processes.keys() - dead
        if (number := under_way[run_id].tags.get(SESSION_TAG, "")).isdecimal()
    }
    if sessions:
        over = run_reading(tracker, lambda connection: sessions_over(connection, settings, sessions.values()))
        dead |= {run_id for run_id, session_id in sessions.items() if session_id in over}
    for run_id in dead:
        instance.report_run_failed(
            under_way[run_id],
            "The process of this run died. What it had begun is taken up again by the next crawling session.",
        )
    _free_pool(instance)
    return len(dead)


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


def _is_copied(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether a run's process is that of the run that it repeats: Dagster copies the tags of that one."""
    repeated = None if run.parent_run_id is None else instance.get_run_by_id(run.parent_run_id)
    return repeated is not None and _process_of(repeated) == _process_of(run)


def _process_of(run: dg.DagsterRun) -> Process | None:
    found = re.fullmatch(r"(.+):(\d{1,9}):(\d*)", run.tags.get(PROCESS_TAG) or run.tags.get(_FORMER_PROCESS_TAG, ""))
    return None if found is None else Process(found[1], int(found[2]), found[3])
