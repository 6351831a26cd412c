"""Extracts a centre's zip archive: its documents onto the disk, and an account of everything else in it.

Only top-level entries ending `.xml` count. Archives come from outside: names that lead elsewhere, links, bombs and
false sizes are refused before a byte of them is written.
"""

from __future__ import annotations

import errno
import hashlib
import lzma
import os
import re
import shutil
import stat
import struct
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from dcc.archives.central_directory import check_directory
from dcc.archives.member_content import read_member
from dcc.errors import (
    BadFileNameError,
    CorruptArchiveError,
    DiskFullError,
    DuplicateMemberError,
    EmptyArchiveError,
    EncryptedArchiveError,
    MemberIgnoredError,
    OversizedArchiveError,
    UnsafeArchiveError,
)
from dcc.messages import Message, mark, message
from dcc.naming import DocumentName, NamingConvention
from dcc.outcomes import Problem
from dcc.runtime.disk_space import write_all
from dcc.sources.remote_names import printable
from dcc.store.staging import disk_errors

if TYPE_CHECKING:
    from dcc.settings import Settings

_SUFFIX = ".xml"
_LISTED_IGNORED = 100
_SMALLEST_BOMB = 1024 * 1024
_LONGEST_SHOWN = 120
_LONGEST_REASON = 300
_ENCRYPTED_FLAGS = 0x1 | 0x40 | 0x2000
_AES_METHOD = 99
_DRIVE = re.compile(r"[A-Za-z]:")
_LOCAL_HEADER_BYTES = 30
_ORDINARY_TYPES = {0, stat.S_IFREG, stat.S_IFDIR}
_RESUBMIT = "Put a good archive in its place, under the same name."


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """What an archive may come to: bytes unpacked in all, times its own size, and entries.

    The ratio does not matter below 1 MB unpacked. `min_free_bytes` stay free on the disk written to.
    """

    max_bytes: int
    max_ratio: int
    max_entries: int
    min_free_bytes: int = 0

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The limits of an installation."""
        return cls(
            settings.max_archive_bytes,
            settings.max_archive_ratio,
            settings.max_archive_entries,
            settings.min_free_bytes,
        )


@dataclass(frozen=True, slots=True)
class ExtractedDocument:
    """A document written to `path`; `md5` is the hexadecimal digest of its content."""

    name: DocumentName
    path: Path
    size_bytes: int
    md5: str


@dataclass(frozen=True, slots=True)
class ExtractedArchive:
    """What an archive holds; every entry is in one of the three, in the archive's order.

    `documents` are on disk, in the order in which they are to be processed. `refused` are the top-level `.xml` entries
    whose names do not conform, as (file name, size in bytes, reason). `ignored` is everything else, as (entry, reason);
    beyond 100 a last pair says how many more there are. All names are printable text.
    """

    documents: tuple[ExtractedDocument, ...]
    refused: tuple[tuple[str, int, Problem], ...]
    ignored: tuple[tuple[Message, Message], ...]


@dataclass(frozen=True, slots=True)
class _Contents:
    documents: list[tuple[zipfile.ZipInfo, DocumentName]]
    refused: list[tuple[str, int, Problem]]
    ignored: list[tuple[Message, Message]]


def extract_archive(
    zip_path: Path,
    target: Path,
    *,
    limits: ArchiveLimits,
    naming: NamingConvention,
    centres: Container[str],
) -> ExtractedArchive:
    """Write the archive's documents to the directory `target`, which is complete afterwards or, on error, untouched.

    `target` replaces an earlier directory of that name; it and the documents are readable by this user only. Raises
    an ArchiveError for a fault of the archive, DiskFullError when there is no room, OSError when the disk fails.
    """
    label = zip_path.name
    with zip_path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        check_directory(file, size, label, limits.max_entries)
        with _open(file, label) as archive:
            entries = archive.infolist()
            _check_entries(entries, label)
            _check_sizes(entries, size, limits, label)
            _check_places(entries, archive.start_dir, label)
            contents = _sort_entries(entries, naming, centres, label)
            documents = _write_documents(archive, contents.documents, target, limits, label)
    documents.sort(key=lambda document: document.name.processing_order)
    return ExtractedArchive(tuple(documents), tuple(contents.refused), tuple(contents.ignored))


def _open(file: BinaryIO, label: str) -> zipfile.ZipFile:
    with _damage(label):
        return zipfile.ZipFile(file)


@contextmanager
def _damage(label: str) -> Iterator[None]:
    """Turn what zipfile raises for a damaged archive into CorruptArchiveError.

    EINVAL is what an offset before the file's beginning comes to.
    """
    try:
        yield
    except NotImplementedError as error:
        raise CorruptArchiveError(
            mark("{archive} cannot be read: {reason}. Make it with the usual deflate method."),
            archive=label,
            reason=Message(_short(str(error))),
        ) from error
    except UnicodeDecodeError as error:
        raise CorruptArchiveError(
            mark(
                "{archive} has a file name that claims to be UTF-8 and is not. Put a good archive in its place, "
                "under the same name."
            ),
            archive=label,
        ) from error
    except EOFError as error:
        raise CorruptArchiveError(
            mark(
                "{archive} is damaged: the data of an entry end too early. Put a good archive in its place, under "
                "the same name."
            ),
            archive=label,
        ) from error
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, RuntimeError, ValueError) as error:
        raise CorruptArchiveError(
            mark("{archive} is damaged: {reason}. Put a good archive in its place, under the same name."),
            archive=label,
            reason=Message(_short(str(error))),
        ) from error
    except OSError as error:
        if error.errno not in {None, errno.EINVAL}:
            raise
        raise CorruptArchiveError(
            mark("{archive} is damaged: {reason}. Put a good archive in its place, under the same name."),
            archive=label,
            reason=Message(str(error)),
        ) from error


def _check_entries(entries: Sequence[zipfile.ZipInfo], label: str) -> None:
    for entry in entries:
        reason = _unsafe(entry)
        if reason:
            raise UnsafeArchiveError(
                mark(
                    "{archive} is refused whole: its entry {entry} {reason}. Put a good archive in its place, "
                    "under the same name."
                ),
                archive=label,
                entry=_shown(entry),
                reason=Message(reason),
            )
        if entry.flag_bits & _ENCRYPTED_FLAGS or entry.compress_type == _AES_METHOD:
            raise EncryptedArchiveError(
                mark(
                    "{archive} is encrypted (entry {entry}). Put it in its place without a password, under the "
                    "same name."
                ),
                archive=label,
                entry=_shown(entry),
            )
    counts = Counter(map(_decoded, entries))
    for entry in entries:
        if counts[_decoded(entry)] > 1:
            raise DuplicateMemberError(
                mark(
                    "{archive} holds {number} entries named {entry}; which one counts cannot be known. Put a good "
                    "archive in its place, under the same name."
                ),
                archive=label,
                number=counts[_decoded(entry)],
                entry=_shown(entry),
            )


def _unsafe(entry: zipfile.ZipInfo) -> str | None:
    name = entry.orig_filename
    if "\0" in name:
        return mark("has a NUL character in its name")
    if name.startswith("/") or _DRIVE.match(name):
        return mark("has an absolute path")
    if "\\" in name:
        return mark("has a backslash in its path")
    if ".." in name.split("/"):
        return mark("has a path that leads out of the archive's folder")
    if stat.S_IFMT(entry.external_attr >> 16) not in _ORDINARY_TYPES:
        return mark("is a link or a device, not a file")
    return None


def _check_sizes(entries: Sequence[zipfile.ZipInfo], size: int, limits: ArchiveLimits, label: str) -> None:
    """Refuse what is too much by the archive's own account. Reading holds every entry to the size given here."""
    total = sum(entry.file_size for entry in entries)
    if total > limits.max_bytes:
        raise OversizedArchiveError(
            mark("{archive} would unpack to {total} bytes; {max_bytes} are allowed. Split it up."),
            archive=label,
            total=total,
            max_bytes=limits.max_bytes,
        )
    if total > max(size * limits.max_ratio, _SMALLEST_BOMB):
        raise OversizedArchiveError(
            mark(
                "{archive} of {size} bytes would unpack to {total}, more than {max_ratio} times as much, as zip "
                "bombs do. Split it into several archives, or have DCC_MAX_ARCHIVE_RATIO raised."
            ),
            archive=label,
            size=size,
            total=total,
            max_ratio=limits.max_ratio,
        )


