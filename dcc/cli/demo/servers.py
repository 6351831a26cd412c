"""File servers for the demonstration: real SFTP and FTP servers on loopback, each a process of its own."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from dcc.errors import ConfigurationError
from dcc.runtime.worker_processes import WorkerProcesses

if TYPE_CHECKING:
    import asyncssh

_START_SECONDS = 30.0
_PACKAGES = ("asyncssh", "pyftpdlib")
_READ_ONLY = "elr"


@dataclass(frozen=True, slots=True)
class Account:
    """A login of a demonstration server and the folder that it sees as its root."""

    password: str = field(repr=False)
    folder: Path


_Start = Callable[[Mapping[str, Account]], int]


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
    return _running(_start_sftp, accounts)


def ftp_server(accounts: Mapping[str, Account]) -> AbstractContextManager[int]:
    """An FTP server; as `sftp_server`."""
    return _running(_start_ftp, accounts)


@contextmanager
def refusing_port() -> Iterator[int]:
    """A port on 127.0.0.1 that refuses connections: bound, so that nobody else gets it, but never listening."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@contextmanager
def _running(start: _Start, accounts: Mapping[str, Account]) -> Iterator[int]:
    process = WorkerProcesses(1, _begin, start, accounts)
    try:
        yield process.submit("a demonstration server", int).result(_START_SECONDS)
    finally:
        process.stop()


def _begin(start: _Start, accounts: Mapping[str, Account]) -> int:
    """Start a server in a thread of this process; returns its port. Raises ConfigurationError."""
    try:
        return start(accounts)
    except Exception as error:
        raise ConfigurationError(f"A demonstration server did not start: {error}. Try again.") from None


def _start_sftp(accounts: Mapping[str, Account]) -> int:
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
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(
        asyncssh.listen("127.0.0.1", 0, server_factory=Logins, server_host_keys=[key], sftp_factory=folder)
    )
    Thread(target=loop.run_forever, daemon=True).start()
    return server.get_port()


def _start_ftp(accounts: Mapping[str, Account]) -> int:
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import FTPHandler
    from pyftpdlib.servers import FTPServer

    class Handler(FTPHandler):  # type: ignore[misc]
        """One login of the server."""

        authorizer = DummyAuthorizer()
        banner = "Demonstration FTP server"

    for name, account in accounts.items():
        Handler.authorizer.add_user(name, account.password, str(account.folder), perm=_READ_ONLY)
    server = FTPServer(("127.0.0.1", 0), Handler)
    # Without a handler, the library would log each login to the terminal.
    logging.getLogger("pyftpdlib").addHandler(logging.NullHandler())
    Thread(target=server.serve_forever, kwargs={"handle_exit": False}, daemon=True).start()
    return int(server.address[1])
