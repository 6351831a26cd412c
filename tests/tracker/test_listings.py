"""What file sources show, written to the tracker set by set and compared with what was known before."""

import time
from datetime import date

import pytest
from pydantic import SecretStr
from sqlalchemy import Engine, Row, select, update

from dcc.databases.transactions import insert_rows, run_writing, writing
from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.phases import ACTION_IDS, Phase, Status
from dcc.settings import Settings
from dcc.sources.base import ActionListing, ListedFile, SourceAddress, SourceProtocol
from dcc.tracker.archive_names import stored_name
from dcc.tracker.listings.recording import ListingBasis, ListingRecorder, RecordedListing
from dcc.tracker.models import (
    AnException,
    Centre,
    CrawlFinding,
    CrawlingSession,
    FileSourceHasZip,
    Reopening,
    ZipAction,
    ZipActionLog,
    ZipFile,
    utc_now,
)
from dcc.tracker.states import WAITING, State
from tests.support.asking import count_in, execute_in, rows_in
from tests.support.databases import seed_centre, seed_source
from tests.support.sent_statements import sent_statements
from tests.support.trials import MANY

NAME = "H.2013-10-31.1.impc.zip"
KEY = ZipKey(Action.ADD, NAME)
FILE = ListedFile(NAME, 100, 1_400_000_000)
OTHER = ListedFile("H.2013-10-31.2.impc.zip", 100, 1_400_000_000)


class Shelf:
    """A tracker with one centre and two sources whose listings can be recorded."""

    def __init__(self, tracker: Engine, settings: Settings) -> None:
        self.tracker, self.settings = tracker, settings
        self.centre = seed_centre(tracker)
        self.one, self.two = seed_source(tracker, self.centre), seed_source(tracker, self.centre)
        now = utc_now()
        with writing(tracker) as connection:
            row = {"start_time": now, "status": -1, "created": now}
            (self.session,) = insert_rows(connection, CrawlingSession, [row])

    def record(self, *listings: ActionListing, source: int | None = None, quiet_seconds: float = 0) -> RecordedListing:
        centres = {name: number for number, name in rows_in(self.tracker, select(Centre.id, Centre.short_name))}
        number = self.one if source is None else source
        address = SourceAddress(number, "H", SourceProtocol.SFTP, "host.example", "user", SecretStr("x"), "")
        return run_writing(
            self.tracker,
            lambda connection: ListingRecorder(
                ListingBasis(
                    connection, self.session, self.settings.naming, centres, utc_now(), quiet_seconds=quiet_seconds
                ),
                address,
            ).record(listings),
            patience_seconds=5,
        )

    def add(self, *files: ListedFile, source: int | None = None) -> RecordedListing:
        """Record a listing of `add`, the only directory."""
        return self.record(ActionListing(Action.ADD, zips=files), source=source)

    def set_state(self, state: State) -> None:
        values = {"phase_id": int(state.phase), "status_id": int(state.status)}
        execute_in(self.tracker, update(ZipAction).values(**values))

    def rows(self, model: type) -> list[Row[tuple[object, ...]]]:
        table = model.__table__  # type: ignore[attr-defined]
        return rows_in(self.tracker, select(table).order_by(table.c.id))

    def states(self) -> list[State]:
        return [State(Phase(row.phase_id), Status(row.status_id)) for row in self.rows(ZipAction)]

    def hosting(self) -> Row[tuple[object, ...]]:
        return self.rows(FileSourceHasZip)[0]


@pytest.fixture
def shelf(tracker: Engine, settings: Settings) -> Shelf:
    return Shelf(tracker, settings)


