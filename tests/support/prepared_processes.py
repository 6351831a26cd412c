"""Processes of their own that begin at once, for the tests to kill, or to run `dcc` in.

They are forked from one that has imported what they need and does nothing else: it has no thread, no connection and
nothing of the test process.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from multiprocessing import forkserver, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

import pytest

from dcc.replay import worker as replay_worker
from dcc.runtime import worker_processes
from dcc.settings import Settings
from tests.support.environments import of_installation

FORKED: Final = get_context("forkserver")
_PROGRAMS: Final = {"dcc": "dcc.cli.main", "dagster": "dagster._cli"}


def preload(*more: str) -> None:
    """Have the process that others are forked from import these modules too, unless it runs already.

    A test process has one such process alone, and whoever says last what it imports decides for all.
    """
    FORKED.set_forkserver_preload(["tests.support.preloaded", *more])


preload()


def run_in_process(
    work: Callable[[str], object], argument: str, settings: Mapping[str, str], *, seconds: float = 60
) -> int | None:
    """Do `work` in a process with these settings in its environment, and no others of the platform.

    How it ended: 0, 1 when `work` raised, minus the signal that killed it, or None when it took more than `seconds`.
    """
    process = FORKED.Process(target=_run, args=(work, argument, dict(settings)))
    process.start()
    return ended(process, seconds)


def run_dying(work: Callable[[str], object], argument: str, settings: Settings) -> None:
    """Do `work` on the installation of these settings in a process, which kills itself by SIGKILL."""
    assert run_in_process(work, argument, of_installation(settings)) == -signal.SIGKILL


@contextmanager
def holding(work: Callable[..., object], *arguments: object) -> Iterator[tuple[BaseProcess, Any]]:
    """A process that does `work(said, *arguments)`, and what that sent by `said` first; it is killed at the end."""
    heard, said = FORKED.Pipe(duplex=False)
    process = FORKED.Process(target=work, args=(said, *arguments), daemon=True)
    process.start()
    try:
        assert heard.poll(60)
        yield process, heard.recv()
    finally:
        process.kill()
        process.join(60)


def run_dcc(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    output: Path,
    errors: Path,
    *,
    program: str = "dcc",
    seconds: float = 60,
) -> int | None:
    """Run `dcc` with these arguments in a folder, with this environment alone; what it prints is added to two files.

    They may be the same file. `program` may be `dagster` too.

    Its exit code, or None when it took more than `seconds`.
    """
    return ended(begin([program, *arguments], folder, environment, output, errors), seconds)


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that work for this one begin at once too, where they need no module before all others."""
    spawned = worker_processes.start_worker
    # In the usual folder for temporary files.
    forkserver.ensure_running()

    def started(begin: Callable[[], object]) -> tuple[Any, Connection]:
        if isinstance(begin, partial) and begin.func is replay_worker.begin and begin.args[0] is not None:
            # Proposed rules are loaded before all that uses rules.
            return spawned(begin)
        here, there = FORKED.Pipe()
        process = FORKED.Process(target=_work, args=(there, begin), daemon=True)
        process.start()
        there.close()
        process.wait = process.join  # type: ignore[attr-defined]
        return process, here

    monkeypatch.setattr(worker_processes, "start_worker", started)


def _work(connection: Connection, begin: Callable[[], object]) -> None:
    # Its parent is the process from which it is forked.
    worker_processes.serve(connection, os.getppid(), begin)


def begin(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], output: Path, errors: Path
) -> BaseProcess:
    """Begin what `run_dcc` waits for; the command begins with the program."""
    process = FORKED.Process(target=run_here, args=(list(command), folder, dict(environment), output, errors))
    process.start()
    return process


def ended(process: BaseProcess, seconds: float = 60) -> int | None:
    """Wait for the end of a process; its exit code, or None when it took longer and was killed."""
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
        return None
    return process.exitcode


def run_here(arguments: list[str], folder: Path, environment: Mapping[str, str], output: Path, errors: Path) -> None:
    """Be what `run_dcc` begins: this process becomes it."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    with output.open("ab", buffering=0) as of_output, errors.open("ab", buffering=0) as of_errors:
        os.dup2(of_output.fileno(), 1)
        os.dup2(of_errors.fileno(), 2)
    sys.argv = arguments
    import_module(_PROGRAMS[arguments[0]]).main()


def _run(work: Callable[[str], object], argument: str, settings: dict[str, str]) -> None:
    for name in [name for name in os.environ if name.startswith("DCC_")]:
        del os.environ[name]
    os.environ.update(settings)
    work(argument)
