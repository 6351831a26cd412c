"""The threads that receive archives from each source, and what they share.

Every source in use has a few threads of its own, each with its own connection. So two accounts on one server never
share a login and a slow source delays no other. DownloadSlots limit all of them together. Servers are given up only
after a long silence, and never if they send a little now and then. A download that hardly moves costs next to nothing,
so it does not count.

A server may accept fewer connections than there are threads. A refused thread has then done nothing wrong, and neither
has the server. But threads connect at the same time, so that one may be refused before it knows that another was
accepted.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from dcc.errors import (
    CertificateRefusedError,
    HostKeyChangedError,
    HostKeyUnknownError,
    LoginRefusedError,
    SourceError,
    SourceTimeoutError,
)
from dcc.messages import Message
from dcc.outcomes import ZipKey
from dcc.phases import Phase
from dcc.runtime.clock import utc_now
from dcc.runtime.log_context import logging_about, progress_log, with_log_context
from dcc.session.fetching.archive_transfer import ReceivedArchive, Transfer, origin_of, receive
from dcc.settings import Settings
from dcc.sources.base import Connection, SourceAddress, UpcomingFile
from dcc.sources.connect import connect
from dcc.sources.hosting import Hosting
from dcc.sources.transfer_speed import SpeedLimits
from dcc.store.staging import Staging

if TYPE_CHECKING:
    # Fetching needs no database.
    from dcc.session.connection_slots import ConnectionSlots

session_log = progress_log(__name__)
T = TypeVar("T")

_LOOK_SECONDS = 0.25
_SLOW_SECONDS = 2.0
_SLOW_RATE = 50_000
_FRESH_SECONDS = 30.0
_IDLE_SECONDS = 3.0
_MAX_AHEAD, _MAX_BYTES_AHEAD = 32, 8 * 1024 * 1024

MAX_QUEUED = 128
"""The most attempts requested of one source at once: running ones, and those that wait for them."""

HOPELESS = (LoginRefusedError, HostKeyUnknownError, HostKeyChangedError, CertificateRefusedError)
"""Errors that another try in the same session cannot mend."""


class TransferQueue(Generic[T]):
    """A queue for `workers` threads, numbered from 0; `size_of` returns the bytes of an item, None if unknown.

    Items may be reserved for a thread, so that its connection can request them ahead. An idle thread takes another's
    reserved items anyway: a transfer that hardly moves delays no other.
    """

    def __init__(self, workers: int, size_of: Callable[[T], int | None]) -> None:
        self._size_of = size_of
        self._waiting: deque[T] = deque()
        self._kept: list[deque[T]] = [deque() for _ in range(workers)]
        self._first: deque[T] = deque()
        self._stopped = False
        self._changed = threading.Condition()

    def put(self, item: T) -> None:
        """Add an item; first in, first out."""
        with self._changed:
            self._waiting.append(item)
            self._changed.notify()

    def put_first(self, is_wanted: Callable[[T], bool]) -> None:
        """Let items go before all others, reserved or not."""
        with self._changed:
            for items in (*self._kept, self._waiting):
                if wanted := [item for item in items if is_wanted(item)]:
                    self._first.extend(wanted)
                    others = [item for item in items if not is_wanted(item)]
                    items.clear()
                    items.extend(others)

    def put_back(self, item: T) -> None:
        """Let another thread take an item before all others."""
        with self._changed:
            self._waiting.appendleft(item)
            self._changed.notify()

    def stop(self) -> None:
        """Let nobody take anything more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def take(self, worker: int, patience: float | None = None) -> T | None:
        """Wait for a thread's next item: one to go first, reserved for it, free, or reserved for another.

        None at the end. Raises TimeoutError after the seconds of `patience`.
        """
        with self._changed:
            while not self._stopped:
                for items in (self._first, self._kept[worker], self._waiting):
                    if items:
                        return items.popleft()
                longest = max(self._kept, key=len)
                if longest:
                    return longest.pop()
                if not self._changed.wait(patience):
                    raise TimeoutError
            return None

    def keep(self, worker: int, limit: int, max_bytes: int) -> Sequence[T]:
        """Reserve items for a thread, up to `limit` and `max_bytes`, and no more than its share.

        Returns all that are reserved for it, in order; nothing while it has still half of its share.
        """
        with self._changed:
            kept = self._kept[worker]
            if len(kept) > limit // 2:
                return ()
            share = len(self._waiting) // len(self._kept)
            room = max_bytes - sum(self._size_of(item) or 0 for item in kept)
            added = 0
            while added < share and len(kept) < limit and room > 0:
                size = self._size_of(self._waiting[0])
                if size is None:
                    break
                kept.append(self._waiting.popleft())
                room -= size
                added += 1
            return tuple(kept) if added else ()


