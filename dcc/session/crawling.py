"""Crawling: lists every source at once, and records new archives.

Nothing is downloaded here. Each source is listed in a thread of its own, within the time limits of the settings. Its
listing is recorded in the caller's thread, one source at a time. The number of statements does not depend on the number
of known archives.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Generic, TypeVar

from sqlalchemy import Connection, select

from dcc.databases.transactions import insert_rows
from dcc.errors import InternalFaultError, ListingShrunkError, SourceError, SourceTimeoutError, platform_fault
from dcc.messages import Message, mark, message_to_json
from dcc.naming import Action
from dcc.outcomes import CrawlOutcome, Problem, SourceCrawl, ZipKey, source_partition
from dcc.phases import Phase
from dcc.runtime.log_context import logging_about, progress_log, with_log_context
from dcc.session.connection_slots import ConnectionSlots, for_seconds, server_of_source
from dcc.session.sessions import Session
from dcc.settings import Settings
from dcc.sources.base import ActionListing, ListedFile, SourceAddress
from dcc.sources.connect import connect
from dcc.sources.crawl_policy import CrawlDue, PastCrawls, crawl_due
from dcc.sources.listing_watch import ListingWatch, ignore_progress, watching
from dcc.tracker.crawls import crawl_comment
from dcc.tracker.database import exception_id
from dcc.tracker.listings.findings import ONLY_NOTED, ListingFinding
from dcc.tracker.listings.recording import ListingBasis, ListingRecorder, RecordedListing, archives_by_source
from dcc.tracker.models import Centre, SourceCrawlRow, utc_now
from dcc.tracker.register.source_addresses import load_addresses
from dcc.tracker.register.source_schedules import load_crawl_dues

log = logging.getLogger(__name__)
session_log = progress_log(__name__)
A = TypeVar("A", bound=Collection[ZipKey])

_IGNORED_SHOWN: Final = 20
_LEFT_SHOWN: Final = 20
_SLACK_SECONDS: Final = 30


@dataclass
class SourceListing:
    """The listing of one source: the directories that could be listed, and the first error.

    `began` is in seconds since 1970; `ended` is on the clock of `time.monotonic`.
    """

    address: SourceAddress
    listings: list[ActionListing] = field(default_factory=list)
    error: SourceError | InternalFaultError | None = None
    seconds: float = 0.0
    began: float = field(default_factory=time.time)
    ended: float = field(default_factory=time.monotonic)

    @property
    def ignored(self) -> int:
        """The number of ignored entries."""
        return sum(part.ignored for part in self.listings)

    @property
    def ignored_examples(self) -> tuple[tuple[str, str], ...]:
        """Some of the ignored entries, as `<action>/<name>` with the reason."""
        examples = [
            (f"{part.action}/{name}", reason) for part in self.listings for name, reason in part.ignored_examples
        ]
        return tuple(examples[:_IGNORED_SHOWN])

    @property
    def outcome(self) -> CrawlOutcome:
        """How it ended."""
        if self.error is None:
            return CrawlOutcome.OK
        return CrawlOutcome.PARTIAL if self.listings else CrawlOutcome.FAILED


def list_source(
    address: SourceAddress,
    settings: Settings,
    watch: ListingWatch | None = None,
    actions: Collection[Action] = tuple(Action),
    connection_slots: ConnectionSlots | None = None,
) -> SourceListing:
    """List the action directories of a source, all or some. Never raises SourceError: it is in the result.

    `watch` limits it and gets its progress; by default it has the time of the settings. The connection has one of the
    `connection_slots`, and waits for it as long.
    """
    result = SourceListing(address)
    settings = settings.for_protocol(address.protocol)
    began = time.monotonic()
    try:
        with (
            nullcontext()
            if connection_slots is None
            else connection_slots.slot(address, for_seconds(settings.list_timeout)),
            connect(address, settings) as connection,
            watching(watch or ListingWatch(address.label, settings.list_timeout)),
        ):
            for action in actions:
                try:
                    result.listings.append(connection.list_action(action))
                except SourceError as error:
                    result.error = result.error or error
    except SourceError as error:
        result.error = result.error or error
    result.ended = time.monotonic()
    result.seconds = result.ended - began
    return result


def list_in_parallel(
    addresses: Sequence[SourceAddress],
    session: Session,
    look: Callable[[SourceAddress, Settings, ListingWatch], SourceListing],
    *,
    wait: float = 0.0,
) -> Iterator[SourceListing]:
    """Yields each source's complete listing; one that exceeds every time limit, after `wait`, is given up."""
    settings = session.settings
    of_server = Counter(server_of_source(address) for address in addresses)
    most = {server: settings.limits_of(server).connections or count for server, count in of_server.items()}
    rooms = {server: threading.Semaphore(count) for server, count in most.items()}
    results: queue.SimpleQueue[SourceListing] = queue.SimpleQueue()

    def work(address: SourceAddress) -> None:
        # The time limit of a listing does not include the wait for others on the same server.
        with logging_about_source(address), rooms[server_of_source(address)]:
            results.put(_listed(address, session, look))

    for address in addresses:
        threading.Thread(
            target=with_log_context(work), args=(address,), name=f"crawl {address.id}", daemon=True
        ).start()
    own = [settings.for_protocol(address.protocol) for address in addresses]
    longest = (one.connect_timeout + one.login_timeout + one.list_timeout for one in own)
    limit = _SLACK_SECONDS + max(longest, default=0)
    if session.connection_slots is not None:
        # Each waits for a slot as long as its listing may take.
        wait += max((one.list_timeout for one in own), default=0)
    rounds = max((math.ceil(count / most[server]) for server, count in of_server.items()), default=1)
    deadline = time.monotonic() + (wait + limit) * rounds
    waiting = {address.id: address for address in addresses}
    while waiting:
        try:
            result = results.get(timeout=max(deadline - time.monotonic(), 0))
        except queue.Empty:
            yield from (_given_up(address, limit) for address in waiting.values())
            return
        if waiting.pop(result.address.id, None):
            yield result


