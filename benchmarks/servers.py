"""Servers of the benchmarks' own on loopback, as their packages set them up but for where they and their files are.

OpenSSH's runs for this user, with keys of its own. vsftpd must be started by root, and serves anonymous users.
"""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from pydantic import SecretStr

from benchmarks.circumstances import program
from dcc.sources.base import SourceAddress, SourceProtocol

MARIADB = ("mariadbd", "mariadb-install-db", "mariadb")
BUFFER_POOL_GB = 2
"""Of its memory; docs/operations/mariadb.md asks for half of the machine's, the package's 128 MB are for a laptop."""
_PASSWORD = "benchmark"
_START_SECONDS = 120.0
_STOP_SECONDS = 60.0
_DATA_PORTS = 60


@contextmanager
def running(
    command: Sequence[str], log: Path, answers: Callable[[], bool], environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A server with its output in `log`, from when it `answers` to the end of the block.

    Raises RuntimeError with its log when it does not start.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        end = time.monotonic() + _START_SECONDS
        while not answers():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{command[0]} did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.02)
        yield process
    finally:
        process.terminate()
        process.wait(_STOP_SECONDS)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


def listens(port: int) -> bool:
    """Whether a server accepts connections."""
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == 0


@dataclass(frozen=True, slots=True)
class Folders:
    """No server: file sources are folders of this machine."""

    known_hosts: None = None

    def source(self, centre: str, root: Path) -> SourceAddress:
        """The file source of a centre at `root`."""
        return SourceAddress(0, centre, SourceProtocol.FILE, "localhost", "", SecretStr(""), str(root))


@dataclass(frozen=True, slots=True)
class OpenSsh:
    """A running server: where it is, who logs in with which key, and the known_hosts file that has its host key."""

    port: int
    username: str
    key: Path
    known_hosts: Path

    @property
    def hostname(self) -> str:
        """As `dcc source add --hostname` takes it."""
        return f"127.0.0.1:{self.port}"

    def source(self, centre: str, root: Path) -> SourceAddress:
        """The file source of a centre at `root`."""
        return SourceAddress(
            id=0,
            centre=centre,
            protocol=SourceProtocol.SFTP,
            hostname=self.hostname,
            username=self.username,
            accesskey=SecretStr(f"key:{self.key}"),
            base_path=str(root),
        )

    @property
    def options(self) -> list[str]:
        """What OpenSSH's clients must be told."""
        options = {
            "Port": self.port,
            "IdentityFile": self.key,
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
            "UserKnownHostsFile": self.known_hosts,
            "GlobalKnownHostsFile": "/dev/null",
        }
        return ["-F", "/dev/null", *(f"-o{name}={value}" for name, value in options.items())]

    @property
    def sftp_command(self) -> list[str]:
        """`sftp` with everything but the batch file and the destination."""
        return ["sftp", "-q", *self.options]

    def lftp_open(self, host: str = "127.0.0.1") -> str:
        """What `lftp -c` is told to connect."""
        program_words = " ".join(["ssh", "-a", "-x", *self.options])
        connect = f"set sftp:connect-program '{program_words}'; set cmd:fail-exit yes"
        return f"{connect}; open sftp://{self.username}:none@{host}:{self.port}"


@contextmanager
def openssh_server(folder: Path) -> Iterator[OpenSsh]:
    """Run sshd with its files in `folder`. Raises FileNotFoundError when OpenSSH is not installed."""
    sshd = program("sshd")
    folder.mkdir(mode=0o700, parents=True)
    for name in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    if os.getuid() == 0:
        # sshd insists on this directory when it may change users.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    port = free_port()
    configuration = folder / "sshd_config"
    configuration.write_text(f"""\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder / "host_key"}
AuthorizedKeysFile {folder / "user_key.pub"}
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
StrictModes no
UsePAM no
PidFile none
MaxStartups 100
LogLevel ERROR
Subsystem sftp internal-sftp
""")
    host_key = (folder / "host_key.pub").read_text().split()[:2]
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {' '.join(host_key)}\n")
    with running([sshd, "-D", "-e", "-f", str(configuration)], folder / "log", lambda: listens(port)):
        username = pwd.getpwuid(os.getuid()).pw_name
        yield OpenSsh(port, username, folder / "user_key", folder / "known_hosts")


