"""Limits for what a hostile SSH server can make paramiko wait for or store, by overriding its public methods.

paramiko accepts packets and greetings of any length, and pads short messages with zeros, so that few bytes stand for
four thousand million entries. It stores everything that arrives on a channel, whatever its window, and waits for ever
for the permission to log in.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Final, cast

import paramiko
from paramiko.auth_handler import AuthOnlyHandler
from paramiko.common import MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA, MSG_SERVICE_ACCEPT, cMSG_SERVICE_REQUEST
from paramiko.packet import Packetizer
from paramiko.transport import ServiceRequestingTransport

LONGEST_GREETING: Final = 64 * 1024
"""The most bytes that a server may send up to the line with its version."""

LONGEST_PACKET: Final = 256 * 1024
"""The most bytes of one packet of SSH; OpenSSH's limit as well."""

CHANNEL_WINDOW: Final = 8 * 1024 * 1024 + 256 * 1024
"""Bytes that a server may send on a channel before they are read: a round trip of 80 ms at 100 MB/s."""

LARGEST_BACKLOG: Final = 2 * CHANNEL_WINDOW
"""The most unread bytes on a channel: more than a server that respects the window sends."""

_DATA_HEADER: Final = 8


class StrictMessage(paramiko.Message):
    """A message with a definite end. Raises SSHException when more is read."""

    def get_bytes(self, n: int) -> bytes:
        """The next `n` bytes."""
        data: bytes = self.packet.read(n)
        if len(data) < n:
            raise paramiko.SSHException("a message ends before what it announces")
        return data


class _Connection:
    """A socket that is read in large pieces. Raises SSHException for a greeting that is too long."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._arrived, self._begin = b"", 0
        self._greeted = 0
        self.greeting_over = False

    def recv(self, length: int) -> bytes:
        """Up to that many bytes, none at the end; waits as the socket does."""
        if self._begin == len(self._arrived):
            self._arrived, self._begin = self._connection.recv(LONGEST_PACKET), 0
        data = self._arrived[self._begin : self._begin + length]
        self._begin += len(data)
        self._greeted += len(data)
        if not self.greeting_over and self._greeted > LONGEST_GREETING:
            raise paramiko.SSHException(f"its greeting is longer than {LONGEST_GREETING:,} bytes")
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class BoundedPackets(Packetizer):
    """Reads packets from the connection. Raises SSHException for a server that sends more than permitted.

    Readers of the channel add the number of read bytes to `read`.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.read = 0
        self.login_allowed = threading.Event()
        self._arrived = 0
        self._connection = _Connection(connection)
        super().__init__(cast("socket.socket", self._connection))

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Read that much of a packet."""
        self._connection.greeting_over = True
        if n > LONGEST_PACKET:
            raise paramiko.SSHException(f"a packet of {n:,} bytes is announced")
        return super().read_all(n, check_rekey)

    def read_message(self) -> tuple[int, paramiko.Message]:
        """The next message, with its type."""
        kind, message = super().read_message()
        strict = StrictMessage(message.asbytes())
        strict.seqno = message.seqno
        if kind in (MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA):
            self._arrived += len(strict.asbytes()) - _DATA_HEADER
            if self._arrived - self.read > LARGEST_BACKLOG:
                raise paramiko.SSHException("the server sends more than it was allowed to")
        elif kind == MSG_SERVICE_ACCEPT:
            self.login_allowed.set()
        return kind, strict


class BoundedLogin(AuthOnlyHandler):
    """The dialogue of the login, without paramiko's race: an answer that came at once was lost and waited for."""

    _answered: threading.Event | None = None

    @property
    def auth_event(self) -> threading.Event | None:
        """The event of the present request's answer."""
        return self._answered

    @auth_event.setter
    def auth_event(self, event: threading.Event | None) -> None:
        """Keep the event from before the request was sent."""

    def send_auth_request(
        self, username: str, method: str, finish_message: Callable[[paramiko.Message], None] | None = None
    ) -> list[str]:
        """Send a request of the login and wait for its answer."""
        self._answered = threading.Event()
        return super().send_auth_request(username, method, finish_message)


class BoundedTransport(ServiceRequestingTransport):
    """A connection over which the login begins once, however often it is tried: some servers insist on it."""

    packetizer: BoundedPackets

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection, packetizer_class=BoundedPackets)

    def get_auth_handler(self) -> BoundedLogin:
        """The dialogue of the login."""
        return BoundedLogin(self)

    def ensure_session(self) -> None:
        """Request permission to log in, unless the server has agreed already."""
        if self.packetizer.login_allowed.is_set():
            return
        request = paramiko.Message()
        request.add_byte(cMSG_SERVICE_REQUEST)
        request.add_string("ssh-userauth")
        self.packetizer.send_message(request)
        deadline = time.monotonic() + self.auth_timeout
        while not self.packetizer.login_allowed.wait(0.1):
            if not self.is_active():
                raise paramiko.SSHException("the server closed the connection")
            if time.monotonic() > deadline:
                raise paramiko.AuthenticationException("no answer in time")
        self.auth_handler = self.get_auth_handler()