def _listed(
    address: SourceAddress, session: Session, look: Callable[[SourceAddress, Settings, ListingWatch], SourceListing]
) -> SourceListing:
    """A source's listing; whatever its server provokes must not cost the other sources their crawl."""
    settings = session.settings
    seconds = settings.for_protocol(address.protocol).list_timeout
    watch = ListingWatch(address.label, seconds, progress_of(address, session))
    try:
        return look(address, settings, watch)
    except Exception as error:
        log.exception("%s met a fault of the platform", address.label)
        fault = platform_fault(str(address.label), error, "its next session tries again")
        fault.__cause__ = error
        return SourceListing(address, error=fault)


def _given_up(address: SourceAddress, limit: float) -> SourceListing:
    error = SourceTimeoutError(
        mark(
            "listing it was given up after {limit} s, the sum of DCC_CONNECT_TIMEOUT, DCC_LOGIN_TIMEOUT, "
            "DCC_LIST_TIMEOUT and 30 s. Ask whoever runs the server what it is doing; the next session "
            "tries again."
        ),
        source=address.label,
        limit=limit,
    )
    return SourceListing(address, error=error, seconds=limit)


def logging_about_source(address: SourceAddress) -> AbstractContextManager[None]:
    """The source as the subject of messages."""
    return logging_about(source=address.id, centre=address.centre, phase=Phase.ZIP_NAME.short_name)


def progress_of(address: SourceAddress, session: Session) -> Callable[[str], object]:
    """A function that tells those who listen to a session of the progress of one source."""
    partition = source_partition(address.centre, address.id)
    return lambda text: session.request.listeners.on_listing(f"{partition}: {text}")


def crawl_file_sources(
    session: Session, source_ids: Sequence[int] | None = None, *, only_scheduled: bool = False
) -> Iterator[SourceCrawl]:
    """Crawl the available sources of active centres that are due, or those of `source_ids`, which a person named.

    `only_scheduled`: of those that are due only new and changed ones, and those with an age or schedule of their own.
    Yields each once it is recorded. A session of a group crawls only its centres' sources. Over all sessions one
    listing is recorded at a time, because an archive may be new on several sources.

    A source that cannot be reached, or not be listed for a fault of the platform, is an outcome, not an exception.
    Raises TrackerUnreachableError and SessionLostError.
    """
    addresses, dues = session.read(partial(_to_crawl, session=session, ids=source_ids, only_scheduled=only_scheduled))
    if source_ids is None and not only_scheduled:
        _note_not_crawled(session, dues)
    tasks = {address.id: session.start_task(Phase.ZIP_NAME, crawl_comment(address.label)) for address in addresses}

    def ended(crawl: SourceCrawl) -> SourceCrawl:
        session.finish_task(tasks[crawl.source_id], failed=crawl.outcome is not CrawlOutcome.OK)
        following = _following(dues[crawl.source_id], crawl, session.settings.source_failure_limit)
        return replace(crawl, pace=str(following.policy), then="" if following.is_due else str(following))

    unsettled: dict[int, SourceCrawl] = {}
    looks: list[RelistedSource[Mapping[ZipKey, ListedFile]]] = []
    for listing in list_in_parallel(
        addresses, session, partial(list_source, connection_slots=session.connection_slots)
    ):
        session.raise_if_over()
        with logging_about_source(listing.address):
            crawl, recent = _record(session, listing)
        if recent:
            unsettled[crawl.source_id] = crawl
            looks.append(RelistedSource(listing.address, listing.ended, recent))
        else:
            yield ended(crawl)
    for look, second in list_again(looks, session):
        crawl = unsettled[look.address.id]
        with logging_about_source(look.address):
            found = record_second_listing(session, second, look.archives)
        yield ended(replace(crawl, notes=(*crawl.notes, *(finding.message for finding in found))))


