"""Slots for connections to sources, so that sessions, workers and audits together never have more than allowed.

A connection first gets a row of the tracker, a position in a queue. It has a slot once the rows before it leave room
at its source and its server, which several sources may share. A dead process loses its slots as a session loses its
lease: at once on the same machine, elsewhere after `lease_timeout` without a sign of life.

A session that is alone needs none, unless servers have limits: its own threads keep to those of sources. A person who
tries a source needs none: that all slots are taken may be what such a person wants to find out.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple, TypeVar

from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from dcc.databases.transactions import insert_rows, run_reading, run_writing
from dcc.errors import ConfigurationError, DatabaseUnreachableError, SourceTimeoutError
from dcc.messages import mark
from dcc.runtime.heartbeat import renewing
from dcc.runtime.log_context import progress_log
from dcc.runtime.processes import Process
from dcc.session.leases import await_turn, is_alive
from dcc.settings import Settings
from dcc.settings.centre_groups import CentreGroup
from dcc.settings.workers import ExecutorKind
from dcc.sources.access import parse_hostname
from dcc.sources.base import SourceAddress
from dcc.sources.request_turns import first_free, sharing
from dcc.tracker.models import ConnectionSlot, ServerTurn

log = logging.getLogger(__name__)
session_log = progress_log(__name__)
T = TypeVar("T")

_LOOK_SECONDS: Final = 0.5
_SLOT: Final = ConnectionSlot.__table__
_TURN: Final = ServerTurn.__table__
_LINE: Final = select(_SLOT, func.current_timestamp().label("now")).order_by(_SLOT.c.id)


class QueuedProcess(NamedTuple):
    """A process that has a slot at a source and its server, or waits for one; `most` is the source's limit."""

    number: int
    source: int
    server: str
    most: int


class ConnectionSlots:
    """The slots of one process. Threads may share it."""

    def __init__(self, tracker: Engine, settings: Settings) -> None:
        self._tracker, self._settings = tracker, settings
        self._held: dict[int, SourceAddress] = {}
        self._wanted: set[int] = set()
        self._lock = threading.Lock()

    @contextmanager
    def slot(self, address: SourceAddress, still_needed: Callable[[], bool]) -> Iterator[None]:
        """Wait for a slot at a source, while `still_needed` is true, and keep it during the block.

        A directory of this machine needs none. Raises SourceTimeoutError, and TrackerUnreachableError if the tracker
        stays away.
        """
        if address.traits.is_local:
            yield
            return
        with ExitStack() as held:
            number = held.enter_context(self._queued(address, still_needed))
            is_logged = False
            while number not in self._rows_with_slots(line := _outlasting(self._read_line, still_needed)):
                if not still_needed():
                    raise _none_free(address)
                if not is_logged:
                    session_log.info("%s: waiting for a connection that others use", address.label)
                    is_logged = True
                if all(one.number != number for one in line):
                    # This process was taken for dead, because the tracker was away or the process stood still.
                    held.close()
                    number = held.enter_context(self._queued(address, still_needed))
                time.sleep(_LOOK_SECONDS)
            yield

    def must_give_up(self, address: SourceAddress) -> bool:
        """Whether a connection to a source must be given up because another process waits; for one at a time."""
        with self._lock:
            wanted = address.id in self._wanted
            self._wanted.discard(address.id)
        return wanted

    @contextmanager
    def keep_alive(self) -> Iterator[None]:
        """Send signs of life during the block."""
        with (
            renewing("Slots for connections", self._settings.lease_timeout, self._renew_slots),
            sharing(self._reserve_turns),
        ):
            yield

    def _renew_slots(self) -> bool:
        with self._lock:
            held = dict(self._held)
        if held:
            renewal = update(_SLOT).where(_SLOT.c.id.in_(sorted(held))).values(heartbeat=func.current_timestamp())
            self._write(lambda connection: connection.execute(renewal) and None)
            self._note_wanted(held, self._read_line())
        return True

    def _note_wanted(self, held: Mapping[int, SourceAddress], line: Sequence[QueuedProcess]) -> None:
        """Record who waits for a connection to the same source, or to another one on the same server."""
        having = self._rows_with_slots(line)
        waiting = [one for one in line if one.number not in having]
        sources = {one.source for one in waiting}
        # Without a limit for the server, a connection to another source helps nobody.
        servers = {one.server for one in waiting if self._settings.limits_of(one.server).connections}
        wanted = {
            one.source
            for one in line
            if one.number in held and one.number in having and (one.source in sources or one.server in servers)
        }
        # A process that was taken for dead may have lost its slots.
        lost = {address.id for number, address in held.items() if all(one.number != number for one in line)}
        with self._lock:
            self._wanted |= wanted | lost

    @contextmanager
    def _queued(self, address: SourceAddress, still_needed: Callable[[], bool]) -> Iterator[int]:
        number = _outlasting(
            lambda: self._write(lambda connection: self._join_queue(connection, address)), still_needed
        )
        with self._lock:
            self._held[number] = address
        try:
            yield number
        finally:
            with self._lock:
                del self._held[number]
            self._leave(number)

    def _join_queue(self, connection: Connection, address: SourceAddress) -> int:
        # One after the other: then a later one sees all earlier ones.
        await_turn(connection)
        dead = [row.id for row in connection.execute(_LINE) if not is_alive(row, self._settings)]
        if dead:
            connection.execute(delete(_SLOT).where(_SLOT.c.id.in_(dead)))
        process, server = Process.this(), server_of_source(address)
        if connection.scalar(select(_TURN.c.server).where(_TURN.c.server == server)) is None:
            connection.execute(insert(_TURN).values(server=server, taken_until=0.0))
        new: dict[str, object] = {
            "file_source_id": address.id,
            "server": server,
            "most": self._settings.for_protocol(address.protocol).downloads_per_source,
            "host": process.host,
            "pid": process.pid,
            "pid_started": process.started,
            "heartbeat": connection.scalar(select(func.current_timestamp())),
        }
        return insert_rows(connection, _SLOT, [new])[0]

    def _leave(self, number: int) -> None:
        try:
            self._write(lambda connection: connection.execute(delete(_SLOT).where(_SLOT.c.id == number)) and None)
        except DatabaseUnreachableError as error:
            # It is not renewed any more.
            log.warning("A slot for a connection could not be given back: %s", error)

    def _read_line(self) -> list[QueuedProcess]:
        """The living rows of the queue."""
        rows = run_reading(self._tracker, lambda connection: connection.execute(_LINE).all())
        return [
            QueuedProcess(row.id, row.file_source_id, row.server, row.most)
            for row in rows
            if is_alive(row, self._settings)
        ]

    def _rows_with_slots(self, line: Iterable[QueuedProcess]) -> set[int]:
        return rows_with_slots(line, lambda server: self._settings.limits_of(server).connections or math.inf)

    def _reserve_turns(self, server: str, seconds: float) -> float:
        """See `dcc.sources.sockets.Reserve`."""

        def reserve(connection: Connection) -> float:
            of_server = _TURN.c.server == server
            taken = connection.scalar(select(_TURN.c.taken_until).where(of_server).with_for_update())
            begin = first_free(taken or 0.0, time.time())
            connection.execute(update(_TURN).where(of_server).values(taken_until=begin + seconds))
            return begin

        return self._write(reserve)

    def _write(self, work: Callable[[Connection], T]) -> T:
        return run_writing(self._tracker, work)


