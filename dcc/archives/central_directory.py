"""Checks the central directory of a zip archive before anything reads it into memory.

Layout: PKWARE's APPNOTE, sections 4.3.12 to 4.3.16. Python's zipfile reads the whole directory into memory, whatever
its size and number of entries.
"""

from __future__ import annotations

import struct
from typing import BinaryIO

from dcc.archives.entries import bad_archive, damaged
from dcc.archives.limits import Allowance
from dcc.errors import CorruptArchiveError, OversizedArchiveError
from dcc.messages import mark

_END = struct.Struct("<4s4H2LH")
_END_SIGNATURE = b"PK\x05\x06"
_LOCATOR = struct.Struct("<4sLQL")
_LOCATOR_SIGNATURE = b"PK\x06\x07"
_END_64 = struct.Struct("<4sQ2H2L4Q")
_END_64_SIGNATURE = b"PK\x06\x06"
_ENTRY = struct.Struct("<4s24x3H12x")
_ENTRY_SIGNATURE = b"PK\x01\x02"
_LONGEST_COMMENT = 65_535
_BYTES_PER_ENTRY = 512


def check_directory(file: BinaryIO, size: int, label: str, allowance: Allowance) -> None:
    """Check that the archive's directory is complete and lists no more entries than allowed, in constant memory.

    `size` is the file's. Leaves the position in `file` anywhere. Raises CorruptArchiveError, OversizedArchiveError.
    """
    count, directory_bytes, end = _end_record(file, size, label)
    allowance.check_entries(count)
    start = end - directory_bytes
    if start < 0:
        raise damaged(label, mark("its directory is cut off"))
    if directory_bytes > _BYTES_PER_ENTRY * allowance.max_entries:
        raise OversizedArchiveError(
            mark(
                "{archive} has a directory of {directory_bytes} bytes, more than {max_entries} entries need. Split "
                "it into several archives."
            ),
            archive=label,
            directory_bytes=directory_bytes,
            max_entries=allowance.max_entries,
        )
    found = _count_entries(file, start, end, label, allowance)
    if count not in {found, found & 0xFFFF}:
        said = mark("its directory lists {found} entries where {count} are announced")
        raise damaged(label, said, found=found, count=count)


def _end_record(file: BinaryIO, size: int, label: str) -> tuple[int, int, int]:
    """Number of entries, bytes of the directory and the offset at which it ends."""
    tail_bytes = min(size, _END.size + _LONGEST_COMMENT)
    file.seek(size - tail_bytes)
    tail = file.read(tail_bytes)
    place = _find_end(tail)
    if place < 0:
        raise bad_archive(CorruptArchiveError, label, mark("is empty") if size == 0 else _not_a_zip(file))
    _, _, _, _, count, directory_bytes, _, _ = _END.unpack_from(tail, place)
    end = size - tail_bytes + place
    if end >= _LOCATOR.size:
        file.seek(end - _LOCATOR.size)
        signature, _, offset, _ = _LOCATOR.unpack(file.read(_LOCATOR.size))
        if signature == _LOCATOR_SIGNATURE:
            end = end - _LOCATOR.size - _END_64.size
            file.seek(max(end, 0))
            record = file.read(_END_64.size)
            if len(record) == _END_64.size and record.startswith(_END_64_SIGNATURE):
                _, _, _, _, _, _, _, count, directory_bytes, _ = _END_64.unpack(record)
            else:
                raise damaged(label, mark("no end record where one is announced (byte {offset})"), offset=offset)
    return count, directory_bytes, end


def _find_end(tail: bytes) -> int:
    """The place where zipfile finds the end record: at the end, else the last one followed by a comment."""
    bare = len(tail) - _END.size
    if bare >= 0 and tail.startswith(_END_SIGNATURE, bare) and tail.endswith(b"\0\0"):
        return bare
    place = tail.rfind(_END_SIGNATURE)
    return place if place <= bare else -1


def _not_a_zip(file: BinaryIO) -> str:
    file.seek(0)
    if file.read(2) == b"PK":
        return mark("is cut off: its directory is missing")
    return mark("is neither a zip nor a tar archive")


def _count_entries(file: BinaryIO, start: int, end: int, label: str, allowance: Allowance) -> int:
    count, place = 0, start
    file.seek(start)
    while place < end:
        header = file.read(_ENTRY.size)
        if len(header) < _ENTRY.size or not header.startswith(_ENTRY_SIGNATURE):
            raise damaged(label, mark("its directory is broken at byte {place}"), place=place)
        _, *lengths = _ENTRY.unpack(header)
        variable = sum(lengths)
        place += _ENTRY.size + variable
        file.seek(variable, 1)
        count += 1
        allowance.check_entries(count)
    return count
