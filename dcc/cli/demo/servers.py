"""File servers for the demonstration: real SFTP and FTP servers on loopback, each a process of its own.

A server reads its accounts from standard input, prints its port, and ends when its input is closed: it never outlives
the demonstration.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import select
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, field
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from dcc.errors import ConfigurationError

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


@contextmanager
def _running(kind: str, accounts: Mapping[str, Account]) -> Iterator[int]:
    """A server for accounts by user name, until the end of the block; gives its port on 127.0.0.1.

    Raises ConfigurationError if it does not start.
    """
    command = [sys.executable, "-m", "dcc.cli.demo.servers", kind]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing, text=True) as server:
        assert server.stdin is not None and server.stdout is not None  # noqa: S101, PT018 - for the type checker
        try:
            with suppress(BrokenPipeError):
                plain = {name: astuple(account) for name, account in accounts.items()}
                server.stdin.write(json.dumps(plain, default=str) + "\n")
                server.stdin.flush()
            ready, _, _ = select.select([server.stdout], [], [], _START_SECONDS)
            answer = server.stdout.readline().strip() if ready else f"no answer in {_START_SECONDS:g} seconds"
            if not answer.isdigit():
                raise ConfigurationError(f"A demonstration server did not start: {answer or 'it ended'}. Try again.")
            yield int(answer)
        finally:
            server.kill()


sftp_server = partial(_running, "sftp")
"""An SFTP server: see `_running`."""

ftp_server = partial(_running, "ftp")
"""An FTP server: see `_running`."""


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
    Thread(target=server.serve_forever, kwargs={"handle_exit": False}, daemon=True).start()
    return int(server.address[1])


def _serve(start: Callable[[Mapping[str, Account]], int]) -> None:
    """Serve in this process until its input is closed."""
    accounts = {name: Account(password, Path(folder)) for name, (password, folder) in json.loads(input()).items()}
    try:
        answer = str(start(accounts))
    except Exception as error:
        answer = str(error)
    sys.stdout.write(f"{answer}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    _serve({"sftp": _start_sftp, "ftp": _start_ftp}[sys.argv[1]])
