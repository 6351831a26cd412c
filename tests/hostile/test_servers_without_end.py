"""Servers that send without end, lie about lengths and numbers, or point to another host."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import paramiko
import pytest
from paramiko.common import MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA
from paramiko.packet import Packetizer
from pydantic import SecretStr

from dcc.errors import (
    DiskFullError,
    ListingFailedError,
    SizeMismatchError,
    SourceError,
    SourceTimeoutError,
    SourceUnreachableError,
)
from dcc.naming import Action
from dcc.session.fetching.transfer_speed import SpeedLimits
from dcc.settings import Settings
from dcc.sources import listing
from dcc.sources.base import ActionListing, SourceAddress
from dcc.sources.connect import connect
from dcc.sources.http.client import UnusableAnswerError
from dcc.sources.http.index import MAX_TAGS, read_page
from dcc.sources.listing import Entry, EntryKind, action_listing
from dcc.sources.protocols import SourceProtocol
from dcc.sources.sftp.bounds import LARGEST_BACKLOG, BoundedPackets
from dcc.store.staging import Staging
from tests.hostile.servers import FLOOD, flooding, ftp, sftp
from tests.support.memory import little_memory
from tests.support.served_from_memory import KEY, receive_from, transfer_of
from tests.support.talking_servers import serving

SERVER_KEY = paramiko.ECDSAKey.generate()
PINNED = f"{SERVER_KEY.get_name()} {SERVER_KEY.get_base64()}"


def address(protocol: SourceProtocol, hostname: str, **changes: Any) -> SourceAddress:
    fields: dict[str, Any] = {"username": "centre", "accesskey": SecretStr("a password"), "base_path": "/data"}
    return SourceAddress(1, "H", protocol, hostname, **(fields | changes))


def list_of(
    talk: Callable[[socket.socket], None], protocol: SourceProtocol, settings: Settings, **changes: Any
) -> ActionListing:
    """What a server that talks so lists, in little memory."""
    with (
        serving(talk) as (hostname, _),
        little_memory(),
        connect(address(protocol, hostname, **changes), settings) as connection,
    ):
        return connection.list_action(Action.ADD)


class TestFtp:
    @pytest.mark.parametrize("command", ["greeting", "PASS", "FEAT", "CWD", "TYPE", "RETR"])
    def test_a_reply_without_end_ends_the_request(self, command: str, source_settings: Settings) -> None:
        talk = ftp(endless=[command]) if command != "greeting" else flooding(b"220-well\r\n", b"220-x\r\n" * 10_000)

        def ask(hostname: str) -> None:
            with connect(address(SourceProtocol.FTP, hostname), source_settings) as connection:
                connection.list_action(Action.ADD)
                connection.fetch(KEY.action, KEY.file_name, lambda _: None, size=9)

        with serving(talk) as (hostname, _), little_memory(), pytest.raises(SourceError, match="longer than 65,536"):
            ask(hostname)

    @pytest.mark.parametrize("missing", [False, True])
    def test_a_listing_without_end_is_refused_in_little_memory(
        self, missing: bool, source_settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The names are of ten kilobytes each; where an action directory is missing, its parent is listed."""
        monkeypatch.setattr(listing, "MAX_ENTRIES", 3_000)
        monkeypatch.setattr("dcc.sources.ftp.source.MAX_ENTRIES", 3_000)
        line = b"type=file;size=1; " + b"n" * 10_000 + b".zip\r\n"
        there, gone = (b"250 so", b"550 no")
        replies = {"CWD /data/add": gone if missing else there, "CWD": there}
        talk = ftp(listing=flooding(b"", line * 10), replies=replies)
        with pytest.raises(ListingFailedError, match="more than 3,000 entries"):
            list_of(talk, SourceProtocol.FTP, source_settings)

    def test_a_data_connection_goes_to_no_other_host(self, source_settings: Settings) -> None:
        """A server that names another host in its answer to PASV would have us reach into a network of ours."""
        with serving(lambda _: None, "127.0.0.2") as (other, reached):
            port = int(other.rpartition(":")[2])
            passive = b"227 at (127,0,0,2,%d,%d)" % divmod(port, 256)
            with (
                serving(ftp(passive=passive)) as (hostname, _),
                connect(address(SourceProtocol.FTP, hostname), source_settings) as connection,
                pytest.raises(SourceError),
            ):
                connection.list_action(Action.ADD)
            assert reached == []