@dataclass(eq=False)
class DownloadSlot:
    """One running download: its holder keeps `received`, the number of received bytes, up to date.

    `slow` is the result of the last check, at the time `looked`, when `seen` bytes had arrived. `turn` is set when it
    may be the next to begin.
    """

    received: int = 0
    slow: bool = False
    seen: int = 0
    looked: float = 0.0
    turn: threading.Event = field(default_factory=threading.Event)

    def look(self, now: float) -> None:
        """Check whether it moves, if enough time has passed."""
        seconds = now - self.looked
        if seconds >= _SLOW_SECONDS:
            received = self.received
            self.slow = received - self.seen < _SLOW_RATE * seconds
            self.seen, self.looked = received, now


class DownloadSlots:
    """Permits `slots` downloads at once, not counting those slower than 50 kB/s. For use by threads.

    First come, first served: a source with many downloads takes turns with the others.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._taken: list[DownloadSlot] = []
        self._line: deque[DownloadSlot] = deque()
        self._lock = threading.Lock()

    @contextmanager
    def slot(self) -> Iterator[DownloadSlot]:
        """Wait for a slot and keep it during the block."""
        slot = DownloadSlot()
        with self._lock:
            self._line.append(slot)
        while not self._take(slot):
            slot.turn.wait(_LOOK_SECONDS)
        try:
            yield slot
        finally:
            with self._lock:
                self._taken.remove(slot)
                self._call_first()

    def _take(self, slot: DownloadSlot) -> bool:
        """Take a slot, if it is the first in the queue and there is room."""
        with self._lock:
            slot.turn.clear()
            now = time.monotonic()
            for taken in self._taken:
                taken.look(now)
            if self._line[0] is not slot or sum(not taken.slow for taken in self._taken) >= self._slots:
                return False
            self._line.popleft()
            slot.looked = now
            self._taken.append(slot)
            self._call_first()
            return True

    def _call_first(self) -> None:
        if self._line:
            self._line[0].turn.set()


class NoFurtherConnection(Exception):  # noqa: N818 - not an error: others have connections
    """No connection can be had in addition to those of others, or none is wanted any more."""


class SourceConnections:
    """Connections to the source `label`, each made by `make` in a `place`. Threads may share it.

    A thread waits for a place as long as the given function returns true.
    """

    def __init__(
        self,
        label: Message | str,
        make: Callable[[], Connection],
        place: Callable[[Callable[[], bool]], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        self._label, self._make, self._place = label, make, place
        self._of_thread: dict[int, tuple[Connection, ExitStack, float]] = {}
        self._open = 0
        self._made = 0
        self._being_made = 0
        self._stopped = False
        self._changed = threading.Condition()

    def get(self, thread: int) -> Connection:
        """The connection of a thread, by its number, or a new one.

        If that fails, it waits for others that are being made: only they show whether the server accepts any. Raises
        NoFurtherConnection if the server accepted one meanwhile or there is one, and after `stop`; else what `make`
        raised.
        """
        if thread in self._of_thread:
            connection, _, used = self._of_thread[thread]
            if time.monotonic() - used <= _FRESH_SECONDS:
                return connection
            # The server may have closed it meanwhile, which would cost the next transfer an attempt.
            self.release(thread)
        with self._changed:
            self._being_made += 1
            before = self._made
        held = ExitStack()
        try:
            held.enter_context(self._place(lambda: not self._stopped and not self._open))
            connection = held.enter_context(closing(self._make()))
        except Exception as error:
            held.close()
            if not self._is_needed(before):
                # The transfer is left to others; an error that is not the server's must be visible.
                fault = None if isinstance(error, SourceError) else error
                session_log.info("%s is asked for no further connection: %s", self._label, error, exc_info=fault)
                raise NoFurtherConnection from error
            raise
        with self._changed:
            self._being_made -= 1
            self._open += 1
            self._made += 1
            self._changed.notify_all()
        self._of_thread[thread] = connection, held, time.monotonic()
        return connection

    def has(self, thread: int) -> bool:
        """Whether a thread has a connection."""
        return thread in self._of_thread

    def release(self, thread: int, *, keep: bool = False) -> None:
        """Close a thread's connection, if it has one, or `keep` it for its next transfer.

        Errors are logged: nobody needs it any more.
        """
        if keep:
            connection, held, _ = self._of_thread[thread]
            self._of_thread[thread] = connection, held, time.monotonic()
        elif thread in self._of_thread:
            try:
                self._of_thread.pop(thread)[1].close()
            except Exception as error:
                session_log.info("A connection to %s was not closed in order: %s", self._label, error)
            with self._changed:
                self._open -= 1

    def stop(self) -> None:
        """Let nobody wait any longer."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _is_needed(self, before: int) -> bool:
        """Whether there is no connection besides one that could not be made; `before` it, so many had been."""

        def others_do() -> bool:
            return self._stopped or self._open > 0 or self._made > before

        with self._changed:
            self._being_made -= 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: others_do() or not self._being_made)
            return not others_do()


