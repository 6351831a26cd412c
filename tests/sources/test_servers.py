"""File sources on real servers: every protocol shows and delivers the same."""

import errno
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from dcc.errors import (
    BadChecksumFileError,
    FileMissingError,
    FileNotReadableError,
    ListingFailedError,
    SourceError,
    TransferFailedError,
)
from dcc.naming import Action
from dcc.settings import Settings
from dcc.sources.base import ActionListing, SourceAddress
from dcc.sources.connect import connect
from tests.support.raising import raising
from tests.support.served_sources import fetched, list_add
from tests.support.servers import FILE_SERVERS, KINDS_OF_SERVERS, SftpServer, Share
from tests.support.trials import MANY

pytestmark = pytest.mark.servers

NAME = "H.2013-10-31.1.impc.zip"


def names(listing: ActionListing) -> list[str]:
    return [file.name for file in listing.zips]


def test_every_protocol_shows_the_same_files_under_the_same_actions_and_ignores_what_is_no_archive(
    any_share: Share, source_settings: Settings
) -> None:
    """What lies in edit and delete is not taken for an addition, on any protocol."""
    any_share.put(f"add/{NAME}", b"a" * 10)
    any_share.put("edit/H.2013-10-31.2.impc.zip", b"b" * 20)
    any_share.put("edit/H.2013-10-31.1.impc.tar.gz", b"b")
    any_share.put("edit/notes.txt")
    any_share.put("edit/sub/H.2013-10-31.9.impc.zip")
    (any_share.root / "edit" / "old.zip").mkdir()
    any_share.put("delete/H.2013-10-31.3.impc.zip", b"c" * 30)
    any_share.put("delete/H.2013-10-31.4.impc.ZIP", b"d")
    any_share.put("delete/not conforming.zip", b"")
    with connect(any_share.address(), source_settings) as connection:
        listings = {action: connection.list_action(action) for action in Action}
        edited = fetched(connection, "H.2013-10-31.2.impc.zip", 20, action=Action.EDIT)
    modified = 1_400_000_000
    assert {
        action: [(file.name, file.size_bytes, file.modified) for file in listing.zips]
        for action, listing in listings.items()
    } == {
        Action.ADD: [(NAME, 10, modified)],
        Action.EDIT: [("H.2013-10-31.1.impc.tar.gz", 1, modified), ("H.2013-10-31.2.impc.zip", 20, modified)],
        Action.DELETE: [
            ("H.2013-10-31.3.impc.zip", 30, modified),
            ("H.2013-10-31.4.impc.ZIP", 1, modified),
            ("not conforming.zip", 0, modified),
        ],
    }
    assert edited == b"b" * 20
    assert listings[Action.EDIT].ignored == 3
    assert listings[Action.EDIT].ignored_examples == (
        ("notes.txt", "not an archive"),
        ("old.zip", "a directory"),
        ("sub", "a directory"),
    )


def test_an_absent_directory_is_no_fault_an_empty_one_is_not_absent_and_an_absent_base_path_is_a_fault(
    any_share: Share, source_settings: Settings
) -> None:
    (any_share.root / "add").mkdir()
    with connect(any_share.address(), source_settings) as connection:
        assert connection.list_action(Action.ADD) == ActionListing(Action.ADD)
        assert connection.list_action(Action.EDIT) == ActionListing(Action.EDIT, missing=True)
    with pytest.raises(SourceError, match="nowhere"):
        list_add(any_share.address(base_path=f"{any_share.base_path}/nowhere"), source_settings)


@pytest.mark.parametrize("any_share", FILE_SERVERS, indirect=True)
def test_a_link_counts_as_the_file_that_it_leads_to(any_share: Share, source_settings: Settings) -> None:
    any_share.put(f"add/{NAME}", b"x" * 1234)
    directory = any_share.root / "edit"
    directory.mkdir()
    (directory / "linked.zip").symlink_to(f"../add/{NAME}")
    (directory / "directory.zip").symlink_to("../add")
    (directory / "dangling.zip").symlink_to("nowhere")
    (directory / "one.zip").symlink_to("other.zip")
    (directory / "other.zip").symlink_to("one.zip")
    with connect(any_share.address(), source_settings) as connection:
        listing = connection.list_action(Action.EDIT)
        content = fetched(connection, "linked.zip", 1234, action=Action.EDIT)
    assert [(file.name, file.size_bytes) for file in listing.zips] == [("linked.zip", 1234)]
    assert content == b"x" * 1234


