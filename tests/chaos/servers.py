"""The real file servers of a trial: OpenSSH, vsftpd and vsftpd with TLS, each before a folder of its own.

All ports of a server are known before it starts, data ports of FTP included, so that a proxy can stand before it on
another address of this machine with the same port numbers: then nothing in the conversation has to be rewritten, which
under TLS could not be.
"""

import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dcc.sources.base import SourceAddress
from dcc.sources.protocols import SourceProtocol
from tests.support.installations import folder_address
from tests.support.servers import Authority, FtpServer, SftpServer, Share

DIRECT: Final = "127.0.0.1"
PROXIED: Final = "127.0.0.2"
"""Where a proxy stands before the servers."""

_DATA_PORTS: Final = 30
_PORTS: Final = range(20_000, 32_000, _DATA_PORTS + 1)


@dataclass(frozen=True)
class Served(Share):
    """A folder of a centre that a server serves, through the proxy before it."""

    centre: str = "H"

    @property
    def name(self) -> str:
        return self.root.name

    def through_proxy(self) -> SourceAddress:
        """The file source as an installation reaches it that faults are made for."""
        return self.address(centre=self.centre)

    def at_hand(self) -> SourceAddress:
        return folder_address(self.root, self.centre)


@dataclass(frozen=True)
class Servers:
    """The servers of a trial. Folders below `root` are served by all of them; `ca_file` signs the TLS certificate.

    `listeners` are for a proxy before them, by port: that they are there keeps other trials from these ports.
    """

    root: Path
    ca_file: Path
    sftp: SftpServer
    ftp_ports: tuple[int, ...]
    ftps_ports: tuple[int, ...]
    listeners: dict[int, socket.socket]

    @property
    def ports(self) -> dict[int, bool]:
        """Every port, and whether what goes over it is plain FTP."""
        return {self.sftp.port: False} | dict.fromkeys(self.ftps_ports, False) | dict.fromkeys(self.ftp_ports, True)

    def serve(self, folder: Path) -> list[Served]:
        """New folders below `folder`, which is below `root`: of centre H on SFTP and FTPS, of centre J on FTP."""
        served = []
        for name, centre in (("sftp", "H"), ("ftps", "H"), ("ftp", "J")):
            path = folder / name
            path.mkdir(parents=True)
            for parent in (folder, path):
                parent.chmod(0o755)
            port = {"sftp": self.sftp.port, "ftps": self.ftps_ports[0], "ftp": self.ftp_ports[0]}[name]
            place = {"base_path": f"/{path.relative_to(self.root)}"}
            if name == "sftp":
                place = {"base_path": str(path), **self.sftp.login}
            served.append(Served(path, SourceProtocol(name), f"{PROXIED}:{port}", centre=centre, **place))
        return served


@contextmanager
def running_servers() -> Iterator[Servers]:
    """The servers, for as long as the block lasts. vsftpd needs root."""
    with ExitStack() as stack:
        made = tempfile.TemporaryDirectory(prefix="dcc-chaos-servers-", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(made))
        folder.chmod(0o755)
        root = folder / "served"
        root.mkdir(mode=0o755)
        sftp = stack.enter_context(SftpServer(folder / "sshd"))
        authority = Authority(folder)
        listeners = {sftp.port: stack.enter_context(socket.create_server((PROXIED, sftp.port), backlog=50))}
        ftp_ports, ftps_ports = (_take_ports(stack, listeners) for _ in range(2))
        certificates = {"ftp": (None, ftp_ports), "ftps": (authority.issue(PROXIED), ftps_ports)}
        for name, (certificate, ports) in certificates.items():
            stack.enter_context(FtpServer(folder / name, root, certificate, ports))
        yield Servers(root, authority.ca_file, sftp, ftp_ports, ftps_ports, listeners)


def _take_ports(stack: ExitStack, listeners: dict[int, socket.socket]) -> tuple[int, ...]:
    """A range of ports that nobody listens on, on either address; adds listeners before them, closed with `stack`."""
    for first in _PORTS:
        ports = tuple(range(first, first + _DATA_PORTS + 1))
        with ExitStack() as trial, suppress(OSError):
            taken = {port: trial.enter_context(socket.create_server((PROXIED, port), backlog=50)) for port in ports}
            for port in ports:
                socket.create_server((DIRECT, port)).close()
            stack.push(trial.pop_all())
            listeners.update(taken)
            return ports
    raise RuntimeError(f"There are no free ports for an FTP server between {_PORTS.start} and {_PORTS.stop}.")
