"""OpenLineage's events of sessions, received by a real HTTP server and by a file; and receivers that are away."""

import json
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from openlineage.client.event_v2 import RunState

from dcc.operations.openlineage.events import SessionEvents
from dcc.phases import Phase
from dcc.settings import load_settings
from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite
from tests.support.installations import Folder, experiments, specimens
from tests.support.ports import free_port
from tests.support.servers import Authority
from tests.support.submission_world import wrong_form
from tests.support.web_server import QuietHandler, ThreadedServer

GOOD, BAD = "add/H.2013-10-31.1.impc.zip", "add/H.2013-10-31.2.impc.zip"


class Receiver(ThreadedServer):
    """Keeps what is posted, as (path, event); answers with `status` after `delay` seconds."""

    def __init__(self, certificate: Path | None = None) -> None:
        super().__init__(_Handler, certificate)
        self.received: list[tuple[str, dict[str, Any]]] = []
        self.delay, self.status = 0.0, 201


class _Handler(QuietHandler):
    web: ClassVar[Receiver]

    def do_POST(self) -> None:
        self.web.released.wait(self.web.delay)
        self.web.received.append((self.path, json.loads(self.sent())))
        self.answer(self.web.status)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        yield server


@pytest.fixture
def submitted(dcc: Dcc) -> Dcc:
    """An installation whose source hosts an archive that is accepted and one that is not valid."""
    folder = dcc.add_folder()
    folder.put(GOOD, specimens() | experiments())
    folder.put(BAD, wrong_form("2013-10-31.2"))
    dcc.environment["DCC_UNTIL"] = "qc"
    return dcc


