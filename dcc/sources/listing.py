"""Makes an `ActionListing` of the entries of a directory: the same rules for every protocol.

Only regular files with a suffix of ARCHIVE_SUFFIXES, in any case, are archives; a link counts as its target. Other
names, and folders outside of the source's extent, are ignored and recorded nowhere. Of archives of one name in several
folders the one nearest to the action directory counts, of those of one level the first by path.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from operator import attrgetter
from typing import NamedTuple

from dcc.errors import ListingFailedError
from dcc.messages import Message, mark
from dcc.naming import ARCHIVE_SUFFIXES, MANIFEST_FORMATS, Action, manifest_beside
from dcc.sources.base import PLAIN, ActionListing, DuplicateEntry, Extent, ListedFile
from dcc.sources.listing_watch import watched
from dcc.sources.remote_names import joined, printable

MAX_ENTRIES = 2_000_000
MAX_ZIPS = 500_000
LONGEST_NAME = 255
"""Bytes of the longest name in any file system."""

ARCHIVE_ENDINGS = tuple(suffix.encode() for suffix in ARCHIVE_SUFFIXES)
_EXAMPLES = 20
_SHOWN_OF_LONG = 40
_LONGEST_VERSION = 48
_LOOK_EVERY = 64
_LINK_TO_NO_FILE = "a link to no file that may be read"
_LEFT_OUT = "left out by the patterns of the file source"
_NO_ENTRIES = (b".", b"..")
_MD5 = b".md5"
_MANIFESTS = {manifest_beside("", suffix).encode(): suffix for suffix in MANIFEST_FORMATS}
_BESIDE = (_MD5, *_MANIFESTS)
_OF_ARCHIVES = tuple(suffix + beside for suffix in ARCHIVE_ENDINGS for beside in (b"", *_BESIDE))


class EntryKind(Enum):
    """The kind of a directory entry."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "neither a file nor a directory"


class Entry(NamedTuple):
    """One directory entry of a server; sizes in bytes, times in whole seconds since 1970 (UTC)."""

    name: bytes
    kind: EntryKind
    size: int | None = None
    modified: int | None = None


_FILE, _DIRECTORY, _OTHER = EntryKind.FILE, EntryKind.DIRECTORY, EntryKind.OTHER


def action_listing(
    label: Message | str, action: Action, entries: Iterable[Entry], resolve: Callable[[Entry], Entry | None]
) -> ActionListing:
    """The listing of an action directory alone; see `folder_listing`.

    `resolve` returns the target of a link, under the link's name; None if it is missing or may not be read.
    """
    return folder_listing(label, action, PLAIN, lambda _: entries, lambda _, link: resolve(link), lambda _: None)


def folder_listing(
    label: Message | str,
    action: Action,
    extent: Extent,
    entries: Callable[[bytes], Iterable[Entry]],
    resolve: Callable[[bytes, Entry], Entry | None],
    real: Callable[[bytes], bytes | None],
) -> ActionListing:
    """Sort the entries of an action directory, and of the folders below it, into archives and ignored ones.

    The functions get the path of a folder below the action directory, empty for that itself. `entries` raises
    FileNotFoundError for one that disappeared meanwhile. `resolve` returns the target of a link, as for
    `action_listing`, and is called only for links whose names matter, after all other entries. `real` returns the path
    without links, which identifies a listed folder; None if unknown. Ignored entries take no memory. Raises
    ListingFailedError (naming `label`) for more than MAX_ENTRIES entries, or more than MAX_ZIPS archives and checksums,
    at all levels together.
    """
    found = _DirectoryContent(label, action, extent)
    found.take(b"", entries(b""), resolve)
    reached = {real(b""): b""} if extent.depth else {}
    # Level by level, each by path: so the result does not depend on the server's order.
    while level := found.next_folders():
        for path in level:
            # One that vanishes meanwhile counts as one that never existed.
            with suppress(FileNotFoundError):
                known = real(path)
                first = path if known is None else reached.setdefault(known, path)
                if first == path:
                    found.take(path, entries(path), resolve)
                else:
                    found.note_twice(DuplicateEntry(printable(first), printable(path), is_folder=True))
    return found.listing()


def leave_out(listing: ActionListing, extent: Extent) -> ActionListing:
    """A listing without the archives that an extent does not take, which it ignores."""
    left_out = [file.path for file in listing.zips if not extent.takes(file.path)]
    examples = sorted((*listing.ignored_examples, *((path, _LEFT_OUT) for path in left_out)))
    return replace(
        listing,
        zips=tuple(file for file in listing.zips if extent.takes(file.path)),
        ignored=listing.ignored + len(left_out),
        ignored_examples=tuple(examples[:_EXAMPLES]),
    )


