"""`dcc ui` and `dcc daemon`: Dagster's pages, and the daemon that runs schedules and sensors, for this installation."""

from __future__ import annotations

import http.client
import json
import socket
import sys
import time
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dcc.cli.installation.dagster_processes import (
    Program,
    log_format,
    only_daemon,
    running,
    start,
    stop_signals,
    wait_for_end,
    wait_until,
    write_workspace,
)
from dcc.cli.shell.context import open_tracker, settings_from_environment
from dcc.cli.shell.dagster_side import DAEMON, WEB_SERVER, dagster_side
from dcc.cli.shell.group import command
from dcc.errors import ConfigurationError
from dcc.runtime.installed_packages import RULES, added_entries

if TYPE_CHECKING:
    from dcc.settings import Settings

_ANSWER_SECONDS = 2.0


@command(
    examples=["dcc ui", "dcc ui --port 3001", "dcc ui --without-daemon", "dcc ui --read-only --host 0.0.0.0"],
    exits={
        0: "stopped by Ctrl-C or SIGTERM",
        2: "a database is not initialised, or the port is in use",
        3: "a daemon is running already on this machine",
        4: "the Dagster instance was removed meanwhile",
        70: "Dagster could not be started",
    },
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to serve on. The UI has no login.")
@click.option("--port", type=click.IntRange(1, 65_535), default=3000, show_default=True, help="Port to serve on.")
@click.option("--without-daemon", is_flag=True, help="Only the pages: the daemon runs elsewhere, as dcc daemon.")
@click.option("--read-only", is_flag=True, help="Only the pages, on which nothing can be changed or started.")
def ui(host: str, port: int, without_daemon: bool, read_only: bool) -> None:
    """Serve the Dagster UI, and crawl by the schedule.

    Its daemon processes new archives. The command prints the URL when the UI answers; Ctrl-C stops everything. Nothing
    is sent to anyone except the notifications that you ask for. Whoever can reach the address can use the UI: only this
    machine, unless you give --host. For others, put a proxy with a login before it: deploy/nginx has one.

    The UI answers only to the names and addresses of this machine, to --host and to those in DCC_UI_HOSTS, and refuses
    requests from pages of other sites.

    With --read-only an account with SELECT alone is enough for Dagster's database (see dcc init --production). The
    pages at /dcc/ also read the tracker and the QC database, if DCC_TRACKER_URL and DCC_QC_URL lead to them.
    """
    from dcc.settings.hosts import is_loopback

    settings = settings_from_environment()
    workspace = _prepare(settings, needs_tracker=not read_only)
    _require_free(host, port)
    if not is_loopback(host):
        settings = _served_to_others(host, settings)
    options = [*(["--read-only"] if read_only else []), *(["--watch-overdue"] if without_daemon else [])]
    pages = Program(WEB_SERVER, ["--host", host, "--port", str(port), *options, *_common_options(workspace)])
    with stop_signals(), ExitStack() as stack:
        lock = None if without_daemon or read_only else stack.enter_context(only_daemon(settings))
        processes = stack.enter_context(running(settings, pages))
        click.echo("Starting Dagster ...", err=True)
        wait_until(processes, lambda: _answers(host, port))
        if lock is not None:
            # Later, since a person waits for the pages, and both take seconds of a processor to start.
            start(settings, processes, _daemon_program(workspace, lock))
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"The UI is at http://{shown}:{port} (Ctrl-C stops it).")
        sys.stdout.flush()
        wait_for_end(processes, workspace)
    click.echo("Stopped.", err=True)


@command(
    examples=["dcc daemon"],
    exits={
        0: "stopped by Ctrl-C or SIGTERM",
        2: "a setting is wrong, or a database is not initialised",
        3: "a daemon is running already on this machine",
        4: "the Dagster instance was removed meanwhile",
        70: "Dagster could not be started, or ended by itself",
    },
)
def daemon() -> None:
    """Crawl by the schedule and process new archives, without a UI.

    It stays in the foreground, as service managers want it, and prints one line when it works. SIGTERM or Ctrl-C stops
    it with its sessions, which the next one continues. Run one on a machine, and one for an installation. For the
    pages: dcc ui --without-daemon, or --read-only.
    """
    settings = settings_from_environment()
    workspace = _prepare(settings, needs_tracker=True)
    with stop_signals(), only_daemon(settings) as lock:
        began = time.time()
        with running(settings, _daemon_program(workspace, lock)) as processes:
            click.echo("Starting Dagster ...", err=True)
            with dagster_side().open_instance(settings) as instance:
                wait_until(processes, lambda: dagster_side().daemon_beats(instance, began))
            click.echo("The daemon runs (Ctrl-C stops it).")
            sys.stdout.flush()
            wait_for_end(processes, workspace)
    click.echo("Stopped.", err=True)


def _daemon_program(workspace: Path, lock: int) -> Program:
    # The daemon replaces its code server every minute, and the former one would warn of that as it ends.
    options = ["--code-server-log-level", "error", *_common_options(workspace)]
    return Program(DAEMON, ["run", *options], keep=[lock])


def _common_options(workspace: Path) -> list[str]:
    return ["--workspace", str(workspace), "--log-level", "warning", *log_format()]


def _served_to_others(host: str, settings: Settings) -> Settings:
    """Warn of it; returns the settings with the served address among the UI's hosts, unless it is a wildcard."""
    from dcc.settings.hosts import is_any_address, parse_hosts

    is_any = is_any_address(host)
    try:
        hosts = parse_hosts(host) if not is_any else [host]
    except ValueError as error:
        raise ConfigurationError(f"--host: {error}.") from error
    if len(hosts) != 1:
        raise ConfigurationError("--host: name one address to serve on, such as 127.0.0.1.")
    unnamed = (
        " It answers to no name but localhost so far: list those that it is to be asked for by in DCC_UI_HOSTS, "
        "such as DCC_UI_HOSTS=dcc.example.org."
    )
    click.echo(
        f"Warning: the UI has no login, and whoever reaches {host} can use it. Serve it on 127.0.0.1 and "
        "put a proxy with a login before it: deploy/nginx has one, docs/operations/security.md says how."
        f"{unnamed if is_any and not settings.ui_hosts else ''}",
        err=True,
    )
    named = filter(None, (settings.ui_hosts, None if is_any else host))
    return settings.model_copy(update={"ui_hosts": ",".join(named)})


def _prepare(settings: Settings, *, needs_tracker: bool) -> Path:
    """Check settings and databases, so that a problem is reported in a line; returns Dagster's workspace file."""
    if added_entries(RULES):
        # Dagster would tell of a package that cannot be loaded by a traceback, again and again.
        import_module("dcc.rules.checking")
    dagster_side().require_crawl_intervals(settings)
    if needs_tracker:
        with open_tracker(settings):
            pass
    dagster_side().make_instance(settings)
    return write_workspace(settings.dagster_home)


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
