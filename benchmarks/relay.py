"""A TCP relay that adds a round-trip time: what stands between two distant hosts, where the kernel has no `tc netem`.

python -m benchmarks.relay SECONDS HOST:PORT=HOST:PORT...

Each connection to the first address of a pair goes on to the second. What is sent arrives half the time later, the
first bytes a whole round trip later, as after a TCP handshake. As TCP does on Linux by default, a connection begins
with 14 KB in flight, doubles that with each round trip, and ends at 4 MB (the largest send buffer).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measuring import clean_environment, module
from benchmarks.servers import ServerProcess

FIRST_WINDOW = 10 * 1448
WINDOW = 4 * 1024 * 1024
_CHUNK = 256 * 1024


class _Flow:
    """One direction of a connection: what `source` sends arrives at `target` after half a round trip."""

    def __init__(self, source: socket.socket, target: socket.socket, delay: float, begins: float) -> None:
        self._source, self._target = source, target
        self._delay, self._begins = delay, begins
        self._window, self._in_flight = FIRST_WINDOW, 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def receive(self) -> None:
        """Take up what the source sends, as far as the window allows, until it ends."""
        loop, data = asyncio.get_running_loop(), b"first"
        while data:
            await self._has_room.wait()
            data = await loop.sock_recv(self._source, min(_CHUNK, self._window - self._in_flight))
            self._in_flight += len(data)
            self._note_room()
            self._under_way.put_nowait((max(loop.time(), self._begins) + self._delay / 2, data))

    async def send(self) -> None:
        """Pass on what has arrived, and tell the source of it as late."""
        loop, data = asyncio.get_running_loop(), b"first"
        while data:
            arrives, data = await self._under_way.get()
            await asyncio.sleep(arrives - loop.time())
            await loop.sock_sendall(self._target, data)
            loop.call_later(self._delay / 2, self._acknowledge, len(data))
        self._target.shutdown(socket.SHUT_WR)

    def _acknowledge(self, count: int) -> None:
        self._in_flight -= count
        self._window = min(self._window + count, WINDOW)
        self._note_room()

    def _note_room(self) -> None:
        if self._in_flight < self._window:
            self._has_room.set()
        else:
            self._has_room.clear()


async def _connect(near: socket.socket, there: tuple[str, int], delay: float) -> None:
    """Relay one connection until both directions have ended, or one has failed."""
    loop = asyncio.get_running_loop()
    # The server hears of the connection when the handshake is complete.
    begins = loop.time() + delay
    await asyncio.sleep(1.5 * delay)
    with near, socket.socket() as far:
        for each in (near, far):
            each.setblocking(False)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError, ExceptionGroup):
            await loop.sock_connect(far, there)
            async with asyncio.TaskGroup() as both:
                for flow in (_Flow(near, far, delay, begins), _Flow(far, near, delay, begins)):
                    both.create_task(flow.receive())
                    both.create_task(flow.send())


async def _relay(delay: float, pairs: Mapping[tuple[str, int], tuple[str, int]]) -> None:
    """Relay until the process is ended."""
    loop, connections = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    async def accept(listener: socket.socket, there: tuple[str, int]) -> None:
        while True:
            near, _ = await loop.sock_accept(listener)
            task = asyncio.create_task(_connect(near, there, delay))
            connections.add(task)
            task.add_done_callback(connections.discard)

    async with asyncio.TaskGroup() as listeners:
        for here, there in pairs.items():
            listener = socket.create_server(here, backlog=128)
            listener.setblocking(False)
            listeners.create_task(accept(listener, there))
        print("ready", flush=True)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


@contextmanager
def delaying_relay(log: Path, delay: float, pairs: Mapping[str, str]) -> Iterator[None]:
    """Run a relay in a process of its own: each `host:port` of the keys leads to that of the value."""
    command = module("relay", str(delay), *(f"{here}={there}" for here, there in pairs.items()))
    with ServerProcess(command, 0, log, lambda: log.read_bytes() == b"ready\n", clean_environment()):
        yield


if __name__ == "__main__":
    _pairs = [pair.split("=") for pair in sys.argv[2:]]
    asyncio.run(_relay(float(sys.argv[1]), {_address(here): _address(there) for here, there in _pairs}))
