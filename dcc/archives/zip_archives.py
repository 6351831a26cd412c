"""Reads `.zip` archives: names that lead elsewhere, links, bombs and false sizes are refused.

Python's zipfile reads the whole central directory into memory, whatever its size and number of entries, and inflates
bzip2 and LZMA without bound. 4 kB of an archive then become gigabytes of memory at once. Layout: PKWARE's APPNOTE,
sections 4.3.12 to 4.3.16.
"""

from __future__ import annotations

import bz2
import copy
import lzma
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import IO, BinaryIO, Final

from dcc.archives.entries import (
    ArchiveEntry,
    bad_archive,
    check_distinct,
    damage,
    damaged,
    plain_path,
    printable_path,
    unsafe_entry,
    unsafe_path,
)
from dcc.archives.limits import Allowance
from dcc.errors import CorruptArchiveError, EncryptedArchiveError, OversizedArchiveError
from dcc.messages import mark, size_detail

LARGEST_DICTIONARY: Final = 128 * 1024 * 1024
"""The most bytes of memory for an entry compressed with LZMA."""

_CHUNK = 256 * 1024
_LZMA_HEADER = struct.Struct("<2xHBL")
_LZMA_PROPERTIES = 5

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
_ENCRYPTED_FLAGS = 0x1 | 0x40 | 0x2000
_LOCAL_HEADER_BYTES = 30
_ORDINARY_TYPES = {0, stat.S_IFREG, stat.S_IFDIR}


@contextmanager
def zip_entries(file: BinaryIO, label: str, allowance: Allowance) -> Iterator[list[ArchiveEntry]]:
    """The files in the zip archive, readable within the context. Raises ArchiveError.

    Reading enforces each entry's declared size.
    """
    _check_directory(file, os.fstat(file.fileno()).st_size, label, allowance)
    with damage(label):
        archive = zipfile.ZipFile(file)
    with archive:
        entries = archive.infolist()
        allowance.take_entries(len(entries))
        _check_entries(entries, label)
        allowance.take_bytes(sum(entry.file_size for entry in entries))
        _check_places(entries, archive.start_dir, label)
        named = ((_decoded(entry), entry) for entry in entries)
        yield [
            ArchiveEntry(plain_path(path), entry.file_size, partial(_read_member, archive, entry, label))
            for path, entry in named
            if not path.endswith("/")
        ]


def _check_entries(entries: Sequence[zipfile.ZipInfo], label: str) -> None:
    for entry in entries:
        reason = unsafe_path(entry.orig_filename)
        if reason is None and stat.S_IFMT(entry.external_attr >> 16) not in _ORDINARY_TYPES:
            reason = mark("is a link or a device, not a file")
        if reason:
            raise unsafe_entry(label, _decoded(entry), reason)
        if entry.flag_bits & _ENCRYPTED_FLAGS:
            raise EncryptedArchiveError(
                mark(
                    "{archive} is encrypted (entry {entry}). Replace it with one without a password, under the same "
                    "name."
                ),
                archive=label,
                entry=printable_path(_decoded(entry)),
            )
    check_distinct(list(map(_decoded, entries)), label)


def _check_places(entries: Sequence[zipfile.ZipInfo], directory_place: int, label: str) -> None:
    """Refuse entries that share bytes: a small archive could unpack to petabytes without nesting."""
    placed = sorted(entries, key=lambda entry: entry.header_offset)
    ends = [*(entry.header_offset for entry in placed[1:]), directory_place]
    for entry, end in zip(placed, ends, strict=False):
        if entry.header_offset + _LOCAL_HEADER_BYTES + entry.compress_size > end:
            raise damaged(label, mark("its entry {entry} overlaps the next"), entry=printable_path(_decoded(entry)))


def _decoded(entry: zipfile.ZipInfo) -> str:
    """The entry's name; without the UTF-8 flag it is read as UTF-8 if it is valid, else as code page 437."""
    name = entry.orig_filename
    if name.isascii() or entry.flag_bits & 0x800:
        return name
    try:
        return name.encode("cp437").decode("utf-8")
    except UnicodeError:
        return name


def _check_directory(file: BinaryIO, size: int, label: str, allowance: Allowance) -> None:
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
                "{archive} has a directory of {directory_bytes}, more than {max_entries} entries need. Split it "
                "into several archives."
            ),
            archive=label,
            directory_bytes=size_detail(directory_bytes),
            max_entries=allowance.max_entries,
        )
    found = _count_entries(file, start, end, label, allowance)
    if count not in {found, found & 0xFFFF}:
        text = mark("its directory lists {found} entries where {count} are announced")
        raise damaged(label, text, found=found, count=count)


def _end_record(file: BinaryIO, size: int, label: str) -> tuple[int, int, int]:
    """The number of entries, the bytes of the directory, and the offset at which it ends."""
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


def _read_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, label: str) -> Iterator[bytes]:
    """The entry's content, in pieces of at most 256 kB: exactly as many bytes as it declares.

    A dictionary that is too large is an error, as an unknown method is, and less content than declared.
    """
    with damage(label):
        if entry.compress_type in {zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA}:
            yield from _decompressed(archive, entry)
            return
        left = entry.file_size
        with archive.open(entry) as content:
            while data := content.read(_CHUNK):
                left -= len(data)
                yield data
        if left:
            raise EOFError


def _decompressed(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    stored = copy.copy(entry)
    stored.compress_type, stored.file_size = zipfile.ZIP_STORED, entry.compress_size
    # zipfile checks none then: it is that of the content, not of the compressed bytes.
    del stored.CRC
    left, checksum = entry.file_size, 0
    with archive.open(stored) as compressed:
        lzma_wanted = entry.compress_type == zipfile.ZIP_LZMA
        decompressor = _lzma_decompressor(compressed) if lzma_wanted else bz2.BZ2Decompressor()
        while left and not decompressor.eof:
            piece = compressed.read(_CHUNK) if decompressor.needs_input else b""
            if decompressor.needs_input and not piece:
                break
            data = decompressor.decompress(piece, min(_CHUNK, left))
            checksum = zlib.crc32(data, checksum)
            left -= len(data)
            if data:
                yield data
    if left:
        raise EOFError
    if checksum != entry.CRC:
        raise zipfile.BadZipFile(f"Bad CRC-32 for file {entry.filename!r}")


def _lzma_decompressor(compressed: IO[bytes]) -> lzma.LZMADecompressor:
    """A decompressor for the content after the properties (APPNOTE, section 5.8.8)."""
    header = compressed.read(_LZMA_HEADER.size)
    length, packed, dictionary = _LZMA_HEADER.unpack(header)
    if length != _LZMA_PROPERTIES:
        raise lzma.LZMAError("the properties of its LZMA data make no sense")
    if dictionary > LARGEST_DICTIONARY:
        raise NotImplementedError(
            f"an entry needs {dictionary:,} bytes of memory to unpack, and {LARGEST_DICTIONARY:,} are allowed"
        )
    rest, literal_context = divmod(packed, 9)
    position, literal_position = divmod(rest, 5)
    properties = {
        "id": lzma.FILTER_LZMA1,
        "dict_size": dictionary,
        "lc": literal_context,
        "lp": literal_position,
        "pb": position,
    }
    return lzma.LZMADecompressor(format=lzma.FORMAT_RAW, filters=[properties])