def _check_places(entries: Sequence[zipfile.ZipInfo], directory_place: int, label: str) -> None:
    """Refuse entries that share bytes: how a small archive unpacks to petabytes without nesting."""
    placed = sorted(entries, key=lambda entry: entry.header_offset)
    ends = [*(entry.header_offset for entry in placed[1:]), directory_place]
    for entry, end in zip(placed, ends, strict=False):
        if entry.header_offset + _LOCAL_HEADER_BYTES + entry.compress_size > end:
            raise CorruptArchiveError(
                mark(
                    "{archive} is damaged: its entry {entry} overlaps the next. Put a good archive in its place, under "
                    "the same name."
                ),
                archive=label,
                entry=_shown(entry),
            )


def _sort_entries(
    entries: Sequence[zipfile.ZipInfo], naming: NamingConvention, centres: Container[str], label: str
) -> _Contents:
    contents = _Contents([], [], [])
    ignored = folders = 0
    for entry in entries:
        name = _decoded(entry)
        reason = _reason_to_ignore(name)
        if reason:
            ignored += 1
            folders += name.endswith(_SUFFIX)
            if ignored <= _LISTED_IGNORED:
                contents.ignored.append((Message(_legible(_shortened(name, _LONGEST_SHOWN))), message(reason)))
            continue
        try:
            contents.documents.append((entry, naming.parse_document_name(name, centres)))
        except BadFileNameError as error:
            contents.refused.append((_legible(name), entry.file_size, Problem.of(error)))
    if not contents.documents and not contents.refused:
        text = mark(
            "{archive} holds no .xml document at its top level ({number} other entries). Put a good archive in its "
            "place, under the same name."
        )
        if folders:
            text = mark(
                "{archive} holds no .xml document at its top level ({number} other entries; {inside} in folders do not "
                "count). Put a good archive in its place, under the same name."
            )
        raise EmptyArchiveError(text, archive=label, number=len(entries), inside=folders)
    if ignored > _LISTED_IGNORED:
        more = message(mark("{number} more entries"), number=ignored - _LISTED_IGNORED)
        contents.ignored.append((more, message(mark("left aside likewise; not listed"))))
    return contents


