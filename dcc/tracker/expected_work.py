"""How much work waits for a session, and how long it should take by what earlier sessions took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from sqlalchemy import Connection, func, select

from dcc.tracker.hostings.download_plan import at_sources_in_use
from dcc.tracker.models import FileSource, FileSourceHasZip, SessionStatistics, ZipAction
from dcc.tracker.states import WAITING
from dcc.tracker.submission_rows import is_at

RUNS: Final = 5
"""The number of a source's last sessions that count."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """What a session fetched from a source: archives, their bytes, and the seconds that it took."""

    archives: int
    bytes: int
    seconds: int


@dataclass(frozen=True, slots=True)
class ExpectedWork:
    """Archives that wait for their download, their bytes if listed or usual, and the seconds, None if unknown."""

    archives: int
    bytes: int
    seconds: float | None


def expected_of(waiting: Mapping[int, tuple[int, int]], past: Mapping[int, Sequence[PastRun]]) -> ExpectedWork:
    """What to expect of sources with waiting archives (number and listed bytes), by their last sessions.

    An archive is expected to have the median of the bytes, and to take the median of the seconds, that archives of its
    source had in these; without any, those of all sources. Sources work at the same time, so the slowest decides.
    """
    usual = [run for runs in past.values() for run in runs]
    size = 0
    longest: float | None = None
    for source, (archives, listed) in waiting.items():
        runs = past.get(source) or usual
        size += listed or int(archives * _median(run.bytes / run.archives for run in runs))
        if runs:
            seconds = archives * _median(run.seconds / run.archives for run in runs)
            longest = max(seconds, longest or 0.0)
    return ExpectedWork(sum(archives for archives, _ in waiting.values()), size, longest)


def _median(values: Iterable[float]) -> float:
    found = list(values)
    return median(found) if found else 0.0


def expected_work(connection: Connection) -> ExpectedWork:
    """What waits for its download now; an archive of several sources counts for the first one."""
    first = at_sources_in_use(select(func.min(FileSourceHasZip.id)))
    waiting = first.where(is_at(ZipAction, WAITING))
    by_source = (
        select(FileSource.id, func.count(), func.coalesce(func.sum(FileSourceHasZip.size_bytes), 0))
        .join(FileSourceHasZip)
        .where(FileSourceHasZip.id.in_(waiting.group_by(ZipAction.id)))
        .group_by(FileSource.id)
    )
    found = {source: (count, int(size or 0)) for source, count, size in connection.execute(by_source)}
    return expected_of(found, _past_runs(connection, found))


def _past_runs(connection: Connection, sources: Iterable[int]) -> dict[int, list[PastRun]]:
    past: dict[int, list[PastRun]] = defaultdict(list)
    for source in sources:
        query = (
            select(SessionStatistics.fetched, SessionStatistics.bytes, SessionStatistics.seconds)
            .where(SessionStatistics.file_source_id == source, SessionStatistics.fetched > 0)
            .order_by(SessionStatistics.id.desc())
            .limit(RUNS)
        )
        past[source] += [PastRun(*row) for row in connection.execute(query)]
    return past
