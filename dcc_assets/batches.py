"""Batches of archives fetched and prepared by workers: a run with a step for each batch, on the executor of the
settings.

A worker gets only the names of its session and batch; it takes the rest from the object store, the databases and its
own environment. The run is a process of its own, which the session ends when workers make no progress.
"""

import importlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dagster import (
    Config,
    DynamicOut,
    DynamicOutput,
    In,
    InputContext,
    IOManager,
    IOManagerDefinition,
    JobDefinition,
    Nothing,
    OpExecutionContext,
    Out,
    OutputContext,
    execute_job,
    job,
    op,
    reconstructable,
)

from dcc.runtime.processes import end_with_parent
from dcc.session.batches.results import FromWorkers, Workers
from dcc.settings import Settings, load_settings
from dcc.settings.workers import ExecutorKind
from dcc_assets.runs import SESSION_TAG
from dcc_dagster.executors import BROKER, broker_of, execution_of, executor_of, instance_overrides, require_executor
from dcc_dagster.instance import dagster_environment, open_instance
from dcc_resources.databases import QcDatabaseResource, TrackerResource

log = logging.getLogger(__name__)

BATCHES_JOB: Final = "prepare_batches"
_NAMES: Final = "names"
_LOOK_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 10.0


class _Names(IOManager):
    """Passes only the names of batches, which are in the keys of the steps, so that workers share no disk."""

    def handle_output(self, context: OutputContext, obj: object) -> None:
        """Nothing to keep."""

    def load_input(self, context: InputContext) -> str:
        """The name of the batch."""
        upstream = context.upstream_output
        return "" if upstream is None else upstream.mapping_key or ""


class BatchNames(Config):
    """The session, and the names of its batches in the object store."""

    session_id: int
    names: list[str]


class BatchOfSession(Config):
    """The session that batches are prepared for."""

    session_id: int


@op(
    out=DynamicOut(str, io_manager_key=_NAMES),
    description="The batches of the session, each of which a worker is given.",
)
def batches(config: BatchNames) -> Iterator[DynamicOutput[str]]:
    """A step for each batch."""
    for name in config.names:
        yield DynamicOutput(name, mapping_key=name)


@op(
    ins={"name": In(str)},
    out=Out(Nothing, io_manager_key=_NAMES),
    description="Fetches the archives of a batch from their file source, prepares them, and leaves them in the store.",
)
def prepare_batch(
    context: OpExecutionContext,
    config: BatchOfSession,
    tracker: TrackerResource,
    qc_database: QcDatabaseResource,
    name: str,
) -> None:
    """Prepare a batch. Raises as `dcc.session.batches.worker.prepare_batch`."""
    from dcc.session.batches.worker import prepare_batch as prepare

    done = prepare(load_settings(), tracker.ready(), qc_database.ready(), config.session_id, name)
    context.log.info(f"{done} archives are in the object store")


def prepare_batches() -> JobDefinition:
    """The job for the settings of this process; workers find it by this function's name."""
    return batches_job(load_settings())


def batches_job(settings: Settings) -> JobDefinition:
    """The job for the executor of the settings."""

    @job(
        name=BATCHES_JOB,
        executor_def=executor_of(settings, [__name__]),
        resource_defs={
            _NAMES: IOManagerDefinition.hardcoded_io_manager(_Names()),
            TrackerResource.key: TrackerResource.of(settings),
            QcDatabaseResource.key: QcDatabaseResource.of(settings),
        },
        description="Fetches and prepares archives by workers, a batch a step. A session starts it.",
    )
    def _prepare_batches() -> None:
        batches().map(prepare_batch)

    return _prepare_batches


def run_config(settings: Settings, session_id: int, names: Sequence[str]) -> dict[str, Any]:
    """A run's configuration: names, and that of the executor."""
    configuration: dict[str, Any] = {
        "ops": {
            "batches": {"config": {"session_id": session_id, "names": list(names)}},
            "prepare_batch": {"config": {"session_id": session_id}},
        }
    }
    if execution := execution_of(settings):
        configuration["execution"] = {"config": execution}
    return configuration


@dataclass(frozen=True)
class DagsterWorkers:
    """Workers on the executor of the settings; see `Workers`."""

    settings: Settings

    def run(self, session_id: int, names: Sequence[str], check: Callable[[], object], results: FromWorkers) -> None:
        """Have batches prepared in a run; returns when it ends, or when workers make no progress for too long."""
        environment = os.environ | dagster_environment(self.settings)
        if self.settings.broker is not None:
            environment[BROKER] = broker_of(self.settings)
        command = [sys.executable, "-m", "dcc_assets.batches", str(session_id), *names]
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as run:
            try:
                self._wait(run, check, results)
            finally:
                _stop(run)

    def _wait(self, run: subprocess.Popen[bytes], check: Callable[[], object], results: FromWorkers) -> None:
        there, since = results.look(), time.monotonic()
        while run.poll() is None:
            check()
            time.sleep(_LOOK_SECONDS)
            if time.monotonic() - since > self.settings.worker_patience:
                found = results.look()
                if found == there:
                    log.warning("Workers have left nothing for %g s", self.settings.worker_patience)
                    return
                there, since = found, time.monotonic()


def _stop(run: subprocess.Popen[bytes]) -> None:
    if run.poll() is None:
        run.terminate()
        try:
            run.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            run.kill()


def workers_of(settings: Settings) -> Workers | None:
    """The workers of the settings; None if the session does everything itself. Raises ConfigurationError."""
    require_executor(settings)
    return None if settings.executor is ExecutorKind.IN_PROCESS else DagsterWorkers(settings)


def main(session_id: str, *names: str) -> None:
    """Run batches of a session, by their names."""
    end_with_parent()
    settings = load_settings()
    with open_instance(settings, instance_overrides(settings)) as instance:
        execute_job(
            reconstructable(prepare_batches),
            instance=instance,
            run_config=run_config(settings, int(session_id), names),
            tags={SESSION_TAG: session_id},
            raise_on_error=False,
        )


if __name__ == "__main__":
    # Workers find the job by the module's name.
    importlib.import_module("dcc_assets.batches").main(*sys.argv[1:])
