"""A TCP proxy before the file servers that delays, cuts, resets, stalls, truncates and corrupts what they send.

It listens on another address with the servers' own port numbers. What is wrong with a connection is decided when it is
made, by a seeded generator, and happens once a certain number of bytes has been sent.
"""

import contextlib
import random
import selectors
import socket
import struct
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from tests.chaos.servers import DIRECT
from tests.support.faulty_servers import joined, passive_port, shut, start

KINDS: Final = ("delay", "cut", "reset", "stall", "truncate", "corrupt")
_BLOCK: Final = 16 * 1024
_LONGEST_STALL: Final = 30.0
_ABORT: Final = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Faults:
    """How connections go wrong: which kinds, how many of a hundred connections, after how many bytes at most."""

    kinds: Sequence[str]
    per_cent: int
    within: int
    seed: int


@dataclass
class _Connection:
    """A connection that is passed on, and what goes wrong with it, if anything: once so many bytes have been sent.

    `is_control`: plain FTP's commands go over it. `control` is that connection of one that has FTP's data.
    """

    client: socket.socket
    server: socket.socket
    is_control: bool
    control: "_Connection | None"
    fault: str | None = None
    after: int = 0
    seconds: float = 0.0
    last_command: bytes = b""

    @property
    def is_guarded(self) -> bool:
        """Whether a changed byte must be noticed: under SSH and TLS always, over plain FTP in files alone."""
        of_file = self.control is None or self.control.last_command.upper().startswith(b"RETR")
        return of_file and not self.is_control


@dataclass
class FaultProxy:
    """The proxy; `ports` says of each port whether plain FTP goes over it. `happened` counts the faults made.

    `listeners` are sockets that listen on the same ports of its own address, closed by whoever made them.
    """

    ports: Mapping[int, bool]
    listeners: Mapping[int, socket.socket]
    happened: Counter[str] = field(default_factory=Counter)
    _faults: Faults | None = None
    _random: random.Random = field(default_factory=random.Random)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _released: threading.Event = field(default_factory=threading.Event)
    _open: set[socket.socket] = field(default_factory=set)
    _controls: dict[int, _Connection] = field(default_factory=dict)
    _closed: bool = False

    def __enter__(self) -> Self:
        start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self.work_well()

    def go_wrong(self, faults: Faults) -> None:
        """Have connections made from here on go wrong."""
        with self._lock:
            self._faults, self._random = faults, random.Random(faults.seed)
            self._released.clear()

    def work_well(self) -> None:
        """Have connections made from here on be passed on as they are; those that there are end."""
        with self._lock:
            self._faults = None
            there = list(self._open)
            self._open.clear()
        self._released.set()
        for connection in there:
            shut(connection)

    def _accept(self) -> None:
        with selectors.DefaultSelector() as selector:
            for port, listener in self.listeners.items():
                listener.setblocking(False)
                selector.register(listener, selectors.EVENT_READ, port)
            while not self._closed:
                for key, _ in selector.select(timeout=0.2):
                    with contextlib.suppress(OSError):
                        client, _ = key.fileobj.accept()  # type: ignore[union-attr]
                        client.setblocking(True)
                        start(self._join, client, key.data)

    def _join(self, client: socket.socket, port: int) -> None:
        server = joined(client, (DIRECT, port))
        if server is None:
            return
        with self._lock:
            self._open |= {client, server}
            control = self._controls.pop(port, None)
            connection = _Connection(client, server, self.ports[port] and control is None, control)
            self._choose_fault(connection)
        start(self._upwards, connection)
        with contextlib.suppress(OSError):
            self._downwards(connection)
        shut(client)
        shut(server)
        with self._lock:
            self._open -= {client, server}

    def _choose_fault(self, connection: _Connection) -> None:
        """Say what becomes of a connection."""
        faults = self._faults
        if faults is not None and self._random.randrange(100) < faults.per_cent:
            connection.fault = self._random.choice(faults.kinds)
            # As many early as late, on a scale of orders of magnitude: handshakes are short, archives long.
            connection.after = int(10 ** self._random.uniform(0, len(str(faults.within)) - 1))
            connection.seconds = self._random.uniform(0.05, 0.5)

    @staticmethod
    def _upwards(connection: _Connection) -> None:
        with contextlib.suppress(OSError):
            while block := connection.client.recv(_BLOCK):
                connection.last_command = block
                connection.server.sendall(block)
        with contextlib.suppress(OSError):
            connection.server.shutdown(socket.SHUT_WR)

    def _downwards(self, connection: _Connection) -> None:
        sent = 0
        while block := connection.server.recv(_BLOCK):
            if connection.is_control and (port := passive_port(block)) is not None:
                self._controls[port] = connection
            if connection.fault is not None and sent + len(block) > connection.after:
                fault, connection.fault = connection.fault, None
                # Nothing tells a plain FTP client that a listing, or an answer, is not what the server sent.
                if fault != "corrupt" or connection.is_guarded:
                    place = max(connection.after - sent, 0)
                    connection.client.sendall(block[:place])
                    sent += place
                    block = self._happen(fault, connection, block[place:])
                    if block is None:
                        return
            connection.client.sendall(block)
            sent += len(block)
        with contextlib.suppress(OSError):
            connection.client.shutdown(socket.SHUT_WR)

    def _happen(self, fault: str, connection: _Connection, rest: bytes) -> bytes | None:
        """Do what is wrong; what is to be sent after it, None for nothing any more."""
        self.happened[fault] += 1
        if fault == "delay":
            self._released.wait(connection.seconds)
            return rest
        if fault == "corrupt":
            # Otherwise each time: the same wrong bytes twice are taken for those of the server.
            with self._lock:
                mask = self._random.randrange(1, 256)
            return bytes([rest[0] ^ mask]) + rest[1:]
        if fault == "stall":
            self._released.wait(_LONGEST_STALL)
        elif fault in {"reset", "cut"}:
            for one in (connection, connection.control):
                if one is not None and fault == "reset":
                    with contextlib.suppress(OSError):
                        one.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
                if one is not None:
                    shut(one.client)
        return None
