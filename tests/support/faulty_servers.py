"""Servers that do wrong on purpose, in threads of the test process: FTP by pyftpdlib, SFTP by asyncssh, a proxy.

Each is a context manager: it serves within, and is gone after it.
"""

import asyncio
import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import asyncssh
from pyftpdlib.authorizers import AuthenticationFailed, DummyAuthorizer
from pyftpdlib.handlers import DTPHandler, FTPHandler, ThrottledDTPHandler
from pyftpdlib.servers import FTPServer

from tests.support.ports import free_port

_USERNAME = "centre"
_PASSWORD = "correct horse battery staple"
_BLOCK = 16 * 1024
_LOOPBACK = "127.0.0.1"
_PASSIVE = re.compile(rb"227 [^(]*\((?:\d+,){4}(\d+),(\d+)\)")


class FaultyFtpServer:
    """An FTP server that serves `root` to one user by password, with faults that are chosen by keyword.

    `users` are further users with folders of their own, whose password is their name. `without` are commands that it
    does not know (`MLSD`, `REST`). For a command in `faulty_commands` the data connection is closed after `cut_after`
    bytes (as if that were all, with `claim_success`), left open without another byte after `stall_after`, or sends
    `bytes_per_second`. With `refuse_login` no password is right; `repeat_password` has the refusal hold it.
    `list_lines` is what it answers to LIST. `replies` are what it answers to single commands, by command and file name
    (`MDTM H.zip`).
    """

    username = _USERNAME
    password = _PASSWORD

    def __init__(
        self,
        root: Path,
        *,
        users: Mapping[str, Path] | None = None,
        without: Iterable[str] = (),
        faulty_commands: Iterable[str] = ("RETR",),
        cut_after: int | None = None,
        claim_success: bool = False,
        stall_after: int | None = None,
        bytes_per_second: int | None = None,
        refuse_login: bool = False,
        repeat_password: bool = False,
        list_lines: bytes | None = None,
        replies: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        faulty = frozenset(faulty_commands)
        unknown = {name.upper() for name in without} | ({"MLST"} if "MLSD" in without else set())

        class Authorizer(DummyAuthorizer):  # type: ignore[misc]
            def validate_authentication(self, username: str, password: str, handler: Any) -> None:
                if refuse_login:
                    raise AuthenticationFailed(f"{password} is wrong" if repeat_password else "Not today.")
                super().validate_authentication(username, password, handler)

        class Data(ThrottledDTPHandler if bytes_per_second is not None else DTPHandler):  # type: ignore[misc]
            write_limit = bytes_per_second or 0

            def send(self, data: bytes) -> int:
                limit = cut_after if cut_after is not None else stall_after
                if limit is None or self.cmd_channel.data_command not in faulty:
                    return int(super().send(data))
                rest = limit - self.tot_bytes_sent
                if rest > 0:
                    return int(super().send(data[:rest]))
                if cut_after is not None:
                    self.cmd_channel.respond("226 Done." if claim_success else "426 Broken off.")
                    self.close()
                else:
                    self.ioloop.unregister(self._fileno)
                return 0

        class Handler(FTPHandler):  # type: ignore[misc]
            dtp_handler = Data
            use_sendfile = False
            proto_cmds: ClassVar = {name: entry for name, entry in FTPHandler.proto_cmds.items() if name not in unknown}
            auth_failed_timeout = 0
            data_command: str | None = None

            def push_dtp_data(
                self, data: Any, isproducer: bool = False, file: Any = None, cmd: str | None = None
            ) -> None:
                self.data_command = cmd
                super().push_dtp_data(data, isproducer, file, cmd)

            def process_command(self, cmd: str, *args: Any, **kwargs: Any) -> None:
                reply = (replies or {}).get(f"{cmd} {Path(args[0]).name}") if args else None
                if reply is None:
                    super().process_command(cmd, *args, **kwargs)
                else:
                    self.respond(reply)

            def ftp_LIST(self, path: str) -> Any:
                if list_lines is None:
                    return super().ftp_LIST(path)
                self.push_dtp_data(list_lines, cmd="LIST")
                return path

        Handler.authorizer = Authorizer()
        Handler.authorizer.add_user(_USERNAME, _PASSWORD, str(root), perm="elr")
        for name, folder in (users or {}).items():
            Handler.authorizer.add_user(name, name, str(folder), perm="elr")
        self._server = FTPServer((host, 0), Handler)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._stopping = False

    @property
    def hostname(self) -> str:
        return _hostname(*self._server.address[:2])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._thread.join()

    def _serve(self) -> None:
        while not self._stopping:
            self._server.serve_forever(timeout=0.05, blocking=False)
        self._server.close_all()


class PasswordSftpServer:
    """An SFTP server by asyncssh with password login; each user is kept in a folder of its own.

    `users` are further users, whose password is their name. With `interactive` it takes the password only as the
    answer to a question. `on_login` is told the name of whoever begins to log in.
    """

    username = _USERNAME
    password = _PASSWORD

    def __init__(
        self,
        root: Path,
        *,
        users: Mapping[str, Path] | None = None,
        interactive: bool = False,
        on_login: Callable[[str], object] = lambda username: None,
        host: str = "127.0.0.1",
    ) -> None:
        self._host = host
        self._folders = {_USERNAME: root, **(users or {})}
        passwords = {_USERNAME: _PASSWORD} | {name: name for name in users or {}}

        def is_right(username: str, password: str) -> bool:
            return passwords.get(username) == password

        class Logins(asyncssh.SSHServer):
            def begin_auth(self, username: str) -> bool:
                on_login(username)
                return True

            def password_auth_supported(self) -> bool:
                return not interactive

            def validate_password(self, username: str, password: str) -> bool:
                return is_right(username, password)

            def kbdint_auth_supported(self) -> bool:
                return interactive

            def get_kbdint_challenge(self, username: str, lang: str, submethods: str) -> Any:
                return "", "", "", [("Password: ", False)]

            def validate_kbdint_response(self, username: str, responses: Any) -> bool:
                return len(responses) == 1 and is_right(username, responses[0])

        self._logins = Logins
        self._key = asyncssh.generate_private_key("ssh-ed25519")
        self.host_key = self._key.export_public_key().decode().strip()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.hostname = ""

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        self.hostname = _hostname(self._host, self._server.get_port())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._server.close)
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0.05), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    async def _listen(self) -> Any:
        def folder(channel: Any) -> asyncssh.SFTPServer:
            root = self._folders[channel.get_extra_info("username")]
            return asyncssh.SFTPServer(channel, chroot=str(root).encode())

        return await asyncssh.listen(
            self._host, 0, server_factory=self._logins, server_host_keys=[self._key], sftp_factory=folder
        )


