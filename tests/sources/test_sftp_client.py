"""The SFTP client: what a server answers is taken apart or refused, and never beyond its end."""

from __future__ import annotations

import ast
import inspect
import random
import struct
from collections import deque
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import paramiko
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paramiko.auth_handler import AuthHandler
from paramiko.sftp import (
    CMD_CLOSE,
    CMD_DATA,
    CMD_HANDLE,
    CMD_INIT,
    CMD_NAME,
    CMD_OPEN,
    CMD_READ,
    CMD_STATUS,
    CMD_VERSION,
)

from dcc.sources import sftp
from dcc.sources.listing import Entry, EntryKind
from dcc.sources.platform_connection import PlatformConnection
from dcc.sources.sftp.bounds import BoundedLogin, BoundedPackets, BoundedTransport, StrictMessage
from dcc.sources.sftp.client import MAX_AHEAD, FilePart, FileReader, SftpClient, SftpResponse
from tests.hostile.servers import sftp_packet
from tests.support.trials import trials

NUMBERS = st.integers(0, 2**32 - 1)
VERSION = sftp_packet(CMD_VERSION, struct.pack(">I", 3))


class Script:
    """A channel that has these packets of a server, a piece at each call, whatever it is sent; then it ends."""

    def __init__(self, *packets: bytes, first: bytes = VERSION, piece: int = 1 << 20) -> None:
        self.sent, self.closed = b"", False
        self._arriving, self._piece = b"".join([first, *packets]), piece

    def sendall(self, data: bytes) -> None:
        if self.closed:
            raise OSError("Socket is closed")
        self.sent += data

    def recv(self, length: int) -> bytes:
        data = self._arriving[: min(length, self._piece)]
        self._arriving = self._arriving[len(data) :]
        return data


def client(channel: Script) -> SftpClient:
    return SftpClient(cast("Any", channel), cast("Any", SimpleNamespace(read=0)))


def answer(kind: int, number: int, content: bytes) -> bytes:
    return sftp_packet(kind, struct.pack(">I", number) + content)


def names_of(*names: bytes) -> bytes:
    entries = [struct.pack(">I", len(name)) + name + struct.pack(">II", 0, 0) for name in names]
    return struct.pack(">I", len(names)) + b"".join(entries)


HANDLE = answer(CMD_HANDLE, 1, struct.pack(">I", 1) + b"h")
END = struct.pack(">I", 1)


@pytest.mark.parametrize(
    "first", [b"Welcome to the server\r\n", answer(CMD_STATUS, 3, END), struct.pack(">IBI", 100_000, CMD_VERSION, 3)]
)
def test_what_does_not_begin_as_sftp_is_refused_at_once(first: bytes) -> None:
    with pytest.raises(paramiko.SFTPError, match="does not speak SFTP"):
        client(Script(first=first))


@pytest.mark.parametrize("piece", [1, 10, 1 << 20])
def test_a_directory_is_listed_in_the_order_of_the_answers_however_they_arrive(piece: int) -> None:
    listings = [answer(CMD_NAME, 2 + number, names_of(b"%d" % number, b"\xff")) for number in range(40)]
    channel = Script(HANDLE, *listings, answer(CMD_STATUS, 42, END), piece=piece)
    found = [entry.name for entry in client(channel).entries(b"/add")]
    assert found == [name for number in range(40) for name in (b"%d" % number, b"\xff")]


def test_an_answer_without_the_path_that_was_asked_for_is_refused() -> None:
    assert client(Script(answer(CMD_NAME, 1, names_of(b"/srv/add")))).real_path(b"add") == b"/srv/add"
    with pytest.raises(paramiko.SFTPError, match="the server told no path"):
        client(Script(answer(CMD_NAME, 1, names_of()))).real_path(b"add")


