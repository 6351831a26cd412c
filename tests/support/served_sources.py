"""Servers as file sources of an installation, directly or behind a relay that does wrong when told to."""

import contextlib
import queue
import random
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from dcc.cli.demo import submissions
from dcc.naming import Action
from dcc.settings import Settings
from dcc.sources.base import ActionListing, Connection, SourceAddress
from dcc.sources.connect import connect
from dcc.sources.protocols import SourceProtocol
from dcc.tracker.models import ZipLog
from tests.support.asking import column_in
from tests.support.faulty_servers import CuttingProxy, passive_port, shut, start
from tests.support.installations import Folder, Installation, specimens
from tests.support.servers import Authority, Share, add_pinned
from tests.support.web_server import WebServer

_TRANSFERRED = (b"226", b"426", b"451")


def register(installation: Installation, share: Share, centre: str = "H", **changes: Any) -> int:
    """Register a share as a file source of a centre, its host keys pinned; returns its id."""
    return add_pinned(installation.tracker, share.address(centre=centre, **changes))


def list_add(address: SourceAddress, settings: Settings) -> ActionListing:
    with connect(address, settings) as connection:
        return connection.list_action(Action.ADD)


def fetched(connection: Connection, name: str, size: int | None, offset: int = 0, action: Action = Action.ADD) -> bytes:
    received = bytearray()
    connection.fetch(action, name, received.extend, size=size, offset=offset)
    return bytes(received)


def large_archive(stem: str = "2013-10-31.1", size: int = 1_500_000) -> bytes:
    """A valid archive of centre H, of somewhat more than `size` bytes, most of them in an entry that is ignored."""
    return submissions.archive(specimens(stem=stem) | {"noise.bin": random.Random(1).randbytes(size)})


def below(share: Share, name: str) -> Share:
    """A folder of the share as a share of its own."""
    (share.root / name).mkdir()
    return replace(share, root=share.root / name, base_path=f"{share.base_path}/{name}")


def put_many(share: Share, centre: str, number: int) -> list[str]:
    """Put good archives of a centre there; their keys."""
    stems = [f"2013-10-31.{inc}" for inc in range(number)]
    keys = [f"add/{centre}.{stem}.impc.zip" for stem in stems]
    for key, stem in zip(keys, stems, strict=True):
        share.put(key, submissions.archive(specimens(centre, stem)))
    return keys


def logged(installation: Installation) -> list[str]:
    """What `zip_log` says, oldest first."""
    return column_in(installation.tracker, select(ZipLog.message).order_by(ZipLog.id))


@pytest.fixture
def quick(installation: Installation, authority: Authority) -> Installation:
    """The installation with a short time limit for who is silent, which trusts the FTPS server's authority."""
    return installation.with_settings(
        connect_timeout=20.0, login_timeout=20.0, idle_timeout=2.0, tls_ca_file=authority.ca_file
    )


@pytest.fixture(params=["sftp_server", "ftp_server"])
def share(request: pytest.FixtureRequest) -> Share:
    """A folder on OpenSSH, and on vsftpd; by indirect parameters one on other servers, or of this machine."""
    found: Share = request.getfixturevalue(request.param)
    return found


@dataclass
class Web:
    """A web server, and the folder that it serves as a share."""

    server: WebServer
    share: Share

    def register(self, installation: Installation) -> Folder:
        """The folder as a file source of centre H."""
        return Folder(self.share.root, register(installation, self.share))

    def archive_requests(self) -> list[dict[str, str]]:
        """The headers of each request for an archive's bytes, oldest first."""
        return [headers for method, path, headers in self.server.requests if method == "GET" and path.endswith(".zip")]


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    root = tmp_path / "web"
    root.mkdir()
    with WebServer(root) as server:
        yield Web(server, Share(root, SourceProtocol.HTTP, server.hostname, "", "", "/"))


@pytest.fixture
def web_folder(web: Web) -> Share:
    """A folder that a web server serves."""
    return web.share


class Relay(CuttingProxy):
    """A proxy before the server of a share; `share` leads through it.

    Before an FTP server its faults are those of data connections, of which the client is told addresses as behind NAT:
    a host that cannot be reached, and a port of the relay. One that is cut takes its control connection with it, as
    when the server dies.
    """

    def __init__(self, share: Share, **faults: Any) -> None:
        super().__init__(share.hostname, **faults)
        self.share = replace(share, hostname=self.hostname)

    def cut_all(self) -> None:
        """End all connections, as when the server is killed."""
        for connection in self._sockets:
            shut(connection)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        if self.share.protocol is SourceProtocol.FTP:
            self._control(server, client)
        else:
            self._pass_on(server, client)

    def _control(self, server: socket.socket, client: socket.socket) -> None:
        """Pass on the answers of an FTP server, whose data connections are led here."""
        transfers: queue.SimpleQueue[bool] = queue.SimpleQueue()
        with contextlib.suppress(OSError), server.makefile("rb") as lines:
            for line in lines:
                port = passive_port(line)
                if port is None:
                    # It may be said before the relay has passed on, or cut, what was sent.
                    if line.startswith(_TRANSFERRED) and not transfers.get(timeout=10):
                        break
                    client.sendall(line)
                    continue
                listener = socket.create_server(("127.0.0.1", 0))
                self._sockets.append(listener)
                start(self._accept_data, listener, port, transfers)
                high, low = divmod(listener.getsockname()[1], 256)
                client.sendall(f"227 Entering Passive Mode (192,0,2,1,{high},{low}).\r\n".encode())
        shut(client)

    def _accept_data(self, listener: socket.socket, port: int, transfers: queue.SimpleQueue[bool]) -> None:
        def answer(server: socket.socket, client: socket.socket) -> None:
            transfers.put(self._pass_on(server, client))

        with contextlib.suppress(OSError):
            client, _ = listener.accept()
            self._join(client, ("127.0.0.1", port), answer)
        shut(listener)
