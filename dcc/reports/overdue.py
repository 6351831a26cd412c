"""What ought to have happened by now: sources not crawled, centres that are silent, submissions that are not through.

Each is one statement over the tracker, whatever the number of archives; how long each may take is a setting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Final

from sqlalchemy import ColumnElement, Connection, ScalarSelect, and_, case, exists, func, or_, select, type_coerce
from sqlalchemy.orm import aliased

from dcc.databases.columns import UtcDateTime
from dcc.outcomes import CrawlOutcome, SubmissionKey, source_partition
from dcc.phases import Phase, Status
from dcc.settings import Settings
from dcc.sources.crawl_policy import CrawlDue, overdue_at
from dcc.tracker.decisions import is_acknowledged, is_on_hold
from dcc.tracker.hostings.foreign_archives import is_declined
from dcc.tracker.models import Centre, FileSource, FileSourceHasZip, SourceCrawlRow, ZipAction, ZipDownload, ZipFile
from dcc.tracker.register.source_addresses import in_use
from dcc.tracker.register.source_schedules import load_crawl_dues
from dcc.tracker.states import WAITING
from dcc.tracker.submission_rows import is_at
from dcc.vocabulary import SourceState

NAMED: Final = 50
"""The most submissions of a centre that are named, of those that wait and of those that failed."""

_LEAST_SILENT_DAYS: Final = 7
_TIMES_USUAL: Final = 5
_LEAST_TIMES_USUAL: Final = 2
_LEAST_GAPS, _FEW_GAPS, _LAST_GAPS, _LAST_NAMES = 10, 3, 20, 200


@dataclass(frozen=True, slots=True)
class CrawledSource:
    """A file source that must be crawled: when it last was wholly listed; None for never.

    `since` is when it was listed, or else registered. `overdue`: that is too long ago, paused or not.
    `is_tried`: since then, sessions have tried not so long ago. `due` says whether and why it is left alone at present.
    """

    source_id: int
    partition: str
    centre: str
    listed: datetime | None
    since: datetime
    overdue: bool
    is_tried: bool
    due: CrawlDue


@dataclass(frozen=True, slots=True)
class CentreActivity:
    """An active centre with file sources: when it last submitted an archive by a name that was new.

    `within_days` is how long it may be silent: DCC_CENTRE_SILENT_DAYS, or less for one that usually submits more often,
    and more for one that usually submits less often.

    `heard` is None where it never did, `since` then when its first source was registered. `silent`: too long ago.
    """

    centre: str
    heard: datetime | None
    since: datetime
    silent: bool
    within_days: int


@dataclass(frozen=True, slots=True)
class LateSubmission:
    """A submission that is not through in time; `since` is when a source first listed it."""

    key: SubmissionKey
    phase: Phase
    status: Status
    since: datetime


@dataclass(slots=True)
class LateCentre:
    """The submissions of a centre that are not through in time.

    `failed` counts those that failed and are still on a file source: their centre corrects or removes them. `waiting`
    counts the others, which wait for the platform, a source or the DCC. `zips` names the first `NAMED` that wait, then
    the first that failed.
    """

    failed: int = 0
    waiting: int = 0
    zips: list[LateSubmission] = field(default_factory=list)


def crawled_sources(connection: Connection, settings: Settings, now: datetime) -> list[CrawledSource]:
    """All available file sources of active centres, and which of them is overdue.

    That is DCC_CRAWL_OVERDUE_HOURS after it was listed, or should have been by its own schedule.
    """
    before = now - timedelta(hours=settings.crawl_overdue_hours)
    query = (
        select(
            FileSource.id,
            Centre.short_name,
            FileSource.created,
            _last_crawl(SourceCrawlRow.outcome == CrawlOutcome.OK).label("listed"),
            _last_crawl().label("tried"),
        )
        .join(Centre, Centre.id == FileSource.centre_id)
        .where(FileSource.state_id == SourceState.AVAILABLE, Centre.is_active.is_(True))
        .order_by(FileSource.id)
    )
    dues = load_crawl_dues(connection, settings.source_failure_limit, now)
    found = []
    for source_id, centre, created, listed, tried in connection.execute(query):
        since = listed or created
        partition = source_partition(centre, source_id)
        is_tried = tried is not None and tried >= before
        due = dues[source_id]
        overdue = overdue_at(due.policy, since, now - before) < now
        found.append(CrawledSource(source_id, partition, centre, listed, since, overdue, is_tried, due))
    return found


def _last_crawl(*conditions: ColumnElement[bool]) -> ScalarSelect[datetime]:
    return (
        select(type_coerce(SourceCrawlRow.finish_time, UtcDateTime()))
        .where(SourceCrawlRow.file_source_id == FileSource.id, *conditions)
        .order_by(SourceCrawlRow.id.desc())
        .limit(1)
        .correlate(FileSource)
        .scalar_subquery()
    )


def activity_of_centres(connection: Connection, settings: Settings, now: datetime) -> list[CentreActivity]:
    """All active centres with available file sources, and which of them is silent.

    That is after DCC_CENTRE_SILENT_DAYS; sooner if `_TIMES_USUAL` times the usual days between two of its submissions
    are less, and later if `_LEAST_TIMES_USUAL` times these are more.
    """
    newest = (
        select(ZipFile.id)
        .where(ZipFile.centre_id == Centre.id)
        .order_by(ZipFile.id.desc())
        .limit(1)
        .correlate(Centre)
        .scalar_subquery()
    )
    centres = (
        select(Centre.short_name, func.min(FileSource.created).label("created"), newest.label("newest"))
        .join(FileSource, FileSource.centre_id == Centre.id)
        .where(in_use())
        .group_by(Centre.id, Centre.short_name)
        .subquery()
    )
    query = (
        select(centres.c.short_name, centres.c.created, func.min(_first_seen()))
        .outerjoin(ZipAction, ZipAction.zip_id == centres.c.newest)
        .outerjoin(FileSourceHasZip, FileSourceHasZip.za_id == ZipAction.id)
        .outerjoin(ZipDownload, ZipDownload.zf_id == FileSourceHasZip.id)
        .group_by(centres.c.short_name, centres.c.created)
        .order_by(centres.c.short_name)
    )
    found = []
    for centre, created, latest in connection.execute(query).all():
        since, within = latest or created, settings.centre_silent_days
        if latest is not None and since < now - timedelta(days=_LEAST_SILENT_DAYS):
            within = _within(_gaps(connection, centre), within)
        # Not as a date, which may lie before all dates: the days come from names that centres give.
        silent = now - since > timedelta(days=within)
        found.append(CentreActivity(centre, latest, since, silent, within))
    return found


def _within(gaps: Sequence[int], setting: int) -> int:
    """The days after which a silence is unusual, by the days between earlier submissions.

    Few of them are enough to wait longer than the setting says, not to wait less long.
    """
    if len(gaps) < _FEW_GAPS:
        return setting
    usual = median(gaps[-_LAST_GAPS:])
    soonest = int(_TIMES_USUAL * usual) if len(gaps) >= _LEAST_GAPS else setting
    return max(min(setting, soonest), int(_LEAST_TIMES_USUAL * usual), _LEAST_SILENT_DAYS)


def _gaps(connection: Connection, centre: str) -> list[int]:
    """The days between the last submissions of a centre, by the days in its archives' names."""
    last = (
        select(ZipFile.created)
        .join(Centre, Centre.id == ZipFile.centre_id)
        .where(Centre.short_name == centre, ZipFile.created.is_not(None))
        .order_by(ZipFile.id.desc())
        .limit(_LAST_NAMES)
    )
    days = sorted({day for day in connection.scalars(last) if day is not None})
    return [(later - earlier).days for earlier, later in pairwise(days)]


