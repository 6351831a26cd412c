"""Extracts a centre's archive: its documents onto the disk, and a list of everything else in it.

Documents count at any place: in folders, and in archives inside the archive, two levels deep. Archives come from
outside: names that lead elsewhere, links, bombs and false sizes are refused before a byte of them is written, within
limits over all levels together.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from dcc.archives.entries import (
    PIECE,
    ArchiveEntry,
    InnerArchive,
    bad_archive,
    legible,
    printable_path,
    shortened,
    write_pieces,
)
from dcc.archives.limits import DEEPEST, Allowance, ArchiveLimits
from dcc.archives.manifest import MANIFEST_NAMES, ManifestEntry, read_manifest, require_short
from dcc.archives.tar_archives import GZIP_SIGNATURE, is_tar, tar_entries, unpack_gzip
from dcc.archives.zip_archives import zip_entries
from dcc.errors import (
    BadFileNameError,
    DuplicateMemberError,
    EmptyArchiveError,
    MemberIgnoredError,
    MemberNotOpenedError,
)
from dcc.messages import Message, mark, message
from dcc.naming import DocumentName, NamingConvention, is_archive, is_document
from dcc.outcomes import Problem
from dcc.runtime.disk_space import disk_errors
from dcc.store.staging import UNPACKING


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
                # Its bytes were counted on the way.
                yield tar_entries(tar, label, allowance)
        elif is_tar(file):
            of_tar = tar_entries(file, label, allowance)
            allowance.take_bytes(sum(entry.size_bytes for entry in of_tar))
            yield of_tar
        else:
            with zip_entries(file, label, allowance) as entries:
                yield entries


def archive_members(
    archive: Path,
    label: str,
    allowance: Allowance,
    folder: Path,
    archives: tuple[InnerArchive, ...] = (),
    is_kept: Callable[[str], object] = lambda _name: False,
) -> Iterator[ArchiveEntry]:
    """Every file of an archive, in its order; of an archive inside it first itself, then its files.

    The content of one can be read until the next is asked for. Archives inside it are unpacked in `folder`, under names
    with a leading dot; there must be room for all files there whose names are `is_kept`. `archives` are those around
    it. Raises an ArchiveError for a fault of the archive, named `label`, and DiskFullError without room.
    """
    place = f"{archives[-1].path}/" if archives else ""
    with opened_entries(archive, label, allowance, folder) as entries:
        if kept := sum(entry.size_bytes for entry in entries if is_kept(entry.name)):
            allowance.check_room(folder, kept)
        for entry in entries:
            shown = legible(entry.path)
            member = replace(entry, place=f"{place}{shown}", archives=archives)
            if not _is_opened(member):
                yield member
                continue
            allowance.check_room(folder, member.size_bytes)
            unpacked = folder / f".archive-{len(archives)}"
            inner = InnerArchive(member.place, write_pieces(member.content(), unpacked))
            yield replace(member, content=partial(_pieces, unpacked))
            yield from archive_members(unpacked, f"{label}/{shown}", allowance, folder, (*archives, inner), is_kept)
            unpacked.unlink()


def _is_opened(member: ArchiveEntry) -> bool:
    return is_archive(member.name) and not member.is_of_macos and len(member.archives) < DEEPEST


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


_NOT_OPENED = (".7z", ".rar", ".gz", ".bz2", ".tbz2", ".xz", ".txz", ".zst", ".lz", ".lzma", ".z", ".cab", ".arj")
_LISTED_IGNORED = 100
_NO_DOCUMENT = mark("no .xml document and no table, such as specimens.csv or experiments.csv")


@dataclass(frozen=True, slots=True)
class ExtractedDocument:
    """A document written to `path`; `md5` is the hexadecimal digest of its content.

    `place` is its path from the submitted archive on: `data/inner.zip/folder/<name>`. `archives` are the inner archives
    around it, outermost first.
    """

    name: DocumentName
    path: Path
    size_bytes: int
    md5: str
    place: str = ""
    archives: tuple[InnerArchive, ...] = ()


@dataclass(frozen=True, slots=True)
class ExtractedFile:
    """A wanted file in another format, written to `path`; `place` and `archives` have the meaning of a document's."""

    place: str
    path: Path
    archives: tuple[InnerArchive, ...] = ()


@dataclass(frozen=True, slots=True)
class ExtractedArchive:
    """What an archive holds; every file is in one of the four, in the archive's order.

    `documents` are on disk, in the order in which they must be processed. `refused` are the `.xml` files whose names do
    not conform, and archives that are not opened, as (path, size in bytes, reason). `ignored` is everything else, as
    (path, reason); beyond 100 a last pair says how many more there are. All paths are printable text. `manifest` is
    what the archive says itself that it holds, None where it says nothing. `files` are those that were asked for;
    `sizes` those of all files, by their paths.
    """

    documents: tuple[ExtractedDocument, ...]
    refused: tuple[tuple[str, int, Problem], ...]
    ignored: tuple[tuple[Message, Message], ...]
    manifest: tuple[ManifestEntry, ...] | None = None
    files: tuple[ExtractedFile, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)


def extract_archive(
    archive: Path,
    target: Path,
    *,
    limits: ArchiveLimits,
    naming: NamingConvention,
    centres: Container[str],
    is_wanted: Callable[[str], object] = lambda _name: False,
) -> ExtractedArchive:
    """Write the archive's documents to the directory `target`, which is complete afterwards or, on error, unchanged.

    Files whose names are `is_wanted` are written there too, under other names. `target` replaces an earlier directory
    of that name; it and the documents are readable by this user only. Raises an ArchiveError for a fault of the
    archive, DiskFullError without room, OSError if the disk fails.
    """
    parent = target.parent
    with disk_errors(archive.name, parent):
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unpacking = Path(tempfile.mkdtemp(prefix=f".{target.name}{UNPACKING}", dir=parent))
        try:
            allowance = Allowance(limits, archive)
            extraction = _Extraction(archive.name, unpacking, target, naming, centres, is_wanted)
            for member in archive_members(archive, archive.name, allowance, unpacking, is_kept=extraction.takes_room):
                extraction.take(member)
            found = extraction.found()
            _put_in_place(unpacking, target)
        except BaseException:
            shutil.rmtree(unpacking, ignore_errors=True)
            raise
    return found


