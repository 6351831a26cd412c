"""A TCP proxy before the file servers that delays, cuts, resets, stalls, truncates and corrupts what they send.

It listens on another address with the servers' own port numbers. What is wrong with a connection is decided when it is
made, by a seeded generator, and happens once a certain number of bytes has been sent.
"""

import contextlib
import random
import re
import selectors
import socket
import struct
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from tests.chaos.servers import DIRECT
from tests.support.faulty_servers import shut

KINDS: Final = ("delay", "cut", "reset", "stall", "truncate", "corrupt")
_BLOCK: Final = 16 * 1024
_PASSIVE: Final = re.compile(rb"227 [^(]*\((?:\d+,){4}(\d+),(\d+)\)")
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
class _Fault:
    kind: str
    after: int
    seconds: float
    done: bool = False


@dataclass
class _Conversation:
    """A plain FTP control connection, and the data connections that belong to it."""

    client: socket.socket
    last_command: bytes = b""


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
    _conversations: dict[int, _Conversation] = field(default_factory=dict)
    _closed: bool = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()
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
                        threading.Thread(target=self._join, args=(client, key.data), daemon=True).start()

    def _join(self, client: socket.socket, port: int) -> None:
        try:
            server = socket.create_connection((DIRECT, port), timeout=10)
        except OSError:
            shut(client)
            return
        server.settimeout(None)
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._open |= {client, server}
            fault = self._next_fault()
            control = self._conversations.pop(port, None)
        conversation = None
        if self.ports[port] and control is None:
            conversation = _Conversation(client)
        threading.Thread(target=self._upwards, args=(client, server, conversation), daemon=True).start()
        with contextlib.suppress(OSError):
            self._downwards(server, client, fault, conversation, control)
        shut(client)
        shut(server)
        with self._lock:
            self._open -= {client, server}

    def _next_fault(self) -> _Fault | None:
        """What becomes of the next connection."""
        faults = self._faults
        if faults is None or self._random.randrange(100) >= faults.per_cent:
            return None
        kind = self._random.choice(faults.kinds)
        # As many early as late, on a scale of orders of magnitude: handshakes are short, archives long.
        after = int(10 ** self._random.uniform(0, len(str(faults.within)) - 1))
        return _Fault(kind, after, self._random.uniform(0.05, 0.5))

    @staticmethod
    def _upwards(client: socket.socket, server: socket.socket, conversation: _Conversation | None) -> None:
        with contextlib.suppress(OSError):
            while block := client.recv(_BLOCK):
                if conversation is not None:
                    conversation.last_command = block
                server.sendall(block)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_WR)

    def _downwards(
        self,
        server: socket.socket,
        client: socket.socket,
        fault: _Fault | None,
        conversation: _Conversation | None,
        control: _Conversation | None,
    ) -> None:
        sent = 0
        while block := server.recv(_BLOCK):
            if conversation is not None and (found := _PASSIVE.search(block)):
                self._conversations[256 * int(found[1]) + int(found[2])] = conversation
            if fault is not None and not fault.done and sent + len(block) > fault.after:
                # Nothing tells a plain FTP client that a listing, or an answer, is not what the server sent.
                if fault.kind == "corrupt" and not _is_detected(conversation, control):
                    fault = None
                else:
                    place = max(fault.after - sent, 0)
                    client.sendall(block[:place])
                    sent += place
                    block = self._happen(fault, block[place:], client, control)
                    if block is None:
                        return
            client.sendall(block)
            sent += len(block)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_WR)

    def _happen(self, fault: _Fault, rest: bytes, client: socket.socket, control: _Conversation | None) -> bytes | None:
        """Do what is wrong; what is to be sent after it, None for nothing any more."""
        fault.done = True
        self.happened[fault.kind] += 1
        if fault.kind == "delay":
            self._released.wait(fault.seconds)
            return rest
        if fault.kind == "corrupt":
            # Otherwise each time: the same wrong bytes twice are taken for those of the server.
            with self._lock:
                mask = self._random.randrange(1, 256)
            return bytes([rest[0] ^ mask]) + rest[1:]
        if fault.kind == "stall":
            self._released.wait(_LONGEST_STALL)
        elif fault.kind in {"reset", "cut"}:
            for one in (client, *([control.client] if control is not None else [])):
                if fault.kind == "reset":
                    with contextlib.suppress(OSError):
                        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
                shut(one)
        return None


def _is_detected(conversation: _Conversation | None, control: _Conversation | None) -> bool:
    """Whether a changed byte must be noticed: under SSH and TLS always, over plain FTP in files alone."""
    if conversation is not None:
        return False
    return control is None or control.last_command.upper().startswith(b"RETR")
