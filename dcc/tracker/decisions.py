"""Decisions about submissions: to hold them, or that they are hopeless.

A submission on hold is left alone by sessions until it is released; its data that are uploaded already stay. A session
itself puts one in quarantine, which is a hold, that met a fault of the platform in too many sessions. A failed one that
is acknowledged waits for nobody any more, and is not tried again. Quarantines and acknowledgements end when the
submission is opened again, acknowledgements also when its failure disappears by itself.

Functions that write expect the caller's write transaction. Nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from dcc.databases.list_parameters import IDS, change_about, rows_with
from dcc.databases.transactions import insert_rows
from dcc.errors import InternalFaultError
from dcc.outcomes import Problem, SubmissionKey
from dcc.phases import UNFINISHED, Phase, State, Status
from dcc.runtime.clock import utc_now
from dcc.tracker.database import exception_id
from dcc.tracker.models import (
    AnException,
    FileSourceHasZip,
    Reopening,
    XmlFile,
    ZipAction,
    ZipDecision,
    ZipDownload,
    ZipFile,
    ZipLog,
)
from dcc.tracker.problems import problem_columns
from dcc.tracker.reopened_by import is_automatic_retry, session_name
from dcc.tracker.states import JUDGED_WELL, REFUSED, UPLOADED, VALID
from dcc.tracker.submission_rows import KEY, count_submissions, group_pairs, is_at, object_of, submission_key_of


class DecisionKind(StrEnum):
    """What was decided."""

    HOLD = "hold"
    QUARANTINE = "quarantine"
    ACKNOWLEDGE = "acknowledge"


_IN_FORCE: Final = {
    DecisionKind.HOLD: ("on hold", "it is released"),
    DecisionKind.QUARANTINE: ("in quarantine", "it is released"),
    DecisionKind.ACKNOWLEDGE: ("acknowledged", "it is tried again"),
}
"""What a decision that is in force makes of a submission, and until when."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision about a submission: by whom, why and when; `revoked` and `revoked_by` are None while it holds."""

    kind: DecisionKind
    decided_by: str
    reason: str
    created: datetime
    revoked: datetime | None
    revoked_by: str | None

    def __str__(self) -> str:
        state, end = _IN_FORCE[self.kind]
        until = end if self.revoked is None else f"{self.revoked:%Y-%m-%d %H:%M} UTC"
        return f"{state} since {self.created:%Y-%m-%d %H:%M} UTC by {self.decided_by}: {self.reason} (until {until})"


def is_on_hold() -> ColumnElement[bool]:
    """Condition on a submission: it is on hold, or in quarantine."""
    return is_decided(DecisionKind.HOLD, DecisionKind.QUARANTINE)


def archives_on_hold() -> Select[int]:
    """The submissions that are on hold or in quarantine, which are few."""
    return _in_force(DecisionKind.HOLD, DecisionKind.QUARANTINE)


def is_acknowledged() -> ColumnElement[bool]:
    """Condition on a submission: it failed, and a person said that nobody has to act on it."""
    return and_(ZipAction.status_id == Status.FAILED, is_decided(DecisionKind.ACKNOWLEDGE))


def needs_nobody() -> ColumnElement[bool]:
    """Condition on a submission: nobody has to act on it.

    It is acknowledged; or its name is refused and on no source any more, as after the file was renamed.
    """
    return or_(is_acknowledged(), is_refused_and_gone())


def is_refused_and_gone() -> ColumnElement[bool]:
    """Condition on a submission: its name is refused, and no source has it any more."""
    return and_(is_at(ZipAction, REFUSED), ~is_hosted())


def is_hosted() -> ColumnElement[bool]:
    """Condition on a submission: a source has it at present."""
    return (
        exists(select(FileSourceHasZip.id))
        .where(FileSourceHasZip.za_id == ZipAction.id, FileSourceHasZip.gone_since.is_(None))
        .correlate(ZipAction)
    )


def is_decided(*kinds: DecisionKind) -> ColumnElement[bool]:
    """Condition on a submission: a decision of one of these kinds is in force."""
    return exists(_in_force(*kinds)).where(ZipDecision.za_id == ZipAction.id).correlate(ZipAction)


def _in_force(*kinds: DecisionKind) -> Select[int]:
    of_kind = ZipDecision.kind.in_([kind.value for kind in kinds])
    return select(ZipDecision.za_id).where(of_kind, ZipDecision.revoked.is_(None))


def record_decisions(
    connection: Connection, kind: DecisionKind, za_ids: Collection[int], *, by: str, reason: str
) -> None:
    """Record a decision about submissions for which none of its kind is in force; `by` a person or a session."""
    values = {"kind": kind.value, "decided_by": by, "reason": reason, "created": utc_now()}
    same = [literal(value, ZipDecision.__table__.c[name].type) for name, value in values.items()]
    statement = insert(ZipDecision).from_select(
        ["za_id", *values], select(ZipAction.id, *same).where(ZipAction.id.in_(IDS))
    )
    change_about(connection, statement, za_ids)


