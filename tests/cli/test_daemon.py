"""`dcc daemon`, the pages beside it and `dcc crawl`, all at once on MariaDB, from any directory, and stopped whole."""

import signal
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import make_url

from dcc.databases.grants import grant_statements
from tests.cli.conftest import Dcc
from tests.cli.test_production import accounts
from tests.cli.test_ui import CHANGE, NEVER, line_of, running, stopped, wait_for_the_end_of
from tests.support.databases import MariaDb, only_mariadb
from tests.support.installations import specimens
from tests.support.ports import free_port
from tests.support.process_trees import descendants
from tests.support.served_page import ServedPage
from tests.support.waiting import wait_until

GOOD, BAD = "add/H.2013-10-31.1.impc.zip", "add/H.2013-10-31.3.impc.zip"
WAITING = "add/H.2013-10-31.2.impc.zip"
DAEMONS = "{ instance { daemonHealth { allDaemonStatuses { required healthy } } } }"
SHOWN = """{
  runsOrError { ... on Runs { results { jobName status } } }
  assetNodeOrError(assetKey: {path: ["validated_documents"]}) {
    ... on AssetNode {
      assetPartitionStatuses { ... on DefaultPartitionStatuses { materializedPartitions } }
    }
  }
}"""
UI_PASSWORD = "of the account that reads"
PAUSE = 1.0
"""Between questions to the pages: to answer one takes them and the database as long as a small test."""


@pytest.fixture
def production(dcc: Dcc, dagster_url: str | None) -> Dcc:
    """`dcc` with Dagster's storage on MariaDB too, and no schedule in its way."""
    environment = {**dcc.environment, "DCC_DAGSTER_EVENTS": "true", "DCC_CRAWL_INTERVAL": NEVER, "DCC_UNTIL": "xsd"}
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
    with accounts(mariadb, "\n".join(grant_statements(*urls)), unlocked={"dcc_ui": UI_PASSWORD}):
        yield Dcc(environment, tmp_path, [*production.secrets, UI_PASSWORD])


def wait_for_daemons(page: ServedPage) -> None:
    """Wait until all that runs beside the pages works: what is interrupted while it is imported says so."""

    def all_work() -> bool:
        daemons = page.ask(DAEMONS)["instance"]["daemonHealth"]["allDaemonStatuses"]
        return all(daemon["healthy"] for daemon in daemons if daemon["required"])

    wait_until(all_work, 120, every=PAUSE)


def materialised(page: ServedPage) -> list[str]:
    """The archives whose documents are validated, as the pages show it."""
    found: list[str] = page.ask(SHOWN)["assetNodeOrError"]["assetPartitionStatuses"]["materializedPartitions"]
    return found


@only_mariadb
def test_pages_daemon_and_command_line_work_at_once(production: Dcc, reader: Dcc, tmp_path: Path) -> None:
    folder, port = production.add_folder(), free_port()
    page = ServedPage(port, 0.0, {})
    folder.put(WAITING, specimens(stem="2013-10-31.2"))
    production("crawl", "--until", "zip_name")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with (
        running(production, "daemon", folder=elsewhere) as daemon,
        running(reader, "ui", "--port", port, "--read-only", folder=elsewhere) as ui,
    ):
        assert line_of(daemon) == "The daemon runs (Ctrl-C stops it).\n"
        assert line_of(ui) == f"The UI is at http://127.0.0.1:{port} (Ctrl-C stops it).\n"
        for second in (["daemon"], ["ui", "--port", free_port()]):
            assert "runs already" in production.error(*second, exit_code=3)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/assets", timeout=60) as assets:
            assert b"<html" in assets.read()

        # The daemon asks for a run of what waits, takes it from its queue and launches it.
        wait_until(lambda: materialised(page) == [WAITING], 120, every=PAUSE)
        wait_until(lambda: {run["status"] for run in page.ask(SHOWN)["runsOrError"]["results"]} == {"SUCCESS"})
        folder.put(GOOD, specimens())
        folder.put(BAD, b"no archive")
        production("crawl", exit_code=1)
        assert materialised(page) == [GOOD, WAITING]
        shown = page.ask(SHOWN)
        jobs = {run["jobName"]: run["status"] for run in shown["runsOrError"]["results"]}
        assert jobs["crawl_file_sources"] == jobs["process_zip_actions"] == "SUCCESS"
        wait_for_daemons(page)
        assert page.ask(CHANGE)["deletePipelineRun"]["__typename"] == "UnauthorizedError"

        children = descendants(daemon.pid) | descendants(ui.pid)
        assert len(children) >= 4
        production.check(stopped(daemon, signal.SIGTERM))
        production.check(stopped(ui, signal.SIGINT))
    wait_for_the_end_of(children)
    assert list(elsewhere.iterdir()) == []
    assert "enabled: false" in (production.home / "dagster" / "dagster.yaml").read_text()
