"""The benchmarks of what is known already: they know what they say, and sessions find nothing new in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from sqlalchemy import Engine, func, select

from benchmarks import growth
from benchmarks.growth import Step, told_of_known, told_of_new
from benchmarks.known_archives import DOCUMENTS, KnownArchives
from benchmarks.openssh import openssh_server
from benchmarks.plotting import exponent, log_log_plot
from benchmarks.quiet_session import QuietSession
from dcc.cli.sessions.work import Listeners, crawl_and_process
from dcc.outcomes import SourceCrawl
from dcc.phases import Phase, Status
from dcc.qc.models import Document
from dcc.tracker.queries.zip_action_lists import StateCount, count_documents, count_zip_actions
from tests.support.sent_statements import sent_statements

_STATEMENTS = 114
"""How many statements a session with nothing new takes in both databases, as counted over 100 known archives."""


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
    """Those of all its phases, in both databases; nor may they become more."""
    few = _statements_of_session(known)
    assert len(few) <= _STATEMENTS
    known.grow(1_100)
    assert _statements_of_session(known) == few


def test_growth_is_told_of_what_is_known_and_of_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "PLOTS", tmp_path)
    known = [Step(number, 2.0 + number / 1e4, 1.0 + number / 1e4, 99.0, number / 1e4) for number in (1_000, 100_000)]
    figures = {figure.name: figure.value for figure in told_of_known(known).figures}
    assert figures["Processor time of each known archive more"] == pytest.approx(100)
    assert figures["What the session grows by, in times of what listing alone does"] == pytest.approx(1)
    new = [Step(number, 2.0 + number**1.2, 1.0 + number, 99.0) for number in (100, 1_000)]
    new.append(Step(10_000, 2.0 + 10_000**1.2, 1.0 + 1_000 * 10**1.1, 99.0))
    told = told_of_new(Step(0, 2.0, 1.0, 99.0), new, "xsd")
    assert [figure.value for figure in told.figures[:4]] == pytest.approx([1.2, 1.05, 1.2, 1.1])
    assert [figure.met for figure in told.figures[:4]] == [False, True, False, False]
    assert told.text.splitlines()[-1].startswith("| 10,000 |")
    assert {path.name for path in tmp_path.iterdir()} == {"growth-known.svg", "growth-new-xsd.svg"}


def test_the_exponent_is_that_of_the_power_by_which_something_grows() -> None:
    assert exponent([(n, 7 * n**1.5) for n in (10, 100, 1_000)]) == pytest.approx(1.5)
    assert exponent([(n, 3.0) for n in (10, 100, 1_000)]) == pytest.approx(0)


def test_a_plot_is_a_document_with_every_line_and_its_name() -> None:
    plot = ElementTree.fromstring(log_log_plot("T", "n", "s", {"a < b": [(1, 2), (100, 3)], "c": [(10, 0.5)]}))
    lines = plot.findall("{http://www.w3.org/2000/svg}polyline")
    assert [len(line.attrib["points"].split()) for line in lines] == [2, 1]
    assert {"a < b", "c"} <= {text.text for text in plot.iter("{http://www.w3.org/2000/svg}text")}


def _unexpected(outcome: object) -> None:
    pytest.fail(f"The session was to find nothing new, and found {outcome}.")


def _has_no_heartbeat(statement: str) -> bool:
    # The lease is renewed now and then, by the clock.
    return "heartbeat" not in statement


def _statements_of_session(known: KnownArchives) -> list[str]:
    crawls: list[SourceCrawl] = []
    with known.databases() as (settings, tracker, _), sent_statements(Engine, _has_no_heartbeat) as statements:
        without_events = settings.model_copy(update={"dagster_events": False})
        crawl_and_process(tracker, without_events, None, None, Listeners(crawls.append, _unexpected, _unexpected))
    assert sum(found.known for found in crawls) == known.known
    return statements