class CuttingProxy:
    """A TCP proxy before any server, with faults in what the server sends; all of it can be changed while it runs.

    `cut_after`: a connection ends when the server has sent so many bytes, `cuts` times (None: always). `stall_after`:
    no more is passed on, and it stays open. `flip_at`: a bit of that byte is turned, `flips` times (None: always).
    `delay`: seconds before each block. `down`: connections end at once. `target` is the server's `host:port`. `sent`
    counts what was passed on from the server, `connections` those that were taken.
    """

    def __init__(self, target: str, **faults: Any) -> None:
        self.target = target
        self.cut_after: int | None = None
        self.cuts: int | None = None
        self.stall_after: int | None = None
        self.flip_at: int | None = None
        self.flips: int | None = None
        self.delay = 0.0
        self.down = False
        self.sent = self.connections = 0
        vars(self).update(faults)
        self._closed = threading.Event()
        self._sockets: list[socket.socket] = []
        self.port = free_port()
        self._listener = socket.create_server((_LOOPBACK, self.port))

    @property
    def hostname(self) -> str:
        return f"{_LOOPBACK}:{self.port}"

    def __enter__(self) -> Self:
        start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self.go_away()

    def go_away(self) -> None:
        """Close all connections, and take none until `come_back`."""
        for connection in [self._listener, *self._sockets]:
            shut(connection)

    def come_back(self) -> None:
        """Take connections again, at the same port."""
        self._listener = socket.create_server((_LOOPBACK, self.port))
        start(self._accept)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.down:
                    shut(client)
                    continue
                self.connections += 1
                host, _, port = self.target.rpartition(":")
                self._join(client, (host.strip("[]"), int(port)), self._answer)

    def _join(self, client: socket.socket, target: tuple[str, int], answer: Callable[..., object]) -> None:
        self._sockets.append(client)
        server = joined(client, target)
        if server is None:
            return
        self._sockets.append(server)
        start(self._forward, client, server)
        start(answer, server, client)

    @staticmethod
    def _forward(client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while block := client.recv(_BLOCK):
                server.sendall(block)
        shut(server)

    def _answer(self, server: socket.socket, client: socket.socket) -> object:
        return self._pass_on(server, client)

    def _pass_on(self, server: socket.socket, client: socket.socket) -> bool:
        """Pass on what the server sends; whether it was all of it."""
        sent, whole = 0, True
        with contextlib.suppress(OSError):
            while whole and (block := server.recv(_BLOCK)):
                time.sleep(self.delay)
                if self.flip_at is not None and self.flips != 0 and sent <= self.flip_at < sent + len(block):
                    self.flips = None if self.flips is None else self.flips - 1
                    place = self.flip_at - sent
                    block = block[:place] + bytes([block[place] ^ 1]) + block[place + 1 :]
                if self.cut_after is not None and self.cuts != 0 and sent + len(block) > self.cut_after:
                    self.cuts = None if self.cuts is None else self.cuts - 1
                    block, whole = block[: self.cut_after - sent], False
                stalls = self.stall_after is not None and sent + len(block) > self.stall_after
                if stalls and self.stall_after is not None:
                    block = block[: self.stall_after - sent]
                client.sendall(block)
                sent += len(block)
                self.sent += len(block)
                if stalls:
                    self._closed.wait()
        with contextlib.suppress(OSError):
            # No more than that: to close it would take back what the client has not read yet.
            client.shutdown(socket.SHUT_WR)
        shut(server)
        return whole


def joined(client: socket.socket, target: tuple[str, int]) -> socket.socket | None:
    """A connection to the server that a proxy's client wants; without one, None: the client's has been ended."""
    try:
        server = socket.create_connection(target, timeout=10)
    except OSError:
        shut(client)
        return None
    server.settimeout(None)
    for end in (client, server):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return server


def passive_port(answer: bytes) -> int | None:
    """The port to which an FTP server's answer sends the client for data; None where it is no such answer."""
    found = _PASSIVE.search(answer)
    return None if found is None else 256 * int(found[1]) + int(found[2])


def start(work: Callable[..., object], *arguments: object) -> None:
    """Do something in a thread that nobody waits for."""
    threading.Thread(target=work, args=arguments, daemon=True).start()


def _hostname(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def shut(connection: socket.socket) -> None:
    """End a connection, whatever it is at."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
