"""What a step needs to know of the run that it is part of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dagster import DagsterInstance, DagsterRunStatus, OpExecutionContext, ResourceDefinition, RunsFilter

from dcc.runtime.processes import Process
from dcc.session.sessions import Session
from dcc_dagster.event_recorder import Step
from dcc_dagster.instance import QC_DATABASE_POOL
from dcc_resources.file_source import FileSourceResource
from dcc_resources.session import SessionResource
from dcc_resources.work import Work

SESSION_TAG: Final = "dcc/session"
"""Tag on every run of a crawling session: the session's id in the tracker."""
GROUP_TAG: Final = "dcc/group"
"""Tag on every run of a session of a group of centres: the group. A run begun with it is such a session."""
STARTED_BY_TAG: Final = "dcc/started_by"
"""Tag on every run that no sensor, schedule or person on Dagster's pages started: the command, or what else did."""

QUIET: Final = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
"""Run configuration under which Dagster prints nothing: what there is to say the command says."""

PROCESS_TAG: Final = ".dagster/dcc_process"
"""Tag on every run of a session: the process that holds it. Dagster hides tags that begin with `.dagster/`."""

_FORMER_PROCESS_TAG: Final = "dcc/process"
"""What runs have that a version before this one began."""

_UNDER_WAY = [DagsterRunStatus.STARTING, DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]


def step_of(context: OpExecutionContext) -> Step:
    """The step, as events about partitions name it."""
    return Step(context.run.run_id, context.job_name, context.get_step_execution_context().step.key)


@contextmanager
def session_work(context: OpExecutionContext, session: SessionResource, *kinds: FileSourceResource) -> Iterator[Work]:
    """The work of the crawling session that the run is part of; `kinds` say how to connect to sources of each kind.

    The run gets the session's tags. Raises what SessionResource.work raises.
    """
    with session.work(_session_to_resume(context), *kinds, group=context.run.tags.get(GROUP_TAG)) as work:
        _tag_session(context, work.session)
        yield work


def _session_to_resume(context: OpExecutionContext) -> int | None:
    """The session that the run's tag names."""
    tag = context.run.tags.get(SESSION_TAG, "")
    return int(tag) if tag.isdecimal() else None


def _tag_session(context: OpExecutionContext, session: Session) -> None:
    """Tag the run with its session and process; finish runs of processes that died as failed."""
    tags = session_tags(session)
    if not tags.items() <= context.run.tags.items():
        context.instance.add_run_tags(context.run.run_id, tags)
    finish_dead_runs(context.instance, besides=context.run.run_id)


def session_tags(session: Session) -> dict[str, str]:
    """The tags of a run that is part of a session held by this process."""
    process = Process.this()
    tags = {SESSION_TAG: str(session.id), PROCESS_TAG: f"{process.host}:{process.pid}:{process.started}"}
    return tags if session.group is None else tags | {GROUP_TAG: session.group.name}


def ready_made(resource: object) -> ResourceDefinition:
    """A resource that is used as it is, and not configured or closed by Dagster."""
    return ResourceDefinition.hardcoded_resource(resource)


def finish_dead_runs(instance: DagsterInstance, *, besides: str = "") -> int:
    """Mark runs as failed whose process, on this machine, is gone without having said so; returns how many.

    Otherwise Dagster would wait for them for ever, and for the place in the pool that a killed one holds.
    """
    dead = [
        run
        for run in instance.get_runs(RunsFilter(statuses=_UNDER_WAY))
        if run.run_id != besides and _is_gone(run.tags.get(PROCESS_TAG) or run.tags.get(_FORMER_PROCESS_TAG, ""))
    ]
    for run in dead:
        instance.report_run_failed(
            run, "The process of this run died. What it had begun is taken up again by the next crawling session."
        )
    _free_pool(instance)
    return len(dead)


def _free_pool(instance: DagsterInstance) -> None:
    """Free the places in the pool that runs hold which are over: a process that is killed frees none."""
    storage = instance.event_log_storage
    if QC_DATABASE_POOL not in storage.get_concurrency_keys():
        return
    info = storage.get_concurrency_info(QC_DATABASE_POOL)
    for run_id in {*info.active_run_ids, *info.pending_run_ids, *info.assigned_run_ids}:
        run = instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            storage.free_concurrency_slots_for_run(run_id)


def _is_gone(tag: str) -> bool:
    found = re.fullmatch(r"(.+):(\d+):(\d*)", tag)
    return found is not None and Process(found[1], int(found[2]), found[3]).is_gone
