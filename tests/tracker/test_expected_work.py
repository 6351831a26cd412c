"""What waits for a session, and how long it should take by what earlier sessions took."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from dcc.cli.shell.output import expected_text
from dcc.operations.sessions import open_session
from dcc.session.crawling import crawl_file_sources
from dcc.tracker.database import writing
from dcc.tracker.expected_work import ExpectedWork, PastRun, expected_of, expected_work
from dcc.tracker.models import SessionStatistics
from tests.support.installations import Installation

RUNS = [PastRun(10, 1_000, 20), PastRun(1, 900, 9), PastRun(100, 20_000, 300)]
"""Of an archive, 100, 900 and 200 bytes, and 2, 9 and 3 seconds."""


@pytest.mark.parametrize(
    ("waiting", "past", "expected", "said"),
    [
        ({}, {}, ExpectedWork(0, 0, None), ""),
        ({1: (5, 700)}, {}, ExpectedWork(5, 700, None), "700 B"),
        ({1: (5, 0)}, {1: RUNS}, ExpectedWork(5, 1_000, 15), "1.0 kB, 1 min at most"),
        ({1: (50, 7), 2: (3_000, 0)}, {1: RUNS}, ExpectedWork(3_050, 600_007, 9_000), "600.0 kB, about 2 h 30 min"),
        (
            {1: (50, 7), 2: (30, 9)},
            {1: RUNS, 2: [PastRun(1, 1, 5)]},
            ExpectedWork(80, 16, 150),
            "16 B, about 2 min",
        ),
    ],
)
def test_the_slowest_source_decides_by_the_median_of_its_last_sessions(
    waiting: dict[int, tuple[int, int]], past: dict[int, list[PastRun]], expected: ExpectedWork, said: str
) -> None:
    assert expected_of(waiting, past) == expected
    assert expected_text(expected) == said


@pytest.mark.both_databases
def test_a_session_leaves_what_the_next_is_expected_by(installation: Installation) -> None:
    folder = installation.add_folder()
    folder.put("add/H.2013-10-31.1.impc.zip")
    installation.run_session()
    with writing(installation.tracker) as connection:
        assert connection.execute(update(SessionStatistics).values(seconds=7)).rowcount == 1
    folder.put("add/H.2013-10-31.2.impc.zip")
    folder.put("add/H.2013-10-31.3.impc.zip")
    with open_session(installation.tracker, installation.settings) as session:
        list(crawl_file_sources(session))
    with installation.tracker.connect() as connection:
        found = expected_work(connection)
    assert (found.archives, found.seconds) == (2, 14)
    assert found.bytes == 2 * len((folder.path / "add" / "H.2013-10-31.1.impc.zip").read_bytes())
