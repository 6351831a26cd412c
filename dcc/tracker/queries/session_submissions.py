"""The submissions of a session: those that it saw first, downloaded or took further."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, literal, or_, select

from dcc.databases.columns import UtcDateTime
from dcc.outcomes import NO_ROOM, Problem, SubmissionKey
from dcc.phases import Phase, Status
from dcc.runtime.clock import utc_now
from dcc.tracker.crawls import SessionEntry
from dcc.tracker.models import (
    AnException,
    Centre,
    FileSource,
    FileSourceHasZip,
    ZipAction,
    ZipDownload,
    ZipFile,
    ZipLog,
)
from dcc.tracker.problems import problem_of
from dcc.tracker.queries.state_counts import StateCount, count_documents, select_entries
from dcc.tracker.queries.submission_filters import OLDEST_FIRST, submission_query
from dcc.tracker.states import EXTRACTING, WAITING
from dcc.tracker.submission_rows import (
    KEY,
    group_pairs,
    is_at,
    is_on_source_of,
    named_after,
    newest_downloads,
    object_of,
    submission_key_of,
)


@dataclass(frozen=True, slots=True)
class SessionSubmission:
    """A submission with its present state.

    `centre` is that of its name, None without one; `hosts` are the centres of all its sources so far.
    """

    key: SubmissionKey
    centre: str | None
    hosts: tuple[str, ...]
    phase: Phase
    status: Status


def session_submissions(connection: Connection, session: SessionEntry) -> list[SessionSubmission]:
    """The submissions of a session, oldest first: those whose state changed, or that it downloaded, while it ran.

    The tracker has only the time of the last change: a submission that a later session changed belongs to that one.
    """
    touched = session_submission_ids(connection, session)
    hosting = (
        select(FileSourceHasZip.za_id, Centre.short_name)
        .join(FileSource, FileSource.id == FileSourceHasZip.file_source_id)
        .join(Centre, Centre.id == FileSource.centre_id)
        .where(FileSourceHasZip.za_id.in_(touched))
        .order_by(FileSourceHasZip.id)
    )
    hosts = group_pairs(connection.execute(hosting))
    query = submission_query().where(ZipAction.id.in_(touched)).order_by(*OLDEST_FIRST)
    return [
        object_of(SessionSubmission, row, hosts=tuple(dict.fromkeys(hosts[row.id])))
        for row in connection.execute(query)
    ]


def count_session_submissions(connection: Connection, session: SessionEntry) -> dict[Status, int]:
    """The number of a session's submissions in each status; see `session_submissions`."""
    query = (
        select(ZipAction.status_id, func.count())
        .where(ZipAction.id.in_(session_submission_ids(connection, session)))
        .group_by(ZipAction.status_id)
    )
    return dict(iter(connection.execute(query)))


def session_document_states(connection: Connection, session: SessionEntry) -> list[StateCount]:
    """The number of documents of these submissions in each state: those of their latest downloads."""
    return count_documents(connection, session_submission_ids(connection, session))


def session_entries(
    connection: Connection, session: SessionEntry, kinds: Sequence[str]
) -> dict[SubmissionKey, list[tuple[str, Problem]]]:
    """The active log entries of certain kinds for documents of these submissions, with file names."""
    query = select_entries(kinds).where(ZipAction.id.in_(session_submission_ids(connection, session)))
    return group_pairs((submission_key_of(row), (row.fname, problem_of(row))) for row in connection.execute(query))


def submissions_without_room(connection: Connection) -> list[tuple[SubmissionKey, str]]:
    """The submissions that wait because a disk of the platform was full at their latest attempt, with the reason."""
    latest = newest_downloads()
    query = (
        select(*KEY, ZipLog.message)
        .select_from(ZipLog)
        .join(AnException)
        .join(latest, latest.c.download_id == ZipLog.download_id)
        .join(ZipAction, ZipAction.id == latest.c.za_id)
        .join(ZipFile)
        .where(AnException.short_name == NO_ROOM, is_at(ZipAction, WAITING, EXTRACTING))
        .order_by(ZipLog.id)
    )
    return list({submission_key_of(row): row.message or "" for row in connection.execute(query)}.items())


def session_submission_ids(connection: Connection, session: SessionEntry) -> Select[Any]:
    """A query of the ids of the session's submissions: see `session_submissions`."""
    began, ended = session.started, session.finished or utc_now()
    ahead = _database_ahead(connection)
    downloaded = select(FileSourceHasZip.za_id).join(ZipDownload).where(ZipDownload.request.between(began, ended))
    # SQLite compares texts, and only this type binds times as the database wrote them.
    first, last = (literal(moment + ahead, UtcDateTime()) for moment in (began, ended))
    changed = ZipAction.last_update.between(first, last)
    touched = select(ZipAction.id).where(or_(changed, ZipAction.id.in_(downloaded)))
    return touched if session.centres is None else touched.where(of_centres(session.centres))


def of_centres(centres: Collection[str]) -> ColumnElement[bool]:
    """Whether a submission is of one of the centres: by its name, or without one by its source."""
    unnamed = select(ZipFile.id).where(ZipFile.centre_id.is_(None))
    return or_(named_after(centres), and_(ZipAction.zip_id.in_(unnamed), is_on_source_of(centres)))


def _database_ahead(connection: Connection) -> timedelta:
    """How far the database's clock, which dates changes, is ahead of this machine's."""
    now = connection.execute(select(func.current_timestamp())).scalar_one()
    database_time = now if isinstance(now, datetime) else datetime.fromisoformat(str(now))
    ahead = database_time.replace(tzinfo=None, microsecond=0) - utc_now()
    # Both are in whole seconds: a difference of one is none.
    return ahead if abs(ahead) > timedelta(seconds=1) else timedelta()
