"""The threads that fetch from file sources: how many at once, in turns, and no source holds up another."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from dcc.errors import (
    LoginRefusedError,
    SourceError,
    SourceUnreachableError,
    TransferFailedError,
)
from dcc.session.fetching import archive_transfer, download_slots, downloads, processor_reserve
from dcc.session.fetching.archive_transfer import receive
from dcc.session.fetching.download_slots import DownloadSlots
from dcc.session.fetching.downloads import Progressed, Started, TransferCompleted, TransferFailed
from dcc.session.fetching.segmented_download import RangeRequest, Segment
from dcc.settings import Settings
from dcc.sources.base import Upcoming
from dcc.store.staging import Staging
from tests.support.served_from_memory import (
    CONTENT,
    KEY,
    MODIFIED,
    PATIENCE,
    FakeConnection,
    Sources,
    ignore,
    transfer_of,
    transfers_of,
)


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    return Staging(tmp_path / "staging")


@pytest.fixture
def sources(staging: Staging, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sources]:
    made = Sources(staging, Settings(home=tmp_path, downloads_per_source=2, min_free_bytes=0))
    monkeypatch.setattr(downloads, "connect", made.connect)
    yield made
    made.close()


class TestSourceThreads:
    @pytest.mark.parametrize("refusal", [LoginRefusedError("too many users"), SourceUnreachableError("closed")])
    def test_a_server_that_takes_no_second_connection_is_asked_over_the_first(
        self, refusal: SourceError, sources: Sources
    ) -> None:
        """A centre's server may allow fewer connections than DCC_DOWNLOADS_PER_SOURCE: that is nobody's fault."""

        def make(_source_id: int) -> FakeConnection:
            if sources.connections:
                refused.set()
                raise refusal
            return FakeConnection()

        refused = threading.Event()
        sources.make = make
        sources.go.clear()
        source = sources.source()
        first, *others = transfers_of(5)
        source.put(first)
        sources.wait_until(lambda: sources.under_way.get(1) == 1)
        for transfer in others:
            source.put(transfer)
        assert refused.wait(PATIENCE)
        sources.go.set()
        ends = sources.ends(5)
        assert {end.transfer for end in ends if isinstance(end, TransferCompleted)} == {first, *others}
        assert not source.given_up
        assert len(sources.connections) == 1

    def test_whichever_of_two_is_let_in_by_a_server_that_takes_one(self, sources: Sources) -> None:
        """Both threads connect at once: the one that is refused, first or last, has no say in what is refused."""
        lot = threading.Lock()
        refused = threading.Event()

        def make(_source_id: int) -> FakeConnection:
            if lot.acquire(blocking=False):
                assert refused.wait(PATIENCE)
                # The other thread has been told by now, and nobody has a connection yet.
                time.sleep(0.05)
                return FakeConnection()
            refused.set()
            raise LoginRefusedError("530 Sorry, the maximum number of clients for this user are already connected.")

        sources.make = make
        source = sources.asked(6)
        assert all(isinstance(end, TransferCompleted) for end in sources.ends(6))
        assert not source.given_up
        assert len(sources.connections) == 1

    def test_where_all_are_refused_the_source_is_given_up(self, sources: Sources) -> None:
        together = threading.Barrier(2)
        refusal = LoginRefusedError("530 Login incorrect.")

        def refuse(_source_id: int) -> FakeConnection:
            together.wait(PATIENCE)
            raise refusal

        sources.make = refuse
        source = sources.asked(6)
        ends = sources.ends(6)
        assert {end.error for end in ends if isinstance(end, TransferFailed)} == {refusal}
        assert len({end.transfer for end in ends}) == 6
        assert source.given_up

    def test_who_waits_whether_another_is_let_in_ends_with_the_session(self, sources: Sources) -> None:
        lot = threading.Lock()
        refused, stopped = threading.Event(), threading.Event()

        def make(_source_id: int) -> FakeConnection:
            if lot.acquire(blocking=False):
                assert stopped.wait(PATIENCE)
                return FakeConnection()
            refused.set()
            raise LoginRefusedError("530")

        sources.make = make
        source = sources.asked(2)
        assert refused.wait(PATIENCE)
        source.stop()
        sources.wait_until(lambda: sum(thread.is_alive() for thread in source._threads) == 1)
        stopped.set()
        source.join(PATIENCE)
        assert not any(isinstance(sources.messages.get(), TransferFailed) for _ in range(sources.messages.qsize()))

    @pytest.mark.parametrize("fault", [OSError(24, "Too many open files"), RuntimeError("can't start new thread")])
    def test_a_further_connection_that_meets_a_fault_costs_nothing(self, fault: Exception, sources: Sources) -> None:
        def make(_source_id: int) -> FakeConnection:
            if sources.connections:
                raise fault
            return FakeConnection()

        sources.make = make
        sources.go.clear()
        source = sources.source()
        first, *others = transfers_of(4)
        source.put(first)
        sources.wait_until(lambda: sources.under_way.get(1) == 1)
        for transfer in others:
            source.put(transfer)
        sources.wait_until(lambda: sum(thread.is_alive() for thread in source._threads) == 1)
        sources.go.set()
        assert {end.transfer for end in sources.ends(4) if isinstance(end, TransferCompleted)} == {first, *others}

    def test_the_only_connection_that_meets_a_fault_is_told_and_is_no_failure_of_the_source(
        self, sources: Sources
    ) -> None:
        sources.settings = sources.settings.model_copy(update={"downloads_per_source": 1})
        fault = RuntimeError("can't start new thread")
        faults = iter([fault])

        def make(_source_id: int) -> FakeConnection:
            for error in faults:
                raise error
            return FakeConnection()

        sources.make = make
        source = sources.source()
        first, second = transfers_of(2)
        source.put(first)
        source.put(second)
        broke, arrived = sources.ends(2)
        assert broke == TransferFailed(first, fault)
        assert isinstance(arrived, TransferCompleted)

    def test_a_connection_that_cannot_even_be_closed_costs_no_transfer(
        self, sources: Sources, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Clinging(FakeConnection):
            def close(self) -> None:
                raise OSError("no")

        monkeypatch.setattr(downloads, "_FRESH_SECONDS", 0.0)
        sources.settings = sources.settings.model_copy(update={"downloads_per_source": 1})
        sources.make = lambda _source_id: Clinging()
        sources.asked(3)
        assert all(isinstance(end, TransferCompleted) for end in sources.ends(3))
        assert len(sources.connections) == 3

    def test_threads_that_the_machine_does_not_give_are_done_without(
        self, sources: Sources, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(_thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        source = sources.asked(1)
        monkeypatch.setattr(threading.Thread, "start", refuse)
        for transfer in transfers_of(4)[1:]:
            source.put(transfer)
        assert all(isinstance(end, TransferCompleted) for end in sources.ends(4))

    def test_a_connection_that_can_is_told_what_comes_next(self, sources: Sources) -> None:
        class LookingAhead(FakeConnection):
            def __init__(self) -> None:
                super().__init__()
                self.told: list[list[str]] = []

            def announce(self, upcoming: Sequence[Upcoming]) -> None:
                assert all(file.size == len(CONTENT) and file.offset == 0 for file in upcoming)
                self.told.append([file.name for file in upcoming])

        sources.settings = sources.settings.model_copy(update={"downloads_per_source": 1})
        connection = LookingAhead()
        sources.make = lambda _source_id: connection
        sources.go.clear()
        source = sources.source()
        transfers = transfers_of(6)
        source.put(transfers[0])
        sources.wait_until(lambda: sources.under_way.get(1) == 1)
        for transfer in transfers[1:]:
            source.put(transfer)
        sources.go.set()
        assert all(isinstance(end, TransferCompleted) for end in sources.ends(6))
        assert connection.told[0] == [transfer.key.file_name for transfer in transfers[1:]]

    def test_each_transfer_is_told_from_its_start_to_its_end(
        self, sources: Sources, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(archive_transfer, "_PROGRESS_SECONDS", 0.0)
        source = sources.source()
        transfer = transfer_of()
        source.put(transfer)
        messages = [sources.messages.get(timeout=PATIENCE) for _ in range(13)]
        assert messages[0] == Started(transfer)
        assert messages[1:-1] == [Progressed(transfer, min(n * 1_000, 10_240)) for n in range(1, 12)]
        end = messages[-1]
        assert isinstance(end, TransferCompleted)
        assert (end.transfer, end.received.path) == (transfer, sources.staging.archive(KEY))

    def test_no_more_downloads_at_once_than_one_source_allows(self, sources: Sources) -> None:
        """Threads multiplied without a bound."""
        sources.go.clear()
        sources.asked(6)
        sources.wait_until(lambda: sources.under_way.get(1) == 2)
        time.sleep(0.05)
        assert len(sources.connections) == 2
        sources.go.set()
        assert all(isinstance(end, TransferCompleted) for end in sources.ends(6))
        assert sources.most == {1: 2}

    def test_a_source_that_keeps_two_connections_waiting_gets_all_that_it_may_have(self, sources: Sources) -> None:
        sources.go.clear()
        sources.asked(6, connections=4)
        sources.wait_until(lambda: sources.under_way.get(1) == 4)
        sources.go.set()
        assert all(isinstance(end, TransferCompleted) for end in sources.ends(6))

    def test_two_connections_are_all_until_more_are_of_use(
        self, sources: Sources, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(processor_reserve, "_FIRST_LOOK_SECONDS", 1_000.0)
        sources.asked(40, connections=4)
        assert all(isinstance(end, TransferCompleted) for end in sources.ends(40))
        assert len(sources.connections) <= 2

    def test_all_connections_serve_for_the_segments_of_a_large_archive_at_once(
        self, sources: Sources, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(processor_reserve, "_FIRST_LOOK_SECONDS", 1_000.0)
        sources.go.clear()
        source = sources.asked(4, connections=4)
        sources.wait_until(lambda: sources.under_way.get(1) == 2)
        source._offer(Segment(RangeRequest(KEY, len(CONTENT), MODIFIED, 0), 5_000, len(CONTENT), sources.staging.root))
        sources.wait_until(lambda: sources.under_way.get(1) == 4)

    def test_no_more_downloads_at_once_than_allowed_in_all(self, sources: Sources) -> None:
        sources.allowance = DownloadSlots(3)
        sources.go.clear()
        for number in (1, 2, 3):
            sources.asked(2, number)
        sources.wait_until(lambda: sum(sources.under_way.values()) == 3)
        time.sleep(0.05)
        sources.go.set()
        assert all(isinstance(end, TransferCompleted) for end in sources.ends(6))
        assert sources.most_in_all == 3

    def test_one_that_hardly_moves_does_not_count_among_all(
        self, sources: Sources, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One stalled transfer blocked the session for ever."""
        monkeypatch.setattr(download_slots, "_SLOW_SECONDS", 0.2)
        sources.allowance = DownloadSlots(2)
        sources.go.clear()
        sources.asked(2)
        sources.wait_until(lambda: sources.under_way.get(1) == 2)
        sources.make = lambda source_id: _unhindered(sources)
        sources.source(2).put(transfer_of(source_id=2, number=200, inc=200))
        assert sources.ends(1)[0].transfer.hosting.source_id == 2

    def test_one_that_moves_counts_however_long_it_takes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = SimpleNamespace(now=0.0)
        monkeypatch.setattr(download_slots, "time", SimpleNamespace(monotonic=lambda: clock.now))
        monkeypatch.setattr(download_slots, "_LOOK_SECONDS", 0.001)
        places = DownloadSlots(1)
        begun = threading.Event()

        def wait_for_a_place() -> None:
            with places.place():
                begun.set()

        with places.place() as place:
            clock.now = place.looked
            looks = {place.looked}
            threading.Thread(target=wait_for_a_place, daemon=True).start()
            while len(looks) < 20:
                # The bytes first: whoever looks in between sees more of them than in time, never fewer.
                place.received += 100_000
                clock.now += 1.0
                assert not begun.wait(0.001)
                looks.add(place.looked)
        assert begun.wait(PATIENCE)

    def test_sources_take_turns_however_many_downloads_one_has(self, sources: Sources) -> None:
        """A source with much to send holds up no other."""
        sources.allowance = DownloadSlots(1)
        sources.go.clear()
        laden, other = sources.source(1), sources.source(2)
        for transfer in transfers_of(40, 1):
            laden.put(transfer)
        sources.wait_until(lambda: sources.most_in_all == 1)
        for transfer in transfers_of(2, 2):
            other.put(transfer)
        sources.wait_until(lambda: len(sources.allowance._line) == 3)
        sources.go.set()
        order = [message.transfer.hosting.source_id for message in sources.ends(42)]
        assert [place for place, source_id in enumerate(order) if source_id == 2][-1] < 8

    def test_a_connection_serves_for_one_transfer_after_the_other(self, sources: Sources) -> None:
        source = sources.asked(4, connections=1)
        sources.ends(4)
        assert len(sources.connections) == 1
        source.stop()
        source.join(PATIENCE)
        assert sources.connections[0][1].closed

    def test_one_that_was_idle_for_long_is_made_anew_lest_the_server_has_closed_it(
        self, sources: Sources, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(downloads, "_FRESH_SECONDS", 0.05)
        sources.settings = sources.settings.model_copy(update={"downloads_per_source": 1})
        source = sources.source()
        for transfer in transfers_of(2):
            source.put(transfer)
            assert isinstance(sources.ends(1)[0], TransferCompleted)
            time.sleep(0.1)
        assert [connection.closed for _, connection in sources.connections] == [True, False]

    def test_two_accounts_on_one_host_have_connections_of_their_own(self, sources: Sources) -> None:
        """Connections were shared by host name."""
        sources.make = lambda source_id: FakeConnection(f"for {source_id}".encode() * 2)
        for number in (1, 2):
            sources.source(number).put(transfer_of(10, source_id=number, number=number, inc=number))
        for end in sources.ends(2):
            assert isinstance(end, TransferCompleted)
            assert end.received.path.read_bytes() == f"for {end.transfer.hosting.source_id}".encode() * 2
        assert sorted(number for number, _ in sources.connections) == [1, 2]

    def test_a_source_that_hangs_holds_up_no_other(self, sources: Sources) -> None:
        sources.go.clear()
        sources.asked(4)
        sources.wait_until(lambda: sources.under_way.get(1) == 2)
        sources.make = lambda source_id: _unhindered(sources)
        sources.asked(3, 2)
        ended = sources.ends(3)
        assert {end.transfer.hosting.source_id for end in ended} == {2}

    def test_a_connection_that_cannot_be_made_is_told_apart_from_a_transfer_that_breaks(self, sources: Sources) -> None:
        """A refused connection crashed the thread."""
        sources.settings = sources.settings.model_copy(update={"downloads_per_source": 1})
        refusal = SourceUnreachableError("refused")

        def refuse(source_id: int) -> FakeConnection:
            raise refusal

        sources.make = refuse
        source = sources.source()
        first, second, third = transfers_of(3)
        source.put(first)
        assert sources.ends(1) == [TransferFailed(first, refusal)]

        fault = TransferFailedError("broke off")
        sources.make = lambda source_id: FakeConnection(fault_at=2_000, fault=fault)
        source.put(second)
        assert sources.ends(1) == [TransferFailed(second, fault, begun=True)]

        sources.make = lambda source_id: FakeConnection()
        source.put(third)
        assert isinstance(sources.ends(1)[0], TransferCompleted)
        assert [connection.closed for _, connection in sources.connections] == [True, False]

    @pytest.mark.parametrize(
        "fault", [TransferFailedError("broke off"), OSError(28, "full"), RuntimeError("a bug"), KeyError("another")]
    )
    def test_a_connection_on_which_anything_broke_off_is_not_used_again(
        self, fault: Exception, sources: Sources
    ) -> None:
        sources.settings = sources.settings.model_copy(update={"downloads_per_source": 1})
        faults = iter([fault])
        sources.make = lambda source_id: FakeConnection(
            fault_at=5_000 if (error := next(faults, None)) else None, fault=error
        )
        source = sources.source()
        first, second = transfers_of(2)
        source.put(first)
        source.put(second)
        broke, arrived = sources.ends(2)
        assert isinstance(broke, TransferFailed)
        assert broke.error is fault or broke.error.__cause__ is fault
        assert isinstance(arrived, TransferCompleted)
        assert [connection.closed for _, connection in sources.connections] == [True, False]

    def test_a_source_that_is_given_up_is_asked_for_nothing_more(self, sources: Sources) -> None:
        sources.go.clear()
        source = sources.source()
        transfers = transfers_of(5)
        for transfer in transfers:
            source.put(transfer)
        sources.wait_until(lambda: sources.under_way.get(1) == 2)
        reason = SourceUnreachableError("down")
        source.give_up(reason)
        sources.go.set()
        ends = sources.ends(5)
        assert {end.transfer for end in ends if isinstance(end, TransferCompleted)} == set(transfers[:2])
        broken = sorted(
            (end for end in ends if isinstance(end, TransferFailed)), key=lambda end: end.transfer.download_id
        )
        assert broken == [TransferFailed(transfer, reason) for transfer in transfers[2:]]
        assert sources.most == {1: 2}


def _unhindered(sources: Sources) -> FakeConnection:
    class Unhindered(FakeConnection):
        def __setattr__(self, name: str, value: object) -> None:
            if name != "fetch":
                super().__setattr__(name, value)

    return Unhindered()


class TestStopping:
    def test_a_transfer_under_way_is_left_as_a_part_to_go_on_with(
        self, sources: Sources, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(archive_transfer, "_PROGRESS_SECONDS", 0.0)
        source = sources.source()
        reached = threading.Event()
        blocks: list[int] = []

        def stop_after_three() -> None:
            blocks.append(1)
            if len(blocks) == 4:
                source.stop()
                reached.set()

        sources.make = lambda source_id: FakeConnection(before_block=stop_after_three)
        source.put(transfer_of())
        assert reached.wait(PATIENCE)
        source.join(PATIENCE)
        assert not sources.staging.archive(KEY).exists()
        assert sources.staging.part(KEY).stat().st_size == 4_000
        assert sources.connections[0][1].closed

        again = FakeConnection()
        assert receive(again, transfer_of(), sources.staging, ignore).resumed
        assert again.fetched == [4_000]

    def test_nothing_is_told_of_a_transfer_that_was_stopped(
        self, sources: Sources, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(archive_transfer, "_PROGRESS_SECONDS", 0.0)
        sources.go.clear()
        source = sources.source()
        source.put(transfer_of())
        sources.wait_until(lambda: sources.under_way.get(1) == 1)
        source.stop()
        sources.go.set()
        source.join(PATIENCE)
        told = [sources.messages.get_nowait()]
        assert isinstance(told[0], Started)
        assert sources.messages.empty()

    def test_what_waits_is_not_begun(self, sources: Sources) -> None:
        sources.go.clear()
        source = sources.asked(6)
        sources.wait_until(lambda: sources.under_way.get(1) == 2)
        source.stop()
        sources.go.set()
        source.join(PATIENCE)
        assert sum(len(connection.fetched) for _, connection in sources.connections) == 2

    def test_threads_that_were_not_of_use_yet_end_at_once(
        self, sources: Sources, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(processor_reserve, "_FIRST_LOOK_SECONDS", 1_000.0)
        source = sources.asked(4, connections=4)
        sources.ends(4)
        source.stop()
        source.join(PATIENCE)
        assert [thread.is_alive() for thread in source._threads] == [False] * 4

    def test_what_waits_for_its_turn_among_all_sources_is_not_begun_either(self, sources: Sources) -> None:
        sources.allowance = DownloadSlots(1)
        source = sources.source()
        with sources.allowance.place():
            source.put(transfer_of())
            time.sleep(0.05)
            source.stop()
        source.join(PATIENCE)
        assert sources.connections == []
        assert sources.messages.empty()

    def test_a_source_given_up_while_a_transfer_waits_for_its_turn_is_not_asked(self, sources: Sources) -> None:
        sources.allowance = DownloadSlots(1)
        source = sources.source()
        reason = SourceUnreachableError("down")
        with sources.allowance.place():
            source.put(transfer_of())
            time.sleep(0.05)
            source.give_up(reason)
        assert sources.ends(1) == [TransferFailed(transfer_of(), reason)]
        assert sources.connections == []
