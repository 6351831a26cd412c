"""States of data contexts: their changes by data, and the decisions of wranglers.

The state of the data is the worst since a wrangler last marked them as done, in the order of `ContextState`: data that
changed and were then added to are still changed. An open issue overrides it, and the state of the data shows again once
no issue is open.

Wranglers mark contexts as done, reopen them, raise issues and resolve them. Each is a few statements in one
transaction, for any number of contexts, and is in the history of each context with author and reason. A context without
measurements that is marked as done is nodata.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Engine, case, func, insert, literal, null, select, update

from dcc.databases.columns import utc_now
from dcc.databases.transactions import run_writing
from dcc.errors import ConfigurationError
from dcc.qc.apply.upload_lock import lock_all, lock_centres
from dcc.qc.contexts.listings import ContextFilter
from dcc.qc.models import CONTEXT, DOCUMENT, HISTORY, ISSUE, SHARE
from dcc.vocabulary import ContextEvent, ContextState

SETTLED: Final = (ContextState.QC_DONE, ContextState.NO_DATA)
"""The states of a context that needs no attention."""

WAITING: Final = tuple(state for state in ContextState if state not in SETTLED)
"""The states of a context that waits for attention."""

_PRECEDENCE: Final = {state: place for place, state in enumerate(ContextState)}


def what_happened(before: tuple[int, int], after: tuple[int, int], *, some_went: bool) -> ContextEvent | None:
    """The event of changed data, by the number of measurements and the sum of their fingerprints; None if they are the
    same.

    Data that were both removed and added have changed, unless they are fewer than before: these were removed.
    """
    if after == before:
        return None
    if after[0] < before[0]:
        return ContextEvent.DATA_REMOVED
    return ContextEvent.DATA_CHANGED if some_went or after[0] == before[0] else ContextEvent.DATA_ADDED


def after_data(data_state: ContextState, event: ContextEvent) -> ContextState:
    """The state of data after an event."""
    new = ContextState(event.value)
    return new if data_state in SETTLED else max(data_state, new, key=_PRECEDENCE.__getitem__)


def after_done(measurements: int) -> ContextState:
    """The state of data marked as done."""
    return ContextState.QC_DONE if measurements else ContextState.NO_DATA


def after_reopening(measurements: int) -> ContextState:
    """The state of reopened data."""
    return ContextState.DATA_ADDED if measurements else ContextState.DATA_REMOVED


def shown(data_state: ContextState, open_issues: int) -> ContextState:
    """A context's state by that of its data and its open issues."""
    return ContextState.HAS_ISSUES if open_issues else data_state


PATIENCE_SECONDS: Final = 300.0
"""Seconds that a decision waits for documents that are being applied."""

_SETTLED: Final = CONTEXT.c.data_state.in_([state.value for state in SETTLED])
_DONE: Final = case((CONTEXT.c.measurements > 0, after_done(1).value), else_=after_done(0).value)
_REOPENED: Final = case((CONTEXT.c.measurements > 0, after_reopening(1).value), else_=after_reopening(0).value)


@dataclass(frozen=True, slots=True)
class Decided:
    """The result of a decision: the number of changed contexts, and of those left because of open issues."""

    changed: int
    left: int = 0


def mark_done(
    qc: Engine, wanted: ContextFilter, *, author: str, reason: str, patience_seconds: float = PATIENCE_SECONDS
) -> Decided:
    """Mark contexts as done. Those with open issues stay as they are.

    Raises ConfigurationError for an empty or overlong reason; the database's `unreachable` error, as `run_writing`.
    """
    condition = wanted.condition() & ~_SETTLED

    def work(connection: Connection) -> Decided:
        _lock(connection, wanted)
        blocked = select(func.count()).select_from(CONTEXT).where(wanted.condition(), CONTEXT.c.issues > 0)
        left = connection.scalar(blocked) or 0
        values = {"state": _DONE, "data_state": _DONE}
        return Decided(
            _decide(connection, condition & (CONTEXT.c.issues == 0), ContextEvent.DONE, values, author, reason), left
        )

    check_reason(reason)
    return run_writing(qc, work, patience_seconds=patience_seconds)


def reopen(
    qc: Engine, wanted: ContextFilter, *, author: str, reason: str, patience_seconds: float = PATIENCE_SECONDS
) -> Decided:
    """Reopen contexts that were marked as done: dataadded, or dataremoved without any data.

    Raises as `mark_done`.
    """
    values = {"state": case((CONTEXT.c.issues > 0, CONTEXT.c.state), else_=_REOPENED), "data_state": _REOPENED}

    def work(connection: Connection) -> Decided:
        _lock(connection, wanted)
        condition = wanted.condition() & _SETTLED
        return Decided(_decide(connection, condition, ContextEvent.REOPENED, values, author, reason))

    check_reason(reason)
    return run_writing(qc, work, patience_seconds=patience_seconds)


