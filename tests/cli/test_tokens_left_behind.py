"""Reference data from servers that want a token: it works, and the token is nowhere afterwards.

Sessions run as commands and as Dagster's runs, in processes of their own and at the most talkative, while the server
answers well, refuses, repeats what it was asked and sends one on. Then every byte of DCC_HOME, every table and every
output is looked through.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from tests.cli.conftest import Dcc
from tests.reference.test_data import ANSWERS, TABLES
from tests.support.databases import only_sqlite
from tests.support.left_behind import Left
from tests.support.prepared_processes import run_dcc
from tests.support.reference_server import api_pages
from tests.support.web_server import QuietHandler, ThreadedServer

TOKEN = "r3gistry+t0ken/of=ours"
SIGNATURE = "s1gned-for-the-st0re"
WRONG = "0utdated&token"
PASSWORD = "pl4in-passw0rd"
SECRETS = (TOKEN, SIGNATURE, WRONG, PASSWORD)


class _Registry(QuietHandler):
    """Pages for whoever gives the token; the strains are elsewhere, at an address that is signed."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    timeout = 30
    pages: ClassVar[dict[str, bytes]] = {}
    let_in: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        asked = parse_qs(parts.query)
        if parts.path == "/store/strains.csv" and asked.get("sig") == [SIGNATURE]:
            self._send(200, self.pages["/strains.csv"])
        elif asked.get("token") != [TOKEN]:
            # As rude servers do, with what they were asked in the status line too.
            self._send(403, self.path.encode(), reason=f"No to {self.path}")
        elif parts.path == "/strains.csv":
            self._send(302, b"", location=f"/store/strains.csv?sig={SIGNATURE}&again={quote(TOKEN, safe='')}")
        else:
            self._send(200, self.pages[parts.path])

    def _send(self, status: int, body: bytes, *, reason: str | None = None, location: str | None = None) -> None:
        if status == 200:
            self.let_in.append(urlsplit(self.path).path)
        headers = {"ETag": f'"{hash(body):x}"'} | ({"Location": location} if location is not None else {})
        self.answer(status, body, headers, reason)


@pytest.fixture
def registry() -> Iterator[str]:
    """The address of a server that wants the token."""
    _Registry.let_in.clear()
    _Registry.pages = {f"/{name}.csv": text.encode() for name, text in TABLES.items()} | api_pages(ANSWERS)
    with ThreadedServer(_Registry) as server:
        yield server.url


def sources(registry: str, token: str) -> dict[str, str]:
    """The settings that name where each set is read from."""
    asked = f"?token={quote(token, safe='')}"
    tables = {f"DCC_REFERENCE_{name.upper()}": f"{registry}/{name}.csv{asked}" for name in TABLES}
    return tables | {"DCC_REFERENCE_IMPRESS": f"{registry}/impress{asked}"}


class Talking:
    """Runs commands as processes; what they print and what others see of them is among what is left."""

    def __init__(self, dcc: Dcc) -> None:
        self.dcc, self.left = dcc, Left()

    def __call__(self, *arguments: str, exit_code: int = 0, program: str = "dcc", **changes: str) -> str:
        output = self.dcc.root / "output"
        output.unlink(missing_ok=True)
        environment = self.dcc.process_environment() | changes
        ended = run_dcc(arguments, self.dcc.root, environment, output, output, program=program, seconds=240)
        printed = output.read_text("utf-8")
        self.left.add(f"{len(self.left.texts)}: output of {program} {' '.join(arguments)}", printed)
        assert ended == exit_code, printed
        return printed

    def job(self, name: str, exit_code: int = 0, **changes: str) -> str:
        """Have Dagster run a job of the code location."""
        changes["DAGSTER_HOME"] = str(self.dcc.home / "dagster")
        executed = ("job", "execute", "-m", "dcc_definitions", "-j", name)
        return self(*executed, exit_code=exit_code, program="dagster", **changes)


@only_sqlite
@pytest.mark.usefixtures("dagster_made")
@pytest.mark.timeout(900)
def test_no_token_of_a_server_of_reference_data_is_left_anywhere(dcc: Dcc, registry: str, tmp_path: Path) -> None:
    run = Talking(dcc)
    centre = dcc.add_folder()
    centre.put("add/H.2013-10-31.1.impc.zip")
    dcc.environment |= sources(registry, TOKEN) | {
        "DCC_UNTIL": "qc",
        "DCC_DAGSTER_EVENTS": "true",
        "DCC_LOG_LEVEL": "debug",
        "DCC_LOG_FORMAT": "json",
        "DCC_LOG_FILE": str(tmp_path / "home" / "log"),
        "DCC_REPORT_DIRECTORY": str(tmp_path / "home" / "told"),
        "DCC_METRICS_FILE": str(tmp_path / "home" / "dcc.prom"),
        "DCC_SUBMISSION_REPORTS": "all",
        "DCC_RETRY_DELAY": "0.01",
    }
    run("--debug", "crawl", exit_code=1)
    assert {"/projects.csv", "/store/strains.csv", "/impress/parameter/1"} <= set(_Registry.let_in)
    listed = run("reference", "list")
    assert listed.count("csv?***#") == len(TABLES)
    assert "/impress?***#" in listed
    kept = Left()
    kept.add_tables(dcc.environment["DCC_QC_URL"])
    assert any("fetched_page" in where for where in kept.places_of("?***#"))
    run.job("refresh_reference_data")
    _Registry.pages["/projects.csv"] = b"no table"
    run("--debug", "reference", "refresh", exit_code=1)
    outdated = sources(registry, WRONG)
    run("--debug", "crawl", exit_code=1, DCC_DAGSTER_EVENTS="false", **outdated)
    run.job("refresh_reference_data", **outdated)
    assert "403" in run("--debug", "reference", "list", exit_code=1, **outdated)
    away = {"DCC_REFERENCE_COLONIES": sources("http://127.0.0.1:1", TOKEN)["DCC_REFERENCE_COLONIES"]}
    run("reference", "refresh", "colonies", exit_code=4, **away)
    run("doctor", "--json", exit_code=1, **outdated)
    assert f"{registry}/colonies.csv?***" in run("settings")
    run("settings", "--json")
    run("sessions", "--json")
    with_password = {"DCC_REFERENCE_PROJECTS": registry.replace("://", f"://me:{PASSWORD}@") + "/projects.csv"}
    assert "no user name or password" in run("--debug", "crawl", exit_code=2, **with_password)
    assert "no user name or password" in run.job("refresh_reference_data", exit_code=1, **with_password)

    run.left.add_files(dcc.home)
    run.left.add_tables(dcc.environment["DCC_TRACKER_URL"])
    run.left.add_tables(dcc.environment["DCC_QC_URL"])
    assert {"file log", "file dcc.prom", "file dagster/history/runs.db"} <= run.left.texts.keys()
    fingerprint = run.left.places_of(listed.partition("?***#")[2][:8])
    assert any("reference_snapshot" in where for where in fingerprint)
    assert any(where.startswith("file dagster/") for where in run.left.places_of("?***#")), "materialisations name it"
    for secret in SECRETS:
        assert run.left.places_of(secret) == [], secret
