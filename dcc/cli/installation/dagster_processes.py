"""Starts Dagster's processes for a command, watches them, and stops them with it."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from dcc.cli.shell.dagster_side import DAEMON, LOCATION_NAME, dagster_side
from dcc.cli.shell.output import print_notice
from dcc.errors import DaemonActiveError, DagsterStorageError, DccError, InternalFaultError
from dcc.runtime.logging_setup import log_plan
from dcc.runtime.private_files import locked, replacement_file

if TYPE_CHECKING:
    from dcc.settings import Settings

log = logging.getLogger(__name__)

_START_SECONDS: Final = 120.0
_ALONE_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.25
_RECENT_SECONDS: Final = 900.0
"""How old the last report of a daemon may be that still runs, with room for clocks that differ."""
_WATCHED_SECONDS: Final = 60.0
"""Twice as long as Dagster's daemon takes between two reports."""
_LOCK_FILE: Final = "daemon.lock"
_STOPPING: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Program:
    """A Python module to run, its arguments, and the descriptors that its process inherits."""

    module: str
    arguments: Sequence[str]
    keep: Sequence[int] = ()


@contextmanager
def stop_signals() -> Iterator[None]:
    """End the block quietly on SIGINT and SIGTERM; further signals do not disturb the end."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
        for ignored in _STOPPING:
            signal.signal(ignored, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in _STOPPING}
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _stopped_later() -> Iterator[None]:
    """Delay SIGINT and SIGTERM to the end of the block.

    They are not blocked: a started process would inherit that.
    """
    noted: list[int] = []
    with ExitStack() as before:
        for number in _STOPPING:
            before.callback(signal.signal, number, signal.getsignal(number))
            signal.signal(number, lambda caught, _frame: noted.append(caught))
        yield
    if noted:
        signal.raise_signal(noted[0])


@contextmanager
def only_daemon(settings: Settings) -> Iterator[int]:
    """Be the only daemon of an instance on this machine; yields the descriptor that Dagster's processes must keep.

    They hold the lock as long as one of them lives, even if the command that started them was killed. Raises
    DaemonActiveError, DagsterStorageError.
    """
    with _daemon_lock(settings, os.O_CREAT, "or use `dcc ui --without-daemon` beside it") as descriptor:
        yield descriptor


@contextmanager
def without_daemon(settings: Settings) -> Iterator[None]:
    """Let no daemon run on this machine meanwhile, and see that none runs on another.

    Raises DaemonActiveError if one runs, DagsterStorageError.
    """
    with ExitStack() as stack:
        # If none has ever run here, there is no lock; one that root makes now could not be used by another user.
        if _lock_path(settings).exists():
            stack.enter_context(_daemon_lock(settings, 0, "then give the command again"))
        _refuse_beating_daemon(settings)
        yield


def _refuse_beating_daemon(settings: Settings) -> None:
    """Raise DaemonActiveError if a daemon on another machine reports to the database of DCC_DAGSTER_URL.

    What it reported before it was stopped stays there. So after a recent report another one is waited for.
    """
    if settings.dagster_url is None or not dagster_side().configuration_path(settings).exists():
        return
    try:
        with dagster_side().open_instance(settings) as instance:
            last = dagster_side().last_daemon_beat(instance)
            if last is None or time.time() - last > _RECENT_SECONDS:
                return
            print_notice("", "A daemon reported lately: looking for a minute whether it still runs ...", logging.INFO)
            deadline = time.monotonic() + _WATCHED_SECONDS
            while dagster_side().last_daemon_beat(instance) == last:
                if time.monotonic() > deadline:
                    return
                time.sleep(_POLL_SECONDS)
    except DccError as error:
        # Nothing reports to a database that is missing or away.
        log.warning("Whether a daemon runs on another machine is not known: %s", error)
        return
    raise DaemonActiveError(
        "A daemon of this installation runs on another machine: it reports to the database of DCC_DAGSTER_URL. Stop "
        "that `dcc daemon` or `dcc ui`, then give the command again."
    )


def _lock_path(settings: Settings) -> Path:
    return settings.dagster_home / _LOCK_FILE


@contextmanager
def _daemon_lock(settings: Settings, flags: int, what_to_do: str) -> Iterator[int]:
    path = _lock_path(settings)
    try:
        descriptor = os.open(path, os.O_RDWR | flags, 0o600)
    except OSError as error:
        raise DagsterStorageError(f"{path} could not be written ({error}). See to its permissions.") from error
    active = DaemonActiveError(
        f"A daemon of this installation runs already: something holds {path}. Stop that `dcc daemon` or `dcc ui`, or "
        f"what one that was killed has left (python -m {DAEMON}), {what_to_do}."
    )
    with locked(descriptor, active):
        yield descriptor


def write_workspace(directory: Path) -> Path:
    """Write the workspace file that loads the installed platform; returns its path."""
    path = directory / "workspace.yaml"
    module = {"module_name": "dcc_definitions", "location_name": LOCATION_NAME}
    # JSON is YAML too. Another command may be reading or writing the file.
    with replacement_file(path) as draft:
        draft.write_text(json.dumps({"load_from": [{"python_module": module}]}) + "\n", "utf-8")
    return path


def log_format() -> list[str]:
    """The option that gives the logs of Dagster's processes the format of this process's log."""
    plan = log_plan()
    return ["--log-format", "json"] if plan is not None and plan.form == "json" else []


@contextmanager
def running(settings: Settings, *programs: Program) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run programs together, each in a process group of its own; all end with the block, and what `start` adds to them.

    Their output goes to standard error.
    """
    processes: list[subprocess.Popen[bytes]] = []
    before = {}
    try:
        try:
            start(settings, processes, *programs)
            yield processes
        finally:
            # Signals from now on do not interrupt stopping, even if one comes right before this.
            for number in _STOPPING:
                before[number] = signal.signal(number, signal.SIG_IGN)
    finally:
        _stop(processes)
        for number, handler in before.items():
            signal.signal(number, handler)