class TestNewArchives:
    def test_a_new_archive_waits_for_download_with_all_that_its_name_and_listing_say(self, shelf: Shelf) -> None:
        found = shelf.add(ListedFile(NAME, 100, 1_400_000_000, has_md5=True))
        assert (found.listed, found.known, found.new_zips) == (1, 0, [KEY])
        (archive,) = shelf.rows(ZipFile)
        assert (archive.file_name, archive.centre_id, archive.created, archive.inc, archive.size_bytes) == (
            NAME,
            shelf.centre,
            date(2013, 10, 31),
            1,
            100,
        )
        assert archive.content_md5 is None
        (action,) = shelf.rows(ZipAction)
        assert (action.zip_id, action.todo_id) == (archive.id, ACTION_IDS[Action.ADD])
        assert shelf.states() == [WAITING]
        hosting = shelf.hosting()
        assert (hosting.za_id, hosting.file_source_id, hosting.num_retries) == (action.id, shelf.one, 0)
        assert (hosting.size_bytes, hosting.modified, hosting.has_md5) == (100, 1_400_000_000, True)
        assert hosting.gone_since is None

    def test_the_same_archive_at_several_sources_is_one_zip_action_with_several_hostings(self, shelf: Shelf) -> None:
        shelf.add(FILE)
        found = shelf.add(FILE, source=shelf.two)
        assert (found.listed, found.known, found.new_zips, found.findings) == (1, 0, [], [])
        (action,) = shelf.rows(ZipAction)
        assert [(row.za_id, row.file_source_id) for row in shelf.rows(FileSourceHasZip)] == [
            (action.id, shelf.one),
            (action.id, shelf.two),
        ]

    def test_another_size_at_another_source_is_reported_once(self, shelf: Shelf) -> None:
        shelf.add(FILE)
        other = ListedFile(NAME, 1_234, FILE.modified)
        (finding,) = shelf.add(other, source=shelf.two).findings
        assert (finding.kind, finding.key) == ("size_differs", KEY)
        assert "1,234 bytes on file source 2 (H, sftp://host.example) but 100 bytes where" in finding.message
        assert shelf.add(other, source=shelf.two).findings == []
        (row,) = shelf.rows(CrawlFinding)
        assert (row.kind, row.file_name, row.session_id, row.file_source_id) == (
            "size_differs",
            f"add/{NAME}",
            shelf.session,
            shelf.two,
        )
        assert row.message == finding.message
        assert shelf.rows(ZipFile)[0].size_bytes == 100

    def test_the_same_name_under_another_action_is_another_file(self, shelf: Shelf) -> None:
        changed = ListedFile(NAME, 1_234, FILE.modified)
        for source in (shelf.one, shelf.two):
            added = ActionListing(Action.ADD, zips=(FILE,))
            edited = ActionListing(Action.EDIT, zips=(changed,))
            assert shelf.record(added, edited, source=source).findings == []
        later = ActionListing(Action.DELETE, zips=(ListedFile(NAME, 55, FILE.modified),))
        assert shelf.record(later).findings == []

    @pytest.mark.both_databases
    def test_a_size_or_time_that_no_file_can_have_counts_as_not_told(self, shelf: Shelf) -> None:
        absurd = [(2**64, 2**63), (-1, -1), (10**30, 10**30), (2**63, 253_402_300_800)]
        for more in (0, 1):
            files = [ListedFile(f"{n}.zip", size + more, time + more) for n, (size, time) in enumerate(absurd)]
            files[1] = ListedFile("1.zip", -1 - more, -1 - more)
            assert shelf.add(*files).changed == 0
        assert {(row.size_bytes, row.modified) for row in shelf.rows(FileSourceHasZip)} == {(None, None)}


