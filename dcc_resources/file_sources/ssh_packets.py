"""paramiko's packets, messages and pipes with bounds: servers may announce any length, and send without end.

paramiko fills up with zeros what a message lacks, so that few bytes stand for names of a megabyte or for four thousand
million entries; it takes packets and greetings of any length, and more than the window of a channel allows.
"""

from __future__ import annotations

from typing import Final

import paramiko
from paramiko.buffered_pipe import BufferedPipe
from paramiko.common import MSG_CHANNEL_DATA
from paramiko.packet import Packetizer

LONGEST_PACKET: Final = 256 * 1024
"""Bytes of one packet of SSH; OpenSSH's limit as well."""

LONGEST_GREETING: Final = 64 * 1024
"""Bytes that a server may send up to the line with its version."""

LARGEST_BACKLOG: Final = 8 * 1024 * 1024
"""Bytes that may have arrived on a channel without being read; its window is a quarter of that."""


class StrictMessage(paramiko.Message):
    """A message that ends where it ends. Raises SSHException when more is read."""

    def get_bytes(self, n: int) -> bytes:
        """The next `n` bytes."""
        data: bytes = self.packet.read(n)
        if len(data) < n:
            raise paramiko.SSHException("a message ends before what it announces")
        return data


class BoundedPackets(Packetizer):
    """What takes packets off the connection. Raises SSHException for one that is longer than any may be."""

    _greeted = 0

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Read that much."""
        if n > LONGEST_PACKET:
            raise paramiko.SSHException(f"a packet of {n:,} bytes is announced")
        data: bytes = super().read_all(n, check_rekey)
        return data

    def read_message(self) -> tuple[int, paramiko.Message]:
        """The next message, with its type."""
        kind, message = super().read_message()
        if kind == MSG_CHANNEL_DATA:
            return kind, message
        strict = StrictMessage(message.get_remainder())
        strict.seqno = message.seqno
        return kind, strict

    def _read_timeout(self, timeout: float) -> bytes:
        data: bytes = super()._read_timeout(timeout)  # type: ignore[misc]
        self._greeted += len(data)
        if self._greeted > LONGEST_GREETING:
            raise paramiko.SSHException(f"its greeting is longer than {LONGEST_GREETING:,} bytes")
        return data


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
