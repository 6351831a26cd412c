"""Archives that are listed otherwise than before, and have not changed: those put back, and a server's other clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, Final

from sqlalchemy import Connection, bindparam, select, update

from dcc.databases.columns import SIGNED_BIG
from dcc.databases.list_parameters import IDS, change_about, rows_about
from dcc.outcomes import SubmissionKey
from dcc.tracker.listings.comparing import SeenArchive, differ
from dcc.tracker.models import BadCopy, PublishedChecksum, ZipDownload
from dcc.tracker.submission_rows import archive_size, latest_downloads

_LEAST: Final = 3
_STEP, _FURTHEST = 15 * 60, 14 * 60 * 60
"""Seconds by which time zones differ: in steps of a quarter of an hour, from UTC by fourteen hours at most."""


def as_fetched(connection: Connection, changed: Mapping[SubmissionKey, SeenArchive]) -> set[SubmissionKey]:
    """Those that are listed as what was fetched last: where it came from as it was then, elsewhere with its size."""
    latest = {
        one.za_id: one.download_id
        for one in latest_downloads(connection, (one.known.za_id for one in changed.values()))
    }
    fetched = {row.id: row for row in rows_about(connection, _FETCHED, latest.values())}
    return {key for key, seen in changed.items() if _is_as_fetched(seen, fetched.get(latest.get(seen.known.za_id, 0)))}


def _is_as_fetched(seen: SeenArchive, fetched: Any) -> bool:
    if fetched is None:
        return False
    size, modified = seen.file.size_bytes, seen.file.modified
    if fetched.zf_id == seen.known.hosting_id:
        return (size, modified) == (fetched.listed_size_bytes, fetched.listed_modified)
    return size is not None and size == fetched.size


_FETCHED: Final = select(
    ZipDownload.id,
    ZipDownload.zf_id,
    ZipDownload.listed_size_bytes,
    ZipDownload.listed_modified,
    archive_size().label("size"),
).where(ZipDownload.id.in_(IDS))


def with_another_clock(changed: Mapping[SubmissionKey, SeenArchive]) -> dict[int, set[SubmissionKey]]:
    """Those of which only the time changed, by the same hours as that of others, by these in seconds.

    The clock or the time zone of their server was set: they did not all change at moments so far apart.
    """
    moved = {key: shift for key, one in changed.items() if (shift := _shift(one))}
    number = Counter(moved.values())
    shifts = {shift for shift in number if number[shift] >= _LEAST}
    return {shift: {key for key in moved if moved[key] == shift} for shift in shifts}


def _shift(seen: SeenArchive) -> int:
    """By how many seconds the time moved, if by what clocks are set by; else 0."""
    before, now = seen.known.modified, seen.file.modified
    if before is None or now is None or differ(seen.known.size_bytes, seen.file.size_bytes):
        return 0
    return now - before if (now - before) % _STEP == 0 and abs(now - before) <= _FURTHEST else 0


def set_times(connection: Connection, hosting_ids: Collection[int], shift: int) -> None:
    """Move the times with which copies were listed before, so that they are again those of what is listed now."""
    for statement in _MOVE_TIMES:
        change_about(connection, statement, hosting_ids, shift=shift)


_SHIFT: Final = bindparam("shift", type_=SIGNED_BIG)
_MOVE_TIMES: Final = (
    update(ZipDownload).where(ZipDownload.zf_id.in_(IDS)).values(listed_modified=ZipDownload.listed_modified + _SHIFT),
    update(BadCopy).where(BadCopy.hosting_id.in_(IDS)).values(modified=BadCopy.modified + _SHIFT),
    update(PublishedChecksum)
    .where(PublishedChecksum.hosting_id.in_(IDS))
    .values(modified=PublishedChecksum.modified + _SHIFT),
)