class TestRefusedNames:
    REASONS = {  # noqa: RUF012
        "X.2013-10-31.1.impc.zip": "not registered",
        "H.2013-02-31.1.impc.zip": "not in the calendar",
        "old copy.H.2013-10-31.1.impc.zip": "does not follow",
        "\\xff\\x0a.zip": "does not follow",
        "数据😀.zip": "does not follow",
        "'; DROP TABLE zip_file; --.zip": "does not follow",
        ".zip": "does not follow",
    }

    @pytest.mark.both_databases
    def test_an_archive_whose_name_does_not_conform_is_recorded_with_the_reason(self, shelf: Shelf) -> None:
        files = [ListedFile(name, 1, 1) for name in self.REASONS]
        found = shelf.add(*files)
        assert (found.listed, found.new_zips) == (7, [])
        assert [key.file_name for key, _ in found.refused_zips] == list(self.REASONS)
        assert all(reason in told for (_, told), reason in zip(found.refused_zips, self.REASONS.values(), strict=True))
        assert shelf.states() == [State(Phase.ZIP_NAME, Status.FAILED)] * 7
        assert [(row.file_name, row.centre_id, row.created, row.inc) for row in shelf.rows(ZipFile)] == [
            (name, None, None, None) for name in self.REASONS
        ]
        (kind,) = shelf.rows(AnException)
        assert kind.short_name == "BadFileNameError"
        assert [(row.za_id, row.exception_id, row.message) for row in shelf.rows(ZipActionLog)] == [
            (action.id, kind.id, told)
            for action, (_, told) in zip(shelf.rows(ZipAction), found.refused_zips, strict=True)
        ]

        again = shelf.add(*files)
        assert (again.known, again.refused_zips, again.accepted_zips) == (7, [], [])
        assert len(shelf.rows(ZipActionLog)) == 7

    @pytest.mark.both_databases
    def test_names_too_long_for_the_tracker_are_kept_apart_and_known_again(self, shelf: Shelf) -> None:
        names = ["é" * 200 + "1.zip", "é" * 200 + "2.zip", "\\xff" * 60 + ".zip"]
        listed = [ListedFile(name, 1, 1) for name in names]
        assert len(shelf.add(*listed).refused_zips) == 3
        assert [row.file_name for row in shelf.rows(ZipFile)] == [stored_name(name) for name in names]
        assert shelf.add(*listed).known == 3

    @pytest.mark.both_databases
    def test_names_that_differ_in_case_or_accent_only_are_different_archives(self, shelf: Shelf) -> None:
        names = ["h.zip", "H.zip", "é.zip", "e.zip", "e\u0301.zip", "ß.zip", "ss.zip"]
        assert len(shelf.add(*(ListedFile(name, 1, 1) for name in names)).refused_zips) == 7
        assert len(shelf.rows(ZipFile)) == 7

    @pytest.mark.both_databases
    def test_a_centre_registered_later_makes_its_archives_acceptable(self, shelf: Shelf) -> None:
        file = ListedFile("J.2013-10-31.7.impc.zip", 1, 1)
        shelf.add(file, FILE)
        centre = seed_centre(shelf.tracker, "J")
        found = shelf.add(file, FILE)
        assert found.accepted_zips == [ZipKey(Action.ADD, file.name)]
        assert (found.known, found.new_zips) == (2, [])
        assert shelf.states() == [WAITING, WAITING]
        (archive,) = (row for row in shelf.rows(ZipFile) if row.file_name == file.name)
        assert (archive.centre_id, archive.created, archive.inc) == (centre, date(2013, 10, 31), 7)
        (reopening,) = shelf.rows(Reopening)
        assert (reopening.requested_by, reopening.from_phase_id) == ("crawl", Phase.ZIP_NAME)
        assert shelf.add(file, FILE).accepted_zips == []


class TestChanges:
    """Content that changed under its name was never noticed."""

    @pytest.mark.parametrize(
        "now",
        [ListedFile(NAME, 101, 1_400_000_000), ListedFile(NAME, 100, 1_400_000_001), ListedFile(NAME, 0, 0)],
        ids=["size", "time", "both"],
    )
    def test_another_size_or_time_is_reported_once_and_what_was_downloaded_stands(
        self, now: ListedFile, shelf: Shelf
    ) -> None:
        shelf.add(FILE)
        shelf.set_state(State(Phase.XSD, Status.DONE))
        found = shelf.add(now)
        assert (found.changed, found.known, found.new_zips) == (1, 1, [])
        (finding,) = found.findings
        assert finding.kind == "changed"
        assert f"dcc retry add/{NAME}" in finding.message
        assert shelf.states() == [State(Phase.XSD, Status.DONE)]
        assert shelf.rows(ZipFile)[0].size_bytes == 100
        assert (shelf.hosting().size_bytes, shelf.hosting().modified) == (now.size_bytes, now.modified)
        assert shelf.add(now).changed == 0
        assert len(shelf.rows(CrawlFinding)) == 1

    @pytest.mark.parametrize(
        "state", [WAITING, State(Phase.DOWNLOAD, Status.FAILED), State(Phase.ZIP_MD5, Status.FAILED)]
    )
    def test_an_archive_still_to_be_downloaded_is_taken_as_it_is(self, state: State, shelf: Shelf) -> None:
        shelf.add(FILE)
        shelf.set_state(state)
        (finding,) = shelf.add(ListedFile(NAME, 150, 1_500_000_000)).findings
        assert "100 bytes, modified 2014-05-13 16:53:20 UTC" in finding.message
        assert "150 bytes, modified 2017-07-14 02:40:00 UTC" in finding.message
        assert "not been downloaded yet; the new content is" in finding.message
        assert shelf.rows(ZipFile)[0].size_bytes == 150


