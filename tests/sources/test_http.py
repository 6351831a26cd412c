"""File sources on web servers, against a real server over loopback."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from dcc.errors import (
    CertificateRefusedError,
    DiskFullError,
    FileMissingError,
    FileNotReadableError,
    ListingFailedError,
    LoginRefusedError,
    SourceError,
    SourceMisconfiguredError,
    SourceTimeoutError,
    SourceUnreachableError,
    TransferFailedError,
)
from dcc.naming import Action
from dcc.redaction import redacted
from dcc.reports.languages import load_catalogue
from dcc.settings import Settings
from dcc.sources.base import SourceAddress
from dcc.sources.connect import connect
from dcc.sources.http.source import HttpConnection
from dcc.sources.protocols import SourceProtocol
from tests.support import web_server
from tests.support.installations import MODIFIED, Folder
from tests.support.raising import raising
from tests.support.servers import Authority
from tests.support.talking_servers import repeating, serving
from tests.support.trials import MANY
from tests.support.web_server import IndexStyle, WebServer

NAME = "H.2013-10-31.1.impc.zip"
PASSWORD = "p@ss:wörd/é"
CONTENT = bytes(range(256)) * 4_000

Opener = Callable[..., HttpConnection]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    root = tmp_path / "web" / "data"
    root.mkdir(parents=True)
    return Folder(root)


@pytest.fixture
def server(folder: Folder) -> Iterator[WebServer]:
    with WebServer(folder.path.parent) as running:
        yield running


def address(server: WebServer, **changes: Any) -> SourceAddress:
    username = "" if server.password is None else server.username
    password = SecretStr(server.password or "")
    return replace(SourceAddress(3, "H", SourceProtocol.HTTP, server.hostname, username, password, "data"), **changes)


def limits(tmp_path: Path, **changes: object) -> Settings:
    values: dict[str, Any] = {"home": tmp_path / "home", "connect_timeout": 5, "login_timeout": 5}
    return Settings(**(values | {"list_timeout": 10, "idle_timeout": 5} | changes))


@pytest.fixture
def opened(server: WebServer, tmp_path: Path) -> Iterator[Opener]:
    """Opens a connection to the server, with changes to the limits; closed after the test."""
    made: list[HttpConnection] = []

    def open_it(**changes: object) -> HttpConnection:
        connection = connect(address(server), limits(tmp_path, **changes))
        assert isinstance(connection, HttpConnection)
        made.append(connection)
        return connection

    yield open_it
    for connection in made:
        connection.close()


def fetched(connection: HttpConnection, name: str = NAME, **how: Any) -> bytes:
    received = bytearray()
    connection.fetch(Action.ADD, name, received.extend, **({"size": len(CONTENT)} | how))
    return bytes(received)


STYLES = [web_server.python_index, web_server.apache_index, web_server.nginx_index]


@pytest.mark.parametrize("style", STYLES)
def test_archives_are_listed_with_size_time_and_checksum(
    folder: Folder, server: WebServer, opened: Opener, style: IndexStyle
) -> None:
    server.index = style
    folder.put(f"add/{NAME}", CONTENT)
    folder.put(f"add/{NAME}.md5", b"0" * 32)
    folder.put("add/H.2013-10-31.2.impc.zip", b"short", MODIFIED + 1)
    folder.put("add/notes.txt", b"notes")
    (folder.path / "add" / "old.zip").mkdir()
    (folder.path / "edit").mkdir()
    connection = opened()
    listing = connection.list_action(Action.ADD)
    assert [(f.name, f.size_bytes, f.modified, f.has_md5) for f in listing.zips] == [
        (NAME, len(CONTENT), MODIFIED, True),
        ("H.2013-10-31.2.impc.zip", 5, MODIFIED + 1, False),
    ]
    assert listing.ignored_examples == (("notes.txt", "not an archive"), ("old.zip", "a directory"))
    # An empty directory is not a missing one.
    assert (connection.list_action(Action.EDIT).zips, connection.list_action(Action.EDIT).missing) == ((), False)
    assert connection.list_action(Action.DELETE).missing


def test_links_out_of_the_directory_are_left_aside(folder: Folder, server: WebServer, opened: Opener) -> None:
    folder.put(f"add/{NAME}", CONTENT)
    page = f"""<html><head><title>Index of /data/add/</title></head><body><pre>
        <a href="http://127.0.0.1:1/data/add/elsewhere.zip">x</a> <a href="//evil.example/data/add/evil.zip">x</a>
        <a href="../edit/other.zip">x</a> <a href="/data/add/sub/deep.zip">x</a> <a href="/top.zip">x</a>
        <a href="/data/add/..%2f..%2fescape.zip">x</a> <a href="%2e%2e">x</a> <a href="ftp://h/a.zip">x</a>
        <a href="{NAME}">x</a> <a href="/data/add/{NAME}">again</a> <a href="./{NAME}#part">again</a>
        <a href="javascript:alert(1)">x</a> <a href="http://[">x</a> <a href="?C=N">x</a> <a href="{NAME}?sort">x</a>
        <a name="nothing">x</a></pre></body></html>"""
    server.pages["/data/add/"] = (200, {"Content-Type": "text/html"}, page.encode())
    listing = opened().list_action(Action.ADD)
    assert [file.name for file in listing.zips] == [NAME]
    assert listing.ignored_examples == (("../../escape.zip", "no name that a file can have"),)


@pytest.mark.parametrize(
    ("status", "kind", "body", "reason", "in_german"),
    [
        (
            200,
            "text/html",
            b"<html><title>Welcome</title><a href='/'>Home</a><a href='x.html'>x</a></html>",
            "index",
            "die kein Verzeichnis auflistet",
        ),
        (200, "text/html", b"\x00\xff\xfe garbage \x80" * 500, "index", "die kein Verzeichnis auflistet"),
        (200, "text/html", b"", "empty", "mit einer leeren Seite"),
        (200, "application/zip", b"PK\x03\x04", "application/zip", "nicht mit einer Verzeichnisseite"),
        (500, "text/html", b"<html>oops</html>", "500 Internal Server Error", "500 Internal Server Error"),
        (302, "text/html", b"", "where to", "ohne zu sagen, wohin"),
    ],
)
def test_a_page_that_is_no_index_fails_the_listing_and_passes_for_no_empty_directory(
    folder: Folder,
    server: WebServer,
    opened: Opener,
    status: int,
    kind: str,
    body: bytes,
    reason: str,
    in_german: str,
) -> None:
    server.pages["/data/add/"] = (status, {"Content-Type": kind}, body)
    with pytest.raises(ListingFailedError, match=reason) as failure:
        opened().list_action(Action.ADD)
    assert in_german in load_catalogue("de", Settings()).tell(failure.value.translatable)


def test_very_many_entries_are_a_normal_listing(
    server: WebServer, folder: Folder, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcc.sources.http.source.MAX_ASKED", 1)
    names = [f"H.2013-10-31.{inc}.impc.zip" for inc in range(MANY)]
    page = web_server.apache_index("/data/add/", [(name, False) for name in names])
    server.pages["/data/add/"] = (200, {"Content-Type": "text/html"}, page.encode())
    connection = opened()
    began = time.process_time()
    assert len(connection.list_action(Action.ADD).zips) == MANY
    assert time.process_time() - began < MANY / 12_500


@pytest.mark.parametrize(
    ("changes", "most"),
    [({"downloads_per_source": 2}, 2), ({"connections_per_server": 1}, 1)],
    ids=["of a source", "of a server"],
)
def test_a_listing_has_no_more_connections_than_its_source_and_server_may_have(
    folder: Folder, server: WebServer, opened: Opener, changes: dict[str, int], most: int
) -> None:
    for number in range(60):
        folder.put(f"add/H.2013-10-31.{number}.impc.zip", b"short")
    assert len(opened(**changes).list_action(Action.ADD).zips) == 60
    assert len(server.connections) <= most


def test_a_server_that_stalls_on_sizes_is_given_up(folder: Folder, server: WebServer, opened: Opener) -> None:
    folder.put(f"add/{NAME}", CONTENT)
    server.stall_head = True
    began = time.monotonic()
    with pytest.raises(SourceTimeoutError, match=r"stalled while listing /data/add\."):
        opened(idle_timeout=0.5).list_action(Action.ADD)
    assert time.monotonic() - began < 20


def test_a_file_is_fetched_from_an_offset_though_the_server_knows_no_ranges(
    folder: Folder, server: WebServer, opened: Opener
) -> None:
    folder.put(f"add/{NAME}", CONTENT)
    server.ranges = False
    for offset in (0, 1, 500_000, len(CONTENT) - 1):
        assert fetched(opened(), offset=offset, modified=MODIFIED) == CONTENT[offset:]


def test_requests_are_conditional_on_the_time_that_was_listed(
    folder: Folder, server: WebServer, opened: Opener
) -> None:
    folder.put(f"add/{NAME}", CONTENT)
    connection = opened()
    (listed,) = connection.list_action(Action.ADD).zips
    fetched(connection, offset=1000, modified=listed.modified)
    sent = server.requests[-1][2]
    assert sent["Range"] == "bytes=1000-"
    assert sent["If-Unmodified-Since"] == sent["If-Range"] == "Tue, 13 May 2014 16:53:20 GMT"
    # Nothing of which holds for the checksum that is read next.
    folder.put(f"add/{NAME}.md5", b"0" * 32, MODIFIED + 1)
    assert connection.read_md5(Action.ADD, NAME) == "0" * 32


@pytest.mark.parametrize("ignore_conditions", [False, True])
@pytest.mark.parametrize("offset", [0, 500_000])
def test_a_file_changed_since_it_was_listed_is_not_taken(
    folder: Folder, server: WebServer, opened: Opener, ignore_conditions: bool, offset: int
) -> None:
    """The same name and size, another time."""
    folder.put(f"add/{NAME}", CONTENT)
    server.ignore_conditions = ignore_conditions
    connection = opened()
    (listed,) = connection.list_action(Action.ADD).zips
    folder.put(f"add/{NAME}", CONTENT[::-1], MODIFIED + 60)
    received = bytearray()
    with pytest.raises(TransferFailedError, match=r"has changed since it was listed .*next crawl"):
        connection.fetch(
            Action.ADD, NAME, received.extend, size=listed.size_bytes, offset=offset, modified=listed.modified
        )
    assert received == b""


def test_a_file_of_another_size_than_listed_is_not_taken(folder: Folder, opened: Opener) -> None:
    folder.put(f"add/{NAME}", CONTENT[: len(CONTENT) // 2 + 1])
    for offset in (0, 500_000, len(CONTENT)):
        with pytest.raises(TransferFailedError, match="has changed since it was listed"):
            fetched(opened(), offset=offset)


@pytest.mark.parametrize("part", ["bytes 0-9/10", "bytes 5-7/10", "bytes 6-9/10", "bytes 5-9", ""])
def test_another_part_of_a_file_than_was_asked_for_is_not_taken(server: WebServer, opened: Opener, part: str) -> None:
    server.pages[f"/data/add/{NAME}"] = (206, {"Content-Range": part}, b"01234")
    received = bytearray()
    with pytest.raises(TransferFailedError, match="another part of the file"):
        opened().fetch(Action.ADD, NAME, received.extend, size=10, offset=5)
    assert received == b""


def test_a_transfer_cut_in_the_middle_fails_and_can_be_resumed(
    folder: Folder, server: WebServer, opened: Opener
) -> None:
    folder.put(f"add/{NAME}", CONTENT)
    server.cut_after = 300_000
    connection = opened()
    received = bytearray()
    with pytest.raises(TransferFailedError, match="in the middle, 724,000 bytes missing"):
        connection.fetch(Action.ADD, NAME, received.extend, size=len(CONTENT))
    assert received == CONTENT[:300_000]
    server.cut_after = None
    connection.fetch(Action.ADD, NAME, received.extend, size=len(CONTENT), offset=len(received), modified=MODIFIED)
    assert received == CONTENT


def test_a_server_that_tells_a_wrong_size_is_found_out(folder: Folder, server: WebServer, opened: Opener) -> None:
    folder.put(f"add/{NAME}", CONTENT)
    server.size_error = 7
    connection = opened(idle_timeout=0.5)
    with pytest.raises(
        TransferFailedError, match=f"{len(CONTENT) + 7:,} bytes, {len(CONTENT):,} were listed"
    ) as changed:
        fetched(connection)
    assert "aufgelistet" in load_catalogue("de", Settings()).tell(changed.value.translatable)
    began = time.monotonic()
    with pytest.raises(SourceTimeoutError, match=f"stalled while sending /data/add/{NAME}"):
        fetched(connection, size=len(CONTENT) + 7)
    assert time.monotonic() - began < 20


def test_the_connection_serves_again_after_the_server_closed_it_and_after_failures(
    folder: Folder, server: WebServer, opened: Opener
) -> None:
    folder.put(f"add/{NAME}", CONTENT)
    connection = opened()

    with pytest.raises(DiskFullError) as failure:
        connection.fetch(Action.ADD, NAME, raising(DiskFullError("full")), size=len(CONTENT))
    with pytest.raises(FileMissingError, match=r"/data/add/H\.2013-10-31\.9\.impc\.zip"):
        fetched(connection, "H.2013-10-31.9.impc.zip")
    assert failure.traceback
    for _ in range(2):
        assert fetched(connection) == CONTENT
        assert connection.list_action(Action.ADD).zips[0].size_bytes == len(CONTENT)
        server.disconnect()


def test_the_user_name_and_password_are_sent_and_never_shown(folder: Folder, tmp_path: Path) -> None:
    folder.put(f"add/{NAME}", CONTENT)
    with WebServer(folder.path.parent, password=PASSWORD) as server:
        with connect(address(server), limits(tmp_path)) as connection:
            assert len(connection.list_action(Action.ADD).zips) == 1
            assert PASSWORD not in repr(vars(connection))
            assert redacted(server.requests[-1][2]["Authorization"]) == "Basic ***"
        server.password = "another"
        for wrong in (PASSWORD, ""):
            refused = address(server, accesskey=SecretStr(wrong), username="centre" if wrong else "")
            with pytest.raises(LoginRefusedError, match="401 Unauthorized") as failure:
                connect(refused, limits(tmp_path))
            assert not wrong or wrong not in str(failure.value)
            in_german = load_catalogue("de", limits(tmp_path)).tell(failure.value.translatable)
            assert ("die Anmeldung von 'centre'" if wrong else "niemanden ohne Anmeldung") in in_german


def test_what_may_not_be_listed_is_a_refused_login_and_what_cannot_be_read_a_failed_transfer(
    server: WebServer, opened: Opener
) -> None:
    """A file's refusal is no refused login, for which a source is given up: the login was accepted before."""
    server.pages["/data/"] = (403, {}, b"")
    for status, phrase in ((401, "401 Unauthorized"), (403, "403 Forbidden")):
        server.pages["/data/add/"] = (status, {}, b"")
        with pytest.raises(LoginRefusedError, match=phrase):
            opened().list_action(Action.ADD)
        server.pages[f"/data/add/{NAME}"] = (status, {"Content-Encoding": "gzip"}, b"")
        with pytest.raises(FileNotReadableError, match=rf"may not read it \({phrase}\)\. .* permissions"):
            fetched(opened())
    server.pages[f"/data/add/{NAME}"] = (200, {"Content-Encoding": "gzip"}, b"\x1f\x8b")
    with pytest.raises(TransferFailedError, match="compresses"):
        fetched(opened())