class TestSsh:
    @pytest.mark.parametrize("piece", [b"x" * 60_000, FLOOD * 60], ids=["one line", "many lines"])
    def test_a_greeting_without_end_ends_the_connection(self, piece: bytes, source_settings: Settings) -> None:
        with pytest.raises(SourceUnreachableError, match="no SSH session"):
            list_of(flooding(b"", piece), SourceProtocol.SFTP, source_settings, host_keys=(PINNED,))

    @pytest.mark.parametrize("length", [300_000, 0x7FFFFFF4, 0xFFFFFFF4])
    def test_a_packet_of_any_length_is_not_waited_for(self, length: int, source_settings: Settings) -> None:
        began = time.monotonic()
        talk = flooding(b"SSH-2.0-x\r\n" + struct.pack(">IB", length, 4))
        with pytest.raises(SourceUnreachableError, match="no SSH session"):
            list_of(talk, SourceProtocol.SFTP, source_settings, host_keys=(PINNED,))
        assert time.monotonic() - began < source_settings.login_timeout + 5

    @pytest.mark.parametrize(
        "names",
        [
            struct.pack(">I", 0xFFFFFFFF),
            struct.pack(">II", 1, 1_000_000) + b"x",
            struct.pack(">IIII", 1, 0, 0, 0x80000000) + struct.pack(">I", 0xFFFFFFFF),
            b"",
        ],
        ids=["four thousand million names", "a name of a megabyte", "four thousand million attributes", "nothing"],
    )
    def test_a_listing_holds_no_more_than_arrived(self, names: bytes, source_settings: Settings) -> None:
        """paramiko fills up what is missing with zeros: a name of a megabyte for each 40 bytes that arrive."""
        with pytest.raises(ListingFailedError, match="ends before what it announces"):
            list_of(sftp(SERVER_KEY, names), SourceProtocol.SFTP, source_settings, host_keys=(PINNED,))

    @pytest.mark.parametrize("kind", [MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA])
    def test_a_server_that_heeds_no_window_is_cut_off(self, kind: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Also with what it says beside the session, which nobody reads."""
        data = paramiko.Message(struct.pack(">II", 0, 100_000) + b"x" * 100_000)
        monkeypatch.setattr(Packetizer, "read_message", lambda _: (kind, data))
        data.seqno = 0
        ours, theirs = socket.socketpair()
        with ours, theirs:
            packets = BoundedPackets(ours)
            packets.read = 5_000_000
            for _ in range((LARGEST_BACKLOG + packets.read) // 100_000):
                assert packets.read_message()[0] == kind
            with pytest.raises(paramiko.SSHException, match="more than it was allowed"):
                packets.read_message()


class TestHttp:
    def test_an_index_page_of_tags_that_never_close_takes_no_time(self) -> None:
        """libxml2's parser of HTML takes minutes for it, and hours for a page of 10 MB."""
        began = time.process_time()
        assert read_page(b"<b>" * 100_000 + b"</i>" * 20_000, None).links == {}
        assert time.process_time() - began < 4

    def test_a_page_of_too_many_tags_or_links_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert MAX_TAGS > 1_000_000
        monkeypatch.setattr("dcc.sources.http.index.MAX_TAGS", 1_000)
        with pytest.raises(UnusableAnswerError, match="more than 1,000 tags"):
            read_page(b"<b>" * 1_001, None)
        monkeypatch.setattr("dcc.sources.http.index.MAX_LINKS", 10)
        with pytest.raises(UnusableAnswerError, match="more than 10 links"):
            read_page(b"".join(b"<a href=%d>" % number for number in range(11)), None)

    @pytest.mark.parametrize(
        "page",
        [
            b'<a b="' * 300_000,
            b"<a b='" * 300_000,
            b"<!--" * 300_000,
            b"<a " + b"=" * 900_000,
            b"<" * 900_000,
            b"<a " + b" " * 900_000,
            b'<a href="' + b"&#" * 300_000 + b'">',
            b"<script>" * 99_000,
            b"<a>" * 99_000,
            b'<meta charset="-Punycode"><a href="a-' + b"a" * 900_000 + b'">',
        ],
        ids=range(10),
    )
    def test_no_page_takes_more_than_time_in_proportion(self, page: bytes) -> None:
        began = time.process_time()
        read_page(page, None)
        assert time.process_time() - began < 5

    @pytest.mark.parametrize(
        "answer",
        [
            b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 70_000,
            b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500,
            b"HTTP/1.1 200 OK" + b"x" * 70_000,
            b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\n",
        ],
        ids=["a long header", "many headers", "a long status", "a long length"],
    )
    def test_headers_without_end_are_refused(self, answer: bytes, source_settings: Settings) -> None:
        with pytest.raises(SourceError):
            list_of(flooding(answer), SourceProtocol.HTTP, source_settings)

    @pytest.mark.parametrize("length", [b"", b"Transfer-Encoding: chunked\r\n"], ids=["no length", "chunks"])
    def test_a_page_without_end_is_refused(
        self, length: bytes, source_settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dcc.sources.http.index.MAX_PAGE_BYTES", 1_000_000)
        piece = b"ea60\r\n" + b"x" * 60_000 + b"\r\n" if length else b"x" * 60_000

        def talk(connection: socket.socket) -> None:
            while (request := connection.recv(65_536)).startswith(b"HEAD"):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            assert request
            flooding(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + length + b"\r\n", piece)(connection)

        with pytest.raises(ListingFailedError, match="larger than 1 MB"):
            list_of(talk, SourceProtocol.HTTP, source_settings)


class TestListings:
    def test_what_is_ignored_takes_no_memory(self) -> None:
        entries = (Entry(b"%d" % number + b"\0" * 100_000, EntryKind.FILE) for number in range(500))
        with little_memory(5):
            found = action_listing("a source", Action.ADD, entries, lambda _: None)
        assert found.ignored == 500
        assert len(found.ignored_examples) == 20
        assert all(len(name) < 300 for name, _ in found.ignored_examples)

    def test_too_many_archives_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(listing, "MAX_ZIPS", 10)
        kinds = (EntryKind.FILE, EntryKind.LINK)
        for kind in kinds:
            entries = (Entry(b"%d.zip" % number, kind) for number in range(11))
            with pytest.raises(ListingFailedError, match="more than 10 archives"):
                action_listing("a source", Action.ADD, entries, lambda link: link._replace(kind=EntryKind.FILE))


class Trickle:
    """A connection that passes on these blocks, and then waits until it is closed."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._closed = threading.Event()

    def fetch(self, action: Action, name: str, sink: Callable[[bytes], object], **_: object) -> None:
        for block in self._blocks:
            sink(block)
        assert self._closed.wait(30)
        raise OSError("closed")

    def close(self) -> None:
        self._closed.set()


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    return Staging(tmp_path / "staging")


class TestTransfers:
    @pytest.mark.parametrize(
        ("pace", "reason"),
        [
            (
                SpeedLimits(slowest=1_000, over=0.2),
                "10 bytes arrived in 0.2 seconds; DCC_MIN_DOWNLOAD_SPEED|0 bytes arrived",
            ),
            (SpeedLimits(longest=0.2), "not done within 0.2 seconds; DCC_DOWNLOAD_TIMEOUT"),
        ],
    )
    def test_a_transfer_that_trickles_is_given_up_and_what_arrived_is_kept(
        self, pace: SpeedLimits, reason: str, staging: Staging
    ) -> None:
        connection: Any = Trickle(iter([b"0123456789"]))
        with pytest.raises(SourceTimeoutError, match=reason):
            receive_from(connection, transfer_of(1_000), staging, speed_limits=pace)
        assert staging.part(KEY).read_bytes() == b"0123456789"

    def test_a_transfer_without_a_size_ends_at_the_limit_and_leaves_nothing(self, staging: Staging) -> None:
        endless: Any = Trickle(iter(lambda: b"x" * 100_000, b""))
        with pytest.raises(SizeMismatchError, match="more than 1 MB arrived") as raised:
            receive_from(endless, transfer_of(None), staging, max_unsized=1_000_000)
        assert "DCC_MAX_UNSIZED_BYTES" in str(raised.value)
        assert not staging.part(KEY).exists()

    def test_a_transfer_without_a_size_leaves_room_on_the_disk(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each look at the disk finds less of it free."""
        monkeypatch.setattr("dcc.store.staging._UNFORESEEN", 1_000_000)
        monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(total=10**9, free=5_000_000 - sum(arrived)))
        arrived: list[int] = []

        def blocks() -> Iterator[bytes]:
            while True:
                arrived.append(100_000)
                yield b"x" * 100_000

        endless: Any = Trickle(blocks())
        with pytest.raises(DiskFullError, match="larger than announced"):
            receive_from(endless, transfer_of(None), Staging(tmp_path, min_free_bytes=1_000_000))
        assert sum(arrived) == 5_000_000
