"""Crawling file sources: what is found, what is recorded, and what one source's trouble does to the others."""

import time
from collections import deque
from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import delete, select, update

from dcc.databases.transactions import writing
from dcc.naming import Action
from dcc.operations.metrics.collector import Collection, exposition
from dcc.operations.session_work import open_session
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase
from dcc.runtime.clock import utc_now
from dcc.session.archives.archive_phases import process_zip_actions
from dcc.session.source_crawls import crawl_file_sources
from dcc.sources.base import ActionListing
from dcc.sources.folder import LocalConnection
from dcc.tracker.crawls import latest_findings
from dcc.tracker.models import CrawlFinding, CrawlingSession, FileSourceHasZip, ZipFile
from dcc.tracker.queries.submission_lists import find_submissions
from dcc.tracker.register.file_sources import change_source
from tests.support.asking import in_reading, in_writing, row_in, value_in
from tests.support.databases import only_sqlite
from tests.support.installations import Installation
from tests.support.session_reports import session_report

FIRST, SECOND = (f"H.2013-10-31.{inc}.impc.zip" for inc in (1, 2))


@pytest.mark.both_databases
def test_the_three_directories_give_three_actions_and_all_else_is_left_aside_and_counted(
    installation: Installation,
) -> None:
    folder, other = installation.add_folder(), installation.add_folder(name="other")
    for size, action in enumerate(Action, 1):
        folder.put(f"{action}/{FIRST}", b"x" * 20 * size)
    (folder.path / "add" / "old.impc.zip").mkdir()
    (folder.path / "add" / "notes.txt").write_text("hello")
    other.put(f"edit/{SECOND}")
    crawls = installation.crawl().crawls
    found = crawls[folder.source_id]
    assert set(found.new_zips) == {SubmissionKey(action, FIRST) for action in Action}
    keys = [f"edit/{SECOND}", *(f"{action}/{FIRST}" for action in Action)]
    assert installation.states() == dict.fromkeys(keys, "zip_name done")
    assert installation.count(ZipFile) == 2
    assert (found.listed, found.ignored) == (3, 2)
    assert {name for name, _ in found.ignored_examples} == {"add/old.impc.zip", "add/notes.txt"}
    # Archives of one name have their own sizes.
    listed = [entry for entry in in_reading(installation.tracker, find_submissions) if entry.file_name == FIRST]
    sizes = {entry.action: entry.size_bytes for entry in listed}
    assert sizes == {action: 20 * size for size, action in enumerate(Action, 1)}
    # That it has no other directories is no fault.
    assert (crawls[other.source_id].outcome, crawls[other.source_id].listed) == ("ok", 1)