def rows_with_slots(line: Iterable[QueuedProcess], max_at_server: Callable[[str], float]) -> set[int]:
    """The numbers of the rows with a slot: those for which earlier ones leave room at their source and server.

    A row keeps its slot whoever leaves, because that makes room for one more at most.
    """
    at_source: Counter[int] = Counter()
    at_server: Counter[str] = Counter()
    having = set()
    for one in line:
        if at_source[one.source] < one.most and at_server[one.server] < max_at_server(one.server):
            having.add(one.number)
            at_source[one.source] += 1
            at_server[one.server] += 1
    return having


def slots_for(tracker: Engine, settings: Settings, group: CentreGroup | None) -> ConnectionSlots | None:
    """The slots of a session; None if it is alone without workers and limits of servers."""
    is_alone = group is None and settings.executor is ExecutorKind.IN_PROCESS
    return None if is_alone and not settings.has_server_limits else ConnectionSlots(tracker, settings)


def for_seconds(seconds: float) -> Callable[[], bool]:
    """True for so many seconds from now."""
    deadline = time.monotonic() + seconds
    return lambda: time.monotonic() < deadline


def _outlasting(work: Callable[[], T], still_needed: Callable[[], bool]) -> T:
    """Repeat work while the tracker is away: the session reacts to that, it is no fault of a source."""
    while True:
        try:
            return work()
        except DatabaseUnreachableError:
            if not still_needed():
                raise
            time.sleep(_LOOK_SECONDS)


def _none_free(address: SourceAddress) -> SourceTimeoutError:
    return SourceTimeoutError(
        mark(
            "Other sessions and workers use all connections that it may have. The next session tries again; "
            "DCC_DOWNLOADS_PER_SOURCE and DCC_CONNECTIONS_PER_SERVER set their number."
        ),
        source=address.label,
    )


def server_of_source(address: SourceAddress) -> str:
    """The name of a source's server in small letters."""
    try:
        return parse_hostname(address.hostname, 0).host.casefold()
    except ConfigurationError:
        return address.hostname
