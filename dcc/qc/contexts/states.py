"""What wranglers decide about data contexts: done, to be looked at again, an issue, an issue resolved.

Each is a few statements in one transaction, whatever the number of contexts, and in the history of each context with
its author and reason. A context without measurements that somebody is done with is nodata.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Engine, case, func, insert, literal, null, select, update

from dcc.databases.columns import utc_now
from dcc.databases.transactions import run_writing
from dcc.errors import ConfigurationError
from dcc.qc.apply.upload_lock import take_upload_lock
from dcc.qc.contexts.filters import ContextFilter
from dcc.qc.contexts.transitions import SETTLED, after_done, after_reopening
from dcc.qc.models import ContextHistory, ContextIssue, DataContext
from dcc.vocabulary import ContextEvent, ContextState

PATIENCE_SECONDS: Final = 300.0
"""How long a decision waits for documents that are being applied."""

_CONTEXT: Final = DataContext.__table__
_HISTORY: Final = ContextHistory.__table__
_ISSUE: Final = ContextIssue.__table__
_SETTLED: Final = _CONTEXT.c.data_state.in_([state.value for state in SETTLED])
_DONE: Final = case((_CONTEXT.c.measurements > 0, after_done(1).value), else_=after_done(0).value)
_REOPENED: Final = case((_CONTEXT.c.measurements > 0, after_reopening(1).value), else_=after_reopening(0).value)


@dataclass(frozen=True, slots=True)
class Decided:
    """What came of a decision: how many contexts it changed, and how many it left because of their open issues."""

    changed: int
    left: int = 0


def mark_done(
    qc: Engine, wanted: ContextFilter, *, author: str, reason: str, patience_seconds: float = PATIENCE_SECONDS
) -> Decided:
    """Say that the data of contexts are in order. Those with open issues stay as they are.

    Raises ConfigurationError for an empty or overlong reason; the database's `unreachable` error, as `run_writing`.
    """
    condition = wanted.condition() & ~_SETTLED

    def work(connection: Connection) -> Decided:
        take_upload_lock(connection)
        blocked = select(func.count()).select_from(_CONTEXT).where(wanted.condition(), _CONTEXT.c.issues > 0)
        left = connection.scalar(blocked) or 0
        values = {"state": _DONE, "data_state": _DONE}
        return Decided(
            _decide(connection, condition & (_CONTEXT.c.issues == 0), ContextEvent.DONE, values, author, reason), left
        )

    check_reason(reason)
    return run_writing(qc, work, patience_seconds=patience_seconds)


def reopen(
    qc: Engine, wanted: ContextFilter, *, author: str, reason: str, patience_seconds: float = PATIENCE_SECONDS
) -> Decided:
    """Have the data of contexts that somebody was done with looked at again: dataadded, or dataremoved without any.

    Raises as `mark_done`.
    """
    values = {"state": case((_CONTEXT.c.issues > 0, _CONTEXT.c.state), else_=_REOPENED), "data_state": _REOPENED}

    def work(connection: Connection) -> Decided:
        take_upload_lock(connection)
        condition = wanted.condition() & _SETTLED
        return Decided(_decide(connection, condition, ContextEvent.REOPENED, values, author, reason))

    check_reason(reason)
    return run_writing(qc, work, patience_seconds=patience_seconds)


def raise_issue(
    qc: Engine, wanted: ContextFilter, *, author: str, reason: str, patience_seconds: float = PATIENCE_SECONDS
) -> Decided:
    """Say that something is wrong with the data of contexts; they have issues until it is resolved.

    Raises as `mark_done`.
    """
    values = {"state": literal(ContextState.HAS_ISSUES.value), "issues": _CONTEXT.c.issues + 1}

    def work(connection: Connection) -> Decided:
        take_upload_lock(connection)
        chosen = select(_CONTEXT.c.id, literal(reason), literal(author), literal(utc_now())).where(wanted.condition())
        connection.execute(insert(_ISSUE).from_select(["context_id", "reason", "raised_by", "created"], chosen))
        # A filter by state would not find them again after the change.
        return Decided(_decide(connection, wanted.condition(), ContextEvent.ISSUE_RAISED, values, author, reason))

    check_reason(reason)
    return run_writing(qc, work, patience_seconds=patience_seconds)


def resolve_issues(
    qc: Engine, wanted: ContextFilter, *, author: str, reason: str, patience_seconds: float = PATIENCE_SECONDS
) -> Decided:
    """Resolve all open issues of contexts; their state is that of their data again. Raises as `mark_done`."""
    values = {"state": _CONTEXT.c.data_state, "issues": literal(0)}

    def work(connection: Connection) -> Decided:
        take_upload_lock(connection)
        condition = wanted.condition() & (_CONTEXT.c.issues > 0)
        of_these = _ISSUE.c.context_id.in_(select(_CONTEXT.c.id).where(condition))
        resolved = {"resolved": utc_now(), "resolved_by": author, "resolution": reason}
        connection.execute(update(_ISSUE).where(_ISSUE.c.resolved.is_(None), of_these).values(resolved))
        return Decided(_decide(connection, condition, ContextEvent.ISSUE_RESOLVED, values, author, reason))

    check_reason(reason)
    return run_writing(qc, work, patience_seconds=patience_seconds)


def _decide(
    connection: Connection,
    condition: ColumnElement[bool],
    event: ContextEvent,
    values: Mapping[str, ColumnElement[Any]],
    author: str,
    reason: str,
) -> int:
    """Write a decision into the history and the rows of the contexts that meet a condition; how many do."""
    now = utc_now()
    row: dict[str, ColumnElement[Any]] = {
        "context_id": _CONTEXT.c.id,
        "event": literal(event.value),
        "state": values["state"],
        "measurements": _CONTEXT.c.measurements,
        "checksum": _CONTEXT.c.checksum,
        "document_id": null(),
        "author": literal(author[:64]),
        "reason": literal(reason),
        "created": literal(now),
    }
    connection.execute(insert(_HISTORY).from_select(list(row), select(*row.values()).where(condition)))
    # MySQL and MariaDB assign from left to right, and later assignments see earlier ones: the state comes first.
    ordered = [(_CONTEXT.c[name], value) for name, value in values.items()]
    changed = update(_CONTEXT).where(condition).ordered_values(*ordered, (_CONTEXT.c.changed, now))
    return connection.execute(changed).rowcount


def check_reason(reason: str) -> None:
    """Raise ConfigurationError for a reason that is empty, or longer than the history holds."""
    longest = _HISTORY.c.reason.type.length  # type: ignore[attr-defined]
    if not reason.strip() or len(reason) > longest:
        raise ConfigurationError(
            f"A reason must be given, of at most {longest} characters. Say why, for those who read the history."
        )
