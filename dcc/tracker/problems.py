"""What is wrong with archives and documents, as the tracker's logs keep it: facts, and their English words beside."""

from __future__ import annotations

from typing import Any, Final

from dcc.messages import Message, message_from_json, message_to_json
from dcc.outcomes import Problem
from dcc.tracker.models import AnException, XmlLog, ZipActionLog, ZipLog
from dcc.vocabulary import Severity

NOT_FAILING: Final = (Severity.WARNING.value, Severity.UNCHECKED.value)
"""The severities of what fails no document."""

KIND: Final = AnException.short_name.label("kind")
OF_DOCUMENT: Final = (
    KIND,
    XmlLog.message,
    XmlLog.line,
    XmlLog.col,
    XmlLog.code,
    XmlLog.details,
    XmlLog.severity,
)
"""The columns that a problem of a document is made of."""
OF_DOWNLOAD: Final = (KIND, ZipLog.message, ZipLog.code, ZipLog.details)
"""The columns that a problem of a download is made of."""
OF_ACTION: Final = (KIND, ZipActionLog.message, ZipActionLog.code, ZipActionLog.details)
"""The columns that a problem of a zip action is made of."""


def problem_of(row: Any) -> Problem:
    """The problem of a row with such columns."""
    severity = Severity(getattr(row, "severity", None) or Severity.ERROR)
    said = message_from_json(row.details, row.message or "")
    return Problem(row.kind, said, getattr(row, "line", None), getattr(row, "col", None), row.code or "", severity)


def problem_columns(problem: Problem) -> dict[str, Any]:
    """What a log keeps of a problem, beside its kind and its place."""
    return {
        "message": problem.message,
        "code": problem.code or None,
        "details": message_to_json(problem.fact),
    }


def message_columns(message: Message | str) -> dict[str, str | None]:
    """What a log keeps of a message."""
    if isinstance(message, str):
        return {"message": message, "details": None}
    return {"message": str(message), "details": message_to_json(message)}
