"""What an archive waits for, and until when if that is known: the same in commands and reports.

What a person decided, and an older archive that comes first, say so themselves.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, and_, func, or_, select

from dcc.databases.list_parameters import IDS, rows_about, these_numbers
from dcc.messages import Message, mark, message
from dcc.outcomes import NO_ROOM, CrawlOutcome, SubmissionKey
from dcc.phases import UNFAILED, Phase, Status
from dcc.reports.causes.skipped_archives import why_not_crawled, why_not_listed
from dcc.reports.submissions.model import Outcome, SubmissionLine
from dcc.reports.submissions.submission_lines import list_submissions
from dcc.settings import Settings
from dcc.sources.crawl_policy import CrawlDue
from dcc.tracker.crawls import CrawlEntry, latest_crawls
from dcc.tracker.hostings.download_plan import is_used
from dcc.tracker.models import AnException, CrawlingSession, ZipAction, ZipDownload, ZipLog
from dcc.tracker.queries.submission_stories import Host, hosts_of
from dcc.tracker.register.file_sources import SourceEntry, list_sources
from dcc.tracker.register.source_schedules import load_crawl_dues
from dcc.tracker.states import NOT_DOWNLOADED
from dcc.tracker.submission_rows import is_at, newest_downloads
from dcc.vocabulary import Actor


class Wait(NamedTuple):
    """What an archive waits for, and who acts on that; `for_wranglers` has the commands that only they have."""

    acts: Actor
    message: Message
    for_wranglers: Message


_GOES_ON: Final = {
    Outcome.WAITING: mark("The present or the next session fetches it."),
    Outcome.NOT_ARRIVED: mark("The next session tries again."),
    Outcome.UNDER_WAY: mark("The present or the next session goes on with it."),
    Outcome.TO_BE_TAKEN: mark("The present or the next session takes its data over."),
}
_TO_FETCH: Final = (Outcome.GONE, Outcome.WAITING, Outcome.NOT_ARRIVED)
_MAY_WAIT: Final = or_(
    is_at(ZipAction, NOT_DOWNLOADED), and_(ZipAction.phase_id < Phase.QC, ZipAction.status_id.in_(UNFAILED))
)
_ENDS_BEFORE: Final = mark("At present sessions end with the phase {phase}, before its turn.")
_DECIDED_BY: Final = mark("{problem} DCC_UNTIL sets that.")
_NO_ROOM: Final = mark("A disk of the Data Coordination Centre had no room for it. The next session tries again.")
_GONE: Final = mark("No file source has it any more. If it is put there again, a session fetches it.")
_MISSED: Final = mark("The listing of {moment} UTC lacked it and much else. The next one decides whether it is gone.")
_UPLOADING: Final = mark(
    "It was still being uploaded on {moment} UTC. It is fetched when two listings have shown the same size and time."
)
_BAD: Final = mark("Its copy is known to be bad, and is fetched again when it or the checksum beside it changes.")
_AT_SOURCE: Final = mark("{source}: {problem}")
_TO_BE_CONFIRMED: Final = mark("It waits to be confirmed. What it would change: dcc data plan {archive}")


def what_listed_wait_for(connection: Connection, za_ids: Any, settings: Settings) -> dict[SubmissionKey, list[Message]]:
    """What submissions wait for, in words for wranglers and with what comes first; without those that do not wait.

    `za_ids` are their ids, or a query of them. The statements are as many for one as for some hundreds.
    """
    waiting = connection.scalars(select(ZipAction.id).where(ZipAction.id.in_(za_ids), _MAY_WAIT)).all()
    lines = list_submissions(connection, these_numbers(waiting)) if waiting else []
    waits = waits_of(connection, lines, settings)
    told = {line.key: [wait.for_wranglers for wait in waits[line.za_id]] for line in lines}
    for line in lines:
        if line.left_alone is not None:
            told[line.key].insert(0, line.left_alone)
        if line.outcome is Outcome.HELD:
            told[line.key].append(message(_TO_BE_CONFIRMED, archive=shlex.quote(str(line.key))))
    return {key: messages for key, messages in told.items() if messages}


def waits_of(
    connection: Connection, lines: Sequence[SubmissionLine], settings: Settings
) -> dict[int, tuple[Wait, ...]]:
    """What submissions wait for, by their ids; empty of one that does not, or whose decisions and reasons say so.

    `settings` say how far sessions go, and which sources they leave alone.
    """
    waiting = [line for line in lines if not line.needs_nobody]
    hosts = hosts_of(connection, [line.za_id for line in waiting if line.outcome in _TO_FETCH])
    sources = _read_sources(connection, hosts.values(), settings)
    going_on = [line for line in waiting if line.outcome in _GOES_ON]
    lacking_room = _lacking_room(connection, going_on)
    groups = [group.centres for group in settings.centre_groups.values()]
    waits: dict[int, tuple[Wait, ...]] = {line.za_id: () for line in lines}
    for line in going_on:
        waits[line.za_id] = (_going_on(line, settings, lacks_room=line.za_id in lacking_room),)
    for line in waiting:
        if line.outcome in _TO_FETCH:
            listed_with = next((centres for centres in groups if line.centre in centres), None)
            waits[line.za_id] = _obstacles(hosts[line.za_id], sources, listed_with) or waits[line.za_id]
    return waits


def _going_on(line: SubmissionLine, settings: Settings, *, lacks_room: bool) -> Wait:
    """What an archive waits for that can be fetched, or is here."""
    if settings.last_phase < max(Phase.ZIP_MD5, line.phase + (line.status is Status.DONE)):
        ends = message(_ENDS_BEFORE, phase=settings.last_phase.short_name)
        return Wait(Actor.DCC, ends, message(_DECIDED_BY, problem=ends))
    return _wait(_NO_ROOM, Actor.DCC) if lacks_room else _wait(_GOES_ON[line.outcome])


def _lacking_room(connection: Connection, lines: Sequence[SubmissionLine]) -> set[int]:
    """Those of the submissions that a full disk stopped, and larger ones that the newest session then left alone."""
    last = {row.za_id: row.kind for row in rows_about(connection, _LAST_REASONS, [line.za_id for line in lines])}
    smallest = connection.scalar(_SMALLEST_WITHOUT_ROOM) if lines else None
    return {
        line.za_id
        for line in lines
        if last.get(line.za_id) == NO_ROOM
        or (smallest is not None and line.outcome is Outcome.WAITING and (line.size_bytes or 0) >= smallest)
    }


_LATEST: Final = newest_downloads(IDS)
_LAST_REASONS: Final = (
    select(_LATEST.c.za_id, AnException.short_name.label("kind"))
    .join(ZipLog, ZipLog.download_id == _LATEST.c.download_id)
    .join(AnException)
    .order_by(ZipLog.id)
)
"""The reasons recorded with each latest download, the last one last."""
_SMALLEST_WITHOUT_ROOM: Final = (
    select(func.min(func.coalesce(ZipDownload.listed_size_bytes, 0)))
    .select_from(ZipLog)
    .join(AnException)
    .join(ZipDownload)
    .where(
        AnException.short_name == NO_ROOM,
        ZipDownload.session_id == select(func.max(CrawlingSession.id)).scalar_subquery(),
    )
)


class _Source(NamedTuple):
    """A file source, and what is known of its crawls."""

    entry: SourceEntry
    due: CrawlDue | None
    crawl: CrawlEntry | None


def _read_sources(connection: Connection, hosts: Iterable[Sequence[Host]], settings: Settings) -> dict[int, _Source]:
    """The sources that have some archives at present, by their ids."""
    ids = sorted({host.source for some in hosts for host in some if host.gone_since is None})
    if not ids:
        return {}
    dues = load_crawl_dues(connection, settings.source_failure_limit)
    crawls = latest_crawls(connection, sources=ids)
    return {one.id: _Source(one, dues.get(one.id), crawls.get(one.id)) for one in list_sources(connection, ids)}


def _obstacles(
    hosts: Sequence[Host], sources: Mapping[int, _Source], listed_with: Collection[str] | None
) -> tuple[Wait, ...]:
    """What keeps sessions from fetching an archive from each of its sources; empty if they can from one of them.

    The session that takes it lists the sources of the centres `listed_with` it; None: of all.
    """
    present = [host for host in hosts if host.gone_since is None]
    if not present:
        return (_wait(_GONE, Actor.CENTRE),)
    found: list[Wait] = []
    for host in present:
        source = sources[host.source]
        is_listed = listed_with is None or source.entry.centre in listed_with
        waits = list(_at_source(host, source, is_listed=is_listed))
        if not waits:
            return ()
        named = partial(message, _AT_SOURCE, source=source.entry.label)
        found += (Wait(one.acts, named(problem=one.message), named(problem=one.for_wranglers)) for one in waits)
    return tuple(found)


def _at_source(host: Host, source: _Source, *, is_listed: bool) -> Iterator[Wait]:
    if host.missed_since is not None:
        yield _wait(_MISSED, moment=f"{host.missed_since:%Y-%m-%d %H:%M}")
    if host.uploading_since is not None:
        yield _wait(_UPLOADING, moment=f"{host.uploading_since:%Y-%m-%d %H:%M}")
    if host.bad is not None:
        yield _wait(_BAD, Actor.CENTRE)
    needs_listing = host.missed_since or host.uploading_since or host.bad is not None
    could_list = source.crawl is None or source.crawl.outcome is not CrawlOutcome.FAILED
    if source.due is not None and not needs_listing and is_used(source.due, was_listed=could_list or not is_listed):
        return
    unlisted = () if source.crawl is None or could_list else why_not_listed(source.crawl)
    for each in (*why_not_crawled(source.entry, source.due), *unlisted):
        yield Wait(each.acts, each.message, each.for_wranglers or each.message)


def _wait(text: str, acts: Actor = Actor.NOBODY, **details: str) -> Wait:
    said = message(text, **details)
    return Wait(acts, said, said)
