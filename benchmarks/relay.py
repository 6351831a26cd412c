"""A TCP relay that adds a round-trip time: what stands between two distant hosts, where the kernel has no `tc netem`.

python -m benchmarks.relay SECONDS HOST:PORT=HOST:PORT...

Each connection to the first address of a pair goes on to the second. What is sent arrives half the time later, the
first bytes a whole round trip later, as after a TCP handshake. As TCP does on Linux by default, a connection begins
with 14 KB in flight, doubles that with each round trip, and ends at 4 MB (the largest send buffer).
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import selectors
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

FIRST_WINDOW = 10 * 1448
WINDOW = 4 * 1024 * 1024
_CHUNK = 1024 * 1024
_START_SECONDS = 10.0


class _Clock:
    """What is to be done at which time."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, when: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when, next(self._order), action))

    def act(self) -> float | None:
        """Do what is due; the seconds until something else is."""
        while self._due:
            wait = self._due[0][0] - time.monotonic()
            if wait > 0:
                return wait
            heapq.heappop(self._due)[2]()
        return None


class _Flow:
    """One direction of a connection: what `source` sends arrives at `target` after half a round trip."""

    def __init__(self, relay: Relay, source: socket.socket, target: socket.socket, begins: float) -> None:
        self._relay, self._source, self._target = relay, source, target
        self._begins = begins
        self._window, self._in_flight = FIRST_WINDOW, 0
        self._arrived: deque[memoryview] = deque()
        self._ended = self._finished = False

    @property
    def may_read(self) -> bool:
        return not self._ended and self._in_flight < self._window

    @property
    def may_write(self) -> bool:
        return bool(self._arrived) and not self._finished

    @property
    def finished(self) -> bool:
        return self._finished

    def read(self) -> None:
        """Take up what the source has sent, as far as the window allows."""
        try:
            data = self._source.recv(min(_CHUNK, self._window - self._in_flight))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._in_flight += len(data)
        self._ended = not data
        when = max(time.monotonic(), self._begins) + self._relay.delay / 2
        self._relay.clock.at(when, lambda: self._arrive(memoryview(data)))

    def _arrive(self, data: memoryview) -> None:
        self._arrived.append(data)
        self.write()
        self._relay.watch(self._source, self._target)

    def write(self) -> None:
        """Pass on what has arrived, as far as the target takes it."""
        while self.may_write:
            data = self._arrived.popleft()
            if not data:
                self._finished = True
                with contextlib.suppress(OSError):
                    self._target.shutdown(socket.SHUT_WR)
                return
            try:
                sent = self._target.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                self._finished = self._ended = True
                return
            self._relay.clock.at(time.monotonic() + self._relay.delay / 2, partial(self._acknowledge, sent))
            if sent < len(data):
                self._arrived.appendleft(data[sent:])
                return

    def _acknowledge(self, count: int) -> None:
        self._in_flight -= count
        self._window = min(self._window + count, WINDOW)
        self._relay.watch(self._source, self._target)


class Relay:
    """Connections from each of some addresses to another, `delay` seconds there and back."""

    def __init__(self, delay: float, pairs: Mapping[tuple[str, int], tuple[str, int]]) -> None:
        self.delay, self.clock = delay, _Clock()
        self._selector = selectors.DefaultSelector()
        self._flows: dict[socket.socket, tuple[_Flow, _Flow]] = {}
        for here, there in pairs.items():
            listener = socket.create_server(here, backlog=128)
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ, there)

    def run(self) -> None:
        """Relay until the process is ended."""
        while True:
            for key, events in self._selector.select(self.clock.act()):
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                if key.data is not None:
                    self._accept(connection, key.data)
                    continue
                outgoing, incoming = self._flows[connection]
                if events & selectors.EVENT_WRITE:
                    incoming.write()
                if events & selectors.EVENT_READ and outgoing.may_read:
                    outgoing.read()
                self.watch(connection)

    def _accept(self, listener: socket.socket, there: tuple[str, int]) -> None:
        near, _ = listener.accept()
        # The server hears of the connection when the handshake is complete.
        begins = time.monotonic() + self.delay
        self.clock.at(begins + self.delay / 2, lambda: self._connect(near, there, begins))

    def _connect(self, near: socket.socket, there: tuple[str, int], begins: float) -> None:
        try:
            far = socket.create_connection(there)
        except OSError:
            near.close()
            return
        for each in (near, far):
            each.setblocking(False)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        outgoing, incoming = _Flow(self, near, far, begins), _Flow(self, far, near, begins)
        self._flows[near], self._flows[far] = (outgoing, incoming), (incoming, outgoing)
        self.watch(near, far)

    def watch(self, *connections: socket.socket) -> None:
        """Wait for what each connection can do next; close both sides when both directions are through."""
        for connection in connections:
            if connection not in self._flows:
                continue
            outgoing, incoming = self._flows[connection]
            events = selectors.EVENT_READ * outgoing.may_read | selectors.EVENT_WRITE * incoming.may_write
            if outgoing.finished and incoming.finished:
                events = 0
                del self._flows[connection]
            known = self._selector.get_map().get(connection)
            if known is None and events:
                self._selector.register(connection, events)
            elif known is not None and not events:
                self._selector.unregister(connection)
            elif known is not None and known.events != events:
                self._selector.modify(connection, events)
            if connection not in self._flows:
                connection.close()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


@contextmanager
def delaying_relay(delay: float, pairs: Mapping[str, str]) -> Iterator[None]:
    """Run a relay in a process of its own: each `host:port` of the keys leads to that of the value."""
    arguments = [f"{here}={there}" for here, there in pairs.items()]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.relay", str(delay), *arguments], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise RuntimeError("The delaying relay did not start.")
        yield
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """Relay between the addresses of the command line."""
    delay, *pairs = sys.argv[1:]
    relay = Relay(
        float(delay), {_address(here): _address(there) for here, there in (pair.split("=") for pair in pairs)}
    )
    print("ready", flush=True)
    relay.run()


if __name__ == "__main__":
    main()
