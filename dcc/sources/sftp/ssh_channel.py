"""What arrives on a channel of SSH, read by who waits for it."""

from __future__ import annotations

import math
import struct
import time
from typing import Final

import paramiko
from paramiko.common import MSG_CHANNEL_DATA, cMSG_CHANNEL_WINDOW_ADJUST

from dcc.sources.sftp.ssh_gcm_packets import LONGEST_PACKET
from dcc.sources.sftp.ssh_packets import BoundedPackets, Pipe
from dcc.sources.sftp.ssh_turns import Handed

# Before the data of a channel: how long the padding is, the message's type, the channel's number, the data's length.
_BEFORE: Final = struct.Struct(">BBII")

_AT_ONCE: Final = 256 * 1024
_FROM_PIPE: Final = 256 * 1024


class ChannelReader:
    """Reads the data of a channel whose incoming buffer is `pipe`, without a copy where the cipher allows it.

    One thread may use it. It reads as paramiko's `Channel.recv` does, and keeps to the channel's time limit.
    """

    def __init__(self, channel: paramiko.Channel, packets: BoundedPackets, pipe: Pipe) -> None:
        self._channel, self._packets, self._pipe = channel, packets, pipe
        self._number = channel.get_id()
        self._plain = memoryview(bytearray(_BEFORE.size + _AT_ONCE + LONGEST_PACKET))
        packets.deliver(self._number, pipe.feed)

    def receive(self) -> memoryview:
        """What has arrived, in order, at least a byte; its memory is used again at the next call.

        Raises EOFError at the end, TimeoutError when nothing arrives in time, SSHException.
        """
        timeout = self._channel.gettimeout()
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while self._packets.takable and self._packets.turns.claim(self._settled, deadline):
            if count := self._take(deadline):
                self._allow(count)
                return self._plain[_BEFORE.size : _BEFORE.size + count]
        data = self._channel.recv(_FROM_PIPE)
        if not data:
            raise EOFError
        return memoryview(data)

    def _settled(self) -> bool:
        return self._pipe.settled

    def _take(self, deadline: float) -> int:
        """Take the next packets, in a turn of ours, and put what they hold in a row; how much that is.

        That is nothing if there was first something for paramiko's thread, such as the end of the connection.
        """
        handed: Handed | None = None
        end = _BEFORE.size
        try:
            while end == _BEFORE.size:
                while end < _BEFORE.size + _AT_ONCE and (length := self._packets.at_hand()):
                    end, content = self._append(end, length)
                    if content is not None:
                        handed = self._packets.message(content)
                        return end - _BEFORE.size
                if end == _BEFORE.size:
                    self._fill(deadline)
        except (paramiko.SSHException, EOFError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            handed = error
        finally:
            self._packets.turns.give_back(handed)
        return end - _BEFORE.size

    def _append(self, end: int, length: int) -> tuple[int, bytes | None]:
        """Decrypt the packet that is at hand so that its data follow what ends at `end`; where they end themselves.

        What stands before a packet's data takes the place of the last bytes of those before, which are put back. The
        packet's content comes as well if it is no data of the channel.
        """
        begin = end - _BEFORE.size
        before = bytes(self._plain[begin:end])
        plain = self._plain[begin : begin + length]
        try:
            content = self._packets.take(plain)
            _, kind, channel, count = _BEFORE.unpack_from(plain)
            if kind != MSG_CHANNEL_DATA or channel != self._number:
                return end, bytes(plain[:content])
        finally:
            self._plain[begin:end] = before
        if count > content - _BEFORE.size:
            raise paramiko.SSHException("a message ends before what it announces")
        return end + count, None

    def _fill(self, deadline: float) -> None:
        while True:
            if time.monotonic() > deadline:
                raise TimeoutError
            try:
                return self._packets.arrived.fill()
            except TimeoutError:
                if self._packets.closed:
                    raise EOFError from None

    def _allow(self, count: int) -> None:
        """Let the server send as much again, as paramiko does it."""
        allowed = self._channel._check_add_window(count)  # type: ignore[attr-defined]
        if allowed:
            message = paramiko.Message()
            message.add_byte(cMSG_CHANNEL_WINDOW_ADJUST)
            message.add_int(self._channel.remote_chanid)
            message.add_int(allowed)
            self._channel.transport._send_user_message(message)  # type: ignore[union-attr]
