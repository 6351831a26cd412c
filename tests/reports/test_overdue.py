"""Which centres are unusually silent, and which submissions are overdue."""

from datetime import date, timedelta

import pytest
from sqlalchemy import update

from dcc.databases.transactions import writing
from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.phases import Status
from dcc.reports.overdue import activity_of_centres, crawled_sources, late_centres
from dcc.runtime.clock import utc_now
from dcc.tracker import progress
from dcc.tracker.decisions import DecisionKind, record_decisions
from dcc.tracker.hostings.foreign_archives import accept_archive, decline_archive
from dcc.tracker.models import Centre, FileSourceHasZip, SourceCrawlRow, ZipAction
from dcc.tracker.queries.submission_filters import SubmissionFilter
from dcc.tracker.queries.submission_lists import select_submissions
from dcc.tracker.register.file_sources import change_source
from dcc.vocabulary import DeltaStrategy
from tests.support.asking import execute_in, in_reading, in_writing
from tests.support.databases import only_sqlite
from tests.support.installations import Installation


@only_sqlite
@pytest.mark.parametrize(
    ("archives", "gap", "silent_after"),
    [(12, 1, 7), (12, 3, 15), (12, 9, 30), (5, 1, 30), (4, 60, 120), (3, 60, 30)],
    ids=["daily", "every third day", "seldom", "too few to wait less", "every other month", "too few"],
)
def test_a_centre_is_silent_when_it_is_unusual_for_it(
    installation: Installation, archives: int, gap: int, silent_after: int
) -> None:
    folder = installation.add_folder()
    for number in range(archives):
        day = date(2026, 1, 1) + timedelta(days=gap * number)
        folder.put(f"add/H.{day}.1.impc.zip", b"x")
    installation.crawl()
    for days, silent in ((silent_after - 0.5, False), (silent_after + 0.5, True)):
        (found,) = in_reading(
            installation.tracker, activity_of_centres, installation.settings, utc_now() + timedelta(days=days)
        )
        assert found.silent == silent, found
    assert found.within_days == silent_after


def test_a_source_is_overdue_since_it_was_listed_however_often_it_is_tried_and_a_centre_silent_since_its_newest_archive(
    installation: Installation,
) -> None:
    tracker, folder, now = installation.tracker, installation.add_folder(), utc_now()
    folder.put("add/H.2013-10-31.1.impc.zip", b"x")
    installation.crawl()
    execute_in(tracker, update(ZipAction).values(last_update=now - timedelta(days=100)))
    folder.put("add/H.2013-10-31.2.impc.zip", b"x")
    installation.crawl()
    (heard,) = in_reading(tracker, activity_of_centres, installation.settings, now)
    assert (heard.silent, heard.heard is not None and heard.heard > now - timedelta(hours=1)) == (False, True)
    execute_in(tracker, update(SourceCrawlRow).values(finish_time=now - timedelta(hours=100)))
    folder.path.rename(folder.path.with_name("away"))
    installation.crawl()
    (source,) = in_reading(tracker, crawled_sources, installation.settings, utc_now())
    assert (source.overdue, source.is_tried) == (True, True)
    execute_in(tracker, update(Centre).values(is_active=False))
    for told in (crawled_sources, activity_of_centres):
        assert in_reading(tracker, told, installation.settings, now) == []


def test_an_archive_is_late_since_its_first_listing_however_late_it_was_asked_for_or_changed(
    installation: Installation,
) -> None:
    tracker, folder, now = installation.tracker, installation.add_folder(), utc_now()
    keys = [f"add/H.2013-10-31.{number}.impc.zip" for number in (1, 2)]
    folder.put(keys[0], b"no zip at all")
    # It was asked for only now, as after a pause of its source.
    installation.run_session()
    folder.put(keys[1], b"x")
    installation.crawl()
    listed = now - timedelta(days=10)
    execute_in(tracker, update(FileSourceHasZip).values(first_listed=listed))
    late = in_reading(tracker, late_centres, installation.settings, now)["H"]
    assert {str(one.key): one.since for one in late.zips} == dict.fromkeys(keys, listed)
    (heard,) = in_reading(tracker, activity_of_centres, installation.settings, now)
    assert heard.heard == listed
    # What an earlier version recorded is late since it was asked for, or changed.
    execute_in(tracker, update(FileSourceHasZip).values(first_listed=None))
    assert in_reading(tracker, late_centres, installation.settings, utc_now()) == {}


def test_days_in_names_that_lie_millennia_apart_are_no_fault(installation: Installation) -> None:
    folder = installation.add_folder()
    for year in ("0001", "3000", "6000", "9000"):
        folder.put(f"add/H.{year}-01-01.1.impc.zip", b"x")
    installation.crawl()
    (found,) = in_reading(
        installation.tracker, activity_of_centres, installation.settings, utc_now() + timedelta(days=400)
    )
    assert not found.silent


@only_sqlite
def test_failed_archives_are_named_however_many_others_wait(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcc.reports.overdue.NAMED", 1)
    folder = installation.add_folder()
    keys = [f"add/H.2013-10-31.{increment}.impc.zip" for increment in range(1, 5)]
    folder.put("add/H.2013-02-31.1.impc.zip", b"refused by its name")
    folder.put(keys[0], b"no zip at all")
    installation.run_session()
    for key in keys[1:]:
        folder.put(key, b"x")
    installation.crawl()
    later = utc_now() + timedelta(days=installation.settings.overdue_days + 1)
    late = in_reading(installation.tracker, late_centres, installation.settings, later)["H"]
    assert (late.failed, late.waiting) == (1, 3)
    assert [one.status is Status.FAILED for one in late.zips] == [False, True]
    # What somebody decided on is not overdue.
    with writing(installation.tracker) as tracker:
        failed, held, cancelled = (
            [one.id for one in select_submissions(tracker, SubmissionFilter(), [key])] for key in keys[:3]
        )
        record_decisions(tracker, DecisionKind.ACKNOWLEDGE, failed, by="tester", reason="hopeless")
        record_decisions(tracker, DecisionKind.HOLD, held, by="tester", reason="for now")
        progress.cancel(tracker, cancelled, "tester", "Not meant.")
        late = late_centres(tracker, installation.settings, later)["H"]
    assert (late.failed, [str(one.key) for one in late.zips]) == (0, keys[3:])


def test_archives_that_are_gone_before_their_download_or_declined_are_not_overdue(installation: Installation) -> None:
    folder = installation.add_folder()
    gone, declined = "add/H.2013-10-31.1.impc.zip", SubmissionKey(Action.ADD, "J.2013-10-31.1.impc.zip")
    for key in (gone, str(declined), "add/H.2013-10-31.2.impc.zip"):
        folder.put(key, b"x")
    later = utc_now() + timedelta(days=installation.settings.overdue_days + 1)

    def waiting() -> dict[str, int]:
        installation.crawl()
        late = in_reading(installation.tracker, late_centres, installation.settings, later)
        return {centre: found.waiting for centre, found in late.items()}

    assert waiting() == {"H": 2, "J": 1}
    (folder.path / gone).unlink()
    in_writing(installation.tracker, decline_archive, declined, declined_by="tester", reason="J knows nothing of it.")
    in_writing(installation.tracker, change_source, folder.source_id, delta=DeltaStrategy.FULL)
    assert waiting() == {"H": 1}
    in_writing(installation.tracker, accept_archive, declined, revoked_by="tester")
    assert waiting() == {"H": 1, "J": 1}
