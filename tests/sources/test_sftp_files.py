"""Reading over SFTP with several files under way: what is announced comes no differently, and memory is bounded."""

import random
import struct
from collections import deque
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import paramiko
import pytest
from paramiko.sftp import CMD_CLOSE, CMD_DATA, CMD_HANDLE, CMD_INIT, CMD_OPEN, CMD_READ, CMD_STATUS, CMD_VERSION

from dcc.sources.sftp.client import MAX_AHEAD, FilePart, FileReader, SftpClient
from tests.hostile.servers import sftp_packet


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