@pytest.mark.parametrize("whole", [0, 1, 3])
def test_what_arrived_before_the_channel_was_closed_is_passed_on(whole: int) -> None:
    listings = [answer(CMD_NAME, 2 + number, names_of(b"%d" % number)) for number in range(whole)]
    channel = Script(HANDLE, *listings, b"\0\0")
    entries = client(channel).entries(b"/add")
    found = []
    for _ in range(whole):
        found.append(next(entries).name)
        channel.closed = True
    with pytest.raises(paramiko.SSHException, match="closed the connection"):
        next(entries)
    assert found == [b"%d" % number for number in range(whole)]


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (answer(CMD_STATUS, 7, END), "an answer to no request"),
        (b"\0\0\0\1e" + bytes(9), "an answer to no request"),
        (bytes(9), "an answer to no request"),
        (struct.pack(">IBI", 5 + 100_000, CMD_STATUS, 1), "an answer of 100,000 bytes"),
        (struct.pack(">IBI", 0xFFFFFFFF, CMD_STATUS, 1), "an answer of 4,294,967,290 bytes"),
        (answer(CMD_NAME, 1, names_of()), "an answer of type 104 where 105 was due"),
    ],
    ids=["another number", "no number", "nothing", "long", "endless", "another type"],
)
def test_an_answer_that_was_not_asked_for_is_refused(packet: bytes, reason: str) -> None:
    with pytest.raises(paramiko.SFTPError, match=reason):
        client(Script(packet)).stat(b"/add")


@pytest.mark.parametrize(
    ("status", "error", "told"),
    [(2, FileNotFoundError, b"gone"), (3, PermissionError, b"no"), (4, OSError, b"\xe9chec"), (0, OSError, b"fine")],
)
def test_a_refusal_is_told_in_whatever_encoding(status: int, error: type[OSError], told: bytes) -> None:
    refusal = answer(CMD_STATUS, 1, struct.pack(">II", status, len(told)) + told + bytes(4))
    with pytest.raises(error, match=told.decode("utf-8", "replace")):
        client(Script(refusal)).stat(b"/add")
    with pytest.raises(error):
        client(Script(answer(CMD_STATUS, 1, struct.pack(">I", status)))).stat(b"/add")


@st.composite
def attributes(draw: st.DrawFn) -> paramiko.SFTPAttributes:
    """Any of the attributes that a server may tell."""
    made = paramiko.SFTPAttributes()
    if draw(st.booleans()):
        made.st_size = draw(st.integers(0, 2**64 - 1))
    if draw(st.booleans()):
        made.st_uid, made.st_gid = draw(NUMBERS), draw(NUMBERS)
    if draw(st.booleans()):
        made.st_mode = draw(NUMBERS)
    if draw(st.booleans()):
        made.st_atime, made.st_mtime = draw(NUMBERS), draw(NUMBERS)
    made.attr = draw(st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2))
    return made


ENTRIES = st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=20), attributes()), max_size=5)


def names_answer(entries: list[tuple[bytes, bytes, paramiko.SFTPAttributes]]) -> bytes:
    message = paramiko.Message()
    message.add_int(len(entries))
    for name, shown, told in entries:
        message.add_string(name)
        message.add_string(shown)
        told._pack(message)  # type: ignore[attr-defined]
    return message.asbytes()


KINDS = {0: EntryKind.FILE, 0o10: EntryKind.FILE, 0o4: EntryKind.DIRECTORY, 0o12: EntryKind.LINK}


def kind_of(mode: int | None) -> EntryKind:
    """The kind of an entry by its type in four bits; a file where nothing is told."""
    return KINDS.get((mode or 0) >> 12 & 0o17, EntryKind.OTHER)


@settings(max_examples=trials(100))
@given(ENTRIES)
def test_names_and_attributes_are_taken_apart(entries: list[tuple[bytes, bytes, paramiko.SFTPAttributes]]) -> None:
    expected = [Entry(name, kind_of(told.st_mode), told.st_size, told.st_mtime) for name, _, told in entries]
    assert list(SftpResponse(CMD_NAME, StrictMessage(names_answer(entries))).names()) == expected


