"""The names and attributes that an SFTP server answers a listing with, taken apart at once (protocol version 3).

paramiko's own takes each number by calls of its own, which is half of the processor time of a long listing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import paramiko

_NUMBER: Final = struct.Struct(">I")
_SIZE: Final = struct.Struct(">Q")
_ALL: Final = struct.Struct(">IQIIIII")
_HAS_SIZE, _HAS_OWNER, _HAS_MODE, _HAS_TIMES, _HAS_MORE = 1, 2, 4, 8, 0x80000000
_HAS_ALL: Final = _HAS_SIZE | _HAS_OWNER | _HAS_MODE | _HAS_TIMES


class ListedName(NamedTuple):
    """A directory's entry: its name as the server's bytes, its mode, size and time; None for what it does not tell."""

    name: bytes
    mode: int | None
    size: int | None
    modified: int | None


def listed_names(content: bytes) -> Iterator[ListedName]:
    """The entries in what follows the number of the request in an answer of type SSH_FXP_NAME.

    Raises SSHException when it ends before what it announces.
    """
    try:
        yield from _taken_apart(content)
    except struct.error as error:
        raise paramiko.SSHException("a message ends before what it announces") from error


def _taken_apart(content: bytes) -> Iterator[ListedName]:
    number, whole = _NUMBER.unpack_from, _ALL.unpack_from
    (count,) = number(content)
    at = _NUMBER.size
    for _ in range(count):
        (length,) = number(content, at)
        name = content[at + 4 : at + 4 + length]
        at += 4 + length
        # What follows is the same as `ls` would print it.
        (length,) = number(content, at)
        at += 4 + length
        (flags,) = number(content, at)
        if flags == _HAS_ALL:
            _, size, _, _, mode, _, modified = whole(content, at)
            at += _ALL.size
            yield ListedName(name, mode, size, modified)
        else:
            entry, at = _with_some(name, flags, content, at + 4)
            yield entry


def _with_some(name: bytes, flags: int, content: bytes, at: int) -> tuple[ListedName, int]:
    """An entry with some of the attributes, or more than are known, which begin at `at`; and where they end."""
    mode = size = modified = None
    if flags & _HAS_SIZE:
        (size,) = _SIZE.unpack_from(content, at)
        at += _SIZE.size
    if flags & _HAS_OWNER:
        at += 2 * _NUMBER.size
    if flags & _HAS_MODE:
        (mode,) = _NUMBER.unpack_from(content, at)
        at += _NUMBER.size
    if flags & _HAS_TIMES:
        (modified,) = _NUMBER.unpack_from(content, at + _NUMBER.size)
        at += 2 * _NUMBER.size
    if flags & _HAS_MORE:
        (count,) = _NUMBER.unpack_from(content, at)
        at += _NUMBER.size
        for _ in range(2 * count):
            (length,) = _NUMBER.unpack_from(content, at)
            at += _NUMBER.size + length
    if at > len(content):
        raise struct.error("the attributes are cut off")
    return ListedName(name, mode, size, modified), at
