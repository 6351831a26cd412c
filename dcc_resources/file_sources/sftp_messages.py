"""The messages of SFTP, version 3 (draft-ietf-secsh-filexfer-02): numbers, strings, attributes, names."""

from __future__ import annotations

import stat
import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from dcc_resources.file_sources.listing import Entry, EntryKind

VERSION, STATUS, HANDLE, DATA, NAME, ATTRS, EXTENDED_REPLY = 2, 101, 102, 103, 104, 105, 201
FLAG_READ = 1

_OK, _EOF, _NO_SUCH_FILE, _PERMISSION_DENIED = 0, 1, 2, 3
_HAS_SIZE, _HAS_OWNER, _HAS_MODE, _HAS_TIMES, _HAS_EXTENDED = 1, 2, 4, 8, 0x80000000


class Request(IntEnum):
    """Requests that reading needs."""

    INIT = 1
    OPEN = 3
    CLOSE = 4
    READ = 5
    OPENDIR = 11
    READDIR = 12
    STAT = 17
    EXTENDED = 200


class Answer(NamedTuple):
    """A server's answer: its kind and what follows its number."""

    kind: int
    body: bytes


class SftpStatusError(Exception):
    """The server answered a request with an error; the session goes on."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message or f"status {code}")
        self.code = code

    @property
    def missing(self) -> bool:
        """Whether there is no such file or directory."""
        return self.code == _NO_SUCH_FILE


class SftpProtocolError(Exception):
    """The server did not follow the protocol, or the connection broke off: the session is at its end."""


def string(value: bytes) -> bytes:
    """A string as SFTP writes it: its length and its bytes."""
    return struct.pack(">I", len(value)) + value


def parse_string(body: bytes) -> bytes:
    """The string that an answer consists of. Raises SftpProtocolError."""
    if len(body) < 4 or len(body) < 4 + int.from_bytes(body[:4], "big"):
        raise SftpProtocolError("the server sent an incomplete answer")
    return body[4 : 4 + int.from_bytes(body[:4], "big")]


def expect(kind: int, answer: Answer) -> bytes:
    """What an answer of this kind holds. Raises SftpStatusError if it is an error, else SftpProtocolError."""
    if answer.kind == kind:
        return answer.body
    if answer.kind == STATUS:
        raise _status(answer)
    raise SftpProtocolError(f"the server gave an answer of kind {answer.kind} instead of {kind}")


def expect_end(answer: Answer) -> None:
    """Accept the status that there is no more; raise SftpStatusError for any other."""
    error = _status(answer)
    if error.code != _EOF:
        raise error


def _status(answer: Answer) -> SftpStatusError:
    if len(answer.body) < 4:
        raise SftpProtocolError("the server sent an incomplete answer")
    code = int.from_bytes(answer.body[:4], "big")
    length = int.from_bytes(answer.body[4:8], "big")
    text = answer.body[8 : 8 + length].decode("utf-8", "replace")
    return SftpStatusError(code, " ".join(text.split())[:200])


def parse_attributes(name: bytes, answer: Answer) -> Entry:
    """The entry of this name from the attributes that answer a stat. Raises SftpStatusError, SftpProtocolError."""
    body = expect(ATTRS, answer)
    try:
        return _attributes(name, body, 0)[0]
    except struct.error as error:
        raise SftpProtocolError("the server sent an incomplete answer") from error


def parse_names(answer: Answer) -> Iterator[Entry]:
    """The entries in the answer to a READDIR. Raises SftpStatusError, SftpProtocolError."""
    body = expect(NAME, answer)
    try:
        (count,) = struct.unpack_from(">I", body)
        position = 4
        for _ in range(count):
            (length,) = struct.unpack_from(">I", body, position)
            name = body[position + 4 : position + 4 + length]
            position += 4 + length
            (length,) = struct.unpack_from(">I", body, position)
            position += 4 + length
            entry, position = _attributes(name, body, position)
            yield entry
    except struct.error as error:
        raise SftpProtocolError("the server sent an incomplete answer") from error


def _attributes(name: bytes, body: bytes, position: int) -> tuple[Entry, int]:
    (flags,) = struct.unpack_from(">I", body, position)
    position += 4
    size = modified = None
    # Where a server does not say what an entry is, it is looked at like a link.
    kind = EntryKind.LINK
    if flags & _HAS_SIZE:
        (size,) = struct.unpack_from(">Q", body, position)
        position += 8
    if flags & _HAS_OWNER:
        position += 8
    if flags & _HAS_MODE:
        (mode,) = struct.unpack_from(">I", body, position)
        kind = _kind(mode)
        position += 4
    if flags & _HAS_TIMES:
        (modified,) = struct.unpack_from(">I", body, position + 4)
        position += 8
    if flags & _HAS_EXTENDED:
        (count,) = struct.unpack_from(">I", body, position)
        position += 4
        for _ in range(2 * count):
            (length,) = struct.unpack_from(">I", body, position)
            position += 4 + length
    return Entry(name, kind, size, modified), position


def _kind(mode: int) -> EntryKind:
    if stat.S_ISREG(mode):
        return EntryKind.FILE
    if stat.S_ISDIR(mode):
        return EntryKind.DIRECTORY
    if stat.S_ISLNK(mode):
        return EntryKind.LINK
    # Permissions alone, without the kind of file.
    return EntryKind.LINK if stat.S_IFMT(mode) == 0 else EntryKind.OTHER
