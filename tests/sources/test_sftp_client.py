"""The SFTP client: what a server answers is taken apart or refused, and never beyond its end."""

import struct
from types import SimpleNamespace
from typing import Any, cast

import paramiko
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paramiko.sftp import CMD_HANDLE, CMD_NAME, CMD_STATUS, CMD_VERSION

from dcc.sources.sftp.bounds import StrictMessage
from dcc.sources.sftp.client import DirectoryEntry, SftpClient, SftpResponse
from tests.hostile.servers import sftp_packet

NUMBERS = st.integers(0, 2**32 - 1)


class Script:
    """A channel that has these packets of a server, a piece at each call, whatever it is sent; then it ends."""

    def __init__(self, *packets: bytes, piece: int = 1 << 20) -> None:
        self.sent, self.closed = b"", False
        self._arriving, self._piece = b"".join([sftp_packet(CMD_VERSION, struct.pack(">I", 3)), *packets]), piece

    def sendall(self, data: bytes) -> None:
        if self.closed:
            raise OSError("Socket is closed")
        self.sent += data

    def recv(self, length: int) -> bytes:
        data = self._arriving[: min(length, self._piece)]
        self._arriving = self._arriving[len(data) :]
        return data


def client(channel: Script) -> SftpClient:
    return SftpClient(cast("Any", channel), cast("Any", SimpleNamespace(read=0)))


def answer(kind: int, number: int, content: bytes) -> bytes:
    return sftp_packet(kind, struct.pack(">I", number) + content)


def names_of(*names: bytes) -> bytes:
    entries = [struct.pack(">I", len(name)) + name + struct.pack(">II", 0, 0) for name in names]
    return struct.pack(">I", len(names)) + b"".join(entries)


HANDLE = answer(CMD_HANDLE, 1, struct.pack(">I", 1) + b"h")
END = struct.pack(">I", 1)


@pytest.mark.parametrize("piece", [1, 10, 1 << 20])
def test_a_directory_is_listed_in_the_order_of_the_answers_however_they_arrive(piece: int) -> None:
    listings = [answer(CMD_NAME, 2 + number, names_of(b"%d" % number, b"\xff")) for number in range(40)]
    channel = Script(HANDLE, *listings, answer(CMD_STATUS, 42, END), piece=piece)
    found = [entry.name for entry in client(channel).entries(b"/add")]
    assert found == [name for number in range(40) for name in (b"%d" % number, b"\xff")]


@pytest.mark.parametrize("whole", [0, 1, 3])
def test_what_arrived_before_the_channel_was_closed_is_passed_on(whole: int) -> None:
    listings = [answer(CMD_NAME, 2 + number, names_of(b"%d" % number)) for number in range(whole)]
    channel = Script(HANDLE, *listings, b"\0\0")
    entries = client(channel).entries(b"/add")
    found = []
    for _ in range(whole):
        found.append(next(entries).name)
        channel.closed = True
    with pytest.raises(paramiko.SSHException, match="closed the connection"):
        next(entries)
    assert found == [b"%d" % number for number in range(whole)]


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (answer(CMD_STATUS, 7, END), "an answer to no request"),
        (b"\0\0\0\1e" + bytes(9), "an answer to no request"),
        (bytes(9), "an answer to no request"),
        (struct.pack(">IBI", 5 + 100_000, CMD_STATUS, 1), "an answer of 100,000 bytes"),
        (struct.pack(">IBI", 0xFFFFFFFF, CMD_STATUS, 1), "an answer of 4,294,967,290 bytes"),
        (answer(CMD_NAME, 1, names_of()), "an answer of type 104 where 105 was due"),
    ],
    ids=["another number", "no number", "nothing", "long", "endless", "another type"],
)
def test_an_answer_that_was_not_asked_for_is_refused(packet: bytes, reason: str) -> None:
    with pytest.raises(paramiko.SFTPError, match=reason):
        client(Script(packet)).stat(b"/add")


@pytest.mark.parametrize(
    ("status", "error", "told"),
    [(2, FileNotFoundError, b"gone"), (3, PermissionError, b"no"), (4, OSError, b"\xe9chec"), (0, OSError, b"fine")],
)
def test_a_refusal_is_told_in_whatever_encoding(status: int, error: type[OSError], told: bytes) -> None:
    refusal = answer(CMD_STATUS, 1, struct.pack(">II", status, len(told)) + told + bytes(4))
    with pytest.raises(error, match=told.decode("utf-8", "replace")):
        client(Script(refusal)).stat(b"/add")
    with pytest.raises(error):
        client(Script(answer(CMD_STATUS, 1, struct.pack(">I", status)))).stat(b"/add")


@st.composite
def attributes(draw: st.DrawFn) -> paramiko.SFTPAttributes:
    """Any of the attributes that a server may tell."""
    made = paramiko.SFTPAttributes()
    if draw(st.booleans()):
        made.st_size = draw(st.integers(0, 2**64 - 1))
    if draw(st.booleans()):
        made.st_uid, made.st_gid = draw(NUMBERS), draw(NUMBERS)
    if draw(st.booleans()):
        made.st_mode = draw(NUMBERS)
    if draw(st.booleans()):
        made.st_atime, made.st_mtime = draw(NUMBERS), draw(NUMBERS)
    made.attr = draw(st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2))
    return made


ENTRIES = st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=20), attributes()), max_size=5)


def names_answer(entries: list[tuple[bytes, bytes, paramiko.SFTPAttributes]]) -> bytes:
    message = paramiko.Message()
    message.add_int(len(entries))
    for name, shown, told in entries:
        message.add_string(name)
        message.add_string(shown)
        told._pack(message)  # type: ignore[attr-defined]
    return message.asbytes()


@given(ENTRIES)
def test_names_and_attributes_are_taken_apart(entries: list[tuple[bytes, bytes, paramiko.SFTPAttributes]]) -> None:
    expected = [DirectoryEntry(name, told.st_mode, told.st_size, told.st_mtime) for name, _, told in entries]
    assert list(SftpResponse(CMD_NAME, StrictMessage(names_answer(entries))).names()) == expected


@given(ENTRIES.filter(bool), st.data())
def test_a_message_that_ends_early_is_refused(
    entries: list[tuple[bytes, bytes, paramiko.SFTPAttributes]], data: st.DataObject
) -> None:
    content = names_answer(entries)
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    with pytest.raises(paramiko.SSHException, match="ends before"):
        list(SftpResponse(CMD_NAME, StrictMessage(cut)).names())
