"""Reading files over SFTP with many requests under way: several blocks of a file, and several small files.

Over a distance every wait for an answer costs a round trip. So files that are announced are opened, and their
beginnings asked for, while the one before them is still arriving.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import paramiko
from paramiko.sftp import CMD_CLOSE, CMD_HANDLE, CMD_OPEN, CMD_READ, CMD_STATUS, SFTP_FLAG_READ, int64

from dcc.sources.base import Block
from dcc.sources.sftp.client import SftpClient, TakesData, expect_answer

# What OpenSSH sends at once, at half the work of the blocks that every server must send.
_BLOCK: Final = 255 * 1024
_SAFE_BLOCK: Final = 32 * 1024

# What is passed on of a block before all of it has arrived: so small files come in one piece, which costs them least.
_LEAST_PIECE: Final = 64 * 1024

_LEAST_AHEAD: Final = 2 * 1024 * 1024
# As much is asked for together: sending costs about as much as taking in the answer.
_TOGETHER: Final = 1024 * 1024
_SPEED: Final = 100 * 1024 * 1024

MOST_AHEAD: Final = 8 * 1024 * 1024
"""Bytes that may be asked for and not yet be read, over the longest distances: so much memory a connection takes."""


class FilePart(NamedTuple):
    """A file from an offset on, to its listed size and one byte beyond, or without end."""

    path: bytes
    offset: int
    size: int | None


class _Chunk:
    """A stretch of a file that was asked for: what has arrived of it and was not passed on yet."""

    def __init__(self, position: int, wanted: int) -> None:
        self.position, self.wanted = position, wanted
        self.asked = 0
        self.data: Block = b""
        self.end: paramiko.Message | None = None

    @property
    def complete(self) -> bool:
        return self.wanted == 0

    @property
    def ready(self) -> bool:
        """Whether there is something to pass on, and as much as is worth it."""
        if not self.data:
            return False
        return self.complete or self.end is not None or len(self.data) >= _LEAST_PIECE


class _Reading(TakesData):
    """One file on its way. It takes the answers to the requests that were sent for it."""

    def __init__(self, reader: FileReader, part: FilePart) -> None:
        self.part = part
        self.opening = self.all_asked = False
        self.handle: bytes | None = None
        self.refusal: paramiko.Message | None = None
        self.chunks: deque[_Chunk] = deque()
        self._reader = reader
        self._next = part.offset
        self._dropped = False
        self._unread = self._promised = 0
        self._began = 0.0
        self._requests: dict[int, _Chunk] = {}

    def open(self) -> None:
        """Ask the server to open the file."""
        self.opening = True
        size = self.part.size
        self._promise(MOST_AHEAD if size is None else min(size - self.part.offset + 1, MOST_AHEAD))
        self._began = time.monotonic()
        self._reader.client.ask(self, CMD_OPEN, self.part.path, SFTP_FLAG_READ, paramiko.SFTPAttributes())

    def _promise(self, count: int) -> None:
        """Note how many bytes will be asked for as soon as the file is open."""
        self._reader.promised += count - self._promised
        self._promised = count

    def ask_next(self, block: int) -> None:
        """Ask for the next chunk, or for the byte after the last."""
        self._promise(0)
        size = self.part.size
        wanted = block if size is None else min(block, size - self._next)
        if wanted <= 0:
            wanted, self.all_asked = 1, True
        chunk = _Chunk(self._next, wanted)
        self._next += wanted
        self.chunks.append(chunk)
        self._unread += wanted
        self._reader.unread += wanted
        self._ask_for(chunk)

    def _ask_for(self, chunk: _Chunk) -> None:
        chunk.asked = chunk.wanted
        number = self._reader.client.ask(self, CMD_READ, self.handle, int64(chunk.position), chunk.wanted)
        self._requests[number] = chunk

    def take(self, chunk: _Chunk) -> Block:
        """What has arrived of a chunk; it is not kept any longer."""
        data, chunk.data = chunk.data, b""
        self._unread -= len(data)
        self._reader.unread -= len(data)
        return data

    def drop(self) -> None:
        """Want no more of it: what still arrives is let go."""
        self._dropped = self.all_asked = True
        self._promise(0)
        self._reader.unread -= self._unread
        self._unread = 0
        self.chunks.clear()
        self._requests.clear()
        self._close()

    def _close(self) -> None:
        if self.handle is not None:
            self._reader.client.ask(None, CMD_CLOSE, self.handle)
            self.handle = None

    def _async_response(self, kind: int, message: paramiko.Message, number: int) -> None:
        """Take an answer; raises SFTPError for one that was not asked for."""
        if self.handle is None and not self._requests and kind == CMD_HANDLE:
            self.handle = message.get_string()
            if self._dropped:
                self._close()
            self._reader.note_opened(self, time.monotonic() - self._began)
        elif self._dropped:
            return
        elif (chunk := self._requests.pop(number, None)) is not None:
            expect_answer(CMD_STATUS, kind)
            chunk.end = message
        elif kind == CMD_STATUS:
            self.refusal = message
            self._promise(0)
        else:
            expect_answer(CMD_HANDLE, kind)

    def take_data(self, number: int, piece: memoryview, remaining: int) -> None:
        """Take a piece of a block, of which `remaining` bytes are to come; raises SFTPError for one not asked for."""
        if self._dropped:
            return
        chunk = self._requests.get(number)
        if chunk is None:
            raise paramiko.SFTPError("the server sent a block where none was asked for")
        if not 0 < len(piece) + remaining <= chunk.wanted:
            raise paramiko.SFTPError("the server sent a block of another size than asked for")
        chunk.position += len(piece)
        chunk.wanted -= len(piece)
        self._keep(chunk, piece)
        if remaining:
            return
        del self._requests[number]
        if chunk.wanted:
            self._reader.note_short(chunk.asked - chunk.wanted)
            self._ask_for(chunk)

    def _keep(self, chunk: _Chunk, piece: memoryview) -> None:
        """Add to what has arrived of a chunk: without a copy if it is passed on before the next piece arrives."""
        if not chunk.data and chunk is self._reader.awaited and (chunk.complete or len(piece) >= _LEAST_PIECE):
            chunk.data = piece
        elif isinstance(chunk.data, bytearray):
            chunk.data += piece
        else:
            chunk.data = bytearray(chunk.data) + piece


class FileReader:
    """Reads files over an SFTP session, one after another. Raises what paramiko's client raises."""

    def __init__(self, client: SftpClient) -> None:
        self.client = client
        self.unread = 0
        self.promised = 0
        self.awaited: _Chunk | None = None
        self._block = _BLOCK
        self._ahead = _LEAST_AHEAD
        self._quickest = math.inf
        self._announced: dict[FilePart, _Reading] = {}
        self._unopened: deque[_Reading] = deque()
        self._opened: deque[_Reading] = deque()

    def announce(self, parts: Sequence[FilePart]) -> None:
        """Tell what is to be read next, in this order, in place of what was told before. Sends nothing by itself."""
        known = self._announced
        self._announced = {part: known.get(part) or _Reading(self, part) for part in parts}
        for part in known.keys() - self._announced.keys():
            known[part].drop()
        self._unopened = deque(reading for reading in self._announced.values() if not reading.opening)

    def blocks(self, part: FilePart) -> Iterator[Block]:
        """The bytes of a file from the offset on, in order, in blocks of at most 255 KiB; each good until the next.

        Ends with the file, or one byte after its size: that byte tells that the file is larger.
        """
        reading = self._announced.pop(part) if part in self._announced else _Reading(self, part)
        try:
            if not reading.opening:
                reading.open()
            while (chunk := self._awaited(reading)) is not None:
                yield reading.take(chunk)
        finally:
            reading.drop()

    def _awaited(self, reading: _Reading) -> _Chunk | None:
        """The chunk that is next, once something of it has arrived; None after the last."""
        while True:
            if reading.refusal is not None:
                self.client.expect_end(reading.refusal, ended=False)
            while reading.chunks and reading.chunks[0].complete and not reading.chunks[0].data:
                reading.chunks.popleft()
            self._ask(reading)
            if not reading.chunks and reading.handle is not None:
                return None
            if reading.chunks and reading.chunks[0].ready:
                return reading.chunks[0]
            if reading.chunks and (end := reading.chunks[0].end) is not None:
                self.client.expect_end(end)
                return None
            self.awaited = reading.chunks[0] if reading.chunks else None
            self.client.hear()
            self.awaited = None

    def _ask(self, current: _Reading) -> None:
        """Send what requests there is room for: for the file that is being read, then for those announced."""
        if current.chunks and self.unread > self._ahead - _TOGETHER:
            return
        if current.handle is not None:
            while not current.all_asked and (self.unread < self._ahead or not current.chunks):
                current.ask_next(self._block)
            if not current.all_asked:
                return
        while self._opened and self.unread < self._ahead:
            if self._opened[0].all_asked:
                self._opened.popleft()
            else:
                self._opened[0].ask_next(self._block)
        while self._unopened and self.unread + self.promised < self._ahead:
            reading = self._unopened.popleft()
            if not reading.opening:
                reading.open()

    def note_opened(self, reading: _Reading, seconds: float) -> None:
        """The server opened a file after that time: more is asked ahead the further it is away."""
        self._opened.append(reading)
        if seconds < self._quickest:
            self._quickest = seconds
            self._ahead = max(_LEAST_AHEAD, min(int(seconds * _SPEED), MOST_AHEAD))

    def note_short(self, length: int) -> None:
        """The server sends less at once than it was asked for."""
        self._block = max(min(self._block, length), _SAFE_BLOCK)