def revoke(connection: Connection, za_ids: Collection[int], *kinds: DecisionKind, by: str) -> None:
    """Revoke the decisions of some kinds that are in force for submissions."""
    change_about(connection, _REVOCATION, za_ids, kinds=[kind.value for kind in kinds], now=utc_now(), by=by)


_REVOCATION: Final = (
    update(ZipDecision)
    .where(
        ZipDecision.za_id.in_(IDS),
        ZipDecision.kind.in_(bindparam("kinds", expanding=True)),
        ZipDecision.revoked.is_(None),
    )
    .values(revoked=bindparam("now"), revoked_by=bindparam("by"))
)


def revoke_healed(connection: Connection, by: str) -> None:
    """Revoke the acknowledgements of submissions that failed in the data phase, and have passed it since."""
    passed = or_(ZipAction.phase_id > Phase.DATA, is_at(ZipAction, JUDGED_WELL))
    healed = select(ZipAction.id).where(passed, ZipAction.status_id != Status.FAILED)
    acknowledged = _in_force(DecisionKind.ACKNOWLEDGE).where(ZipDecision.za_id.in_(healed))
    revoke(connection, connection.scalars(acknowledged).all(), DecisionKind.ACKNOWLEDGE, by=by)


def decisions_of(connection: Connection, za_id: int) -> tuple[Decision, ...]:
    """All decisions about a submission, oldest first."""
    return tuple(_decisions(connection, ZipDecision.za_id == za_id)[za_id])


def decisions_in_force(connection: Connection, za_ids: Collection[int]) -> Mapping[int, list[Decision]]:
    """The decisions that hold about some hundreds of submissions, by their ids, oldest first."""
    return _decisions(connection, ZipDecision.za_id.in_(za_ids), ZipDecision.revoked.is_(None))


def _decisions(connection: Connection, *conditions: ColumnElement[bool]) -> Mapping[int, list[Decision]]:
    query = select(ZipDecision.__table__).where(*conditions).order_by(ZipDecision.id)
    rows = connection.execute(query)
    return group_pairs((row.za_id, object_of(Decision, row, kind=DecisionKind(row.kind))) for row in rows)


def count_decided(connection: Connection) -> dict[DecisionKind, int]:
    """The number of submissions for which a decision of each kind is in force."""
    conditions = {kind: is_decided(kind) for kind in DecisionKind} | {DecisionKind.ACKNOWLEDGE: is_acknowledged()}
    return {kind: count_submissions(connection, condition) for kind, condition in conditions.items()}


def record_fault(connection: Connection, xml_id: int, fault: InternalFaultError) -> None:
    """Record a fault of the platform with a document, for its download, so that it counts for `quarantine`."""
    download = connection.scalar(select(XmlFile.download_id).where(XmlFile.id == xml_id))
    if download is not None:
        problem = Problem.of(fault)
        kind = exception_id(connection, problem.kind, fault.summary())
        row = {"zip_id": download, "exception_id": kind, **problem_columns(problem)}
        insert_rows(connection, ZipLog.__table__, [row])


def quarantine(connection: Connection, session_id: int, max_faults: int, za_ids: Collection[int]) -> None:
    """Put those of the submissions in quarantine that met as many faults of the platform since they were opened again.

    `za_ids` are those that met one in this session: others have no new one since they were released.
    """
    opened = (
        select(func.max(Reopening.last_download_id))
        .where(
            Reopening.za_id == FileSourceHasZip.za_id,
            ~is_automatic_retry(Reopening.requested_by),
        )
        .correlate(FileSourceHasZip)
        .scalar_subquery()
    )
    met = (
        select(FileSourceHasZip.za_id)
        .join(ZipDownload)
        .join(ZipLog)
        .join(AnException)
        .where(AnException.short_name == InternalFaultError.short_name(), ZipDownload.id > func.coalesce(opened, 0))
        .group_by(FileSourceHasZip.za_id)
        .having(func.count() >= max_faults)
    )
    query = select(ZipAction.id).where(ZipAction.id.in_(met), is_unfinished(), ~is_on_hold())
    faulty = [row.id for row in rows_with(connection, query, ZipAction.id, za_ids)]
    reason = f"It met {max_faults} faults of the platform."
    record_decisions(connection, DecisionKind.QUARANTINE, faulty, by=session_name(session_id), reason=reason)


def is_unfinished() -> ColumnElement[bool]:
    """Condition on a submission: it failed, or has not come through validation, or waits to be judged."""
    to_judge = UPLOADED, *(State(Phase.DATA, status) for status in UNFINISHED)
    return or_(
        ZipAction.status_id == Status.FAILED,
        and_(ZipAction.phase_id <= Phase.XSD, ~is_at(ZipAction, VALID)),
        is_at(ZipAction, *to_judge),
    )


def acknowledged_keys(connection: Connection) -> Sequence[SubmissionKey]:
    """The submissions that are acknowledged."""
    query = select(*KEY).join(ZipFile)
    return [submission_key_of(row) for row in connection.execute(query.where(is_acknowledged()))]