def test_a_redirect_to_another_server_is_refused(server: WebServer, opened: Opener) -> None:
    # Too short to be looked for in every text.
    server.password = "hu7"
    elsewhere = ("http://evil.example/data/add/", "https://127.0.0.1/", "//evil.example/")
    for location in (*elsewhere, "http://u:hunter2@evil.example/hu7/?k=hunter2"):
        server.pages["/data/add/"] = server.pages[f"/data/add/{NAME}"] = (302, {"Location": location}, b"")
        connection = opened()
        with pytest.raises(ListingFailedError, match="another server and is not followed") as failure:
            connection.list_action(Action.ADD)
        assert "hunter2" not in str(failure.value)
        assert "hu7" not in str(failure.value)
        with pytest.raises(TransferFailedError, match="another server"):
            fetched(connection)


def test_a_redirect_within_the_server_is_followed_and_a_circle_is_not(
    folder: Folder, server: WebServer, opened: Opener, tmp_path: Path
) -> None:
    folder.put(f"archive/{NAME}", CONTENT)
    server.pages["/data/add/"] = (301, {"Location": "../archive/"}, b"")
    server.pages[f"/data/add/{NAME}"] = (307, {"Location": f"http://{server.hostname}/data/archive/{NAME}"}, b"")
    server.pages["/data/edit/"] = (302, {"Location": "/data/edit/"}, b"")
    connection = opened()
    assert [(file.name, file.size_bytes) for file in connection.list_action(Action.ADD).zips] == [(NAME, len(CONTENT))]
    assert fetched(connection) == CONTENT
    with pytest.raises(ListingFailedError, match="more than 5 redirects"):
        connection.list_action(Action.EDIT)
    # In whichever letters it is named.
    server.pages["/data/delete/"] = (301, {"Location": "../archive/"}, b"")
    by_name = address(server, hostname=server.hostname.replace("127.0.0.1", "LocalHost"))
    with connect(by_name, limits(tmp_path)) as connection:
        assert [file.name for file in connection.list_action(Action.DELETE).zips] == [NAME]