class _DirectoryContent:
    """The content of directories: of ignored entries only their number, and the first examples by name.

    Archives are kept by name, and have their path as the name of their entry; checksums and manifests by the paths of
    archives.
    """

    def __init__(self, label: Message | str, action: Action, extent: Extent) -> None:
        self._label, self._action, self._extent = label, action, extent
        self._zips: dict[bytes, Entry] = {}
        self._checksums: set[bytes] = set()
        self._manifests: dict[bytes, tuple[str, str]] = {}
        self._folders: list[tuple[bool, bytes]] = []
        self._count = 0
        self._ignored = 0
        self._examples: list[tuple[str, str]] = []
        self._twice: list[DuplicateEntry] = []

    def take(self, folder: bytes, entries: Iterable[Entry], resolve: Callable[[bytes, Entry], Entry | None]) -> None:
        """Sort in the entries of a folder, by its path; links after all others."""
        links: list[Entry] = []
        watch = watched()
        plain = self._extent.is_plain
        zips = self._zips
        for count, entry in enumerate(entries, self._count + 1):
            self._count = count
            if count > MAX_ENTRIES:
                raise too_many(self._label, self._action, f"{MAX_ENTRIES:,} entries")
            if watch is not None:
                watch.entries = count
            name = entry.name
            if plain and entry.kind is _FILE and name.endswith(ARCHIVE_ENDINGS) and _is_possible(name):
                # Nearly all of them, if there are many.
                zips.setdefault(name, entry)
            elif entry.kind is EntryKind.LINK and (
                _reason_to_ignore(entry) is None or (self._extent.depth > 0 and _is_possible(name))
            ):
                links.append(entry)
            else:
                self._add(folder, entry)
            if not count % _LOOK_EVERY:
                if watch is not None:
                    watch.note(count)
                self._require_few(links)
        self._require_few(links)
        for link in links:
            target = resolve(folder, link)
            if target is not None and target.kind is _DIRECTORY:
                self._add(folder, target, is_link=True)
            elif target is None or target.kind is not _FILE:
                self._ignore(joined(folder, link.name), _LINK_TO_NO_FILE)
            else:
                self._add(folder, target)

    def next_folders(self) -> list[bytes]:
        """The folders found since the last call, links after all others; by path."""
        level = [path for _, path in sorted(self._folders)]
        self._folders = []
        return level

    def note_twice(self, twice: DuplicateEntry) -> None:
        if len(self._twice) < _EXAMPLES:
            self._twice.append(twice)

    def _add(self, folder: bytes, entry: Entry, *, is_link: bool = False) -> None:
        """Sort in one entry that is no link."""
        name = entry.name
        if name in _NO_ENTRIES:
            return
        path = joined(folder, name)
        reason = _reason_to_ignore(entry)
        if entry.kind is _DIRECTORY and _is_possible(name) and self._extent.enters(printable(path)):
            self._folders.append((is_link, path))
        elif reason is not None:
            self._ignore(path, _LINK_TO_NO_FILE if is_link else reason)
        else:
            beside = next((ending for ending in _BESIDE if name.endswith(ending)), b"")
            archive = path.removesuffix(beside)
            if not self._extent.takes(printable(archive)):
                if not beside:
                    self._ignore(path, _LEFT_OUT)
            elif not beside:
                taken = self._zips.setdefault(name, entry._replace(name=path))
                if taken.name != path:
                    self._ignore(path, "an archive of its name is taken from another folder")
                    self.note_twice(DuplicateEntry(printable(taken.name), printable(path)))
            elif beside == _MD5:
                self._checksums.add(archive)
            else:
                manifest = _MANIFESTS[beside], manifest_version(entry.size, entry.modified)
                first = self._manifests.setdefault(archive, manifest)
                if MANIFEST_FORMATS.index(manifest[0]) < MANIFEST_FORMATS.index(first[0]):
                    self._manifests[archive] = manifest

    def _require_few(self, links: Sequence[Entry]) -> None:
        if len(self._zips) + len(self._checksums) + len(self._manifests) + len(links) > MAX_ZIPS:
            raise too_many(self._label, self._action, f"{MAX_ZIPS:,} archives and checksums")

    def _ignore(self, path: bytes, reason: str) -> None:
        self._ignored += 1
        shown = printable(path) if len(path) <= LONGEST_NAME else f"{printable(path[:_SHOWN_OF_LONG])}..."
        bisect.insort(self._examples, (shown, reason))
        del self._examples[_EXAMPLES:]

    def listing(self) -> ActionListing:
        checksums, manifests = self._checksums, self._manifests
        known = {entry.name for entry in self._zips.values()}
        for path in checksums - known:
            self._ignore(path + _MD5, "no archive beside this checksum")
        for path in manifests.keys() - known:
            self._ignore(path + manifest_beside("", manifests[path][0]).encode(), "no archive beside this manifest")
        files = []
        for path, _, size, modified in self._zips.values():
            folder, _, name = path.rpartition(b"/")
            facts = (path in checksums, printable(folder), *manifests.get(path, ()))
            files.append(ListedFile(printable(name), size, modified, *facts))
        files.sort(key=attrgetter("name"))
        return ActionListing(
            self._action,
            zips=tuple(files),
            ignored=self._ignored,
            ignored_examples=tuple(self._examples),
            listed_twice=tuple(self._twice),
        )


def manifest_version(size: int | None, modified: int | None) -> str:
    """The text of a manifest's size and time; empty if both are unknown."""
    return "" if size is None and modified is None else f"{size} {modified}"[:_LONGEST_VERSION]


def too_many(label: Message | str, directory: str, what: str) -> ListingFailedError:
    """The error for a directory with more than `what`."""
    text = mark("the directory {directory} holds more than {most}. Ask the centre to move old archives elsewhere.")
    return ListingFailedError(text, source=label, directory=directory, most=Message(what))


def _is_possible(name: bytes) -> bool:
    return 0 < len(name) <= LONGEST_NAME and b"/" not in name and b"\0" not in name


def _reason_to_ignore(entry: Entry) -> str | None:
    """Why an entry is no archive and no checksum or manifest of one, as far as can be told without following a link."""
    name, kind, _, _ = entry
    if not _is_possible(name):
        return "no name that a file can have"
    if kind is _DIRECTORY:
        return "a directory"
    if kind is _OTHER:
        return "neither a file nor a directory"
    # An archive whose suffix is not in lower case is listed, so that the centre is told that its name is wrong.
    if name.endswith(_OF_ARCHIVES) or name.lower().endswith(ARCHIVE_ENDINGS):
        return None
    return "not an archive"
