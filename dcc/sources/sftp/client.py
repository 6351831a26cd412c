"""SFTP (version 3) on a channel of paramiko's: requests that are sent together, and answers with limits.

Only what reading needs: list, stat, open, read, close. The client of paramiko waits for each answer before it opens the
next file, fails on names that are not UTF-8, and stores whatever a server sends. Over a distance every wait for an
answer costs a round trip. So announced files are opened, and their beginnings requested, while the file before them is
still arriving.
"""

from __future__ import annotations

import errno
import stat
import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import paramiko
from paramiko import sftp
from paramiko.sftp import CMD_HANDLE

from dcc.sources.base import Block
from dcc.sources.listing import Entry, EntryKind
from dcc.sources.sftp.bounds import CHANNEL_WINDOW, BoundedPackets, StrictMessage

_VERSION: Final = 3
_BEGINNING: Final = struct.Struct(">IBI")
_NUMBER: Final = struct.Struct(">I")
_LISTINGS_AHEAD: Final = 16

# What every server sends at once, and what is asked for at once of one that sends more: with less work for both sides.
_BLOCK: Final = 32 * 1024
_LARGEST_BLOCK: Final = 128 * 1024
_LIMITS: Final = b"limits@openssh.com"

# Other clients refuse longer answers too.
_LONGEST_LISTING: Final = 1024 * 1024
_LONGEST_OTHER: Final = 32 * 1024

_ERRNOS: Final = {sftp.SFTP_NO_SUCH_FILE: errno.ENOENT, sftp.SFTP_PERMISSION_DENIED: errno.EACCES}


class SftpResponse(NamedTuple):
    """A server's answer: its type and the content after the number of the request.

    Its methods raise FileNotFoundError, PermissionError or OSError for a refusal, SFTPError for another type of answer,
    SSHException for one that ends too early.
    """

    kind: int
    message: StrictMessage

    @property
    def is_end(self) -> bool:
        """Whether it reports the end of a listing or file."""
        return self.kind == sftp.CMD_STATUS and self.message.asbytes().startswith(_NUMBER.pack(sftp.SFTP_EOF))

    def require(self, kind: int) -> None:
        """Raise unless it is of this type."""
        if self.kind == kind:
            return
        if self.kind != sftp.CMD_STATUS:
            raise paramiko.SFTPError(f"the server sent an answer of type {self.kind} where {kind} was due")
        code = self.message.get_int()
        # Servers explain their refusals in encodings of their own, old ones not at all.
        text = self.message.get_binary().decode("utf-8", "replace") if self.message.get_remainder() else ""
        if code in _ERRNOS:
            raise OSError(_ERRNOS[code], text)
        raise OSError(text or f"the server answered with status {code}")

    def handle(self) -> bytes:
        """The handle of an opened file or directory."""
        self.require(sftp.CMD_HANDLE)
        return self.message.get_binary()

    def data(self) -> bytes:
        """Read data."""
        self.require(sftp.CMD_DATA)
        return self.message.get_binary()

    def attributes(self) -> Entry:
        """The attributes of a file, without its name."""
        self.require(sftp.CMD_ATTRS)
        return _attributes(b"", self.message)

    def names(self) -> Iterator[Entry]:
        """Entries of a directory."""
        self.require(sftp.CMD_NAME)
        for _ in range(self.message.get_int()):
            name = self.message.get_binary()
            # As `ls` would print it.
            self.message.get_binary()
            yield _attributes(name, self.message)


def _attributes(name: bytes, message: StrictMessage) -> Entry:
    known = paramiko.SFTPAttributes
    flags = message.get_int()
    size = message.get_int64() if flags & known.FLAG_SIZE else None
    if flags & known.FLAG_UIDGID:
        message.get_bytes(8)
    mode = message.get_int() if flags & known.FLAG_PERMISSIONS else None
    times = message.get_int64() if flags & known.FLAG_AMTIME else None
    if flags & known.FLAG_EXTENDED:
        for _ in range(2 * message.get_int()):
            message.get_binary()
    # The time of the last access comes first.
    return Entry(name, _kind(mode), size, None if times is None else times & 0xFFFFFFFF)


def _kind(mode: int | None) -> EntryKind:
    """The kind of an entry; without one it is a file."""
    if mode is None or stat.S_ISREG(mode) or not stat.S_IFMT(mode):
        return EntryKind.FILE
    if stat.S_ISDIR(mode):
        return EntryKind.DIRECTORY
    return EntryKind.LINK if stat.S_ISLNK(mode) else EntryKind.OTHER


