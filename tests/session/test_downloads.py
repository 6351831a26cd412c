"""The threads that fetch from file sources: how many at once, in turns, and no source holds up another."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from dcc.errors import LoginRefusedError, SourceError, SourceUnreachableError, TransferFailedError
from dcc.session.fetching import archive_transfer, downloads
from dcc.session.fetching.download_slots import DownloadSlots
from dcc.session.fetching.transfer_events import TransferCompleted, TransferFailed, TransferNotBegun
from dcc.session.fetching.transfer_queue import TransferQueue
from dcc.settings import Settings
from dcc.store.staging import Staging
from tests.support.raising import raising
from tests.support.served_from_memory import (
    KEY,
    PATIENCE,
    FakeConnection,
    Sources,
    receive_from,
    transfer_of,
    transfers_of,
)
from tests.support.waiting import wait_until


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
        wait_until(lambda: sources.under_way.get(1) == 1)
        for transfer in others:
            source.put(transfer)
        assert refused.wait(PATIENCE)
        sources.go.set()
        ends = sources.ends(5)
        assert {end.transfer for end in ends if isinstance(end, TransferCompleted)} == {first, *others}
        assert not source.given_up
        assert len(sources.connections) == 1

    def test_where_all_are_refused_the_source_is_given_up_at_once(self, sources: Sources) -> None:
        """A server may lock out an account after repeated refusals."""
        sources.settings = sources.settings.model_copy(update={"source_failure_limit": 100})
        together = threading.Barrier(2)
        refusal = LoginRefusedError("530 Login incorrect.")

        def refuse(_source_id: int) -> FakeConnection:
            together.wait(PATIENCE)
            raise refusal

        sources.make = refuse
        source = sources.asked(6)
        ends = sources.ends(6)
        assert [end.error for end in ends if isinstance(end, TransferFailed)] == [refusal] * 2
        assert len({end.transfer for end in ends if isinstance(end, TransferNotBegun)}) == 4
        assert source.given_up

    def test_a_fault_in_what_workers_left_ends_the_transfer_and_not_its_thread(self, sources: Sources) -> None:
        """A session waited for the transfer for ever."""
        fault = TypeError("a fault of the platform")

        def raise_fault(_key: object, _hosting: object) -> None:
            raise fault

        source = sources.source(from_workers=raise_fault)
        for transfer in transfers_of(5):
            source.put(transfer)
        assert {end.error for end in sources.ends(5) if isinstance(end, TransferFailed)} == {fault}

    @pytest.mark.parametrize("is_wanted", [False, True])
    def test_a_connection_for_which_another_process_waits_is_closed_after_its_transfer(
        self, sources: Sources, *, is_wanted: bool
    ) -> None:
        class Slots:
            def slot(self, *_: object) -> AbstractContextManager[None]:
                return nullcontext()

            def must_give_up(self, _: object) -> bool:
                return is_wanted

        sources.settings = sources.settings.model_copy(update={"downloads_per_source": 1})
        source = sources.source(connection_slots=Slots())
        for transfer in transfers_of(2):
            source.put(transfer)
        sources.ends(2)
        assert len(sources.connections) == 1 + is_wanted

    @pytest.mark.parametrize(
        ("slots", "numbers", "most"), [(8, (1,), 2), (3, (1, 2, 3), 3)], ids=["than one source allows", "in all"]
    )
    def test_no_more_downloads_at_once(self, sources: Sources, slots: int, numbers: tuple[int, ...], most: int) -> None:
        """Threads multiplied without a bound."""
        sources.download_slots = DownloadSlots(slots)
        sources.go.clear()
        for number in numbers:
            sources.asked(6 // len(numbers), number)
        wait_until(lambda: sum(sources.under_way.values()) == most)
        time.sleep(0.05)
        sources.go.set()
        assert all(isinstance(end, TransferCompleted) for end in sources.ends(6))
        assert sources.most_in_all == most
        assert max(sources.most.values()) <= 2
        assert len(sources.connections) <= 2 * len(numbers)

    def test_sources_take_turns_however_many_downloads_one_has(self, sources: Sources) -> None:
        """A source with much to send holds up no other."""
        sources.download_slots = DownloadSlots(1)
        sources.go.clear()
        laden, other = sources.source(1), sources.source(2)
        for transfer in transfers_of(40, 1):
            laden.put(transfer)
        wait_until(lambda: sources.most_in_all == 1)
        for transfer in transfers_of(2, 2):
            other.put(transfer)
        wait_until(lambda: len(sources.download_slots._line) == 3)
        sources.go.set()
        order = [message.transfer.hosting.source_id for message in sources.ends(42)]
        assert [place for place, source_id in enumerate(order) if source_id == 2][-1] < 8

    def test_a_source_that_hangs_holds_up_no_other(self, sources: Sources) -> None:
        sources.go.clear()
        sources.asked(4)
        wait_until(lambda: sources.under_way.get(1) == 2)
        sources.make = lambda source_id: _unhindered(sources)
        sources.asked(3, 2)
        ended = sources.ends(3)
        assert {end.transfer.hosting.source_id for end in ended} == {2}

    def test_a_connection_that_cannot_be_made_is_told_apart_from_a_transfer_that_breaks(self, sources: Sources) -> None:
        """A refused connection crashed the thread."""
        sources.settings = sources.settings.model_copy(update={"downloads_per_source": 1})
        refusal = SourceUnreachableError("refused")

        sources.make = raising(refusal)
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
        wait_until(lambda: sources.under_way.get(1) == 2)
        source.give_up(SourceUnreachableError("down"))
        sources.go.set()
        ends = sources.ends(5)
        assert {end.transfer for end in ends if isinstance(end, TransferCompleted)} == set(transfers[:2])
        assert {end.transfer for end in ends if isinstance(end, TransferNotBegun)} == set(transfers[2:])
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
        assert receive_from(again, transfer_of(), sources.staging).resumed
        assert again.fetched == [4_000]

    def test_what_waits_is_not_begun(self, sources: Sources) -> None:
        sources.go.clear()
        source = sources.asked(6)
        wait_until(lambda: sources.under_way.get(1) == 2)
        source.stop()
        sources.go.set()
        source.join(PATIENCE)
        assert sum(len(connection.fetched) for _, connection in sources.connections) == 2


@pytest.mark.parametrize("module", ["dcc.session.fetching.downloads", "dcc.session.prepare.archive_checks"])
def test_fetching_and_checking_load_no_database_and_checking_no_settings(module: str) -> None:
    program = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    unwanted = {"sqlalchemy"} if "fetching" in module else {"sqlalchemy", "pydantic", "paramiko"}
    assert not unwanted & set(done.stdout.split())


def _queued(workers: int, *sizes: int | None) -> TransferQueue[int | None]:
    queue = TransferQueue[int | None](workers, lambda size: size)
    for size in sizes:
        queue.put(size)
    return queue


def test_what_is_kept_for_a_thread_is_its_share_and_no_more_than_it_may_have() -> None:
    assert _queued(2, *range(10)).keep(0, 8, 1_000) == (0, 1, 2, 3, 4)
    assert _queued(1, *range(10)).keep(0, 8, 1_000) == tuple(range(8))
    assert _queued(1, *[400] * 10).keep(0, 8, 1_000) == (400, 400, 400)
    assert _queued(4, 1, 2, 3).keep(0, 8, 1_000) == ()
    assert _queued(1, 5, None, 6).keep(0, 8, 1_000) == (5,), "what has no size is not kept"


def test_nothing_is_added_while_half_is_left() -> None:
    queue = _queued(1, *range(20))
    assert len(queue.keep(0, 8, 1_000)) == 8
    for number in range(3):
        assert queue.take(0) == number
        assert queue.keep(0, 8, 1_000) == ()
    assert queue.take(0) == 3
    assert queue.keep(0, 8, 1_000) == (4, 5, 6, 7, 8, 9, 10, 11)


def test_a_thread_takes_what_is_kept_for_it_then_what_waits_then_the_end_of_what_is_kept_for_another() -> None:
    queue = _queued(2, 1, 2, 3, 4)
    assert queue.keep(1, 8, 1_000) == (1, 2)
    assert [queue.take(0), queue.take(1)] == [3, 1]
    queue = _queued(2, 1, 2, 3, 4)
    queue.keep(1, 8, 1_000)
    assert [queue.take(0) for _ in range(4)] == [3, 4, 2, 1]
