"""Lists sources at once, each in a thread of its own, within the time limits of the settings; records nothing."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final

from dcc.errors import InternalFaultError, SourceError, SourceTimeoutError
from dcc.messages import mark
from dcc.naming import Action
from dcc.outcomes import CrawlOutcome, SubmissionKey, source_partition
from dcc.phases import Phase
from dcc.runtime.log_context import logging_about, with_log_context
from dcc.session.connection_slots import ConnectionSlots, for_seconds, server_of_source
from dcc.session.faults import Faults
from dcc.session.sessions import Session
from dcc.settings import Settings
from dcc.sources.base import ActionListing, SourceAddress
from dcc.sources.connect import connect
from dcc.sources.listing_watch import ListingWatch, watching

_IGNORED_SHOWN: Final = 20
_SLACK_SECONDS: Final = 30


@dataclass
class SourceListing:
    """The listing of one source: the directories that could be listed, and the first error.

    `began_at` is in seconds since 1970; `ended_monotonic` is on the clock of `time.monotonic`.
    """

    address: SourceAddress
    listings: list[ActionListing] = field(default_factory=list)
    error: SourceError | InternalFaultError | None = None
    seconds: float = 0.0
    began_at: float = field(default_factory=time.time)
    ended_monotonic: float = field(default_factory=time.monotonic)

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
    result.ended_monotonic = time.monotonic()
    result.seconds = result.ended_monotonic - began
    return result


def list_in_parallel(
    addresses: Sequence[SourceAddress],
    session: Session,
    list_one: Callable[[SourceAddress, Settings, ListingWatch], SourceListing],
    *,
    wait: float = 0.0,
) -> Iterator[SourceListing]:
    """Yields each source's complete listing; one that exceeds every time limit, after `wait`, is given up."""
    turns = {server: threading.Semaphore(most) for server, most in _most_at_once(addresses, session.settings).items()}
    results: queue.SimpleQueue[SourceListing] = queue.SimpleQueue()

    def work(address: SourceAddress) -> None:
        # The time limit of a listing does not include the wait for others on the same server.
        with logging_about_source(address), turns[server_of_source(address)]:
            results.put(_listed(address, session, list_one))

    for address in addresses:
        threading.Thread(
            target=with_log_context(work), args=(address,), name=f"crawl {address.id}", daemon=True
        ).start()
    deadline = _deadline(addresses, session, wait)
    waiting = {address.id: address for address in addresses}
    while waiting:
        try:
            result = results.get(timeout=max(deadline - time.monotonic(), 0))
        except queue.Empty:
            limit = _longest_listing(addresses, session.settings)
            yield from (_given_up(address, limit) for address in waiting.values())
            return
        if waiting.pop(result.address.id, None):
            yield result


def _deadline(addresses: Sequence[SourceAddress], session: Session, wait: float) -> float:
    """When all sources have been listed or have exceeded every time limit, on the clock of `time.monotonic`."""
    settings = session.settings
    if session.connection_slots is not None:
        # Each waits for a slot as long as its listing may take.
        wait += max((settings.for_protocol(address.protocol).list_timeout for address in addresses), default=0)
    sources = Counter(map(server_of_source, addresses))
    most = _most_at_once(addresses, settings)
    rounds = max((math.ceil(count / most[server]) for server, count in sources.items()), default=1)
    return time.monotonic() + rounds * (wait + _longest_listing(addresses, settings))


def _most_at_once(addresses: Sequence[SourceAddress], settings: Settings) -> dict[str, int]:
    sources = Counter(map(server_of_source, addresses))
    return {server: settings.limits_of(server).connections or count for server, count in sources.items()}


def _longest_listing(addresses: Sequence[SourceAddress], settings: Settings) -> float:
    own = (settings.for_protocol(address.protocol) for address in addresses)
    return _SLACK_SECONDS + max((one.connect_timeout + one.login_timeout + one.list_timeout for one in own), default=0)


def _listed(
    address: SourceAddress, session: Session, list_one: Callable[[SourceAddress, Settings, ListingWatch], SourceListing]
) -> SourceListing:
    """A source's listing; whatever its server provokes must not cost the other sources their crawl."""
    settings = session.settings
    seconds = settings.for_protocol(address.protocol).list_timeout
    watch = ListingWatch(address.label, seconds, progress_of(address, session))
    try:
        return list_one(address, settings, watch)
    except Exception as error:
        fault = Faults().note(str(address.label), error, "its next session tries again")
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


@dataclass(frozen=True, slots=True)
class RelistedSource:
    """A source to list once more for some archives, `not_before` a time on the clock of `time.monotonic`."""

    address: SourceAddress
    archives: Collection[SubmissionKey]
    not_before: float = -math.inf


def list_again(sources: Collection[RelistedSource], session: Session) -> Iterator[SourceListing]:
    """List the directories of some archives again, at the times of their sources."""
    by_id = {source.address.id: source for source in sources}

    def list_one(address: SourceAddress, settings: Settings, watch: ListingWatch) -> SourceListing:
        source = by_id[address.id]
        time.sleep(max(source.not_before - time.monotonic(), 0))
        actions = sorted({key.action for key in source.archives})
        return list_source(address, settings, watch, actions, session.connection_slots)

    if by_id:
        addresses = [source.address for source in sources]
        for listing in list_in_parallel(addresses, session, list_one, wait=session.settings.quiet_seconds):
            session.raise_if_over()
            yield listing
