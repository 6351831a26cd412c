"""File servers for the demonstration: real SFTP and FTP servers on loopback, each a process of its own.

A server reads its accounts as one line of JSON from standard input and prints its port as the first line of standard
output. It ends when its standard input is closed, so that it never outlives the process that started it.
"""

from __future__ import annotations

import importlib.util
import json
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from dcc.errors import ConfigurationError

_START_SECONDS = 30.0
_STOP_SECONDS = 3.0
_PACKAGES = ("asyncssh", "pyftpdlib")


@dataclass(frozen=True, slots=True)
class Account:
    """A login of a demonstration server and the folder that it sees as its root."""

    password: str
    folder: Path


def read_accounts() -> dict[str, Account]:
    """The accounts by user name, from standard input; on the server's side."""
    accounts = json.loads(sys.stdin.readline())
    return {name: Account(password, Path(folder)) for name, (password, folder) in accounts.items()}


def announce(port: int) -> None:
    """Print the port on standard output; on the server's side."""
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()


def require_packages() -> None:
    """Check that the servers' packages are installed. Raises ConfigurationError."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"The demonstration needs {' and '.join(missing)}, which are not installed. "
            "Install them with the extra `demo`: pip install 'dcc[demo]'."
        )


@contextmanager
def running(module: str, accounts: Mapping[str, Account], log: Path) -> Iterator[int]:
    """Run the server `module` for `accounts`; yields its port on 127.0.0.1.

    `log` receives the server's standard error. Raises ConfigurationError if it does not start.
    """
    with (
        log.open("ab") as errors,
        subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        ) as process,
    ):
        try:
            _give_accounts(process, accounts)
            yield _port(process, module, log)
        finally:
            _stop(process)


@contextmanager
def refusing_port() -> Iterator[int]:
    """A port on 127.0.0.1 that refuses connections: bound, so that nobody else gets it, but never listening."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def _give_accounts(process: subprocess.Popen[bytes], accounts: Mapping[str, Account]) -> None:
    plain = {name: (account.password, str(account.folder)) for name, account in accounts.items()}
    accounts_input = cast(IO[bytes], process.stdin)
    with suppress(BrokenPipeError):
        accounts_input.write(json.dumps(plain).encode() + b"\n")
        accounts_input.flush()


def _port(process: subprocess.Popen[bytes], module: str, log: Path) -> int:
    answer = cast(IO[bytes], process.stdout)
    ready, _, _ = select.select([answer], [], [], _START_SECONDS)
    line = answer.readline() if ready else b""
    if not line.strip().isdigit():
        raise ConfigurationError(f"The demonstration server {module} did not start: {log} says why.")
    return int(line)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop the server: by closing its input, and if that is not enough by force."""
    with suppress(BrokenPipeError):
        cast(IO[bytes], process.stdin).close()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
