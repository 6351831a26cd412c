"""Which submissions a session downloads or takes up again, and which file source is asked first."""

from datetime import date

import pytest
from sqlalchemy import Engine, Row, select, update

from dcc.databases.transactions import insert_rows, writing
from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase, State, Status
from dcc.runtime.clock import utc_now
from dcc.sources.crawl_policy import CrawlDue, CrawlPolicy, DueReason, PastCrawls
from dcc.tracker import progress
from dcc.tracker.hostings.download_plan import PlannedSubmission, load_interrupted, load_waiting, sources_to_use
from dcc.tracker.hostings.retries import reopen_failed_downloads
from dcc.tracker.hostings.source_statistics import TransferStatistics, record_transfer_statistics
from dcc.tracker.models import (
    Centre,
    CrawlingSession,
    FileSource,
    FileSourceHasZip,
    FileSourceStatistics,
    Reopening,
    SourceCrawlRow,
    ZipDownload,
    ZipFile,
)
from dcc.tracker.progress import StateReport, Subject
from dcc.tracker.register import centres
from dcc.tracker.states import DOWNLOADING, EXTRACTING, NOT_DOWNLOADED, VALID
from dcc.vocabulary import SourceState
from tests.support.asking import execute_in, in_reading, in_writing
from tests.support.databases import (
    SeededSubmission,
    only_sqlite,
    seed_centre,
    seed_documents,
    seed_download,
    seed_hosting,
    seed_source,
    seed_submission,
)

NAME = "H.2013-10-31.1.impc.zip"


def _update(tracker: Engine, model: type, row_id: int, **values: object) -> None:
    table = model.__table__  # type: ignore[attr-defined]
    execute_in(tracker, update(table).where(table.c.id == row_id).values(**values))


def _statistics(tracker: Engine, source_id: int, failures: int = 0, size: int = 0, seconds: float = 0.0) -> None:
    row = {"file_source_id": source_id, "failures": failures, "bytes": size, "seconds": seconds}
    with writing(tracker) as connection:
        connection.execute(FileSourceStatistics.__table__.insert(), [row])


def _plans(
    tracker: Engine, sources: set[int] | None = None, za_ids: list[int] | None = None
) -> list[PlannedSubmission]:
    return in_reading(tracker, load_waiting, sources, za_ids).planned


def _order(tracker: Engine, sources: set[int] | None = None) -> list[int]:
    """The sources of the only submission that waits, in the order in which they are asked."""
    (plan,) = _plans(tracker, sources)
    return [hosting.source_id for hosting in plan.hostings]


def _rows(tracker: Engine, model: type) -> list[Row[tuple[object, ...]]]:
    with tracker.connect() as connection:
        return list(connection.execute(select(model.__table__)))  # type: ignore[attr-defined]


def _fail(tracker: Engine, zip_: SeededSubmission, state: State = NOT_DOWNLOADED) -> int:
    """Let the download of a submission fail for good; the id of the attempt."""
    download = seed_download(tracker, zip_.hosting_id)
    in_writing(tracker, progress.report, [StateReport(Subject.ZIP_DOWNLOAD, download, state)])
    return download


def _reopened(tracker: Engine, sources: set[int] | None) -> int:
    """How many failed downloads a session of these sources tries again."""
    return in_writing(tracker, reopen_failed_downloads, sources, None)