class SftpClient:
    """An SFTP session on the channel of a connection from which `packets` come.

    Requests are sent together, when an answer is waited for. Raises as Answer, SFTPError for an answer without a
    request, SSHException when the connection ends, TimeoutError after the channel's time limit.
    """

    def __init__(
        self, channel: paramiko.Channel, packets: BoundedPackets, await_turn: Callable[[], None] = lambda: None
    ) -> None:
        self._channel, self._packets, self._await_turn = channel, packets, await_turn
        self._unsent = bytearray()
        self._arrived, self._begin = b"", 0
        self._expected: dict[int, tuple[int, Callable[[SftpResponse], object]]] = {}
        self._count = 0
        self.block = _BLOCK
        """The bytes that the server sends at once."""
        self._queue(sftp.CMD_INIT, _VERSION, b"")
        kind, length, _ = self._beginning()
        if kind != sftp.CMD_VERSION or length > _LONGEST_OTHER:
            raise paramiko.SFTPError("the server does not speak SFTP")
        if _LIMITS in self._take(length):
            self._request(sftp.CMD_EXTENDED, _packed(_LIMITS), self._take_limits)

    def _take_limits(self, answer: SftpResponse) -> None:
        if answer.kind == sftp.CMD_EXTENDED_REPLY:
            answer.message.get_int64()
            longest_read = answer.message.get_int64()
            self.block = max(_BLOCK, min(longest_read, _LARGEST_BLOCK))

    def entries(self, path: bytes) -> Iterator[Entry]:
        """A directory's entries; links not followed."""
        handle = self._ask(sftp.CMD_OPENDIR, path).handle()
        answers: deque[SftpResponse] = deque()
        asked = 0
        try:
            while True:
                while asked < _LISTINGS_AHEAD:
                    self._request(sftp.CMD_READDIR, _packed(handle), answers.append, _LONGEST_LISTING)
                    asked += 1
                while not answers:
                    self.receive_answer()
                asked -= 1
                answer = answers.popleft()
                if answer.is_end:
                    return
                yield from answer.names()
        finally:
            self.close(handle)

    def stat(self, path: bytes) -> Entry:
        """The attributes of a file; links are followed."""
        return self._ask(sftp.CMD_STAT, path).attributes()

    def real_path(self, path: bytes) -> bytes:
        """The absolute path of a file or directory, links followed."""
        entry = next(self._ask(sftp.CMD_REALPATH, path).names(), None)
        if entry is None:
            raise paramiko.SFTPError("the server told no path")
        return entry.name

    def open(self, path: bytes, then: Callable[[SftpResponse], object]) -> None:
        """Request to open a file for reading; `then` is called with the answer."""
        self._await_turn()
        self._request(sftp.CMD_OPEN, _packed(path) + struct.pack(">II", sftp.SFTP_FLAG_READ, 0), then)

    def read(self, handle: bytes, offset: int, length: int, then: Callable[[SftpResponse], object]) -> None:
        """Request bytes of a file; `then` is called with the answer."""
        content = _packed(handle) + struct.pack(">QI", offset, length)
        self._request(sftp.CMD_READ, content, then, max(length + _NUMBER.size, _LONGEST_OTHER))

    def close(self, handle: bytes) -> None:
        """Request to close a file or directory."""
        self._request(sftp.CMD_CLOSE, _packed(handle), lambda _: None)

    def receive_answer(self) -> None:
        """Wait for the next answer, and pass it to its request."""
        kind, length, number = self._beginning()
        longest, then = self._expected.pop(number, (0, None))
        if then is None:
            raise paramiko.SFTPError("the server sent an answer to no request")
        if length > longest:
            raise paramiko.SFTPError(f"the server announced an answer of {length:,} bytes")
        then(SftpResponse(kind, StrictMessage(self._take(length))))

    def _ask(self, kind: int, path: bytes) -> SftpResponse:
        self._await_turn()
        answers: list[SftpResponse] = []
        self._request(kind, _packed(path), answers.append)
        while not answers:
            self.receive_answer()
        return answers[0]

    def _request(
        self, kind: int, content: bytes, then: Callable[[SftpResponse], object], longest: int = _LONGEST_OTHER
    ) -> None:
        self._count = (self._count + 1) & 0xFFFFFFFF
        self._expected[self._count] = (longest, then)
        self._queue(kind, self._count, content)

    def _queue(self, kind: int, number: int, content: bytes) -> None:
        self._unsent += _BEGINNING.pack(5 + len(content), kind, number) + content

    def _beginning(self) -> tuple[int, int, int]:
        """The type of the next answer, the number of bytes that follow, and the number of its request."""
        length, kind, number = _BEGINNING.unpack(self._take(_BEGINNING.size))
        if length < 5:
            raise paramiko.SFTPError("the server sent an answer to no request")
        return kind, length - 5, number

    def _take(self, count: int) -> bytes:
        """The next bytes that arrive, exactly as many."""
        taken = self._arrived[self._begin : self._begin + count]
        self._begin += count
        while missing := count - len(taken):
            self._arrived, self._begin = self._await_more(), missing
            taken += self._arrived[:missing]
        return taken

    def _await_more(self) -> bytes:
        if self._unsent:
            unsent, self._unsent = bytes(self._unsent), bytearray()
            try:
                self._channel.sendall(unsent)
            except TimeoutError:
                raise
            except OSError:
                # The channel was closed. Data that arrived before come first, and then the end.
                pass
        data = self._channel.recv(CHANNEL_WINDOW)
        if not data:
            raise paramiko.SSHException("the server closed the connection")
        self._packets.read += len(data)
        return data


def _packed(text: bytes) -> bytes:
    return _NUMBER.pack(len(text)) + text


MAX_AHEAD: Final = 8 * 1024 * 1024
"""The most requested bytes that are not read yet: this is a connection's memory."""

# So much is requested together: sending costs about as much as receiving the answer.
_TOGETHER: Final = 1024 * 1024


class FilePart(NamedTuple):
    """A file from an offset on, to its listed size and one byte beyond, or without end."""

    path: bytes
    offset: int
    size: int | None


@dataclass(slots=True)
class _Read:
    """A requested stretch of a file, and the answer once it has arrived."""

    offset: int
    length: int
    answer: SftpResponse | None = None


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
            self._client.read(self._handle, read.offset, read.length, partial(setattr, read, "answer"))

    def drop(self) -> int:
        """Cancel the rest; returns the number of requested bytes that were not read."""
        self._dropped = True
        self._close()
        return sum(read.length for read in self.reads)

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
