"""Real servers on loopback, as their packages set them up but for where they and their files are; tests have them too.

Each runs in the foreground from when it is made until its block ends or `stop`, and raises RuntimeError with its log
when it does not start. OpenSSH's runs for this user, with keys of its own. vsftpd must be started by root, and serves
anonymous users.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pymysql
from pydantic import SecretStr
from sqlalchemy import URL

from benchmarks.circumstances import program
from dcc.sources.base import SourceAddress
from dcc.sources.protocols import SourceProtocol

LOOPBACK = "127.0.0.1"
MARIADB = ("mariadbd", "mariadb-install-db", "mariadb")
BUFFER_POOL_GB = 2
"""Of its memory; docs/operations/mariadb.md asks for half of the machine's, the package's 128 MB are for a laptop."""
_START_SECONDS = 120.0
_STOP_SECONDS = 20.0
_KEYS = ("ed25519", "ecdsa", "rsa")


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on."""
    with socket.create_server((LOOPBACK, 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


class ServerProcess:
    """A server at a port, with all that it starts and its output in `log`.

    It has started when it `answers`; without that, when it takes connections.
    """

    def __init__(
        self,
        command: Sequence[str],
        port: int,
        log: Path,
        answers: Callable[[], bool] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.port = port
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        deadline = time.monotonic() + _START_SECONDS
        while not (answers or self._listens)():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"{command[0]} did not start: {log.read_text(errors='replace')[-4000:]}")
            time.sleep(0.02)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def hostname(self) -> str:
        """`host:port`, as `dcc source add --hostname` takes it."""
        return f"{LOOPBACK}:{self.port}"

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End the server and the processes of its sessions, which are killed in the end if they do not heed `how`."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_STOP_SECONDS)
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _listens(self) -> bool:
        with socket.socket() as trial:
            return trial.connect_ex((LOOPBACK, self.port)) == 0


@dataclass(frozen=True, slots=True)
class Folders:
    """No server: file sources are folders of this machine."""

    known_hosts: None = None

    def source(self, centre: str, root: Path) -> SourceAddress:
        """The file source of a centre at `root`."""
        return SourceAddress(0, centre, SourceProtocol.FILE, "localhost", "", SecretStr(""), str(root))


class OpenSsh(ServerProcess):
    """OpenSSH's sshd, with SFTP alone, for the current user by `key`; `known_hosts` is a file with its first host key.

    Further keys are made by `new_key`; each can have a directory of its own in which its sessions begin. `options` are
    further lines of its configuration.
    """

    def __init__(self, folder: Path, *options: str, port: int | None = None) -> None:
        folder.mkdir(exist_ok=True, parents=True)
        self.folder = folder
        self.username = pwd.getpwuid(os.getuid()).pw_name
        self.host_keys = tuple(_generate_key(folder / f"host_{kind}", kind) for kind in _KEYS)
        self._authorized = folder / "authorized_keys"
        self._authorized.touch(mode=0o600)
        self._count = 0
        self.key = self.new_key()
        port = port or free_port()
        self.known_hosts = folder / "known_hosts"
        self.known_hosts.write_text(f"[{LOOPBACK}]:{port} {self.host_keys[0]}\n")
        lines = [
            f"Port {port}",
            f"ListenAddress {LOOPBACK}",
            *(f"HostKey {folder / f'host_{kind}'}" for kind in _KEYS),
            f"AuthorizedKeysFile {self._authorized}",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin yes",
            "PidFile none",
            "MaxStartups 100",
            "MaxSessions 100",
            "Subsystem sftp internal-sftp",
            *options,
        ]
        configuration = folder / "sshd_config"
        configuration.write_text("\n".join(lines) + "\n")
        if os.geteuid() == 0:
            # sshd insists on this directory when it may change users.
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        super().__init__([program("sshd"), "-D", "-e", "-f", str(configuration)], port, folder / "log")

    def new_key(self, kind: str = "ed25519", passphrase: str = "", start: Path | None = None) -> Path:
        """Make and authorise a private key; `start` is the directory in which its sessions begin."""
        self._count += 1
        path = self.folder / f"key_{self._count}"
        public = _generate_key(path, kind, passphrase)
        prefix = "" if start is None else f'command="internal-sftp -d {start}" '
        with self._authorized.open("a") as file:
            file.write(f"{prefix}{public}\n")
        return path

    @property
    def login(self) -> dict[str, Any]:
        """The user, the access key and the host keys of its file sources."""
        return {"username": self.username, "accesskey": f"key:{self.key}", "host_keys": self.host_keys}

    def source(self, centre: str, root: Path) -> SourceAddress:
        """The file source of a centre at `root`."""
        key = SecretStr(f"key:{self.key}")
        return SourceAddress(0, centre, SourceProtocol.SFTP, self.hostname, self.username, key, str(root))

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

    def lftp_open(self, host: str = LOOPBACK) -> str:
        """What `lftp -c` is told to connect."""
        program_words = " ".join(["ssh", "-a", "-x", *self.options])
        connect = f"set sftp:connect-program '{program_words}'; set cmd:fail-exit yes"
        return f"{connect}; open sftp://{self.username}:none@{host}:{self.port}"


def _generate_key(path: Path, kind: str, passphrase: str = "") -> str:
    """Make a key pair, unless it is there; the public one, as `<type> <base64>`."""
    bits = ["-b", "2048"] if kind == "rsa" else []
    if not path.exists():
        made = [program("ssh-keygen"), "-q", "-t", kind, *bits, "-a", "1", "-N", passphrase, "-f", str(path)]
        subprocess.run(made, check=True)
    return " ".join(path.with_name(f"{path.name}.pub").read_text().split()[:2])


class Vsftpd(ServerProcess):
    """vsftpd, for anonymous users alone, below `root`: with others it would need the machine's own accounts.

    With `certificate` (a file with key and certificate) it also speaks explicit TLS, and insists that data connections
    take up the session of the control connection. `ports` are its own and those of data connections; by default the
    latter are left to the machine.
    """

    def __init__(
        self, folder: Path, root: Path, certificate: Path | None = None, ports: Sequence[int] | None = None
    ) -> None:
        empty = folder / "empty"
        empty.mkdir(parents=True)
        port, *data_ports = ports or [free_port()]
        options: dict[str, object] = {
            "listen": "YES",
            "listen_address": LOOPBACK,
            "listen_port": port,
            "background": "NO",
            "anonymous_enable": "YES",
            "anon_root": root,
            "anon_world_readable_only": "NO",
            "port_enable": "NO",
            "secure_chroot_dir": empty,
            "seccomp_sandbox": "NO",
            "xferlog_enable": "NO",
        }
        if data_ports:
            options |= {"pasv_min_port": data_ports[0], "pasv_max_port": data_ports[-1]}
        if certificate is not None:
            options |= {
                "ssl_enable": "YES",
                "allow_anon_ssl": "YES",
                "force_anon_logins_ssl": "YES",
                "force_anon_data_ssl": "YES",
                "require_ssl_reuse": "YES",
                "ssl_ciphers": "HIGH",
                "rsa_cert_file": certificate,
            }
        configuration = folder / "vsftpd.conf"
        configuration.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
        super().__init__([program("vsftpd"), str(configuration)], port, folder / "log")

    def source(self, centre: str) -> SourceAddress:
        """The file source of a centre at its root."""
        return SourceAddress(0, centre, SourceProtocol.FTP, self.hostname, "anonymous", SecretStr("benchmark"), "/")


class MariaDb:
    """A MariaDB server on a port of 127.0.0.1, with its data below `home`, and the user dcc, who may do everything."""

    password = "benchmark"
    options: ClassVar[Sequence[str]] = (f"--innodb-buffer-pool-size={BUFFER_POOL_GB}G",)

    def __init__(self, home: Path, port: int | None = None) -> None:
        self.home, self.port = home, port or free_port()
        self._server: ServerProcess | None = None
        # One of its own, because a server that starts removes what others have in the one they share.
        (home / "tmp").mkdir(parents=True)
        user = ["--user=root"] if os.geteuid() == 0 else []
        self._place = ["--no-defaults", f"--datadir={home / 'data'}", f"--tmpdir={home / 'tmp'}", *user]
        install = [program("mariadb-install-db"), *self._place, "--auth-root-authentication-method=normal"]
        (home / "init.sql").write_text(
            "SET NAMES utf8mb4;\n"
            + "".join(
                f"CREATE USER IF NOT EXISTS 'dcc'@'{host}' IDENTIFIED BY '{self.password}';\n"
                f"GRANT ALL ON *.* TO 'dcc'@'{host}';\n"
                for host in (LOOPBACK, "localhost")
            ),
            encoding="utf-8",
        )
        try:
            subprocess.run([*install, "--skip-test-db", "--skip-name-resolve"], check=True, capture_output=True)
            self.start()
        except BaseException:
            self.remove()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        command = [program("mariadbd"), *self._place, *self.options, f"--bind-address={LOOPBACK}"]
        command += [f"--socket={self.home / 'socket'}", f"--pid-file={self.home / 'pid'}", f"--port={self.port}"]
        command += [f"--init-file={self.home / 'init.sql'}", "--skip-name-resolve"]
        # Killed with this process, however that ends.
        guard = [setpriv, "--pdeathsig", "KILL"] if (setpriv := shutil.which("setpriv")) else []
        self._server = ServerProcess([*guard, *command], self.port, self.home / "log", self._answers)

    def _answers(self) -> bool:
        try:
            self.query("SELECT 1")
        except pymysql.MySQLError:
            return False
        return True

    def kill(self) -> None:
        """Kill the server as a crash would."""
        self.stop(signal.SIGKILL)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Shut the server down; `start` has it serve the same data again."""
        if self._server is not None:
            self._server.stop(how)
            self._server = None

    def remove(self) -> None:
        """Stop the server and remove its data."""
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    @property
    def client(self) -> list[str]:
        """The command of its client, which may send files."""
        command = ["mariadb", "--no-defaults", "--local-infile=1", "--batch", "--skip-column-names"]
        return [*command, f"--socket={self.home / 'socket'}", "--user=dcc", f"--password={self.password}"]

    def connect(self, database: str | None = None) -> pymysql.Connection[Any]:
        """A connection as a user of the server would have it."""
        return pymysql.connect(
            host=LOOPBACK,
            port=self.port,
            user="dcc",
            password=self.password.encode(),
            database=database,
            charset="utf8mb4",
            ssl_disabled=True,
        )

    def query(self, statement: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run one statement; its rows."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            rows = list(cursor.fetchall())
            connection.commit()
            return rows

    def url(self, database: str) -> str:
        """The URL of a database, with the password, as settings take it."""
        address = URL.create("mysql", "dcc", self.password, LOOPBACK, self.port, database)
        return address.render_as_string(hide_password=False)