class TestPreference:
    def test_the_producer_s_own_sources_come_first_then_few_failures_then_speed_then_age(self, tracker: Engine) -> None:
        centre, other = seed_centre(tracker, "H"), seed_centre(tracker, "J")
        failing = seed_source(tracker, other)
        slow, fast = seed_source(tracker, other), seed_source(tracker, other)
        unmeasured, younger = seed_source(tracker, other), seed_source(tracker, other)
        own_failing, own = seed_source(tracker, centre), seed_source(tracker, centre)
        _statistics(tracker, failing, failures=1, size=10_000_000, seconds=1.0)
        _statistics(tracker, slow, size=1_000, seconds=2.0)
        _statistics(tracker, fast, size=3_000, seconds=2.0)
        _statistics(tracker, unmeasured, size=0, seconds=0.0)
        _statistics(tracker, own_failing, failures=9)
        zip_ = seed_submission(tracker, younger, centre_id=centre, size_bytes=5)
        for source in (own, slow, unmeasured, failing, own_failing, fast):
            seed_hosting(tracker, zip_.za_id, source, 5)
        assert _order(tracker) == [own, own_failing, fast, slow, unmeasured, younger, failing]

    def test_of_a_centre_s_sources_with_as_few_failures_the_one_with_a_checksum_comes_first(
        self, tracker: Engine
    ) -> None:
        centre, other = seed_centre(tracker, "H"), seed_centre(tracker, "J")
        older, others = seed_source(tracker, centre), seed_source(tracker, other)
        published, failing = seed_source(tracker, centre), seed_source(tracker, centre)
        _statistics(tracker, failing, failures=1)
        zip_ = seed_submission(tracker, older, centre_id=centre, size_bytes=5)
        for source in (published, failing, others):
            seed_hosting(tracker, zip_.za_id, source, 5)
        beside = update(FileSourceHasZip).where(FileSourceHasZip.file_source_id != older).values(has_md5=True)
        execute_in(tracker, beside)
        assert _order(tracker) == [published, older, failing, others]

    def test_a_source_of_which_the_size_is_known_to_differ_is_left_out(self, tracker: Engine) -> None:
        centre = seed_centre(tracker)
        cases: list[tuple[list[int | None], list[int | None]]] = [
            ([5, 6, 5], [5, 5]),
            ([None, 5, 6], [None, 5]),
            ([5, None, 6], [5, None]),
            ([None, None], [None, None]),
            ([0, 5], [0]),
        ]
        for number, (sizes, _) in enumerate(cases):
            source = seed_source(tracker, centre)
            zip_ = seed_submission(tracker, source, f"H.2013-10-31.{number}.impc.zip", size_bytes=sizes[0])
            for size in sizes[1:]:
                seed_hosting(tracker, zip_.za_id, seed_source(tracker, centre), size)
        found = [[hosting.size_bytes for hosting in plan.hostings] for plan in _plans(tracker)]
        assert found == [kept for _, kept in cases]

    @pytest.mark.both_databases
    def test_failures_of_a_source_fade_once_it_delivers_again(self, tracker: Engine) -> None:
        source = seed_source(tracker, seed_centre(tracker))
        sessions = [
            TransferStatistics(failures=5),
            TransferStatistics(failures=1),
            TransferStatistics(1, 1, 3_000, 2.0),
            TransferStatistics(1, 0, 1_000, 0.5),
        ]
        known = []
        for transfer_statistics in sessions:
            in_writing(tracker, record_transfer_statistics, {source: transfer_statistics})
            known.append(_rows(tracker, FileSourceStatistics)[0][1:])
        assert known == [(5, 0, 0.0), (6, 0, 0.0), (4, 3_000, 2.0), (2, 4_000, 2.5)]


class TestWhatWaits:
    def test_the_newest_comes_first_by_what_the_names_say(self, tracker: Engine) -> None:
        centre, other = seed_centre(tracker, "J"), seed_centre(tracker, "H")
        source = seed_source(tracker, centre)
        names = [
            (2014, 1, 1, 1, other, "H.2014-01-01.1.impc.zip"),
            (2013, 10, 31, 10, centre, "J.2013-10-31.10.impc.zip"),
            (2013, 10, 31, 2, other, "H.2013-10-31.2.impc.zip"),
            (2013, 10, 31, 2, centre, "J.2013-10-31.2.impc.zip"),
        ]
        for year, month, day, inc, producer, name in reversed(names):
            zip_ = seed_submission(tracker, source, name, centre_id=producer)
            _update(tracker, ZipFile, zip_.zip_id, created=date(year, month, day), inc=inc)
        in_writing(tracker, centres.delegate, "H", "J", recorded_by="wrangler")
        assert [plan.key.file_name for plan in _plans(tracker)] == [row[-1] for row in names]

    def test_sources_that_are_not_available_or_active_or_do_not_host_it_any_more_are_left_out(
        self, tracker: Engine
    ) -> None:
        centre, inactive = seed_centre(tracker, "H"), seed_centre(tracker, "J", is_active=False)
        good = seed_source(tracker, centre)
        zip_ = seed_submission(tracker, good, centre_id=centre)
        for source in (
            seed_source(tracker, centre, state="maintenance"),
            seed_source(tracker, centre, state="removed"),
            seed_source(tracker, inactive),
        ):
            seed_hosting(tracker, zip_.za_id, source)
        lost = seed_hosting(tracker, zip_.za_id, seed_source(tracker, centre))
        _update(tracker, FileSourceHasZip, lost, gone_since=utc_now())
        assert _order(tracker) == [good]
        _update(tracker, FileSourceHasZip, zip_.hosting_id, gone_since=utc_now())
        assert _plans(tracker) == []


