"""`dcc ui` and `dcc daemon`: Dagster's pages, and the daemon that runs schedules and sensors, on this installation."""

from __future__ import annotations

import http.client
import json
import socket
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dcc_cli.context import open_tracker, settings_from_environment
from dcc_cli.dagster_processes import (
    log_format,
    only_daemon,
    running,
    stop_signals,
    wait_for_end,
    wait_until,
    write_workspace,
)
from dcc_resources.errors import ConfigurationError
from dcc_resources.page_hosts import is_any_address, is_loopback, parse_hosts

if TYPE_CHECKING:
    import subprocess

    from dcc_resources.settings import Settings

_ANSWER_SECONDS = 2.0
WEB_SERVER = "dcc_assets.web_server"
"""The module that serves the pages of Dagster and the reports beside them."""


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to serve on. The UI has no login.")
@click.option("--port", type=click.IntRange(1, 65_535), default=3000, show_default=True, help="Port to serve on.")
@click.option("--without-daemon", is_flag=True, help="Only the pages: the daemon runs elsewhere, as dcc daemon.")
@click.option("--read-only", is_flag=True, help="Only the pages, on which nothing can be changed or started.")
def ui(host: str, port: int, without_daemon: bool, read_only: bool) -> None:
    """Serve the Dagster UI, and crawl by the schedule.

    Its daemon picks up new zips. Prints the URL when the UI answers; Ctrl-C stops everything. Nothing is sent to anyone
    but the notifications that you ask for. Whoever can reach the address can use the UI: it is this machine alone
    unless --host says otherwise. For others, put a proxy with a login before it: deploy/nginx has one.

    The UI answers to the names and addresses of this machine alone, to --host and to those in DCC_UI_HOSTS, and refuses
    what pages of other sites ask for.

    With --read-only no database but Dagster's is used, for which an account that may only SELECT is enough (see
    dcc init --production).

    \b
    Examples:
      dcc ui
      dcc ui --port 3001
      dcc ui --without-daemon
      dcc ui --read-only --host 0.0.0.0

    Exit codes: 0 stopped by Ctrl-C or SIGTERM; 2 a database is not initialised, or the port is in use; 3 a daemon runs
    already on this machine; 4 a database cannot be reached; 70 Dagster could not be started.
    """
    settings = settings_from_environment()
    home = _prepare(settings, needs_tracker=not read_only)
    _require_free(host, port)
    if not is_loopback(host):
        served = _served_as(host, settings)
        click.echo(_warning(host, settings), err=True)
        settings = served
    arguments = ["--host", host, "--port", str(port), "--workspace", str(write_workspace(home))]
    arguments += ["--log-level", "warning", *log_format()]
    with stop_signals(), ExitStack() as stack:
        if without_daemon or read_only:
            arguments += ["--dagster-log-level", "warning", *(["--read-only"] if read_only else [])]
            process = stack.enter_context(running(settings, WEB_SERVER, arguments))
        else:
            lock = stack.enter_context(only_daemon(settings))
            process = stack.enter_context(running(settings, WEB_SERVER, ["dev", *arguments], keep=[lock]))
        click.echo("Starting Dagster ...", err=True)
        wait_until(process, lambda: _answers(host, port))
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"The UI is at http://{shown}:{port} (Ctrl-C stops it).")
        sys.stdout.flush()
        wait_for_end(process)
    click.echo("Stopped.", err=True)


@click.command()
def daemon() -> None:
    """Crawl by the schedule and pick up new zips, without a UI.

    Stays in the foreground, as service managers want it, and prints one line when it works. SIGTERM or Ctrl-C stops it,
    with the sessions that it runs, which the next one takes up. There is one on a machine, and one for an installation.
    For the pages beside it: dcc ui --without-daemon, or --read-only.

    \b
    Example:
      dcc daemon

    Exit codes: 0 stopped by Ctrl-C or SIGTERM; 2 a database is not initialised; 3 a daemon runs already on this
    machine; 4 a database cannot be reached; 70 Dagster could not be started, or ended by itself.
    """
    settings = settings_from_environment()
    home = _prepare(settings, needs_tracker=True)
    arguments = ["run", "--workspace", str(write_workspace(home)), "--log-level", "warning", *log_format()]
    with stop_signals(), only_daemon(settings) as lock:
        began = time.time()
        with running(settings, "dagster._daemon", arguments, keep=[lock]) as process:
            click.echo("Starting Dagster ...", err=True)
            _wait_for_heartbeats(settings, process, began)
            click.echo("The daemon runs (Ctrl-C stops it).")
            sys.stdout.flush()
            wait_for_end(process)
    click.echo("Stopped.", err=True)


def _warning(host: str, settings: Settings) -> str:
    said = (
        f"Warning: the UI has no login, and whoever reaches {host} can use it. Serve it on 127.0.0.1 and "
        "put a proxy with a login before it: deploy/nginx has one, docs/operations.md says how."
    )
    if is_any_address(host) and not settings.ui_hosts:
        said += (
            " It answers to no name but localhost so far: list those that it is to be asked for by in DCC_UI_HOSTS, "
            "such as DCC_UI_HOSTS=dcc.example.org."
        )
    return said


def _served_as(host: str, settings: Settings) -> Settings:
    """The settings with the address that is served on among those that the UI answers to, unless it is every one."""
    if is_any_address(host):
        return settings
    try:
        hosts = parse_hosts(host)
    except ValueError as error:
        raise ConfigurationError(f"--host: {error}.") from error
    if len(hosts) != 1:
        raise ConfigurationError("--host: name one address to serve on, such as 127.0.0.1.")
    return settings.model_copy(update={"ui_hosts": ",".join(filter(None, (settings.ui_hosts, host)))})


def _prepare(settings: Settings, *, needs_tracker: bool) -> Path:
    """Check the databases, so that what is wrong is said in a line; the directory of the Dagster instance."""
    from dcc_assets.instance import make_instance

    if needs_tracker:
        with open_tracker(settings):
            pass
    make_instance(settings)
    return settings.dagster_home


def _wait_for_heartbeats(settings: Settings, process: subprocess.Popen[bytes], began: float) -> None:
    from dcc_assets.instance import open_instance

    def beats() -> bool:
        heard = {kind for kind, beat in instance.get_daemon_heartbeats().items() if beat.timestamp >= began}
        return heard >= set(instance.get_required_daemon_types())

    with open_instance(settings) as instance:
        wait_until(process, beats)


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
