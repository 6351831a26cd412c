"""The benchmarks of what is known already: they know what they say, and sessions find nothing new in it."""

import shutil
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from benchmarks.known_archives import KnownArchives
from benchmarks.quiet_session import QuietSession
from benchmarks.servers import OpenSsh
from benchmarks.session import DOCUMENTS
from dcc.cli.sessions.crawl import run_session
from dcc.outcomes import SourceCrawl
from dcc.phases import Phase, Status
from dcc.qc.models import DOCUMENT
from dcc.session.session_request import Listeners, SessionRequest
from dcc.tracker.queries.state_counts import StateCount, count_documents, count_submission_states
from tests.support.asking import count_in
from tests.support.sent_statements import sent_statements

_STATEMENTS = 131
"""How many statements a session with nothing new takes in both databases, as counted over 100 known archives."""


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnownArchives]:
    if shutil.which("lftp") is None:
        pytest.skip("lftp is not installed: as root, make test installs it.")
    folder = tmp_path_factory.mktemp("known")
    with OpenSsh(folder / "sshd") as server:
        made = KnownArchives(folder / "known", server, centres=("H", "J"))
        made.make()
        made.grow(21)
        yield made


@pytest.mark.servers
def test_a_session_finds_nothing_new_in_what_the_benchmark_put_there(known: KnownArchives) -> None:
    quiet = QuietSession(known)
    assert quiet.list_alone().wall > 0
    assert quiet.list_alone(at_once=True).wall > 0
    timing = quiet.crawl(events=False)
    assert timing.peak_mb is not None
    assert timing.peak_mb > 10
    with known.databases() as (_, tracker, qc):
        with tracker.connect() as connection:
            waiting = StateCount(Phase.QC, Status.PENDING, known.known // 2)
            done = StateCount(Phase.QC, Status.DONE, known.known - known.known // 2)
            assert count_submission_states(connection) == [waiting, done]
            assert sum(one.count for one in count_documents(connection)) == known.known * DOCUMENTS
        assert count_in(qc, DOCUMENT) == known.known * DOCUMENTS


@pytest.mark.servers
def test_the_statements_of_a_session_with_nothing_new_do_not_depend_on_how_much_is_known(known: KnownArchives) -> None:
    """Those of all its phases, in both databases; nor may they become more."""
    few = _statements_of_session(known)
    assert len(few) <= _STATEMENTS, "Only a new phase may add statements."
    known.grow(1_100)
    assert _statements_of_session(known) == few


def _unexpected(outcome: object) -> None:
    pytest.fail(f"The session was to find nothing new, and found {outcome}.")


def _has_no_heartbeat(statement: str) -> bool:
    # The lease is renewed now and then, by the clock.
    return "heartbeat" not in statement


def _statements_of_session(known: KnownArchives) -> list[str]:
    crawls: list[SourceCrawl] = []
    with known.databases() as (settings, tracker, _), sent_statements(Engine, _has_no_heartbeat) as statements:
        without_events = settings.model_copy(update={"dagster_events": False})
        request = SessionRequest(listeners=Listeners(crawls.append, _unexpected, _unexpected))
        run_session(tracker, without_events, request)
    assert sum(found.known for found in crawls) == known.known
    return statements
