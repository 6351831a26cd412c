"""The submissions that wait for a session, and how long they should take by what earlier sessions took."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, bindparam, func, or_, select

from dcc.outcomes import SubmissionKey
from dcc.phases import UNFAILED, Phase, State
from dcc.tracker.decisions import is_on_hold
from dcc.tracker.hostings.download_plan import at_sources_in_use, hosted
from dcc.tracker.hostings.foreign_archives import may_be_taken
from dcc.tracker.models import FileSource, FileSourceHasZip, SessionStatistics, ZipAction, ZipFile
from dcc.tracker.queries.submission_filters import OLDEST_FIRST
from dcc.tracker.states import WAITING
from dcc.tracker.submission_rows import KEY, is_at, named_after, submission_key_of

RUNS: Final = 5
"""The number of a source's last sessions that count."""


def waiting_submissions(
    connection: Connection,
    *,
    centres: Collection[str] | None = None,
    sources: Collection[int] | None = None,
    limit: int | None = None,
) -> list[SubmissionKey]:
    """The submissions that a session would process, oldest first; of archives of some `centres` alone, if given.

    Those at (zip_name, done) that an available source of an active centre hosts now, complete, wait for their download.
    `sources` are the ids of those that may be used, if not all may. Those between (zip_md5, pending) and (xsd, running)
    were left unfinished by a dead session.
    """
    obtainable = hosted(select(ZipAction.id)).where(is_at(ZipAction, WAITING), may_be_taken())
    if sources is not None:
        obtainable = obtainable.where(FileSource.id.in_(sorted(sources)))
    waiting = and_(is_at(ZipAction, WAITING), ZipAction.id.in_(obtainable))
    query = (
        select(*KEY)
        .join(ZipFile)
        .where(or_(waiting, _interrupted()), ~is_on_hold(), named_after(centres))
        .order_by(*OLDEST_FIRST)
        .limit(limit)
    )
    return [submission_key_of(row) for row in connection.execute(query)]


def _interrupted() -> ColumnElement[bool]:
    # One equality on the phase for each term: both databases then use the index on (phase_id, status_id) only.
    phases = (Phase.ZIP_MD5, Phase.UNZIP, Phase.XML_NAME, Phase.XSD)
    under_way = [State(phase, status) for phase in phases for status in UNFAILED]
    return is_at(ZipAction, *under_way[:-1])


@dataclass(frozen=True, slots=True)
class PastRun:
    """What a session fetched from a source: archives, their bytes, and the seconds that it took."""

    archives: int
    bytes: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """The archives of a source that wait for their download, the bytes that are listed, and how many have no size."""

    archives: int
    listed_bytes: int
    without_size: int = 0


@dataclass(frozen=True, slots=True)
class ExpectedWork:
    """Archives that wait for their download, their bytes as listed or as usual, and the seconds, None if unknown."""

    archives: int
    bytes: int
    seconds: float | None


def expected_by_source(
    waiting: Mapping[int, Waiting], past: Mapping[int, Sequence[PastRun]]
) -> dict[int, ExpectedWork]:
    """What to expect of each source with waiting archives, by its last sessions; without any, by those of all sources.

    An archive without a listed size is expected to have the median of the bytes that archives had in these, and each
    byte to take the median of its seconds. If no bytes are known, each archive is expected to take the median of its
    seconds.
    """
    usual = [run for runs in past.values() for run in runs]
    return {source: _expected(own, past.get(source) or usual) for source, own in waiting.items()}


def _expected(waiting: Waiting, runs: Sequence[PastRun]) -> ExpectedWork:
    size = waiting.listed_bytes + int(waiting.without_size * _median(run.bytes / run.archives for run in runs))
    if not runs:
        return ExpectedWork(waiting.archives, size, None)
    with_bytes = [run for run in runs if run.bytes]
    if size and with_bytes:
        seconds = size * _median(run.seconds / run.bytes for run in with_bytes)
    else:
        seconds = waiting.archives * _median(run.seconds / run.archives for run in runs)
    return ExpectedWork(waiting.archives, size, seconds)


def all_of(sources: Iterable[ExpectedWork]) -> ExpectedWork:
    """What to expect of several sources. They work at the same time, so the slowest decides."""
    found = list(sources)
    longest = max((one.seconds for one in found if one.seconds is not None), default=None)
    return ExpectedWork(sum(one.archives for one in found), sum(one.bytes for one in found), longest)


def _median(values: Iterable[float]) -> float:
    found = list(values)
    return median(found) if found else 0.0


def expected_work(connection: Connection) -> dict[int, ExpectedWork]:
    """Archives that sessions would fetch now, by source; an archive of several sources counts for the first one."""
    first = at_sources_in_use(select(func.min(FileSourceHasZip.id)))
    waiting = first.where(is_at(ZipAction, WAITING), may_be_taken(), ~is_on_hold())
    size = FileSourceHasZip.size_bytes
    by_source = (
        select(FileSource.id, func.count(), func.coalesce(func.sum(size), 0), func.count(size))
        .join(FileSourceHasZip)
        .where(FileSourceHasZip.id.in_(waiting.group_by(ZipAction.id)))
        .group_by(FileSource.id)
    )
    found = {
        source: Waiting(count, int(listed or 0), count - sized)
        for source, count, listed, sized in connection.execute(by_source)
    }
    past = {source: [PastRun(*row) for row in connection.execute(_PAST, {"source": source})] for source in found}
    return expected_by_source(found, past)


# One query a source: one for all of them would number the statistics of all sessions.
_PAST: Final = (
    select(SessionStatistics.fetched, SessionStatistics.bytes, SessionStatistics.seconds)
    .where(SessionStatistics.file_source_id == bindparam("source"), SessionStatistics.fetched > 0)
    .order_by(SessionStatistics.id.desc())
    .limit(RUNS)
)