def raise_issue(
    qc: Engine, wanted: ContextFilter, *, author: str, reason: str, patience_seconds: float = PATIENCE_SECONDS
) -> Decided:
    """Raise an issue on contexts; they have issues until it is resolved.

    Raises as `mark_done`.
    """
    values = {"state": literal(ContextState.HAS_ISSUES.value), "issues": CONTEXT.c.issues + 1}

    def work(connection: Connection) -> Decided:
        _lock(connection, wanted)
        chosen = select(CONTEXT.c.id, literal(reason), literal(author), literal(utc_now())).where(wanted.condition())
        connection.execute(insert(ISSUE).from_select(["context_id", "reason", "raised_by", "created"], chosen))
        # A filter by state would not find them again after the change.
        return Decided(_decide(connection, wanted.condition(), ContextEvent.ISSUE_RAISED, values, author, reason))

    check_reason(reason)
    return run_writing(qc, work, patience_seconds=patience_seconds)


def resolve_issues(
    qc: Engine, wanted: ContextFilter, *, author: str, reason: str, patience_seconds: float = PATIENCE_SECONDS
) -> Decided:
    """Resolve all open issues of contexts; they get the state of their data again. Raises as `mark_done`."""
    values = {"state": CONTEXT.c.data_state, "issues": literal(0)}

    def work(connection: Connection) -> Decided:
        _lock(connection, wanted)
        condition = wanted.condition() & (CONTEXT.c.issues > 0)
        of_these = ISSUE.c.context_id.in_(select(CONTEXT.c.id).where(condition))
        resolved = {"resolved": utc_now(), "resolved_by": author, "resolution": reason}
        connection.execute(update(ISSUE).where(ISSUE.c.resolved.is_(None), of_these).values(resolved))
        return Decided(_decide(connection, condition, ContextEvent.ISSUE_RESOLVED, values, author, reason))

    check_reason(reason)
    return run_writing(qc, work, patience_seconds=patience_seconds)


def _lock(connection: Connection, wanted: ContextFilter) -> None:
    if wanted.centre is None:
        lock_all(connection)
    else:
        lock_centres(connection, [wanted.centre])


def _decide(
    connection: Connection,
    condition: ColumnElement[bool],
    event: ContextEvent,
    values: Mapping[str, ColumnElement[Any]],
    author: str,
    reason: str,
) -> int:
    """Write a decision into the history and the rows of the contexts that meet a condition; returns their number."""
    now = utc_now()
    row: dict[str, ColumnElement[Any]] = {
        "context_id": CONTEXT.c.id,
        "event": literal(event.value),
        "state": values["state"],
        "measurements": CONTEXT.c.measurements,
        "checksum": CONTEXT.c.checksum,
        "document_id": null(),
        "author": literal(author[:64]),
        "reason": literal(reason),
        "created": literal(now),
    }
    connection.execute(insert(HISTORY).from_select(list(row), select(*row.values()).where(condition)))
    # MySQL and MariaDB assign from left to right, and later assignments see earlier ones: the state comes first.
    ordered = [(CONTEXT.c[name], value) for name, value in values.items()]
    changed = update(CONTEXT).where(condition).ordered_values(*ordered, (CONTEXT.c.changed, now))
    return connection.execute(changed).rowcount


def check_reason(reason: str) -> None:
    """Raise ConfigurationError for a reason that is empty, or longer than the history holds."""
    longest = HISTORY.c.reason.type.length  # type: ignore[attr-defined]
    if not reason.strip() or len(reason) > longest:
        raise ConfigurationError(
            f"A reason must be given, of at most {longest} characters. Say why, for those who read the history."
        )


# Nested, so that documents are looked up by the open contexts, however few they are.
_OPEN_CONTEXTS: Final = select(CONTEXT.c.id).where(CONTEXT.c.state.not_in([state.value for state in SETTLED]))
_WITH_OPEN: Final = select(SHARE.c.document_id).where(SHARE.c.context_id.in_(_OPEN_CONTEXTS))
_OPEN: Final = select(DOCUMENT.c.tracker_id).where(DOCUMENT.c.id.in_(_WITH_OPEN), DOCUMENT.c.tracker_id.is_not(None))


def open_documents(connection: Connection) -> set[int]:
    """The documents with measurements in a context that is not done, by the ids of their `xml_file`.

    Documents without a tracker are left out.
    """
    return set(connection.scalars(_OPEN))