def test_https_is_verified_with_the_authorities_of_the_settings(
    server: WebServer, folder: Folder, tmp_path: Path, authority: Authority
) -> None:
    folder.put(f"add/{NAME}", CONTENT)
    with WebServer(folder.path.parent, certificate=authority.issue()) as trusted:
        secure = address(trusted, protocol=SourceProtocol.HTTPS)
        with connect(secure, limits(tmp_path, tls_ca_file=authority.ca_file)) as connection:
            assert isinstance(connection, HttpConnection)
            assert fetched(connection) == CONTENT
        with pytest.raises(CertificateRefusedError, match="DCC_TLS_CA_FILE"):
            connect(secure, limits(tmp_path))
        with pytest.raises(SourceMisconfiguredError, match="DCC_TLS_CA_FILE"):
            connect(secure, limits(tmp_path, tls_ca_file=tmp_path / "none.pem"))
        with pytest.raises(SourceError):
            connect(address(trusted), limits(tmp_path, idle_timeout=1))
    with pytest.raises(SourceUnreachableError, match="TLS handshake failed"):
        connect(address(server, protocol=SourceProtocol.HTTPS), limits(tmp_path))


def test_a_server_that_is_silent_is_given_up(tmp_path: Path, server: WebServer) -> None:
    server.one_connection = threading.Lock()
    with server.one_connection, pytest.raises(SourceTimeoutError, match="stalled while answering the first request"):
        connect(address(server), limits(tmp_path, login_timeout=0.3))


def test_a_server_that_trickles_between_the_pieces_of_a_file_is_given_up_and_serves_again(
    server: WebServer, tmp_path: Path
) -> None:
    talked_to = []

    def talk(connection: socket.socket) -> None:
        talked_to.append(connection)
        while connection.recv(4096).startswith(b"HEAD"):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        if len(talked_to) == 1:
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            # The length of the next piece.
            repeating(b"0", pause=0.02)(connection)
        else:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nPK")

    with (
        serving(talk) as (hostname, _),
        connect(address(server, hostname=hostname), limits(tmp_path, idle_timeout=0.3)) as connection,
    ):
        assert isinstance(connection, HttpConnection)
        with pytest.raises(SourceTimeoutError, match=f"stalled while sending /data/add/{NAME}"):
            fetched(connection, size=None)
        for _ in range(2):
            assert fetched(connection, size=None) == b"PK"
    assert len(talked_to) == 3
