"""Copies of archives at their sources: bad ones, the checksums that centres publish, and those that were fetched.

A bad copy is not fetched again while the source lists it with the same size and time. The checksum that an archive's
own centre published counts for all copies of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, or_, select

from dcc.databases.list_parameters import IDS, change_about, rows_about
from dcc.databases.transactions import insert_rows
from dcc.outcomes import AttemptOutcome
from dcc.runtime.clock import utc_now
from dcc.sources.base import Validators
from dcc.tracker.hostings.hosting import CopyFault, EarlierCopy, Hosting
from dcc.tracker.models import BadCopy, FileSource, FileSourceHasZip, PublishedChecksum, ZipAction, ZipDownload, ZipFile


def is_as_listed(copy: Any, hosting: Any = FileSourceHasZip) -> ColumnElement[bool]:
    """Condition on a bad copy or published checksum: it is of a hosting, and of the file that the source lists now."""
    same = (getattr(copy, name).is_not_distinct_from(getattr(hosting, name)) for name in ("size_bytes", "modified"))
    return and_(copy.hosting_id == hosting.id, *same)


_THERE: Final = select(FileSourceHasZip.id).where(FileSourceHasZip.id.in_(IDS))
_LISTED_BAD: Final = (
    select(FileSourceHasZip.id).join(BadCopy, is_as_listed(BadCopy)).where(FileSourceHasZip.id.in_(IDS))
)
_PUBLISHED: Final = (
    select(FileSourceHasZip.za_id, PublishedChecksum.md5)
    .join(PublishedChecksum)
    .join(FileSource)
    .join(ZipAction)
    .join(ZipFile)
    .where(
        FileSourceHasZip.za_id.in_(IDS),
        FileSource.centre_id == ZipFile.centre_id,
        FileSourceHasZip.gone_since.is_(None),
        FileSourceHasZip.has_md5.is_(True),
        is_as_listed(PublishedChecksum),
    )
    .order_by(FileSource.id.desc())
)


class NewBadCopy(NamedTuple):
    """A copy that has now proved bad: its hosting, MD5, and fault."""

    hosting: Hosting
    md5: str
    fault: CopyFault


def is_fault_of_centre(md5s: Mapping[int, str], published: str | None, own: Collection[int]) -> bool:
    """Whether the centre is to blame for bad copies with these checksums, by hosting; then no other source is tried.

    It is if its source and another one delivered the same, or one of them what the centre published. Copies of others
    that are alike suffice only if no source of its own has the archive: `own` are the hostings there.
    """
    counts = Counter(md5s.values())
    alike = {hosting for hosting, md5 in md5s.items() if counts[md5] > 1}
    return published in counts or bool(alike and (not own or alike & set(own)))


def record_bad_copies(connection: Connection, bad_copies: Iterable[NewBadCopy]) -> None:
    """Record bad copies as listed; of each hosting the last one."""
    _replace(
        connection, BadCopy, {one.hosting.id: _row(one.hosting, one.md5, reason=one.fault.value) for one in bad_copies}
    )


def hostings_of_bad_copies(connection: Connection, hosting_ids: Iterable[int]) -> set[int]:
    """Those of hostings whose copy is known to be bad, and listed as it was then."""
    return {row.id for row in rows_about(connection, _LISTED_BAD, hosting_ids)}


def forget_bad_copies(connection: Connection, hosting_ids: Iterable[int]) -> None:
    """Record that good copies came from these hostings, which list some as they listed a bad one."""
    good_by_now = hostings_of_bad_copies(connection, hosting_ids)
    change_about(connection, delete(BadCopy).where(BadCopy.hosting_id.in_(IDS)), good_by_now)


def record_published(connection: Connection, published: Iterable[tuple[Hosting, str]]) -> None:
    """Record the MD5 published beside an archive, for the archive as listed."""
    _replace(connection, PublishedChecksum, {hosting.id: _row(hosting, md5) for hosting, md5 in published})


def published_checksums(connection: Connection, za_ids: Collection[int]) -> dict[int, str]:
    """The last known MD5 that each archive's centre published, if its listing there has not changed."""
    return dict(rows_about(connection, _PUBLISHED, za_ids))


def _row(hosting: Hosting, md5: str, **more: object) -> dict[str, object]:
    listed = {"size_bytes": hosting.size_bytes, "modified": hosting.modified}
    return {"hosting_id": hosting.id, "md5": md5, "created": utc_now()} | listed | more


def _replace(
    connection: Connection, model: type[BadCopy] | type[PublishedChecksum], rows: Mapping[int, Mapping[str, object]]
) -> None:
    known = {row.id for row in rows_about(connection, _THERE, rows)}
    change_about(connection, delete(model).where(model.hosting_id.in_(IDS)), rows)
    insert_rows(connection, model, [row for hosting_id, row in rows.items() if hosting_id in known])


def earlier_copies(connection: Connection, hosting_ids: Iterable[int]) -> dict[int, EarlierCopy]:
    """The archives fetched last from these hostings, undamaged, if their servers gave a tag or time.

    Of a damaged one these say nothing: a good one may have the same size and time.
    """
    return {
        row.zf_id: EarlierCopy(Validators(row.etag, row.last_modified), row.content_size_bytes, row.content_md5)
        for row in rows_about(connection, _EARLIER, hosting_ids)
    }


_EARLIER: Final = (
    select(
        ZipDownload.zf_id,
        ZipDownload.etag,
        ZipDownload.last_modified,
        ZipDownload.content_size_bytes,
        ZipDownload.content_md5,
    )
    .where(
        ZipDownload.zf_id.in_(IDS),
        ZipDownload.content_md5.is_not(None),
        ZipDownload.outcome.in_([AttemptOutcome.FINISHED.value, AttemptOutcome.NOT_MODIFIED.value]),
        or_(ZipDownload.etag.is_not(None), ZipDownload.last_modified.is_not(None)),
        ~exists().where(
            BadCopy.hosting_id == ZipDownload.zf_id,
            BadCopy.md5 == ZipDownload.content_md5,
            BadCopy.reason == CopyFault.DAMAGED.value,
        ),
    )
    .order_by(ZipDownload.id)
)
