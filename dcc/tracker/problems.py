"""Problems of archives and documents in the tracker's logs: facts, with their English words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from sqlalchemy import Connection, Select, false, func, select

from dcc.messages import Message, message_from_json, message_to_json
from dcc.outcomes import NOTES, Problem
from dcc.tracker.models import AnException, XmlFile, XmlLog, ZipActionLog, ZipLog
from dcc.tracker.submission_rows import group_pairs, newest_downloads
from dcc.vocabulary import Severity

NOT_FAILING: Final = (Severity.WARNING.value, Severity.UNCHECKED.value)
_FAILS: Final = ~func.coalesce(XmlLog.severity.in_(NOT_FAILING), false())
FAILS_DOCUMENT: Final = _FAILS & AnException.short_name.not_in(NOTES)
"""Whether an entry of `xml_log`, joined with its kind, fails its document; one without a severity does."""

KIND: Final = AnException.short_name.label("kind")
OF_DOCUMENT: Final = (KIND, XmlLog.message, XmlLog.line, XmlLog.col, XmlLog.code, XmlLog.details, XmlLog.severity)
OF_DOWNLOAD: Final = (KIND, ZipLog.message, ZipLog.code, ZipLog.details)
OF_ACTION: Final = (KIND, ZipActionLog.message, ZipActionLog.code, ZipActionLog.details)


def problem_of(row: Any) -> Problem:
    """The problem of a row with such columns."""
    severity = Severity(getattr(row, "severity", None) or Severity.ERROR)
    text = message_from_json(row.details, row.message or "")
    return Problem(row.kind, text, getattr(row, "line", None), getattr(row, "col", None), row.code or "", severity)


def entries_that_hold(*columns: Any) -> Select[*tuple[Any, ...]]:
    """The entries in documents' logs that hold at present, with their kinds: `xml_id`, and these columns."""
    return (
        select(XmlLog.xml_id, *columns)
        .join(AnException, AnException.id == XmlLog.exception_id)
        .where(XmlLog.cleared.is_(None))
    )


def submissions_with_entries(za_ids: Select[Any]) -> Select[tuple[int]]:
    """The submission of each entry that holds in the logs of documents of its latest download: `za_id`.

    Of the submissions of a query of ids.
    """
    latest = newest_downloads(za_ids)
    return (
        select(latest.c.za_id)
        .join(XmlFile, XmlFile.download_id == latest.c.download_id)
        .join(XmlLog, XmlLog.xml_id == XmlFile.id)
        .join(AnException, AnException.id == XmlLog.exception_id)
        .where(XmlLog.cleared.is_(None))
    )


def document_problems(connection: Connection, download_ids: Collection[int]) -> Mapping[int, list[Problem]]:
    """The problems of the documents of downloads that hold at present, by the ids of documents, in document order."""
    of_downloads = XmlFile.download_id.in_(download_ids)
    query = entries_that_hold(*OF_DOCUMENT).join(XmlFile, XmlFile.id == XmlLog.xml_id).where(of_downloads)
    rows = connection.execute(query.order_by(XmlLog.id))
    return group_pairs((row.xml_id, problem_of(row)) for row in rows)


def problem_columns(problem: Problem) -> dict[str, Any]:
    """The columns of a log for a problem, besides its kind and its place."""
    return {"code": problem.code or None} | message_columns(problem.fact)


def message_columns(message: Message) -> dict[str, str | None]:
    """The columns of a log for a message."""
    return {"message": str(message), "details": message_to_json(message)}
