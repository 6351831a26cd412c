"""A MariaDB server of the benchmark's own, as its package sets it up but for where it is and its buffer pool."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SERVER = ("mariadbd", "mariadb-install-db", "mariadb")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
_PASSWORD = "benchmark"
_START_SECONDS = 60
_STOP_SECONDS = 30
BUFFER_POOL_GB = 2
"""Of its memory; docs/operations/mariadb.md asks for half of the machine's, the package's 128 MB are for a laptop."""


class MariaDb:
    """A running server; `client` is the command of its client, which may send files."""

    def __init__(self, folder: Path, port: int) -> None:
        self.client = ["mariadb", "--no-defaults", "--local-infile=1", "--batch", "--skip-column-names"]
        self.client += [f"--socket={folder / 'socket'}", "--user=dcc", f"--password={_PASSWORD}"]
        self._port = port

    def url(self, database: str) -> str:
        """The URL of a database, as settings take it."""
        return f"mysql://dcc:{_PASSWORD}@127.0.0.1:{self._port}/{database}"

    def query(self, statement: str) -> str:
        """What the client tells of a statement. Raises CalledProcessError when it fails."""
        return subprocess.run([*self.client, "-e", statement], check=True, capture_output=True, text=True).stdout


def installed(commands: Sequence[str] = SERVER) -> bool:
    """Whether the server and its client are there."""
    return all(shutil.which(command, path=_PATH) for command in commands)


@contextmanager
def mariadb_server(folder: Path) -> Iterator[MariaDb]:
    """A server with its data in `folder`, which is made."""
    folder.mkdir(parents=True)
    (folder / "tmp").mkdir()
    user = ["--user=root"] if os.geteuid() == 0 else []
    place = ["--no-defaults", f"--datadir={folder / 'data'}", f"--tmpdir={folder / 'tmp'}", *user]
    install = ["mariadb-install-db", *place, "--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run(install, check=True, capture_output=True)
    (folder / "init.sql").write_text(
        f"CREATE USER IF NOT EXISTS 'dcc'@'%' IDENTIFIED BY '{_PASSWORD}', 'dcc'@'localhost' IDENTIFIED BY "
        f"'{_PASSWORD}';\nGRANT ALL ON *.* TO 'dcc'@'%';\nGRANT ALL ON *.* TO 'dcc'@'localhost';\n"
    )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [str(shutil.which("mariadbd", path=_PATH)), *place, f"--socket={folder / 'socket'}", f"--port={port}"]
    command += ["--bind-address=127.0.0.1", f"--init-file={folder / 'init.sql'}", f"--pid-file={folder / 'pid'}"]
    command.append(f"--innodb-buffer-pool-size={BUFFER_POOL_GB}G")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=(folder / "log").open("wb"))
    try:
        server = MariaDb(folder, port)
        _await(server, process, folder / "log")
        yield server
    finally:
        process.terminate()
        process.wait(_STOP_SECONDS)


def _await(server: MariaDb, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            server.query("SELECT 1")
        except subprocess.CalledProcessError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"mariadbd did not start:\n{log.read_text(errors='replace')[-2000:]}") from None
            time.sleep(0.1)
        else:
            return
