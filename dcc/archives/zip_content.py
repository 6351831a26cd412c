"""Reads the content of one entry of a zip archive in pieces of bounded size, whatever its compression.

Python's zipfile inflates bzip2 and LZMA without bound: 4 kB of an archive then become gigabytes of memory at once.
"""

from __future__ import annotations

import bz2
import copy
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Final, Protocol

LARGEST_DICTIONARY: Final = 128 * 1024 * 1024
"""The most bytes of memory for an entry compressed with LZMA."""

_CHUNK = 256 * 1024
_LZMA_HEADER = struct.Struct("<2xHBL")
_LZMA_PROPERTIES = 5


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def read_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """The entry's content, in pieces of at most 256 kB: exactly as many bytes as it declares.

    Raises as zipfile: BadZipFile, NotImplementedError for an unknown method or too large a dictionary, EOFError for
    less content than declared, and the errors of the decompressors.
    """
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
        decompressor: _Decompressor = _lzma_decompressor(compressed) if lzma_wanted else bz2.BZ2Decompressor()
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
