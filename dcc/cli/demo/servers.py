"""File servers for the demonstration: real SFTP and FTP servers on loopback, in threads that end with the command."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from dcc.errors import ConfigurationError

if TYPE_CHECKING:
    import asyncssh

_PACKAGES = ("asyncssh", "pyftpdlib")
_READ_ONLY = "elr"

Accounts = Mapping[str, tuple[str, Path]]
"""The password of each user of a server, and the folder that he sees as its root."""


def require_packages() -> None:
    """Check that the servers' packages are installed. Raises ConfigurationError."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"The demonstration needs {' and '.join(missing)}, which are not installed. "
            "Install them with the extra `demo`: pip install 'dcc[demo]'."
        )


@contextmanager
def refusing_port() -> Iterator[int]:
    """A port on 127.0.0.1 that refuses connections: bound, so that nobody else gets it, but never listening."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def serve_sftp(accounts: Accounts) -> int:
    """Start an SFTP server; returns its port on 127.0.0.1."""
    import asyncssh

    class Logins(asyncssh.SSHServer):
        """Accepts the accounts' passwords and nothing else."""

        def password_auth_supported(self) -> bool:
            """Only passwords are accepted."""
            return True

        def validate_password(self, username: str, password: str) -> bool:
            """Whether the account exists and has this password."""
            return username in accounts and accounts[username][0] == password

    def folder(channel: asyncssh.SSHServerChannel[bytes]) -> asyncssh.SFTPServer:
        return asyncssh.SFTPServer(channel, chroot=str(accounts[channel.get_extra_info("username")][1]).encode())

    key = asyncssh.generate_private_key("ssh-ed25519")
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(
        asyncssh.listen("127.0.0.1", 0, server_factory=Logins, server_host_keys=[key], sftp_factory=folder)
    )
    Thread(target=loop.run_forever, daemon=True).start()
    return server.get_port()


def serve_ftp(accounts: Accounts) -> int:
    """Start an FTP server; returns its port on 127.0.0.1."""
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import FTPHandler
    from pyftpdlib.servers import FTPServer

    class Handler(FTPHandler):  # type: ignore[misc]
        """One login of the server."""

        authorizer = DummyAuthorizer()
        banner = "Demonstration FTP server"

    for name, (password, folder) in accounts.items():
        Handler.authorizer.add_user(name, password, str(folder), perm=_READ_ONLY)
    server = FTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, kwargs={"handle_exit": False}, daemon=True).start()
    return int(server.address[1])
