"""Packets of SSH encrypted by AES-GCM, taken from where they arrived to where they are wanted (RFC 5647).

Their lengths are not encrypted, so that it is known when one has arrived whole. paramiko copies what is in a packet
several times, at dozens of calls each; here it is decrypted once, from one buffer that is used again to another.
"""

from __future__ import annotations

import socket
from typing import Any, Final

import paramiko
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

LONGEST_PACKET: Final = 256 * 1024
"""Bytes of one packet of SSH; OpenSSH's limit as well."""

_LENGTH: Final = 4
_TAG: Final = 16
_BLOCK: Final = 16
_LEAST_PADDING: Final = 4
_COUNTERS: Final = 1 << 64


class BufferedSocket:
    """A socket that is asked for much at once, however little is wanted of it. Has room for the longest packet."""

    def __init__(self, connection: socket.socket) -> None:
        self.view = memoryview(bytearray(2 * LONGEST_PACKET))
        self.begin = self.end = 0
        self._connection = connection

    def fill(self) -> None:
        """Have more at hand; waits for something, as the socket does. Raises EOFError at the end."""
        left = self.end - self.begin
        if self.begin:
            self.view[:left] = self.view[self.begin : self.end]
            self.begin, self.end = 0, left
        count = self._connection.recv_into(self.view[left:])
        if not count:
            raise EOFError
        self.end += count

    def recv(self, length: int) -> bytes:
        """Up to that much of what has arrived, nothing at the end; waits for something, as the socket does."""
        if self.begin == self.end:
            try:
                self.fill()
            except EOFError:
                return b""
        begin = self.begin
        self.begin = min(begin + length, self.end)
        return bytes(self.view[begin : self.begin])

    def something(self) -> bool:
        """Wait for something to arrive, as the socket does, and leave it there; False if nothing came in time."""
        try:
            self._connection.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return False
        return True

    def announced(self) -> int | None:
        """The length before the next packet, where that is not encrypted and has arrived."""
        if self.end - self.begin < _LENGTH:
            return None
        return int.from_bytes(self.view[self.begin : self.begin + _LENGTH], "big")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class GcmPackets:
    """Takes packets off a connection, which the cipher and the 12 bytes of `iv` were agreed for."""

    def __init__(self, arrived: BufferedSocket, cipher: AESGCM, iv: bytes) -> None:
        self._arrived, self._cipher = arrived, cipher
        self._fixed, self._counter = iv[:_LENGTH], int.from_bytes(iv[_LENGTH:], "big")

    def at_hand(self) -> int:
        """The length of the next packet, without its tag; 0 while it has not arrived whole.

        Raises SSHException for a length that none may have.
        """
        length = self._arrived.announced()
        if length is None:
            return 0
        if not _BLOCK <= length <= LONGEST_PACKET or length % _BLOCK:
            raise paramiko.SSHException(f"a packet of {length:,} bytes is announced")
        return length if self._arrived.end - self._arrived.begin >= _LENGTH + length + _TAG else 0

    def take(self, plain: memoryview) -> int:
        """Decrypt the packet that is at hand to `plain`, which has its length. The bytes before its padding.

        The first of them tells the length of the padding. Raises SSHException for what the server did not send.
        """
        begin = self._arrived.begin
        end = self._arrived.begin = begin + _LENGTH + len(plain) + _TAG
        view = self._arrived.view
        nonce = self._fixed + self._counter.to_bytes(8, "big")
        self._counter = (self._counter + 1) % _COUNTERS
        try:
            self._cipher.decrypt_into(nonce, view[begin + _LENGTH : end], view[begin : begin + _LENGTH], plain)
        except InvalidTag as error:
            raise paramiko.SSHException("a packet was changed on its way") from error
        content = len(plain) - plain[0]
        if plain[0] < _LEAST_PADDING or content < 2:
            raise paramiko.SSHException(f"a packet of {len(plain):,} bytes announces {plain[0]} of padding")
        return content
