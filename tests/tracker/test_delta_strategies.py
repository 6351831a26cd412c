"""What is recorded of a listing by the delta strategy of its source, and the withdrawals that are proposed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from pydantic import SecretStr
from sqlalchemy import Engine, select, update

from dcc.databases.transactions import insert_rows, run_writing, writing
from dcc.naming import Action
from dcc.phases import Phase, Status
from dcc.settings import Settings
from dcc.sources.base import ActionListing, DeltaStrategy, ListedFile, SourceAddress, SourceProtocol
from dcc.tracker.hostings.changed_archives import ProposalState, decide_on_proposals, list_proposals, missing_archives
from dcc.tracker.listings.recording import ListingBasis, ListingRecorder, RecordedListing
from dcc.tracker.models import CrawlingSession, FileSource, FileSourceHasZip, XmlFile, ZipAction, ZipDownload
from dcc.tracker.register import file_sources
from dcc.tracker.register.source_addresses import SourceState
from tests.support.asking import in_reading, in_writing, row_in
from tests.support.databases import only_sqlite, seed_centre, seed_source

DISABLED, INITIAL, ADDITIVE, FULL = DeltaStrategy
A, B, C, D = (ListedFile(f"H.2013-10-31.{number}.impc.zip", 100, 1_400_000_000) for number in range(1, 5))
ONE, TWO = 1, 2
START = datetime(2026, 1, 1)


@dataclass
class Sources:
    """Two sources of centre H, each listed by its strategy; every listing is a minute after the one before."""

    tracker: Engine
    settings: Settings
    centre: int
    session: int
    now: datetime = START

    def list(
        self, *files: ListedFile, delta: DeltaStrategy = FULL, source: int = ONE, whole: bool = True, limit: float = 1
    ) -> RecordedListing:
        self.now += timedelta(minutes=1)
        address = SourceAddress(
            source, "H", SourceProtocol.SFTP, "host.example", "user", SecretStr("x"), "", delta=delta
        )
        return run_writing(
            self.tracker,
            lambda connection: ListingRecorder(
                ListingBasis(
                    connection, self.session, self.settings.naming, {"H": self.centre}, self.now, shrink_limit=limit
                ),
                address,
            ).record([ActionListing(Action.ADD, zips=files)], whole=whole),
            patience_seconds=5,
        )

    def load(self) -> None:
        """Have the tracker say that a document of each archive stands in the QC database."""
        with writing(self.tracker) as connection:
            hostings = connection.scalars(select(FileSourceHasZip.id)).all()
            state = {"phase_id": int(Phase.QC), "status_id": int(Status.DONE)}
            times = {"request": START, "received": START}
            downloads = insert_rows(connection, ZipDownload, [{"zf_id": one, **times, **state} for one in hostings])
            names = [{"zip_id": one, "fname": f"document {one}.xml", **state} for one in downloads]
            insert_rows(connection, XmlFile, names)
            connection.execute(update(ZipAction).values(state))

    def proposed(self, *states: ProposalState) -> list[tuple[int, str, ProposalState]]:
        found = in_reading(self.tracker, list_proposals, states=states or (ProposalState.OPEN,))
        return [(one.source, one.key.file_name, one.state) for one in found]

    def missing(self, source: int | None = None) -> list[tuple[int, str, bool, bool, bool, str | None]]:
        found = in_reading(self.tracker, missing_archives, source)
        return [(m.source, m.key.file_name, m.believed, m.loaded, m.elsewhere, m.proposal) for m in found]

    def hosting(self) -> tuple[int | None, bool]:
        """Size of the first archive as it is recorded, and whether it counts as gone."""
        row = row_in(self.tracker, select(FileSourceHasZip).order_by(FileSourceHasZip.id).limit(1))
        return row.size_bytes, row.gone_since is not None


@pytest.fixture
def sources(tracker: Engine, settings: Settings) -> Sources:
    centre = seed_centre(tracker)
    assert [seed_source(tracker, centre), seed_source(tracker, centre)] == [ONE, TWO]
    (session,) = in_writing(
        tracker, insert_rows, CrawlingSession, [{"start_time": START, "status": -1, "created": START}]
    )
    return Sources(tracker, settings, centre, session)


def resized(file: ListedFile) -> ListedFile:
    return ListedFile(file.name, 200, file.modified)


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
    sources: Sources, delta: DeltaStrategy, size: int, changed: int, gone: bool, proposed: int
) -> None:
    assert len(sources.list(A, B, delta=delta).new_zips) == 2
    # What still waits is recorded as it is listed with each of them: it would be fetched wrongly else.
    assert sources.list(resized(A), B, delta=delta).changed == 1
    assert sources.hosting() == (200, False)
    sources.list(A, B, delta=delta)
    sources.load()
    result = sources.list(resized(A), B, C, delta=delta)
    assert (result.changed, len(result.new_zips), sources.hosting()) == (changed, 1, (size, False))
    result = sources.list(B, C, delta=delta)
    assert (result.gone, sources.hosting()) == (int(gone), (size, gone))
    assert len(sources.proposed()) == proposed


def test_what_a_whole_listing_lists_no_more_is_proposed_once(sources: Sources) -> None:
    sources.list(A, B, C, D)
    sources.load()
    (finding,) = [one for one in sources.list(C, D).findings if one.kind == "withdrawal_proposed"]
    assert "add: 2 archives of file source 1" in finding.message
    assert "dcc data proposals" in finding.message
    both = [(ONE, A.name, ProposalState.OPEN), (ONE, B.name, ProposalState.OPEN)]
    assert sources.proposed() == both
    first = in_reading(sources.tracker, list_proposals)[0]
    assert (first.since, first.created, first.documents) == (sources.now, sources.now, ("document 1.xml",))
    assert sources.list(C, D).findings == []
    assert sources.proposed() == both
    assert sources.missing() == [(ONE, one.name, True, True, False, "open") for one in (A, B)]
    assert sources.missing(TWO) == []


def test_an_archive_that_comes_back_closes_its_open_proposal_and_is_proposed_when_it_goes_again(
    sources: Sources,
) -> None:
    sources.list(A, B)
    sources.load()
    sources.list(B)
    # On any source: whoever hosts it, it is not gone.
    sources.list(A, source=TWO, delta=ADDITIVE)
    assert sources.proposed(*ProposalState) == [(ONE, A.name, ProposalState.CAME_BACK)]
    sources.list(B)
    assert sources.proposed() == []
    assert sources.missing() == [(ONE, A.name, True, True, True, "came_back")]
    sources.list(A, B)
    assert sources.missing() == []
    sources.list(C, source=TWO, delta=ADDITIVE)
    sources.list(B)
    assert sources.proposed() == [(ONE, A.name, ProposalState.OPEN)]


def test_what_was_turned_down_is_proposed_again_only_after_it_was_back(sources: Sources) -> None:
    sources.list(A, B)
    sources.load()
    sources.list(B)
    with writing(sources.tracker) as connection:
        (open_one,) = list_proposals(connection)
        decide_on_proposals(connection, [open_one.za_id], ProposalState.TURNED_DOWN, author="a" * 64, reason="r" * 256)
    (turned_down,) = in_reading(sources.tracker, list_proposals, states=[ProposalState.TURNED_DOWN])
    assert (turned_down.decided_by, turned_down.reason) == ("a" * 64, "r" * 255), "cut to their columns"
    assert turned_down.decided is not None
    for files in ([B], [A, B]):
        sources.list(*files)
        assert sources.proposed() == []
    sources.list(B)
    assert sources.proposed() == [(ONE, A.name, ProposalState.OPEN)]


@only_sqlite
def test_nothing_is_proposed_after_a_listing_in_part_or_one_that_is_not_believed(sources: Sources) -> None:
    everything = (A, B, C, D)
    sources.list(*everything)
    sources.load()
    sources.list(B, C, D, whole=False)
    assert (sources.hosting(), sources.proposed()) == ((100, True), [])
    sources.list(*everything)
    assert sources.list(D, limit=0.2).shrunk
    assert sources.proposed() == []
    assert [row[2] for row in sources.missing()] == [False] * 3
    sources.list(D, limit=0.2)
    assert len(sources.proposed()) == 3


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
def test_what_is_proposed(sources: Sources, case: str, proposed: bool) -> None:
    sources.list(A, B)
    if case.startswith("another source"):
        sources.list(A, B, source=TWO)
    if case != "no document of it stands":
        sources.load()
    if case == "another source that was removed hosts it":
        in_writing(sources.tracker, file_sources.set_source_state, TWO, SourceState.REMOVED)
    if case == "it went while the strategy was additive":
        sources.list(B, delta=ADDITIVE)
        assert sources.proposed() == []
    sources.list(B)
    if case == "another source proposed it":
        sources.list(B, source=TWO)
        sources.list(B)
        assert sources.proposed() == [(TWO, A.name, ProposalState.OPEN)]
        return
    assert sources.proposed() == ([(ONE, A.name, ProposalState.OPEN)] if proposed else [])


def test_the_strategy_is_kept_with_the_source(sources: Sources) -> None:
    with writing(sources.tracker) as connection:
        assert connection.scalars(select(FileSource.delta)).all() == ["additive", "additive"]
        file_sources.change_source(connection, TWO, delta=FULL)
        assert [entry.delta for entry in file_sources.list_sources(connection)] == [ADDITIVE, FULL]
