"""Archives that people want before all others: sessions fetch them first."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, and_, delete, or_, select

from dcc.outcomes import ZipKey
from dcc.phases import ACTION_IDS, ACTIONS_BY_ID
from dcc.tracker.database import insert_rows
from dcc.tracker.models import UrgentArchive, ZipAction, ZipFile, utc_now
from dcc.tracker.states import WAITING

_OF_REQUEST = and_(ZipAction.zip_id == ZipFile.id, ZipAction.todo_id == UrgentArchive.todo_id)
_IS_WAITING = and_(ZipAction.phase_id == int(WAITING.phase), ZipAction.status_id == int(WAITING.status))


def request_urgently(connection: Connection, keys: Sequence[ZipKey], requested_by: str) -> None:
    """Record that a person wants archives first, whether the tracker knows them or not."""
    known = set(urgent_keys(connection))
    rows = [
        {
            "todo_id": ACTION_IDS[key.action],
            "file_name": key.file_name,
            "requested_by": requested_by,
            "created": utc_now(),
        }
        for key in keys
        if key not in known
    ]
    if rows:
        insert_rows(connection, UrgentArchive.__table__, rows)


def urgent_keys(connection: Connection) -> list[ZipKey]:
    """The archives that are wanted first and wait for their download, or are not known yet; oldest request first."""
    query = (
        select(UrgentArchive.todo_id, UrgentArchive.file_name)
        .outerjoin(ZipFile, ZipFile.file_name == UrgentArchive.file_name)
        .outerjoin(ZipAction, _OF_REQUEST)
        .where(or_(ZipAction.id.is_(None), _IS_WAITING))
        .order_by(UrgentArchive.id)
    )
    return [ZipKey(ACTIONS_BY_ID[todo], name) for todo, name in connection.execute(query)]


def forget_fetched(connection: Connection) -> None:
    """Delete the requests of archives that do not wait any more."""
    fetched = select(UrgentArchive.id).join(ZipFile, ZipFile.file_name == UrgentArchive.file_name)
    ids = connection.scalars(fetched.join(ZipAction, _OF_REQUEST).where(~_IS_WAITING)).all()
    if ids:
        connection.execute(delete(UrgentArchive).where(UrgentArchive.id.in_(ids)))


def not_waiting(connection: Connection, keys: Collection[ZipKey]) -> list[ZipKey]:
    """Those of some archives that the tracker knows and that do not wait for their download."""
    query = (
        select(ZipAction.todo_id, ZipFile.file_name)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .where(ZipFile.file_name.in_(sorted({key.file_name for key in keys})), ~_IS_WAITING)
    )
    found = {ZipKey(ACTIONS_BY_ID[todo], name) for todo, name in connection.execute(query)}
    return [key for key in keys if key in found]
