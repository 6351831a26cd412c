"""Makes an `ActionListing` of the entries of a directory: the same rules for every protocol.

Only regular files that end as ARCHIVE_SUFFIXES say are archives; a link counts as what it leads to. Other names and
sub-directories are ignored and recorded nowhere.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from operator import attrgetter
from typing import NamedTuple

from dcc.errors import ListingFailedError
from dcc.messages import Message, mark
from dcc.naming import ARCHIVE_SUFFIXES, Action
from dcc.sources.base import ActionListing, ListedFile
from dcc.sources.listing_watch import watched
from dcc.sources.remote_names import printable

MAX_ENTRIES = 2_000_000
"""Entries of one directory beyond which its listing is refused."""

MAX_ZIPS = 500_000
"""Archives and checksums of one directory beyond which its listing is refused."""

LONGEST_NAME = 255
"""Bytes of the longest name that file systems know; a longer one is no file's."""

ARCHIVE_ENDINGS = tuple(suffix.encode() for suffix in ARCHIVE_SUFFIXES)
"""How the names of archives end, as servers tell them."""

_EXAMPLES = 20
_SHOWN_OF_LONG = 40
_LOOK_EVERY = 64
_NO_ENTRIES = (b".", b"..")
_MD5 = b".md5"
_CHECKSUMS = tuple(suffix + _MD5 for suffix in ARCHIVE_ENDINGS)


class EntryKind(Enum):
    """What a directory entry is."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "neither a file nor a directory"


class Entry(NamedTuple):
    """One directory entry as a server tells it; sizes in bytes, times in whole seconds since 1970 (UTC)."""

    name: bytes
    kind: EntryKind
    size: int | None = None
    modified: int | None = None


_FILE, _DIRECTORY, _OTHER = EntryKind.FILE, EntryKind.DIRECTORY, EntryKind.OTHER

LinkResolver = Callable[[Entry], Entry | None]
"""Gives the entry that a link leads to, under the link's name; None if it leads nowhere that may be read."""


def action_listing(label: str, action: Action, entries: Iterable[Entry], resolve: LinkResolver) -> ActionListing:
    """Sort the entries of an action directory into archives and what is ignored.

    `resolve` is asked only about links whose names matter, once all entries have been taken. What is ignored takes no
    memory. Raises ListingFailedError (naming `label`) for a directory of more than MAX_ENTRIES entries, or more than
    MAX_ZIPS archives and checksums.
    """
    found = _Found()
    links: list[Entry] = []
    watch = watched()
    for count, entry in enumerate(entries, 1):
        if count > MAX_ENTRIES:
            raise too_many(label, action, f"{MAX_ENTRIES:,} entries")
        if watch is not None:
            watch.entries = count
        name = entry.name
        if entry.kind is _FILE and name.endswith(ARCHIVE_ENDINGS) and _is_possible(name):
            # Nearly all of them, where there are many.
            found.zips.setdefault(name, entry)
        elif entry.kind is EntryKind.LINK and _reason_to_ignore(entry) is None:
            links.append(entry)
        else:
            found.add(entry)
        if not count % _LOOK_EVERY:
            if watch is not None:
                watch.note(count)
            found.require_few(label, action, links)
    found.require_few(label, action, links)
    for link in links:
        target = resolve(link)
        if target is None or target.kind is not EntryKind.FILE:
            found.ignore(link.name, "a link to no file that may be read")
        else:
            found.add(target)
    return found.listing(action)


class _Found:
    """What a directory holds: of what is ignored only its number, and the examples that come first by name."""

    def __init__(self) -> None:
        self.zips: dict[bytes, Entry] = {}
        self.sidecars: set[bytes] = set()
        self._ignored = 0
        self._examples: list[tuple[str, str]] = []

    def add(self, entry: Entry) -> None:
        """Sort in one entry that is no link."""
        name = entry.name
        if name in _NO_ENTRIES:
            return
        reason = _reason_to_ignore(entry)
        if reason is not None:
            self.ignore(name, reason)
        elif name.endswith(ARCHIVE_ENDINGS):
            self.zips.setdefault(name, entry)
        else:
            self.sidecars.add(name.removesuffix(_MD5))

    def require_few(self, label: str, action: Action, links: Sequence[Entry]) -> None:
        """Raise ListingFailedError if there are more archives and checksums than may be kept."""
        if len(self.zips) + len(self.sidecars) + len(links) > MAX_ZIPS:
            raise too_many(label, action, f"{MAX_ZIPS:,} archives and checksums")

    def ignore(self, name: bytes, reason: str) -> None:
        """Note one entry that is left aside."""
        self._ignored += 1
        shown = printable(name) if len(name) <= LONGEST_NAME else f"{printable(name[:_SHOWN_OF_LONG])}..."
        bisect.insort(self._examples, (shown, reason))
        del self._examples[_EXAMPLES:]

    def listing(self, action: Action) -> ActionListing:
        """The whole directory."""
        for name in self.sidecars - self.zips.keys():
            self.ignore(name + _MD5, "no archive beside this checksum")
        sidecars = self.sidecars
        files = [
            ListedFile(printable(name), size, modified, name in sidecars)
            for name, _, size, modified in self.zips.values()
        ]
        files.sort(key=attrgetter("name"))
        return ActionListing(
            action,
            zips=tuple(files),
            ignored=self._ignored,
            ignored_examples=tuple(self._examples),
        )


def too_many(label: str, directory: str, what: str) -> ListingFailedError:
    """What to raise for a directory that holds more than `what`."""
    return ListingFailedError(
        mark("the directory {directory} holds more than {most}. Ask the centre to move old archives elsewhere."),
        source=label,
        directory=directory,
        most=Message(what),
    )


def _is_possible(name: bytes) -> bool:
    """Whether a file can have the name."""
    return 0 < len(name) <= LONGEST_NAME and b"/" not in name and b"\0" not in name


def _reason_to_ignore(entry: Entry) -> str | None:
    """Why an entry is no archive and no checksum of one, as far as can be told without following a link."""
    name, kind, _, _ = entry
    if not _is_possible(name):
        return "no name that a file can have"
    if kind is _DIRECTORY:
        return "a directory"
    if kind is _OTHER:
        return "neither a file nor a directory"
    if name.endswith((*ARCHIVE_ENDINGS, *_CHECKSUMS)):
        return None
    return "not an archive"
