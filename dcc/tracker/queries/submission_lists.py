"""Lists of submissions: as filters select them, with their states and why they failed, and as people name them.

Every query is a fixed number of statements, for any number of archives. Nothing here writes. `tracker.crawls` has the
queries about crawls and sessions, `submission_stories` those about one submission.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from dcc.databases.list_parameters import IDS, rows_about, rows_with
from dcc.errors import ConfigurationError, NotFoundError
from dcc.naming import Action
from dcc.outcomes import Problem, SubmissionKey
from dcc.phases import Phase, State, Status
from dcc.tracker.decisions import is_acknowledged, is_on_hold
from dcc.tracker.hostings.changed_archives import is_loaded
from dcc.tracker.models import AnException, FileSourceHasZip, XmlFile, XmlLog, ZipAction, ZipActionLog, ZipFile, ZipLog
from dcc.tracker.problems import FAILS_DOCUMENT, OF_ACTION, OF_DOCUMENT, OF_DOWNLOAD, problem_of
from dcc.tracker.queries.submission_filters import (
    OLDEST_FIRST,
    SubmissionFilter,
    centre_of_selected,
    conditions_of,
    selected_ids,
    submission_query,
)
from dcc.tracker.register.centres import require_centre
from dcc.tracker.states import NOT_ARRIVED
from dcc.tracker.submission_rows import group_pairs, newest_downloads, object_of

_AnySelect = Select[*tuple[Any, ...]]
_NAMED = 3


@dataclass(frozen=True, slots=True)
class SubmissionEntry:
    """A submission: `centre` None without one in its name, `sources` the ids of those that host it now.

    `counts_for`: its centre or, where its name tells none, that on whose source it is now. `since` is the time of its
    last change (UTC, naive). `contact` is the e-mail addresses of its centre or, where its name has none, of the one
    whose source it is on, and `reason` why it failed. The latter two may be None. `on_hold`: sessions leave it alone.
    """

    file_name: str
    action: Action
    centre: str | None
    phase: Phase
    status: Status
    sources: tuple[int, ...]
    size_bytes: int | None
    since: datetime
    contact: str | None = None
    reason: Problem | None = None
    on_hold: bool = False
    counts_for: str | None = None

    @property
    def is_tried_again(self) -> bool:
        """Whether sessions try again what failed or was not finished."""
        state = State(self.phase, self.status)
        return not self.on_hold and (not state.failed or state in NOT_ARRIVED)


def find_submissions(
    connection: Connection, criteria: SubmissionFilter | None = None, *, with_reasons: bool = False
) -> list[SubmissionEntry]:
    """The submissions that a filter selects, oldest first: by date and increment of their names.

    `with_reasons` reads why failed ones failed.

    Raises NotFoundError for a centre that is not registered.
    """
    criteria = criteria or SubmissionFilter()
    if criteria.centre:
        require_centre(connection, criteria.centre)
    conditions = conditions_of(criteria)
    hosting = (
        select(FileSourceHasZip.za_id, FileSourceHasZip.file_source_id)
        .where(FileSourceHasZip.gone_since.is_(None))
        .order_by(FileSourceHasZip.file_source_id)
    )
    if conditions:
        hosting = hosting.where(FileSourceHasZip.za_id.in_(selected_ids(criteria)))
    hosts = group_pairs(connection.execute(hosting))
    counts_for = centre_of_selected(criteria).label("counts_for")
    listed = submission_query().add_columns(is_on_hold().label("on_hold"), counts_for)
    rows = connection.execute(listed.where(*conditions).order_by(*OLDEST_FIRST)).all()
    explained = [row.id for row in rows if criteria.faulty or row.status_id == Status.FAILED]
    failed = explained if with_reasons else []
    reasons = failure_reasons(connection, failed)
    return [
        object_of(
            SubmissionEntry,
            row,
            action=row.todo_id,
            sources=tuple(hosts[row.id]),
            since=row.last_update,
            contact=row.contact or None,
            reason=reasons.get(row.id),
        )
        for row in rows
    ]


def failure_reasons(connection: Connection, za_ids: Sequence[int]) -> dict[int, Problem]:
    """Why submissions failed: the first active error of a document, else the last entry on its archive or itself.

    The documents are those that failed in the earliest phase, as the submission did. Of the latest download, by the ids
    of submissions; three statements for each chunk of them.
    """
    latest = newest_downloads()
    about_itself = (
        select(ZipActionLog.za_id, *OF_ACTION)
        .join(AnException)
        .where(ZipActionLog.za_id.in_(IDS))
        .order_by(ZipActionLog.id)
    )
    about_archive = (
        select(latest.c.za_id, *OF_DOWNLOAD)
        .join(ZipLog, ZipLog.download_id == latest.c.download_id)
        .join(AnException)
        .where(latest.c.za_id.in_(IDS))
        .order_by(ZipLog.id)
    )
    # Of a document there may be thousands.
    first_errors = (
        select(latest.c.za_id, XmlFile.phase_id, func.min(XmlLog.id).label("log_id"))
        .join(XmlFile, XmlFile.download_id == latest.c.download_id)
        .join(XmlLog)
        .join(AnException)
        .where(latest.c.za_id.in_(IDS), XmlLog.cleared.is_(None), XmlFile.status_id == Status.FAILED)
        .where(FAILS_DOCUMENT)
        .group_by(latest.c.za_id, XmlFile.phase_id)
        .subquery()
    )
    # The last of a submission is kept.
    about_documents = (
        select(first_errors.c.za_id, *OF_DOCUMENT)
        .join(XmlLog, XmlLog.id == first_errors.c.log_id)
        .join(AnException)
        .order_by(first_errors.c.phase_id.desc())
    )
    reasons: dict[int, Problem] = {}
    for query in (about_itself, about_archive, about_documents):
        for row in rows_about(connection, query, za_ids):
            problem = problem_of(row)
            if problem.is_error:
                reasons[row.za_id] = problem
    return reasons


@dataclass(frozen=True, slots=True)
class SelectedSubmission:
    """A submission that a person selected, with its state; `loaded`: documents of it came to the QC database."""

    id: int
    key: SubmissionKey
    phase: Phase
    status: Status
    on_hold: bool
    acknowledged: bool
    loaded: bool

    @property
    def is_stopped(self) -> bool:
        """Whether it failed, was cancelled, or is left alone by sessions."""
        return self.on_hold or self.status in (Status.FAILED, Status.CANCELLED)


def select_submissions(
    connection: Connection, criteria: SubmissionFilter, names: Sequence[str] | None = None
) -> list[SelectedSubmission]:
    """The submissions that a filter selects, oldest first; with `names`, of these alone.

    A name is `<action>/<archive>`, or the archive's alone where it has one submission. Raises NotFoundError for a name
    that the tracker does not know and for an unknown centre, ConfigurationError for an archive with several.
    """
    if criteria.centre:
        require_centre(connection, criteria.centre)
    facts = is_on_hold().label("on_hold"), is_acknowledged().label("acknowledged")
    query = submission_query().add_columns(*facts, is_loaded(ZipAction.id).label("loaded"))
    query = query.where(*conditions_of(criteria)).order_by(*OLDEST_FIRST)
    rows = connection.execute(query) if names is None else _rows_named(connection, query, names)
    return [object_of(SelectedSubmission, row) for row in rows]


def _rows_named(connection: Connection, query: _AnySelect, names: Sequence[str]) -> Iterator[Row[Any]]:
    of_archives: dict[str, set[str]] = {}
    for name in names:
        action, slash, archive = name.partition("/")
        of_archives.setdefault(archive if slash else action, set()).add(action if slash else "")
    listed = select(ZipFile.file_name, ZipAction.todo_id).join(ZipAction)
    rows = rows_with(connection, listed, ZipFile.file_name, of_archives)
    known = group_pairs(rows)
    wanted: dict[str, set[str]] = {}
    unknown: list[str] = []
    for archive, actions in of_archives.items():
        if "" in actions and len(known[archive]) > 1:
            several = ", ".join(f"{action}/{archive}" for action in known[archive])
            raise ConfigurationError(f"{archive!r} names several submissions: {several}. Name one of them.")
        wanted[archive] = set(known[archive][:1] if "" in actions else ()) | (actions - {""})
        unknown += [f"{action}/{archive}" for action in sorted(wanted[archive] - set(known[archive]))]
        unknown += [archive] if not wanted[archive] else []
    if unknown:
        more = f" and {len(unknown) - _NAMED:,} more" if len(unknown) > _NAMED else ""
        raise NotFoundError(f"The tracker knows no {', '.join(unknown[:_NAMED])}{more}. Look for it with: dcc zips")
    for row in rows_with(connection, query, ZipFile.file_name, wanted):
        if row.todo_id in wanted[row.file_name]:
            yield row


def actions_of_archive(connection: Connection, file_name: str) -> list[Action]:
    """The actions of an archive with that name; none if there is no such archive."""
    query = select(ZipAction.todo_id).join(ZipFile)
    return list(connection.scalars(query.where(ZipFile.file_name == file_name).order_by(ZipAction.todo_id)))