def _to_crawl(
    connection: Connection, *, session: Session, ids: Sequence[int] | None, only_scheduled: bool
) -> tuple[list[SourceAddress], dict[int, CrawlDue]]:
    """The sources to crawl, and whether each source is due; see `crawl_file_sources`."""
    dues = load_crawl_dues(connection, session.settings.source_failure_limit, named=frozenset(ids or ()))
    wanted = {number for number, one in dues.items() if (one.needs_no_other if only_scheduled else one.is_due)}
    available = load_addresses(connection, ids=ids)
    addresses = [address for address in available if session.covers(address.centre) and address.id in wanted]
    # Those that were listed longest ago are first where a server takes few connections.
    return sorted(addresses, key=lambda one: dues[one.id].past.listed or datetime.min), dues


def _note_not_crawled(session: Session, dues: Mapping[int, CrawlDue]) -> None:
    """Add a notice that names the sources which are left alone, paused or not due, with the reasons and the ends."""
    waiting = {number: due for number, due in dues.items() if not due.is_due}
    if not waiting:
        return
    known = session.read(lambda connection: load_addresses(connection, only_crawlable=False))
    left = [
        f"{address.label}: {waiting[address.id]}"
        for address in known
        if session.covers(address.centre) and address.id in waiting
    ]
    if left:
        more = f"; and {len(left) - _LEFT_SHOWN:,} more (`dcc source list`)" if len(left) > _LEFT_SHOWN else ""
        notice = f"not crawled: {'; '.join(left[:_LEFT_SHOWN])}{more}"
        session_log.info("%s", notice)
        session.notice(notice)


def _following(before: CrawlDue, crawl: SourceCrawl, failure_limit: int) -> CrawlDue:
    """Whether a source is due again at once, after a crawl."""
    past = PastCrawls(listed=crawl.finished - timedelta(seconds=crawl.seconds))
    if crawl.outcome is CrawlOutcome.FAILED:
        past = PastCrawls(before.past.listed, before.past.failures + 1, crawl.finished)
    return crawl_due(before.policy, past, crawl.finished, failure_limit)


@dataclass(frozen=True, slots=True)
class RelistedSource(Generic[A]):
    """A source to list once more for some archives, by their keys; some say how they were listed before, too.

    `ended` is the time of its last listing (monotonic).
    """

    address: SourceAddress
    ended: float
    archives: A


def list_again(
    looks: Collection[RelistedSource[A]], session: Session
) -> Iterator[tuple[RelistedSource[A], SourceListing]]:
    """List the directories of some archives again, after the quiet period of each source."""
    by_source = {look.address.id: look for look in looks}

    def listed(address: SourceAddress, settings: Settings, watch: ListingWatch) -> SourceListing:
        look = by_source[address.id]
        time.sleep(max(look.ended + settings.quiet_seconds - time.monotonic(), 0))
        return list_source(
            address, settings, watch, sorted({key.action for key in look.archives}), session.connection_slots
        )

    if by_source:
        for listing in list_in_parallel(
            [look.address for look in looks], session, listed, wait=session.settings.quiet_seconds
        ):
            session.raise_if_over()
            yield by_source[listing.address.id], listing


def relist(session: Session, keys: Collection[ZipKey]) -> None:
    """Record how the sources of some archives list them now; a source that cannot be listed changes nothing.

    Recent archives are listed once more, as in a crawl: those that are still being uploaded cannot be fetched.
    """

    def look(connection: Connection) -> list[RelistedSource[set[ZipKey]]]:
        archives = archives_by_source(connection, keys)
        addresses = load_addresses(connection, ids=list(archives)) if archives else []
        return [RelistedSource(address, -math.inf, archives[address.id]) for address in addresses]

    again: list[RelistedSource[Mapping[ZipKey, ListedFile]]] = []
    for first, listing in list_again(session.read(look), session):
        if listing.error is not None:
            log.warning("%s", listing.error)
        if recent := _record_archives(session, listing, first.archives):
            again.append(RelistedSource(listing.address, listing.ended, recent))
    for second, listing in list_again(again, session):
        record_second_listing(session, listing, second.archives)


