"""Servers as file sources of an installation, directly or behind a relay that does wrong when told to."""

from __future__ import annotations

import contextlib
import queue
import random
import re
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from sqlalchemy import select

from dcc.cli.demo import submissions
from dcc.sources.base import SourceProtocol
from dcc.sources.host_keys import HostKey
from dcc.tracker.database import writing
from dcc.tracker.models import ZipLog
from dcc.tracker.register import file_sources
from tests.support.installations import Installation, specimens
from tests.support.servers import Authority, Share
from tests.support.web_server import WebServer

_BLOCK = 16 * 1024
_PASSIVE = re.compile(rb"227 [^(]*\((?:\d+,){4}(\d+),(\d+)\)")

_TRANSFERRED = (b"226", b"426", b"451")


def register(installation: Installation, share: Share, centre: str = "H", **changes: Any) -> int:
    """Register a share as a file source of a centre, its host keys pinned; returns its id."""
    address = share.address(centre=centre, **changes)
    keys = [HostKey.parse(line) for line in address.host_keys]
    with writing(installation.tracker) as connection:
        return file_sources.add_source(connection, address, keys)


def large_archive(stem: str = "2013-10-31.1", size: int = 1_500_000, seed: int = 1) -> bytes:
    """A valid archive of centre H, of somewhat more than `size` bytes, most of them in an entry that is ignored."""
    return submissions.archive(specimens(stem=stem) | {"noise.bin": random.Random(seed).randbytes(size)})


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
    with installation.tracker.connect() as connection:
        return list(connection.scalars(select(ZipLog.message).order_by(ZipLog.id)))


@pytest.fixture
def quick(installation: Installation, authority: Authority) -> Installation:
    """The installation with a short time limit for who is silent, which trusts the FTPS server's authority."""
    return installation.with_settings(
        connect_timeout=20.0, login_timeout=20.0, idle_timeout=2.0, tls_ca_file=authority.ca_file
    )


@pytest.fixture(params=["sftp_server", "ftp_server"])
def share(request: pytest.FixtureRequest) -> Share:
    """A folder on OpenSSH, and on vsftpd."""
    found: Share = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def web_folder(tmp_path: Path) -> Iterator[Share]:
    """A folder that a web server serves."""
    root = tmp_path / "web"
    (root / "add").mkdir(parents=True)
    with WebServer(root) as server:
        yield Share(root, SourceProtocol.HTTP, f"127.0.0.1:{server.port}", "", "", "/")


class Relay:
    """A TCP relay before the server of a share, with faults in what the server sends; `share` leads through it.

    All of it can be changed while it runs. `cut_after`: a connection ends when the server has sent so many bytes,
    `cuts` times (None: always). `stall_after`: nothing of what follows is passed on. `flip_at`: a bit of that byte is
    turned, `flips` times (None: always). `down`: connections end at once. `target` is the server's `host:port`. `sent`
    counts what was passed on from the server.

    Before an FTP server all this is about data connections, of which the client is told addresses as behind NAT: a
    host that cannot be reached, and a port of the relay. One that is cut takes its control connection with it, as when
    the server dies.
    """

    def __init__(self, share: Share, **faults: Any) -> None:
        self.target = share.hostname
        self.cut_after: int | None = None
        self.cuts: int | None = None
        self.stall_after: int | None = None
        self.flip_at: int | None = None
        self.flips: int | None = None
        self.down = False
        self.sent = 0
        vars(self).update(faults)
        self._ftp = share.protocol is SourceProtocol.FTP
        self._closed = threading.Event()
        self._sockets: list[socket.socket] = []
        self._listener = self._listen()
        self.share = replace(share, hostname=f"127.0.0.1:{self._listener.getsockname()[1]}")

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        _shut(self._listener)
        self.cut_all()

    def cut_all(self) -> None:
        """End all connections, as when the server is killed."""
        for connection in self._sockets:
            if connection is not self._listener:
                _shut(connection)

    def _listen(self) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", 0))
        self._sockets.append(listener)
        return listener

    @staticmethod
    def _start(work: Callable[..., object], *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.down:
                    _shut(client)
                    continue
                host, _, port = self.target.rpartition(":")
                self._join(client, (host, int(port)), self._control if self._ftp else self._data)

    def _join(self, client: socket.socket, target: tuple[str, int], answer: Callable[..., object]) -> None:
        self._sockets.append(client)
        try:
            server = socket.create_connection(target, timeout=10)
        except OSError:
            _shut(client)
            return
        server.settimeout(None)
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sockets.append(server)
        self._start(self._forward, client, server)
        self._start(answer, server, client)

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while block := client.recv(_BLOCK):
                server.sendall(block)
        _shut(server)

    def _control(self, server: socket.socket, client: socket.socket) -> None:
        """Pass on the answers of an FTP server, whose data connections are led here."""
        transfers: queue.SimpleQueue[bool] = queue.SimpleQueue()
        with contextlib.suppress(OSError), server.makefile("rb") as lines:
            for line in lines:
                found = _PASSIVE.match(line)
                if found is None:
                    # It may be said before the relay has passed on, or cut, what was sent.
                    if line.startswith(_TRANSFERRED) and not transfers.get(timeout=10):
                        break
                    client.sendall(line)
                    continue
                listener = self._listen()
                self._start(self._accept_data, listener, 256 * int(found[1]) + int(found[2]), transfers)
                high, low = divmod(listener.getsockname()[1], 256)
                client.sendall(f"227 Entering Passive Mode (192,0,2,1,{high},{low}).\r\n".encode())
        _shut(client)

    def _accept_data(self, listener: socket.socket, port: int, transfers: queue.SimpleQueue[bool]) -> None:
        def answer(server: socket.socket, client: socket.socket) -> None:
            transfers.put(self._data(server, client))

        with contextlib.suppress(OSError):
            client, _ = listener.accept()
            self._join(client, ("127.0.0.1", port), answer)
        _shut(listener)

    def _data(self, server: socket.socket, client: socket.socket) -> bool:
        """Pass on what the server sends; whether it was all of it."""
        sent, whole = 0, True
        with contextlib.suppress(OSError):
            while block := server.recv(_BLOCK):
                if self.stall_after is not None and sent + len(block) > self.stall_after:
                    self._closed.wait()
                    break
                if self.flip_at is not None and self.flips != 0 and sent <= self.flip_at < sent + len(block):
                    self.flips = None if self.flips is None else self.flips - 1
                    place = self.flip_at - sent
                    block = block[:place] + bytes([block[place] ^ 1]) + block[place + 1 :]
                if self._cuts(sent + len(block)):
                    whole = False
                    break
                client.sendall(block)
                sent += len(block)
                self.sent += len(block)
        with contextlib.suppress(OSError):
            # No more than that: to close it would take back what the client has not read yet.
            client.shutdown(socket.SHUT_WR)
        _shut(server)
        return whole

    def _cuts(self, sent: int) -> bool:
        if self.cut_after is None or sent <= self.cut_after or self.cuts == 0:
            return False
        if self.cuts is not None:
            self.cuts -= 1
        return True


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
