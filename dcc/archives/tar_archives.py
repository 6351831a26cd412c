"""Reads `.tar` archives, including those compressed by gzip.

Links, devices and sparse files are refused, as are headers that ask for much memory, and archives without their end.
Python's tarfile takes a broken header for the end, and would miss the entries after it.
"""

from __future__ import annotations

import gzip
import os
import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, cast

from dcc.archives.entries import (
    PIECE,
    ArchiveEntry,
    check_distinct,
    damage,
    damaged,
    plain_path,
    unsafe_entry,
    unsafe_path,
)
from dcc.archives.limits import Allowance
from dcc.messages import mark
from dcc.runtime.disk_space import write_all

GZIP_SIGNATURE: Final = b"\x1f\x8b"

_MAGIC_PLACE = 257
_MAGIC = b"ustar"
_LARGEST_HEADER = 1024 * 1024
_BYTES_PER_ENTRY = 2048
_BLOCK = tarfile.BLOCKSIZE


def is_tar(file: BinaryIO) -> bool:
    """Whether the file begins like a tar archive."""
    file.seek(_MAGIC_PLACE)
    return file.read(len(_MAGIC)) == _MAGIC


def tar_entries(file: BinaryIO, label: str, allowance: Allowance) -> list[ArchiveEntry]:
    """The files in the tar archive, whose bytes the caller counts.

    Raises CorruptArchiveError, UnsafeArchiveError, DuplicateMemberError, and OversizedArchiveError.
    """
    entries = []
    headers = _Headers(file)
    with damage(label), tarfile.open(fileobj=cast(BinaryIO, headers), mode="r:") as archive:
        while (member := archive.next()) is not None:
            allowance.take_entries(1)
            headers.left += _BYTES_PER_ENTRY
            reason = unsafe_path(member.name) or _not_a_file(member)
            if reason:
                raise unsafe_entry(label, member.name, reason)
            if member.isreg():
                content = partial(_content, file, member.offset_data, member.size, label)
                entries.append(ArchiveEntry(plain_path(member.name), member.size, content))
        end = archive.offset
    file.seek(end)
    if file.read(_BLOCK) != bytes(_BLOCK):
        raise damaged(label, mark("it has no end at byte {place}"), place=end)
    check_distinct([entry.path for entry in entries], label)
    return entries


def unpack_gzip(file: BinaryIO, target: Path, label: str, allowance: Allowance) -> None:
    """Decompress a gzip file to `target`. Raises CorruptArchiveError, OversizedArchiveError and DiskFullError."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with damage(label), gzip.GzipFile(fileobj=file) as packed:
            while piece := packed.read(PIECE):
                allowance.take_bytes(len(piece))
                allowance.check_room(target.parent, len(piece))
                write_all(descriptor, piece)
    finally:
        os.close(descriptor)


def _not_a_file(member: tarfile.TarInfo) -> str | None:
    if member.issparse():
        return mark("is a sparse file")
    if not (member.isreg() or member.isdir()):
        return mark("is a link or a device, not a file")
    return mark("has a negative size") if member.size < 0 else None


def _content(file: BinaryIO, place: int, size: int, label: str) -> Iterator[bytes]:
    with damage(label):
        while size:
            file.seek(place)
            piece = file.read(min(PIECE, size))
            if not piece:
                raise EOFError
            place, size = place + len(piece), size - len(piece)
            yield piece


class _Headers:
    """A file from which tarfile reads headers, `left` bytes at most, since it keeps the names in them.

    That is a megabyte; each entry adds what its own header may take, with a long name.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.seek, self.tell, self._file = file.seek, file.tell, file
        self.left = _LARGEST_HEADER
        self.seek(0)

    def read(self, count: int = -1) -> bytes:
        if not 0 <= count <= self.left:
            raise tarfile.ReadError(f"a header of {count:,} bytes")
        self.left -= count
        return self._file.read(count)
