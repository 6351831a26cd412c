"""Servers that lie, point elsewhere and send without end, on loopback, in threads of the test process."""

import contextlib
import socket
import struct
from collections.abc import Callable, Collection, Mapping

import paramiko

FLOOD = b"x" * 1000 + b"\r\n"


def flooding(before: bytes, piece: bytes = FLOOD * 60) -> Callable[[socket.socket], None]:
    """Says one thing and then the same without end."""

    def talk(connection: socket.socket) -> None:
        connection.sendall(before)
        while True:
            connection.sendall(piece)

    return talk


def ftp(
    *,
    endless: Collection[str] = (),
    listing: Callable[[socket.socket], None] = lambda _: None,
    passive: bytes | None = None,
    replies: Mapping[str, bytes] | None = None,
) -> Callable[[socket.socket], None]:
    """An FTP server that answers commands in `endless` with a reply without end.

    `listing` writes what goes over a data connection; `passive` is its answer to PASV instead of the truth.
    """
    answers = {"USER": b"331 more", "PASS": b"230 in", "PWD": b'257 "/"', "TYPE": b"200 so", "CWD": b"250 there"}
    answers |= {
        "FEAT": b"211-\r\n MLST size*;\r\n SIZE\r\n211 end",
        "SIZE": b"213 9",
        "EPSV": b"500 no",
        "OPTS": b"200 so",
    }
    answers |= replies or {}

    def talk(connection: socket.socket) -> None:
        data = socket.create_server(("127.0.0.1", 0))
        port = data.getsockname()[1]
        truth = b"227 at (127,0,0,1,%d,%d)" % divmod(port, 256)
        with data, connection.makefile("rb") as commands:
            connection.sendall(b"220 hello\r\n")
            for line in commands:
                command = line.split()[0].decode("latin-1").upper()
                if command in endless:
                    flooding(b"211-well\r\n", b"211-x\r\n" * 10_000)(connection)
                if command == "PASV":
                    connection.sendall((passive or truth) + b"\r\n")
                elif command in ("MLSD", "LIST", "RETR"):
                    connection.sendall(b"150 now\r\n")
                    sender = data.accept()[0]
                    with contextlib.suppress(OSError), sender:
                        listing(sender)
                    connection.sendall(b"226 done\r\n")
                else:
                    whole = line.strip().decode("latin-1")
                    connection.sendall(answers.get(whole, answers.get(command, b"500 what?")) + b"\r\n")

    return talk


def sftp_packet(kind: int, content: bytes) -> bytes:
    return struct.pack(">IB", len(content) + 1, kind) + content


class _AnyLogin(paramiko.ServerInterface):
    def check_auth_password(self, username: str, password: str) -> int:
        return paramiko.AUTH_SUCCESSFUL  # type: ignore[no-any-return]

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED  # type: ignore[no-any-return]

    def check_channel_subsystem_request(self, channel: paramiko.Channel, name: str) -> bool:
        return name == "sftp"


def sftp(key: paramiko.PKey, names: bytes) -> Callable[[socket.socket], None]:
    """An SFTP server whose answers to READDIR are these bytes, after the number of the request."""

    def talk(connection: socket.socket) -> None:
        transport = paramiko.Transport(connection)
        transport.add_server_key(key)
        with contextlib.closing(transport), contextlib.suppress(EOFError, OSError, paramiko.SSHException, struct.error):
            transport.start_server(server=_AnyLogin())
            channel = transport.accept(20)
            with channel.makefile("rb") as requests:
                while True:
                    (length,) = struct.unpack(">I", requests.read(4))
                    packet = requests.read(length)
                    channel.sendall(_answer(packet[0], packet[1:5], names))

    return talk


def _answer(kind: int, number: bytes, names: bytes) -> bytes:
    if kind == 1:
        return sftp_packet(2, struct.pack(">I", 3))
    if kind == 11:
        return sftp_packet(102, number + struct.pack(">I", 1) + b"h")
    if kind == 12:
        return sftp_packet(104, number + names)
    return sftp_packet(101, number + struct.pack(">III", 1, 0, 0))
