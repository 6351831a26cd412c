"""Archives on another centre's source that a person declined: they stop waiting, even if their centre delegates.

A hosting on a source of their own centre overrides the decline. Functions that write expect the caller's write
transaction. Nothing is deleted: a revoked decline stays on record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, exists, select, update

from dcc.outcomes import ZipKey
from dcc.tracker.database import insert_rows
from dcc.tracker.lineage import KEY, chunks, key_of, object_of
from dcc.tracker.models import ArchiveDecline, Centre, FileSourceHasZip, ZipAction, ZipFile, utc_now
from dcc.tracker.register.column_texts import PERSON_LENGTH, require_reason


@dataclass(frozen=True, slots=True)
class Decline:
    """A declined archive: by whom, why, when; `owner` is the centre of its name."""

    za_id: int
    key: ZipKey
    owner: str | None
    declined_by: str
    reason: str
    created: datetime
    revoked: datetime | None
    revoked_by: str | None


def is_declined() -> ColumnElement[bool]:
    """Whether an archive is declined, as a condition for a query with its hostings."""
    return (
        exists(select(ArchiveDecline.id))
        .where(ArchiveDecline.za_id == FileSourceHasZip.za_id, ArchiveDecline.revoked.is_(None))
        .correlate(FileSourceHasZip)
    )


def declines_of(connection: Connection, za_ids: Sequence[int]) -> dict[int, Decline]:
    """The declines in force of these submissions, by their ids; a statement for every 500."""
    in_force = ArchiveDecline.revoked.is_(None)
    return {
        one.za_id: one
        for ids in chunks(za_ids)
        for one in _declines(connection, ArchiveDecline.za_id.in_(ids), in_force)
    }


def list_declines(connection: Connection, *, everything: bool = False) -> list[Decline]:
    """The declines in force; with `everything`, revoked ones too. Oldest first."""
    return _declines(connection, *([] if everything else [ArchiveDecline.revoked.is_(None)]))


def decline(connection: Connection, za_id: int, *, declined_by: str, reason: str) -> Decline:
    """Decline an archive. Raises ConfigurationError for a reason that is blank or too long."""
    values = {
        "za_id": za_id,
        "declined_by": declined_by[:PERSON_LENGTH],
        "reason": require_reason(reason, "the centres concerned are told"),
        "created": utc_now(),
    }
    insert_rows(connection, ArchiveDecline.__table__, [values])
    return declines_of(connection, [za_id])[za_id]


def revoke_decline(connection: Connection, za_id: int, *, revoked_by: str) -> Decline | None:
    """Revoke the decline in force of an archive; returns None without one."""
    if za_id not in declines_of(connection, [za_id]):
        return None
    ended = {"revoked": utc_now(), "revoked_by": revoked_by[:PERSON_LENGTH]}
    in_force = ArchiveDecline.za_id == za_id, ArchiveDecline.revoked.is_(None)
    connection.execute(update(ArchiveDecline).where(*in_force).values(ended))
    return _declines(connection, ArchiveDecline.za_id == za_id)[-1]


def _declines(connection: Connection, *conditions: ColumnElement[bool]) -> list[Decline]:
    query = (
        select(ArchiveDecline, *KEY, Centre.short_name.label("owner"))
        .join(ZipAction, ZipAction.id == ArchiveDecline.za_id)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .outerjoin(Centre, Centre.id == ZipFile.centre_id)
        .where(*conditions)
        .order_by(ArchiveDecline.id)
    )
    return [object_of(Decline, row, key=key_of(row)) for row in connection.execute(query)]