class DownloadsStopped(Exception):  # noqa: N818 - not an error: the session is ending
    """The session is stopping; the transfer is left where it is."""


@dataclass(frozen=True, slots=True)
class TransferStarted:
    """A transfer has begun."""

    transfer: Transfer


@dataclass(frozen=True, slots=True)
class TransferProgressed:
    """The bytes of a transfer received so far."""

    transfer: Transfer
    received: int


@dataclass(frozen=True, slots=True)
class ChecksumPublished:
    """The MD5 published beside the copy of a transfer."""

    transfer: Transfer
    md5: str


@dataclass(frozen=True, slots=True)
class TransferCompleted:
    """A transfer received its archive."""

    transfer: Transfer
    received: ReceivedArchive


@dataclass(frozen=True, slots=True)
class TransferFailed:
    """A transfer failed; `begun`: some of the archive had arrived."""

    transfer: Transfer
    error: Exception
    begun: bool = False


@dataclass(frozen=True, slots=True)
class TransferNotBegun:
    """A person paused the source, or its window closed, before a transfer began."""

    transfer: Transfer


DownloadMessage = (
    TransferStarted | TransferProgressed | ChecksumPublished | TransferCompleted | TransferFailed | TransferNotBegun
)


class PrefetchedArchives(Protocol):
    """Archives that workers have fetched."""

    def connection(self, key: ZipKey, hosting: Hosting) -> Connection | None:
        """The replacement of a connection, if a worker fetched the copy."""
        ...


