"""Batches of archives prepared by workers, for a session or a replay: a run with a step for each batch, on the executor
of the settings.

A worker gets only names in the object store, from which it takes the rest, and from the databases and its own
environment. The run is a process of its own, which is ended when workers make no progress.
"""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

import dagster as dg

from dcc.errors import ConfigurationError
from dcc.messages import count_of
from dcc.redaction import redacted
from dcc.runtime.disk_space import lacks_room
from dcc.runtime.logging_setup import plan_from_environment, start_logging
from dcc.runtime.processes import end_with_parent
from dcc.session.batches.exchange import Exchange, Workers, is_replay
from dcc.settings import Settings, load_settings, variable_of
from dcc.settings.notifications import NotificationSettings
from dcc.settings.workers import ExecutorKind
from dcc_assets.runs import SESSION_TAG
from dcc_dagster.executors import BROKER, broker_of, execution_of, executor_of, instance_overrides, require_executor
from dcc_dagster.instance import dagster_environment, open_instance
from dcc_dagster.run_processes import process_tag
from dcc_resources.databases import QcDatabaseResource, TrackerResource

log = logging.getLogger(__name__)

BATCHES_JOB: Final = "prepare_batches"
_RUN: Final = f"""import sys
from dcc.runtime.processes import importing_much
with importing_much():
    from {__name__} import main
main(*sys.argv[1:])"""
_WITH_RUN: Final = ("until", "workers", "k8s_jobs")
"""The settings that each run is given; workers have all others by themselves, and must agree on those of their work."""
_LOOK_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 10.0


class BatchOf(dg.Config):
    """What batches are prepared for: see `dcc.session.batches.exchange.Exchange`."""

    work: str


class BatchNames(dg.Config):
    """The names of batches in the object store."""

    names: list[str]


@dg.op(out=dg.DynamicOut(dg.Nothing), description="The batches, each of which a worker is given.")
def batches(config: BatchNames) -> Iterator[dg.DynamicOutput[None]]:
    """A step for each batch, whose name is the step's key: so workers share no disk."""
    for name in config.names:
        yield dg.DynamicOutput(None, mapping_key=name)


@dg.op(
    ins={"batch": dg.In(dg.Nothing)},
    out=dg.Out(dg.Nothing),
    description="Fetches the archives of a batch, prepares them, and leaves what it found in the object store.",
)
def prepare_batch(
    context: dg.OpExecutionContext, config: BatchOf, tracker: TrackerResource, qc_database: QcDatabaseResource
) -> None:
    """Prepare a batch, as far as there is room on the disks.

    Raises as `dcc.session.batches.worker.prepare_session_batch`, or `dcc.replay.batches.prepare_replay_batch`.
    """
    from dcc.replay.batches import prepare_replay_batch
    from dcc.session.batches.worker import prepare_session_batch

    settings, name = load_settings(), str(context.get_mapping_key())
    if settings.executor is not ExecutorKind.CELERY:
        # Celery's workers have a log already.
        try:
            start_logging(plan_from_environment())
        except ConfigurationError as error:
            # The file of DCC_LOG_FILE may be one of the session's machine.
            context.log.warning(str(error))
    try:
        if is_replay(config.work):
            done = prepare_replay_batch(settings, config.work, name)
        else:
            done = prepare_session_batch(settings, tracker.ready(), qc_database.ready(), config.work, name)
    except Exception as error:
        if not lacks_room(error):
            raise
        context.log.warning(f"What is left of the batch has no room here: {error}")
        return
    context.log.info(f"Put {count_of(done, 'archive')} into the object store")


def prepare_batches() -> dg.JobDefinition:
    """The job for the executor of this process's settings; workers find it by this function's name."""
    settings = load_settings()

    @dg.job(
        name=BATCHES_JOB,
        executor_def=executor_of(settings, [__name__]),
        resource_defs={
            TrackerResource.key: TrackerResource.of(settings),
            QcDatabaseResource.key: QcDatabaseResource.of(settings),
        },
        description="Fetches and prepares archives by workers, a batch a step. A session or a replay starts it.",
    )
    def _prepare_batches() -> None:
        batches().map(lambda batch: prepare_batch(batch=batch))

    return _prepare_batches


def run_config(settings: Settings, work: str, names: Sequence[str]) -> dict[str, Any]:
    """A run's configuration: names, and that of the executor."""
    configuration: dict[str, Any] = {
        "ops": {
            "batches": {"config": {"names": list(names)}},
            "prepare_batch": {"config": {"work": work}},
        }
    }
    if execution := execution_of(settings):
        configuration["execution"] = {"config": execution}
    if settings.executor is ExecutorKind.MULTIPROCESS:
        # What failed `main` says in a line of the log.
        configuration["loggers"] = {"console": {"config": {"log_level": "CRITICAL"}}}
    return configuration


@dataclass(frozen=True)
class DagsterWorkers:
    """Workers on the executor of the settings; see `Workers`."""

    settings: Settings

    def run(self, results: Exchange, names: Sequence[str], check: Callable[[], object]) -> None:
        """Have batches prepared in a run; returns when it ends, or when workers make no progress for too long."""
        given = {variable_of(name): f"{getattr(self.settings, name)}" for name in _WITH_RUN}
        environment = os.environ | dagster_environment(self.settings) | given
        if self.settings.broker is not None:
            environment[BROKER] = broker_of(self.settings)
        command = [sys.executable, "-c", _RUN, results.work, *names]
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as run:
            try:
                self._wait(run, check, results)
            finally:
                _stop(run)

    def _wait(self, run: subprocess.Popen[bytes], check: Callable[[], object], results: Exchange) -> None:
        before, since = results.look(), time.monotonic()
        while run.poll() is None:
            check()
            time.sleep(_LOOK_SECONDS)
            if time.monotonic() - since > self.settings.worker_patience:
                found = results.look()
                if found == before:
                    log.warning("Workers have left nothing for %g s", self.settings.worker_patience)
                    return
                before, since = found, time.monotonic()


def _stop(run: subprocess.Popen[bytes]) -> None:
    run.terminate()
    try:
        run.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        run.kill()


def workers_of(settings: Settings) -> Workers | None:
    """The workers of the settings; None if all is done without. Raises ConfigurationError.

    Workers have the settings of their environment: what a run with other values does, it does by itself.
    """
    require_executor(settings)
    if settings.executor is ExecutorKind.IN_PROCESS:
        return None
    of_session = {*_WITH_RUN, *NotificationSettings.model_fields}
    if others := [name for name in settings.differences(load_settings()) if name not in of_session]:
        log.warning("Workers do not have this run's %s: it prepares archives by itself", ", ".join(others))
        return None
    return DagsterWorkers(settings)


def main(work: str, *names: str) -> None:
    """Run batches, by their names."""
    end_with_parent()
    start_logging(plan_from_environment())
    settings = load_settings()
    with open_instance(settings, instance_overrides(settings)) as instance:
        run = dg.execute_job(
            dg.reconstructable(prepare_batches),
            instance=instance,
            run_config=run_config(settings, work, names),
            tags=process_tag() if is_replay(work) else process_tag() | {SESSION_TAG: PurePosixPath(work).name},
            raise_on_error=False,
        )
        for event in run.filter_events(lambda event: event.is_step_failure):
            error = event.step_failure_data.error
            why = "its process died" if error is None else (error.cause or error).message.strip().rstrip(".")
            log.error("%s failed: %s. Its run in Dagster, %s, says more.", event.step_key, redacted(why), run.run_id)
