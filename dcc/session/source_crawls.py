"""Crawling: lists every source (`source_listings`), and records new archives.

Nothing is downloaded here. Listings are recorded in the caller's thread, one source at a time. The number of statements
does not depend on the number of known archives.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from sqlalchemy import Connection

from dcc.databases.transactions import insert_rows
from dcc.errors import InternalFaultError, ListingShrunkError, SourceError
from dcc.messages import Message, mark, message_to_json
from dcc.outcomes import CrawlOutcome, Problem, SourceCrawl, SubmissionKey, source_partition
from dcc.phases import Phase
from dcc.runtime.clock import utc_now
from dcc.runtime.log_context import progress_log
from dcc.session.sessions import Session
from dcc.session.source_listings import (
    RelistedSource,
    SourceListing,
    list_again,
    list_in_parallel,
    list_source,
    logging_about_source,
    progress_of,
)
from dcc.sources.base import ListedFile, SourceAddress
from dcc.sources.crawl_policy import CrawlDue, PastCrawls, crawl_due
from dcc.sources.listing_watch import ignore_progress
from dcc.tracker.crawls import crawl_comment
from dcc.tracker.database import exception_id
from dcc.tracker.listings.findings import ONLY_NOTED, ListingFinding
from dcc.tracker.listings.listing_basis import ListingBasis, RecordedListing
from dcc.tracker.listings.recording import ListingRecorder, archives_by_source
from dcc.tracker.models import SourceCrawlRow
from dcc.tracker.register.centres import centre_ids
from dcc.tracker.register.source_addresses import load_addresses
from dcc.tracker.register.source_schedules import load_crawl_dues
from dcc.tracker.session_statuses import TaskStatus

log = logging.getLogger(__name__)
session_log = progress_log(__name__)

_LEFT_SHOWN: Final = 20


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
    to_crawl = partial(_to_crawl, session=session, ids=source_ids, only_scheduled=only_scheduled)
    addresses, dues = session.read(to_crawl)
    if source_ids is None and not only_scheduled:
        _note_not_crawled(session, dues)
    tasks = {address.id: session.start_task(Phase.ZIP_NAME, crawl_comment(address.label)) for address in addresses}

    def ended(crawl: SourceCrawl, *, has_uploads: bool = False) -> SourceCrawl:
        session.finish_task(tasks[crawl.source_id], TaskStatus.of(failed=crawl.outcome is not CrawlOutcome.OK))
        limit = session.settings.source_failure_limit
        following = _following(dues[crawl.source_id], crawl, limit, has_uploads=has_uploads)
        return replace(crawl, pace=str(following.policy), then="" if following.is_due else str(following))

    unsettled: dict[int, tuple[SourceCrawl, Mapping[SubmissionKey, ListedFile]]] = {}
    again: list[RelistedSource] = []
    for listing in list_in_parallel(
        addresses, session, partial(list_source, connection_slots=session.connection_slots)
    ):
        session.raise_if_over()
        with logging_about_source(listing.address):
            crawl, recent = _record(session, listing)
        if recent:
            unsettled[crawl.source_id] = crawl, recent
            again.append(_after_quiet_period(listing, recent, session))
        else:
            yield ended(crawl)
    for second in list_again(again, session):
        crawl, recent = unsettled[second.address.id]
        with logging_about_source(second.address):
            found = record_second_listing(session, second, recent)
        notes = (*crawl.notes, *(str(finding.translatable) for finding in found))
        yield ended(replace(crawl, notes=notes), has_uploads=bool(found))


def _to_crawl(
    connection: Connection, *, session: Session, ids: Sequence[int] | None, only_scheduled: bool
) -> tuple[list[SourceAddress], dict[int, CrawlDue]]:
    """The sources to crawl, and whether each source is due; see `crawl_file_sources`."""
    dues = load_crawl_dues(connection, session.settings.source_failure_limit, named=frozenset(ids or ()))
    wanted = {number for number, one in dues.items() if (one.needs_no_other if only_scheduled else one.is_due)}
    known = load_addresses(connection, ids=ids)
    addresses = [address for address in known if session.covers(address.centre) and address.id in wanted]
    # Those that were listed longest ago are first where a server takes few connections.
    return sorted(addresses, key=lambda one: dues[one.id].past.listed or datetime.min), dues


def _note_not_crawled(session: Session, dues: Mapping[int, CrawlDue]) -> None:
    """Add a notice that names the sources which are left alone, with the reasons and the ends."""
    waiting = {number: str(due) for number, due in dues.items() if not due.is_due}
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


def _following(before: CrawlDue, crawl: SourceCrawl, failure_limit: int, *, has_uploads: bool) -> CrawlDue:
    """Whether a source is due again at once, after a crawl."""
    past = PastCrawls(listed=crawl.finished - timedelta(seconds=crawl.seconds), has_uploads=has_uploads)
    if crawl.outcome is CrawlOutcome.FAILED:
        past = PastCrawls(before.past.listed, before.past.failures + 1, crawl.finished)
    return crawl_due(before.policy, past, crawl.finished, failure_limit)


def relist(session: Session, keys: Collection[SubmissionKey]) -> None:
    """Record how the sources of some archives list them now; a source that cannot be listed changes nothing.

    Recent archives are listed once more, as in a crawl: those that are still being uploaded cannot be fetched.
    """

    def look(connection: Connection) -> list[RelistedSource]:
        archives = archives_by_source(connection, keys)
        addresses = load_addresses(connection, ids=list(archives)) if archives else []
        return [RelistedSource(address, archives[address.id]) for address in addresses]

    sources = {source.address.id: source for source in session.read(look)}
    unsettled: dict[int, Mapping[SubmissionKey, ListedFile]] = {}
    again: list[RelistedSource] = []
    for listing in list_again(sources.values(), session):
        if listing.error is not None:
            log.warning("%s", listing.error)
        if recent := _record_archives(session, listing, sources[listing.address.id].archives):
            unsettled[listing.address.id] = recent
            again.append(_after_quiet_period(listing, recent, session))
    for second in list_again(again, session):
        record_second_listing(session, second, unsettled[second.address.id])


def _after_quiet_period(
    listing: SourceListing, archives: Collection[SubmissionKey], session: Session
) -> RelistedSource:
    """A source to list once more, when its archives have been unchanged long enough to be whole."""
    return RelistedSource(listing.address, archives, listing.ended_monotonic + session.settings.quiet_seconds)


def _record_archives(
    session: Session, listing: SourceListing, keys: Collection[SubmissionKey]
) -> Mapping[SubmissionKey, ListedFile]:
    """Record how a source lists some archives; returns those to list once more."""

    def write(connection: Connection) -> Mapping[SubmissionKey, ListedFile]:
        basis = _basis(connection, session, listing)
        return ListingRecorder(basis, listing.address).relist(keys, listing.listings)

    return session.write(write, alone=True)


def _record(session: Session, listing: SourceListing) -> tuple[SourceCrawl, Mapping[SubmissionKey, ListedFile]]:
    """Record a listing; returns the result, and the archives to list once more."""
    address = listing.address
    result, outcome, error, recorded = session.write(
        lambda connection: _write_crawl(connection, session, listing), alone=True
    )
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
        finished=recorded,
        new_zips=tuple(result.new_zips),
        refused_zips=tuple(result.refused_zips),
        accepted_zips=tuple(result.accepted_zips),
        ignored_examples=listing.ignored_examples,
        findings=tuple(str(finding.translatable) for finding in result.findings if finding.kind not in ONLY_NOTED),
        notes=tuple(str(finding.translatable) for finding in result.findings if finding.kind in ONLY_NOTED),
    )
    return crawl, result.unsettled


def record_second_listing(
    session: Session, second: SourceListing, recent: Mapping[SubmissionKey, ListedFile]
) -> list[ListingFinding]:
    """Record the second listing of archives; returns findings on those that are still being uploaded."""
    if second.error is not None:
        log.warning("%s", second.error)
    listings = None if second.error is not None else second.listings

    def write(connection: Connection) -> list[ListingFinding]:
        return ListingRecorder(_basis(connection, session), second.address).record_second_listing(recent, listings)

    found = session.write(write, alone=True)
    for finding in found:
        session_log.info("%s", finding.translatable)
    return found


def _basis(connection: Connection, session: Session, listing: SourceListing | None = None) -> ListingBasis:
    settings = session.settings
    return ListingBasis(
        connection,
        session.id,
        settings.naming,
        centre_ids(connection),
        utc_now(),
        quiet_seconds=settings.quiet_seconds,
        shrink_limit=settings.listing_shrink_limit,
        looked_at=None if listing is None else listing.began_at,
        on_progress=ignore_progress if listing is None else progress_of(listing.address, session),
    )


def _write_crawl(
    connection: Connection, session: Session, listing: SourceListing
) -> tuple[RecordedListing, CrawlOutcome, SourceError | InternalFaultError | None, datetime]:
    """Write a listing and the row of its crawl; returns what was recorded, how it ended, what was wrong, and when."""
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
    return result, outcome, error, now


def _shrunk(address: SourceAddress, directories: Sequence[Message]) -> ListingShrunkError:
    return ListingShrunkError(
        mark(
            "{directories}. Nothing is taken for gone yet: if the next crawl lists the same, it is "
            "believed. Ask the centre whether this is meant; DCC_LISTING_SHRINK_LIMIT sets the limit."
        ),
        source=address.label,
        directories=list(directories),
    )
