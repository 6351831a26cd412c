"""The part of SFTP (version 3, draft-ietf-secsh-filexfer-02) that reading needs, over an SSH channel.

Not paramiko's SFTPClient: that one fails on names that are not UTF-8, and bounds neither what it asks for ahead of
the answers nor the time of a listing. Names are bytes here; requests go ahead of their answers, several in one
packet, and answers may come in any order.
"""

from __future__ import annotations

import contextlib
import struct
import time
from collections import deque
from collections.abc import Iterator

import paramiko

from dcc_resources.file_sources.listing import Entry
from dcc_resources.file_sources.sftp_messages import (
    DATA,
    EXTENDED_REPLY,
    FLAG_READ,
    HANDLE,
    STATUS,
    VERSION,
    Answer,
    Request,
    SftpProtocolError,
    SftpStatusError,
    expect,
    expect_end,
    parse_attributes,
    parse_names,
    parse_string,
    string,
)
from dcc_resources.file_sources.sockets import Pace

_MAX_PACKET = 4 * 1024 * 1024
_READ_SIZE = 32 * 1024
_MAX_READ_SIZE = 256 * 1024
_READ_AHEAD = 2 * 1024 * 1024
_LISTINGS_AHEAD = 8
_LIMITS = b"limits@openssh.com"

FAILURES = (SftpProtocolError, SftpStatusError, paramiko.SSHException, EOFError, OSError)
"""What the methods of a session raise: SftpStatusError for a refused request, after which the session goes on;
TimeoutError (an OSError) when a time limit has passed; the others when the connection is at its end."""


