"""File sources that serve archives from memory, transfers of these, and what the threads that fetch them told."""

import queue
import threading
from collections.abc import Callable
from typing import Any

from pydantic import SecretStr

from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.session.fetching.archive_transfer import ReceivedArchive, Transfer, receive
from dcc.session.fetching.download_slots import DownloadSlots
from dcc.session.fetching.downloads import SourceDownloads
from dcc.session.fetching.transfer_events import TransferCompleted, TransferEvent, TransferFailed, TransferNotBegun
from dcc.session.fetching.transfer_speed import SpeedLimits
from dcc.settings import Settings
from dcc.sources.base import ActionListing, Block, Connection, SourceAddress
from dcc.sources.protocols import SourceProtocol
from dcc.store.staging import Staging
from dcc.tracker.hostings.hosting import Hosting

KEY = SubmissionKey(Action.ADD, "H.2013-10-31.1.impc.zip")
CONTENT = bytes(range(256)) * 40
MODIFIED = 1_400_000_000
PATIENCE = 10.0


class FakeConnection(Connection):
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


def transfer_of(
    size: int | None = len(CONTENT),
    *,
    modified: int | None = MODIFIED,
    source_id: int = 1,
    number: int = 1,
    inc: int = 1,
) -> Transfer:
    key = SubmissionKey(Action.ADD, f"H.2013-10-31.{inc}.impc.zip")
    return Transfer(number, key, Hosting(number, source_id, size, modified, has_md5=False))


def with_md5(transfer: Transfer) -> Transfer:
    hosting = transfer.hosting
    checked = Hosting(hosting.id, hosting.source_id, hosting.size_bytes, hosting.modified, has_md5=True)
    return Transfer(transfer.download_id, transfer.key, checked)


def receive_from(
    connection: Connection,
    transfer: Transfer,
    staging: Staging,
    *,
    speed_limits: SpeedLimits | None = None,
    max_unsized: int = 1 << 32,
) -> ReceivedArchive:
    """Receive an archive, without anybody to tell about it."""
    return receive(
        connection,
        transfer,
        staging,
        lambda _: None,
        speed_limits=speed_limits or SpeedLimits(),
        max_unsized=max_unsized,
        on_published=lambda _: None,
    )


def transfers_of(count: int, source_id: int = 1) -> list[Transfer]:
    start = source_id * 100
    return [transfer_of(source_id=source_id, number=start + n, inc=start + n) for n in range(count)]


class Sources:
    """Sources that serve from memory, whose transfers can be held up, and what their threads told."""

    def __init__(self, staging: Staging, settings: Settings) -> None:
        self.staging, self.settings = staging, settings
        self.download_slots = DownloadSlots(8)
        self.messages: queue.SimpleQueue[TransferEvent] = queue.SimpleQueue()
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

    def source(
        self,
        number: int = 1,
        from_workers: Callable[..., Connection | None] | None = None,
        connection_slots: Any = None,
    ) -> SourceDownloads:
        address = SourceAddress(number, "H", SourceProtocol.SFTP, "same.host", f"user{number}", SecretStr("x"), "")
        tell = self.messages.put
        downloads = SourceDownloads(
            address, self.settings, self.staging, self.download_slots, tell, from_workers, connection_slots
        )
        self._all.append(downloads)
        return downloads

    def asked(self, count: int, number: int = 1, *, connections: int | None = None) -> SourceDownloads:
        """A source of which `count` transfers are wanted, over so many connections, if that is said."""
        if connections is not None:
            self.settings = self.settings.model_copy(update={"downloads_per_source": connections})
        source = self.source(number)
        for transfer in transfers_of(count, number):
            source.put(transfer)
        return source

    def ends(self, count: int) -> list[TransferCompleted | TransferFailed | TransferNotBegun]:
        """The next `count` transfers that ended, or did not begin."""
        found: list[TransferCompleted | TransferFailed | TransferNotBegun] = []
        while len(found) < count:
            message = self.messages.get(timeout=PATIENCE)
            if isinstance(message, TransferCompleted | TransferFailed | TransferNotBegun):
                found.append(message)
        return found

    def close(self) -> None:
        self.go.set()
        for downloads in self._all:
            downloads.stop()
        for downloads in self._all:
            downloads.join(PATIENCE)
            assert not [thread for thread in downloads._threads if thread.is_alive()]
