"""Crawling: list every file source at once, and record what is new (seed 000 section 4).

Nothing is downloaded here. Each source is listed in a thread of its own, within the time limits of the settings; what
it shows is recorded in the caller's thread, a source at a time, with a number of statements that does not depend on
how many archives are known.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy import Connection, Engine, select

from dcc_resources.errors import InternalFaultError, SourceError, SourceTimeoutError
from dcc_resources.file_sources.base import ActionListing, SourceAddress
from dcc_resources.file_sources.connect import connect
from dcc_resources.file_sources.listing_watch import ListingWatch, watching
from dcc_resources.log_context import in_log_context, logging_about, progress_log
from dcc_resources.naming import Action
from dcc_resources.outcomes import Problem, SourceCrawl, source_partition
from dcc_resources.sessions import Session
from dcc_resources.settings import Settings
from dcc_resources.tracker.database import exception_id, insert_rows, run_reading
from dcc_resources.tracker.listings import ListingRecorder, RecordedListing
from dcc_resources.tracker.models import Centre, SourceCrawlRow, utc_now
from dcc_resources.tracker.reference import Phase
from dcc_resources.tracker.sources import load_addresses

log = logging.getLogger(__name__)
progress = progress_log(__name__)

OK, PARTIAL, FAILED = "ok", "partial", "failed"
_IGNORED_SHOWN = 20
_SLACK_SECONDS = 30


@dataclass
class SourceListing:
    """What one file source showed: the directories that could be listed, and the first error."""

    address: SourceAddress
    listings: list[ActionListing] = field(default_factory=list)
    error: SourceError | InternalFaultError | None = None
    seconds: float = 0.0

    @property
    def ignored(self) -> int:
        """How many entries were left aside."""
        return sum(part.ignored for part in self.listings)

    @property
    def ignored_examples(self) -> tuple[tuple[str, str], ...]:
        """Some of the entries left aside, as `<action>/<name>` with the reason."""
        examples = [
            (f"{part.action}/{name}", reason) for part in self.listings for name, reason in part.ignored_examples
        ]
        return tuple(examples[:_IGNORED_SHOWN])

    @property
    def outcome(self) -> str:
        """`ok`; `partial` when some directory could not be listed; `failed` when none could."""
        if self.error is None:
            return OK
        return PARTIAL if self.listings else FAILED


def list_source(address: SourceAddress, settings: Settings, watch: ListingWatch | None = None) -> SourceListing:
    """List the three action directories of a file source. Never raises SourceError: it is in the result.

    `watch` bounds it and hears how far it is; by default it has the time that the settings give.
    """
    result = SourceListing(address)
    began = time.monotonic()
    try:
        with (
            connect(address, settings) as connection,
            watching(watch or ListingWatch(address.label, settings.list_timeout)),
        ):
            for action in Action:
                try:
                    result.listings.append(connection.list_action(action))
                except SourceError as error:
                    result.error = result.error or error
    except SourceError as error:
        result.error = result.error or error
    result.seconds = time.monotonic() - began
    return result


def crawl_file_sources(
    tracker: Engine, settings: Settings, session: Session, source_ids: Sequence[int] | None = None
) -> Iterator[SourceCrawl]:
    """Crawl all available file sources of active centres, or those of `source_ids`; yield each as it is recorded.

    A source that cannot be reached, or not be listed for a fault of the platform, is an outcome, not an exception.
    Raises TrackerUnreachableError and SessionLostError.
    """
    addresses = run_reading(
        tracker,
        lambda connection: load_addresses(connection, ids=source_ids),
        patience_seconds=settings.database_retry,
    )
    tasks = {address.id: session.start_task(Phase.ZIP_NAME, f"Crawl of {address.label}") for address in addresses}
    for listing in _list_in_parallel(addresses, settings, session.heard):
        session.check()
        with _logging_about(listing.address):
            crawl = _record(settings, session, listing)
        session.finish_task(tasks[listing.address.id], failed=crawl.outcome != OK)
        yield crawl


def _logging_about(address: SourceAddress) -> AbstractContextManager[None]:
    return logging_about(source=address.id, centre=address.centre, phase=Phase.ZIP_NAME.short_name)


def _list_in_parallel(
    addresses: Sequence[SourceAddress], settings: Settings, heard: Callable[[str], object]
) -> Iterator[SourceListing]:
    """Yield each source's listing as it is complete; one that outstays every time limit is given up."""
    results: queue.SimpleQueue[SourceListing] = queue.SimpleQueue()

    def work(address: SourceAddress) -> None:
        try:
            with _logging_about(address):
                partition = source_partition(address.centre, address.id)
                watch = ListingWatch(
                    address.label, settings.list_timeout, heard=lambda text: heard(f"{partition}: {text}")
                )
                listing = list_source(address, settings, watch)
        except Exception as error:  # whatever a server provoked, it must not cost the other sources their crawl
            with _logging_about(address):
                log.exception("%s met a fault of the platform", address.label)
            fault = InternalFaultError(
                f"{address.label}: {type(error).__name__}: {error}. This is a fault of the platform; its next session "
                "tries again. Report it with the log."
            )
            listing = SourceListing(address, error=fault)
        results.put(listing)

    for address in addresses:
        threading.Thread(target=in_log_context(work), args=(address,), name=f"crawl {address.id}", daemon=True).start()
    waiting = {address.id: address for address in addresses}
    limit = settings.connect_timeout + settings.login_timeout + settings.list_timeout + _SLACK_SECONDS
    deadline = time.monotonic() + limit
    while waiting:
        try:
            result = results.get(timeout=max(deadline - time.monotonic(), 0))
        except queue.Empty:
            for address in waiting.values():
                error = SourceTimeoutError(
                    f"{address.label} was given up after {limit:.0f} s, the sum of DCC_CONNECT_TIMEOUT, "
                    f"DCC_LOGIN_TIMEOUT, DCC_LIST_TIMEOUT and {_SLACK_SECONDS} s. Ask whoever runs the server what it "
                    "is doing; the next session tries again."
                )
                yield SourceListing(address, error=error, seconds=limit)
            return
        if waiting.pop(result.address.id, None):
            yield result