def test_a_fault_of_the_platform_costs_one_source_its_crawl_and_no_other(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy, odd = installation.add_folder("H", "healthy"), installation.add_folder("J", "odd")
    healthy.put(f"add/{FIRST}")
    list_action = LocalConnection.list_action

    def faulty(self: LocalConnection, action: Action) -> ActionListing:
        if self._base.name == "odd":
            raise ZeroDivisionError("oh")
        time.sleep(0.1)
        return list_action(self, action)

    monkeypatch.setattr(LocalConnection, "list_action", faulty)
    result = installation.run_session()
    assert installation.states() == {f"add/{FIRST}": "xsd done"}
    crawled = result.crawls[odd.source_id]
    assert crawled.outcome == "failed"
    assert crawled.error is not None
    assert crawled.error.kind == "InternalFaultError"
    assert "ZeroDivisionError: oh" in crawled.error.message
    assert value_in(installation.tracker, select(CrawlingSession.status)) == int(Phase.ZIP_NAME)


@pytest.mark.both_databases
def test_crawlers_that_see_the_same_new_zips_at_once_lose_none(installation: Installation) -> None:
    """Eight sources, one listing."""
    folders = [installation.add_folder("H", f"source {number}") for number in range(8)]
    names = [f"add/H.2013-10-31.{inc}.impc.zip" for inc in range(20)]
    for folder in folders:
        for name in names:
            folder.put(name, b"the same")
    installation.crawl()
    assert sorted(installation.states()) == sorted(names)
    assert installation.count(FileSourceHasZip) == 8 * 20


@only_sqlite
def test_a_source_that_keeps_failing_is_left_alone_and_everybody_is_told(installation: Installation) -> None:
    folder = installation.add_folder()
    folder.put(f"add/{FIRST}")
    installation.crawl()
    (folder.path).rename(folder.path.with_name("away"))
    for failures in (1, 2, 3):
        result = installation.crawl()
        assert result.crawls[folder.source_id].then.startswith("failed 3 times") == (failures == 3)
    told = "Failures in a row: 3. It is left alone until"
    assert told in " ".join(in_reading(installation.tracker, session_report, result.id).text.split())
    empty = installation.crawl()
    assert empty.crawls == {}
    assert told in " ".join(in_reading(installation.tracker, session_report, empty.id).text.split())
    figures = text_string_to_metric_families(exposition(Collection(installation.settings).collect()).decode())
    samples = [sample for family in figures for sample in family.samples if "why" in sample.labels]
    found = {sample.labels["why"]: sample.value for sample in samples}
    assert found["failing"] == 1
    folder.path.with_name("away").rename(folder.path)
    assert installation.crawl().crawls == {}
    with open_session(installation.tracker, installation.settings) as session:
        (named,) = crawl_file_sources(session, [folder.source_id])
    assert (named.outcome, named.then) == ("ok", "")
    assert set(installation.crawl().crawls) == {folder.source_id}


@only_sqlite
def test_a_new_archive_of_unusual_size_is_noticed(installation: Installation) -> None:
    folder = installation.add_folder()
    for number in range(1, 21):
        folder.put(f"add/H.2013-10-31.{number}.impc.zip", b"x" * (1_000 + number))
    assert installation.crawl().crawls[folder.source_id].findings == ()
    for number, size in ((21, 10_105), (22, 10_106), (23, 102), (24, 101)):
        folder.put(f"add/H.2013-11-01.{number}.impc.zip", b"x" * size)
    told = installation.crawl().crawls[folder.source_id].findings
    assert [finding.partition(" has ")[0] for finding in told] == [
        "add/H.2013-11-01.22.impc.zip",
        "add/H.2013-11-01.24.impc.zip",
    ]
    assert "a size of 10.1 kB; the median of the last 20 archives of its centre is 1 kB" in told[0]
    # The centre reads it too, in its reports.
    assert told[0].endswith("The centre says whether it is what it meant to submit.")
    # One odd archive does not make others of its size usual.
    folder.put("add/H.2013-11-02.25.impc.zip", b"x" * 10_500)
    assert len(installation.crawl().crawls[folder.source_id].findings) == 1


def test_a_date_in_the_future_in_a_name_is_noted_and_the_archive_processed(installation: Installation) -> None:
    folder = installation.add_folder()
    today = utc_now().date()
    for days in (0, 1, 3):
        folder.put(f"add/H.{today + timedelta(days=days)}.1.impc.zip", b"x")
    found = installation.crawl().crawls[folder.source_id]
    (note,) = found.notes
    assert note.startswith(f"add/H.{today + timedelta(days=3)}.1.impc.zip on ")
    assert "names the date" in note
    assert (found.findings, len(installation.states())) == ((), 3)
    installation.crawl()
    assert [finding.kind for finding in in_reading(installation.tracker, latest_findings)] == ["future_date"]


@pytest.mark.both_databases
def test_an_archive_that_is_listed_without_a_size_is_judged_on_arrival(installation: Installation) -> None:
    folder = installation.add_folder()
    small, large = ("add/H.2013-11-01.21.impc.zip", "add/H.2013-11-01.22.impc.zip")
    for number in range(1, 21):
        folder.put(f"add/H.2013-10-31.{number}.impc.zip", b"x" * (1_000 + number))
    installation.crawl()
    folder.put(small, b"x" * 1_500)
    folder.put(large, b"x" * 15_000)
    with open_session(installation.tracker, installation.settings) as session:
        deque(crawl_file_sources(session), maxlen=0)
        with writing(installation.tracker) as connection:
            connection.execute(delete(CrawlFinding))
            connection.execute(update(FileSourceHasZip).values(size_bytes=None))
            names = [key.removeprefix("add/") for key in (small, large)]
            connection.execute(update(ZipFile).where(ZipFile.file_name.in_(names)).values(size_bytes=None))
        for _ in range(2):
            deque(process_zip_actions(session), maxlen=0)
    kind = CrawlFinding.kind == "unusual_size"
    name, said = row_in(installation.tracker, select(CrawlFinding.file_name, CrawlFinding.message).where(kind))
    assert name == large
    assert "a size of 15 kB; the median of the last " in said


@only_sqlite
def test_nothing_is_fetched_outside_the_windows_of_a_source(installation: Installation) -> None:
    folder = installation.add_folder()
    folder.put(f"add/{FIRST}")
    installation.crawl()
    tomorrow = (utc_now() + timedelta(days=1)).strftime("%a")
    in_writing(installation.tracker, change_source, folder.source_id, windows=f"{tomorrow} 12:00-12:01")
    assert installation.run_session().zips == {}
    in_writing(installation.tracker, change_source, folder.source_id, windows="")
    assert set(installation.run_session().zips) == {f"add/{FIRST}"}