def _record_archives(session: Session, listing: SourceListing, keys: Collection[ZipKey]) -> Mapping[ZipKey, ListedFile]:
    """Record how a source lists some archives; returns those to list once more."""

    def write(connection: Connection) -> Mapping[ZipKey, ListedFile]:
        basis = _basis(connection, session, listing)
        return ListingRecorder(basis, listing.address).relist(keys, listing.listings)

    return session.write(write, alone=True)


def _record(session: Session, listing: SourceListing) -> tuple[SourceCrawl, Mapping[ZipKey, ListedFile]]:
    """Record a listing; returns the result, and the archives to list once more."""
    address = listing.address
    result, outcome, error = session.write(lambda connection: _write_crawl(connection, session, listing), alone=True)
    problem = None if error is None else Problem.of(error)
    if error is not None:
        log.warning("%s", error)
    session_log.info(
        "%s: crawl %s after %.1f s: %d archives listed, %d new, %d changed, %d refused, %d gone",
        address.label,
        outcome,
        listing.seconds,
        result.listed,
        len(result.new_zips),
        result.changed,
        len(result.refused_zips),
        result.gone,
    )
    crawl = SourceCrawl(
        source_id=address.id,
        partition=source_partition(address.centre, address.id),
        label=str(address.label),
        centre=address.centre,
        outcome=outcome,
        error=problem,
        **result.counts(listing.ignored).counts,
        seconds=listing.seconds,
        finished=utc_now(),
        new_zips=tuple(result.new_zips),
        refused_zips=tuple(result.refused_zips),
        accepted_zips=tuple(result.accepted_zips),
        ignored_examples=listing.ignored_examples,
        findings=tuple(finding.message for finding in result.findings if finding.kind not in ONLY_NOTED),
        notes=tuple(finding.message for finding in result.findings if finding.kind in ONLY_NOTED),
    )
    return crawl, result.unsettled


def record_second_listing(
    session: Session, second: SourceListing, recent: Mapping[ZipKey, ListedFile]
) -> list[ListingFinding]:
    """Record the second listing of archives; returns findings on those that are still being uploaded."""
    if second.error is not None:
        log.warning("%s", second.error)
    listings = None if second.error is not None else second.listings

    def write(connection: Connection) -> list[ListingFinding]:
        return ListingRecorder(_basis(connection, session), second.address).record_second_listing(recent, listings)

    found = session.write(write, alone=True)
    for finding in found:
        session_log.info("%s", finding.message)
    return found


def _basis(connection: Connection, session: Session, listing: SourceListing | None = None) -> ListingBasis:
    settings = session.settings
    centres = {name: number for number, name in connection.execute(select(Centre.id, Centre.short_name))}
    return ListingBasis(
        connection,
        session.id,
        settings.naming,
        centres,
        utc_now(),
        quiet_seconds=settings.quiet_seconds,
        shrink_limit=settings.listing_shrink_limit,
        looked_at=None if listing is None else listing.began,
        on_progress=ignore_progress if listing is None else progress_of(listing.address, session),
    )


def _write_crawl(
    connection: Connection, session: Session, listing: SourceListing
) -> tuple[RecordedListing, CrawlOutcome, SourceError | InternalFaultError | None]:
    """Write a listing and the row of its crawl; returns what was recorded, the outcome, and what was wrong."""
    basis = _basis(connection, session, listing)
    now = basis.now
    result = ListingRecorder(basis, listing.address).record(listing.listings, whole=listing.error is None)
    error, outcome = listing.error, listing.outcome
    if error is None and result.shrunk:
        error, outcome = _shrunk(listing.address, result.shrunk), CrawlOutcome.PARTIAL
    counts = result.counts(listing.ignored).counts
    new = counts.pop("new")
    row = {
        "session_id": session.id,
        "file_source_id": listing.address.id,
        "start_time": now - timedelta(seconds=listing.seconds),
        "finish_time": now,
        "outcome": outcome,
        "exception_id": error and exception_id(connection, error.short_name(), error.summary()),
        "message": error and str(error),
        "code": error and error.code,
        "details": error and message_to_json(error.translatable),
        **counts,
        "new_zips": new,
    }
    insert_rows(connection, SourceCrawlRow.__table__, [row])
    return result, outcome, error


def _shrunk(address: SourceAddress, directories: Sequence[Message]) -> ListingShrunkError:
    return ListingShrunkError(
        mark(
            "{directories}. Nothing is taken for gone yet: if the next crawl lists the same, it is "
            "believed. Ask the centre whether this is meant; DCC_LISTING_SHRINK_LIMIT sets the limit."
        ),
        source=address.label,
        directories=list(directories),
    )
