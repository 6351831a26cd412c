"""paramiko's packets, messages and pipes with bounds: servers may announce any length, and send without end.

paramiko fills up with zeros what a message lacks, so that few bytes stand for names of a megabyte or for four thousand
million entries; it takes packets and greetings of any length, and more than the window of a channel allows.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, Final, cast

import paramiko
from paramiko.buffered_pipe import BufferedPipe
from paramiko.common import MSG_CHANNEL_DATA
from paramiko.packet import NeedRekeyException, Packetizer

LONGEST_PACKET: Final = 256 * 1024
"""Bytes of one packet of SSH; OpenSSH's limit as well."""

LONGEST_GREETING: Final = 64 * 1024
"""Bytes that a server may send up to the line with its version."""

CHANNEL_WINDOW: Final = 8 * 1024 * 1024 + 256 * 1024
"""Bytes that a server may send on a channel before they are read: a round trip of 80 ms at 100 MB/s."""

LARGEST_BACKLOG: Final = 2 * CHANNEL_WINDOW
"""Bytes that may have arrived on a channel without being read: more than a server that heeds the window sends."""

_LENGTH: Final = 4
_LONGEST_MAC: Final = 64


class StrictMessage(paramiko.Message):
    """A message that ends where it ends. Raises SSHException when more is read."""

    def get_bytes(self, n: int) -> bytes:
        """The next `n` bytes."""
        data: bytes = self.packet.read(n)
        if len(data) < n:
            raise paramiko.SSHException("a message ends before what it announces")
        return data


class BufferedSocket:
    """A socket that is asked for much at once, however little is wanted of it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._view = memoryview(bytearray(LONGEST_PACKET))
        self._begin = self._end = 0

    def recv(self, length: int) -> bytes:
        """Up to that much of what has arrived; waits for something, as the socket does."""
        if self._begin == self._end:
            self._begin, self._end = 0, self._connection.recv_into(self._view)
        begin = self._begin
        self._begin = min(begin + length, self._end)
        return bytes(self._view[begin : self._begin])

    @property
    def whole_packet(self) -> bool:
        """Whether a packet whose length is not encrypted, and its MAC, can be read without waiting."""
        if self._end - self._begin < _LENGTH:
            return False
        length = int.from_bytes(self._view[self._begin : self._begin + _LENGTH], "big")
        return self._end - self._begin >= _LENGTH + length + _LONGEST_MAC

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class BoundedPackets(Packetizer):
    """What takes packets off the connection. Raises SSHException for one that is longer than any may be.

    The data of the channel given to `deliver` are passed on at once, those of several packets together where several
    have arrived. That spares paramiko's thread half of its work, and who waits for them most of the awakenings.
    """

    _greeted = 0
    _pass_on: Callable[[bytes], object] | None = None

    def __init__(self, connection: socket.socket) -> None:
        self._buffered = BufferedSocket(connection)
        super().__init__(cast("socket.socket", self._buffered))

    def deliver(self, channel: int, pass_on: Callable[[bytes], object]) -> None:
        """Pass what arrives on a channel from now on."""
        self._channel = channel.to_bytes(4, "big")
        self._pass_on = pass_on

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Read that much."""
        if n > LONGEST_PACKET:
            raise paramiko.SSHException(f"a packet of {n:,} bytes is announced")
        data: bytes = super().read_all(n, check_rekey)
        return data

    def read_message(self) -> tuple[int, paramiko.Message]:
        """The next message that is not data of the channel, with its type."""
        arrived: list[bytes] = []
        try:
            while True:
                kind, message = super().read_message()
                content = message.asbytes()
                if kind != MSG_CHANNEL_DATA or self._pass_on is None or content[:4] != self._channel:
                    break
                arrived.append(_data_of(content))
                if not self._more_at_hand():
                    self._pass_all_on(arrived)
                if self.need_rekey():
                    raise NeedRekeyException
        finally:
            self._pass_all_on(arrived)
        strict = StrictMessage(content)
        strict.seqno = message.seqno
        return kind, strict

    def _more_at_hand(self) -> bool:
        """Whether another packet is known to have arrived: where their lengths can be read."""
        readable = getattr(self, "_Packetizer__aead_in", False) or getattr(self, "_Packetizer__etm_in", False)
        return readable and self._buffered.whole_packet

    def _pass_all_on(self, arrived: list[bytes]) -> None:
        if arrived and self._pass_on is not None:
            self._pass_on(b"".join(arrived))
            arrived.clear()

    def _read_timeout(self, timeout: float) -> bytes:
        data: bytes = super()._read_timeout(timeout)  # type: ignore[misc]
        self._greeted += len(data)
        if self._greeted > LONGEST_GREETING:
            raise paramiko.SSHException(f"its greeting is longer than {LONGEST_GREETING:,} bytes")
        return data


def _data_of(content: bytes) -> bytes:
    """What a message with data of a channel holds, after the channel's number and its length."""
    length = int.from_bytes(content[4:8], "big")
    if length > len(content) - 8:
        raise paramiko.SSHException("a message ends before what it announces")
    return content[8 : 8 + length]


class Pipe(BufferedPipe):  # type: ignore[type-arg]
    """paramiko's pipe between its thread and ours, on a buffer that need not move to lose its beginning.

    It makes large files arrive in two thirds of the time. Raises SSHException when far more arrives than was allowed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._buffer = bytearray()

    def feed(self, data: bytes | str) -> None:
        """Take in what has arrived."""
        if len(self._buffer) > LARGEST_BACKLOG:
            raise paramiko.SSHException("the server sends more than it was allowed to")
        super().feed(data)

    def _buffer_frombytes(self, data: bytes) -> None:
        self._buffer += data

    def _buffer_tobytes(self, limit: int | None = None) -> bytes:
        return bytes(memoryview(self._buffer)[:limit])


class Drain(BufferedPipe):  # type: ignore[type-arg]
    """A pipe for what nobody reads: what a server says beside an SFTP session."""

    def feed(self, data: bytes | str) -> None:
        """Let it go."""
