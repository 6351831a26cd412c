"""paramiko's packets, messages and pipes with bounds: servers may announce any length, and send without end.

paramiko fills up with zeros what a message lacks, so that few bytes stand for names of a megabyte or for four thousand
million entries; it takes packets and greetings of any length, and more than the window of a channel allows.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any, Final, cast

import paramiko
from paramiko.buffered_pipe import BufferedPipe
from paramiko.common import MSG_CHANNEL_DATA, MSG_KEXINIT
from paramiko.packet import NeedRekeyException, Packetizer

from dcc.sources.sftp.ssh_gcm_packets import LONGEST_PACKET, BufferedSocket, GcmPackets
from dcc.sources.sftp.ssh_turns import Turns

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


class BoundedPackets(Packetizer):
    """What takes packets off the connection. Raises SSHException for one that is longer than any may be.

    With AES-GCM, who waits for data takes the packets himself (`take`, in his `turns`), and paramiko's thread gets what
    is for it. Of other ciphers its thread takes all, and passes the data of the channel given to `deliver` on at once,
    those of several packets together: that spares it half of its work, and who waits for them most of the awakenings.
    """

    # Of paramiko, but private there.
    _Packetizer__sequence_number_in: int
    _check_keepalive: Callable[[], None]

    _greeted = 0
    _keys_due = False
    _gcm: GcmPackets | None = None
    _pass_on: Callable[[bytes], object] | None = None
    _channel: int | None = None

    def __init__(self, connection: socket.socket) -> None:
        self.turns = Turns()
        self.arrived = BufferedSocket(connection)
        super().__init__(cast("socket.socket", self.arrived))

    def deliver(self, channel: int, pass_on: Callable[[bytes], object]) -> None:
        """Pass what arrives on a channel from now on, and nobody takes himself."""
        self._channel, self._pass_on = channel, pass_on

    @property
    def takable(self) -> bool:
        """Whether packets can be taken one by one: whether they are encrypted by AES-GCM."""
        return self._gcm is not None

    def set_inbound_cipher(self, **agreed: Any) -> None:  # type: ignore[override]
        """Go on with other keys."""
        super().set_inbound_cipher(**agreed)
        self._gcm = GcmPackets(self.arrived, agreed["block_engine"], agreed["iv_in"]) if agreed["aead"] else None
        self._bytes = self._packets = 0
        self._keys_due = self.turns.changing_keys = False

    def close(self) -> None:
        """Close the connection."""
        super().close()
        self.turns.wake()

    def at_hand(self) -> int:
        """The length of the next packet, if it can be taken; otherwise 0."""
        return 0 if self._gcm is None else self._gcm.at_hand()

    def take(self, plain: memoryview) -> int:
        """Decrypt the packet that is at hand; see `GcmPackets.take`."""
        content = cast("GcmPackets", self._gcm).take(plain)
        self._Packetizer__sequence_number_in = (self._Packetizer__sequence_number_in + 1) & 0xFFFFFFFF
        self._packets += 1
        self._bytes += len(plain)
        if self._bytes >= self.REKEY_BYTES or self._packets >= self.REKEY_PACKETS:
            self._ask_for_keys()
        return content

    def _ask_for_keys(self) -> None:
        """As paramiko does it: new keys are due, and the server gets as long again to agree on them."""
        if not self.need_rekey():
            self._trigger_rekey()
        if self._bytes >= 2 * self.REKEY_BYTES or self._packets >= 2 * self.REKEY_PACKETS:
            raise paramiko.SSHException("the server does not agree on new keys")

    def _trigger_rekey(self) -> None:
        super()._trigger_rekey()  # type: ignore[misc]
        self._keys_due = self.turns.changing_keys = True

    def message(self, content: bytes) -> tuple[int, paramiko.Message]:
        """What was taken, for paramiko: a message's type, and what follows."""
        strict = StrictMessage(content[2:])
        strict.seqno = (self._Packetizer__sequence_number_in - 1) & 0xFFFFFFFF
        return content[1], strict

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Read that much."""
        if n > LONGEST_PACKET:
            raise paramiko.SSHException(f"a packet of {n:,} bytes is announced")
        data: bytes = super().read_all(n, check_rekey)
        return data

    def read_message(self) -> tuple[int, paramiko.Message]:
        """The next message that is for paramiko, with its type; called by its thread."""
        kind, message = self._read_in_turn() if self.takable else self._read_alone()
        if kind == MSG_KEXINIT:
            self.turns.changing_keys = True
        return kind, message

    def _read_in_turn(self) -> tuple[int, paramiko.Message]:
        with self.turns.offered():
            while True:
                handed = self.turns.handed()
                if isinstance(handed, Exception):
                    raise handed
                if handed is not None:
                    return handed
                if self.closed or self.handshake_timed_out():
                    raise EOFError
                if self._keys_due:
                    self._keys_due = False
                    raise NeedRekeyException
                with self.turns.own() as mine:
                    if mine and (message := self._take_for_paramiko()) is not None:
                        self.turns.withdraw()
                        return message
                if not mine:
                    continue
                if not self.arrived.something():
                    self._check_keepalive()
                    continue
                with self.turns.own() as mine:
                    if mine:
                        # What was there may have been taken meanwhile.
                        with contextlib.suppress(TimeoutError):
                            self.arrived.fill()

    def _take_for_paramiko(self) -> tuple[int, paramiko.Message] | None:
        """Take what is at hand up to the first message that is not data of the channel."""
        while length := self.at_hand():
            plain = memoryview(bytearray(length))
            content = bytes(plain[: self.take(plain)])
            data = self._data_of(content[1], content[2:])
            if data is None:
                return self.message(content)
            self._pass_all_on([data])
        return None

    def _read_alone(self) -> tuple[int, paramiko.Message]:
        arrived: list[bytes] = []
        try:
            while True:
                kind, message = super().read_message()
                content = message.asbytes()
                data = self._data_of(kind, content)
                if data is None:
                    break
                arrived.append(data)
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
        if not getattr(self, "_Packetizer__etm_in", False):
            return False
        length = self.arrived.announced()
        return length is not None and self.arrived.end - self.arrived.begin >= _LENGTH + length + _LONGEST_MAC

    def _pass_all_on(self, arrived: list[bytes]) -> None:
        if arrived and self._pass_on is not None:
            self._pass_on(b"".join(arrived))
            arrived.clear()

    def _data_of(self, kind: int, content: bytes) -> bytes | None:
        """What a message of that type holds after the channel's number and its length, if it is data of the channel."""
        if kind != MSG_CHANNEL_DATA or self._channel is None or int.from_bytes(content[:4], "big") != self._channel:
            return None
        length = int.from_bytes(content[4:8], "big")
        if length > len(content) - 8:
            raise paramiko.SSHException("a message ends before what it announces")
        return content[8 : 8 + length]

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

    _closed: bool

    @property
    def settled(self) -> bool:
        """Whether nobody need wait for it: it holds something, or nothing comes any more."""
        return bool(self._buffer) or self._closed

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
