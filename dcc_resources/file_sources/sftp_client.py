"""paramiko's SFTP client with two ways of reading that its own lack, both by asking ahead of the answers.

paramiko's listings fail on names that are not UTF-8. Its `prefetch` leaves off when answers come faster than it asks:
one transfer in five of 200 MB then came at half the speed and gathered the whole file in memory (paramiko 5.1, a
local OpenSSH server).
"""

from __future__ import annotations

import contextlib
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
    CMD_READ,
    CMD_READDIR,
    CMD_STATUS,
    int64,
)

from dcc_resources.file_sources.ssh_packets import StrictMessage

# What OpenSSH sends at once, at half the work of the blocks that every server must send. As many are asked for ahead
# as fill paramiko's window.
_BLOCK = 255 * 1024
_SAFE_BLOCK = 32 * 1024
_BLOCKS_AHEAD = 8
_LISTINGS_AHEAD = 16

_Answer = tuple[int, paramiko.Message]


class _Answers:
    """Takes the answers that the client receives, by the numbers of their requests."""

    def __init__(self) -> None:
        self.received: dict[int, _Answer] = {}

    def _async_response(self, kind: int, message: paramiko.Message, number: int) -> None:
        self.received[number] = (kind, message if kind == CMD_DATA else StrictMessage(message.get_remainder()))


class SftpClient(paramiko.SFTPClient):
    """An SFTP session. Everything raises what paramiko's client raises: SSHException, SFTPError, EOFError, OSError."""

    _block = _BLOCK

    # Of paramiko, but not in its type stubs.
    _async_request: Callable[..., int]
    _read_response: Callable[[], object]

    def entries(self, path: bytes) -> Iterator[tuple[bytes, paramiko.SFTPAttributes]]:
        """The names of a directory's entries, as the server's bytes, with their attributes; links not followed."""
        kind, message = self._request(CMD_OPENDIR, path)
        _expect(CMD_HANDLE, kind)
        handle = message.get_string()
        try:
            for _, kind, message in self._ask_ahead(repeat((CMD_READDIR, handle)), _LISTINGS_AHEAD):
                if kind == CMD_STATUS:
                    self._expect_end(message)
                    return
                _expect(CMD_NAME, kind)
                for _ in range(message.get_int()):
                    name = message.get_string()
                    message.get_string()
                    yield name, paramiko.SFTPAttributes._from_msg(message)  # type: ignore[attr-defined]
        finally:
            # If the connection has ended there is nothing to close, and its error is on its way already.
            with contextlib.suppress(OSError, EOFError):
                self._async_request(type(None), CMD_CLOSE, handle)

    def blocks(self, path: bytes, offset: int, size: int | None) -> Iterator[bytes]:
        """The bytes of a file from `offset` on, in order, in blocks of at most 255 KiB.

        Ends with the file, or one byte after `size`: that byte tells that the file is larger.
        """
        file = self.open(path, "rb")
        try:
            requests = ((CMD_READ, file.handle, int64(start), length) for start, length in self._chunks(offset, size))
            for (_, _, position, wanted), kind, message in self._ask_ahead(requests, _BLOCKS_AHEAD):
                answered = 0
                while kind == CMD_DATA:
                    data = message.get_string()
                    if not 0 < len(data) <= wanted - answered:
                        raise paramiko.SFTPError("the server sent a block of another size than asked for")
                    yield data
                    answered += len(data)
                    if answered == wanted:
                        break
                    self._block = max(len(data), _SAFE_BLOCK)
                    rest = (CMD_READ, file.handle, int64(position + answered), wanted - answered)
                    _, kind, message = next(self._ask_ahead([rest], 1))
                else:
                    _expect(CMD_STATUS, kind)
                    self._expect_end(message)
                    return
        finally:
            file._close(async_=True)  # type: ignore[attr-defined]

    def _request(self, *request: Any) -> _Answer:
        kind, message = super()._request(*request)  # type: ignore[misc]
        return kind, StrictMessage(message.get_remainder())

    def _read_all(self, length: int) -> bytes:
        """Read exactly that much; paramiko's own copies what it has got so far with each piece that arrives."""
        pieces = []
        while length > 0:
            piece = self.sock.recv(length)
            if not piece:
                raise EOFError
            pieces.append(piece)
            length -= len(piece)
        return b"".join(pieces)

    def _chunks(self, offset: int, size: int | None) -> Iterator[tuple[int, int]]:
        """Positions and lengths in which to read a file: to its size and one byte beyond, or without end."""
        position = offset
        while size is None or position < size:
            length = self._block if size is None else min(self._block, size - position)
            yield position, length
            position += length
        yield position, 1

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

    def _expect_end(self, message: paramiko.Message) -> None:
        try:
            self._convert_status(message)
        except EOFError:
            return
        raise paramiko.SFTPError("the server answered with neither data nor an end")

    def _convert_status(self, message: paramiko.Message) -> None:
        # Servers explain their refusals in encodings of their own; paramiko's reading of them insists on UTF-8.
        readable = paramiko.Message()
        readable.add_int(message.get_int())
        readable.add_string(message.get_string().decode("utf-8", "replace"))
        readable.rewind()
        super()._convert_status(readable)  # type: ignore[misc]


def _expect(wanted: int, kind: int) -> None:
    if kind != wanted:
        raise paramiko.SFTPError(f"the server sent an answer of type {kind} where {wanted} was due")