def ignored_problem(member: Message, reason: Message) -> Problem:
    """The problem for an ignored entry."""
    text = message(mark("{member}: {reason}"), member=member, reason=reason)
    return Problem(MemberIgnoredError.short_name(), text, code=MemberIgnoredError.error_id())


@dataclass
class _Extraction:
    """The extracted part of the archive `label`."""

    label: str
    directory: Path
    target: Path
    naming: NamingConvention
    centres: Container[str]
    is_wanted: Callable[[str], object]
    documents: dict[str, ExtractedDocument] = field(default_factory=dict)
    refused: list[tuple[str, int, Problem]] = field(default_factory=list)
    ignored: list[tuple[Message, Message]] = field(default_factory=list)
    left_aside: int = 0
    files: list[ExtractedFile] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    expected: tuple[ManifestEntry, ...] | None = None

    def takes_room(self, name: str) -> bool:
        """Whether a file of that name may be written, for a while at least."""
        return is_document(name) or is_archive(name) or bool(self.is_wanted(name))

    def take(self, member: ArchiveEntry) -> None:
        """Write a file of the archive, or note why it is not written."""
        self.sizes[member.place] = member.size_bytes
        if member.place in MANIFEST_NAMES:
            self._take_manifest(member)
        elif member.is_of_macos:
            self._leave_aside(member.place, mark("made by macOS; no document"))
        elif _is_opened(member):
            return
        elif is_archive(member.name) or member.name.lower().endswith(_NOT_OPENED):
            self.refused.append((member.place, member.size_bytes, _not_opened(member.place)))
        elif is_document(member.name):
            self._take_document(member)
        elif self.is_wanted(member.name):
            # Documents have names without a leading dot.
            written_as = f".file-{len(self.files)}"
            write_pieces(member.content(), self.directory / written_as)
            self.files.append(ExtractedFile(member.place, self.target / written_as, member.archives))
        else:
            self._leave_aside(member.place, _NO_DOCUMENT)

    def found(self) -> ExtractedArchive:
        """The result. Raises EmptyArchiveError."""
        if not self.documents and not self.refused and not self.files:
            if self.expected is not None:
                text = mark(
                    "{archive} holds a manifest but no .xml document. Put the documents into it, and replace it, under "
                    "the same name."
                )
                raise EmptyArchiveError(text, archive=self.label)
            text = mark(
                "holds no .xml document and no table, such as specimens.csv or experiments.csv (other entries: "
                "{number})"
            )
            raise bad_archive(EmptyArchiveError, self.label, text, number=self.left_aside)
        if self.left_aside > _LISTED_IGNORED:
            more = message(mark("further entries: {number}"), number=self.left_aside - _LISTED_IGNORED)
            self.ignored.append((more, message(mark("left aside likewise; not listed"))))
        ordered = sorted(self.documents.values(), key=lambda document: document.name.processing_order)
        return ExtractedArchive(
            tuple(ordered), tuple(self.refused), tuple(self.ignored), self.expected, tuple(self.files), self.sizes
        )

    def _take_manifest(self, member: ArchiveEntry) -> None:
        if self.expected is not None:
            self._leave_aside(MANIFEST_NAMES[1], mark("not compared, because the archive has manifest.json"))
        if self.expected is None or member.path == MANIFEST_NAMES[0]:
            require_short(member.size_bytes, member.path, self.label)
            self.expected = read_manifest(b"".join(member.content()), member.path, self.label)

    def _take_document(self, member: ArchiveEntry) -> None:
        try:
            name = self.naming.parse_document_name(member.name, self.centres)
        except BadFileNameError as error:
            self.refused.append((member.place, member.size_bytes, Problem.of(error)))
            return
        if (first := self.documents.get(name.file_name)) is not None:
            places = {"first": printable_path(first.place), "second": printable_path(member.place)}
            text = mark(
                "holds two documents named {entry}, as {first} and as {second}; which one counts cannot be known"
            )
            raise bad_archive(DuplicateMemberError, self.label, text, entry=name.file_name, **places)
        md5 = write_pieces(member.content(), self.directory / name.file_name)
        written = self.target / name.file_name
        document = ExtractedDocument(name, written, member.size_bytes, md5, member.place, member.archives)
        self.documents[name.file_name] = document

    def _leave_aside(self, path: str, reason: str) -> None:
        self.left_aside += 1
        if self.left_aside <= _LISTED_IGNORED:
            self.ignored.append((Message(shortened(path)), message(reason)))


def _not_opened(path: str) -> Problem:
    reason = mark("is an archive of a kind that is not opened")
    if is_archive(path):
        reason = mark("lies more than two archives deep")
    return Problem.of(
        MemberNotOpenedError(
            mark("{entry} {reason}. Submit what it holds in a .zip archive of its own."),
            entry=printable_path(path),
            reason=message(reason),
        )
    )


def _put_in_place(unpacking: Path, target: Path) -> None:
    if not target.exists():
        unpacking.rename(target)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}{UNPACKING}", dir=target.parent))
    target.rename(aside / "replaced")
    unpacking.rename(target)
    shutil.rmtree(aside, ignore_errors=True)
