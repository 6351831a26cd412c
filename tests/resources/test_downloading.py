"""Receiving archives: what arrives is whole and checked or not there at all, and no source holds up another."""

from __future__ import annotations

import hashlib
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import SecretStr

from dcc_resources import allowance, download_sink, downloading, receiving, reserve
from dcc_resources.allowance import Allowance
from dcc_resources.download_sink import DownloadSink
from dcc_resources.downloading import (
    Arrived,
    Broke,
    DownloadMessage,
    Progressed,
    SourceDownloads,
    Started,
)
from dcc_resources.errors import (
    ChecksumMismatchError,
    DiskFullError,
    LoginRefusedError,
    SizeMismatchError,
    SourceError,
    SourceUnreachableError,
    TransferFailedError,
)
from dcc_resources.file_sources.base import ActionListing, Block, SourceAddress, SourceProtocol, Upcoming
from dcc_resources.naming import Action
from dcc_resources.outcomes import ZipKey
from dcc_resources.receiving import Hosting, Transfer, receive
from dcc_resources.segmented_download import Segment, Wanted
from dcc_resources.settings import Settings
from dcc_resources.staging import Origin, Staging

KEY = ZipKey(Action.ADD, "H.2013-10-31.1.impc.zip")
CONTENT = bytes(range(256)) * 40
MODIFIED = 1_400_000_000
PATIENCE = 10.0


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


class FakeConnection:
    """A connection to a source that hosts one archive, and what it was asked for.

    `fault` is raised once `fault_at` bytes have been passed on; `before_block` is called before each block. The memory
    of a block is overwritten once it has been passed on.
    """

    def __init__(
        self,
        content: bytes = CONTENT,
        *,
        block: int = 1_000,
        md5: str | None = None,
        fault_at: int | None = None,
        fault: Exception | None = None,
        before_block: Callable[[], object] = lambda: None,
    ) -> None:
        self.content, self.block, self.md5 = content, block, md5
        self.fault_at, self.fault, self.before_block = fault_at, fault, before_block
        self.fetched: list[int] = []
        self.checksums = 0
        self.closed = False

    def fetch(
        self,
        action: Action,
        name: str,
        sink: Callable[[Block], object],
        *,
        size: int | None,
        offset: int = 0,
        modified: int | None = None,
    ) -> None:
        assert not self.closed
        self.fetched.append(offset)
        for start in range(offset, len(self.content), self.block):
            self.before_block()
            if self.fault_at is not None and start >= self.fault_at:
                assert self.fault is not None
                raise self.fault
            block = bytearray(self.content[start : start + self.block])
            sink(memoryview(block))
            block[:] = bytes(len(block))

    def read_md5(self, action: Action, name: str) -> str | None:
        self.checksums += 1
        return self.md5

    def list_action(self, action: Action) -> ActionListing:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _transfer(
    size: int | None = len(CONTENT),
    *,
    modified: int | None = MODIFIED,
    source_id: int = 1,
    number: int = 1,
    inc: int = 1,
) -> Transfer:
    key = ZipKey(Action.ADD, f"H.2013-10-31.{inc}.impc.zip")
    return Transfer(number, key, Hosting(number, source_id, size, modified, has_md5=False))


def _with_md5(transfer: Transfer) -> Transfer:
    hosting = transfer.hosting
    checked = Hosting(hosting.id, hosting.source_id, hosting.size_bytes, hosting.modified, has_md5=True)
    return Transfer(transfer.download_id, transfer.key, checked)


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    return Staging(tmp_path / "staging")


def _ignore(_received: int) -> None:
    pass


