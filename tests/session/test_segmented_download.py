"""Large archives that come over several connections: whole, in order, whatever becomes of those who help."""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dcc.errors import SourceTimeoutError, SourceUnreachableError, TransferFailedError
from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.session.fetching import segmented_download
from dcc.session.fetching.archive_transfer import Transfer
from dcc.session.fetching.download_slots import DownloadSlots
from dcc.session.fetching.downloads import DownloadMessage, SourceDownloads, TransferCompleted, TransferFailed
from dcc.session.fetching.segmented_download import Helpers, RangeRequest, Segment, SegmentedFetch
from dcc.settings import Settings
from dcc.sources.base import Block, Connection, ServesSegments
from dcc.sources.connect import connect
from dcc.sources.ftp.session import FtpSession
from dcc.sources.ftp.source import FtpConnection
from dcc.sources.hosting import Hosting
from dcc.sources.transfer_speed import Pace
from dcc.store.staging import Staging
from tests.support.servers import Share

NAME = "H.2013-10-31.1.impc.zip"
KEY = ZipKey(Action.ADD, NAME)
MODIFIED = 1_400_000_000
CONTENT = os.urandom(1_000_003)
PATIENCE = 20.0


@pytest.fixture(autouse=True)
def small_files_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three connections are worth it from 300,000 bytes on."""
    monkeypatch.setattr(segmented_download, "LEAST_BYTES", 300_000)


class Server:
    """A connection to a server far away that hosts CONTENT; `ended` is raised in place of the byte at `ends_at`."""

    def __init__(
        self, *, round_trip: float | None = 0.08, modified: int | None = MODIFIED, ends_at: int = 10**9
    ) -> None:
        self.seconds, self.time, self.ends_at = round_trip, modified, ends_at
        self.asked: list[tuple[int, int | None]] = []
        self.passed: list[int] = []
        self.closed = threading.Event()

    def round_trip(self) -> float | None:
        return self.seconds

    def modified(self, action: Action, name: str) -> int | None:
        assert ZipKey(action, name) == KEY
        return self.time

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
        assert (ZipKey(action, name), modified) == (KEY, MODIFIED)
        self.asked.append((offset, size))
        block = bytearray(40_000)
        for start in range(offset, len(CONTENT), len(block)):
            if start >= self.ends_at:
                raise TransferFailedError("it broke off")
            end = min(start + len(block), len(CONTENT))
            block[: end - start] = CONTENT[start:end]
            sink(memoryview(block)[: end - start])
            self.passed.append(end)
            if size is not None and end > size:
                return

    def close(self) -> None:
        self.closed.set()


@dataclass
class Part:
    """What the sink has; it is a beginning of the file at any moment. `on_block` is called after each block."""

    received: int = 0
    content: bytearray = field(default_factory=bytearray)
    on_block: Callable[[], object] = lambda: None

    def __call__(self, block: Block) -> None:
        self.content += block
        self.received += len(block)
        assert CONTENT.startswith(self.content)
        self.on_block()


def helped_by(*servers: Any, at_once: bool = False) -> tuple[Helpers, list[threading.Thread], list[Segment]]:
    """Helpers in threads, one for each server, which fetch what is offered; `at_once`: before it is gone on with."""
    waiting = list(servers)
    threads: list[threading.Thread] = []
    offered: list[Segment] = []

    def help_with(segment: Segment, server: Any) -> None:
        if segment.take_up():
            taken.release()
            with contextlib.suppress(TransferFailedError):
                segment.fetch(server, lambda _: None, Pace())
        else:
            taken.release()

    def offer(segment: Segment) -> None:
        offered.append(segment)
        if waiting:
            threads.append(threading.Thread(target=help_with, args=(segment, waiting.pop(0))))
            threads[-1].start()
            assert taken.acquire(timeout=PATIENCE)
            if at_once:
                threads[-1].join(PATIENCE)

    taken = threading.Semaphore(0)
    return Helpers(offer, 3), threads, offered


def fetched(
    tmp_path: Path, server: Any, helpers: Helpers, part: Part | None = None, **changes: Any
) -> tuple[SegmentedFetch, Part]:
    part = part or Part()
    wanted = RangeRequest(KEY, len(CONTENT), MODIFIED, part.received)._replace(**changes)
    fetch = SegmentedFetch(server, wanted, tmp_path, helpers)
    fetch.into(part, lambda: None)
    return fetch, part


def ended(threads: list[threading.Thread]) -> bool:
    for thread in threads:
        thread.join(PATIENCE)
    return not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("at_once", [False, True])
def test_each_fetches_a_segment_and_the_file_is_whole(tmp_path: Path, at_once: bool) -> None:
    first, second, third = Server(), Server(), Server()
    helpers, threads, offered = helped_by(second, third, at_once=at_once)
    fetch, part = fetched(tmp_path, first, helpers)
    assert part.content == CONTENT
    assert ended(threads)
    third_of_it = 333_335
    assert [(segment.start, segment.end) for segment in offered] == [
        (third_of_it, 2 * third_of_it),
        (2 * third_of_it, len(CONTENT)),
    ]
    assert first.asked == [(0, len(CONTENT))]
    assert max(first.passed) < third_of_it
    assert (second.asked, third.asked) == ([(third_of_it, 2 * third_of_it)], [(2 * third_of_it, len(CONTENT))])
    assert fetch.room == third_of_it
    assert (fetch.ahead, fetch.helped) == (0, len(CONTENT) - third_of_it)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ends_at", [0, 333_335, 400_000, 666_600, 666_670, 700_000, 960_000])
@pytest.mark.parametrize("at_once", [False, True])
def test_what_a_helper_does_not_bring_the_first_connection_does(tmp_path: Path, ends_at: int, at_once: bool) -> None:
    first = Server()
    helpers, threads, _ = helped_by(Server(ends_at=ends_at), Server(ends_at=ends_at), at_once=at_once)
    _, part = fetched(tmp_path, first, helpers)
    assert part.content == CONTENT
    assert ended(threads)


def test_a_file_that_changed_meanwhile_is_not_gone_on_with(tmp_path: Path) -> None:
    first = Server(modified=MODIFIED + 1)
    helpers, threads, _ = helped_by(Server(ends_at=400_000), Server(), at_once=True)
    part = Part()
    with pytest.raises(TransferFailedError, match="not as it was listed"):
        fetched(tmp_path, first, helpers, part)
    assert ended(threads)
    assert first.asked == [(0, len(CONTENT))]
    assert CONTENT.startswith(part.content)


def test_what_an_earlier_attempt_received_is_not_fetched_again(tmp_path: Path) -> None:
    part = Part(400_000, bytearray(CONTENT[:400_000]))
    first, second, third = Server(), Server(), Server()
    helpers, threads, offered = helped_by(second, third)
    fetched(tmp_path, first, helpers, part)
    assert part.content == CONTENT
    assert ended(threads)
    assert [(segment.start, segment.end) for segment in offered] == [(600_001, 800_002), (800_002, 1_000_003)]
    assert first.asked == [(400_000, len(CONTENT))]


def test_when_the_receiver_fails_all_end_and_nothing_is_left(tmp_path: Path) -> None:
    helpers, threads, offered = helped_by(Server(), Server())

    def fail() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        fetched(tmp_path, Server(), helpers, Part(on_block=fail))
    assert ended(threads)
    assert not any(segment.take_up() for segment in offered)
    assert list(tmp_path.iterdir()) == []


class TestSources:
    """The threads of a source, on real servers."""

    @pytest.fixture(autouse=True)
    def every_server_is_far_away(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(segmented_download, "LEAST_ROUND_TRIP", 0.0)

    @pytest.fixture
    def connections(self, monkeypatch: pytest.MonkeyPatch) -> list[Connection]:
        """The connections that were made."""
        made: list[Connection] = []

        def noted(*args: Any) -> Connection:
            made.append(connect(*args))
            return made[-1]

        monkeypatch.setattr("dcc.session.fetching.downloads.connect", noted)
        return made

    def downloaded(self, share: Share, settings: Settings, tmp_path: Path) -> DownloadMessage:
        """How the transfer of the one archive ends."""
        with connect(share.address(), settings) as connection:
            (listed,) = connection.list_action(Action.ADD).zips
        messages: queue.SimpleQueue[DownloadMessage] = queue.SimpleQueue()
        staging = Staging(tmp_path / "staging")
        staging.make()
        source = SourceDownloads(share.address(), settings, staging, DownloadSlots(8), messages.put)
        source.put(Transfer(1, KEY, Hosting(1, 1, listed.size_bytes, listed.modified, listed.has_md5)))
        try:
            while not isinstance(message := messages.get(timeout=PATIENCE), TransferCompleted | TransferFailed):
                pass
        finally:
            source.stop()
            source.join(PATIENCE)
        assert [path.name for path in (tmp_path / "staging" / "add").iterdir()] == [NAME]
        return message

    def arrives(self, content: bytes, share: Share, settings: Settings, tmp_path: Path) -> None:
        """The one archive is put there, and comes as it is."""
        share.put(f"add/{NAME}", content)
        message = self.downloaded(share, settings, tmp_path)
        assert isinstance(message, TransferCompleted)
        assert message.received.path.read_bytes() == content

    @pytest.mark.servers
    @pytest.mark.parametrize("server", ["ftp_server", "ftps_server", "faulty_ftp_server"])
    def test_a_large_archive_comes_over_as_many_connections_as_the_source_may_have(
        self,
        server: str,
        request: pytest.FixtureRequest,
        source_settings: Settings,
        connections: list[Connection],
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        share: Share = request.getfixturevalue(server)
        share = share() if callable(share) else share
        content = os.urandom(12_000_001)
        share.put(f"add/{NAME}.md5", hashlib.md5(content).hexdigest().encode())
        allowed = source_settings.downloads_per_source
        fetch, all_there = FtpConnection.fetch, threading.Barrier(allowed)

        def fetched_beside_others(server: FtpConnection, action: Action, name: str, *args: Any, **named: Any) -> None:
            # Nobody begins before all do: however fast this machine is, none has it all.
            if name == NAME:
                with contextlib.suppress(threading.BrokenBarrierError):
                    all_there.wait(PATIENCE / 2)
            fetch(server, action, name, *args, **named)

        monkeypatch.setattr(FtpConnection, "fetch", fetched_beside_others)
        self.arrives(content, share, source_settings, tmp_path)
        assert len(connections) == allowed
        assert not all_there.broken
        assert all(isinstance(connection, ServesSegments) for connection in connections)

    def test_a_server_that_cannot_begin_in_the_middle_is_asked_for_all_of_it(
        self,
        faulty_ftp_server: Callable[..., Share],
        source_settings: Settings,
        connections: list[Connection],
        tmp_path: Path,
    ) -> None:
        share = faulty_ftp_server(without=["REST"])
        content = os.urandom(4_000_001)
        self.arrives(content, share, source_settings, tmp_path)
        assert len(connections) == 1

    @pytest.mark.parametrize("question", ["round_trip", "time_of"])
    def test_a_server_that_answers_without_end_is_not_listened_to_for_ever(
        self,
        question: str,
        faulty_ftp_server: Callable[..., Share],
        source_settings: Settings,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def listen(session: FtpSession, *_: str) -> None:
            while True:
                with contextlib.suppress(TimeoutError):
                    if session.sock is None or not session.sock.recv(1):
                        raise EOFError

        monkeypatch.setattr(FtpSession, question, listen)
        settings = source_settings.model_copy(update={"list_timeout": 0.2})
        with connect(faulty_ftp_server().address(), settings) as connection:
            assert isinstance(connection, ServesSegments)
            with pytest.raises(SourceTimeoutError):
                _ = connection.round_trip() if question == "round_trip" else connection.modified(Action.ADD, NAME)

    def test_a_server_that_takes_one_connection_only_serves_over_that(
        self,
        faulty_ftp_server: Callable[..., Share],
        source_settings: Settings,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        made: list[Connection] = []

        def first_only(*args: Any) -> Connection:
            if made:
                raise SourceUnreachableError("too many connections")
            made.append(connect(*args))
            return made[-1]

        monkeypatch.setattr("dcc.session.fetching.downloads.connect", first_only)
        share = faulty_ftp_server()
        content = os.urandom(4_000_001)
        self.arrives(content, share, source_settings, tmp_path)
        assert len(made) == 1
