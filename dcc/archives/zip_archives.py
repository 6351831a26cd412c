"""Reads `.zip` archives: names that lead elsewhere, links, bombs and false sizes are refused."""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import BinaryIO

from dcc.archives.central_directory import check_directory
from dcc.archives.entries import Entry, check_distinct, damage, damaged, shown, unsafe_entry, unsafe_path
from dcc.archives.limits import Allowance
from dcc.archives.zip_content import read_member
from dcc.errors import EncryptedArchiveError
from dcc.messages import mark

_ENCRYPTED_FLAGS = 0x1 | 0x40 | 0x2000
_AES_METHOD = 99
_LOCAL_HEADER_BYTES = 30
_ORDINARY_TYPES = {0, stat.S_IFREG, stat.S_IFDIR}


@contextmanager
def zip_entries(file: BinaryIO, label: str, allowance: Allowance) -> Iterator[list[Entry]]:
    """The files in the zip archive, readable within the context. Raises ArchiveError.

    Reading enforces each entry's declared size.
    """
    check_directory(file, os.fstat(file.fileno()).st_size, label, allowance)
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
            Entry(path, entry.file_size, partial(_content, archive, entry, label))
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
        if entry.flag_bits & _ENCRYPTED_FLAGS or entry.compress_type == _AES_METHOD:
            raise EncryptedArchiveError(
                mark(
                    "{archive} is encrypted (entry {entry}). Put it in its place without a password, under the "
                    "same name."
                ),
                archive=label,
                entry=shown(_decoded(entry)),
            )
    check_distinct(list(map(_decoded, entries)), label)


def _check_places(entries: Sequence[zipfile.ZipInfo], directory_place: int, label: str) -> None:
    """Refuse entries that share bytes: a small archive could unpack to petabytes without nesting."""
    placed = sorted(entries, key=lambda entry: entry.header_offset)
    ends = [*(entry.header_offset for entry in placed[1:]), directory_place]
    for entry, end in zip(placed, ends, strict=False):
        if entry.header_offset + _LOCAL_HEADER_BYTES + entry.compress_size > end:
            raise damaged(label, mark("its entry {entry} overlaps the next"), entry=shown(_decoded(entry)))


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, label: str) -> Iterator[bytes]:
    with damage(label):
        yield from read_member(archive, entry)


def _decoded(entry: zipfile.ZipInfo) -> str:
    """The entry's name; without the UTF-8 flag it is read as UTF-8 if it is valid, else as code page 437."""
    name = entry.orig_filename
    if name.isascii() or entry.flag_bits & 0x800:
        return name
    try:
        return name.encode("cp437").decode("utf-8")
    except UnicodeError:
        return name
