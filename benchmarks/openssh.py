"""A private OpenSSH server on loopback, for this user, with keys of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from dcc.sources.base import SourceAddress, SourceProtocol

_START_SECONDS = 10.0
_SEARCH = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin{os.pathsep}/sbin"


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
    def sftp_command(self) -> list[str]:
        """`sftp` with everything but the batch file and the destination."""
        options = {
            "Port": self.port,
            "IdentityFile": self.key,
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
            "UserKnownHostsFile": self.known_hosts,
            "GlobalKnownHostsFile": "/dev/null",
        }
        return ["sftp", "-q", "-F", "/dev/null", *(f"-o{name}={value}" for name, value in options.items())]

    @property
    def destination(self) -> str:
        """As `sftp` takes it."""
        return f"{self.username}@127.0.0.1"


@contextmanager
def openssh_server(folder: Path) -> Iterator[OpenSsh]:
    """Run sshd with its files in `folder`. Raises FileNotFoundError when OpenSSH is not installed."""
    sshd = shutil.which("sshd", path=_SEARCH)
    if sshd is None:
        raise FileNotFoundError("OpenSSH's server is not installed: as root, apt-get install openssh-server.")
    folder.mkdir(mode=0o700, parents=True)
    for name in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    if os.getuid() == 0:
        # sshd insists on this directory when it may change users.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    port = free_port()
    configuration = folder / "sshd_config"
    configuration.write_text(_configuration(folder, port))
    host_key = (folder / "host_key.pub").read_text().split()[:2]
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {' '.join(host_key)}\n")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([sshd, "-D", "-e", "-f", str(configuration)], stderr=log, stdin=subprocess.DEVNULL)
    try:
        await_port(port, process, folder / "log")
        username = pwd.getpwuid(os.getuid()).pw_name
        yield OpenSsh(port, username, folder / "user_key", folder / "known_hosts")
    finally:
        process.terminate()
        process.wait()


def _configuration(folder: Path, port: int) -> str:
    return f"""\
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
"""


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


def await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server accepts connections. Raises RuntimeError with its log when it does not."""
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError(f"The server did not start: {log.read_text(errors='replace')}")
