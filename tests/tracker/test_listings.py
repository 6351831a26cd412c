"""What file sources list, written to the tracker set by set, by the delta strategy of each; proposed withdrawals."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

import pytest
from pydantic import SecretStr
from sqlalchemy import Connection, Engine, Row, select, update

from dcc.databases.transactions import insert_rows, writing
from dcc.naming import Action
from dcc.outcomes import HELD, SubmissionKey
from dcc.phases import Phase, State, Status
from dcc.reports.languages import load_catalogue
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.sources.base import PLAIN, ActionListing, Extent, ListedFile, SourceAddress
from dcc.sources.protocols import SourceProtocol
from dcc.tracker.archive_names import stored_name
from dcc.tracker.hostings.missing_archives import decide_on_proposals, list_proposals, missing_archives
from dcc.tracker.listings.findings import uploading_message
from dcc.tracker.listings.listing_basis import ListingBasis, RecordedListing
from dcc.tracker.listings.recording import ListingRecorder
from dcc.tracker.models import (
    AnException,
    Centre,
    CrawlFinding,
    CrawlingSession,
    FileSource,
    FileSourceHasZip,
    Reopening,
    XmlFile,
    ZipAction,
    ZipActionLog,
    ZipDownload,
    ZipFile,
)
from dcc.tracker.queries.submission_stories import first_listing, submission_story
from dcc.tracker.register import file_sources
from dcc.tracker.states import REFUSED, WAITING
from dcc.vocabulary import DeltaStrategy, SourceState, WithdrawalProposalState
from tests.support.asking import count_in, execute_in, in_reading, in_writing, rows_in
from tests.support.databases import only_sqlite, seed_centre, seed_source
from tests.support.sent_statements import sent_statements
from tests.support.trials import MANY

DISABLED, INITIAL, ADDITIVE, FULL = DeltaStrategy
NAME = "H.2013-10-31.1.impc.zip"
KEY = SubmissionKey(Action.ADD, NAME)
A, B, C, D = (ListedFile(f"H.2013-10-31.{number}.impc.zip", 100, 1_400_000_000) for number in range(1, 5))
ONE, TWO = 1, 2


@dataclass
class Shelf:
    """A tracker with centre H and two sources of it; every listing is a minute after the one before."""

    tracker: Engine
    settings: Settings
    centre: int
    session: int
    now: datetime

    def record(
        self,
        *listings: ActionListing,
        source: int = ONE,
        delta: DeltaStrategy = ADDITIVE,
        whole: bool = True,
        limit: float = 1,
        quiet_seconds: float = 0,
        extent: Extent = PLAIN,
    ) -> RecordedListing:
        self.now += timedelta(minutes=1)
        centres = {name: number for number, name in rows_in(self.tracker, select(Centre.id, Centre.short_name))}
        place = (SourceProtocol.SFTP, "host.example", "user", SecretStr("x"), "")

        def work(connection: Connection) -> RecordedListing:
            facts = (connection, self.session, self.settings.naming, centres, self.now)
            basis = ListingBasis(*facts, quiet_seconds, limit)
            address = SourceAddress(source, "H", *place, delta=delta, extent=extent)
            return ListingRecorder(basis, address).record(listings, whole=whole)

        return in_writing(self.tracker, work)

    def add(
        self, *files: ListedFile, source: int = ONE, delta: DeltaStrategy = ADDITIVE, limit: float = 1
    ) -> RecordedListing:
        """Record a listing of `add`, the only directory."""
        return self.record(ActionListing(Action.ADD, zips=files), source=source, delta=delta, limit=limit)

    def rows(self, model: type) -> list[Row[tuple[object, ...]]]:
        table = model.__table__  # type: ignore[attr-defined]
        return rows_in(self.tracker, select(table).order_by(table.c.id))

    def states(self) -> list[State]:
        return [State(row.phase_id, row.status_id) for row in self.rows(ZipAction)]

    def hosting(self) -> tuple[int | None, bool]:
        """Size of the first archive as it is recorded, and whether it counts as gone."""
        row = self.rows(FileSourceHasZip)[0]
        return row.size_bytes, row.gone_since is not None

    def load(self) -> None:
        """Have the tracker say that a document of each archive stands in the QC database."""
        with writing(self.tracker) as connection:
            hostings = connection.scalars(select(FileSourceHasZip.id)).all()
            state = {"phase_id": Phase.QC, "status_id": Status.DONE}
            times = {"request": self.now, "received": self.now}
            downloads = insert_rows(connection, ZipDownload, [{"zf_id": one, **times, **state} for one in hostings])
            names = [{"zip_id": one, "fname": f"document {one}.xml", **state} for one in downloads]
            insert_rows(connection, XmlFile, names)
            connection.execute(update(ZipAction).values(state))

    def proposed(self, *states: WithdrawalProposalState) -> list[tuple[int, str, WithdrawalProposalState]]:
        found = in_reading(self.tracker, list_proposals, states=states or (WithdrawalProposalState.OPEN,))
        return [(one.source, one.key.file_name, one.state) for one in found]

    def missing(self, source: int | None = None) -> list[tuple[int, str, bool, bool, bool, str | None]]:
        found = in_reading(self.tracker, missing_archives, source)
        return [(m.source, m.key.file_name, m.believed, m.loaded, m.elsewhere, m.proposal) for m in found]


@pytest.fixture
def shelf(tracker: Engine, settings: Settings) -> Shelf:
    centre, now = seed_centre(tracker), utc_now()
    assert [seed_source(tracker, centre), seed_source(tracker, centre)] == [ONE, TWO]
    row = {"start_time": now, "status": -1, "created": now}
    (session,) = in_writing(tracker, insert_rows, CrawlingSession, [row])
    return Shelf(tracker, settings, centre, session, now)


class TestNewArchives:
    def test_a_new_archive_waits_for_download_with_all_that_its_name_and_listing_say(self, shelf: Shelf) -> None:
        found = shelf.add(ListedFile(NAME, 100, 1_400_000_000, has_md5=True))
        assert (found.listed, found.known, found.new_zips) == (1, 0, [KEY])
        (archive,), (action,) = shelf.rows(ZipFile), shelf.rows(ZipAction)
        named = (archive.file_name, archive.centre_id, archive.created, archive.inc)
        assert named == (NAME, shelf.centre, date(2013, 10, 31), 1)
        assert (archive.size_bytes, archive.content_md5) == (100, None)
        assert (action.zip_id, action.todo_id, shelf.states()) == (archive.id, Action.ADD, [WAITING])
        # Elsewhere it is the same submission.
        again = shelf.add(A, source=TWO)
        assert (again.listed, again.known, again.new_zips, again.findings) == (1, 0, [], [])
        listed = [(one.size_bytes, one.modified, one.has_md5, one.gone_since) for one in shelf.rows(FileSourceHasZip)]
        assert listed == [(100, 1_400_000_000, has_md5, None) for has_md5 in (True, False)]
        hosted = [(one.za_id, one.file_source_id, one.num_retries) for one in shelf.rows(FileSourceHasZip)]
        assert hosted == [(action.id, source, 0) for source in (ONE, TWO)]

    @pytest.mark.parametrize("is_loaded", [False, True])
    def test_another_size_at_another_source_is_reported_once(self, shelf: Shelf, is_loaded: bool) -> None:
        """With what to do, once its data were uploaded."""
        shelf.add(A)
        if is_loaded:
            shelf.load()
        other = ListedFile(NAME, 1_234, A.modified)
        (finding,) = shelf.add(other, source=TWO).findings
        assert (finding.kind, finding.key) == ("size_differs", KEY)
        assert "1,234 bytes on file source 2 (H, sftp://host.example) but 100 bytes where" in str(finding.translatable)
        assert ("`dcc data undo`" in str(finding.translatable)) == is_loaded
        assert str(finding.translatable).endswith(f"dcc retry add/{NAME}") == is_loaded
        assert shelf.add(other, source=TWO).findings == []
        (row,) = shelf.rows(CrawlFinding)
        assert (row.kind, row.file_name, row.message) == ("size_differs", f"add/{NAME}", str(finding.translatable))
        assert (row.session_id, row.file_source_id) == (shelf.session, TWO)
        assert shelf.rows(ZipFile)[0].size_bytes == 100

    def test_the_same_name_under_another_action_is_another_file(self, shelf: Shelf) -> None:
        changed = ListedFile(NAME, 1_234, A.modified)
        for source in (ONE, TWO):
            added = ActionListing(Action.ADD, zips=(A,))
            edited = ActionListing(Action.EDIT, zips=(changed,))
            assert shelf.record(added, edited, source=source).findings == []
        later = ActionListing(Action.DELETE, zips=(ListedFile(NAME, 55, A.modified),))
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
    @pytest.mark.both_databases
    def test_an_archive_whose_name_does_not_conform_is_recorded_with_the_reason(self, shelf: Shelf) -> None:
        reasons = {"X.2013-10-31.1.impc.zip": "not registered", "H.2013-02-31.1.impc.zip": "not in the calendar"}
        odd = (
            "old copy.H.2013-10-31.1.impc.zip",
            "\\xff\\x0a.zip",
            "数据😀.zip",
            "'; DROP TABLE zip_file; --.zip",
            ".zip",
        )
        reasons |= dict.fromkeys(odd, "does not follow")
        files = [ListedFile(name, 1, 1) for name in reasons]
        found = shelf.add(*files)
        assert (found.listed, found.new_zips) == (7, [])
        assert [key.file_name for key, _ in found.refused_zips] == list(reasons)
        assert all(reason in told for (_, told), reason in zip(found.refused_zips, reasons.values(), strict=True))
        assert shelf.states() == [REFUSED] * 7
        recorded = [(row.file_name, row.centre_id, row.created, row.inc) for row in shelf.rows(ZipFile)]
        assert recorded == [(name, None, None, None) for name in reasons]
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
    def test_names_that_are_too_long_or_differ_in_case_or_accent_only_are_kept_apart_and_known_again(
        self, shelf: Shelf
    ) -> None:
        names = ["h.zip", "H.zip", "é.zip", "e.zip", "e\u0301.zip", "ß.zip", "ss.zip"]
        names += ["é" * 200 + "1.zip", "é" * 200 + "2.zip", "\\xff" * 60 + ".zip"]
        listed = [ListedFile(name, 1, 1) for name in names]
        assert len(shelf.add(*listed).refused_zips) == 10
        assert [row.file_name for row in shelf.rows(ZipFile)] == [stored_name(name) for name in names]
        assert shelf.add(*listed).known == 10

    @pytest.mark.both_databases
    def test_a_centre_registered_later_makes_its_archives_acceptable(self, shelf: Shelf) -> None:
        file = ListedFile("J.2013-10-31.7.impc.zip", 1, 1)
        key = SubmissionKey(Action.ADD, file.name)
        shelf.add(file, A)
        (reason,) = in_reading(shelf.tracker, submission_story, key).reasons
        assert "'J', which is not registered" in reason.message
        centre = seed_centre(shelf.tracker, "J")
        found = shelf.add(file, A)
        assert found.accepted_zips == [key]
        kinds = [reason.kind for reason in in_reading(shelf.tracker, submission_story, key).reasons]
        assert kinds == [HELD], "Neither people nor reports are told any more that it is refused."
        assert (found.known, found.new_zips) == (2, [])
        assert shelf.states() == [WAITING, WAITING]
        (archive,) = (row for row in shelf.rows(ZipFile) if row.file_name == file.name)
        assert (archive.centre_id, archive.created, archive.inc) == (centre, date(2013, 10, 31), 7)
        (reopening,) = shelf.rows(Reopening)
        assert (reopening.requested_by, reopening.from_phase_id) == ("crawl", Phase.ZIP_NAME)
        assert shelf.add(file, A).accepted_zips == []


NOT_YET = "not been downloaded yet; the new content is"


@pytest.mark.parametrize(
    ("state", "size", "modified", "told"),
    [
        (State(Phase.XSD, Status.DONE), 150, 1_400_000_000, f"dcc retry add/{NAME}"),
        (State(Phase.XSD, Status.DONE), 100, 1_500_000_000, f"dcc retry add/{NAME}"),
        (WAITING, 150, 1_500_000_000, NOT_YET),
        (State(Phase.DOWNLOAD, Status.FAILED), 0, 0, NOT_YET),
        (State(Phase.ZIP_MD5, Status.FAILED), 150, 1_500_000_000, NOT_YET),
    ],
)
def test_another_size_or_time_is_reported_once_and_taken_unless_it_was_downloaded(
    state: State, size: int, modified: int, told: str, shelf: Shelf
) -> None:
    shelf.add(A)
    execute_in(shelf.tracker, update(ZipAction).values(phase_id=state.phase, status_id=state.status))
    now = ListedFile(NAME, size, modified)
    found = shelf.add(now)
    assert (found.changed, found.known, found.new_zips) == (1, 1, [])
    (finding,) = found.findings
    assert (finding.kind, told in str(finding.translatable)) == ("changed", True)
    assert "100 bytes, modified 2014-05-13 16:53:20 UTC" in str(finding.translatable)
    assert f"{size} bytes, modified {datetime.fromtimestamp(modified, UTC):%Y-%m-%d %H:%M:%S} UTC" in str(
        finding.translatable
    )
    assert shelf.states() == [state]
    assert shelf.rows(ZipFile)[0].size_bytes == (size if told is NOT_YET else 100)
    assert [(row.size_bytes, row.modified) for row in shelf.rows(FileSourceHasZip)] == [(size, modified)]
    assert shelf.add(now).changed == 0
    assert len(shelf.rows(CrawlFinding)) == 1


def test_an_archive_that_went_is_gone_once_and_back_when_it_is_listed_again(shelf: Shelf) -> None:
    def gone() -> list[datetime | None]:
        return [row.gone_since for row in shelf.rows(FileSourceHasZip)]

    shelf.add(A, B)
    shelf.add(A, source=TWO)
    assert shelf.add(B).gone == 1
    since = shelf.now
    assert gone() == [since, None, None]
    assert shelf.add(B).gone == 0
    assert gone() == [since, None, None]
    # A directory that was not listed tells nothing of its archives.
    shelf.record(ActionListing(Action.EDIT, zips=(A,)))
    assert gone() == [since, None, None, None]
    found = shelf.add(A, B)
    assert (found.known, found.new_zips, found.changed) == (2, [], 0)
    assert gone() == [None] * 4
    assert shelf.states() == [WAITING] * 3


def test_each_source_has_the_time_at_which_it_listed_an_archive_first_whatever_became_of_that_since(
    shelf: Shelf,
) -> None:
    shelf.add(A)
    first = shelf.now
    shelf.add(replace(A, size_bytes=150), B)
    second = shelf.now
    shelf.add(B)
    shelf.add(A, B, source=TWO)
    shelf.add(A)
    of_two = shelf.now - timedelta(minutes=1)
    listed = {(row.za_id, row.file_source_id): row.first_listed for row in shelf.rows(FileSourceHasZip)}
    assert listed == {(1, ONE): first, (2, ONE): second, (1, TWO): of_two, (2, TWO): of_two}

    def listed_first() -> tuple[datetime, int] | None:
        found = first_listing(in_reading(shelf.tracker, submission_story, KEY).hosts)
        return found and found[:2]

    assert listed_first() == (first, ONE)
    # One that an earlier version recorded may have been there before.
    execute_in(shelf.tracker, update(FileSourceHasZip).where(FileSourceHasZip.id == 1).values(first_listed=None))
    assert listed_first() is None


def test_an_archive_is_young_by_its_time_or_a_new_one_where_that_tells_nothing(shelf: Shelf) -> None:
    """Which archives are to be looked at once more: by the time that the source tells, if it can be right."""

    def young(day: int, quiet_seconds: float, *ages: int | None) -> list[bool]:
        """Of archives of a day that are so many seconds old by their source, which are to be looked at again."""
        now = int(shelf.now.replace(tzinfo=UTC).timestamp())
        shelf.now -= timedelta(minutes=1)
        files = [
            ListedFile(f"H.2013-10-{day:02}.{inc}.impc.zip", 100, None if age is None else now - age)
            for inc, age in enumerate(ages)
        ]
        found = shelf.record(ActionListing(Action.ADD, zips=tuple(files)), quiet_seconds=quiet_seconds)
        told = [SubmissionKey(Action.ADD, file.name) in found.unsettled for file in files]
        assert [row.uploading_since is not None for row in shelf.rows(FileSourceHasZip)[-len(files) :]] == told
        return told

    assert young(1, 5, 0, 4, 60, -3_600, None) == [True, True, False, True, True]
    assert young(2, 120, 60) == [True]
    assert young(3, 0, 0, None) == [False, False]
    assert young(4, 5, 0, -3_600, None) == [True, True, True]
    assert young(4, 5, 0, -3_600, None) == [True, False, False], "listed as before"


@pytest.mark.parametrize(
    ("later", "told"),
    [
        (None, "Zuerst 100 Byte, geändert am {time}, wenig später war es nicht da."),
        (
            replace(A, size_bytes=200),
            "Zuerst 100 Byte, geändert am {time}, wenig später 200 Byte, geändert am {time}.",
        ),
    ],
    ids=["gone", "grown"],
)
def test_an_upload_is_told_in_whole_sentences_of_each_language(later: ListedFile | None, told: str) -> None:
    address = SourceAddress(1, "H", SourceProtocol.FILE, "", "", SecretStr(""), "/data")
    said = load_catalogue("de", Settings()).tell(uploading_message(address, KEY, A, later, looked=True))
    assert told.format(time="2014-05-13 16:53:20 UTC") in said


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


def resized(file: ListedFile) -> ListedFile:
    return ListedFile(file.name, 200, file.modified)


def test_changes_are_recorded_however_many_there_are_as_no_later_crawl_tells_them_again(shelf: Shelf) -> None:
    files = [ListedFile(f"H.2013-10-31.{number}.impc.zip", 100, 1_400_000_000) for number in range(201)]
    shelf.add(*files)
    shelf.load()
    shelf.add(*map(resized, files))
    changed = [row.kind for row in shelf.rows(CrawlFinding)]
    assert changed == ["changed"] * 201
    shelf.add(*files, source=TWO)
    assert [row.kind for row in shelf.rows(CrawlFinding)[201:]] == ["size_differs"] * 200


@only_sqlite
@pytest.mark.parametrize(
    ("delta", "size", "changed", "gone", "proposed"),
    [
        (DISABLED, 100, 0, False, 0),
        (INITIAL, 200, 0, False, 0),
        (ADDITIVE, 200, 1, True, 0),
        (FULL, 200, 1, True, 1),
    ],
    ids=str,
)
def test_what_each_strategy_records(
    shelf: Shelf, delta: DeltaStrategy, size: int, changed: int, gone: bool, proposed: int
) -> None:
    assert len(shelf.add(A, B, delta=delta).new_zips) == 2
    # What still waits is recorded as it is listed with each of them: it would be fetched wrongly else.
    assert shelf.add(resized(A), B, delta=delta).changed == 1
    assert shelf.hosting() == (200, False)
    shelf.add(A, B, delta=delta)
    shelf.load()
    result = shelf.add(resized(A), B, C, delta=delta)
    assert (result.changed, len(result.new_zips), shelf.hosting()) == (changed, 1, (size, False))
    result = shelf.add(B, C, delta=delta)
    assert (result.gone, shelf.hosting()) == (int(gone), (size, gone))
    assert len(shelf.proposed()) == proposed


def test_an_archive_that_comes_back_closes_its_open_proposal_and_is_proposed_when_it_goes_again(
    shelf: Shelf,
) -> None:
    shelf.add(A, B, delta=FULL)
    shelf.load()
    shelf.add(B, delta=FULL)
    (first,) = in_reading(shelf.tracker, list_proposals)
    assert (first.since, first.created, first.documents) == (shelf.now, shelf.now, ("document 1.xml",))
    # On any source: whoever hosts it, it is not gone.
    shelf.add(A, source=TWO, delta=ADDITIVE)
    assert shelf.proposed(*WithdrawalProposalState) == [(ONE, A.name, WithdrawalProposalState.CAME_BACK)]
    shelf.add(B, delta=FULL)
    assert shelf.proposed() == []
    assert shelf.missing() == [(ONE, A.name, True, True, True, "came_back")]
    shelf.add(A, B, delta=FULL)
    assert shelf.missing() == []
    shelf.add(C, source=TWO, delta=ADDITIVE)
    shelf.add(B, delta=FULL)
    assert shelf.proposed() == [(ONE, A.name, WithdrawalProposalState.OPEN)]


def test_what_was_turned_down_is_proposed_again_only_after_it_was_back(shelf: Shelf) -> None:
    shelf.add(A, B, delta=FULL)
    shelf.load()
    shelf.add(B, delta=FULL)
    with writing(shelf.tracker) as connection:
        (open_one,) = list_proposals(connection)
        decide_on_proposals(
            connection, [open_one.za_id], WithdrawalProposalState.TURNED_DOWN, author="a" * 64, reason="r" * 256
        )
    (turned_down,) = in_reading(shelf.tracker, list_proposals, states=[WithdrawalProposalState.TURNED_DOWN])
    assert (turned_down.decided_by, turned_down.reason) == ("a" * 64, "r" * 255), "cut to their columns"
    assert turned_down.decided is not None
    for files in ([B], [A, B]):
        shelf.add(*files, delta=FULL)
        assert shelf.proposed() == []
    shelf.add(B, delta=FULL)
    assert shelf.proposed() == [(ONE, A.name, WithdrawalProposalState.OPEN)]


@only_sqlite
def test_nothing_is_proposed_after_a_listing_in_part_or_one_that_is_not_believed(shelf: Shelf) -> None:
    everything = (A, B, C, D)
    shelf.add(*everything, delta=FULL)
    shelf.load()
    shelf.record(ActionListing(Action.ADD, zips=(B, C, D)), whole=False, delta=FULL)
    assert (shelf.hosting(), shelf.proposed()) == ((100, True), [])
    shelf.add(*everything, delta=FULL)
    assert shelf.add(D, limit=0.2, delta=FULL).shrunk
    assert shelf.proposed() == []
    assert [row[2:5] for row in shelf.missing()] == [(False, True, False)] * 3
    shelf.add(D, limit=0.2, delta=FULL)
    assert len(shelf.proposed()) == 3


@only_sqlite
@pytest.mark.parametrize(
    ("case", "proposed"),
    [
        ("no document of it stands", False),
        ("another source hosts it", False),
        ("another source that was removed hosts it", True),
        ("it went while the strategy was additive", True),
        ("another source proposed it", True),
    ],
)
def test_what_is_proposed(shelf: Shelf, case: str, proposed: bool) -> None:
    shelf.add(A, B, delta=FULL)
    if case.startswith("another source"):
        shelf.add(A, B, source=TWO, delta=FULL)
    if case != "no document of it stands":
        shelf.load()
    if case == "another source that was removed hosts it":
        in_writing(shelf.tracker, file_sources.set_source_state, TWO, SourceState.REMOVED)
    if case == "it went while the strategy was additive":
        shelf.add(B, delta=ADDITIVE)
        assert shelf.proposed() == []
    shelf.add(B, delta=FULL)
    if case == "another source proposed it":
        shelf.add(B, source=TWO, delta=FULL)
        shelf.add(B, delta=FULL)
        assert shelf.proposed() == [(TWO, A.name, WithdrawalProposalState.OPEN)]
        return
    assert shelf.proposed() == ([(ONE, A.name, WithdrawalProposalState.OPEN)] if proposed else [])


def test_what_lies_where_a_source_is_no_longer_listed_is_not_proposed(shelf: Shelf) -> None:
    """Its listing says nothing of it, whatever of depth and patterns was changed."""
    old, below = replace(B, folder="2026/old"), replace(C, folder="2026")
    deep = Extent(depth=2)
    shelf.record(ActionListing(Action.ADD, zips=(A, old, below, D)), delta=FULL, extent=deep)
    shelf.load()
    remaining = ActionListing(Action.ADD, zips=(D,))
    for extent in (Extent(), Extent(depth=1, include=("2025/*",)), Extent(depth=2, include=("*.4.*",))):
        shelf.record(remaining, delta=FULL, extent=extent)
        assert {name for _, name, _ in shelf.proposed()} <= {A.name}
    shelf.record(remaining, delta=FULL, extent=Extent(depth=2, exclude=("*/old/*",)))
    assert {name for _, name, _ in shelf.proposed()} == {A.name, C.name}
    shelf.record(remaining, delta=FULL, extent=deep)
    assert {name for _, name, _ in shelf.proposed()} == {A.name, B.name, C.name}


def test_what_lies_where_a_source_is_no_longer_listed_went_by_our_own_doing_and_is_no_lack_of_its_listing(
    shelf: Shelf,
) -> None:
    shelf.record(ActionListing(Action.ADD, zips=(A, replace(B, folder="2026"))), extent=Extent(depth=1), limit=0)
    found = shelf.record(ActionListing(Action.ADD, zips=(A,)), limit=0)
    assert (found.shrunk, found.gone, found.findings) == ([], 1, [])
    shelf.record(ActionListing(Action.ADD, zips=(A, replace(B, folder="2026"))), extent=Extent(depth=1), limit=0)
    found = shelf.record(ActionListing(Action.ADD), extent=Extent(exclude=("*.1.*",)), limit=0)
    assert (found.shrunk, found.gone, found.findings) == ([], 2, [])
    # Of what it lists, it lacks the last archive.
    shelf.record(ActionListing(Action.ADD, zips=(A, replace(B, folder="2026"))), extent=Extent(depth=1), limit=0)
    found = shelf.record(ActionListing(Action.ADD), limit=0)
    assert (len(found.shrunk), found.gone) == (1, 1)


def test_the_strategy_is_kept_with_the_source(shelf: Shelf) -> None:
    with writing(shelf.tracker) as connection:
        assert connection.scalars(select(FileSource.delta)).all() == ["additive", "additive"]
        file_sources.change_source(connection, TWO, delta=FULL)
        assert [entry.delta for entry in file_sources.list_sources(connection)] == [ADDITIVE, FULL]
