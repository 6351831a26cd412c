"""SFTP (version 3) on a channel of paramiko's: requests that are sent together, and answers with bounds.

Only what reading needs: list, stat, open, read, close. paramiko's own client waits for each answer before it opens the
next file, fails on names that are not UTF-8, and keeps whatever a server sends.
"""

from __future__ import annotations

import errno
import struct
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, NamedTuple, Protocol

import paramiko
from paramiko.sftp import (
    CMD_ATTRS,
    CMD_CLOSE,
    CMD_DATA,
    CMD_EXTENDED,
    CMD_EXTENDED_REPLY,
    CMD_HANDLE,
    CMD_INIT,
    CMD_NAME,
    CMD_OPEN,
    CMD_OPENDIR,
    CMD_READ,
    CMD_READDIR,
    CMD_STAT,
    CMD_STATUS,
    CMD_VERSION,
    SFTP_EOF,
    SFTP_FLAG_READ,
    SFTP_NO_SUCH_FILE,
    SFTP_PERMISSION_DENIED,
)

from dcc.sources.sftp.bounds import CHANNEL_WINDOW

_VERSION: Final = 3
_BEGINNING: Final = struct.Struct(">IBI")
_NUMBER: Final = struct.Struct(">I")
_LISTINGS_AHEAD: Final = 16

# What every server sends at once, and what is asked for at once of one that sends more: with less work for both sides.
_BLOCK: Final = 32 * 1024
_LARGEST_BLOCK: Final = 128 * 1024
_LIMITS: Final = b"limits@openssh.com"
_LIMITS_ANSWER: Final = struct.Struct(">QQQQ")

# Other clients take no longer answers either.
_LONGEST_LISTING: Final = 1024 * 1024
_LONGEST_OTHER: Final = 32 * 1024

_ERRNOS: Final = {SFTP_NO_SUCH_FILE: errno.ENOENT, SFTP_PERMISSION_DENIED: errno.EACCES}


class Channel(Protocol):
    """What is used of a channel: it raises TimeoutError when nothing moves in time, OSError when it is closed."""

    def sendall(self, data: bytes) -> None:
        """Send all of it."""

    def recv(self, length: int) -> bytes:
        """Up to that many bytes that have arrived; none at the end."""


class Listed(NamedTuple):
    """A directory's entry: its name as the server's bytes, its mode, size and time; None for what it does not tell."""

    name: bytes
    mode: int | None
    size: int | None
    modified: int | None


class Answer(NamedTuple):
    """A server's answer: its type and what follows the number of the request.

    What is asked of it raises FileNotFoundError, PermissionError or OSError for a refusal, SFTPError for another type
    of answer, SSHException for one that ends before what it announces.
    """

    kind: int
    content: bytes

    @property
    def is_end(self) -> bool:
        """Whether it says that there is no more to list or to read."""
        return self.kind == CMD_STATUS and self.content.startswith(_NUMBER.pack(SFTP_EOF))

    @property
    def has_handle(self) -> bool:
        """Whether it says that something was opened."""
        return self.kind == CMD_HANDLE

    def require(self, kind: int) -> None:
        """Raise unless it is of this type."""
        if self.kind == kind:
            return
        if self.kind != CMD_STATUS:
            raise paramiko.SFTPError(f"the server sent an answer of type {self.kind} where {kind} was due")
        code, at = _number(self.content, 0)
        # Servers explain their refusals in encodings of their own, old ones not at all.
        told = _string(self.content, at)[0].decode("utf-8", "replace") if len(self.content) > at else ""
        if code in _ERRNOS:
            raise OSError(_ERRNOS[code], told)
        raise OSError(told or f"the server answered with status {code}")

    def handle(self) -> bytes:
        """The handle of what was opened."""
        self.require(CMD_HANDLE)
        return _string(self.content, 0)[0]

    def data(self) -> memoryview:
        """What was read."""
        self.require(CMD_DATA)
        length, at = _number(self.content, 0)
        if length != len(self.content) - at:
            raise paramiko.SFTPError("the server sent a block of another length than it says")
        return memoryview(self.content)[at:]

    def attributes(self) -> Listed:
        """What is known of a file; its name is not among it."""
        self.require(CMD_ATTRS)
        return _attributes(b"", self.content, 0)[0]

    def names(self) -> Iterator[Listed]:
        """Entries of a directory."""
        self.require(CMD_NAME)
        count, at = _number(self.content, 0)
        for _ in range(count):
            name, at = _string(self.content, at)
            # As `ls` would print it.
            _, at = _string(self.content, at)
            entry, at = _attributes(name, self.content, at)
            yield entry