def start(settings: Settings, processes: list[subprocess.Popen[bytes]], *programs: Program) -> None:
    """Start programs beside the processes that run, which they join."""
    environment = {
        **os.environ,
        **dagster_side().dagster_environment(settings),
        **({"DCC_UI_HOSTS": settings.ui_hosts} if settings.ui_hosts else {}),
    }
    # A stop in between would leave an unknown process that has the lock.
    with _stopped_later():
        for program in programs:
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", program.module, *program.arguments],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=sys.stderr.fileno(),
                    start_new_session=True,
                    pass_fds=tuple(program.keep),
                )
            )


def wait_until(processes: Sequence[subprocess.Popen[bytes]], is_up: Callable[[], bool]) -> None:
    """Wait until processes are up; raises InternalFaultError if one ends before, or they take too long."""
    deadline = time.monotonic() + _START_SECONDS
    while not is_up():
        code = _exit_code(processes)
        if code is not None:
            raise InternalFaultError(f"Dagster could not be started (exit code {code}); see what it printed.")
        if time.monotonic() > deadline:
            raise InternalFaultError(
                f"Dagster did not answer within {_START_SECONDS:.0f} seconds; see what it printed."
            )
        time.sleep(_POLL_SECONDS)


def wait_for_end(processes: Sequence[subprocess.Popen[bytes]], workspace: Path) -> None:
    """Wait until a process ends, which none should by itself: raises InternalFaultError.

    Raises DagsterStorageError if the instance with its `workspace` is removed: Dagster would stay, and do nothing.
    """
    while (code := _exit_code(processes)) is None:
        if not workspace.exists():
            raise DagsterStorageError(
                f"{workspace.parent}, the Dagster instance that this uses, was removed. Start it again."
            )
        time.sleep(_POLL_SECONDS)
    raise InternalFaultError(f"Dagster ended by itself, with exit code {code}; see what it printed.")


def _exit_code(processes: Sequence[subprocess.Popen[bytes]]) -> int | None:
    """The exit code of a process that has ended; None while all run."""
    return next((process.returncode for process in processes if process.poll() is not None), None)


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Stop the process groups, gently first.

    Each process is asked to stop, and its own processes only if it has not stopped them: until then they still serve
    it.
    """
    asked = [process for process in processes if process.poll() is None]
    for process in asked:
        # Dagster takes it like SIGINT, which a Python that has only just started would answer with a traceback.
        process.terminate()
    _wait(lambda: all(process.poll() is not None for process in asked), _ALONE_SECONDS)
    groups = [process.pid for process in processes]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        groups = [group for group in groups if _signal_group(group, number)]
        if not groups:
            break
        _wait(lambda: _are_gone(processes), _STOP_SECONDS)
    for process in processes:
        process.wait()


def _are_gone(processes: Sequence[subprocess.Popen[bytes]]) -> bool:
    for process in processes:
        process.poll()
    return not any(_signal_group(process.pid, 0) for process in processes)


def _wait(is_so: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.05)


def _signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; returns whether it had a process."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