class SourceDownloads:
    """The threads that download from one source.

    A source is given up, and used no more in the session, after `source_failure_limit` failed connections or stalled
    transfers in a row. So it is if it refuses the login or cannot prove its identity. The threads call `tell` with each
    DownloadMessage; `allowance` limits the transfers of all sources, and `connection_slots` the connections of all
    sessions and workers.
    """

    def __init__(
        self,
        address: SourceAddress,
        settings: Settings,
        staging: Staging,
        allowance: DownloadSlots,
        tell: Callable[[DownloadMessage], object],
        from_workers: PrefetchedArchives | None = None,
        connection_slots: ConnectionSlots | None = None,
    ) -> None:
        self._from_workers, self._connection_slots = from_workers, connection_slots
        self.address = address
        settings = settings.for_protocol(address.protocol)
        self._settings, self._staging, self._allowance, self._tell = settings, staging, allowance, tell
        self._transfers = TransferQueue[Transfer](settings.downloads_per_source, lambda item: item.hosting.size_bytes)
        self._speed_limits = SpeedLimits.from_settings(settings)
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()
        self._given_up: SourceError | None = None
        self._urgent: Collection[ZipKey] = ()
        self.is_paused = False
        """Whether no further transfer begins until it is unset: each of the queue ends as one that did not begin."""
        self._failures_in_a_row = 0
        self._connections = SourceConnections(
            address.label,
            lambda: connect(address, settings),
            lambda still_needed: (
                nullcontext() if connection_slots is None else connection_slots.slot(address, still_needed)
            ),
        )
        self._counting = threading.Lock()

    def put(self, transfer: Transfer) -> None:
        """Queue a transfer; starts another thread once it is of use, up to the source's limit."""
        self._transfers.put(transfer)
        if transfer.key in self._urgent:
            self.put_first(self._urgent)
        self._start_thread()

    def put_first(self, keys: Collection[ZipKey]) -> None:
        """Let the transfers of submissions go before all others, those that are queued later too."""
        self._urgent = keys
        self._transfers.put_first(lambda transfer: transfer.key in keys)

    def _start_thread(self) -> None:
        with self._counting:
            if len(self._threads) < self._settings.downloads_per_source and not self._stopping.is_set():
                name = f"download {self.address.id}.{len(self._threads) + 1}"
                work = with_log_context(self._work)
                thread = threading.Thread(target=work, args=(len(self._threads),), name=name, daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    # The machine has no more threads: the existing ones do all of it.
                    if not self._threads:
                        raise
                    session_log.info(
                        "%s is asked by %d threads only: %s", self.address.label, len(self._threads), error
                    )
                    return
                self._threads.append(thread)

    def give_up(self, reason: SourceError) -> None:
        """Carry out no more of the queue: each transfer fails with `reason` at once."""
        if self._given_up is None:
            session_log.warning("%s is left alone for the rest of the session: %s", self.address.label, reason)
        self._given_up = reason

    @property
    def is_resting(self) -> bool:
        """Whether no transfer begins now: the source is paused, or outside its windows."""
        windows = self.address.windows
        return self.is_paused or (windows is not None and not windows.is_open(utc_now()))

    @property
    def given_up(self) -> bool:
        """Whether nothing more is fetched from the source in this session."""
        return self._given_up is not None

    def _note_failure(self, error: Exception, connecting: bool) -> None:
        # Before the next transfer begins, because a server may lock out an account after repeated refusals.
        if not isinstance(error, SourceError):
            return
        with self._counting:
            costs_time = connecting or isinstance(error, SourceTimeoutError)
            self._failures_in_a_row = self._failures_in_a_row + 1 if costs_time else 0
            if self._failures_in_a_row >= self._settings.source_failure_limit or isinstance(error, HOPELESS):
                self.give_up(error)

    def stop(self) -> None:
        """End the threads; running transfers break off, and a later session continues them."""
        self._stopping.set()
        self._transfers.stop()
        self._connections.stop()

    def join(self, timeout: float) -> None:
        """Wait for the threads to end, `timeout` seconds at most for each."""
        for thread in self._threads:
            thread.join(timeout)

    def _work(self, worker: int) -> None:
        phase = Phase.DOWNLOAD.short_name
        with logging_about(source=self.address.id, centre=self.address.centre, phase=phase):
            self._carry_out_all(worker)

    def _carry_out_all(self, worker: int) -> None:
        while (item := self._next(worker)) is not None and not self._stopping.is_set():
            if self._breaks_at_once(item):
                continue
            with self._allowance.slot() as slot, logging_about(zip_action=item.key):
                if self._stopping.is_set() or self._breaks_at_once(item) or self._was_fetched(worker, item, slot):
                    continue
                try:
                    connection = self._connections.get(worker)
                except NoFurtherConnection:
                    self._transfers.put_back(item)
                    return
                except Exception as error:
                    self._tell(TransferStarted(item))
                    self._broke(item, error, connecting=True)
                else:
                    # After an interruption the server may still be sending.
                    self._connections.release(worker, keep=self._fetch(worker, item, connection, slot))
            if self._connection_slots is not None and self._connection_slots.must_give_up(self.address):
                self._connections.release(worker)
        self._connections.release(worker)

    def _next(self, worker: int) -> Transfer | None:
        """The next item; a connection that others may wait for is closed if none comes for some seconds."""
        if self._connection_slots is not None and self._connections.has(worker):
            try:
                return self._transfers.take(worker, _IDLE_SECONDS)
            except TimeoutError:
                self._connections.release(worker)
        return self._transfers.take(worker)

    def _was_fetched(self, worker: int, item: Transfer, slot: DownloadSlot) -> bool:
        """Carry out a transfer whose archive a worker has fetched; returns whether it was one."""
        if self._from_workers is None:
            return False
        try:
            connection = self._from_workers.connection(item.key, item.hosting)
        except Exception as error:
            self._tell(TransferStarted(item))
            self._broke(item, error, connecting=False)
            return True
        if connection is None:
            return False
        self._fetch(worker, item, connection, slot)
        return True

    def _breaks_at_once(self, item: Transfer) -> bool:
        """End a transfer before it begins, if none may begin now or the source is given up; returns whether it did."""
        if self.is_resting:
            self._tell(TransferNotBegun(item))
            return True
        if self._given_up is not None:
            self._tell(TransferFailed(item, self._given_up))
        return self.given_up

    def _look_ahead(self, worker: int, transfer: Transfer, connection: Connection) -> None:
        """Announce the following transfers to a connection that can use this."""
        if not connection.looks_ahead:
            return
        if following := self._transfers.keep(worker, _MAX_AHEAD, _MAX_BYTES_AHEAD):
            connection.announce([self._upcoming(each) for each in (transfer, *following)])

    def _upcoming(self, transfer: Transfer) -> UpcomingFile:
        key, hosting = transfer.key, transfer.hosting
        offset = self._staging.resumable(key, origin_of(hosting))
        return UpcomingFile(key.action, transfer.path, hosting.size_bytes, offset, transfer.reads_checksum)

    def _fetch(self, worker: int, transfer: Transfer, connection: Connection, slot: DownloadSlot) -> bool:
        """Carry out one transfer; returns whether it succeeded."""

        def on_bytes(received: int) -> None:
            if self._stopping.is_set():
                raise DownloadsStopped
            slot.received = received
            self._tell(TransferProgressed(transfer, received))

        self._tell(TransferStarted(transfer))
        try:
            self._look_ahead(worker, transfer, connection)
            received = receive(
                connection,
                transfer,
                self._staging,
                on_bytes,
                speed_limits=self._speed_limits,
                max_unsized=self._settings.max_unsized_bytes,
                on_published=lambda md5: self._tell(ChecksumPublished(transfer, md5)),
            )
        except DownloadsStopped:
            return False
        except Exception as error:
            self._broke(transfer, error, connecting=False, begun=slot.received > 0)
            return False
        self._failures_in_a_row = 0
        self._tell(TransferCompleted(transfer, received))
        return True

    def _broke(self, transfer: Transfer, error: Exception, connecting: bool, *, begun: bool = False) -> None:
        # Whatever it is, the coordinator must get it: nobody else waits for the thread.
        session_log.info("A download failed: %s", error)
        self._note_failure(error, connecting)
        self._tell(TransferFailed(transfer, error, begun))
