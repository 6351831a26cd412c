"""`dcc ui`: the real web server and daemon, from any directory, stopped whole."""

from __future__ import annotations

import json
import signal
import socket
import sqlite3
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from dcc.cli.installation import dagster_processes
from dcc.cli.installation.dagster_processes import Program
from dcc.errors import InternalFaultError, NotFoundError
from dcc.settings import Settings, load_settings
from dcc_dagster.instance import make_instance
from tests.cli.conftest import PROGRAM, Dcc
from tests.support.databases import only_sqlite
from tests.support.ports import free_port

pytestmark = only_sqlite
DAEMONS = "{ instance { daemonHealth { allDaemonStatuses { required healthy } } } }"
LOCATIONS = "{ repositoriesOrError { ... on RepositoryConnection { nodes { name location { name } } } } }"


@contextmanager
def running_ui(dcc: Dcc, folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    with running(dcc, "ui", "--port", port, folder=folder) as process:
        yield process


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


def ask(port: int, query: str) -> Any:
    """What the web server answers to a GraphQL query."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/graphql",
        json.dumps({"query": query}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["data"]


def wait_for_daemons(port: int) -> None:
    """Wait until all that runs beside the pages works: what is interrupted while it is imported says so."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        daemons = ask(port, DAEMONS)["instance"]["daemonHealth"]["allDaemonStatuses"]
        if all(daemon["healthy"] for daemon in daemons if daemon["required"]):
            return
        time.sleep(0.2)
    pytest.fail(f"Not all daemons work: {daemons}")


def descendants(pid: int) -> set[int]:
    """The processes that a process has started, directly or not."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.parent.name)] = int(fields[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}


def test_the_ui_answers_where_it_says_and_nothing_of_it_is_left_when_it_is_stopped(dcc: Dcc, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    port = free_port()
    with running_ui(dcc, elsewhere, port) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"The UI is at http://127.0.0.1:{port} (Ctrl-C stops it).\n"
        found = ask(port, LOCATIONS)["repositoriesOrError"]["nodes"]
        assert [node["location"]["name"] for node in found] == ["dcc"]
        children = descendants(process.pid)
        assert len(children) >= 3
        wait_for_daemons(port)
        process.send_signal(signal.SIGINT)
        said, complained = process.communicate(timeout=90)
    assert process.returncode == 0
    assert said == ""
    assert complained.splitlines()[-1] == "Stopped."
    assert "Traceback" not in complained
    assert "SupersessionWarning" not in complained
    deadline = time.monotonic() + 60
    while alive(children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive(children) == set()
    assert list(elsewhere.iterdir()) == []
    assert "enabled: false" in (Path(dcc.environment["DCC_HOME"]) / "dagster" / "dagster.yaml").read_text()


PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(300)'])"


def test_a_process_that_ends_by_itself_is_said_and_all_of_the_others_is_stopped_too(dcc: Dcc) -> None:
    settings = load_settings(home=Path(dcc.environment["DCC_HOME"]))
    # A module of Python's own that runs what it is given: each program is a process with one below it.
    program = Program("timeit", ["-n1", "-r1", PARENT])
    with dagster_processes.running(settings, program, program) as processes:
        below = [descendants(process.pid) for process in processes]
        deadline = time.monotonic() + 60
        while not all(below) and time.monotonic() < deadline:
            time.sleep(0.05)
            below = [descendants(process.pid) for process in processes]
        assert all(below)
        processes[0].kill()
        with pytest.raises(InternalFaultError, match="Dagster ended by itself, with exit code -9"):
            dagster_processes.wait_for_end(processes)
    assert alive({pid for pids in below for pid in pids} | {process.pid for process in processes}) == set()


def test_a_port_in_use_is_said_to_be(dcc: Dcc) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert f"port {port}" in dcc.error("ui", "--port", port, exit_code=2)


def test_dagster_that_cannot_start_is_the_platforms_fault(dcc: Dcc) -> None:
    settings = load_settings(home=Path(dcc.environment["DCC_HOME"]))
    make_instance(settings)
    (settings.dagster_home / "dagster.yaml").write_text("nonsense: {")
    process = dcc.process("ui", "--read-only", "--port", free_port())
    assert process.returncode == 70
    assert "Dagster could not be started" in process.stderr.splitlines()[-1]


def test_a_new_instance_that_cannot_be_made_is_told_of_in_a_line(dcc: Dcc) -> None:
    home = Path(dcc.environment["DCC_HOME"]) / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text("nonsense: {")
    assert "Correct its dagster.yaml" in dcc.error("ui", "--port", free_port(), exit_code=4)


@pytest.mark.parametrize(
    "command", [["daemon"], ["ui"], ["ui", "--without-daemon"], ["ui", "--read-only"]], ids=" ".join
)
def test_a_new_instance_is_whole_before_several_processes_of_dagster_open_it(
    dcc: Dcc, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    def run(settings: Settings, *programs: Program) -> NoReturn:
        with closing(sqlite3.connect(settings.dagster_home / "schedules" / "schedules.db")) as file:
            assert file.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)
        raise NotFoundError("Nothing is run here.")

    monkeypatch.setattr("dcc.cli.installation.ui.running", run)
    port = [] if command == ["daemon"] else ["--port", free_port()]
    assert dcc.error(*command, *port, exit_code=2) == "Nothing is run here."


@pytest.mark.parametrize(
    ("host", "hosts", "warned", "answered"),
    [
        ("127.0.0.1", "", (), ""),
        ("localhost", "dcc.example.org", (), "dcc.example.org"),
        ("0.0.0.0", "", ("has no login", "deploy/nginx", "DCC_UI_HOSTS"), ""),
        ("0.0.0.0", "dcc.example.org", ("has no login", "deploy/nginx"), "dcc.example.org"),
        ("192.0.2.7", "dcc.example.org", ("has no login", "192.0.2.7"), "dcc.example.org,192.0.2.7"),
        ("::", "", ("has no login", "DCC_UI_HOSTS"), ""),
    ],
)
def test_serving_others_warns_and_says_how_a_login_is_put_before_it(
    dcc: Dcc, monkeypatch: pytest.MonkeyPatch, host: str, hosts: str, warned: tuple[str, ...], answered: str
) -> None:
    def run(settings: Settings, *programs: Program) -> NoReturn:
        assert settings.ui_hosts == answered
        raise NotFoundError("Nothing is run here.")

    monkeypatch.setattr("dcc.cli.installation.ui.running", run)
    monkeypatch.setattr("dcc.cli.installation.ui._require_free", lambda *_: None)
    dcc.environment["DCC_UI_HOSTS"] = hosts
    said = dcc("ui", "--host", host, "--read-only", exit_code=2).stderr
    assert ("Warning" in said) is bool(warned)
    assert all(word in said for word in warned)
    assert "Nothing is run here." in said


@pytest.mark.parametrize("host", ["", "fe80::1%eth0", "-", "a,b", "a b", "http://localhost"])
def test_an_address_that_is_none_is_said_to_be(dcc: Dcc, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setattr("dcc.cli.installation.ui._require_free", lambda *_: None)
    error = dcc("ui", "--host", host, "--read-only", exit_code=2).stderr
    assert "--host" in error


@pytest.mark.parametrize("hosts", ["*", "0.0.0.0", "dcc.example.org/page", "http://dcc.example.org", "[::1", "a,b c"])
def test_names_of_the_page_that_are_none_are_refused(dcc: Dcc, hosts: str) -> None:
    dcc.environment["DCC_UI_HOSTS"] = hosts
    error = dcc.error("ui", "--port", free_port(), exit_code=2)
    assert "DCC_UI_HOSTS" in error
    assert "dcc.example.org" in error
