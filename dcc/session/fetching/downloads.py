"""The threads that receive archives from each source.

Every source in use has a few threads of its own, each with its own connection. So two accounts on one server never
share a login and a slow source delays no other. DownloadSlots limit all of them together. Servers are given up only
after a long silence, and never if they send a little now and then. A download that hardly moves costs next to nothing,
so it does not count.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import nullcontext
from typing import TYPE_CHECKING

from dcc.errors import (
    CertificateRefusedError,
    HostKeyChangedError,
    HostKeyUnknownError,
    LoginRefusedError,
    SourceError,
    SourceTimeoutError,
)
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase
from dcc.runtime.clock import utc_now
from dcc.runtime.log_context import logging_about, progress_log, with_log_context
from dcc.session.fetching.archive_transfer import Transfer, origin_of, receive
from dcc.session.fetching.download_slots import DownloadSlot, DownloadSlots
from dcc.session.fetching.source_connections import NoFurtherConnection, SourceConnections
from dcc.session.fetching.transfer_events import (
    ChecksumPublished,
    TransferCompleted,
    TransferEvent,
    TransferFailed,
    TransferNotBegun,
    TransferProgressed,
    TransferStarted,
)
from dcc.session.fetching.transfer_queue import TransferQueue
from dcc.session.fetching.transfer_speed import SpeedLimits
from dcc.settings import Settings
from dcc.sources.base import Connection, SourceAddress, UpcomingFile
from dcc.sources.connect import connect
from dcc.store.staging import Staging
from dcc.tracker.hostings.hosting import Hosting

if TYPE_CHECKING:
    # Fetching needs no database.
    from dcc.session.connection_slots import ConnectionSlots

session_log = progress_log(__name__)

_IDLE_SECONDS = 3.0
_MAX_AHEAD, _MAX_BYTES_AHEAD = 32, 8 * 1024 * 1024

MAX_QUEUED = 128
"""The most attempts requested of one source at once: running ones, and those that wait for them."""

HOPELESS = (LoginRefusedError, HostKeyUnknownError, HostKeyChangedError, CertificateRefusedError)
"""Errors that another try in the same session cannot mend."""


class DownloadsStopped(Exception):  # noqa: N818 - not an error: the session is ending
    """The session is stopping; the transfer is left where it is."""


class SourceDownloads:
    """The threads that download from one source.

    A source is given up, and used no more in the session, after `source_failure_limit` failed connections or stalled
    transfers in a row. So it is if it refuses the login or cannot prove its identity. The threads call `tell` with each
    TransferEvent; `download_slots` limits the transfers of all sources, and `connection_slots` the connections of all
    sessions and workers. `from_workers` gives the replacement of a connection, if a worker fetched the copy.
    """

    def __init__(
        self,
        address: SourceAddress,
        settings: Settings,
        staging: Staging,
        download_slots: DownloadSlots,
        tell: Callable[[TransferEvent], object],
        from_workers: Callable[[SubmissionKey, Hosting], Connection | None] | None = None,
        connection_slots: ConnectionSlots | None = None,
    ) -> None:
        self._from_workers, self._connection_slots = from_workers, connection_slots
        self.address = address
        settings = settings.for_protocol(address.protocol)
        self._settings, self._staging, self._download_slots, self._tell = settings, staging, download_slots, tell
        self._transfers = TransferQueue[Transfer](settings.downloads_per_source, lambda item: item.hosting.size_bytes)
        self._speed_limits = SpeedLimits.from_settings(settings)
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()
        self.is_paused = False
        """Whether no further transfer begins until it is unset: each of the queue ends as one that did not begin."""
        self.given_up = False
        """Whether no further transfer begins in this session."""
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
        self._start_thread()

    def put_first(self, keys: Collection[SubmissionKey]) -> None:
        """Let the transfers of submissions go before all others, those that are queued later too."""
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
        """Carry out no more of the queue: each transfer ends as one that did not begin."""
        if not self.given_up:
            session_log.warning("%s is left alone for the rest of the session: %s", self.address.label, reason)
        self.given_up = True

    @property
    def is_resting(self) -> bool:
        """Whether no transfer begins now: the source is given up, paused, or outside its windows."""
        windows = self.address.windows
        return self.given_up or self.is_paused or (windows is not None and not windows.is_open(utc_now()))

    def _note_failure(self, error: Exception, *, connecting: bool) -> None:
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
            with self._download_slots.slot() as slot, logging_about(zip_action=item.key):
                if self._stopping.is_set() or self._breaks_at_once(item) or self._took_from_workers(worker, item, slot):
                    continue
                try:
                    connection = self._connections.get(worker)
                except NoFurtherConnection:
                    self._transfers.put_back(item)
                    return
                except Exception as error:
                    self._tell(TransferStarted(item))
                    self._transfer_failed(item, error, connecting=True)
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

    def _took_from_workers(self, worker: int, item: Transfer, slot: DownloadSlot) -> bool:
        """Carry out a transfer whose archive a worker has fetched; returns whether it was one."""
        try:
            connection = None if self._from_workers is None else self._from_workers(item.key, item.hosting)
        except Exception as error:
            self._tell(TransferStarted(item))
            self._transfer_failed(item, error)
            return True
        if connection is None:
            return False
        self._fetch(worker, item, connection, slot)
        return True

    def _breaks_at_once(self, item: Transfer) -> bool:
        """End a transfer before it begins, if none may begin now; returns whether it did."""
        if not self.is_resting:
            return False
        self._tell(TransferNotBegun(item))
        return True

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
            self._transfer_failed(transfer, error, begun=slot.received > 0)
            return False
        self._failures_in_a_row = 0
        self._tell(TransferCompleted(transfer, received))
        return True

    def _transfer_failed(
        self, transfer: Transfer, error: Exception, *, connecting: bool = False, begun: bool = False
    ) -> None:
        # Whatever it is, the coordinator must get it: nobody else waits for the thread.
        session_log.info("A download failed: %s", error)
        self._note_failure(error, connecting=connecting)
        self._tell(TransferFailed(transfer, error, begun))
