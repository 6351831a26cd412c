"""What people decided about submissions: to hold them, or that they are hopeless.

A submission on hold is left alone by sessions until it is released; its data that are uploaded already stay. A failed
one that is acknowledged waits for nobody any more, and is not tried again, until that is revoked or it is opened again.
Functions that write expect the caller's write transaction. Nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, exists, func, select, update

from dcc.databases.columns import utc_now
from dcc.errors import ConfigurationError
from dcc.outcomes import ZipKey
from dcc.phases import ACTIONS_BY_ID, Status
from dcc.tracker.database import insert_rows
from dcc.tracker.lineage import IDS, chunks
from dcc.tracker.models import ZipAction, ZipDecision, ZipFile

_LONGEST_REASON: Final = 255
_PERSON_LENGTH: Final = 64


class DecisionKind(StrEnum):
    """What was decided."""

    HOLD = "hold"
    ACKNOWLEDGE = "acknowledge"


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision about a submission: by whom, why and when; `revoked` and `revoked_by` are None while it holds."""

    kind: DecisionKind
    decided_by: str
    reason: str
    created: datetime
    revoked: datetime | None
    revoked_by: str | None


def is_on_hold() -> ColumnElement[bool]:
    """Condition on a submission: it is on hold."""
    return _in_force(DecisionKind.HOLD)


def is_acknowledged() -> ColumnElement[bool]:
    """Condition on a submission: it failed, and a person said that nobody has to act on it."""
    return and_(ZipAction.status_id == int(Status.FAILED), _in_force(DecisionKind.ACKNOWLEDGE))


def _in_force(kind: DecisionKind) -> ColumnElement[bool]:
    of_kind = ZipDecision.kind == kind.value, ZipDecision.revoked.is_(None)
    return exists(select(ZipDecision.id)).where(ZipDecision.za_id == ZipAction.id, *of_kind).correlate(ZipAction)


def require_reason(reason: str) -> str:
    """The reason of a decision, stripped. Raises ConfigurationError for one that is blank or too long."""
    if not reason.strip():
        raise ConfigurationError("The reason is empty. Give one: `dcc show` tells it.")
    if len(reason.strip()) > _LONGEST_REASON:
        raise ConfigurationError(f"The reason has {len(reason)} characters; {_LONGEST_REASON} fit. Shorten it.")
    return reason.strip()


def decide(connection: Connection, kind: DecisionKind, za_ids: Collection[int], *, by: str, reason: str) -> None:
    """Record a decision about submissions for which none of its kind is in force."""
    values = {"kind": kind.value, "decided_by": by[:_PERSON_LENGTH], "reason": reason, "created": utc_now()}
    insert_rows(connection, ZipDecision.__table__, [{"za_id": za_id, **values} for za_id in za_ids])


def revoke(connection: Connection, kind: DecisionKind, za_ids: Collection[int], *, by: str) -> None:
    """Revoke the decisions of a kind that are in force for submissions."""
    ended = {"revoked": utc_now(), "revoked_by": by[:_PERSON_LENGTH]}
    in_force = ZipDecision.za_id.in_(IDS), ZipDecision.kind == kind.value, ZipDecision.revoked.is_(None)
    statement = update(ZipDecision).where(*in_force).values(ended)
    for ids in chunks(za_ids):
        connection.execute(statement, {"ids": ids})


def decisions_of(connection: Connection, za_id: int) -> tuple[Decision, ...]:
    """All decisions about a submission, oldest first."""
    query = select(ZipDecision.__table__).where(ZipDecision.za_id == za_id).order_by(ZipDecision.id)
    return tuple(
        Decision(DecisionKind(row.kind), row.decided_by, row.reason, row.created, row.revoked, row.revoked_by)
        for row in connection.execute(query)
    )


def count_decided(connection: Connection) -> dict[DecisionKind, int]:
    """The number of submissions that are on hold, and of those that are acknowledged."""
    conditions = {DecisionKind.HOLD: is_on_hold(), DecisionKind.ACKNOWLEDGE: is_acknowledged()}
    return {
        kind: connection.scalar(select(func.count()).select_from(ZipAction).where(condition)) or 0
        for kind, condition in conditions.items()
    }


def acknowledged_keys(connection: Connection) -> Sequence[ZipKey]:
    """The submissions that are acknowledged."""
    query = select(ZipAction.todo_id, ZipFile.file_name).join(ZipFile, ZipFile.id == ZipAction.zip_id)
    return [ZipKey(ACTIONS_BY_ID[todo], name) for todo, name in connection.execute(query.where(is_acknowledged()))]
