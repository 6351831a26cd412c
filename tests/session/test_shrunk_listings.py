"""Listings that lose much at once: they are not believed before the next one says the same."""

from __future__ import annotations

from itertools import product

import pytest
from sqlalchemy import select

from dcc.errors import ListingFailedError
from dcc.naming import Action
from dcc.notify.outages import sources_away
from dcc.reports.causes.skipped_archives import SkipReason, skipped_entries
from dcc.reports.languages import load_catalogue
from dcc.sources.base import ActionListing
from dcc.sources.folder import LocalConnection
from dcc.tracker.crawls import latest_crawls
from dcc.tracker.models import FileSourceHasZip
from tests.support.databases import only_sqlite
from tests.support.installations import Folder, Installation
from tests.support.served_sources import register
from tests.support.servers import Share
from tests.support.session_reports import session_report
from tests.support.trials import usually

NEW = "add/H.2014-01-01.1.impc.zip"


def key(number: int, action: str = "add") -> str:
    return f"{action}/H.2013-10-31.{number}.impc.zip"


def put(folder: Folder | Share, count: int, action: str = "add") -> None:
    for number in range(1, count + 1):
        folder.put(key(number, action), b"no zip at all")


def take(folder: Folder, first: int, last: int, action: str = "add") -> None:
    for number in range(first, last + 1):
        (folder.path / key(number, action)).unlink()


def present(installation: Installation) -> int:
    """How many hostings are not gone."""
    with installation.tracker.connect() as connection:
        return sum(when is None for when in connection.scalars(select(FileSourceHasZip.gone_since)))


ENDS = list(product(("sftp_server", "ftp_server", "local_folder", "web_folder"), (True, False)))
"""Where a directory is gone, and whether it comes back."""


@pytest.mark.parametrize(
    ("protocol", "is_back"), usually([end for end in ENDS if end[1] or end[0] == "local_folder"], ENDS)
)
def test_a_directory_that_is_gone_is_believed_by_the_next_crawl(
    quick: Installation, protocol: str, is_back: bool, request: pytest.FixtureRequest
) -> None:
    share: Share = request.getfixturevalue(protocol)
    put(share, 2)
    put(share, 1, "edit")
    source_id = register(quick, share)
    quick.run_session()
    (share.root / "add").rename(share.root / "away")
    first = quick.run_session().crawls[source_id]
    assert (first.outcome, first.gone, present(quick)) == ("partial", 0, 3)
    assert first.error is not None
    assert first.error.kind == "ListingShrunkError"
    assert "the directory add is gone, and held 2 before" in first.error.message
    if is_back:
        (share.root / "away").rename(share.root / "add")
    second = quick.run_session().crawls[source_id]
    assert (second.outcome, second.error) == ("ok", None)
    assert (second.gone, present(quick)) == ((0, 3) if is_back else (2, 1))
    assert second.changed == 0
    assert [note.startswith("add: 2 archives of") for note in second.notes] == ([] if is_back else [True])
    third = quick.run_session().crawls[source_id]
    assert (third.outcome, third.gone, third.notes) == ("ok", 0, ())


@only_sqlite
@pytest.mark.parametrize(
    ("before", "after", "shrunk"),
    [
        (1, 0, True),
        (3, 0, True),
        (3, 1, False),
        (4, 1, True),
        (10, 8, False),
        (10, 7, True),
        (20, 16, False),
        (20, 15, True),
    ],
    ids=str,
)
def test_what_counts_as_shrunk(
    installation: Installation, folder: Folder, before: int, after: int, shrunk: bool
) -> None:
    """All, or more than a fifth and at least three."""
    put(folder, before)
    installation.run_session()
    take(folder, after + 1, before)
    crawl = installation.run_session().crawls[folder.source_id]
    assert (crawl.outcome == "partial") == shrunk
    assert crawl.gone == (0 if shrunk else before - after)
    assert installation.run_session().crawls[folder.source_id].gone == (before - after if shrunk else 0)


def test_what_a_shrunk_listing_shows_is_taken_and_what_it_misses_waits(
    installation: Installation, folder: Folder
) -> None:
    put(folder, 10)
    crawled = installation.with_settings(until="zip_name")
    crawled.run_session()
    take(folder, 4, 10)
    folder.put(NEW)
    result = crawled.run_session()
    assert result.zips[NEW].succeeded
    assert key(10) not in result.zips
    assert present(installation) == 11


@only_sqlite
def test_one_that_goes_on_shrinking_is_decided_by_the_listing_that_stays(
    installation: Installation, folder: Folder
) -> None:
    put(folder, 30)
    installation.run_session()
    outcomes = []
    for first, last in ((21, 30), (11, 20), (11, 10)):
        take(folder, first, last)
        crawl = installation.run_session().crawls[folder.source_id]
        outcomes.append((crawl.outcome, crawl.gone))
    assert outcomes == [("partial", 0), ("partial", 0), ("ok", 20)]


@only_sqlite
def test_a_listing_that_is_not_whole_decides_nothing(
    installation: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, 5)
    installation.run_session()
    take(folder, 1, 5)
    assert installation.run_session().crawls[folder.source_id].outcome == "partial"
    list_action = LocalConnection.list_action

    def without_edit(self: LocalConnection, action: Action) -> ActionListing:
        if action is Action.EDIT:
            raise ListingFailedError("The directory edit cannot be listed.")
        return list_action(self, action)

    with monkeypatch.context() as patched:
        patched.setattr(LocalConnection, "list_action", without_edit)
        crawl = installation.run_session().crawls[folder.source_id]
        assert (crawl.outcome, crawl.gone) == ("partial", 0)
    assert installation.run_session().crawls[folder.source_id].gone == 5


@only_sqlite
def test_everybody_is_warned(installation: Installation, folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    put(folder, 5)
    installation.run_session()
    take(folder, 1, 5)
    session = installation.run_session().id
    said = "the directory add lists 0 archives, and held 5 before"
    assert said in caplog.text
    with installation.tracker.connect() as connection:
        crawl = latest_crawls(connection)[folder.source_id]
        assert crawl.error is not None
        assert said in crawl.error.message
        german = load_catalogue("de", installation.settings).tell(crawl.error.said)
        assert "Verzeichnis add zeigt 0 Archive und enthielt vorher 5. " in german
        skipped = skipped_entries(connection, folder.source_id)
        (failed,) = (entry for entry in skipped if entry.why is SkipReason.CRAWL_FAILED)
        assert said in str(failed.message)
        assert said in " ".join(session_report(connection, session).text.split())
        (trouble,) = sources_away(connection, installation.settings, session)
        assert said in str(trouble.reason)
    session = installation.run_session().id
    with installation.tracker.connect() as connection:
        assert sources_away(connection, installation.settings, session) == []
        assert "add: 5 archives of" in session_report(connection, session).text