def ignored_problem(member: Message, reason: Message) -> Problem:
    """What is told of an entry that was left aside."""
    said = message(mark("{member}: {reason}"), member=member, reason=reason)
    return Problem(MemberIgnoredError.short_name(), said, code=MemberIgnoredError.error_id())


def _reason_to_ignore(name: str) -> str | None:
    if name.endswith("/"):
        return mark("a folder")
    if "/" in name:
        return mark("lies in a folder; only documents at the archive's top level are read")
    if not name.endswith(_SUFFIX):
        return mark("does not end in .xml")
    return None


def _write_documents(
    archive: zipfile.ZipFile,
    wanted: Sequence[tuple[zipfile.ZipInfo, DocumentName]],
    target: Path,
    limits: ArchiveLimits,
    label: str,
) -> list[ExtractedDocument]:
    parent = target.parent
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    needed = sum(entry.file_size for entry, _ in wanted)
    free = shutil.disk_usage(parent).free
    if free - needed < limits.min_free_bytes:
        raise DiskFullError(
            mark(
                "{archive} unpacks to {needed} bytes; {parent} has {free} free, of which {min_free_bytes} must stay "
                "so. Free some space; the next session takes the archive up again."
            ),
            archive=label,
            needed=needed,
            parent=parent,
            free=free,
            min_free_bytes=limits.min_free_bytes,
        )
    with disk_errors(label, parent):
        unpacking = Path(tempfile.mkdtemp(prefix=f".{target.name}.unpacking-", dir=parent))
        try:
            written = [_write(archive, entry, name, unpacking, target, label) for entry, name in wanted]
            _put_in_place(unpacking, target)
        except BaseException:
            shutil.rmtree(unpacking, ignore_errors=True)
            raise
    return written


def _write(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: DocumentName, directory: Path, target: Path, label: str
) -> ExtractedDocument:
    """Inflate a document into `directory`, as many bytes as its entry declares; its CRC is checked."""
    digest = hashlib.md5(usedforsecurity=False)
    size = 0
    with _damage(label):
        descriptor = os.open(directory / name.file_name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            for data in read_member(archive, entry):
                digest.update(data)
                write_all(descriptor, data)
                size += len(data)
        finally:
            os.close(descriptor)
    return ExtractedDocument(name, target / name.file_name, size, digest.hexdigest())


def _put_in_place(unpacking: Path, target: Path) -> None:
    if not target.exists():
        unpacking.rename(target)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.unpacking-", dir=target.parent))
    target.rename(aside / "replaced")
    unpacking.rename(target)
    shutil.rmtree(aside, ignore_errors=True)


def _decoded(entry: zipfile.ZipInfo) -> str:
    """The entry's name; without the UTF-8 flag it is read as UTF-8 where it is that, else as code page 437."""
    name = entry.orig_filename
    if name.isascii() or entry.flag_bits & 0x800:
        return name
    try:
        return name.encode("cp437").decode("utf-8")
    except UnicodeError:
        return name


def _legible(name: str) -> str:
    return printable(name.encode())


def _shown(entry: zipfile.ZipInfo) -> str:
    return repr(_shortened(_decoded(entry), _LONGEST_SHOWN))


def _short(reason: str) -> str:
    """What zipfile says, which may hold a name of 64 kB."""
    return _legible(_shortened(reason, _LONGEST_REASON))


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
