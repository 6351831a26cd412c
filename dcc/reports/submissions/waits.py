"""What an archive waits for, and until when if that is known: the same in commands and reports.

What a person decided, and an older archive that comes first, say so themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from sqlalchemy import Connection

from dcc.messages import Message, mark, message
from dcc.outcomes import NO_ROOM, CrawlOutcome
from dcc.phases import Phase, Status
from dcc.reports.causes.skipped_archives import why_not_crawled, why_not_listed
from dcc.reports.submissions.model import Outcome
from dcc.settings import Settings
from dcc.sources.crawl_policy import CrawlDue
from dcc.tracker.crawls import CrawlEntry, latest_crawls
from dcc.tracker.decisions import DecisionKind
from dcc.tracker.queries.submission_stories import Host, SubmissionStory
from dcc.tracker.register.file_sources import SourceEntry, list_sources
from dcc.tracker.register.source_schedules import load_crawl_dues
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


def waits_of(connection: Connection, story: SubmissionStory, outcome: Outcome, settings: Settings) -> tuple[Wait, ...]:
    """What a submission with that outcome waits for; empty if it does not wait, or if its decisions and reasons say so.

    `settings` say how far sessions go, and which sources they leave alone.
    """
    if any(decision.kind is DecisionKind.ACKNOWLEDGE and decision.revoked is None for decision in story.decisions):
        return ()
    if outcome in (Outcome.GONE, Outcome.WAITING, Outcome.NOT_ARRIVED):
        obstacles = _obstacles(connection, story.hosts, settings.source_failure_limit)
        if obstacles:
            return obstacles
    if outcome not in _GOES_ON:
        return ()
    if settings.last_phase < max(Phase.ZIP_MD5, story.phase + (story.status is Status.DONE)):
        ends = message(_ENDS_BEFORE, phase=settings.last_phase.short_name)
        return (Wait(Actor.DCC, ends, message(_DECIDED_BY, problem=ends)),)
    reasons = () if story.latest is None else story.latest.reasons
    has_no_room = reasons[-1:] != () and reasons[-1].kind == NO_ROOM
    return (_wait(_NO_ROOM, Actor.DCC) if has_no_room else _wait(_GOES_ON[outcome]),)


def _obstacles(connection: Connection, hosts: tuple[Host, ...], failure_limit: int) -> tuple[Wait, ...]:
    """What keeps sessions from fetching an archive from each of its sources; empty if they can from one of them."""
    present = {host.source: host for host in hosts if host.gone_since is None}
    if not present:
        return (_wait(_GONE, Actor.CENTRE),)
    dues = load_crawl_dues(connection, failure_limit)
    crawls = latest_crawls(connection, sources=list(present))
    found: list[Wait] = []
    for source in list_sources(connection, list(present)):
        waits = list(_at_source(present[source.id], source, dues.get(source.id), crawls.get(source.id)))
        if not waits:
            return ()
        named = partial(message, _AT_SOURCE, source=source.label)
        found += (Wait(one.acts, named(problem=one.message), named(problem=one.for_wranglers)) for one in waits)
    return tuple(found)


def _at_source(host: Host, source: SourceEntry, due: CrawlDue | None, crawl: CrawlEntry | None) -> Iterator[Wait]:
    needs_listing = host.missed_since or host.uploading_since or host.bad is not None
    if host.missed_since is not None:
        yield _wait(_MISSED, moment=f"{host.missed_since:%Y-%m-%d %H:%M}")
    if host.uploading_since is not None:
        yield _wait(_UPLOADING, moment=f"{host.uploading_since:%Y-%m-%d %H:%M}")
    if host.bad is not None:
        yield _wait(_BAD, Actor.CENTRE)
    # From a source that was listed not long ago, sessions fetch what is there.
    skipped = [*why_not_crawled(source, due if needs_listing or due is None or not due.may_be_used else None)]
    if crawl is not None and crawl.outcome is CrawlOutcome.FAILED:
        skipped += why_not_listed(crawl)
    for each in skipped:
        yield Wait(each.acts, each.message, each.for_wranglers or each.message)


def _wait(text: str, acts: Actor = Actor.NOBODY, **details: str) -> Wait:
    said = message(text, **details)
    return Wait(acts, said, said)