class SftpSession:
    """One SFTP session, used by one thread. Everything raises FAILURES.

    `idle_timeout` bounds the wait for each byte; `min_rate` (bytes a second) what counts as a transfer;
    `deadline` (of `time.monotonic`), where set, bounds whatever is done.
    """

    def __init__(self, channel: paramiko.Channel, idle_timeout: float, min_rate: int) -> None:
        self.deadline: float | None = None
        self._channel = channel
        self._idle_timeout = idle_timeout
        self._min_rate = min_rate
        self._pace: Pace | None = None
        self._buffer = bytearray()
        self._next_id = 0
        self._answers: dict[int, Answer | None] = {}
        self._unwanted: set[int] = set()
        self._read_size = _READ_SIZE
        self._limits: int | None = None
        self._channel.settimeout(idle_timeout)
        self._channel.sendall(struct.pack(">IBI", 5, Request.INIT, 3))
        kind, body = self._packet()
        if kind != VERSION or len(body) < 4:
            raise SftpProtocolError("the server does not speak SFTP")
        if _LIMITS in body:
            # Whoever reads a file first has the answer by then.
            self._limits = self._post(Request.EXTENDED, string(_LIMITS))[0]

    def stat(self, path: bytes) -> Entry:
        """What a path leads to, links followed, under its last name."""
        answer = self._ask(Request.STAT, string(path))
        return parse_attributes(path.rsplit(b"/", 1)[-1], answer)

    def list(self, path: bytes) -> Iterator[Entry]:
        """The entries of a directory in the server's order, links not followed."""
        handle = self._open(Request.OPENDIR, string(path))
        asked: deque[int] = deque()
        ended = False
        try:
            while asked or not ended:
                if not ended:
                    asked.extend(self._post(Request.READDIR, *[handle] * (_LISTINGS_AHEAD - len(asked))))
                answer = self._await(asked.popleft())
                # Answers to what was asked ahead may overtake each other: entries can follow the end.
                if answer.kind == STATUS:
                    expect_end(answer)
                    ended = True
                else:
                    yield from parse_names(answer)
        finally:
            self._dismiss(asked, handle)

    def read(self, path: bytes, offset: int, size: int | None) -> Iterator[bytes]:
        """The bytes of a file from `offset` on, in order, in blocks of at most 256 KiB.

        Ends with the file, or with `size` one byte after it: that byte tells that the file is larger.
        """
        handle = self._open(Request.OPEN, string(path) + struct.pack(">II", FLAG_READ, 0))
        self._learn_limits()
        self._pace = Pace(self._min_rate, self._idle_timeout)
        asked: deque[tuple[int, int, int]] = deque()
        chunks = _chunks(offset, size, self._read_size)
        ahead = 0
        try:
            while True:
                if ahead <= _READ_AHEAD // 2:
                    ahead += self._read_on(handle, chunks, asked, _READ_AHEAD - ahead)
                if not asked:
                    return
                request, position, length = asked.popleft()
                answer = self._await(request)
                if answer.kind == STATUS:
                    expect_end(answer)
                    return
                data = parse_string(expect(DATA, answer))
                if not 0 < len(data) <= length:
                    raise SftpProtocolError("the server sent a block of another size than asked for")
                ahead -= len(data)
                if len(data) < length:
                    rest = (position + len(data), length - len(data))
                    (again,) = self._post(Request.READ, handle + struct.pack(">QI", *rest))
                    asked.appendleft((again, *rest))
                yield data
        finally:
            self._pace = None
            self._dismiss((request for request, _, _ in asked), handle)

    def _read_on(
        self, handle: bytes, chunks: Iterator[tuple[int, int]], asked: deque[tuple[int, int, int]], most: int
    ) -> int:
        """Ask for further chunks, at most about `most` bytes in all; how many bytes were asked for."""
        wanted = []
        total = 0
        while total < most and (chunk := next(chunks, None)) is not None:
            wanted.append(chunk)
            total += chunk[1]
        requests = self._post(Request.READ, *(handle + struct.pack(">QI", *chunk) for chunk in wanted))
        asked.extend((request, *chunk) for request, chunk in zip(requests, wanted, strict=True))
        return total

    def _learn_limits(self) -> None:
        """Use the server's own largest block, when it has told it (OpenSSH PROTOCOL, limits@openssh.com)."""
        if self._limits is None or self._answers.get(self._limits) is None:
            return
        kind, body = self._await(self._limits)
        self._limits = None
        if kind == EXTENDED_REPLY and len(body) >= 16:
            largest = int(struct.unpack_from(">Q", body, 8)[0])
            if largest:
                self._read_size = max(1, min(largest, _MAX_READ_SIZE))

    def _open(self, kind: Request, payload: bytes) -> bytes:
        return string(parse_string(expect(HANDLE, self._ask(kind, payload))))

    def _ask(self, kind: Request, payload: bytes) -> Answer:
        (request,) = self._post(kind, payload)
        return self._await(request)

    def _post(self, kind: Request, *payloads: bytes) -> list[int]:
        """Send requests, in as few packets as possible; their numbers."""
        numbers = []
        message = bytearray()
        for payload in payloads:
            self._next_id = (self._next_id + 1) & 0xFFFFFFFF
            numbers.append(self._next_id)
            self._answers[self._next_id] = None
            message += struct.pack(">IBI", 5 + len(payload), kind, self._next_id) + payload
        if message:
            self._channel.settimeout(self._patience())
            self._channel.sendall(bytes(message))
        return numbers

    def _await(self, request: int) -> Answer:
        while (answer := self._answers[request]) is None:
            kind, body = self._packet()
            if len(body) < 4:
                raise SftpProtocolError("the server sent an answer without a number")
            number = int.from_bytes(body[:4], "big")
            if number in self._unwanted:
                self._unwanted.remove(number)
            elif number in self._answers and self._answers[number] is None:
                self._answers[number] = Answer(kind, body[4:])
            else:
                raise SftpProtocolError("the server answered what it was not asked")
        del self._answers[request]
        return answer

    def _dismiss(self, requests: Iterator[int] | deque[int], handle: bytes) -> None:
        """Close a handle, and leave its unanswered requests to be skipped when their answers come."""
        for request in requests:
            if self._answers.pop(request) is None:
                self._unwanted.add(request)
        # If the connection has ended there is nothing to close, and its error is on its way already.
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            (closing,) = self._post(Request.CLOSE, handle)
            del self._answers[closing]
            self._unwanted.add(closing)

    def _packet(self) -> tuple[int, bytes]:
        while len(self._buffer) < 5:
            self._receive()
        length = int.from_bytes(self._buffer[:4], "big")
        if not 1 <= length <= _MAX_PACKET:
            raise SftpProtocolError("the server sent something that is not SFTP")
        while len(self._buffer) < 4 + length:
            self._receive()
        kind = self._buffer[4]
        body = bytes(memoryview(self._buffer)[5 : 4 + length])
        del self._buffer[: 4 + length]
        return kind, body

    def _receive(self) -> None:
        self._channel.settimeout(self._patience())
        started = time.monotonic()
        data = self._channel.recv(_MAX_PACKET)
        if not data:
            raise SftpProtocolError("the server closed the connection")
        if self._pace is not None:
            self._pace.add(len(data), time.monotonic() - started)
        self._buffer += data

    def _patience(self) -> float:
        if self.deadline is None:
            return self._idle_timeout
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("the time limit has passed")
        return min(self._idle_timeout, remaining)


def _chunks(offset: int, size: int | None, length: int) -> Iterator[tuple[int, int]]:
    """Positions and lengths in which to read a file: to its size and one byte beyond, or without end."""
    position = offset
    while size is None or position < size:
        chunk = length if size is None else min(length, size - position)
        yield position, chunk
        position += chunk
    yield position, 1
