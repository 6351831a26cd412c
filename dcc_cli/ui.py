"""`dcc ui`: the Dagster UI, with the daemon that runs schedules and sensors, on this installation."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from dcc_cli.context import open_tracker, settings_from_environment
from dcc_resources.errors import ConfigurationError, InternalFaultError

if TYPE_CHECKING:
    from dcc_resources.settings import Settings

# Dagster recommends another command, which needs a project of its own layout.
_UNWANTED_ADVICE = "ignore:Function `dev_command` is superseded"
_START_SECONDS = 120.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.25
_ANSWER_SECONDS = 2.0


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to serve on. Dagster's UI has no login.")
@click.option("--port", type=click.IntRange(1, 65_535), default=3000, show_default=True, help="Port to serve on.")
def ui(host: str, port: int) -> None:
    """Serve the Dagster UI, and crawl by the schedule.

    Its daemon picks up new zips. Prints the URL when the UI answers; Ctrl-C stops everything. Nothing is sent to
    anyone. Whoever can reach the address can use the UI: it is this machine alone unless --host says otherwise.

    \b
    Examples:
      dcc ui
      dcc ui --port 3001

    Exit codes: 0 stopped by Ctrl-C or SIGTERM; 2 the tracker is not initialised, or the port is in use; 4 the tracker
    cannot be reached; 70 Dagster could not be started.
    """
    from dcc_assets.instance_configuration import prepare_dagster_home

    settings = settings_from_environment()
    with open_tracker(settings):
        pass
    _require_free(host, port)
    workspace = _write_workspace(prepare_dagster_home(settings))
    with _stop_signals(), _dagster(settings, workspace, host, port) as process:
        click.echo("Starting Dagster ...", err=True)
        _wait_until_it_answers(process, host, port)
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"The UI is at http://{shown}:{port} (Ctrl-C stops it).")
        sys.stdout.flush()
        code = process.wait()
        raise InternalFaultError(f"Dagster ended by itself, with exit code {code}; see what it printed.")
    click.echo("Stopped.", err=True)


class _StopRequested(BaseException):
    """Somebody wants the UI stopped."""


@contextmanager
def _stop_signals() -> Iterator[None]:
    """End the block quietly on SIGINT and SIGTERM; further ones do not disturb the end."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
        for ignored in (signal.SIGINT, signal.SIGTERM):
            signal.signal(ignored, signal.SIG_IGN)
        raise _StopRequested

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except _StopRequested:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _require_free(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise ConfigurationError(
            f"The UI cannot be served on {host}, port {port}: {error.strerror or error}. Choose others: --host, --port."
        ) from error


def _write_workspace(directory: Path) -> Path:
    """The workspace file that loads the platform wherever it is installed; the checkout's own may not be at hand."""
    from dcc_assets.session_runs import LOCATION_NAME

    path = directory / "workspace.yaml"
    module = {"module_name": "dcc_definitions", "location_name": LOCATION_NAME}
    # JSON is YAML too.
    path.write_text(json.dumps({"load_from": [{"python_module": module}]}) + "\n", "utf-8")
    return path


@contextmanager
def _dagster(settings: Settings, workspace: Path, host: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Dagster's web server, daemon and code server, in a process group of their own that ends with the block."""
    command = [sys.executable, "-m", "dagster", "dev", "--host", host, "--port", str(port)]
    command += ["--workspace", str(workspace), "--log-level", "warning"]
    environment = {
        **os.environ,
        "DCC_HOME": str(settings.home),
        "DAGSTER_HOME": str(settings.dagster_home),
        "PYTHONWARNINGS": ",".join(filter(None, (os.environ.get("PYTHONWARNINGS"), _UNWANTED_ADVICE))),
    }
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), start_new_session=True
    )
    try:
        yield process
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the process group of `process`, gently first."""
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


def _wait_until_it_answers(process: subprocess.Popen[bytes], host: str, port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not _answers(host, port):
        code = process.poll()
        if code is not None:
            raise InternalFaultError(f"Dagster could not be started (exit code {code}); see what it printed.")
        if time.monotonic() > deadline:
            raise InternalFaultError(
                f"Dagster did not answer within {_START_SECONDS:.0f} seconds; see what it printed."
            )
        time.sleep(_POLL_SECONDS)


def _answers(host: str, port: int) -> bool:
    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    connection = http.client.HTTPConnection(target, port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", "/server_info")
        answer = connection.getresponse()
        return answer.status == http.HTTPStatus.OK and "dagster_webserver_version" in json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()