@settings(max_examples=trials(100))
@given(ENTRIES.filter(bool), st.data())
def test_a_message_that_ends_early_is_refused(
    entries: list[tuple[bytes, bytes, paramiko.SFTPAttributes]], data: st.DataObject
) -> None:
    content = names_answer(entries)
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    with pytest.raises(paramiko.SSHException, match="ends before"):
        list(SftpResponse(CMD_NAME, StrictMessage(cut)).names())


class Server:
    """A channel to a server in memory that answers when it is heard, in order, with at most `most` bytes at once.

    Its answers arrive in pieces of up to `piece` bytes. It tells `limit` as what it sends at once.
    """

    def __init__(
        self, files: dict[bytes, bytes], most: int = 1 << 20, piece: int = 1 << 20, limit: int | None = None
    ) -> None:
        self.served, self.most, self.piece, self.limit = files, most, piece, limit
        self.log: list[tuple[int, bytes]] = []
        self.handles: dict[bytes, bytes] = {}
        self.largest = 0
        self.asked: list[int] = []
        self._received, self._answers = b"", deque[bytes]()
        self._arriving = b""
        self.reader = FileReader(SftpClient(cast("Any", self), cast("Any", SimpleNamespace(read=0))))

    def sendall(self, data: bytes) -> None:
        self._received += data
        asked = 0
        while self._received:
            length, kind = struct.unpack_from(">IB", self._received)
            content, self._received = self._received[5 : 4 + length], self._received[4 + length :]
            self._answers.append(self._answer(kind, content))
            asked = len(self._answers)
        self.largest = max(self.largest, sum(map(len, self._answers)) + len(self._arriving))
        assert asked

    def recv(self, length: int) -> bytes:
        if not self._arriving:
            self._arriving = self._answers.popleft()
        data = self._arriving[: min(length, self.piece)]
        self._arriving = self._arriving[len(data) :]
        return data

    def _answer(self, kind: int, content: bytes) -> bytes:
        if kind == CMD_INIT:
            limits = struct.pack(">I", 18) + b"limits@openssh.com" + struct.pack(">I", 1) + b"1"
            return sftp_packet(CMD_VERSION, struct.pack(">I", 3) + (limits if self.limit else b""))
        number, told = content[:4], content[8 : 8 + int.from_bytes(content[4:8], "big")]
        rest = content[8 + len(told) :]
        self.log.append((kind, told))
        if kind == CMD_OPEN:
            if told not in self.served:
                return self._status(number, 2)
            handle = b"%d" % len(self.log)
            self.handles[handle] = told
            return sftp_packet(CMD_HANDLE, number + struct.pack(">I", len(handle)) + handle)
        if kind == CMD_CLOSE:
            del self.handles[told]
            return self._status(number, 0)
        if kind == CMD_READ:
            return self._read(number, self.handles[told], *struct.unpack(">QI", rest))
        return sftp_packet(201, number + struct.pack(">QQQQ", 1 << 18, self.limit or 0, 1 << 18, 0))

    def _read(self, number: bytes, path: bytes, position: int, length: int) -> bytes:
        self.asked.append(length)
        data = self.served[path][position : position + min(length, self.most)]
        if not data:
            return self._status(number, 1)
        return sftp_packet(CMD_DATA, number + struct.pack(">I", len(data)) + data)

    def _status(self, number: bytes, code: int) -> bytes:
        return sftp_packet(CMD_STATUS, number + struct.pack(">III", code, 0, 0))

    def settle(self) -> None:
        """Answer everything that is outstanding, and then a last question."""
        with pytest.raises(FileNotFoundError):
            next(self.reader.blocks(FilePart(b"/nowhere", 0, 1)))


def _files(count: int, size: int = 50_000) -> dict[bytes, bytes]:
    return {b"/add/%d" % number: random.Random(number).randbytes(size) for number in range(count)}


def _read(reader: FileReader, part: FilePart) -> bytes:
    return b"".join(map(bytes, reader.blocks(part)))


