"""paramiko's SFTP client with requests that are sent together, bounds for the answers, and listings of its own.

paramiko's listings fail on names that are not UTF-8, and wait for each answer before they ask for the next.
"""

from __future__ import annotations

import contextlib
import struct
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any

import paramiko
from paramiko.sftp import (
    CMD_CLOSE,
    CMD_DATA,
    CMD_HANDLE,
    CMD_NAME,
    CMD_OPENDIR,
    CMD_READDIR,
    CMD_STATUS,
)

from dcc.sources.sftp.names import ListedName, listed_names
from dcc.sources.sftp.ssh_packets import StrictMessage

_BEGINNING = struct.Struct(">IB")
_NUMBER = 4
_MOST_UNSENT = 16 * 1024
_LONGEST_ANSWER = 16 * 1024 * 1024
_LISTINGS_AHEAD = 16

_Answer = tuple[int, paramiko.Message]


class _Answers:
    """Takes the answers that the client receives, by the numbers of their requests."""

    def __init__(self) -> None:
        self.received: dict[int, _Answer] = {}

    def _async_response(self, kind: int, message: paramiko.Message, number: int) -> None:
        self.received[number] = (kind, message)


class TakesData(ABC):
    """A taker of answers who takes data as they arrive, before all of the answer has."""

    @abstractmethod
    def take_data(self, number: int, piece: memoryview, remaining: int) -> None:
        """Take a piece of the answer to a request, of which `remaining` bytes are to come; it is good until the next.

        Called once at least; the first piece is empty if the data are.
        """


class _Sending:
    """An answer with data that is still arriving."""

    def __init__(self, taker: TakesData, number: int, remaining: int) -> None:
        self.taker, self.number, self.remaining = taker, number, remaining


