"""Sockets to sources, and the limits of their use: the time to connect, the speed of transfers, and turns of requests.

Requests are those of HTTP, commands of FTP, and paths that SFTP opens or asks about. While `sharing`, all processes
that share keep to the limit together.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final, Self

from dcc.errors import SourceTimeoutError, SourceUnreachableError
from dcc.messages import Message, mark
from dcc.runtime.time_limits import call_with_timeout, watchdog
from dcc.settings import Settings
from dcc.sources.access import Endpoint

_Address = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]
NAME_SERVICE: Final = "the name service"


def open_socket(label: Message | str, endpoint: Endpoint, timeout: float) -> socket.socket:
    """Connect by TCP, trying each address of the host in turn, within `timeout` seconds in all.

    Raises SourceTimeoutError or SourceUnreachableError, naming `label`.
    """
    deadline = time.monotonic() + timeout
    addresses = _resolve(label, endpoint, timeout)
    failure: OSError | None = None
    for index, (family, address) in enumerate(addresses):
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            break
        try:
            attempt = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            # A kernel without IPv6, or too many open files. Another address's answer is more informative.
            failure = failure or error
            continue
        try:
            attempt.settimeout(remaining / (len(addresses) - index))
            attempt.connect(address)
            attempt.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            attempt.close()
            failure = error
        except BaseException:
            attempt.close()
            raise
        else:
            return attempt
    where = f"{endpoint.host} port {endpoint.port}"
    if failure is None or isinstance(failure, TimeoutError):
        text = mark(
            "no connection to {where} within {timeout} seconds. If it lasts, check the host name and port, that the "
            "server is up and that no firewall stands between; DCC_CONNECT_TIMEOUT sets the limit."
        )
        raise SourceTimeoutError(text, source=label, where=where, timeout=timeout) from failure
    text = mark(
        "no connection to {where} ({strerror}). If it lasts, check the host name and port, and that the server is up."
    )
    if failure.errno in {errno.EMFILE, errno.ENFILE}:
        text = mark(
            "no connection to {where} ({strerror}). Raise the limit of open files of the machine on which this runs "
            "(ulimit -n)."
        )
    strerror = Message(failure.strerror or str(failure))
    raise SourceUnreachableError(text, source=label, where=where, strerror=strerror) from failure


def _resolve(label: Message | str, endpoint: Endpoint, timeout: float) -> list[_Address]:
    try:
        found = call_with_timeout(
            lambda: socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM), timeout, NAME_SERVICE
        )
    except TimeoutError:
        text = mark("the name service did not answer for {host} within {timeout} seconds. Try again.")
        raise SourceTimeoutError(text, source=label, host=endpoint.host, timeout=timeout) from None
    except Exception as error:
        text = mark("the host '{host}' could not be found ({reason}). If it lasts, check the host name.")
        reason = Message((error.strerror or "") if isinstance(error, OSError) else "no valid host name")
        raise SourceUnreachableError(text, source=label, host=endpoint.host, reason=reason) from error
    return [(family, address) for family, _, _, _, address in found]


def shut_down(connection: socket.socket | None) -> None:
    """Close a TCP connection at once; a thread that waits for it stops waiting."""
    if connection is not None:
        with contextlib.suppress(OSError):
            # Not the method of an SSL socket, which would go on in clear text.
            socket.socket.shutdown(connection, socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class SpeedLimits:
    """At least `slowest` bytes a second over every `over` seconds, and no more than `longest` seconds in all."""

    slowest: int = 0
    over: float = 300.0
    longest: float = 24 * 3600.0

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The limits of the settings."""
        return cls(slowest=settings.min_download_speed, longest=settings.download_timeout)

    def watch(self, received: Callable[[], int], close: Callable[[], object]) -> AbstractContextManager[None]:
        """Watch a block; `received` returns the bytes so far. See `watchdog` for `close`, and for what is raised."""
        deadline = time.monotonic() + self.longest
        before: int | None = None

        def judge(now: float) -> str | float:
            nonlocal before
            count, earlier = received(), before
            before = count
            if now >= deadline:
                return f"it was not done within {self.longest:g} seconds; DCC_DOWNLOAD_TIMEOUT sets the limit"
            if earlier is not None and count - earlier < self.slowest * self.over:
                few = f"{count - earlier:,} bytes arrived in {self.over:g} seconds"
                return f"{few}; DCC_MIN_DOWNLOAD_SPEED sets the limit"
            return min(now + self.over, deadline)

        return watchdog(judge, close)


Reserve = Callable[[str, float], float]
"""Reserves so many seconds at a server; returns when they begin, in seconds since 1970, not before now."""

_BLOCK_SECONDS: Final = 1.0


def first_free(taken_until: float, now: float) -> float:
    """When new seconds at a server may begin."""
    return max(taken_until, now)


class Turns:
    """The turns at one server, `gap` seconds apart. Threads may share it."""

    def __init__(self, server: str, per_second: float) -> None:
        self._server, self._gap = server, 1 / per_second
        self._turns = max(1, int(_BLOCK_SECONDS * per_second))
        self._next = self._end = self._taken_until = 0.0
        self._lock = threading.Lock()

    def await_turn(self) -> None:
        """Sleep until the next request may be sent."""
        with self._lock:
            now = time.time()
            # Turns that were not used in time are lost, or they would be taken all at once.
            if self._next < now or self._next + self._gap / 2 > self._end:
                seconds = self._turns * self._gap
                reserve = next(reversed(_shared), self._reserve)
                self._next = reserve(self._server, seconds)
                self._end = self._next + seconds
            turn = self._next
            self._next += self._gap
        time.sleep(max(turn - now, 0))

    def _reserve(self, _server: str, seconds: float) -> float:
        begin = first_free(self._taken_until, time.time())
        self._taken_until = begin + seconds
        return begin


_shared: Final[list[Reserve]] = []
_all: Final[dict[tuple[str, float], Turns]] = {}
_lock: Final = threading.Lock()


def turn_of(server: str, settings: Settings) -> Callable[[], None]:
    """What every request to a server calls before it is sent."""
    name = server.casefold()
    per_second = settings.limits_of(name).requests_per_second
    if per_second is None:
        return lambda: None
    with _lock:
        return _all.setdefault((name, per_second), Turns(name, per_second)).await_turn


@contextmanager
def sharing(reserve: Reserve) -> Iterator[None]:
    """Let this process reserve its turns by a function that other processes use too, during the block."""
    # Sessions of several groups may overlap in a process: each takes away its own alone.
    _shared.append(reserve)
    try:
        yield
    finally:
        _shared.remove(reserve)