def test_a_disk_that_goes_away_among_links_is_not_taken_for_broken_links(
    local_folder: Share, source_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_folder.put("H.zip", b"x")
    (local_folder.root / "add").mkdir()
    (local_folder.root / "add" / NAME).symlink_to("../H.zip")
    stat = Path.stat

    def stale(path: Path, **how: bool) -> os.stat_result:
        if path.name == NAME:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return stat(path, **how)

    with connect(local_folder.address(), source_settings) as connection:
        monkeypatch.setattr(Path, "stat", stale)
        with pytest.raises(ListingFailedError, match="Stale file handle"):
            connection.list_action(Action.ADD)


@pytest.mark.parametrize("number", [errno.ETIMEDOUT, errno.EIO])
def test_a_disk_that_fails_is_no_server_and_costs_the_folder_no_patience(
    local_folder: Share, source_settings: Settings, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    local_folder.put(f"add/{NAME}", b"x")
    said = rf"failed \({os.strerror(number)}\)\. Check the disk that holds it"
    with connect(local_folder.address(), source_settings) as connection:
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", raising(OSError(number, os.strerror(number))))
            with pytest.raises(TransferFailedError, match=said):
                fetched(connection, NAME, 1)
        monkeypatch.setattr(os, "scandir", raising(OSError(number, os.strerror(number))))
        with pytest.raises(ListingFailedError, match=said):
            connection.list_action(Action.ADD)


def test_a_link_out_of_a_local_folder_is_not_followed(local_folder: Share, source_settings: Settings) -> None:
    local_folder.put("add/a.zip")
    (local_folder.root / "add" / "secret.zip").symlink_to("/etc/passwd")
    (local_folder.root / "edit").symlink_to("/etc")
    with connect(local_folder.address(), source_settings) as connection:
        assert names(connection.list_action(Action.ADD)) == ["a.zip"]
        with pytest.raises(FileMissingError):
            fetched(connection, "secret.zip", None)
        with pytest.raises(ListingFailedError, match="leads out of the base path"):
            connection.list_action(Action.EDIT)


@pytest.mark.parametrize(
    "put", [lambda path: path.symlink_to("/etc/passwd"), os.mkfifo, Path.mkdir], ids=["link", "pipe", "folder"]
)
def test_what_takes_the_place_of_a_file_as_it_is_opened_is_not_read(
    local_folder: Share,
    source_settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    put: Callable[[Path], object],
) -> None:
    local_folder.put(f"add/{NAME}", b"x")
    path, open_file = local_folder.root / "add" / NAME, os.open

    def put_and_open(opened: str, *flags: Any) -> int:
        if str(opened) == str(path):
            path.unlink()
            put(path)
        return open_file(opened, *flags)

    with connect(local_folder.address(), source_settings) as connection:
        monkeypatch.setattr(os, "open", put_and_open)
        with pytest.raises(FileMissingError):
            fetched(connection, NAME, None)


@pytest.mark.parametrize("any_share", KINDS_OF_SERVERS, indirect=True)
def test_names_with_any_characters_are_shown_escaped_and_can_be_fetched(
    any_share: Share, source_settings: Settings
) -> None:
    (any_share.root / "add").mkdir()
    shown = {
        name: name for name in ("a b&c#d?e%20f.zip", "caf\u00e9.zip", "'quoted'.zip", "a:b.zip", "two  spaces.zip")
    }
    shown |= {
        "back\\slash.zip": "back\\x5cslash.zip",
        "esc\x1b[31m.zip": "esc\\x1b[31m.zip",
        "caf\udce9.zip": "caf\\xe9.zip",
    }
    for name in shown:
        (any_share.root / "add" / name).write_bytes(os.fsencode(name))
    with connect(any_share.address(), source_settings) as connection:
        assert sorted(names(connection.list_action(Action.ADD))) == sorted(shown.values())
        for name, escaped in shown.items():
            assert fetched(connection, escaped, None) == os.fsencode(name)
        (any_share.root / "add" / "caf\udce9.zip").unlink()
        with pytest.raises(FileMissingError, match=r"/caf(\\xe9|%E9)\.zip"):
            fetched(connection, "caf\\xe9.zip", None)


def test_a_file_arrives_whole_and_from_any_offset(any_share: Share, source_settings: Settings) -> None:
    for size in (0, 1, 32 * 1024, 5_000_001):
        content = os.urandom(size)
        any_share.put(f"add/{NAME}", content)
        with connect(any_share.address(), source_settings) as connection:
            for offset in {0, 1, size // 2, size - 1, size} - {-1}:
                if offset <= size:
                    assert fetched(connection, NAME, size, offset) == content[offset:]
            assert fetched(connection, NAME, None) == content


@pytest.mark.parametrize("any_share", FILE_SERVERS, indirect=True)
def test_no_more_is_taken_than_one_block_beyond_the_listed_size_and_a_connection_survives_faults(
    any_share: Share, source_settings: Settings
) -> None:
    content = os.urandom(8_000_000)
    any_share.put(f"add/{NAME}", content)

    with connect(any_share.address(), source_settings) as connection:
        received = fetched(connection, NAME, 1_000_000)
        assert 1_000_000 < len(received) <= 1_000_000 + 1024 * 1024
        assert content.startswith(received)
        assert fetched(connection, NAME, 8_000_000) == content
        with pytest.raises(OSError, match="No space left"):
            connection.fetch(Action.ADD, NAME, raising(OSError(28, "No space left on device")), size=len(content))
        with pytest.raises(FileMissingError, match=r"gone\.zip"):
            fetched(connection, "gone.zip", 10)
        # A file that became shorter is known by what arrived.
        assert fetched(connection, NAME, 9_000_000) == content


def test_an_unreadable_directory_and_file_are_faults(ftp_server: Share, source_settings: Settings) -> None:
    """vsftpd's anonymous user is not root, whom nothing stops; it reports an unreadable directory as an empty one."""
    ftp_server.put("add/secret.zip").chmod(0o600)
    ftp_server.put(f"edit/{NAME}")
    (ftp_server.root / "edit").chmod(0o711)
    ftp_server.put(f"delete/{NAME}")
    (ftp_server.root / "delete").chmod(0o700)
    with connect(ftp_server.address(), source_settings) as connection:
        with pytest.raises(FileNotReadableError, match="correct the permissions"):
            fetched(connection, "secret.zip", 10)
        for action in (Action.EDIT, Action.DELETE):
            with pytest.raises(ListingFailedError, match=action):
                connection.list_action(action)


def test_checksums_beside_archives_are_seen_and_read(any_share: Share, source_settings: Settings) -> None:
    digest = hashlib.md5(b"an archive").hexdigest()
    any_share.put(f"add/{NAME}")
    any_share.put(f"add/{NAME}.md5", f"{digest.upper()} *{NAME}\n".encode())
    any_share.put("add/other.zip")
    any_share.put("add/faulty.zip")
    any_share.put("add/faulty.zip.md5", b"not a checksum" * 1000)
    any_share.put("add/lonely.zip.md5")
    with connect(any_share.address(), source_settings) as connection:
        listing = connection.list_action(Action.ADD)
        assert {file.name: file.has_md5 for file in listing.zips} == {
            NAME: True,
            "other.zip": False,
            "faulty.zip": True,
        }
        assert listing.ignored_examples == (("lonely.zip.md5", "no archive beside this checksum"),)
        assert connection.read_md5(Action.ADD, NAME) == digest
        assert connection.read_md5(Action.ADD, "other.zip") is None
        with pytest.raises(BadChecksumFileError, match=r"faulty\.zip\.md5 holds no MD5 checksum"):
            connection.read_md5(Action.ADD, "faulty.zip")
        assert fetched(connection, NAME, 10) == b"an archive"


@pytest.fixture(scope="module")
def large_folders(served_root: Path) -> Iterator[dict[int, Path]]:
    """Base paths whose directories `add` hold MANY archives of ten bytes, and a tenth of as many."""
    folders = {number: served_root / f"large-{number}" for number in (MANY // 10, MANY)}
    for number, folder in folders.items():
        _put_archives(folder, number)
    yield folders
    for folder in folders.values():
        shutil.rmtree(folder)


def _put_archives(root: Path, count: int) -> None:
    (root / "add").mkdir(parents=True)
    for number in range(count):
        target = root / "add" / f"H.2013-10-31.{number}.impc.zip"
        # Links of one file are made in a fraction of the time; few file systems allow more than 65,000 of them.
        if number % 30_000 == 0:
            target.write_bytes(b"an archive")
            first = target
        else:
            os.link(first, target)


@pytest.mark.parametrize("server", ["sftp_server", "ftp_server", "faulty_ftp_server", "local_folder"])
def test_a_directory_of_very_many_entries_is_a_normal_listing(
    server: str, request: pytest.FixtureRequest, source_settings: Settings, large_folders: dict[int, Path]
) -> None:
    """All are there, and each is no more work than one of a tenth of as many."""
    if server == "faulty_ftp_server":
        users = {folder.name: folder for folder in large_folders.values()}
        served = request.getfixturevalue(server)(users=users)
        addresses = [served.address(username=name, accesskey=SecretStr(name)) for name in users]
    else:
        share: Share = request.getfixturevalue(server)
        paths = [share.base_path.replace(share.root.name, folder.name) for folder in large_folders.values()]
        addresses = [share.address(base_path=path) for path in paths]
    work = []
    for number, address in zip(large_folders, addresses, strict=True):
        began = time.thread_time()
        listing = list_add(address, source_settings)
        work.append(time.thread_time() - began)
        assert len(listing.zips) == number
        assert all(file.size_bytes == 10 for file in listing.zips)
    assert work[1] < 40 * work[0]


class TestBasePaths:
    """`base_path` may be absent or written in any way; over SFTP, a session then begins in a directory of its own."""

    def test_the_root_of_an_ftp_server(
        self, faulty_ftp_server: Callable[..., Share], source_settings: Settings
    ) -> None:
        share = faulty_ftp_server()
        share.put(f"add/{NAME}")
        for path in ("", "/", "."):
            assert names(list_add(share.address(base_path=path), source_settings)) == [NAME], path

    @pytest.mark.parametrize("server", ["password_sftp_server", "faulty_ftp_server"])
    def test_a_directory_below_it(self, server: str, request: pytest.FixtureRequest, source_settings: Settings) -> None:
        share: Share = request.getfixturevalue(server)()
        (share.root / "a").mkdir()
        replace(share, root=share.root / "a" / "b").put(f"add/{NAME}")
        for path in ("a/b", "/a/b", "/a/b/", "a/b//", "//a//b", "./a/b", "~/a/b"):
            with connect(share.address(base_path=path), source_settings) as connection:
                assert names(connection.list_action(Action.ADD)) == [NAME], path
                assert fetched(connection, NAME, 10) == b"an archive", path


def test_two_centres_on_one_host_see_their_own_files_by_their_keys(
    openssh: SftpServer, sftp_server: Share, source_settings: Settings, tmp_path: Path
) -> None:
    addresses: list[SourceAddress] = []
    for name in ("harwell", "jax"):
        (tmp_path / name / "add").mkdir(parents=True)
        (tmp_path / name / "add" / f"{name}.zip").write_bytes(name.encode())
        key = openssh.new_key(start=tmp_path / name)
        addresses.append(sftp_server.address(base_path="", accesskey=SecretStr(f"key:{key}")))
    with connect(addresses[0], source_settings) as harwell, connect(addresses[1], source_settings) as jax:
        assert names(harwell.list_action(Action.ADD)) == ["harwell.zip"]
        assert names(jax.list_action(Action.ADD)) == ["jax.zip"]
        assert fetched(harwell, "harwell.zip", 7) == b"harwell"
        assert fetched(jax, "jax.zip", 3) == b"jax"


@pytest.mark.parametrize("server", ["password_sftp_server", "faulty_ftp_server"])
def test_servers_are_reached_by_ipv6(server: str, request: pytest.FixtureRequest, source_settings: Settings) -> None:
    share: Share = request.getfixturevalue(server)(host="::1")
    share.put(f"add/{NAME}")
    assert share.hostname.startswith("[::1]:")
    with connect(share.address(), source_settings) as connection:
        assert names(connection.list_action(Action.ADD)) == [NAME]
        assert fetched(connection, NAME, 10) == b"an archive"


class TestFtpServersWithoutExtensions:
    """Servers that know neither MLSD nor REST."""

    @pytest.mark.parametrize("without", [["MLSD"], ["MLSD", "MDTM"], ["MLSD", "FEAT", "SIZE", "OPTS"]])
    def test_their_listings_are_understood(
        self, without: list[str], faulty_ftp_server: Callable[..., Share], source_settings: Settings
    ) -> None:
        share = faulty_ftp_server(without=without)
        share.put(f"add/{NAME}", b"x" * 17)
        share.put("add/two  spaces.zip", b"x")
        with connect(share.address(), source_settings) as connection:
            listing = connection.list_action(Action.ADD)
        knows_times = without == ["MLSD"]
        assert [(file.name, file.size_bytes, file.modified) for file in listing.zips] == [
            (NAME, 17, 1_400_000_000 if knows_times else None),
            ("two  spaces.zip", 1, 1_400_000_000 if knows_times else None),
        ]

    def test_a_transfer_is_taken_up_where_it_broke_off_all_the_same(
        self, faulty_ftp_server: Callable[..., Share], source_settings: Settings
    ) -> None:
        share = faulty_ftp_server(without=["REST"])
        content = os.urandom(1_000_000)
        share.put(f"add/{NAME}", content)
        with connect(share.address(), source_settings) as connection:
            assert fetched(connection, NAME, len(content), offset=777_777) == content[777_777:]

    @pytest.mark.parametrize("command", ["MDTM", "SIZE"])
    @pytest.mark.parametrize("code", [421, 450])
    def test_a_file_that_goes_meanwhile_costs_no_listing_but_the_end_of_the_session_does(
        self, code: int, command: str, faulty_ftp_server: Callable[..., Share], source_settings: Settings
    ) -> None:
        lines = f"-rw-r--r-- 1 u g 17 Oct 31 2013 {NAME}\r\nlrwxrwxrwx 1 u g 3 Oct 31 2013 one.zip -> {NAME}\r\n"
        replies = {f"{command} one.zip": f"{code} Not now."}
        share = faulty_ftp_server(without=["MLSD"], list_lines=lines.encode(), replies=replies)
        share.put(f"add/{NAME}", b"x" * 17)
        share.put("add/one.zip", b"x" * 17)
        with connect(share.address(), source_settings) as connection:
            if code == 421:
                with pytest.raises(ListingFailedError, match="421 Not now"):
                    connection.list_action(Action.ADD)
                return
            listed = [(file.name, file.modified) for file in connection.list_action(Action.ADD).zips]
        known, asked = (NAME, 1_400_000_000), [("one.zip", None)] if command == "MDTM" else []
        assert listed == [known, *asked]

    @pytest.mark.parametrize(
        ("lines", "said"),
        [
            (b"total 3\r\nthe archive H.zip, of 31 October\r\n", "a line of LIST has an unknown form"),
            (b"-rw-r--r-- 1 u g 17 Oct 31 2013 " + b"a" * 16_384 + b".zip\r\n", "a line is too long"),
        ],
        ids=["unknown", "long"],
    )
    def test_a_listing_of_unknown_form_is_a_fault_and_not_an_empty_directory(
        self, lines: bytes, said: str, faulty_ftp_server: Callable[..., Share], source_settings: Settings
    ) -> None:
        share = faulty_ftp_server(without=["MLSD"], list_lines=lines)
        share.put(f"add/{NAME}")
        with pytest.raises(ListingFailedError, match=said):
            list_add(share.address(), source_settings)