def _record(settings: Settings, session: Session, listing: SourceListing) -> SourceCrawl:
    address, error = listing.address, listing.error
    problem = None if error is None else Problem(error.short_name(), str(error))
    if error is not None:
        log.warning("%s", error)
    result = session.write(lambda connection: _write(connection, settings, session, listing, problem))
    progress.info(
        "%s: crawl %s after %.1f s: %d archives listed, %d new, %d changed, %d refused, %d gone",
        address.label,
        listing.outcome,
        listing.seconds,
        result.listed,
        len(result.new_zips),
        result.changed,
        len(result.refused_zips),
        result.gone,
    )
    return SourceCrawl(
        source_id=address.id,
        partition=source_partition(address.centre, address.id),
        label=address.label,
        centre=address.centre,
        outcome=listing.outcome,
        error=problem,
        listed=result.listed,
        new=len(result.new_zips),
        known=result.known,
        changed=result.changed,
        refused=len(result.refused_zips),
        ignored=listing.ignored,
        gone=result.gone,
        seconds=listing.seconds,
        finished=utc_now(),
        new_zips=tuple(result.new_zips),
        refused_zips=tuple(result.refused_zips),
        accepted_zips=tuple(result.accepted_zips),
        ignored_examples=listing.ignored_examples,
        findings=tuple(finding.message for finding in result.findings),
    )


def _write(
    connection: Connection, settings: Settings, session: Session, listing: SourceListing, problem: Problem | None
) -> RecordedListing:
    now = utc_now()
    centres = {name: number for number, name in connection.execute(select(Centre.id, Centre.short_name))}
    recorder = ListingRecorder(connection, session.id, settings.naming, centres, now)
    result = recorder.record(listing.address, listing.listings)
    error = listing.error
    row = {
        "session_id": session.id,
        "file_source_id": listing.address.id,
        "start_time": now - timedelta(seconds=listing.seconds),
        "finish_time": now,
        "outcome": listing.outcome,
        "exception_id": error and exception_id(connection, error.short_name(), error.summary()),
        "message": problem and problem.message,
        "listed": result.listed,
        "new_zips": len(result.new_zips),
        "known": result.known,
        "changed": result.changed,
        "refused": len(result.refused_zips),
        "ignored": listing.ignored,
        "gone": result.gone,
    }
    insert_rows(connection, SourceCrawlRow.__table__, [row])
    return result
