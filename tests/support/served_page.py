"""A `dcc ui` on an installation, and requests to it as browsers and other programs send them.

`page` is one that is started once a test process, which takes as long as a hundred tests: who asks for it leaves it
as it was, but for archives that come and runs that are over. `demonstration` is what `dcc demo` leaves.
"""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.environments import clean
from tests.support.ports import free_port
from tests.support.prepared_processes import run_dcc
from tests.support.process_trees import descendants, processor_seconds
from tests.support.sharing import made_once

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
    """A `dcc ui` that answers on a port, and the seconds that it and all that it started computed until it did.

    Commands in `environment` are of the same installation, and have none of the page's own settings.
    """

    port: int
    seconds: float
    environment: Mapping[str, str]

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


@pytest.fixture(scope="session")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A demonstration that has run, in an environment that names a tracker which must not be touched.

    Its folder, to be looked at or copied, and how the command ended.
    """
    folder = made_once(tmp_path_factory, "demo", _demonstrate)
    return folder / "shown", subprocess.CompletedProcess([], **json.loads((folder / "ended").read_text("utf-8")))


def _demonstrate(made: Path) -> None:
    folder = made / "shown"
    folder.mkdir()
    other = {"DCC_TRACKER_URL": "mysql://nobody:secret@127.0.0.1:1/real", "DCC_STAGING": str(folder / "real")}
    output, errors = made / "output", made / "errors"
    ended = run_dcc(["demo"], folder, clean(**other), output, errors, seconds=180)
    told = {"returncode": ended, "stdout": output.read_text("utf-8"), "stderr": errors.read_text("utf-8")}
    (made / "ended").write_text(json.dumps(told), "utf-8")


PAGE_NAME = "dcc.example.org"
"""A name that `page` answers to, beside those of this machine."""
PAGE_SECRETS = {
    "DCC_NOTIFY_WEBHOOK_SECRET": "key-of-the-webhook",
    "DCC_SMTP_URL": "smtp://dcc:password-of-mail@127.0.0.1:1",
    "DCC_REFERENCE_COLONIES": "http://127.0.0.1:1/colonies.csv?token=token-of-the-registry",
}
PAGE_SETTINGS = {
    "DCC_UI_HOSTS": PAGE_NAME,
    "DCC_UNTIL": "zip_name",
    "DCC_STAGING_KEEP_DAYS": "7",
    # Pictures in documents are of no environment.
    **({} if "TEST_SCREENSHOTS" in os.environ else {"DCC_ENVIRONMENT": "test"}),
}


@pytest.fixture(scope="session")
def page(
    tmp_path_factory: pytest.TempPathFactory, demonstration: tuple[Path, subprocess.CompletedProcess[str]]
) -> Iterator[ServedPage]:
    """The page, without a daemon, of the installation that the demonstration leaves; a run that it launches begins."""
    folder, shown = demonstration
    assert shown.returncode == 0, shown.stdout + shown.stderr
    home = tmp_path_factory.mktemp("served") / "home"
    shutil.copytree(folder / ".demo" / "home", home)
    configuration = home / "dagster" / "dagster.yaml"
    text = configuration.read_text("utf-8").replace("  runs:\n    max_concurrent_runs: 1\n", "")
    no_queue = "run_coordinator: {module: dagster._core.run_coordinator, class: DefaultRunCoordinator}\n"
    configuration.write_text(text + no_queue, "utf-8")
    environment = {name: value for name, value in clean().items() if not name.startswith("COVERAGE")}
    environment |= {"DCC_HOME": str(home), "DCC_MIN_FREE_BYTES": "0", "DCC_QUIET_SECONDS": "0"}
    command = [str(Path(sys.executable).with_name("dcc")), "ui", "--without-daemon", "--port", str(port := free_port())]
    process = subprocess.Popen(
        command,
        env=environment | PAGE_SETTINGS | PAGE_SECRETS,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        printed = []
        for line in process.stdout:
            printed.append(line)
            if "The UI is at" in line:
                break
        else:
            pytest.fail("".join(printed))
        seconds = processor_seconds(process.pid)
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield ServedPage(port, seconds, environment)
    finally:
        # To end well takes them seconds of a processor, and is tried in tests/cli/test_daemon.py.
        for pid in [*descendants(process.pid), process.pid]:
            os.kill(pid, signal.SIGKILL)
        process.wait(60)


@pytest.fixture(scope="session")
def served(page: ServedPage) -> str:
    return page.url
