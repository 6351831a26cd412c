"""Notices for centres about archives of others that changed their data, or tried to.

Functions that write expect the caller's write transaction. A recorded notice is not recorded again, so that repeating a
document does no harm.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from sqlalchemy import Connection, select
from sqlalchemy.orm import aliased

from dcc.databases.list_parameters import IDS, rows_about
from dcc.databases.transactions import insert_rows
from dcc.outcomes import SubmissionKey
from dcc.runtime.clock import utc_now
from dcc.tracker.models import Centre, OwnerNotice, ZipAction, ZipFile
from dcc.tracker.register.centres import centre_ids
from dcc.tracker.submission_rows import object_of, with_archives

_MOST: Final = 1_000
_Owner = aliased(Centre)


class NoticeOutcome(StrEnum):
    """The result of an archive or document with another centre's data."""

    DONE = "done"
    CONFIRMED = "confirmed"
    HELD = "held"
    REFUSED = "refused"
    WITHDRAWN = "withdrawn"
    DECLINED = "declined"


_OF_ONE_MOMENT: Final = (NoticeOutcome.WITHDRAWN, NoticeOutcome.DECLINED)
"""Decisions that may be revoked, and made again."""


@dataclass(frozen=True, slots=True)
class NewNotice:
    """A notice for the centre `owner`; without a document, it is about the archive."""

    owner: str
    za_id: int
    outcome: NoticeOutcome
    xml_id: int | None = None
    file_name: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    done_by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(NewNotice):
    """A notice as recorded; `centre` is that of the archive's name."""

    id: int
    key: SubmissionKey
    centre: str | None
    created: datetime


def add_notices(connection: Connection, notices: Sequence[NewNotice], *, repeat: bool = False) -> list[NewNotice]:
    """Add notices; returns the new ones. Unregistered centres are left out.

    With `repeat`, known ones are added too.
    """
    if not notices:
        return []
    known = {tuple(row) for row in rows_about(connection, _KNOWN, [notice.za_id for notice in notices])}
    ids = centre_ids(connection)
    new = {
        (ids[notice.owner], notice.za_id, notice.xml_id, str(notice.outcome)): notice
        for notice in notices
        if notice.owner in ids and notice.outcome not in _OF_ONE_MOMENT
    }
    wanted = [one for key, one in new.items() if repeat or key not in known]
    wanted += [notice for notice in notices if notice.owner in ids and notice.outcome in _OF_ONE_MOMENT]
    now = utc_now()
    rows = [
        {
            "owner_id": ids[notice.owner],
            "za_id": notice.za_id,
            "xml_id": notice.xml_id,
            "file_name": notice.file_name,
            "outcome": str(notice.outcome),
            "reason": notice.reason,
            "created": now,
            "counts": json.dumps(dict(notice.counts), sort_keys=True),
            "done_by": notice.done_by,
        }
        for notice in wanted
    ]
    insert_rows(connection, OwnerNotice, rows)
    return wanted


def notices_since(connection: Connection, since: datetime, owner: str | None = None) -> list[Notice]:
    """Notices for all centres, or one, since a time, oldest first; the newest thousand."""
    archive = ZipAction.todo_id, ZipFile.file_name.label("archive"), Centre.short_name.label("centre")
    noticed = select(OwnerNotice, _Owner.short_name.label("owner"), *archive).select_from(OwnerNotice)
    query = with_archives(noticed.join(_Owner, _Owner.id == OwnerNotice.owner_id).join(ZipAction))
    query = query.where(OwnerNotice.created >= since).order_by(OwnerNotice.id.desc()).limit(_MOST)
    if owner is not None:
        query = query.where(_Owner.short_name == owner)
    found = [
        object_of(
            Notice,
            row,
            key=SubmissionKey(row.todo_id, row.archive),
            outcome=NoticeOutcome(row.outcome),
            counts=json.loads(row.counts),
        )
        for row in connection.execute(query)
    ]
    return found[::-1]


_KNOWN: Final = select(OwnerNotice.owner_id, OwnerNotice.za_id, OwnerNotice.xml_id, OwnerNotice.outcome).where(
    OwnerNotice.za_id.in_(IDS)
)
