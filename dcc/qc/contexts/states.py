"""States of data contexts: their changes by data, and the decisions of wranglers.

The state of the data is the worst since a wrangler last marked them as done, in the order of `ContextState`. Data that
changed and were then added to are still changed. An open issue overrides it, and the state of the data shows again once
no issue is open.

Wranglers mark contexts as done, reopen them, raise issues and resolve them. Each is a few statements in one
transaction, for any number of contexts, and is in the history of each context with author and reason. A context without
measurements that is marked as done is nodata.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, case, func, insert, literal, null, select, true, update

from dcc.databases.columns import require_text
from dcc.databases.transactions import run_writing
from dcc.qc.apply.upload_lock import lock_all, lock_centres
from dcc.qc.contexts.listings import ContextFilter
from dcc.qc.models import CONTEXT, DOCUMENT, HISTORY, ISSUE, SHARE
from dcc.runtime.clock import utc_now
from dcc.vocabulary import ContextEvent, ContextState

SETTLED: Final = (ContextState.QC_DONE, ContextState.NO_DATA)
"""The states of a context that needs no attention."""

WAITING: Final = tuple(state for state in ContextState if state not in SETTLED)
"""The states of a context that waits for attention."""


def _by_data(with_data: ContextState, without: ContextState) -> ColumnElement[str]:
    return case((CONTEXT.c.measurements > 0, with_data.value), else_=without.value)


_PATIENCE_SECONDS: Final = 300.0
"""Seconds that a decision waits for documents that are being applied."""

_LONGEST_NAME: Final = 64
_SETTLED: Final = CONTEXT.c.data_state.in_([state.value for state in SETTLED])
_DONE: Final = _by_data(ContextState.QC_DONE, ContextState.NO_DATA)
_REOPENED: Final = _by_data(ContextState.DATA_ADDED, ContextState.DATA_REMOVED)


_DECISIONS: Final[Mapping[ContextEvent, tuple[ColumnElement[bool], Mapping[str, ColumnElement[Any]]]]] = {
    ContextEvent.DONE: (~_SETTLED & (CONTEXT.c.issues == 0), {"state": _DONE, "data_state": _DONE}),
    ContextEvent.REOPENED: (
        _SETTLED,
        {"state": case((CONTEXT.c.issues > 0, CONTEXT.c.state), else_=_REOPENED), "data_state": _REOPENED},
    ),
    ContextEvent.ISSUE_RAISED: (
        true(),
        {"state": literal(ContextState.HAS_ISSUES.value), "issues": CONTEXT.c.issues + 1},
    ),
    ContextEvent.ISSUE_RESOLVED: (CONTEXT.c.issues > 0, {"state": CONTEXT.c.data_state, "issues": literal(0)}),
}
"""The decisions: which contexts each is about, and their new columns."""


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """The result of a decision: the number of changed contexts, and of those left because of open issues."""

    changed: int
    left: int = 0


def decide_on_contexts(
    qc: Engine, event: ContextEvent, criteria: ContextFilter, *, author: str, reason: str
) -> DecisionResult:
    """Decide on contexts.

    - DONE: they are qcdone, or nodata. Those with open issues stay as they are.
    - REOPENED: those that were done are dataadded, or dataremoved without any data.
    - ISSUE_RAISED: they have issues until that is resolved.
    - ISSUE_RESOLVED: all their open issues are resolved; they get the state of their data again.

    Raises ConfigurationError for an empty or overlong reason; the database's `unreachable` error, as `run_writing`.
    """
    require_text("reason", reason, HISTORY.c.reason)
    about, _ = _DECISIONS[event]

    def work(connection: Connection) -> DecisionResult:
        if criteria.centre is None:
            lock_all(connection)
        else:
            lock_centres(connection, [criteria.centre])
        left = 0
        if event is ContextEvent.DONE:
            blocked = select(func.count()).select_from(CONTEXT).where(criteria.condition(), CONTEXT.c.issues > 0)
            left = connection.scalar(blocked) or 0
        decision = _Decision(event, criteria.condition() & about, author[:_LONGEST_NAME], reason, utc_now())
        # A filter by state would not find the contexts again after the last of these.
        _change_issues(connection, decision)
        _add_to_history(connection, decision)
        return DecisionResult(_change_contexts(connection, decision), left)

    return run_writing(qc, work, patience_seconds=_PATIENCE_SECONDS)


class _Decision(NamedTuple):
    """A decision, and the condition on the contexts that it changes."""

    event: ContextEvent
    condition: ColumnElement[bool]
    author: str
    reason: str
    at: datetime


def _change_issues(connection: Connection, decision: _Decision) -> None:
    author, reason, at = decision.author, decision.reason, decision.at
    if decision.event is ContextEvent.ISSUE_RAISED:
        raised = select(CONTEXT.c.id, literal(reason), literal(author), literal(at)).where(decision.condition)
        connection.execute(insert(ISSUE).from_select(["context_id", "reason", "raised_by", "created"], raised))
    elif decision.event is ContextEvent.ISSUE_RESOLVED:
        is_open = ISSUE.c.resolved.is_(None)
        of_these = ISSUE.c.context_id.in_(select(CONTEXT.c.id).where(decision.condition))
        resolved = {"resolved": at, "resolved_by": author, "resolution": reason}
        connection.execute(update(ISSUE).where(is_open, of_these).values(resolved))


def _add_to_history(connection: Connection, decision: _Decision) -> None:
    _, values = _DECISIONS[decision.event]
    row: dict[str, ColumnElement[Any]] = {
        "context_id": CONTEXT.c.id,
        "event": literal(decision.event.value),
        "state": values["state"],
        "measurements": CONTEXT.c.measurements,
        "checksum": CONTEXT.c.checksum,
        "document_id": null(),
        "author": literal(decision.author),
        "reason": literal(decision.reason),
        "created": literal(decision.at),
    }
    connection.execute(insert(HISTORY).from_select(list(row), select(*row.values()).where(decision.condition)))


def _change_contexts(connection: Connection, decision: _Decision) -> int:
    """Give the contexts their new columns; returns how many they are."""
    _, values = _DECISIONS[decision.event]
    # MySQL and MariaDB assign from left to right, and later assignments see earlier ones: the state comes first.
    ordered = [(CONTEXT.c[name], value) for name, value in values.items()]
    changed = update(CONTEXT).where(decision.condition).ordered_values(*ordered, (CONTEXT.c.changed, decision.at))
    return connection.execute(changed).rowcount


# Nested, so that documents are looked up by the open contexts, however few they are.
_OPEN_CONTEXTS: Final = select(CONTEXT.c.id).where(CONTEXT.c.state.not_in([state.value for state in SETTLED]))
_WITH_OPEN: Final = select(SHARE.c.document_id).where(SHARE.c.context_id.in_(_OPEN_CONTEXTS))
_OPEN: Final = select(DOCUMENT.c.tracker_id).where(DOCUMENT.c.id.in_(_WITH_OPEN), DOCUMENT.c.tracker_id.is_not(None))


def open_documents(connection: Connection) -> set[int]:
    """The documents with measurements in a context that is not done, by the ids of their `xml_file`.

    Documents without a tracker are left out.
    """
    return set(connection.scalars(_OPEN))