class TestGone:
    """Files removed from a source stayed hosted for ever."""

    def test_an_archive_that_went_is_gone_once_and_back_when_it_is_listed_again(self, shelf: Shelf) -> None:
        shelf.add(FILE, OTHER)
        assert shelf.add(OTHER).gone == 1
        since = shelf.hosting().gone_since
        assert since is not None
        assert shelf.add(OTHER).gone == 0
        assert shelf.hosting().gone_since == since
        found = shelf.add(FILE, OTHER)
        assert (found.known, found.new_zips, found.changed) == (2, [], 0)
        assert shelf.hosting().gone_since is None
        assert shelf.states() == [WAITING, WAITING]

    def test_a_directory_that_was_not_listed_says_nothing_of_its_archives(self, shelf: Shelf) -> None:
        shelf.record(ActionListing(Action.ADD, zips=(FILE,)), ActionListing(Action.EDIT, zips=(FILE, OTHER)))
        found = shelf.record(ActionListing(Action.EDIT, zips=(OTHER,)))
        assert found.gone == 1
        assert [row.gone_since is None for row in shelf.rows(FileSourceHasZip)] == [True, False, True]

    def test_what_one_source_lost_another_still_hosts(self, shelf: Shelf) -> None:
        shelf.add(FILE, OTHER)
        shelf.add(FILE, source=shelf.two)
        shelf.add(OTHER)
        assert [row.gone_since is None for row in shelf.rows(FileSourceHasZip)] == [False, True, True]


def test_an_archive_is_young_by_its_time_or_a_new_one_where_that_tells_nothing(shelf: Shelf) -> None:
    """Which archives are to be looked at once more: by the time that the source tells, if it can be right."""
    now = int(time.time())

    def young(day: int, quiet_seconds: float, *ages: int | None) -> list[bool]:
        """Of archives of a day that are so many seconds old by their source, which are to be looked at again."""
        files = [
            ListedFile(f"H.2013-10-{day:02}.{inc}.impc.zip", 100, None if age is None else now - age)
            for inc, age in enumerate(ages)
        ]
        found = shelf.record(ActionListing(Action.ADD, zips=tuple(files)), quiet_seconds=quiet_seconds)
        told = [ZipKey(Action.ADD, file.name) in found.unsettled for file in files]
        hostings = shelf.rows(FileSourceHasZip)[-len(files) :]
        assert [row.uploading_since is not None for row in hostings] == told
        return told

    assert young(1, 5, 0, 4, 60, -3_600, None) == [True, True, False, True, True]
    assert young(2, 120, 60) == [True]
    assert young(3, 0, 0, None) == [False, False]
    assert young(4, 5, 0, -3_600, None) == [True, True, True]
    assert young(4, 5, 0, -3_600, None) == [True, False, False], "listed as before"


SECONDS = MANY / 5_000


def test_very_many_archives_are_recorded_within_seconds(shelf: Shelf) -> None:
    files = [ListedFile(f"H.2013-10-{1 + n % 31:02}.{n // 31}.impc.zip", n, n) for n in range(MANY)]
    began = time.process_time()
    assert len(shelf.add(*files).new_zips) == MANY
    assert time.process_time() - began < SECONDS

    new = [ListedFile(f"H.2014-01-01.{n}.impc.zip", n, n) for n in range(3)]
    began = time.process_time()
    with sent_statements(shelf.tracker) as sent:
        found = shelf.add(*files[:-1], *new)
    assert time.process_time() - began < SECONDS / 2
    assert (found.known, len(found.new_zips), found.gone) == (MANY - 1, 3, 1)
    assert len(sent) < 25
    assert count_in(shelf.tracker, FileSourceHasZip) == MANY + 3


def test_the_time_for_each_new_archive_does_not_grow_with_their_number(shelf: Shelf) -> None:
    """Many are recorded in parts of 5,000: so much is one part."""

    def seconds(year: int, count: int) -> float:
        files = [ListedFile(f"H.{year}-10-{1 + n % 31:02}.{n // 31}.impc.zip", n, n) for n in range(count)]
        began = time.process_time()
        shelf.add(*files)
        return time.process_time() - began

    seconds(2010, 10)
    few, many = seconds(2011, 500), seconds(2012, 5_000)
    assert many < 14 * few, many / few


@pytest.mark.both_databases
def test_the_number_of_statements_grows_with_what_is_new_in_steps_only(shelf: Shelf) -> None:
    def files(day: int, count: int) -> list[ListedFile]:
        return [ListedFile(f"H.2013-10-{day:02}.{n}.impc.zip", 1, 1) for n in range(count)]

    with sent_statements(shelf.tracker) as first:
        shelf.add(*files(1, 400))
    with sent_statements(shelf.tracker) as nothing_new:
        shelf.add(*files(1, 400))
    with sent_statements(shelf.tracker) as all_missed:
        assert shelf.add().gone == 0
    with sent_statements(shelf.tracker) as all_gone:
        assert shelf.add().gone == 400
    with sent_statements(shelf.tracker) as all_back:
        shelf.add(*files(1, 400))
    for sent in (first, nothing_new, all_missed, all_gone, all_back):
        assert len(sent) < 25, sent
