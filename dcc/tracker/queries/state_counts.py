"""How many submissions and documents are in each state, and the documents that wait for confirmation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, func, select

from dcc.outcomes import HELD, SubmissionKey
from dcc.phases import Phase, Status
from dcc.tracker.models import AnException, FileSourceHasZip, XmlFile, XmlLog, ZipAction, ZipDownload, ZipFile
from dcc.tracker.problems import OF_DOCUMENT
from dcc.tracker.submission_rows import DOCUMENTS_COUNT, KEY, LATEST_OF_SUBMISSION, newest_downloads, submission_key_of

_AnySelect = Select[*tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class StateCount:
    """The number of submissions or documents in one state."""

    phase: Phase
    status: Status
    count: int


def count_submission_states(connection: Connection) -> list[StateCount]:
    """The number of submissions in each state, along the pipeline; states without any are left out."""
    return _counts(connection, select(ZipAction.phase_id, ZipAction.status_id, func.count()))


def count_documents(connection: Connection, za_ids: Select[Any] | None = None) -> list[StateCount]:
    """The number of documents that count in each state: those of the latest downloads of submissions, all or those of a
    query.
    """
    latest = newest_downloads(za_ids)
    query = select(XmlFile.phase_id, XmlFile.status_id, func.count())
    query = query.join(latest, latest.c.download_id == XmlFile.download_id)
    return _counts(connection, query.join(ZipAction, ZipAction.id == latest.c.za_id).where(DOCUMENTS_COUNT))


def _counts(connection: Connection, query: _AnySelect) -> list[StateCount]:
    state = tuple(query.selected_columns)[:2]
    rows = connection.execute(query.group_by(*state).order_by(*state))
    return [StateCount(*row) for row in rows]


class HeldDocument(NamedTuple):
    """A document that waits for confirmation, with its submission, and why."""

    key: SubmissionKey
    file_name: str
    message: str


def held_documents(connection: Connection) -> list[HeldDocument]:
    """The documents that wait for confirmation; oldest first."""
    query = select_entries([HELD]).where(DOCUMENTS_COUNT)
    return [HeldDocument(submission_key_of(row), row.fname, row.message or "") for row in connection.execute(query)]


def select_entries(kinds: Sequence[str]) -> _AnySelect:
    """The active log entries of certain kinds for documents of latest downloads: key, file name, and the problem."""
    return (
        select(*KEY, XmlFile.fname, *OF_DOCUMENT)
        .select_from(XmlLog)
        .join(AnException)
        .join(XmlFile)
        .join(ZipDownload, ZipDownload.id == XmlFile.download_id)
        .join(FileSourceHasZip)
        .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
        .join(ZipFile)
        .where(AnException.short_name.in_(kinds), XmlLog.cleared.is_(None), ZipDownload.id == LATEST_OF_SUBMISSION)
        .order_by(XmlLog.id)
    )
