"""What a step needs to know of its run, and how a command executes one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import dagster as dg

from dcc.operations.session_work import SessionWork
from dcc.runtime.interrupts import raise_missed_interrupts
from dcc.runtime.processes import Process
from dcc.session.session_request import SessionRequest
from dcc.session.sessions import Session
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
"""Tag of every run of a session: its process. Dagster hides tags that begin with `.dagster/`."""

_FORMER_PROCESS_TAG: Final = "dcc/process"
"""The tag of runs that earlier versions started."""

_UNDER_WAY = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
UNFINISHED: Final = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, *_UNDER_WAY]
"""The states of runs that have not ended."""


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
            return job.execute_in_process(instance=instance, run_config=_QUIET, tags=dict(tags), resources=resources)
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
        tags = session_tags(work.session)
        if not tags.items() <= context.run.tags.items():
            context.instance.add_run_tags(context.run.run_id, tags)
        finish_dead_runs(context.instance, excluding=context.run.run_id)
        yield work


def session_tags(session: Session) -> dict[str, str]:
    """The tags of a run in a session of this process."""
    process = Process.this()
    tags = {SESSION_TAG: str(session.id), PROCESS_TAG: f"{process.host}:{process.pid}:{process.started}"}
    return tags if session.group is None else tags | {GROUP_TAG: session.group.name}


def ready_made(resource: object) -> dg.ResourceDefinition:
    """A resource that Dagster uses as it is, without configuring or closing it."""
    return dg.ResourceDefinition.hardcoded_resource(resource)


def finish_dead_runs(instance: dg.DagsterInstance, *, excluding: str = "") -> int:
    """Mark runs as failed whose process on this machine died without reporting it; returns their number.

    Otherwise Dagster would wait for them, and for their places in the pool, for ever.
    """
    dead = [
        run
        for run in instance.get_runs(dg.RunsFilter(statuses=_UNDER_WAY))
        if run.run_id != excluding and _is_gone(run.tags.get(PROCESS_TAG) or run.tags.get(_FORMER_PROCESS_TAG, ""))
    ]
    for run in dead:
        instance.report_run_failed(
            run, "The process of this run died. What it had begun is taken up again by the next crawling session."
        )
    _free_pool(instance)
    return len(dead)


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


def _is_gone(tag: str) -> bool:
    found = re.fullmatch(r"(.+):(\d{1,9}):(\d*)", tag)
    return found is not None and Process(found[1], int(found[2]), found[3]).is_gone
