"""Directories of many archives: no request for each, rows a part at a time, one time limit, and how far it is."""

import contextlib
import ftplib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pydantic import SecretStr

from dcc.naming import Action
from dcc.session.source_listings import list_source
from dcc.settings import Settings
from dcc.sources.base import SourceAddress
from dcc.sources.connect import connect
from dcc.sources.http import source as http
from dcc.sources.protocols import SourceProtocol
from dcc.sources.sftp.client import SftpClient
from tests.support.servers import Share
from tests.support.talking_servers import trickling_web_server
from tests.support.web_server import WebServer


def names(count: int) -> list[str]:
    return [f"H.2013-10-31.{number}.impc.zip" for number in range(count)]


def put_many(share: Share, count: int) -> None:
    (share.root / "add").mkdir(exist_ok=True)
    for name in names(count):
        (share.root / "add" / name).touch()


def web_address(hostname: str) -> SourceAddress:
    return SourceAddress(1, "H", SourceProtocol.HTTP, hostname, "", SecretStr(""), "/")


@pytest.mark.parametrize(
    ("server", "owner", "method"),
    [("ftp_server", ftplib.FTP, "putcmd"), ("sftp_server", SftpClient, "_request")],
)
def test_a_long_listing_takes_no_request_a_file(
    server: str, owner: type, method: str, request: pytest.FixtureRequest, source_settings: Settings
) -> None:
    share: Share = request.getfixturevalue(server)
    put_many(share, 2_000)
    with (
        patch.object(owner, method, autospec=True, side_effect=getattr(owner, method)) as requests,
        connect(share.address(), source_settings) as connection,
    ):
        assert len(connection.list_action(Action.ADD).zips) == 2_000
    assert requests.call_count < 100


def test_a_web_server_is_asked_for_the_sizes_of_the_newest_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source_settings: Settings
) -> None:
    monkeypatch.setattr(http, "MAX_ASKED", 50)
    (tmp_path / "add").mkdir()
    for name in names(400):
        (tmp_path / "add" / name).touch()
    with WebServer(tmp_path) as server, connect(web_address(server.hostname), source_settings) as connection:
        zips = connection.list_action(Action.ADD).zips
        assert len(zips) == 400
        assert [file.size_bytes for file in zips] == [None] * 350 + [0] * 50
        assert len(server.asked("HEAD")) <= 51


def test_of_many_archives_an_ftp_server_without_mlsd_tells_changes_of_size(
    faulty_ftp_server: Callable[..., Share], source_settings: Settings
) -> None:
    share = faulty_ftp_server(without=["MLSD"])
    put_many(share, 300)
    changed = names(300)[7]

    def sizes() -> dict[str, int | None]:
        with connect(share.address(), source_settings) as connection:
            return {file.name: file.size_bytes for file in connection.list_action(Action.ADD).zips}

    assert set(sizes().values()) == {0}
    (share.root / "add" / changed).write_bytes(b"replaced")
    assert {name: size for name, size in sizes().items() if size} == {changed: 8}


@pytest.fixture(params=["sftp", "ftp", "http", "folder"])
def trickling(
    request: pytest.FixtureRequest,
    cutting_proxy: Callable[..., Share],
    faulty_ftp_server: Callable[..., Share],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[SourceAddress]:
    """A file source of many archives whose server or disk sends its listing slowly."""
    with contextlib.ExitStack() as stack:
        if request.param == "folder":
            share: Share = request.getfixturevalue("local_folder")
            put_many(share, 400)
            scandir = os.scandir

            def slow(path: Any) -> Any:
                # pytest removes folders by their descriptors meanwhile.
                return contextlib.nullcontext(slow_entries(path)) if isinstance(path, Path) else scandir(path)

            monkeypatch.setattr("dcc.sources.folder.os.scandir", slow)
            yield share.address()
            return
        if request.param == "http":
            hostname, _ = stack.enter_context(trickling_web_server())
            yield web_address(hostname)
            return
        if request.param == "sftp":
            share = cutting_proxy(request.getfixturevalue("sftp_server"), delay=0.05)
            put_many(share, 4_000)
        else:
            share = faulty_ftp_server(bytes_per_second=10_000, faulty_commands=["MLSD"])
            put_many(share, 1_000)
        yield share.address()


def slow_entries(path: Path) -> Iterator[Path]:
    """The entries of a folder on a disk that takes its time for each."""
    for name in os.listdir(path):  # noqa: PTH208 - what Path has for this is slow, too
        time.sleep(0.01)
        yield path / name


def test_a_listing_that_trickles_ends_by_the_limit_of_the_whole_which_is_named(
    trickling: SourceAddress, source_settings: Settings
) -> None:
    began = time.monotonic()
    settings = source_settings.model_copy(update={"list_timeout": 0.75})
    listing = list_source(trickling, settings)
    # Three directories, and not three times the limit.
    assert time.monotonic() - began < 20
    assert listing.seconds < 15
    assert listing.error is not None
    assert listing.error.short_name() == "SourceTimeoutError"
    said = str(listing.error)
    assert "was not done within 0.75 s;" in said
    assert "DCC_LIST_TIMEOUT sets the limit for all directories of a file source together." in said
    assert " 0 entries had come" not in said
