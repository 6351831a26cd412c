"""From the entries of a directory to an `ActionListing`: the same rules for every protocol.

Only regular files ending `.zip` are archives; a link counts as what it leads to (data_format section 1: other names
and sub-directories are ignored without a row).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from dcc_resources.errors import ListingFailedError
from dcc_resources.file_sources.base import ActionListing, ListedFile
from dcc_resources.file_sources.remote_names import printable
from dcc_resources.naming import Action

MAX_ENTRIES = 2_000_000
"""Entries of one directory beyond which its listing is refused."""

_EXAMPLES = 20
_ZIP = b".zip"
_MD5 = b".md5"


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


LinkResolver = Callable[[Entry], Entry | None]
"""Gives the entry that a link leads to, under the link's name; None if it leads nowhere that may be read."""


def gather(label: str, action: Action, entries: Iterable[Entry], resolve: LinkResolver) -> ActionListing:
    """Sort the entries of an action directory into archives and what is ignored.

    `resolve` is asked only about links whose names matter. Raises ListingFailedError (naming `label`) for a directory
    of more than MAX_ENTRIES entries.
    """
    zips: dict[bytes, Entry] = {}
    sidecars: set[bytes] = set()
    ignored: list[tuple[str, str]] = []
    for count, entry in enumerate(entries, 1):
        if count > MAX_ENTRIES:
            raise ListingFailedError(
                f"{label}: the directory {action} holds more than {MAX_ENTRIES:,} entries. "
                "Ask the centre to move old archives elsewhere."
            )
        if entry.name in (b".", b".."):
            continue
        reason = _reason_to_ignore(entry)
        if reason is None and entry.kind is EntryKind.LINK:
            target = resolve(entry)
            entry = target if target is not None else entry._replace(kind=EntryKind.OTHER)
            reason = None if entry.kind is EntryKind.FILE else "a link to no file that may be read"
        if reason is not None:
            ignored.append((printable(entry.name), reason))
        elif entry.name.endswith(_MD5):
            sidecars.add(entry.name.removesuffix(_MD5))
        else:
            zips.setdefault(entry.name, entry)
    ignored.extend((printable(name + _MD5), "no archive beside this checksum") for name in sidecars - zips.keys())
    files = (
        ListedFile(printable(name), entry.size, entry.modified, has_md5=name in sidecars)
        for name, entry in zips.items()
    )
    return ActionListing(
        action,
        zips=tuple(sorted(files, key=lambda file: file.name)),
        ignored=len(ignored),
        ignored_examples=tuple(heapq.nsmallest(_EXAMPLES, ignored)),
    )


def _reason_to_ignore(entry: Entry) -> str | None:
    """Why an entry is no archive and no checksum of one, as far as can be told without following a link."""
    name = entry.name
    if not name or b"/" in name or b"\0" in name:
        return "no name that a file can have"
    if entry.kind is EntryKind.DIRECTORY:
        return "a directory"
    if entry.kind is EntryKind.OTHER:
        return "neither a file nor a directory"
    if name.endswith((_ZIP, _ZIP + _MD5)):
        return None
    return "not a .zip file"
