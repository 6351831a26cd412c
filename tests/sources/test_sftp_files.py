"""Reading over SFTP with several files under way: what is announced comes no differently, and memory is bounded."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import paramiko
import pytest
from paramiko.sftp import CMD_CLOSE, CMD_DATA, CMD_HANDLE, CMD_OPEN, CMD_STATUS

from dcc.sources.sftp.client import SftpClient
from dcc.sources.sftp.files import MOST_AHEAD, FilePart, FileReader
from dcc.sources.sftp.ssh_packets import StrictMessage


class Server(SftpClient):
    """A server in memory that answers when it is heard, in order, with at most `most` bytes at once.

    Data come in pieces of up to `piece` bytes, each in the memory of the one before.
    """

    def __init__(self, files: dict[bytes, bytes], most: int = 1 << 20, piece: int = 1 << 20) -> None:
        self.served, self.most, self.piece = files, most, piece
        self.memory = bytearray()
        self.coming: tuple[Any, int, bytes] | None = None
        self.log: list[tuple[int, bytes]] = []
        self.handles: dict[bytes, bytes] = {}
        self.largest = 0
        self._requests: deque[tuple[Any, int, tuple[Any, ...]]] = deque()
        self._count = 0

    def ask(self, taker: Any, *request: Any) -> int:
        self._count += 1
        self._requests.append((taker, self._count, request))
        return self._count

    def hear(self) -> None:
        self.memory[:] = b"!" * len(self.memory)
        if self.coming is not None:
            self._send_piece(*self.coming)
            return
        self.largest = max(self.largest, sum(r[2][3] for r in self._requests if len(r[2]) == 4 and r[2][0] != CMD_OPEN))
        taker, number, (kind, *arguments) = self._requests.popleft()
        answer, message = self._answer(kind, arguments)
        if answer == CMD_DATA:
            self._send_piece(taker, number, StrictMessage(message.asbytes()).get_string())
        elif taker is not None:
            taker._async_response(answer, StrictMessage(message.asbytes()), number)

    def _send_piece(self, taker: Any, number: int, data: bytes) -> None:
        self.memory = bytearray(data[: self.piece])
        remaining = data[self.piece :]
        self.coming = (taker, number, remaining) if remaining else None
        taker.take_data(number, memoryview(self.memory), len(remaining))

    def _answer(self, kind: int, arguments: list[Any]) -> tuple[int, paramiko.Message]:
        message = paramiko.Message()
        self.log.append((kind, arguments[0]))
        if kind == CMD_OPEN:
            if arguments[0] not in self.served:
                return self._status(2)
            handle = b"%d" % len(self.log)
            self.handles[handle] = arguments[0]
            message.add_string(handle)
            return CMD_HANDLE, message
        if kind == CMD_CLOSE:
            del self.handles[arguments[0]]
            return self._status(0)
        handle, position, length = arguments
        data = self.served[self.handles[handle]][int(position) : int(position) + min(length, self.most)]
        if not data:
            return self._status(1)
        message.add_string(data)
        return CMD_DATA, message

    def _status(self, code: int) -> tuple[int, paramiko.Message]:
        message = paramiko.Message()
        message.add_int(code)
        message.add_string(b"")
        return CMD_STATUS, message

    def settle(self) -> None:
        """Answer everything that is outstanding."""
        while self._requests or self.coming:
            self.hear()


def _files(count: int, size: int = 50_000) -> dict[bytes, bytes]:
    return {b"/add/%d" % number: random.Random(number).randbytes(size) for number in range(count)}


def _read(reader: FileReader, part: FilePart) -> bytes:
    return b"".join(map(bytes, reader.blocks(part)))


@pytest.mark.parametrize("most", [7_000, 1 << 20])
@pytest.mark.parametrize("piece", [3_000, 1 << 20])
@pytest.mark.parametrize("announced", [True, False])
def test_files_come_whole_and_from_any_offset_and_nothing_stays_open(most: int, piece: int, announced: bool) -> None:
    server = Server(_files(5), most, piece)
    reader = FileReader(server)
    parts = [
        FilePart(path, offset, 50_000) for offset, path in zip((0, 1, 49_999, 50_000, 0), server.served, strict=True)
    ]
    if announced:
        reader.announce(parts)
    for part in parts:
        assert _read(reader, part) == server.served[part.path][part.offset :]
    server.settle()
    assert server.handles == {}
    assert reader.unread == reader.promised == 0


def test_blocks_that_come_in_pieces_are_put_together_beyond_the_first_block_of_a_file() -> None:
    server = Server(_files(3, 1_000_000), piece=60_000)
    reader = FileReader(server)
    parts = [FilePart(path, 0, 1_000_000) for path in server.served]
    reader.announce(parts)
    for part in parts:
        assert _read(reader, part) == server.served[part.path]


@pytest.mark.parametrize("most", [7_000, 1 << 20])
def test_a_small_file_is_passed_on_in_one_block(most: int) -> None:
    server = Server(_files(3), most, piece=20_000)
    reader = FileReader(server)
    parts = [FilePart(path, 0, 50_000) for path in server.served]
    reader.announce(parts[1:])
    assert [[len(block) for block in reader.blocks(part)] for part in parts] == [[50_000]] * 3


def test_what_is_announced_is_asked_for_before_its_turn() -> None:
    server = Server(_files(3))
    reader = FileReader(server)
    parts = [FilePart(path, 0, 50_000) for path in server.served]
    reader.announce(parts)
    blocks = reader.blocks(parts[0])
    next(blocks)
    assert [path for kind, path in server.log if kind == CMD_OPEN] == list(server.served)


def test_what_is_announced_and_not_there_is_told_at_its_turn() -> None:
    server = Server(_files(2))
    reader = FileReader(server)
    first, gone, second = (FilePart(path, 0, 50_000) for path in (b"/add/0", b"/add/gone", b"/add/1"))
    reader.announce([first, gone, second])
    assert _read(reader, first) == server.served[first.path]
    with pytest.raises(FileNotFoundError):
        _read(reader, gone)
    assert _read(reader, second) == server.served[second.path]


def test_what_another_announcement_leaves_out_is_closed() -> None:
    server = Server(_files(4))
    reader = FileReader(server)
    parts = [FilePart(path, 0, 50_000) for path in server.served]
    reader.announce(parts)
    assert _read(reader, parts[0]) == server.served[parts[0].path]
    reader.announce(parts[3:])
    assert _read(reader, parts[3]) == server.served[parts[3].path]
    server.settle()
    assert server.handles == {}
    assert reader.unread == reader.promised == 0


def test_what_was_not_announced_may_come_between() -> None:
    server = Server({**_files(3), b"/add/0.md5": b"a" * 32})
    reader = FileReader(server)
    reader.announce([FilePart(b"/add/1", 0, 50_000), FilePart(b"/add/2", 0, 50_000)])
    assert _read(reader, FilePart(b"/add/0", 0, 50_000)) == server.served[b"/add/0"]
    assert _read(reader, FilePart(b"/add/0.md5", 0, 4_096)) == b"a" * 32
    assert _read(reader, FilePart(b"/add/1", 0, 50_000)) == server.served[b"/add/1"]


@pytest.mark.parametrize("listed", [40_000, 60_000, None])
def test_a_file_of_another_size_ends_where_it_ends_or_one_byte_beyond_what_was_listed(listed: int | None) -> None:
    server = Server(_files(1))
    content = server.served[b"/add/0"]
    expected = content if listed is None else content[: listed + 1]
    assert _read(FileReader(server), FilePart(b"/add/0", 0, listed)) == expected


def test_no_more_is_asked_for_than_memory_is_meant_for() -> None:
    server = Server(_files(40, 1_000_000))
    reader = FileReader(server)
    parts = [FilePart(path, 0, 1_000_000) for path in server.served]
    reader.announce(parts)
    for part in parts:
        assert _read(reader, part) == server.served[part.path]
    assert server.largest <= MOST_AHEAD + 255 * 1024


def test_a_receiver_that_stops_leaves_the_session_fit_for_the_next() -> None:
    server = Server(_files(2, 2_000_000))
    reader = FileReader(server)
    blocks = reader.blocks(FilePart(b"/add/0", 0, 2_000_000))
    next(iter(blocks))
    blocks.close()  # type: ignore[attr-defined]
    assert _read(reader, FilePart(b"/add/1", 0, 2_000_000)) == server.served[b"/add/1"]


@pytest.mark.parametrize("length", [0, 50_001])
def test_a_block_of_another_size_than_was_asked_for_is_refused(length: int) -> None:
    class Wrong(Server):
        def _answer(self, kind: int, arguments: list[Any]) -> tuple[int, paramiko.Message]:
            answer = super()._answer(kind, arguments)
            if answer[0] == CMD_DATA:
                answer = (CMD_DATA, paramiko.Message())
                answer[1].add_string(b"x" * length)
            return answer

    with pytest.raises(paramiko.SFTPError, match="another size"):
        _read(FileReader(Wrong(_files(1))), FilePart(b"/add/0", 0, 50_000))
