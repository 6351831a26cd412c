"""`dcc daemon` and the pages beside it: with `dcc crawl`, all at once on MariaDB, and on SQLite."""

from __future__ import annotations

import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import make_url

from dcc.databases.grants import ACCOUNTS, grant_statements, unlock_statement
from tests.cli.conftest import Dcc
from tests.cli.test_production import administrator, statements
from tests.cli.test_ui import alive, ask, descendants, running
from tests.support.databases import MariaDb, only_mariadb, only_sqlite
from tests.support.installations import specimens
from tests.support.ports import free_port

GOOD, BAD = "add/H.2013-10-31.1.impc.zip", "add/H.2013-10-31.3.impc.zip"
NEVER = "0 0 29 2 *"
DAEMONS = "{ instance { daemonHealth { allDaemonStatuses { daemonType healthy } } } }"
SHOWN = """{
  runsOrError { ... on Runs { results { jobName status } } }
  assetNodeOrError(assetKey: {path: ["validated_documents"]}) {
    ... on AssetNode {
      assetPartitionStatuses { ... on DefaultPartitionStatuses { materializedPartitions } }
    }
  }
}"""
CHANGE = 'mutation { deletePipelineRun(runId: "none") { __typename } }'
UI_PASSWORD = "of the account that reads"


@pytest.fixture
def production(dcc: Dcc, dagster_url: str | None) -> Dcc:
    """`dcc` with Dagster's storage on MariaDB too, and no schedule in its way."""
    environment = {**dcc.environment, "DCC_DAGSTER_EVENTS": "true", "DCC_CRAWL_INTERVAL": NEVER}
    assert dagster_url is not None
    environment["DCC_DAGSTER_URL"] = dagster_url
    return replace(dcc, environment=environment)


@pytest.fixture
def reader(production: Dcc, mariadb: MariaDb, tmp_path: Path) -> Iterator[Dcc]:
    """`dcc` for the pages, elsewhere: as the account that may only read Dagster's database."""
    urls = [make_url(production.environment[f"DCC_{name}_URL"]) for name in ("TRACKER", "QC", "DAGSTER")]
    as_reader = urls[2].set(username="dcc_ui", password=UI_PASSWORD)
    environment = {
        "DCC_HOME": str(tmp_path / "pages"),
        "DCC_DAGSTER_URL": as_reader.render_as_string(hide_password=False),
    }
    with administrator(mariadb) as connection, connection.cursor() as cursor:
        for statement in statements("\n".join(grant_statements(*urls))):
            cursor.execute(statement)
        cursor.execute(unlock_statement("dcc_ui", UI_PASSWORD))
        yield Dcc(environment, tmp_path, [*production.secrets, UI_PASSWORD])
        for account in ACCOUNTS:
            cursor.execute(f"DROP USER '{account.name}'@'%'")


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line that a command prints; what it complained of, if it ended instead."""
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdout.readline() or process.stderr.read()


@only_mariadb
def test_pages_daemon_and_command_line_work_at_once(production: Dcc, reader: Dcc) -> None:
    folder, port = production.add_folder(), free_port()
    folder.put(GOOD, specimens())
    folder.put(BAD, b"no archive")
    pages = ["ui", "--port", port, "--read-only"]
    with running(production, "daemon") as daemon, running(reader, *pages) as ui:
        assert line_of(daemon) == "The daemon runs (Ctrl-C stops it).\n"
        assert line_of(ui) == f"The UI is at http://127.0.0.1:{port} (Ctrl-C stops it).\n"
        assert "runs already" in production.error("daemon", exit_code=3)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/assets", timeout=60) as page:
            assert b"<html" in page.read()

        production("crawl", exit_code=1)
        shown = ask(port, SHOWN)
        assert shown["assetNodeOrError"]["assetPartitionStatuses"]["materializedPartitions"] == [GOOD]
        jobs = {run["jobName"]: run["status"] for run in shown["runsOrError"]["results"]}
        assert jobs["crawl_file_sources"] == jobs["process_zip_actions"] == "SUCCESS"
        healthy = {
            status["daemonType"]
            for status in ask(port, DAEMONS)["instance"]["daemonHealth"]["allDaemonStatuses"]
            if status["healthy"]
        }
        assert {"SCHEDULER", "SENSOR", "QUEUED_RUN_COORDINATOR"} <= healthy
        assert ask(port, CHANGE)["deletePipelineRun"]["__typename"] == "UnauthorizedError"

        children = descendants(daemon.pid) | descendants(ui.pid)
        for process in (daemon, ui):
            process.send_signal(signal.SIGTERM)
        for process in (daemon, ui):
            said, complained = process.communicate(timeout=90)
            assert process.returncode == 0
            assert said == ""
            assert complained.splitlines()[-1] == "Stopped."
            assert "Traceback" not in complained
            production.check(complained)
    deadline = time.monotonic() + 60
    while alive(children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive(children) == set()


@only_sqlite
def test_a_daemon_and_pages_without_one_share_an_installation_on_sqlite(dcc: Dcc) -> None:
    alone, port = replace(dcc, environment={**dcc.environment, "DCC_CRAWL_INTERVAL": NEVER}), free_port()
    with running(alone, "daemon") as daemon, running(alone, "ui", "--port", port, "--without-daemon") as ui:
        assert line_of(daemon) == "The daemon runs (Ctrl-C stops it).\n"
        assert line_of(ui) == f"The UI is at http://127.0.0.1:{port} (Ctrl-C stops it).\n"
        assert "runs already" in alone.error("ui", "--port", free_port(), exit_code=3)
        beats = ask(port, DAEMONS)["instance"]["daemonHealth"]["allDaemonStatuses"]
        assert "SCHEDULER" in {status["daemonType"] for status in beats if status["healthy"]}
        assert ask(port, CHANGE)["deletePipelineRun"]["__typename"] == "RunNotFoundError"
        children = descendants(daemon.pid) | descendants(ui.pid)
        for process in (daemon, ui):
            process.send_signal(signal.SIGTERM)
        for process in (daemon, ui):
            _, complained = process.communicate(timeout=90)
            assert process.returncode == 0
            assert complained.splitlines()[-1] == "Stopped."
            assert "Traceback" not in complained
    deadline = time.monotonic() + 60
    while alive(children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive(children) == set()
