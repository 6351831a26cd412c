"""Dagster's own processes, started by a command, watched while they run, and stopped whole with it."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from dcc_resources.errors import DaemonActiveError, DagsterStorageError, InternalFaultError
from dcc_resources.logging_setup import log_plan
from dcc_resources.private_files import in_place_of

if TYPE_CHECKING:
    from dcc_resources.settings import Settings

# Dagster recommends another command, which needs a project of its own layout.
_UNWANTED_ADVICE = "ignore:Function `dev_command` is superseded"
_START_SECONDS: Final = 120.0
_ALONE_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.25
_LOCK_FILE: Final = "daemon.lock"
_STOPPING: Final = (signal.SIGINT, signal.SIGTERM)


class _StopRequested(BaseException):
    """Somebody wants the processes stopped."""


@contextmanager
def stop_signals() -> Iterator[None]:
    """End the block quietly on SIGINT and SIGTERM; further ones do not disturb the end."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
        for ignored in _STOPPING:
            signal.signal(ignored, signal.SIG_IGN)
        raise _StopRequested

    before = {number: signal.signal(number, stop) for number in _STOPPING}
    try:
        yield
    except _StopRequested:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _stopped_later() -> Iterator[None]:
    """Have SIGINT and SIGTERM act at the end of the block, not within it.

    They are not blocked: a process that is started would inherit that.
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
    """Be the only daemon of this machine on an instance; yields the descriptor that Dagster's processes are to keep.

    They hold the lock as long as one of them lives, also when the command that started them was killed. Raises
    DaemonActiveError, DagsterStorageError.
    """
    path = settings.dagster_home / _LOCK_FILE
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise DagsterStorageError(f"{path} could not be written ({error}). See to its permissions.") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DaemonActiveError(
                f"A daemon of this installation runs already: something holds {path}. Stop that `dcc daemon` or "
                "`dcc ui`, or what one that was killed has left (python -m dagster._daemon), or use "
                "`dcc ui --without-daemon` beside it."
            ) from None
        yield descriptor
    finally:
        os.close(descriptor)


def write_workspace(directory: Path) -> Path:
    """Write the workspace file that loads the platform wherever it is installed; its path."""
    from dcc_assets.session_runs import LOCATION_NAME

    path = directory / "workspace.yaml"
    module = {"module_name": "dcc_definitions", "location_name": LOCATION_NAME}
    # JSON is YAML too. Another command may be reading the file, or writing it.
    with in_place_of(path) as draft:
        draft.write_text(json.dumps({"load_from": [{"python_module": module}]}) + "\n", "utf-8")
    return path


def log_format() -> list[str]:
    """The option by which Dagster's processes say what they do in the form of this process's log."""
    plan = log_plan()
    return ["--log-format", "json"] if plan is not None and plan.form == "json" else []


@contextmanager
def running(
    settings: Settings, module: str, arguments: Sequence[str], keep: Sequence[int] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """A module of Dagster's, run in a process group of its own that ends with the block.

    `keep` are descriptors that it inherits. What it prints goes to standard error.
    """
    from dcc_assets.instance import dagster_environment

    environment = {
        **os.environ,
        **dagster_environment(settings),
        **({"DCC_UI_HOSTS": settings.ui_hosts} if settings.ui_hosts else {}),
        "PYTHONWARNINGS": ",".join(filter(None, (os.environ.get("PYTHONWARNINGS"), _UNWANTED_ADVICE))),
    }
    process = None
    before = {}
    try:
        try:
            # A stop in between would leave a process that nobody knows of, and that holds the lock.
            with _stopped_later():
                process = subprocess.Popen(
                    [sys.executable, "-m", module, *arguments],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=sys.stderr.fileno(),
                    start_new_session=True,
                    pass_fds=tuple(keep),
                )
            yield process
        finally:
            # Whatever is asked meanwhile, it is stopped to the end; also if that comes right before this.
            for number in _STOPPING:
                before[number] = signal.signal(number, signal.SIG_IGN)
    finally:
        if process is not None:
            _stop(process)
        for number, handler in before.items():
            signal.signal(number, handler)


def wait_until(process: subprocess.Popen[bytes], is_up: Callable[[], bool]) -> None:
    """Wait until a process is up; raises InternalFaultError when it ends before, or takes too long."""
    deadline = time.monotonic() + _START_SECONDS
    while not is_up():
        code = process.poll()
        if code is not None:
            raise InternalFaultError(f"Dagster could not be started (exit code {code}); see what it printed.")
        if time.monotonic() > deadline:
            raise InternalFaultError(
                f"Dagster did not answer within {_START_SECONDS:.0f} seconds; see what it printed."
            )
        time.sleep(_POLL_SECONDS)


def wait_for_end(process: subprocess.Popen[bytes]) -> None:
    """Wait for the process to end, which it should not by itself: raises InternalFaultError when it does."""
    code = process.wait()
    raise InternalFaultError(f"Dagster ended by itself, with exit code {code}; see what it printed.")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the process group of `process`, gently first.

    It is asked first, and its own processes where it has not ended them: what it still asks of them is answered.
    """
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ALONE_SECONDS)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if not _signal_group(process.pid, number):
            break
        deadline = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < deadline and _signal_group(process.pid, 0):
            process.poll()
            time.sleep(0.05)
    process.wait()


def _signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; whether there was any process in it."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
