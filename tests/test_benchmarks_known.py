"""The benchmarks of what is known already: they know what they say, and sessions find nothing new in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, event, func, select

from benchmarks.known_archives import DOCUMENTS, KnownArchives
from benchmarks.openssh import openssh_server
from benchmarks.quiet_session import QuietSession
from dcc_cli.session_work import Listeners, crawl_and_process
from dcc_resources.outcomes import SourceCrawl
from dcc_resources.qc_database.models import Document
from dcc_resources.tracker.queries import StateCount, count_documents, count_zip_actions
from dcc_resources.tracker.reference import Phase, Status


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnownArchives]:
    if shutil.which("lftp") is None:
        pytest.skip("lftp is not installed: as root, make test installs it.")
    folder = tmp_path_factory.mktemp("known")
    with openssh_server(folder / "sshd") as server:
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
            waiting, done = StateCount(Phase.QC, Status.PENDING, 10), StateCount(Phase.QC, Status.DONE, 11)
            assert count_zip_actions(connection) == [waiting, done]
            assert sum(one.count for one in count_documents(connection)) == 21 * DOCUMENTS
        with qc.connect() as connection:
            assert connection.scalar(select(func.count()).select_from(Document)) == 21 * DOCUMENTS


@pytest.mark.servers
def test_the_statements_of_a_session_with_nothing_new_do_not_depend_on_how_much_is_known(known: KnownArchives) -> None:
    """Those of all its phases, in both databases."""
    few = _statements_of_session(known)
    known.grow(1_100)
    assert _statements_of_session(known) == few


def _statements_of_session(known: KnownArchives) -> list[str]:
    statements: list[str] = []

    def note(_: object, __: object, statement: str, *___: object) -> None:
        # The lease is renewed now and then, by the clock.
        if "heartbeat" not in statement:
            statements.append(statement)

    with known.databases() as (settings, tracker, _):
        event.listen(Engine, "before_cursor_execute", note)
        try:
            crawls: list[SourceCrawl] = []
            without_events = settings.model_copy(update={"dagster_events": False})
            crawl_and_process(tracker, without_events, None, Listeners(crawls.append, pytest.fail, pytest.fail))
        finally:
            event.remove(Engine, "before_cursor_execute", note)
    assert sum(found.known for found in crawls) == known.known
    return statements
