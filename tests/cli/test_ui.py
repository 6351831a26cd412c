"""`dcc ui` and `dcc metrics`: where they serve, what they refuse, how they start and stop; means to have them run."""

import http.client
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dcc.cli.installation.dagster_processes import Program
from dcc.cli.shell.dagster_side import DAEMON, WEB_SERVER
from dcc.errors import NotFoundError
from dcc.settings import Settings
from tests.cli.conftest import PROGRAM, Dcc
from tests.support.databases import only_sqlite
from tests.support.ports import free_port
from tests.support.process_trees import descendants
from tests.support.raising import raising
from tests.support.served_page import ServedPage
from tests.support.waiting import wait_until

CHANGE = 'mutation { deletePipelineRun(runId: "none") { __typename } }'
NEVER = "0 0 29 2 *"


@contextmanager
def running(dcc: Dcc, *arguments: object, folder: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """A command that stays until it is stopped."""
    process = subprocess.Popen(
        [PROGRAM, *map(str, arguments)],
        env=dcc.process_environment(),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=90)


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line that a command prints; what it complained of, if it ended instead."""
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdout.readline() or process.stderr.read()


def stopped(process: subprocess.Popen[str], number: signal.Signals) -> str:
    """Stop a command by a signal, which it takes well; what it complained of."""
    process.send_signal(number)
    said, complained = process.communicate(timeout=90)
    assert (process.returncode, said) == (0, "")
    assert complained.splitlines()[-1] == "Stopped."
    assert "Traceback" not in complained
    assert "SupersessionWarning" not in complained
    return complained


def wait_for_the_end_of(pids: set[int]) -> None:
    """Wait until none of the processes is there."""
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


@only_sqlite
def test_a_port_in_use_is_said_to_be(dcc: Dcc) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert f"port {port}" in dcc.error("ui", "--port", port, exit_code=2)


@only_sqlite
@pytest.mark.parametrize("command", ["daemon", "ui"])
@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("DCC_CRAWL_INTERVAL", "61 * * * *", "'61 * * * *' is not a cron expression. Write five fields"),
        ("DCC_GROUP_INTERVALS", "asia=0 1 * * *", "DCC_GROUPS has no group 'asia'. Add it there."),
    ],
)
def test_a_wrong_time_to_crawl_ends_it_at_once(dcc: Dcc, command: str, setting: str, value: str, reason: str) -> None:
    dcc.environment[setting] = value
    assert f"{setting}: {reason}" in dcc.error(command, exit_code=2)


@only_sqlite
def test_serving_others_warns_and_says_how_a_login_is_put_before_it(dcc: Dcc, monkeypatch: pytest.MonkeyPatch) -> None:
    answering: list[str] = []

    def run(settings: Settings, *programs: Program) -> NoReturn:
        answering.append(settings.ui_hosts)
        raise NotFoundError("Nothing is run here.")

    monkeypatch.setattr("dcc.cli.installation.ui.running", run)
    monkeypatch.setattr("dcc.cli.installation.ui._require_free", lambda *_: None)
    for host, hosts, warned, answered in (
        ("127.0.0.1", "", (), ""),
        ("localhost", "dcc.example.org", (), "dcc.example.org"),
        ("0.0.0.0", "", ("has no login", "deploy/nginx", "DCC_UI_HOSTS"), ""),
        ("0.0.0.0", "dcc.example.org", ("has no login", "deploy/nginx"), "dcc.example.org"),
        ("192.0.2.7", "dcc.example.org", ("has no login", "192.0.2.7"), "dcc.example.org,192.0.2.7"),
        ("::", "", ("has no login", "DCC_UI_HOSTS"), ""),
    ):
        dcc.environment["DCC_UI_HOSTS"] = hosts
        said = dcc("ui", "--host", host, "--read-only", exit_code=2).stderr
        assert answering.pop() == answered
        assert ("Warning" in said) is bool(warned), (host, hosts)
        assert all(word in said for word in warned), (host, hosts)
        assert "Nothing is run here." in said


@only_sqlite
def test_addresses_and_names_of_the_page_that_are_none_are_refused(dcc: Dcc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dcc.cli.installation.ui._require_free", lambda *_: None)
    for host in ("", "fe80::1%eth0", "-", "a,b", "a b", "http://localhost"):
        assert "--host" in dcc("ui", "--host", host, "--read-only", exit_code=2).stderr
    for hosts in ("*", "0.0.0.0", "dcc.example.org/page", "http://dcc.example.org", "[::1", "a,b c"):
        dcc.environment["DCC_UI_HOSTS"] = hosts
        error = dcc.error("ui", "--port", free_port(), exit_code=2)
        assert "DCC_UI_HOSTS" in error
        assert "dcc.example.org" in error


def test_the_page_answered_after_little_work(page: ServedPage) -> None:
    """Six seconds of a processor were measured where Dagster's web server alone takes two to be imported."""
    seconds = 9.0
    if page.seconds >= seconds:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", "import dagster_webserver.cli"], check=True, timeout=60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds *= (after.ru_utime - before.ru_utime) / 2
    assert page.seconds < seconds


@only_sqlite
@pytest.mark.parametrize(
    ("option", "is_with_daemon"), [(None, True), ("--without-daemon", False), ("--read-only", False)]
)
def test_the_daemon_follows(
    dcc: Dcc, monkeypatch: pytest.MonkeyPatch, option: str | None, is_with_daemon: bool
) -> None:
    happened: list[object] = []

    @contextmanager
    def run(_: Settings, *programs: Program) -> Iterator[list[Any]]:
        happened.extend(programs)
        yield []

    monkeypatch.setattr("dcc.cli.installation.ui.running", run)
    monkeypatch.setattr("dcc.cli.installation.ui._answers", lambda *_: happened.append("answered") or True)
    monkeypatch.setattr("dcc.cli.installation.ui.start", lambda _, __, *programs: happened.extend(programs))
    monkeypatch.setattr("dcc.cli.installation.ui.wait_for_end", raising(KeyboardInterrupt))
    dcc("ui", "--port", free_port(), *filter(None, [option]))
    pages, answered, *daemon = happened
    assert isinstance(pages, Program)
    assert (pages.module, answered) == (WEB_SERVER, "answered")
    assert ("--watch-overdue" in pages.arguments) is (option == "--without-daemon")
    assert ("--read-only" in pages.arguments) is (option == "--read-only")
    assert [(one.module, len(one.keep)) for one in daemon if isinstance(one, Program)] == [(DAEMON, 1)] * is_with_daemon


@only_sqlite
def test_it_stops_well_while_its_daemon_starts(dcc: Dcc) -> None:
    with running(dcc, "daemon") as daemon:
        assert daemon.stderr is not None
        assert daemon.stderr.readline() == "Starting Dagster ...\n"
        started = descendants(daemon.pid)
        assert started
        stopped(daemon, signal.SIGINT)
        wait_for_the_end_of(started)


def test_it_prints_what_prometheus_reads(dcc: Dcc) -> None:
    dcc.collect("add/H.2013-10-31.1.impc.zip")
    names = {family.name for family in text_string_to_metric_families(dcc("metrics").stdout)}
    assert {"dcc_build_info", "dcc_sessions", "dcc_zip_actions", "dcc_staging_bytes", "dcc_contexts"} <= names
    by_name = {family["name"]: family for family in dcc.json("metrics")}
    assert set(by_name) == names
    (sample,) = by_name["dcc_zip_actions"]["samples"]
    labels = {"centre": "H", "phase": "xsd", "status": "done"}
    assert sample == {"name": "dcc_zip_actions", "labels": labels, "value": 1.0}


@only_sqlite
def test_without_a_tracker_it_prints_the_rest(bare_dcc: Dcc) -> None:
    result = bare_dcc("metrics", exit_code=4)
    assert 'dcc_metrics_part_up{part="tracker"} 0.0' in result.stdout.splitlines()


@only_sqlite
def test_metrics_are_served_until_that_is_stopped(dcc: Dcc) -> None:
    with running(dcc, "metrics", "--serve", "127.0.0.1:0") as process:
        line = line_of(process)
        assert line.startswith("The metrics are at http://127.0.0.1:")
        address = line.split("/")[2]
        connection = http.client.HTTPConnection(address, timeout=60)
        for path in ("/healthz", "/metrics"):
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.status == 200
            body = answer.read()
        connection.close()
        assert b"\ndcc_last_successful_session_end_timestamp_seconds" not in body
        assert b'\ndcc_metrics_part_up{part="tracker"} 1.0' in body
        second = dcc.error("metrics", "--serve", address, exit_code=2)
        assert second.startswith("The metrics cannot be served on 127.0.0.1, port ")
        assert stopped(process, signal.SIGTERM) == "Stopped.\n"