class TestReceiving:
    def test_an_archive_arrives_under_its_name_with_its_size(self, staging: Staging) -> None:
        received = receive(FakeConnection(), _transfer(), staging, _ignore)
        assert received.path == staging.archive(KEY)
        assert received.path.read_bytes() == CONTENT
        assert (received.size_bytes, received.md5, received.resumed) == (len(CONTENT), None, False)
        assert [path.name for path in received.path.parent.iterdir()] == [KEY.file_name]

    def test_an_empty_archive_arrives_too(self, staging: Staging) -> None:
        received = receive(FakeConnection(b""), _transfer(0), staging, _ignore)
        assert (received.size_bytes, received.path.read_bytes()) == (0, b"")

    def test_an_empty_archive_has_a_checksum_too(self, staging: Staging) -> None:
        assert receive(FakeConnection(b"", md5=_md5(b"")), _with_md5(_transfer(0)), staging, _ignore).md5 == _md5(b"")

    def test_where_the_size_is_not_told_what_comes_is_taken(self, staging: Staging) -> None:
        received = receive(FakeConnection(), _transfer(None), staging, _ignore)
        assert received.path.read_bytes() == CONTENT

    def test_too_few_bytes_are_no_success_and_nothing_stays(self, staging: Staging) -> None:
        """existing_system_defects row 8: a transfer cut short counted as success."""
        half = CONTENT[: len(CONTENT) // 2]
        with pytest.raises(SizeMismatchError, match=r"5,120 bytes arrived where 10,240 were listed"):
            receive(FakeConnection(half), _transfer(), staging, _ignore)
        assert list((staging.root / "add").iterdir()) == []

    def test_too_many_bytes_are_cut_off_and_nothing_stays(self, staging: Staging) -> None:
        blocks = []
        endless = FakeConnection(CONTENT * 1_000, before_block=lambda: blocks.append(1))
        with pytest.raises(SizeMismatchError, match=r"bytes arrived where 10,240 were listed"):
            receive(endless, _transfer(), staging, _ignore)
        assert len(blocks) == 11, "no more than one block beyond what was listed"
        assert list((staging.root / "add").iterdir()) == []

    def test_the_centre_s_checksum_is_asked_for_where_there_is_one(self, staging: Staging) -> None:
        connection = FakeConnection(md5=_md5(CONTENT))
        assert receive(connection, _transfer(), staging, _ignore).md5 is None
        assert connection.checksums == 0
        assert receive(connection, _with_md5(_transfer()), staging, _ignore).md5 == _md5(CONTENT)
        assert connection.checksums == 1

    def test_a_checksum_that_vanished_since_the_listing_is_no_fault(self, staging: Staging) -> None:
        assert receive(FakeConnection(md5=None), _with_md5(_transfer()), staging, _ignore).md5 is None
        assert staging.archive(KEY).exists()

    def test_what_has_another_checksum_than_the_centre_published_is_dropped(self, staging: Staging) -> None:
        connection = FakeConnection(md5="0" * 32)
        with pytest.raises(ChecksumMismatchError, match=rf"MD5 {_md5(CONTENT)}, the centre published {'0' * 32}"):
            receive(connection, _with_md5(_transfer()), staging, _ignore)
        assert list((staging.root / "add").iterdir()) == []

    def test_an_archive_received_before_stands_until_the_new_one_is_whole(self, staging: Staging) -> None:
        receive(FakeConnection(b"old"), _transfer(3), staging, _ignore)
        broken = FakeConnection(fault_at=2_000, fault=TransferFailedError("broke off"))
        with pytest.raises(TransferFailedError):
            receive(broken, _transfer(), staging, _ignore)
        assert staging.archive(KEY).read_bytes() == b"old"

    def test_a_checksum_that_cannot_be_read_keeps_what_arrived_for_the_next_attempt(self, staging: Staging) -> None:
        class Unreadable(FakeConnection):
            def read_md5(self, action: Action, name: str) -> str | None:
                raise TransferFailedError("no checksum")

        with pytest.raises(TransferFailedError):
            receive(Unreadable(), _with_md5(_transfer()), staging, _ignore)
        assert not staging.archive(KEY).exists()
        second = FakeConnection(md5=_md5(CONTENT))
        assert receive(second, _with_md5(_transfer()), staging, _ignore).resumed
        assert second.fetched == []


class TestResuming:
    def _break_off(self, staging: Staging, transfer: Transfer) -> None:
        broken = FakeConnection(fault_at=4_000, fault=TransferFailedError("broke off"))
        with pytest.raises(TransferFailedError):
            receive(broken, transfer, staging, _ignore)
        assert staging.part(KEY).stat().st_size == 4_000
        assert not staging.archive(KEY).exists()

    def test_the_next_attempt_goes_on_where_the_last_one_broke_off(self, staging: Staging) -> None:
        self._break_off(staging, _transfer())
        connection = FakeConnection()
        received = receive(connection, _transfer(number=2), staging, _ignore)
        assert connection.fetched == [4_000]
        assert received.path.read_bytes() == CONTENT
        assert (received.resumed, received.md5, received.size_bytes) == (True, None, len(CONTENT))

    def test_the_centre_s_checksum_is_compared_with_that_of_all_attempts_together(self, staging: Staging) -> None:
        self._break_off(staging, _with_md5(_transfer()))
        connection = FakeConnection(md5=_md5(CONTENT))
        received = receive(connection, _with_md5(_transfer(number=2)), staging, _ignore)
        assert connection.fetched == [4_000]
        assert (received.resumed, received.md5) == (True, _md5(CONTENT))

    @pytest.mark.parametrize("lose", [Path.unlink, lambda part: part.write_bytes(b"x" * 3_000)])
    def test_a_part_of_which_something_goes_meanwhile_is_no_success(
        self, staging: Staging, monkeypatch: pytest.MonkeyPatch, lose: Callable[[Path], object]
    ) -> None:
        self._break_off(staging, _transfer())
        take_in = DownloadSink.take_in

        def losing(sink: DownloadSink, length: int) -> None:
            lose(staging.part(KEY))
            take_in(sink, length)

        monkeypatch.setattr(DownloadSink, "take_in", losing)
        with pytest.raises((SizeMismatchError, FileNotFoundError)):
            receive(FakeConnection(), _transfer(), staging, _ignore)
        assert not staging.archive(KEY).exists()

    @pytest.mark.parametrize(
        "second",
        [
            _transfer(len(CONTENT), modified=MODIFIED + 1),
            _transfer(len(CONTENT), source_id=2),
            _transfer(len(CONTENT), modified=None),
            _transfer(None),
        ],
        ids=["time", "source", "unknown time", "unknown size"],
    )
    def test_what_may_be_another_archive_is_fetched_from_its_beginning(
        self, second: Transfer, staging: Staging
    ) -> None:
        self._break_off(staging, _transfer())
        connection = FakeConnection()
        received = receive(connection, second, staging, _ignore)
        assert connection.fetched == [0]
        assert not received.resumed
        assert received.path.read_bytes() == CONTENT

    def test_another_size_is_another_archive(self, staging: Staging) -> None:
        self._break_off(staging, _transfer())
        longer = CONTENT + b"more"
        connection = FakeConnection(longer)
        assert receive(connection, _transfer(len(longer)), staging, _ignore).path.read_bytes() == longer
        assert connection.fetched == [0]

    def test_a_resumed_archive_with_the_wrong_checksum_is_fetched_whole_the_next_time(self, staging: Staging) -> None:
        self._break_off(staging, _transfer())
        staging.part(KEY).write_bytes(b"x" * 4_000)
        with pytest.raises(ChecksumMismatchError):
            receive(FakeConnection(md5=_md5(CONTENT)), _with_md5(_transfer()), staging, _ignore)
        third = FakeConnection(md5=_md5(CONTENT))
        assert receive(third, _with_md5(_transfer()), staging, _ignore).path.read_bytes() == CONTENT
        assert third.fetched == [0]

    @hypothesis_settings(
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
        max_examples=60,
    )
    @given(breaks=st.lists(st.integers(0, len(CONTENT) - 1), max_size=6), block=st.integers(1, 3_000))
    def test_however_often_it_breaks_off_the_bytes_are_those_of_the_source(
        self, staging: Staging, breaks: list[int], block: int
    ) -> None:
        for place in breaks:
            broken = FakeConnection(block=block, fault_at=place, fault=TransferFailedError("broke off"))
            try:
                receive(broken, _transfer(), staging, _ignore)
            except TransferFailedError:
                assert staging.resumable(KEY, Origin(1, len(CONTENT), MODIFIED)) <= len(CONTENT)
        received = receive(FakeConnection(block=block), _transfer(), staging, _ignore)
        assert received.path.read_bytes() == CONTENT


class TestNoting:
    """An archive that arrives within a second has its origin noted only when something goes wrong."""

    def _noted(self, staging: Staging, block: int, size: int = 3 * 1024 * 1024) -> list[int]:
        """How much could be gone on with, were the process killed before each block."""
        sizes: list[int] = []
        origin = Origin(1, size, MODIFIED)
        connection = FakeConnection(
            bytes(size), block=block, before_block=lambda: sizes.append(staging.resumable(KEY, origin))
        )
        path = receive(connection, _transfer(size), staging, _ignore).path
        assert path.read_bytes() == bytes(size)
        assert [each.name for each in path.parent.iterdir()] == [KEY.file_name]
        return sizes

    def test_what_is_more_than_a_megabyte_can_be_gone_on_with(
        self, staging: Staging, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(download_sink, "_PROGRESS_SECONDS", 1e9)
        assert self._noted(staging, 700_000) == [0, 0, 1_400_000, 2_100_000, 2_800_000]

    def test_what_took_more_than_a_second_can_be_gone_on_with(
        self, staging: Staging, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(download_sink, "_PROGRESS_SECONDS", 0.0)
        assert self._noted(staging, 1_000, size=3_500) == [0, 1_000, 2_000, 3_000]

    def test_a_disk_that_takes_blocks_in_pieces_gets_them_whole(
        self, staging: Staging, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write = os.write
        monkeypatch.setattr(os, "write", lambda part, block: write(part, block[:300]))
        assert receive(FakeConnection(), _transfer(), staging, _ignore).path.read_bytes() == CONTENT

    def test_it_leaves_nothing_beside_it(self, staging: Staging) -> None:
        path = receive(FakeConnection(block=len(CONTENT)), _transfer(), staging, _ignore).path
        assert [each.name for each in path.parent.iterdir()] == [KEY.file_name]

    def test_one_that_fails_afterwards_is_kept(self, staging: Staging) -> None:
        class FailsAtTheEnd(FakeConnection):
            def fetch(self, *args: Any, **named: Any) -> None:
                super().fetch(*args, **named)
                raise TransferFailedError("broke off")

        with pytest.raises(TransferFailedError):
            receive(FailsAtTheEnd(block=len(CONTENT)), _transfer(), staging, _ignore)
        assert staging.resumable(KEY, Origin(1, len(CONTENT), MODIFIED)) == len(CONTENT)

    def test_what_was_noted_of_another_one_is_gone_before_it_is_written(self, staging: Staging) -> None:
        broken = FakeConnection(fault_at=4_000, fault=TransferFailedError("broke off"))
        with pytest.raises(TransferFailedError):
            receive(broken, _transfer(), staging, _ignore)
        noted: list[int] = []
        other = _transfer(modified=MODIFIED + 1)
        connection = FakeConnection(block=len(CONTENT))

        def on_write(_: int) -> None:
            noted.append(staging.resumable(KEY, Origin(1, len(CONTENT), MODIFIED)))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(download_sink, "_PROGRESS_SECONDS", 0.0)
            receive(connection, other, staging, on_write)
        assert noted == [0]


class TestProgress:
    def test_it_is_told_about_once_a_second(self, staging: Staging, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = SimpleNamespace(now=0.0)
        for module in (receiving, download_sink):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))

        def later() -> None:
            clock.now += 0.25

        told: list[int] = []
        connection = FakeConnection(b"x" * 20_000, block=1_000, before_block=later)
        received = receive(connection, _transfer(20_000), staging, told.append)
        assert told == [4_000, 8_000, 12_000, 16_000, 20_000]
        assert received.seconds == 5.0

    def test_it_counts_what_an_earlier_attempt_received(
        self, staging: Staging, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(download_sink, "_PROGRESS_SECONDS", 0.0)
        broken = FakeConnection(fault_at=4_000, fault=TransferFailedError("broke off"))
        with pytest.raises(TransferFailedError):
            receive(broken, _transfer(), staging, _ignore)
        told: list[int] = []
        receive(FakeConnection(block=3_120), _transfer(), staging, told.append)
        assert told == [7_120, 10_240]


class TestFullDisk:
    def test_a_download_that_does_not_fit_is_never_begun(self, tmp_path: Path) -> None:
        staging = Staging(tmp_path / "staging", min_free_bytes=1 << 60)
        connection = FakeConnection()
        with pytest.raises(DiskFullError, match="Free some space"):
            receive(connection, _transfer(), staging, _ignore)
        assert connection.fetched == []

    def test_a_disk_that_fills_up_on_the_way_is_told_and_nothing_is_left_held(
        self, staging: Staging, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(staging, "begin_part", lambda _key: os.open("/dev/full", os.O_WRONLY))
            with pytest.raises(
                DiskFullError, match=r"filled up while add/H\.2013-10-31\.1\.impc\.zip was being written"
            ):
                receive(FakeConnection(b"x" * 100_000, block=50_000), _transfer(100_000), staging, _ignore)
        assert not staging.archive(KEY).exists()
        assert receive(FakeConnection(), _transfer(), staging, _ignore).path.read_bytes() == CONTENT

    def test_a_disk_too_full_for_a_folder_is_told_the_same_way(
        self, staging: Staging, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "mkdir", full)
        with pytest.raises(DiskFullError):
            receive(FakeConnection(), _transfer(), staging, _ignore)

    def test_what_was_received_of_an_archive_stays_for_when_there_is_room(self, staging: Staging) -> None:
        full = FakeConnection(fault_at=4_000, fault=OSError(28, "No space left on device"))
        with pytest.raises(DiskFullError):
            receive(full, _transfer(), staging, _ignore)
        again = FakeConnection()
        receive(again, _transfer(), staging, _ignore)
        assert again.fetched == [4_000]


class Sources:
    """Sources that serve from memory, whose transfers can be held up, and what their threads told."""

    def __init__(self, staging: Staging, settings: Settings, places: int = 8) -> None:
        self.staging, self.settings = staging, settings
        self.allowance = Allowance(places)
        self.messages: queue.SimpleQueue[DownloadMessage] = queue.SimpleQueue()
        self.go = threading.Event()
        self.go.set()
        self.connections: list[tuple[int, FakeConnection]] = []
        self.make: Callable[[int], FakeConnection] = lambda source_id: FakeConnection()
        self.under_way: dict[int, int] = {}
        self.most: dict[int, int] = {}
        self.most_in_all = 0
        self._lock = threading.Lock()
        self._all: list[SourceDownloads] = []

    def connect(self, address: SourceAddress, settings: Settings) -> FakeConnection:
        connection = self.make(address.id)
        fetch = connection.fetch

        def counted(*args: object, **named: object) -> None:
            with self._lock:
                self.under_way[address.id] = self.under_way.get(address.id, 0) + 1
                self.most[address.id] = max(self.most.get(address.id, 0), self.under_way[address.id])
                self.most_in_all = max(self.most_in_all, sum(self.under_way.values()))
            try:
                assert self.go.wait(PATIENCE)
                fetch(*args, **named)  # type: ignore[arg-type]
            finally:
                with self._lock:
                    self.under_way[address.id] -= 1

        connection.fetch = counted  # type: ignore[method-assign]
        with self._lock:
            self.connections.append((address.id, connection))
        return connection

    def source(self, number: int = 1) -> SourceDownloads:
        address = SourceAddress(number, "H", SourceProtocol.SFTP, "same.host", f"user{number}", SecretStr("x"), "")
        downloads = SourceDownloads(address, self.settings, self.staging, self.allowance, self.messages.put)
        self._all.append(downloads)
        return downloads

    def asked(self, count: int, number: int = 1, *, connections: int | None = None) -> SourceDownloads:
        """A source of which `count` transfers are wanted, over so many connections, if that is said."""
        if connections is not None:
            self.settings = self.settings.model_copy(update={"downloads_per_source": connections})
        source = self.source(number)
        for transfer in _transfers(count, number):
            source.put(transfer)
        return source

    def ends(self, count: int) -> list[Arrived | Broke]:
        """The next `count` transfers that ended."""
        found: list[Arrived | Broke] = []
        while len(found) < count:
            message = self.messages.get(timeout=PATIENCE)
            if isinstance(message, Arrived | Broke):
                found.append(message)
        return found

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def close(self) -> None:
        self.go.set()
        for downloads in self._all:
            downloads.stop()
        for downloads in self._all:
            downloads.join(PATIENCE)
            assert not [thread for thread in downloads._threads if thread.is_alive()]


@pytest.fixture
def sources(staging: Staging, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sources]:
    made = Sources(staging, Settings(home=tmp_path, downloads_per_source=2, min_free_bytes=0))
    monkeypatch.setattr(downloading, "connect", made.connect)
    yield made
    made.close()


def _transfers(count: int, source_id: int = 1) -> list[Transfer]:
    start = source_id * 100
    return [_transfer(source_id=source_id, number=start + n, inc=start + n) for n in range(count)]


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
        first, *others = _transfers(5)
        source.put(first)
        sources.wait_until(lambda: sources.under_way.get(1) == 1)
        for transfer in others:
            source.put(transfer)
        assert refused.wait(PATIENCE)
        sources.go.set()
        ends = sources.ends(5)
        assert {end.transfer for end in ends if isinstance(end, Arrived)} == {first, *others}
        assert not source.given_up
        assert len(sources.connections) == 1

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
        transfers = _transfers(6)
        source.put(transfers[0])
        sources.wait_until(lambda: sources.under_way.get(1) == 1)
        for transfer in transfers[1:]:
            source.put(transfer)
        sources.go.set()
        assert all(isinstance(end, Arrived) for end in sources.ends(6))
        assert connection.told[0] == [transfer.key.file_name for transfer in transfers[1:]]

    def test_each_transfer_is_told_from_its_start_to_its_end(
        self, sources: Sources, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(download_sink, "_PROGRESS_SECONDS", 0.0)
        source = sources.source()
        transfer = _transfer()
        source.put(transfer)
        messages = [sources.messages.get(timeout=PATIENCE) for _ in range(13)]
        assert messages[0] == Started(transfer)
        assert messages[1:-1] == [Progressed(transfer, min(n * 1_000, 10_240)) for n in range(1, 12)]
        end = messages[-1]
        assert isinstance(end, Arrived)
        assert (end.transfer, end.received.path) == (transfer, sources.staging.archive(KEY))

    def test_no_more_downloads_at_once_than_one_source_allows(self, sources: Sources) -> None:
        """existing_system_defects row 28: threads multiplied without a bound."""
        sources.go.clear()
        sources.asked(6)
        sources.wait_until(lambda: sources.under_way.get(1) == 2)
        time.sleep(0.05)
        assert len(sources.connections) == 2
        sources.go.set()
        assert all(isinstance(end, Arrived) for end in sources.ends(6))
        assert sources.most == {1: 2}

    def test_a_source_that_keeps_two_connections_waiting_gets_all_that_it_may_have(self, sources: Sources) -> None:
        sources.go.clear()
        sources.asked(6, connections=4)
        sources.wait_until(lambda: sources.under_way.get(1) == 4)
        sources.go.set()
        assert all(isinstance(end, Arrived) for end in sources.ends(6))

    def test_two_connections_are_all_until_more_are_of_use(
        self, sources: Sources, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reserve, "_FIRST_LOOK_SECONDS", 1_000.0)
        sources.asked(40, connections=4)
        assert all(isinstance(end, Arrived) for end in sources.ends(40))
        assert len(sources.connections) <= 2

    def test_all_connections_serve_for_the_segments_of_a_large_archive_at_once(
        self, sources: Sources, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reserve, "_FIRST_LOOK_SECONDS", 1_000.0)
        sources.go.clear()
        source = sources.asked(4, connections=4)
        sources.wait_until(lambda: sources.under_way.get(1) == 2)
        source._offer(Segment(Wanted(KEY, len(CONTENT), MODIFIED, 0), 5_000, len(CONTENT), sources.staging.root))
        sources.wait_until(lambda: sources.under_way.get(1) == 4)

    def test_no_more_downloads_at_once_than_allowed_in_all(self, sources: Sources) -> None:
        sources.allowance = Allowance(3)
        sources.go.clear()
        for number in (1, 2, 3):
            sources.asked(2, number)
        sources.wait_until(lambda: sum(sources.under_way.values()) == 3)
        time.sleep(0.05)
        sources.go.set()
        assert all(isinstance(end, Arrived) for end in sources.ends(6))
        assert sources.most_in_all == 3

    def test_one_that_hardly_moves_does_not_count_among_all(
        self, sources: Sources, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """existing_system_defects row 23: one stalled transfer blocked the session for ever."""
        monkeypatch.setattr(allowance, "_SLOW_SECONDS", 0.2)
        sources.allowance = Allowance(2)
        sources.go.clear()
        sources.asked(2)
        sources.wait_until(lambda: sources.under_way.get(1) == 2)
        sources.make = lambda source_id: _unhindered(sources)
        sources.source(2).put(_transfer(source_id=2, number=200, inc=200))
        assert sources.ends(1)[0].transfer.hosting.source_id == 2

    def test_one_that_moves_counts_however_long_it_takes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = SimpleNamespace(now=0.0)
        monkeypatch.setattr(allowance, "time", SimpleNamespace(monotonic=lambda: clock.now))
        monkeypatch.setattr(allowance, "_LOOK_SECONDS", 0.001)
        places = Allowance(1)
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
        """existing_system_defects row 23: a source with much to send holds up no other."""
        sources.allowance = Allowance(1)
        sources.go.clear()
        laden, other = sources.source(1), sources.source(2)
        for transfer in _transfers(40, 1):
            laden.put(transfer)
        sources.wait_until(lambda: sources.most_in_all == 1)
        for transfer in _transfers(2, 2):
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
        monkeypatch.setattr(downloading, "_FRESH_SECONDS", 0.05)
        sources.settings = sources.settings.model_copy(update={"downloads_per_source": 1})
        source = sources.source()
        for transfer in _transfers(2):
            source.put(transfer)
            assert isinstance(sources.ends(1)[0], Arrived)
            time.sleep(0.1)
        assert [connection.closed for _, connection in sources.connections] == [True, False]

    def test_two_accounts_on_one_host_have_connections_of_their_own(self, sources: Sources) -> None:
        """existing_system_defects row 33: connections were shared by host name."""
        sources.make = lambda source_id: FakeConnection(f"for {source_id}".encode() * 2)
        for number in (1, 2):
            sources.source(number).put(_transfer(10, source_id=number, number=number, inc=number))
        for end in sources.ends(2):
            assert isinstance(end, Arrived)
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
        """existing_system_defects row 21: a refused connection crashed the thread."""
        sources.settings = sources.settings.model_copy(update={"downloads_per_source": 1})
        refusal = SourceUnreachableError("refused")

        def refuse(source_id: int) -> FakeConnection:
            raise refusal

        sources.make = refuse
        source = sources.source()
        first, second, third = _transfers(3)
        source.put(first)
        assert sources.ends(1) == [Broke(first, refusal, connecting=True)]

        fault = TransferFailedError("broke off")
        sources.make = lambda source_id: FakeConnection(fault_at=2_000, fault=fault)
        source.put(second)
        assert sources.ends(1) == [Broke(second, fault, connecting=False)]

        sources.make = lambda source_id: FakeConnection()
        source.put(third)
        assert isinstance(sources.ends(1)[0], Arrived)
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
        first, second = _transfers(2)
        source.put(first)
        source.put(second)
        broke, arrived = sources.ends(2)
        assert isinstance(broke, Broke)
        assert not broke.connecting
        assert broke.error is fault or broke.error.__cause__ is fault
        assert isinstance(arrived, Arrived)
        assert [connection.closed for _, connection in sources.connections] == [True, False]

    def test_a_source_that_is_given_up_is_asked_for_nothing_more(self, sources: Sources) -> None:
        sources.go.clear()
        source = sources.source()
        transfers = _transfers(5)
        for transfer in transfers:
            source.put(transfer)
        sources.wait_until(lambda: sources.under_way.get(1) == 2)
        reason = SourceUnreachableError("down")
        source.give_up(reason)
        sources.go.set()
        ends = sources.ends(5)
        assert {end.transfer for end in ends if isinstance(end, Arrived)} == set(transfers[:2])
        broken = sorted((end for end in ends if isinstance(end, Broke)), key=lambda end: end.transfer.download_id)
        assert broken == [Broke(transfer, reason, connecting=True) for transfer in transfers[2:]]
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
        monkeypatch.setattr(download_sink, "_PROGRESS_SECONDS", 0.0)
        source = sources.source()
        reached = threading.Event()
        blocks: list[int] = []

        def stop_after_three() -> None:
            blocks.append(1)
            if len(blocks) == 4:
                source.stop()
                reached.set()

        sources.make = lambda source_id: FakeConnection(before_block=stop_after_three)
        source.put(_transfer())
        assert reached.wait(PATIENCE)
        source.join(PATIENCE)
        assert not sources.staging.archive(KEY).exists()
        assert sources.staging.part(KEY).stat().st_size == 4_000
        assert sources.connections[0][1].closed

        again = FakeConnection()
        assert receive(again, _transfer(), sources.staging, _ignore).resumed
        assert again.fetched == [4_000]

    def test_nothing_is_told_of_a_transfer_that_was_stopped(
        self, sources: Sources, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(download_sink, "_PROGRESS_SECONDS", 0.0)
        sources.go.clear()
        source = sources.source()
        source.put(_transfer())
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
        monkeypatch.setattr(reserve, "_FIRST_LOOK_SECONDS", 1_000.0)
        source = sources.asked(4, connections=4)
        sources.ends(4)
        source.stop()
        source.join(PATIENCE)
        assert [thread.is_alive() for thread in source._threads] == [False] * 4

    def test_what_waits_for_its_turn_among_all_sources_is_not_begun_either(self, sources: Sources) -> None:
        sources.allowance = Allowance(1)
        source = sources.source()
        with sources.allowance.place():
            source.put(_transfer())
            time.sleep(0.05)
            source.stop()
        source.join(PATIENCE)
        assert sources.connections == []
        assert sources.messages.empty()

    def test_a_source_given_up_while_a_transfer_waits_for_its_turn_is_not_asked(self, sources: Sources) -> None:
        sources.allowance = Allowance(1)
        source = sources.source()
        reason = SourceUnreachableError("down")
        with sources.allowance.place():
            source.put(_transfer())
            time.sleep(0.05)
            source.give_up(reason)
        assert sources.ends(1) == [Broke(_transfer(), reason, connecting=True)]
        assert sources.connections == []