@dataclass(frozen=True, slots=True)
class Vsftpd:
    """A running server: its port, and those of its data connections."""

    port: int
    data_ports: range


@contextmanager
def vsftpd_server(folder: Path, root: Path) -> Iterator[Vsftpd]:
    """Serve `root` with the server's files in `folder`. Raises FileNotFoundError when vsftpd is not installed."""
    port = free_port()
    first = 20_000 + os.getpid() % 100 * _DATA_PORTS
    data_ports = range(first, first + _DATA_PORTS)
    configuration = configure_vsftpd(folder, root, port, pasv_min_port=data_ports[0], pasv_max_port=data_ports[-1])
    with running([program("vsftpd"), str(configuration)], folder / "log", lambda: listens(port)):
        yield Vsftpd(port, data_ports)


def configure_vsftpd(folder: Path, root: Path, port: int, **more: object) -> Path:
    """Write the configuration of a server of `root` for anonymous users, on a port of 127.0.0.1; returns its file.

    `more` are further options of vsftpd.conf.
    """
    empty = folder / "empty"
    empty.mkdir(parents=True)
    options = {
        "listen": "YES",
        "listen_address": "127.0.0.1",
        "listen_port": port,
        "background": "NO",
        "anonymous_enable": "YES",
        "anon_root": root,
        "anon_world_readable_only": "NO",
        "port_enable": "NO",
        "secure_chroot_dir": empty,
        "seccomp_sandbox": "NO",
        "xferlog_enable": "NO",
        **more,
    }
    configuration = folder / "vsftpd.conf"
    configuration.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    return configuration


class MariaDb:
    """A running server with the user dcc; `client` is the command of its client, which may send files.

    The client finds the server by the options `place`; all others by `port`, on 127.0.0.1.
    """

    def __init__(self, port: int, password: str, *place: str) -> None:
        self.client = ["mariadb", "--no-defaults", "--local-infile=1", "--batch", "--skip-column-names"]
        self.client += [*place, "--user=dcc", f"--password={password}"]
        self._port, self._password = port, password

    def url(self, database: str) -> str:
        """The URL of a database, as settings take it."""
        return f"mysql://dcc:{quote(self._password, safe='')}@127.0.0.1:{self._port}/{database}"

    def query(self, statement: str) -> str:
        """What the client tells of a statement. Raises CalledProcessError when it fails."""
        return subprocess.run([*self.client, "-e", statement], check=True, capture_output=True, text=True).stdout

    def answers(self) -> bool:
        """Whether it can be asked."""
        return subprocess.run([*self.client, "-e", "SELECT 1"], check=False, capture_output=True).returncode == 0


@contextmanager
def mariadb_server(folder: Path) -> Iterator[MariaDb]:
    """A server with its data in `folder`, which is made."""
    (folder / "tmp").mkdir(parents=True)
    user = ["--user=root"] if os.geteuid() == 0 else []
    place = ["--no-defaults", f"--datadir={folder / 'data'}", f"--tmpdir={folder / 'tmp'}", *user]
    install = ["mariadb-install-db", *place, "--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run(install, check=True, capture_output=True)
    (folder / "init.sql").write_text(
        f"CREATE USER IF NOT EXISTS 'dcc'@'%' IDENTIFIED BY '{_PASSWORD}', 'dcc'@'localhost' IDENTIFIED BY "
        f"'{_PASSWORD}';\nGRANT ALL ON *.* TO 'dcc'@'%';\nGRANT ALL ON *.* TO 'dcc'@'localhost';\n"
    )
    server = MariaDb(port := free_port(), _PASSWORD, f"--socket={folder / 'socket'}")
    command = [program("mariadbd"), *place, f"--socket={folder / 'socket'}", f"--port={port}"]
    command += ["--bind-address=127.0.0.1", f"--init-file={folder / 'init.sql'}", f"--pid-file={folder / 'pid'}"]
    command.append(f"--innodb-buffer-pool-size={BUFFER_POOL_GB}G")
    with running(command, folder / "log", server.answers):
        yield server


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """The URL of a Redis server that keeps nothing."""
    folder.mkdir()
    port = free_port()
    command = [program("redis-server"), "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", ""]
    with running(command, folder / "log", lambda: listens(port)):
        yield f"redis://127.0.0.1:{port}/0"
