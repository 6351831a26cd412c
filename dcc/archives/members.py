"""The files of an archive, also of archives inside it, one by one and within the limits; nothing is extracted."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from dcc.archives.entries import PIECE, ArchiveEntry, legible, write_entry
from dcc.archives.limits import DEEPEST, Allowance, ArchiveLimits
from dcc.archives.tar_archives import GZIP_SIGNATURE, is_tar, tar_entries, unpack_gzip
from dcc.archives.zip_archives import zip_entries
from dcc.naming import ARCHIVE_SUFFIXES


@contextmanager
def opened_entries(path: Path, label: str, allowance: Allowance, directory: Path) -> Iterator[Sequence[ArchiveEntry]]:
    """The files in an archive of any kind, recognised by its first bytes, whatever its name.

    `label` names it in errors; a compressed tar is unpacked into `directory`. Raises an ArchiveError.
    """
    with path.open("rb") as file:
        if file.read(len(GZIP_SIGNATURE)) == GZIP_SIGNATURE:
            file.seek(0)
            unpacked = directory / ".unpacked-by-gzip"
            unpack_gzip(file, unpacked, label, allowance)
            with unpacked.open("rb") as tar:
                unpacked.unlink()
                yield tar_entries(tar, label, allowance)
        elif is_tar(file):
            yield tar_entries(file, label, allowance)
        else:
            with zip_entries(file, label, allowance) as entries:
                yield entries


def archive_members(archive: Path, label: str, limits: ArchiveLimits) -> Iterator[ArchiveEntry]:
    """Every file of an archive, by its path from the archive on: `data/inner.zip/folder/<name>`, as printable text.

    The content of one can be read until the next is asked for. Raises an ArchiveError for a fault of the archive, named
    `label`, and DiskFullError without room for an archive inside it.
    """
    with tempfile.TemporaryDirectory(prefix=".members-", dir=archive.parent) as folder:
        yield from _members(archive, label, "", 0, Allowance(limits, archive), Path(folder))


def _members(
    path: Path, label: str, place: str, level: int, allowance: Allowance, folder: Path
) -> Iterator[ArchiveEntry]:
    with opened_entries(path, label, allowance, folder) as entries:
        for entry in entries:
            inside = f"{place}{entry.path}"
            if not entry.name.lower().endswith(ARCHIVE_SUFFIXES) or level == DEEPEST:
                yield replace(entry, path=legible(inside))
                continue
            allowance.check_room(folder, entry.size_bytes)
            unpacked = folder / f"{level}"
            write_entry(entry, unpacked)
            yield ArchiveEntry(legible(inside), entry.size_bytes, partial(_pieces, unpacked))
            yield from _members(unpacked, f"{label}/{legible(entry.path)}", f"{inside}/", level + 1, allowance, folder)
            unpacked.unlink()


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece
