"""The tracking board: how many archives of each centre are in which state, and which they are, a page at a time.

Each is a few statements, for any number of archives. Nothing here writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, func, select

from dcc.outcomes import Problem, SubmissionKey
from dcc.phases import Phase, Status
from dcc.tracker.decisions import Decision, decisions_in_force
from dcc.tracker.models import StatusRow, ZipAction, ZipFile
from dcc.tracker.queries.submission_filters import SubmissionFilter, centre_of_selected, conditions_of, submission_query
from dcc.tracker.queries.submission_lists import failure_reasons
from dcc.tracker.register.centres import require_centre
from dcc.tracker.submission_rows import object_of, with_archives

PAGE_SIZE: Final = 100


@dataclass(frozen=True, slots=True)
class Cell:
    """How many archives of a centre are in a state; `centre` is empty for archives whose centre is not known.

    `only` is the archive where there is one alone.
    """

    centre: str
    phase: Phase
    status: Status
    count: int
    only: SubmissionKey | None = None


@dataclass(frozen=True, slots=True)
class BoardSubmission:
    """A submission on the board; `since` is the time of its last change (UTC, naive), `decisions` those that hold.

    `reason` is why it failed.
    """

    id: int
    key: SubmissionKey
    centre: str
    phase: Phase
    status: Status
    since: datetime
    decisions: tuple[Decision, ...] = ()
    reason: Problem | None = None


def count_cells(connection: Connection, criteria: SubmissionFilter) -> list[Cell]:
    """The cells that are not empty, by centre, phase and status. Raises NotFoundError for an unknown centre."""
    if criteria.centre:
        require_centre(connection, criteria.centre)
    state = ZipAction.phase_id, ZipAction.status_id
    one = func.min(ZipAction.todo_id), func.min(ZipFile.file_name)
    counted = select(centre_of_selected(criteria).label("centre"), *state, func.count(), *one).select_from(ZipAction)
    query = with_archives(counted).where(*conditions_of(criteria)).group_by("centre", *state)
    cells = []
    for centre, phase, status, count, action, name in connection.execute(query):
        only = SubmissionKey(action, name) if count == 1 else None
        cells.append(Cell(centre or "", phase, status, count, only))
    return sorted(cells, key=lambda cell: (not cell.centre, cell.centre, cell.phase, cell.status))


def submissions_on_page(connection: Connection, criteria: SubmissionFilter, page: int) -> list[BoardSubmission]:
    """The archives that a filter selects, those that came last first: of page `page`, from 1."""
    listed = submission_query().add_columns(centre_of_selected(criteria).label("of_centre"))
    query = listed.where(*conditions_of(criteria)).order_by(ZipAction.id.desc())
    rows = connection.execute(query.limit(PAGE_SIZE).offset((page - 1) * PAGE_SIZE)).all()
    decisions = decisions_in_force(connection, [row.id for row in rows])
    reasons = failure_reasons(connection, [row.id for row in rows if row.status_id == Status.FAILED])
    return [
        object_of(
            BoardSubmission,
            row,
            centre=row.of_centre or "",
            since=row.last_update,
            decisions=tuple(decisions.get(row.id, ())),
            reason=reasons.get(row.id),
        )
        for row in rows
    ]


def status_colours(connection: Connection) -> dict[Status, str]:
    """The colours that the tracker gives the statuses, as `#rrggbb`."""
    rows = connection.execute(select(StatusRow.id, StatusRow.rgba).where(StatusRow.id.in_([int(s) for s in Status])))
    return {Status(number): f"#{rgba[:6]}" for number, rgba in rows}
