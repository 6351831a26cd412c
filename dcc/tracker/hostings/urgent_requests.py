"""Archives that people want before all others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import Connection, and_, delete, or_, select

from dcc.databases.transactions import insert_rows
from dcc.outcomes import SubmissionKey
from dcc.runtime.clock import utc_now
from dcc.tracker.models import UrgentArchive, ZipAction, ZipFile
from dcc.tracker.states import WAITING
from dcc.tracker.submission_rows import KEY, is_at, submission_key_of

_OF_REQUEST = and_(ZipAction.zip_id == ZipFile.id, ZipAction.todo_id == UrgentArchive.todo_id)
_IS_WAITING = is_at(ZipAction, WAITING)
_REQUESTS: Final = (
    select(
        UrgentArchive.id,
        UrgentArchive.todo_id,
        UrgentArchive.file_name,
        or_(ZipAction.id.is_(None), _IS_WAITING).label("is_open"),
    )
    .outerjoin(ZipFile, ZipFile.file_name == UrgentArchive.file_name)
    .outerjoin(ZipAction, _OF_REQUEST)
    .order_by(UrgentArchive.id)
)


def request_urgently(connection: Connection, keys: Sequence[SubmissionKey], requested_by: str) -> None:
    """Record that a person wants archives first, whether the tracker knows them or not."""
    known = set(urgent_keys(connection))
    request = {"requested_by": requested_by, "created": utc_now()}
    rows = [{"todo_id": key.action, "file_name": key.file_name} | request for key in keys if key not in known]
    insert_rows(connection, UrgentArchive, rows)


def urgent_keys(connection: Connection) -> list[SubmissionKey]:
    """The archives that are wanted first and wait for their download, or are not known yet; oldest request first."""
    return [key for _, key, is_open in _requests(connection) if is_open]


def take_urgent(connection: Connection) -> list[SubmissionKey]:
    """As `urgent_keys`; deletes the requests of archives that do not wait any more."""
    requests = _requests(connection)
    if fetched := [number for number, _, is_open in requests if not is_open]:
        connection.execute(delete(UrgentArchive).where(UrgentArchive.id.in_(fetched)))
    return [key for _, key, is_open in requests if is_open]


def _requests(connection: Connection) -> list[tuple[int, SubmissionKey, bool]]:
    """All requests: id, submission, and whether it still has to be fetched."""
    return [(row.id, submission_key_of(row), bool(row.is_open)) for row in connection.execute(_REQUESTS)]


def not_waiting(connection: Connection, keys: Collection[SubmissionKey]) -> list[SubmissionKey]:
    """Those of some archives that the tracker knows and that do not wait for their download."""
    query = (
        select(*KEY).join(ZipFile).where(ZipFile.file_name.in_(sorted({key.file_name for key in keys})), ~_IS_WAITING)
    )
    found = {submission_key_of(row) for row in connection.execute(query)}
    return [key for key in keys if key in found]