def by_job(events: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The events of each job. That each is as the specification says is up to the client's classes."""
    of_job = defaultdict(list)
    for event in events:
        of_job[event["job"]["name"]].append(event)
    return of_job


def ended(events: list[dict[str, Any]]) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    """The states of a run, and its inputs and outputs by name."""
    inputs, outputs = ({one["name"]: one for event in events for one in event[kind]} for kind in ("inputs", "outputs"))
    assert len({event["run"]["runId"] for event in events}) == 1
    return [event["eventType"] for event in events], inputs, outputs


@pytest.mark.both_databases
def test_a_server_gets_the_session_its_steps_and_their_datasets(submitted: Dcc, receiver: Receiver) -> None:
    submitted.environment |= {
        "DCC_OPENLINEAGE_URL": f"http://lineage:T0K3N@127.0.0.1:{receiver.port}",
        "DCC_ENVIRONMENT": "test",
    }
    submitted.secrets.append("T0K3N")
    submitted("crawl", exit_code=1)
    assert {path for path, _ in receiver.received} == {"/api/v1/lineage"}
    events = by_job(event for _, event in receiver.received)
    assert {event["job"]["namespace"] for some in events.values() for event in some} == {"dcc.test"}
    within_others = (Phase.ZIP_MD5, Phase.UNZIP, Phase.XML_NAME)
    names = (phase.short_name for phase in Phase if phase not in within_others)
    assert set(events) == {"session", *(f"session.{name}" for name in names)}
    steps = [event for name, some in events.items() if name != "session" for event in some]
    parents = {event["run"]["facets"]["parent"]["run"]["runId"] for event in steps}
    states, sources, tables = ended(events["session"])
    assert parents == {events["session"][0]["run"]["runId"]}
    assert states == ["START", "COMPLETE"]
    assert list(sources) == [str(submitted.root / "centre")]
    rows = {
        re.split(r"[/.]", name)[-1]: one["outputFacets"]["outputStatistics"]["rowCount"] for name, one in tables.items()
    }
    assert rows["specimen"] == 2
    assert rows["measurement"] > 0
    _, listed, _ = ended(events["session.zip_name"])
    assert listed == sources
    states, hosted, staged = ended(events["session.download"])
    assert states == ["START", "RUNNING", "COMPLETE"]
    assert set(hosted) == {str(submitted.root / "centre" / key) for key in (GOOD, BAD)}
    assert set(staged) == {str(submitted.home / "staging" / key) for key in (GOOD, BAD)}
    _, archives, documents = ended(events["session.xsd"])
    verdicts = {
        name.rpartition("staging/")[2]: one["inputFacets"]["dataQualityAssertions"]["assertions"]
        for name, one in archives.items()
    }
    assert verdicts[GOOD][0] == {"assertion": "xsd", "success": True, "params": {}}
    assert verdicts[BAD][0]["success"] is False
    assert len(documents) == 3
    _, read, _ = ended(events["session.data"])
    assert set(read) == {name for name in documents if GOOD in name}


@only_sqlite
def test_an_archive_is_an_input_where_its_newest_download_came_from(submitted: Dcc) -> None:
    """Its first one brought no archive."""
    good = submitted.add_folder("other").put(GOOD, specimens() | experiments())
    Folder(submitted.root / "centre").put(GOOD, b"#" * len(good))
    path = submitted.root / "events.jsonl"
    submitted.environment["DCC_OPENLINEAGE_URL"] = str(path)
    submitted("crawl", exit_code=1)
    events = by_job(map(json.loads, path.read_text("utf-8").splitlines()))
    _, hosted, _ = ended(events["session.download"])
    assert set(hosted) == {str(submitted.root / place) for place in (f"other/{GOOD}", f"centre/{BAD}")}


@only_sqlite
def test_a_file_gets_an_event_a_line_and_a_session_that_breaks_off_fails(submitted: Dcc) -> None:
    path = submitted.root / "events.jsonl"
    submitted.environment["DCC_OPENLINEAGE_URL"] = str(path)
    submitted.environment["DCC_QC_URL"] = f"mysql://u:p@127.0.0.1:{free_port()}/qc"
    submitted.environment["DCC_DATABASE_RETRY"] = "0.1"
    submitted("crawl", exit_code=4)
    events = by_job(map(json.loads, path.read_text("utf-8").splitlines()))
    states, _, _ = ended(events["session"])
    assert states == ["START", "FAIL"]
    assert "QC database" in events["session"][-1]["run"]["facets"]["errorMessage"]["message"]
    assert "u:p@" not in path.read_text("utf-8")


def test_a_session_that_was_killed_ends_in_the_same_run(bare_dcc: Dcc) -> None:
    settings = load_settings(home=bare_dcc.root)
    events = SessionEvents(settings, 7)
    begun, died = events.begin(), events.died()
    assert (begun.eventType, died.eventType) == (RunState.START, RunState.FAIL)
    assert begun.run.runId == died.run.runId != SessionEvents(settings, 8).begin().run.runId


@only_sqlite
def test_a_receiver_that_is_away_holds_up_no_session(
    submitted: Dcc, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcc.operations.openlineage.sending._ANSWER_SECONDS", 0.5)
    receiver.delay = 3.0
    for port in (free_port(), receiver.port):
        submitted.environment["DCC_OPENLINEAGE_URL"] = f"http://127.0.0.1:{port}"
        began = time.monotonic()
        told = submitted("crawl", exit_code=1 if port != receiver.port else 0).output
        assert told.count("was not sent to DCC_OPENLINEAGE_URL") == 1
        assert f"the server 127.0.0.1:{port} cannot be reached" in told
        assert "Max retries" not in told
        assert time.monotonic() - began < 15
    receiver.delay, receiver.status = 0.0, 403
    submitted.environment["DCC_OPENLINEAGE_URL"] = f"http://lineage:T0K3N@127.0.0.1:{receiver.port}"
    submitted.secrets.append("T0K3N")
    assert "was not sent to DCC_OPENLINEAGE_URL: 403 Client Error: Forbidden" in submitted("crawl").output


@only_sqlite
def test_a_receiver_whose_certificate_has_expired_is_told_as_such(submitted: Dcc, authority: Authority) -> None:
    submitted.environment["DCC_TLS_CA_FILE"] = str(authority.ca_file)
    with Receiver(authority.issue(days=-1)) as receiver:
        submitted.environment["DCC_OPENLINEAGE_URL"] = receiver.url
        told = submitted("crawl", exit_code=1).output
    assert (
        f"the TLS certificate of the server {receiver.hostname} could not be verified (certificate has expired). Have "
        "it corrected, or name the authority that signed it in DCC_TLS_CA_FILE."
    ) in told
