"""The submissions of a session: those that it saw first, downloaded or took further."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, func, or_, select

from dcc.databases.columns import UtcDateTime
from dcc.databases.list_parameters import these_numbers
from dcc.outcomes import NO_ROOM, Problem, SubmissionKey
from dcc.phases import Phase, Status
from dcc.runtime.clock import utc_now
from dcc.tracker.crawls import SessionEntry
from dcc.tracker.decisions import is_hosted
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
from dcc.tracker.queries.state_counts import select_entries
from dcc.tracker.queries.submission_filters import OLDEST_FIRST, submission_query
from dcc.tracker.states import EXTRACTING, WAITING
from dcc.tracker.submission_rows import (
    KEY,
    LATEST_OF_SUBMISSION,
    group_pairs,
    is_at,
    is_on_source_of,
    named_after,
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


def session_submissions(
    connection: Connection, touched: Select[Any], *conditions: ColumnElement[bool]
) -> list[SessionSubmission]:
    """The submissions of a session, of `session_submission_ids`, oldest first: those for which conditions hold."""
    submissions = submission_query().where(ZipAction.id.in_(touched), *conditions)
    hosting = (
        select(FileSourceHasZip.za_id, Centre.short_name)
        .join(FileSource, FileSource.id == FileSourceHasZip.file_source_id)
        .join(Centre, Centre.id == FileSource.centre_id)
        .where(FileSourceHasZip.za_id.in_(submissions.with_only_columns(ZipAction.id)))
        .order_by(FileSourceHasZip.id)
    )
    hosts = group_pairs(connection.execute(hosting))
    return [
        object_of(SessionSubmission, row, hosts=tuple(dict.fromkeys(hosts[row.id])))
        for row in connection.execute(submissions.order_by(*OLDEST_FIRST))
    ]


def count_session_submissions(connection: Connection, session: SessionEntry) -> dict[Status, int]:
    """The number of a session's submissions in each status; see `session_submission_ids`."""
    query = (
        select(ZipAction.status_id, func.count())
        .where(ZipAction.id.in_(session_submission_ids(connection, session)))
        .group_by(ZipAction.status_id)
    )
    return dict(iter(connection.execute(query)))


def session_entries(
    connection: Connection, touched: Select[Any], kinds: Sequence[str]
) -> dict[SubmissionKey, list[tuple[str, Problem]]]:
    """The active log entries of certain kinds for documents of the submissions of a query of ids, with file names."""
    query = select_entries(kinds).where(ZipAction.id.in_(touched))
    return group_pairs((submission_key_of(row), (row.fname, problem_of(row))) for row in connection.execute(query))


def submissions_without_room(connection: Connection) -> list[tuple[SubmissionKey, str]]:
    """The submissions that wait because a disk of the platform was full at their latest attempt, with the reason.

    Without those that are yet to be fetched and that no source has any more.
    """
    query = (
        select(*KEY, ZipLog.message)
        .select_from(ZipLog)
        .join(AnException)
        .join(ZipDownload, ZipDownload.id == ZipLog.download_id)
        .join(FileSourceHasZip)
        .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
        .join(ZipFile)
        .where(AnException.short_name == NO_ROOM, ZipDownload.id == LATEST_OF_SUBMISSION)
        .where(or_(is_at(ZipAction, EXTRACTING), and_(is_at(ZipAction, WAITING), is_hosted())))
        .order_by(ZipLog.id)
    )
    return list({submission_key_of(row): row.message or "" for row in connection.execute(query)}.items())


# SQLite compares texts, and only this type binds times as the database wrote them.
_CHANGED = ZipAction.last_update.between(bindparam("first", type_=UtcDateTime), bindparam("last", type_=UtcDateTime))
_DOWNLOADED = (
    select(FileSourceHasZip.za_id)
    .join(ZipDownload)
    .where(ZipDownload.request.between(bindparam("began"), bindparam("ended")))
)
_TOUCHED: Final = select(ZipAction.id).where(or_(_CHANGED, ZipAction.id.in_(_DOWNLOADED)))
_NOW: Final = select(func.current_timestamp())


def session_submission_ids(connection: Connection, session: SessionEntry) -> Select[Any]:
    """The ids of `touched_submissions`, as a query.

    They are looked for once, here: no index helps, and many statements are about them.
    """
    return these_numbers(touched_submissions(connection, session))


def touched_submissions(connection: Connection, session: SessionEntry) -> Sequence[int]:
    """The ids of a session's submissions: those whose state changed, or that it downloaded, while it ran.

    The tracker has only the time of the last change: a submission that a later session changed belongs to that one.
    """
    began, ended = session.started, session.finished or utc_now()
    ahead = _database_ahead(connection)
    given = {"began": began, "ended": ended, "first": began + ahead, "last": ended + ahead}
    wanted = _TOUCHED if session.centres is None else _TOUCHED.where(of_centres(session.centres))
    return connection.scalars(wanted, given).all()


def of_centres(centres: Collection[str]) -> ColumnElement[bool]:
    """Whether a submission is of one of the centres: by its name, or without one by its source."""
    unnamed = select(ZipFile.id).where(ZipFile.centre_id.is_(None))
    return or_(named_after(centres), and_(ZipAction.zip_id.in_(unnamed), is_on_source_of(centres)))


def _database_ahead(connection: Connection) -> timedelta:
    """How far the database's clock, which dates changes, is ahead of this machine's."""
    now = connection.execute(_NOW).scalar_one()
    database_time = now if isinstance(now, datetime) else datetime.fromisoformat(str(now))
    ahead = database_time.replace(tzinfo=None, microsecond=0) - utc_now()
    # Both are in whole seconds: a difference of one is none.
    return ahead if abs(ahead) > timedelta(seconds=1) else timedelta()
