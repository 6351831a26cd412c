"""Parses FTP servers' answers to MLSD and LIST, line by line.

MLSD is RFC 3659's. LIST has no standard: servers imitate `ls -l` or MS-DOS's `dir`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from dcc.sources.listing import Entry, EntryKind
from dcc.sources.remote_names import printable

_UNIX = re.compile(
    rb"(?P<kind>[-a-zA-Z])[-rwxsStTlL]{9}[.+@]?\s+"
    rb"\d+\s+"
    rb"(?:\S+\s+){1,6}?"
    rb"(?P<size>\d+|\d+,\s*\d+)\s+"
    rb"(?:[^\s\d]\S*\s+\d{1,2}|\d{1,2}\.?\s+[^\s\d]\S*|\d{4}-\d\d-\d\d)\s+(?:\d{1,2}:\d\d(?::\d\d)?|\d{4}) "
    rb"(?P<name>.+)",
    re.DOTALL,
)
_DOS = re.compile(
    rb"\d\d-\d\d-(?:\d\d|\d{4})\s+\d\d:\d\d(?:[AP]M)?\s+(?:(?P<directory><[A-Z]+>)|(?P<size>[\d,.]+))\s+(?P<name>.+)",
    re.DOTALL,
)
_TIME = re.compile(r"[0-9]{14}(\.[0-9]+)?")
_TOTAL = re.compile(rb"\w+ +\d+\s*")
_UNIX_KINDS = {b"-": EntryKind.FILE, b"d": EntryKind.DIRECTORY, b"l": EntryKind.LINK}
_MLSD_KINDS = {b"file": EntryKind.FILE, b"dir": EntryKind.DIRECTORY, b"cdir": EntryKind.DIRECTORY}


def parse_mlsd_line(line: bytes) -> Entry | None:
    """An entry from a line of MLSD; None for the directory itself and its parent. Raises ValueError."""
    head, _, name = line.partition(b" ")
    facts = dict(_fact(fact) for fact in head.split(b";") if fact)
    if not name:
        raise ValueError(f"a line of MLSD has no name: {printable(line)}")
    kind = facts.get(b"type", b"file").lower()
    if kind in (b"cdir", b"pdir"):
        return None
    if kind.startswith((b"os.unix=slink", b"os.unix=symlink", b"os.unix=link")):
        return Entry(name, EntryKind.LINK)
    size = facts.get(b"size", b"")
    return Entry(
        name,
        _MLSD_KINDS.get(kind, EntryKind.OTHER),
        int(size) if size.isdigit() else None,
        parse_time(facts.get(b"modify", b"").decode("ascii", "replace")),
    )


def parse_list_line(line: bytes) -> Entry | None:
    """An entry from a line of LIST, without its time, which is too coarse to be of use; None for a total.

    Raises ValueError for a line of another form, because ignoring it could lose an archive.
    """
    if not line or _TOTAL.fullmatch(line):
        return None
    match = _UNIX.fullmatch(line)
    if match is not None:
        kind = _UNIX_KINDS.get(match["kind"], EntryKind.OTHER)
        if kind is EntryKind.LINK:
            return Entry(match["name"].partition(b" -> ")[0], kind)
        return Entry(match["name"], kind, int(match["size"]) if match["size"].isdigit() else None)
    match = _DOS.fullmatch(line)
    if match is None:
        raise ValueError(f"a line of LIST has an unknown form: {printable(line)}")
    if match["directory"]:
        return Entry(match["name"], EntryKind.DIRECTORY if match["directory"] == b"<DIR>" else EntryKind.OTHER)
    return Entry(match["name"], EntryKind.FILE, int(match["size"].replace(b",", b"").replace(b".", b"")))


def parse_time(text: str) -> int | None:
    """Seconds since 1970 from `YYYYMMDDHHMMSS[.sss]`, which is UTC (RFC 3659 section 2.3); None for anything else."""
    if not _TIME.fullmatch(text):
        return None
    day, moment = (int(text[start:stop]) for start, stop in ((0, 8), (8, 14)))
    try:
        # Three times as fast as strptime, which matters for a long listing.
        when = datetime(
            day // 10_000, day // 100 % 100, day % 100, moment // 10_000, moment // 100 % 100, moment % 100, tzinfo=UTC
        )
        return int(when.timestamp())
    except ValueError:
        return None


def _fact(fact: bytes) -> tuple[bytes, bytes]:
    name, _, value = fact.partition(b"=")
    return name.lower(), value
