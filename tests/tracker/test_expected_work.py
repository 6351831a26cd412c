"""What waits for a session, and how long it should take by what earlier sessions took."""

from dataclasses import replace

import pytest
from sqlalchemy import Engine, update

from dcc.cli.shell.output import expected_text
from dcc.databases.transactions import insert_rows, writing
from dcc.runtime.clock import utc_now
from dcc.tracker.decisions import DecisionKind, record_decisions
from dcc.tracker.models import CrawlingSession, SessionStatistics
from dcc.tracker.queries.waiting_work import (
    ExpectedWork,
    PastRun,
    Waiting,
    all_of,
    expected_by_source,
    expected_work,
    waiting_submissions,
)
from tests.support.asking import in_reading, in_writing
from tests.support.databases import seed_centre, seed_source, seed_submission
from tests.support.installations import Installation

RUNS = [PastRun(10, 1_000, 20), PastRun(1, 900, 9), PastRun(100, 20_000, 300)]
"""Of an archive, 100, 900 and 200 bytes, and 2, 9 and 3 seconds; of a byte, 0.02, 0.01 and 0.015 seconds."""


@pytest.mark.parametrize(
    ("waiting", "past", "expected", "said"),
    [
        ({}, {}, ExpectedWork(0, 0, None), ""),
        ({1: Waiting(5, 700)}, {}, ExpectedWork(5, 700, None), "700 B"),
        ({1: Waiting(5, 0, 5)}, {}, ExpectedWork(5, 0, None), ""),
        ({1: Waiting(5, 0, 5)}, {1: RUNS}, ExpectedWork(5, 1_000, 15), "1.0 kB, 1 min at most"),
        ({1: Waiting(5, 3_000, 2)}, {1: RUNS}, ExpectedWork(5, 3_400, 51), "3.4 kB, 1 min at most"),
        ({1: Waiting(5, 100_000)}, {1: RUNS}, ExpectedWork(5, 100_000, 1_500), "100.0 kB, about 25 min"),
        (
            {1: Waiting(50, 7), 2: Waiting(3_000, 0, 3_000)},
            {1: RUNS},
            ExpectedWork(3_050, 600_007, 9_000),
            "600.0 kB, about 2 h 30 min",
        ),
        (
            {1: Waiting(50, 7), 2: Waiting(30, 24)},
            {1: RUNS, 2: [PastRun(1, 1, 5)]},
            ExpectedWork(80, 31, 120),
            "31 B, about 2 min",
        ),
        ({1: Waiting(2, 5)}, {1: [PastRun(1, 0, 60)]}, ExpectedWork(2, 5, 120), "5 B, about 2 min"),
    ],
)
def test_the_slowest_source_decides_by_the_median_of_its_last_sessions(
    waiting: dict[int, Waiting], past: dict[int, list[PastRun]], expected: ExpectedWork, said: str
) -> None:
    """By bytes where they are known; an archive that is listed without a size has the usual one of its source."""
    found = all_of(expected_by_source(waiting, past).values())
    assert replace(found, seconds=found.seconds and round(found.seconds, 6)) == expected
    assert expected_text(found) == said


def test_a_session_leaves_what_the_next_is_expected_by(installation: Installation) -> None:
    folder = installation.add_folder()
    folder.put("add/H.2013-10-31.1.impc.zip")
    installation.run_session()
    with writing(installation.tracker) as connection:
        assert connection.execute(update(SessionStatistics).values(seconds=7)).rowcount == 1
    folder.put("add/H.2013-10-31.2.impc.zip")
    folder.put("add/H.2013-10-31.3.impc.zip")
    installation.crawl()
    found = in_reading(installation.tracker, expected_work)[folder.source_id]
    assert (found.archives, found.seconds) == (2, 14)
    assert found.bytes == 2 * len((folder.path / "add" / "H.2013-10-31.1.impc.zip").read_bytes())


@pytest.mark.both_databases
def test_the_last_five_sessions_that_fetched_from_a_source_count(tracker: Engine) -> None:
    """For each source on its own: neither older ones nor those that fetched nothing."""
    centre = seed_centre(tracker)
    sources = [seed_source(tracker, centre), seed_source(tracker, centre)]
    now = utc_now()
    absurd, idle = {"fetched": 1, "bytes": 1, "seconds": 9_999}, {"fetched": 0, "bytes": 0, "seconds": 8_888}
    usual = [{"fetched": 1, "bytes": 10, "seconds": seconds} for seconds in (10, 20, 90, 40, 80)]
    for pace, source in enumerate(sources, 1):
        seed_submission(tracker, source, f"H.2013-10-31.{pace}.impc.zip", centre_id=centre, size_bytes=100)
    for past in (absurd, absurd, *usual[:3], idle, *usual[3:]):
        (session,) = in_writing(
            tracker, insert_rows, CrawlingSession, [{"start_time": now, "status": 0, "created": now}]
        )
        for pace, source in enumerate(sources, 1):
            of_source = {"session_id": session, "file_source_id": source, "seconds": past["seconds"] * pace}
            in_writing(tracker, insert_rows, SessionStatistics, [past | of_source])
    assert in_reading(tracker, expected_work) == {
        source: ExpectedWork(1, 100, 400 * pace) for pace, source in enumerate(sources, 1)
    }


@pytest.mark.both_databases
def test_what_no_session_fetches_is_not_expected(tracker: Engine) -> None:
    """Neither what is on hold nor what another centre hosts."""
    centre, other = seed_centre(tracker), seed_centre(tracker, "J")
    source = seed_source(tracker, centre)
    _, held = (
        seed_submission(tracker, source, f"H.2013-10-31.{inc}.impc.zip", centre_id=centre, size_bytes=5)
        for inc in (1, 2)
    )
    seed_submission(tracker, source, "J.2013-10-31.1.impc.zip", centre_id=other, size_bytes=5)
    in_writing(tracker, record_decisions, DecisionKind.HOLD, [held.za_id], by="me", reason="asked for")
    assert [str(key) for key in in_reading(tracker, waiting_submissions)] == ["add/H.2013-10-31.1.impc.zip"]
    assert in_reading(tracker, expected_work) == {source: ExpectedWork(1, 5, None)}