def _first_seen() -> ColumnElement[datetime]:
    """When a source first listed a submission; of an earlier version's rows, when it was asked for, or last changed."""
    listed = FileSourceHasZip.first_listed
    return type_coerce(func.coalesce(listed, ZipDownload.request, ZipAction.last_update), UtcDateTime())


def late_centres(connection: Connection, settings: Settings, now: datetime) -> Mapping[str, LateCentre]:
    """The centres with submissions that are not through in time (DCC_OVERDUE_DAYS), by their codes.

    Through are those that sessions are done with, and those that wait for quality control alone. What failed, or waits
    for its download, counts while a file source still has it. What was withdrawn or declined does not, nor what is
    refused by its name, which tells no centre.
    """
    before = now - timedelta(days=settings.overdue_days)
    since = func.min(_first_seen())
    hosting = aliased(FileSourceHasZip)
    hosted = exists().where(hosting.za_id == ZipAction.id, hosting.gone_since.is_(None))
    failed, waits = ZipAction.status_id == Status.FAILED, is_at(ZipAction, WAITING)
    query = (
        select(ZipAction.todo_id, ZipFile.file_name, Centre.short_name, ZipAction.phase_id, ZipAction.status_id, since)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .join(Centre, Centre.id == ZipFile.centre_id)
        .outerjoin(FileSourceHasZip, FileSourceHasZip.za_id == ZipAction.id)
        .outerjoin(ZipDownload, ZipDownload.zf_id == FileSourceHasZip.id)
        .where(_not_through(settings), or_(~failed & ~waits, hosted), ~and_(waits, is_declined()))
        .group_by(
            ZipAction.id,
            ZipAction.todo_id,
            ZipFile.file_name,
            Centre.short_name,
            ZipAction.phase_id,
            ZipAction.status_id,
        )
        .having(since < before)
        .order_by(case((failed, 1), else_=0), ZipAction.id)
    )
    late: dict[str, LateCentre] = {}
    for action, name, centre, phase, status, first_seen in connection.execute(query):
        of_centre = late.setdefault(centre, LateCentre())
        if status == Status.FAILED:
            of_centre.failed += 1
            number = of_centre.failed
        else:
            of_centre.waiting += 1
            number = of_centre.waiting
        if number <= NAMED:
            key = SubmissionKey(action, name)
            of_centre.zips.append(LateSubmission(key, phase, status, first_seen))
    return late


def _not_through(settings: Settings) -> ColumnElement[bool]:
    until = settings.last_phase
    waits = or_(ZipAction.phase_id < until, and_(ZipAction.phase_id == until, ZipAction.status_id < Status.DONE))
    failed = ZipAction.status_id == Status.FAILED
    return and_(
        ZipAction.phase_id < Phase.QC,
        ZipAction.status_id != Status.CANCELLED,
        or_(waits, failed),
        ~is_acknowledged(),
        ~is_on_hold(),
    )
