"""The pace of sources in the tracker: schedules, pauses, and how their past crawls count."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import Connection, update

from dcc.databases.transactions import insert_rows, writing
from dcc.errors import ConfigurationError, NotFoundError
from dcc.sources.crawl_policy import DueReason, Pause
from dcc.tracker.models import CrawlingSession, FileSource, SourceCrawlRow, utc_now
from dcc.tracker.register.file_sources import change_source, list_sources
from dcc.tracker.register.source_addresses import (
    load_addresses,
    load_crawl_dues,
    paused_sources,
    pin_host_keys,
    set_pause,
)
from tests.support.asking import in_reading, in_writing
from tests.support.installations import Installation

HOUR = timedelta(hours=1)
NOW = utc_now()


def why(installation: Installation, source: int, **given: int) -> DueReason:
    return in_reading(installation.tracker, load_crawl_dues, 3, NOW, named=given.values())[source].why


@pytest.mark.both_databases
def test_past_crawls_decide_whether_a_source_is_due(installation: Installation) -> None:
    source = installation.add_folder().source_id
    with writing(installation.tracker) as connection:
        (session,) = insert_rows(
            connection, CrawlingSession.__table__, [{"start_time": NOW, "status": 0, "created": NOW}]
        )
        change_source(connection, source, every="6h")
        connection.execute(update(FileSource).values(last_update=NOW - 9 * HOUR))

    def crawled(hours: float, outcome: str) -> None:
        at = NOW - hours * HOUR
        row = {"session_id": session, "file_source_id": source, "start_time": at, "finish_time": at, "outcome": outcome}
        in_writing(installation.tracker, insert_rows, SourceCrawlRow.__table__, [row])

    assert why(installation, source) is DueReason.DUE
    for hours, outcome, expected in (
        (8, "ok", DueReason.DUE),
        (4, "partial", DueReason.RECENT),
        (3.5, "failed", DueReason.RECENT),
        (3, "failed", DueReason.RECENT),
        (0.5, "failed", DueReason.FAILING),
    ):
        crawled(hours, outcome)
        assert why(installation, source) is expected, (hours, outcome)
    assert why(installation, source, named=source) is DueReason.DUE
    mended: tuple[Callable[[Connection], None], ...] = (
        lambda connection: change_source(connection, source, every="3h", windows="00:00-24:00"),
        lambda connection: set_pause(connection, source, None),
        lambda connection: pin_host_keys(connection, source, []),
    )
    for mend in mended:
        with writing(installation.tracker) as connection:
            change_source(connection, source, every="2h")
            connection.execute(update(FileSource).values(last_update=NOW - 9 * HOUR))
        assert why(installation, source) is DueReason.FAILING
        in_writing(installation.tracker, mend)
        assert why(installation, source) is DueReason.DUE


@pytest.mark.both_databases
def test_a_paused_source_is_used_by_nobody_until_its_pause_ends(installation: Installation) -> None:
    source = installation.add_folder().source_id

    def used() -> bool:
        return bool(in_reading(installation.tracker, load_addresses))

    for until, is_used in ((None, False), (NOW + HOUR, False), (NOW - HOUR, True)):
        in_writing(installation.tracker, set_pause, source, Pause("a move", "ann", NOW - 2 * HOUR, until))
        assert used() == is_used
        assert (why(installation, source, named=source) is DueReason.PAUSED) == (not is_used)
        assert bool(in_reading(installation.tracker, list_sources)[0].pause) == (not is_used)
        assert in_reading(installation.tracker, paused_sources) == (set() if is_used else {source})
    in_writing(installation.tracker, set_pause, source, None)
    assert used()
    with pytest.raises(NotFoundError, match="No file source 99"), writing(installation.tracker) as connection:
        set_pause(connection, 99, None)


def test_a_schedule_that_cannot_be_read_changes_nothing(installation: Installation) -> None:
    source = installation.add_folder().source_id
    for given in ({"every": "often"}, {"windows": "at night"}, {"schedule": "06"}, {"every": "99999w"}):
        with pytest.raises(ConfigurationError, match="Write"), writing(installation.tracker) as connection:
            change_source(connection, source, **given)
    (entry,) = in_reading(installation.tracker, list_sources)
    assert (entry.every, entry.windows) == ("", "")
