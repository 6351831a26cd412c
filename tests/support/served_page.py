"""A `dcc ui` on an installation, and requests to it as browsers and other programs send them.

`page` is one that is started once a test process, which takes as long as a hundred tests: who asks for it leaves it
as it was, but for runs that are over. It is stopped after the modules that share it, for its daemon is never idle.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import clean
from tests.support.browsing import ui_process
from tests.support.installations import Folder
from tests.support.ports import free_port
from tests.support.prepared_processes import run_dcc
from tests.support.sharing import OF_PAGE

PROGRAM = str(Path(sys.executable).with_name("dcc"))
NEVER = "0 0 29 2 *"
JSON = {"Content-Type": "application/json"}

STATE = """{
  runsOrError { ... on Runs { results { jobName status } } }
  schedulesOrError(repositorySelector: {repositoryName: "__repository__", repositoryLocationName: "dcc"}) {
    ... on Schedules { results { name scheduleState { id status } } }
  }
  assetOrError(assetKey: {path: ["qc"]}) { ... on Asset { assetMaterializations(limit: 1) { runId } } }
}"""


@dataclass(frozen=True)
class ServedPage:
    """A `dcc ui` that answers on a port; what it printed by then, and the seconds of a processor that this took."""

    port: int
    printed: str
    seconds: float

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def send(
        self, method: str, path: str, headers: Mapping[str, str] | list[tuple[str, str]] = (), body: str = ""
    ) -> http.client.HTTPResponse:
        """The answer to a request with these headers and no others; Host is the page's own unless it is given."""
        given = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        if not any(name == "Host" for name, _ in given):
            given.append(("Host", f"127.0.0.1:{self.port}"))
        for name, value in given:
            if value:
                connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(body.encode())))
        connection.putheader("Connection", "close")
        connection.endheaders(body.encode())
        return connection.getresponse()

    def ask(self, query: str, **variables: Any) -> Any:
        """What GraphQL answers to a program without a browser."""
        answer = self.send("POST", "/graphql", JSON, json.dumps({"query": query, "variables": variables}))
        assert answer.status == 200, answer.read()
        return json.load(answer)["data"]

    def state(self) -> dict[str, Any]:
        """The runs there were, whether the crawl schedule runs, what was said to be materialised."""
        found = self.ask(STATE)
        schedules = found["schedulesOrError"]["results"]
        return {
            "runs": found["runsOrError"]["results"],
            "schedules": {one["name"]: one["scheduleState"]["status"] for one in schedules},
            "materialised": (found["assetOrError"] or {}).get("assetMaterializations"),
        }


PAGE_NAME = "dcc.example.org"
"""A name that `page` answers to, beside those of this machine."""
PAGE_ZIP = "add/H.2013-10-31.1.impc.zip"
"""The archive that waits in the installation of `page`."""
PAGE_SECRETS = {
    "DCC_KEY_PASSPHRASE": "passphrase-of-the-key",
    "DCC_NOTIFY_WEBHOOK_SECRET": "key-of-the-webhook",
    "DCC_SMTP_URL": "smtp://dcc:password-of-mail@127.0.0.1:1",
    "DCC_REFERENCE_COLONIES": "http://127.0.0.1:1/colonies.csv?token=token-of-the-registry",
}


class SharedPage:
    """The page that modules share, while it is there."""

    def __init__(self) -> None:
        self._page: ServedPage | None = None
        self._stack = ExitStack()

    def get(self, folders: pytest.TempPathFactory) -> ServedPage:
        """It; started where it is not."""
        if self._page is None:
            self._page = self._stack.enter_context(_page_of_one_crawl(folders))
        return self._page

    def stop(self) -> None:
        """Stop it where it is."""
        self._stack.close()
        self._page = None


_SHARED = SharedPage()


@pytest.hookimpl(trylast=True)  # What tests look at afterwards, in their fixtures, comes first.
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """The page is stopped when tests follow that are of no module which shares it."""
    if nextitem is None or not nextitem.nodeid.startswith(OF_PAGE):
        _SHARED.stop()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> ServedPage:
    """The page, with a daemon beside it, of an installation that crawled once.

    Its sensors ask for nothing more: sessions stop at the names of archives.
    """
    return _SHARED.get(tmp_path_factory)


@contextmanager
def _page_of_one_crawl(folders: pytest.TempPathFactory) -> Iterator[ServedPage]:
    """It crawls by no schedule."""
    centre, root = Folder(folders.mktemp("centre")), folders.mktemp("page")
    centre.put(PAGE_ZIP)
    settings = {
        "DCC_HOME": str(root / "home"),
        "DCC_CRAWL_INTERVAL": NEVER,
        "DCC_MIN_FREE_BYTES": "0",
        "DCC_ENVIRONMENT": "test",
        "DCC_UNTIL": "zip_name",
        "DCC_QUIET_SECONDS": "0",
        "DCC_CONNECT_TIMEOUT": "7.5",
        "DCC_UI_HOSTS": PAGE_NAME,
    }
    environment = {name: value for name, value in clean(os.environ).items() if not name.startswith("COVERAGE")}
    environment |= settings | PAGE_SECRETS
    source = ["--centre", "H", "--protocol", "file", "--base-path", str(centre.path)]
    log = root / "log"
    for command in (["init"], ["centre", "add", "H", "--name", "MRC Harwell"], ["source", "add", *source], ["crawl"]):
        assert run_dcc(command, root, environment, log, log, seconds=300) == 0, log.read_text()
    port = free_port()
    with ui_process([PROGRAM, "ui", "--port", str(port)], environment) as answering:
        yield ServedPage(port, *answering)