class SftpClient(paramiko.SFTPClient):
    """An SFTP session. Everything raises what paramiko's client raises: SSHException, SFTPError, EOFError, OSError.

    `receive` waits for what arrives on the channel, and may use the memory of what it returned again.
    """

    def __init__(self, channel: paramiko.Channel, receive: Callable[[], memoryview]) -> None:
        self._unsent = bytearray()
        self._receive, self._arrived = receive, memoryview(b"")
        self._sending: _Sending | None = None
        super().__init__(channel)
        self._expecting = {}

    # Of paramiko, but not in its type stubs.
    _async_request: Callable[..., int]
    _expecting: dict[int, Any]
    _request: Callable[..., _Answer]
    _write_all: Callable[[bytes], None]

    @property
    def is_open(self) -> bool:
        """Whether one can still ask; when not, paramiko raises what it raises for a server's refusal, OSError."""
        channel = self.get_channel()
        return channel is not None and not channel.closed

    def entries(self, path: bytes) -> Iterator[ListedName]:
        """A directory's entries with their attributes; links not followed."""
        kind, message = self._request(CMD_OPENDIR, path)
        expect_answer(CMD_HANDLE, kind)
        handle = message.get_string()
        try:
            for _, kind, message in self._ask_ahead(repeat((CMD_READDIR, handle)), _LISTINGS_AHEAD):
                if kind == CMD_STATUS:
                    self.expect_end(message)
                    return
                expect_answer(CMD_NAME, kind)
                yield from listed_names(message.get_remainder())
        finally:
            # If the connection has ended there is nothing to close, and its error is on its way already.
            with contextlib.suppress(OSError, EOFError):
                self._async_request(type(None), CMD_CLOSE, handle)

    def ask(self, taker: object | None, *request: Any) -> int:
        """Send a request, with the next that is waited for; returns its number.

        `taker._async_response(kind, message, number)` is called with the answer when it is heard; without a taker
        the answer is let go.
        """
        return self._async_request(type(None) if taker is None else taker, *request)

    def hear(self) -> None:
        """Wait for the next answer, and give it to its taker."""
        self._read_response()

    def _send_packet(self, kind: int, packet: paramiko.Message) -> None:
        """Keep a request until an answer is waited for: then all go together."""
        content = packet.asbytes()
        self._unsent += struct.pack(">IB", len(content) + 1, kind) + content
        if len(self._unsent) >= _MOST_UNSENT:
            self._flush()

    def _flush(self) -> None:
        if self._unsent:
            unsent, self._unsent = bytes(self._unsent), bytearray()
            self._write_all(unsent)

    def _read_packet(self) -> tuple[int, bytes]:
        """The next answer, whole: its type, and what follows."""
        kind, length = self._read_beginning()
        return kind, self._take(length)

    def _read_beginning(self) -> tuple[int, int]:
        """The type of the next answer, and how many bytes follow."""
        length, kind = _BEGINNING.unpack(self._take(_BEGINNING.size))
        if not 0 < length < _LONGEST_ANSWER:
            raise paramiko.SFTPError(f"the server announced an answer of {length:,} bytes")
        return kind, length - 1

    def _read_response(self, waitfor: int | None = None) -> tuple[int | None, paramiko.Message | None]:
        """Hear answers until that to the request `waitfor`, which is returned; without one, hear one or a part of one.

        As paramiko's own, but an answer ends where it ends.
        """
        while True:
            try:
                heard = self._hear_next(waitfor)
            except EOFError as error:
                raise paramiko.SSHException("the server closed the connection") from error
            if heard is not None:
                return heard
            if waitfor is None:
                return None, None

    def _hear_next(self, waitfor: int | None) -> _Answer | None:
        """Hear more of an answer with data, or the next answer; it is returned if it is that to `waitfor`."""
        if self._sending is not None:
            self._hear_data(self._sending)
            return None
        return self._hear_answer(waitfor)

    def _hear_answer(self, waitfor: int | None) -> _Answer | None:
        """Hear the next answer, or how one with data begins; it is returned if it is that to the request `waitfor`."""
        kind, length = self._read_beginning()
        if length < _NUMBER:
            raise paramiko.SFTPError("the server sent an answer to no request")
        number = int.from_bytes(self._take(_NUMBER), "big")
        taker = self._expecting.pop(number, type(None))
        if kind == CMD_DATA and isinstance(taker, TakesData):
            self._begin_data(taker, number, length - _NUMBER)
            return None
        message = StrictMessage(self._take(length - _NUMBER))
        if number == waitfor:
            if kind == CMD_STATUS:
                self._convert_status(message)
            return kind, message
        if taker is not type(None):
            taker._async_response(kind, message, number)
        return None

    def _begin_data(self, taker: TakesData, number: int, length: int) -> None:
        if length < _NUMBER or int.from_bytes(self._take(_NUMBER), "big") != length - _NUMBER:
            raise paramiko.SFTPError("the server sent a block of another length than it says")
        self._sending = _Sending(taker, number, length - _NUMBER)
        self._hear_data(self._sending)

    def _hear_data(self, sending: _Sending) -> None:
        """Pass on what there is of an answer with data."""
        if sending.remaining and not self._arrived:
            self._arrived = self._await_more()
        piece, self._arrived = self._arrived[: sending.remaining], self._arrived[sending.remaining :]
        sending.remaining -= len(piece)
        if not sending.remaining:
            self._sending = None
        sending.taker.take_data(sending.number, piece, sending.remaining)

    def _await_more(self) -> memoryview:
        """Send what requests there are, all together, and wait for more to arrive."""
        self._flush()
        return self._receive()

    def _take(self, count: int) -> bytes:
        """The next bytes that arrive, as many as that."""
        taken = bytes(self._arrived[:count])
        self._arrived = self._arrived[count:]
        if len(taken) == count:
            return taken
        pieces, missing = [taken], count - len(taken)
        while missing:
            arrived = self._await_more()
            pieces.append(bytes(arrived[:missing]))
            self._arrived = arrived[missing:]
            missing -= len(pieces[-1])
        return b"".join(pieces)

    def _ask_ahead(
        self, requests: Iterable[tuple[Any, ...]], ahead: int
    ) -> Iterator[tuple[tuple[Any, ...], int, paramiko.Message]]:
        """Send requests and yield each with its answer, in order, with up to `ahead` of them under way.

        When the connection breaks, what had arrived by then is yielded before that is raised.
        """
        answers = _Answers()
        waiting = deque[tuple[int, tuple[Any, ...]]]()
        broken: Exception | None = None
        for request in requests:
            try:
                number = self._async_request(answers, *request)
            except (paramiko.SSHException, EOFError, OSError) as error:
                broken = error
                break
            waiting.append((number, request))
            if len(waiting) == ahead:
                yield self._await(answers, *waiting.popleft())
        while waiting:
            yield self._await(answers, *waiting.popleft())
        if broken is not None:
            raise broken

    def _await(
        self, answers: _Answers, number: int, request: tuple[Any, ...]
    ) -> tuple[tuple[Any, ...], int, paramiko.Message]:
        while number not in answers.received:
            self._read_response()
        return (request, *answers.received.pop(number))

    def expect_end(self, message: paramiko.Message, *, ended: bool = True) -> None:
        """Raise what a status says, unless it says that something has ended, and that may be (`ended`)."""
        try:
            self._convert_status(message)
        except EOFError:
            if ended:
                return
        raise paramiko.SFTPError("the server answered with neither data nor an end")

    def _convert_status(self, message: paramiko.Message) -> None:
        # Servers explain their refusals in encodings of their own; paramiko's reading of them insists on UTF-8.
        readable = paramiko.Message()
        readable.add_int(message.get_int())
        readable.add_string(message.get_string().decode("utf-8", "replace"))
        readable.rewind()
        super()._convert_status(readable)  # type: ignore[misc]


def expect_answer(wanted: int, kind: int) -> None:
    """Raise SFTPError for an answer of another type."""
    if kind != wanted:
        raise paramiko.SFTPError(f"the server sent an answer of type {kind} where {wanted} was due")
