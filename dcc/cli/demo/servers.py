"""File servers for the demonstration: real SFTP and FTP servers on loopback, in threads of this process."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from dcc.errors import ConfigurationError

if TYPE_CHECKING:
    import asyncssh

_START_SECONDS = 30.0
_LOOK_SECONDS = 0.1
_PACKAGES = ("asyncssh", "pyftpdlib")
_READ_ONLY = "elr"

Announce = Callable[[int], object]
"""Tells the port of a server that answers now."""


@dataclass(frozen=True, slots=True)
class Account:
    """A login of a demonstration server and the folder that it sees as its root."""

    password: str = field(repr=False)
    folder: Path


def require_packages() -> None:
    """Check that the servers' packages are installed. Raises ConfigurationError."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"The demonstration needs {' and '.join(missing)}, which are not installed. "
            "Install them with the extra `demo`: pip install 'dcc[demo]'."
        )


def sftp_server(accounts: Mapping[str, Account]) -> AbstractContextManager[int]:
    """An SFTP server for accounts by user name, until the end of the block; gives its port on 127.0.0.1.

    Raises ConfigurationError if it does not start.
    """
    return _running(lambda announce, ended: asyncio.run(_serve_sftp(accounts, announce, ended)))


def ftp_server(accounts: Mapping[str, Account]) -> AbstractContextManager[int]:
    """An FTP server; as `sftp_server`."""
    return _running(partial(_serve_ftp, accounts))


@contextmanager
def refusing_port() -> Iterator[int]:
    """A port on 127.0.0.1 that refuses connections: bound, so that nobody else gets it, but never listening."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@contextmanager
def _running(serve: Callable[[Announce, Event], None]) -> Iterator[int]:
    port: Future[int] = Future()
    ended = Event()

    def run() -> None:
        try:
            serve(port.set_result, ended)
        except Exception as error:
            if port.done():
                raise
            port.set_exception(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        if (error := port.exception(_START_SECONDS)) is not None:
            raise ConfigurationError(f"A demonstration server did not start: {error}. Try again.") from error
        yield port.result()
    finally:
        ended.set()
        thread.join()


async def _serve_sftp(accounts: Mapping[str, Account], announce: Announce, ended: Event) -> None:
    import asyncssh

    class Logins(asyncssh.SSHServer):
        """Accepts the accounts' passwords and nothing else."""

        def password_auth_supported(self) -> bool:
            """Only passwords are accepted."""
            return True

        def validate_password(self, username: str, password: str) -> bool:
            """Whether the account exists and has this password."""
            return username in accounts and accounts[username].password == password

    def folder(channel: asyncssh.SSHServerChannel[bytes]) -> asyncssh.SFTPServer:
        return asyncssh.SFTPServer(channel, chroot=str(accounts[channel.get_extra_info("username")].folder).encode())

    key = asyncssh.generate_private_key("ssh-ed25519")
    async with asyncssh.listen(
        "127.0.0.1", 0, server_factory=Logins, server_host_keys=[key], sftp_factory=folder
    ) as server:
        announce(server.get_port())
        await asyncio.to_thread(ended.wait)


def _serve_ftp(accounts: Mapping[str, Account], announce: Announce, ended: Event) -> None:
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import FTPHandler
    from pyftpdlib.servers import FTPServer

    class Handler(FTPHandler):  # type: ignore[misc]
        """One login of the server."""

        authorizer = DummyAuthorizer()
        banner = "Demonstration FTP server"

    for name, account in accounts.items():
        Handler.authorizer.add_user(name, account.password, str(account.folder), perm=_READ_ONLY)
    with FTPServer(("127.0.0.1", 0), Handler) as server:
        announce(server.address[1])
        while not ended.is_set():
            server.serve_forever(timeout=_LOOK_SECONDS, blocking=False)