class TestSourcesOfASession:
    @only_sqlite
    def test_those_that_could_be_listed_are_used_or_all_where_none_was_crawled(self, tracker: Engine) -> None:
        centre = seed_centre(tracker)
        ok, partial, failed, recent, late = (seed_source(tracker, centre) for _ in range(5))
        now = utc_now()
        with writing(tracker) as connection:
            row = {"start_time": now, "status": -1, "created": now}
            crawled, idle = insert_rows(connection, CrawlingSession, [row, row])
            outcomes = [(ok, "ok"), (partial, "partial"), (failed, "failed")]
            insert_rows(
                connection,
                SourceCrawlRow,
                [
                    {"session_id": crawled, "file_source_id": source, "start_time": now, "outcome": outcome}
                    for source, outcome in outcomes
                ],
            )
            assert sources_to_use(connection, crawled, None) == {ok, partial}
            assert sources_to_use(connection, idle, None) is None
            # `ok` may not be used any more, and `recent` was not due yet; `late` is due, and was not listed.
            why = {ok: DueReason.FAILING, partial: DueReason.DUE, recent: DueReason.RECENT, late: DueReason.DUE}
            dues = {source: CrawlDue(reason, None, CrawlPolicy(), PastCrawls()) for source, reason in why.items()}
            assert sources_to_use(connection, crawled, None, dues) == {partial, recent}
            assert sources_to_use(connection, idle, None, dues) == {partial, recent, late}
            assert sources_to_use(connection, crawled, {"Other"}, dues) == {partial, failed, recent, late}


class TestRetryPolicy:
    @only_sqlite
    def test_what_no_source_of_the_session_hosts_stays_failed(self, tracker: Engine) -> None:
        centre = seed_centre(tracker)
        one, two = seed_source(tracker, centre), seed_source(tracker, centre)
        zip_ = seed_submission(tracker, one)
        _fail(tracker, zip_)
        assert _reopened(tracker, {two}) == 0
        assert _reopened(tracker, set()) == 0
        _update(tracker, FileSource, one, state_id=SourceState.MAINTENANCE)
        assert _reopened(tracker, None) == 0
        _update(tracker, FileSource, one, state_id=SourceState.AVAILABLE)
        _update(tracker, Centre, centre, is_active=False)
        assert _reopened(tracker, None) == 0
        _update(tracker, Centre, centre, is_active=True)
        assert _reopened(tracker, {one}) == 1
        assert [row.requested_by for row in _rows(tracker, Reopening)] == ["retry policy"]


class TestInterrupted:
    def test_an_archive_that_had_arrived_is_taken_up_with_its_documents(self, tracker: Engine) -> None:
        centre = seed_centre(tracker)
        source = seed_source(tracker, centre)
        zip_ = seed_submission(tracker, source, NAME, centre_id=centre)
        _fail(tracker, zip_)
        _reopened(tracker, None)
        download = seed_download(tracker, zip_.hosting_id, EXTRACTING)
        one, two = seed_documents(tracker, download, 2)
        in_writing(tracker, progress.report, [StateReport(Subject.XML_FILE, one, VALID)])
        _update(tracker, ZipDownload, download, downloaded_size_bytes=321)
        _update(tracker, ZipFile, zip_.zip_id, content_md5="0" * 32)
        (left,) = in_reading(tracker, load_interrupted)
        assert (left.za_id, left.zip_id, left.key) == (zip_.za_id, zip_.zip_id, SubmissionKey(Action.ADD, NAME))
        assert (left.centre, left.source_id, left.download_id) == ("H", source, download)
        assert (left.size_bytes, left.md5) == (321, "0" * 32)
        assert {name: (document.id, document.state) for name, document in left.documents.items()} == {
            "H.2026-01-31.0.specimen.impc.xml": (one, VALID),
            "H.2026-01-31.1.specimen.impc.xml": (two, State(Phase.XSD, Status.PENDING)),
        }

    @only_sqlite
    def test_only_what_is_between_arrival_and_the_end_of_validation_is_taken_up(self, tracker: Engine) -> None:
        source = seed_source(tracker, seed_centre(tracker))
        taken_up = [
            State(Phase.ZIP_MD5, Status.DONE),
            State(Phase.UNZIP, Status.PENDING),
            State(Phase.UNZIP, Status.RUNNING),
            State(Phase.UNZIP, Status.DONE),
            State(Phase.XML_NAME, Status.DONE),
            State(Phase.XSD, Status.RUNNING),
        ]
        left_alone = [
            VALID,
            State(Phase.UPLOAD, Status.RUNNING),
            State(Phase.UNZIP, Status.FAILED),
            State(Phase.XSD, Status.FAILED),
            DOWNLOADING,
            State(Phase.DOWNLOAD, Status.DONE),
        ]
        for state in taken_up + left_alone:
            zip_ = seed_submission(tracker, source, f"{state}.zip")
            seed_download(tracker, zip_.hosting_id, state)
        found = in_reading(tracker, load_interrupted)
        assert [left.key.file_name for left in found] == [f"{state}.zip" for state in taken_up]