class SftpClient:
    """An SFTP session. Raises what Answer and Channel raise, SSHException, and SFTPError for answers not asked for.

    Requests are sent when an answer is waited for, all together.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._unsent = bytearray()
        self._arrived, self._begin = b"", 0
        self._expected: dict[int, tuple[int, Callable[[Answer], object]]] = {}
        self._count = 0
        self.block = _BLOCK
        """Bytes that the server sends at once."""
        self._queue(CMD_INIT, _VERSION, b"")
        kind, length, _ = self._beginning()
        if kind != CMD_VERSION or length > _LONGEST_OTHER:
            raise paramiko.SFTPError("the server does not speak SFTP")
        if _LIMITS in self._take(length):
            self._request(CMD_EXTENDED, _packed(_LIMITS), self._take_limits)

    def _take_limits(self, answer: Answer) -> None:
        if answer.kind == CMD_EXTENDED_REPLY and len(answer.content) >= _LIMITS_ANSWER.size:
            _, longest_read, _, _ = _LIMITS_ANSWER.unpack_from(answer.content)
            self.block = max(_BLOCK, min(longest_read, _LARGEST_BLOCK))

    def entries(self, path: bytes) -> Iterator[Listed]:
        """A directory's entries; links not followed."""
        handle = self._ask(CMD_OPENDIR, path).handle()
        answers: deque[Answer] = deque()
        asked = 0
        try:
            while True:
                while asked < _LISTINGS_AHEAD:
                    self._request(CMD_READDIR, _packed(handle), answers.append, _LONGEST_LISTING)
                    asked += 1
                while not answers:
                    self.hear()
                asked -= 1
                answer = answers.popleft()
                if answer.is_end:
                    return
                yield from answer.names()
        finally:
            self.close(handle)

    def stat(self, path: bytes) -> Listed:
        """What is known of a file; links are followed."""
        return self._ask(CMD_STAT, path).attributes()

    def open(self, path: bytes, then: Callable[[Answer], object]) -> None:
        """Ask to open a file for reading; `then` is called with the answer when it is heard."""
        self._request(CMD_OPEN, _packed(path) + struct.pack(">II", SFTP_FLAG_READ, 0), then)

    def read(self, handle: bytes, offset: int, length: int, then: Callable[[Answer], object]) -> None:
        """Ask for bytes of a file; `then` is called with the answer when it is heard."""
        content = _packed(handle) + struct.pack(">QI", offset, length)
        self._request(CMD_READ, content, then, max(length + _NUMBER.size, _LONGEST_OTHER))

    def close(self, handle: bytes) -> None:
        """Ask to close a file or directory."""
        self._request(CMD_CLOSE, _packed(handle), lambda _: None)

    def hear(self) -> None:
        """Wait for the next answer, and give it to whom it is for."""
        kind, length, number = self._beginning()
        longest, then = self._expected.pop(number, (0, None))
        if then is None:
            raise paramiko.SFTPError("the server sent an answer to no request")
        if length > longest:
            raise paramiko.SFTPError(f"the server announced an answer of {length:,} bytes")
        then(Answer(kind, self._take(length)))

    def _ask(self, kind: int, path: bytes) -> Answer:
        """Ask about a path, and wait for the answer."""
        answers: list[Answer] = []
        self._request(kind, _packed(path), answers.append)
        while not answers:
            self.hear()
        return answers[0]

    def _request(
        self, kind: int, content: bytes, then: Callable[[Answer], object], longest: int = _LONGEST_OTHER
    ) -> None:
        self._count = (self._count + 1) & 0xFFFFFFFF
        self._expected[self._count] = (longest, then)
        self._queue(kind, self._count, content)

    def _queue(self, kind: int, number: int, content: bytes) -> None:
        self._unsent += _BEGINNING.pack(5 + len(content), kind, number) + content

    def _beginning(self) -> tuple[int, int, int]:
        """The type of the next answer, how many bytes follow, and the number of its request."""
        length, kind, number = _BEGINNING.unpack(self._take(_BEGINNING.size))
        if length < 5:
            raise paramiko.SFTPError("the server sent an answer to no request")
        return kind, length - 5, number

    def _take(self, count: int) -> bytes:
        """The next bytes that arrive, as many as that."""
        taken = self._arrived[self._begin : self._begin + count]
        self._begin += count
        while missing := count - len(taken):
            self._arrived, self._begin = self._await_more(), missing
            taken += self._arrived[:missing]
        return taken

    def _await_more(self) -> bytes:
        """Send what was not sent yet, and wait for more to arrive."""
        if self._unsent:
            unsent, self._unsent = bytes(self._unsent), bytearray()
            try:
                self._channel.sendall(unsent)
            except TimeoutError:
                raise
            except OSError:
                # The channel was closed. What had arrived by then comes first, and then its end.
                pass
        data = self._channel.recv(CHANNEL_WINDOW)
        if not data:
            raise paramiko.SSHException("the server closed the connection")
        return data


def _packed(text: bytes) -> bytes:
    return _NUMBER.pack(len(text)) + text


def _number(content: bytes, at: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends."""
    if at + _NUMBER.size > len(content):
        raise paramiko.SSHException("a message ends before what it announces")
    return _NUMBER.unpack_from(content, at)[0], at + _NUMBER.size


def _string(content: bytes, at: int) -> tuple[bytes, int]:
    """The string that begins at `at`, and where it ends."""
    length, begin = _number(content, at)
    end = begin + length
    if end > len(content):
        raise paramiko.SSHException("a message ends before what it announces")
    return content[begin:end], end


@cache
def _layout(flags: int) -> tuple[struct.Struct, int | None, int | None, int | None]:
    """How the attributes that these flags announce lie, and which of them are mode, size and time of change."""
    has_size, has_owner, has_mode, has_times = (bool(flags & bit) for bit in (1, 2, 4, 8))
    fields = "Q" * has_size + "II" * has_owner + "I" * has_mode + "II" * has_times
    mode = has_size + 2 * has_owner
    return (
        struct.Struct(">" + fields),
        mode if has_mode else None,
        0 if has_size else None,
        mode + has_mode + 1 if has_times else None,
    )


def _attributes(name: bytes, content: bytes, at: int) -> tuple[Listed, int]:
    """An entry with the attributes that begin at `at`, and where they end."""
    flags, at = _number(content, at)
    layout, mode, size, modified = _layout(flags & 15)
    if at + layout.size > len(content):
        raise paramiko.SSHException("a message ends before what it announces")
    told = layout.unpack_from(content, at)
    at += layout.size
    if flags & 0x80000000:
        count, at = _number(content, at)
        for _ in range(2 * count):
            _, at = _string(content, at)
    entry = Listed(
        name,
        None if mode is None else told[mode],
        None if size is None else told[size],
        None if modified is None else told[modified],
    )
    return entry, at
