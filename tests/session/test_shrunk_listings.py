"""Listings that lose much at once: they are not believed before the next one says the same."""

from collections.abc import Collection

import pytest
from sqlalchemy import select

from dcc.errors import ListingFailedError
from dcc.naming import Action
from dcc.notify.outages import unreachable_sources
from dcc.outcomes import SourceCrawl
from dcc.reports.causes.skipped_archives import SkipReason, skipped_entries
from dcc.reports.languages import load_catalogue
from dcc.sources.base import ActionListing
from dcc.sources.folder import LocalConnection
from dcc.tracker.crawls import latest_crawls
from dcc.tracker.models import FileSourceHasZip, SourceCrawlRow
from tests.support.asking import column_in, in_reading
from tests.support.installations import Folder, Installation
from tests.support.served_sources import register
from tests.support.servers import KINDS_OF_SERVERS, Share
from tests.support.session_reports import session_report
from tests.support.trials import EVERYWHERE

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
    return sum(when is None for when in column_in(installation.tracker, select(FileSourceHasZip.gone_since)))


@pytest.mark.parametrize("is_back", [True, False])
def test_a_directory_that_is_gone_is_believed_by_the_next_crawl(
    quick: Installation, is_back: bool, request: pytest.FixtureRequest
) -> None:
    usual = KINDS_OF_SERVERS if is_back or EVERYWHERE else ["local_folder"]
    shares: list[Share] = [request.getfixturevalue(protocol) for protocol in usual]
    # Some servers have one folder.
    roots = {share.root: share for share in shares}
    for share in roots.values():
        put(share, 2)
        put(share, 1, "edit")
    sources = [register(quick, share) for share in shares]
    quick.run_session()
    for root in roots:
        (root / "add").rename(root / "away")
    hosted = 3 * len(sources)
    for first in crawls_of(quick, sources):
        assert (first.outcome, first.gone, present(quick)) == ("partial", 0, hosted)
        assert first.error is not None
        assert first.error.kind == "ListingShrunkError"
        assert "the directory add is gone, and held 2 before" in first.error.message
    if is_back:
        for root in roots:
            (root / "away").rename(root / "add")
    for second in crawls_of(quick, sources):
        assert (second.outcome, second.error, second.changed) == ("ok", None, 0)
        assert (second.gone, present(quick)) == ((0, hosted) if is_back else (2, hosted - 2 * len(sources)))
        assert [note.startswith("add: 2 archives of") for note in second.notes] == ([] if is_back else [True])
    for third in crawls_of(quick, sources):
        assert (third.outcome, third.gone, third.notes) == ("ok", 0, ())


def crawls_of(installation: Installation, sources: Collection[int]) -> list[SourceCrawl]:
    """What a session crawled of these sources."""
    crawls = installation.run_session().crawls
    return [crawls[source_id] for source_id in sources]


def test_what_counts_as_shrunk(installation: Installation) -> None:
    """All, or more than a fifth and at least three."""
    cases = {(1, 0): True, (3, 0): True, (3, 1): False, (4, 1): True}
    cases |= {(10, 8): False, (10, 7): True, (20, 16): False, (20, 15): True}
    folders = {case: installation.add_folder(name="{} to {}".format(*case)) for case in cases}
    crawled = installation.with_settings(until="zip_name")
    sources = [folder.source_id for folder in folders.values()]
    for (before, _), folder in folders.items():
        put(folder, before)
    crawls_of(crawled, sources)
    for (before, after), folder in folders.items():
        take(folder, after + 1, before)
    first, second = crawls_of(crawled, sources), crawls_of(crawled, sources)
    for ((before, after), is_shrunk), now, later in zip(cases.items(), first, second, strict=True):
        gone = before - after
        assert (now.outcome, now.gone, later.gone) == (("partial", 0, gone) if is_shrunk else ("ok", gone, 0))


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


def test_everybody_is_warned(installation: Installation, folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    put(folder, 5)
    installation.run_session()
    take(folder, 1, 5)
    session = installation.run_session().id
    said = "the directory add lists 0 archives, and held 5 before"
    assert said in caplog.text
    with installation.tracker.connect() as connection:
        assert said in str(connection.scalars(select(SourceCrawlRow.message)).all())
        crawl = latest_crawls(connection)[folder.source_id]
        assert crawl.error is not None
        assert said in crawl.error.message
        german = load_catalogue("de", installation.settings).tell(crawl.error.translatable)
        assert "Verzeichnis add zeigt 0 Archive und enthielt vorher 5. " in german
        skipped = skipped_entries(connection, folder.source_id)
        (failed,) = (entry for entry in skipped if entry.why is SkipReason.CRAWL_FAILED)
        assert said in str(failed.message)
        assert said in " ".join(session_report(connection, session).text.split())
        (trouble,) = unreachable_sources(connection, installation.settings, session)
        assert said in str(trouble.reason)
    session = installation.run_session().id
    assert in_reading(installation.tracker, unreachable_sources, installation.settings, session) == []
    assert "add: 5 archives of" in in_reading(installation.tracker, session_report, session).text