def test_files_come_whole_and_from_any_offset_and_nothing_stays_open() -> None:
    for most, piece, announced in product((7_000, 1 << 20), (3_000, 1 << 20), (True, False)):
        server = Server(_files(5), most, piece)
        reader = server.reader
        offsets = zip((0, 1, 49_999, 50_000, 0), server.served, strict=True)
        parts = [FilePart(path, offset, 50_000) for offset, path in offsets]
        if announced:
            reader.announce(parts)
        for part in parts:
            assert _read(reader, part) == server.served[part.path][part.offset :]
        server.settle()
        assert server.handles == {}


@pytest.mark.parametrize("listed", [1_000_000, 999_999])
def test_no_more_is_asked_for_than_memory_is_meant_for(listed: int) -> None:
    server = Server(_files(40, 1_000_000))
    reader = server.reader
    parts = [FilePart(path, 0, listed) for path in server.served]
    reader.announce(parts)
    for part in parts:
        assert _read(reader, part) == server.served[part.path]
    assert server.largest <= MAX_AHEAD + 128 * 1024


def test_a_receiver_that_stops_leaves_the_session_fit_for_the_next() -> None:
    server = Server(_files(2, 2_000_000))
    reader = server.reader
    blocks = reader.blocks(FilePart(b"/add/0", 0, 2_000_000))
    next(iter(blocks))
    blocks.close()  # type: ignore[attr-defined]
    assert _read(reader, FilePart(b"/add/1", 0, 2_000_000)) == server.served[b"/add/1"]


@pytest.mark.parametrize(
    ("length", "content", "error", "said"),
    [
        *((length, b"x" * length, paramiko.SFTPError, "another size") for length in (0, 20_001, 32_000)),
        (20_000, b"x", paramiko.SSHException, "ends before"),
        (1 << 20, bytes(1 << 20), paramiko.SFTPError, "an answer of 1,048,580 bytes"),
    ],
    ids=["nothing", "a byte more", "more", "less than it says", "far more"],
)
def test_a_block_of_another_size_than_was_asked_for_is_refused(
    length: int, content: bytes, error: type[Exception], said: str
) -> None:
    class Wrong(Server):
        def _read(self, number: bytes, *_: object) -> bytes:
            return sftp_packet(CMD_DATA, number + struct.pack(">I", length) + content)

    with pytest.raises(error, match=said):
        _read(Wrong(_files(1)).reader, FilePart(b"/add/0", 0, 20_000))


OVERRIDDEN = [
    (StrictMessage, "get_bytes", ["self", "n"]),
    (BoundedPackets, "read_all", ["self", "n", "check_rekey"]),
    (BoundedPackets, "read_message", ["self"]),
    (BoundedLogin, "send_auth_request", ["self", "username", "method", "finish_message"]),
    (BoundedTransport, "get_auth_handler", ["self"]),
    (BoundedTransport, "ensure_session", ["self"]),
]


def test_no_private_member_of_paramiko_is_used() -> None:
    modules = list(Path(sftp.__file__).parent.glob("*.py"))
    assert len(modules) > 3
    for path in modules:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                if ast.unparse(node.value) == "super()" and hasattr(PlatformConnection, node.attr):
                    continue
                assert ast.unparse(node.value) == "self", f"{path.name}, line {node.lineno}: {ast.unparse(node)}"


def test_paramiko_has_and_calls_the_methods_that_bounds_override() -> None:
    for ours, method, arguments in OVERRIDDEN:
        assert list(inspect.signature(getattr(ours.__mro__[1], method)).parameters) == arguments, method
    transport = inspect.getsource(paramiko.Transport)
    assert "packetizer_class or Packetizer" in transport
    assert "self.packetizer.read_message()" in transport
    assert "self.auth_event" in inspect.getsource(AuthHandler.abort)
    assert "self.ensure_session()" in inspect.getsource(BoundedTransport.__mro__[1])


def test_a_file_whose_announcement_is_withdrawn_before_it_is_open_is_closed() -> None:
    server = Server({b"a": b"1", b"b": b"2"})
    server.reader.announce([FilePart(b"a", 0, 1)])
    server.reader.announce([])
    assert [bytes(block) for block in server.reader.blocks(FilePart(b"b", 0, 1))] == [b"2"]
    server.settle()
    assert server.handles == {}
