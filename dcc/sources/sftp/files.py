"""Reads files over SFTP with many requests at once: several blocks of a file, and several small files.

Over a distance every wait for an answer costs a round trip. So announced files are opened, and their beginnings
requested, while the file before them is still arriving.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import paramiko
from paramiko.sftp import CMD_HANDLE

from dcc.sources.base import Block
from dcc.sources.sftp.client import SftpClient, SftpResponse

MAX_AHEAD: Final = 8 * 1024 * 1024
"""The most requested bytes that are not read yet: this is a connection's memory."""

# So much is requested together: sending costs about as much as receiving the answer.
_TOGETHER: Final = 1024 * 1024


class FilePart(NamedTuple):
    """A file from an offset on, to its listed size and one byte beyond, or without end."""

    path: bytes
    offset: int
    size: int | None


class _Read:
    """A requested stretch of a file, and the answer once it has arrived."""

    def __init__(self, offset: int, length: int) -> None:
        self.offset, self.length = offset, length
        self.answer: SftpResponse | None = None

    def take_answer(self, answer: SftpResponse) -> None:
        """Keep the answer."""
        self.answer = answer


class _File:
    """A file that the server was asked to open, with its unread requests."""

    def __init__(self, client: SftpClient, part: FilePart) -> None:
        self.opening: SftpResponse | None = None
        self.all_asked = False
        self.reads: deque[_Read] = deque()
        self._client, self._size, self._next = client, part.size, part.offset
        self._handle: bytes | None = None
        self._dropped = False
        client.open(part.path, self._take_opening)

    def _take_opening(self, answer: SftpResponse) -> None:
        self.opening = answer
        if answer.kind == CMD_HANDLE:
            self._handle = answer.handle()
        if self._dropped:
            self._close()

    @property
    def can_be_asked(self) -> bool:
        """Whether it is open, and has a part that is not requested yet."""
        return self._handle is not None and not self.all_asked

    def ask_next(self) -> int:
        """Request the next block, or the byte after the last; returns the number of bytes."""
        length = self._client.block
        if self._size is not None:
            length = min(length, self._size - self._next)
        if length <= 0:
            length, self.all_asked = 1, True
        read = _Read(self._next, length)
        self._next += length
        self.reads.append(read)
        self._ask(read)
        return length

    def take_next(self, answer: SftpResponse) -> Block | None:
        """Data of the first block's answer; None at the end. The rest of a short one is requested."""
        if answer.is_end:
            return None
        read, data = self.reads[0], answer.data()
        if not 0 < len(data) <= read.length:
            raise paramiko.SFTPError("the server sent a block of another size than asked for")
        self.reads.popleft()
        if len(data) < read.length:
            rest = _Read(read.offset + len(data), read.length - len(data))
            self.reads.appendleft(rest)
            self._ask(rest)
        return data

    def _ask(self, read: _Read) -> None:
        if self._handle is not None:
            self._client.read(self._handle, read.offset, read.length, read.take_answer)

    def drop(self) -> int:
        """Cancel the rest; returns the number of requested bytes that were not read."""
        self._dropped = self.all_asked = True
        unread = sum(read.length for read in self.reads)
        self.reads.clear()
        self._close()
        return unread

    def _close(self) -> None:
        if self._handle is not None:
            self._client.close(self._handle)
            self._handle = None


class FileReader:
    """Reads files over an SFTP session, one after another. Raises as the session."""

    def __init__(self, client: SftpClient) -> None:
        self._client = client
        self._announced: dict[FilePart, _File] = {}
        self._unread = 0

    def announce(self, parts: Sequence[FilePart]) -> None:
        """Announce the files to read next, in this order, replacing earlier announcements. Sends nothing by itself."""
        known = self._announced
        self._announced = {part: known.pop(part) if part in known else _File(self._client, part) for part in parts}
        for file in known.values():
            self._unread -= file.drop()

    def blocks(self, part: FilePart) -> Iterator[Block]:
        """The bytes of a file from the offset on, in order, in blocks.

        Ends with the file, or one byte after its size: that byte shows that the file is larger.
        """
        file = self._announced.pop(part) if part in self._announced else _File(self._client, part)
        try:
            while file.opening is None:
                self._client.receive_answer()
            file.opening.require(CMD_HANDLE)
            while (answer := self._await_next(file)) is not None and (data := file.take_next(answer)) is not None:
                self._unread -= len(data)
                yield data
        finally:
            self._unread -= file.drop()

    def _await_next(self, file: _File) -> SftpResponse | None:
        """Wait for the answer to the first read of a file; None if all of it was read."""
        self._ask_ahead(file)
        while file.reads and file.reads[0].answer is None:
            self._client.receive_answer()
            self._ask_ahead(file)
        return file.reads[0].answer if file.reads else None

    def _ask_ahead(self, current: _File) -> None:
        """Request as much as fits: of the file that is being read, then of announced ones."""
        if current.reads and self._unread > MAX_AHEAD - _TOGETHER:
            return
        for file in (current, *self._announced.values()):
            while file.can_be_asked and (self._unread < MAX_AHEAD or (file is current and not file.reads)):
                self._unread += file.ask_next()
