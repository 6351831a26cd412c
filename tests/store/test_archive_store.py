"""The archive store, in directories, a bucket and on OpenSSH: checked copies that never change."""

import errno
import getpass
import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dcc.errors import ConfigurationError, DiskFullError, StoredObjectLostError, StoreRefusedError
from dcc.settings import Settings, load_settings
from dcc.store.archive_store import ArchiveStore, Replica
from dcc.store.copies import CopyState
from dcc.store.filesystems import Directory
from tests.support.ports import free_port
from tests.support.s3_server import Bucket
from tests.support.servers import SftpServer
from tests.support.small_disks import small_disk

CONTENT = b"an archive" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Place:
    """A replica, and how a stranger changes what lies there."""

    settings: Settings
    url: str
    overwrite: Callable[[str, bytes], object]

    @property
    def replica(self) -> Replica:
        """The replica, as a new process sees it."""
        return ArchiveStore(self.settings).replicas[0]


def known_hosts(server: SftpServer, path: Path) -> Path:
    """A file with the server's host keys."""
    lines = [f"[127.0.0.1]:{server.port} {key}" for key in server.host_keys]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(params=["directory", "s3", pytest.param("sftp", marks=pytest.mark.servers)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty replica of each kind."""
    if request.param == "s3":
        bucket: Bucket = request.getfixturevalue("bucket")
        url = f"s3://{bucket.name}/kept"
        put = bucket.client.put_object
        return Place(
            bucket.settings(archive_replicas=url),
            url,
            lambda name, body: put(Bucket=bucket.name, Key=f"kept/{name}", Body=body),
        )
    folder = tmp_path / "kept"
    changes: dict[str, object] = {"archive_replicas": str(folder)}
    if request.param == "sftp":
        server: SftpServer = request.getfixturevalue("openssh")
        changes = {
            "archive_replicas": f"sftp://{getpass.getuser()}@{server.hostname}{folder}",
            "archive_access_key": f"key:{server.key}",
            "known_hosts": known_hosts(server, tmp_path / "known_hosts"),
        }
    else:
        folder.mkdir()
    settings = load_settings(home=tmp_path / "home", **changes)
    return Place(settings, str(changes["archive_replicas"]), lambda name, body: (folder / name).write_bytes(body))


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A file to keep."""
    path = tmp_path / "H.2013-10-31.1.impc.zip"
    path.write_bytes(CONTENT)
    return path


def test_an_archive_is_kept_and_comes_back(place: Place, archive: Path, tmp_path: Path) -> None:
    store = ArchiveStore(place.settings)
    assert [store.put(archive).sha256 for _ in range(2)] == [SHA256] * 2
    store.fetch(SHA256, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == CONTENT
    archive.write_bytes(b"")
    assert store.put(archive).sha256 == hashlib.sha256(b"").hexdigest()
    for _ in range(2):
        store.replicas[0].remove(SHA256)
    with pytest.raises(StoredObjectLostError, match=f"No replica has a good copy of .* {SHA256} is missing"):
        store.fetch(SHA256, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == CONTENT
    store.close()
    assert list(place.settings.home.glob(".archive-*")) == []


def test_a_full_disk_under_dcc_home_is_not_taken_for_one_of_the_replica(
    place: Place, archive: Path, tmp_path: Path
) -> None:
    place.replica.put(SHA256, archive)
    with small_disk(tmp_path / "full", 100_000) as disk:
        store = ArchiveStore(place.settings.model_copy(update={"home": disk.path}))
        disk.fill()
        fetches: list[Callable[[], object]] = [lambda: store.fetch(SHA256, disk.path / "back")]
        if "://" in place.url:
            fetches.append(lambda: store.replicas[0].check(SHA256))
        for fetch in fetches:
            with pytest.raises(DiskFullError) as caught:
                fetch()
            assert f"The disk of {disk.path} filled up" in str(caught.value)
            assert place.url not in str(caught.value)
        disk.make_room()
        store.fetch(SHA256, disk.path / "back")
        store.close()


def test_only_what_killed_processes_left_long_ago_is_removed(place: Place, archive: Path, tmp_path: Path) -> None:
    place.replica.put(SHA256, archive)
    folder = tmp_path / "kept" / ("" if place.url.startswith("sftp") else SHA256[:2])
    parts = [folder / f".{name}.part" for name in ("old", "new")]
    if folder.exists():
        for part, age in zip(parts, (100_000, 0), strict=True):
            part.touch()
            os.utime(part, (time.time() - age, time.time() - age))
    place.replica.remove_parts()
    assert [part.exists() for part in parts] == [False, folder.exists()]
    assert place.replica.check(SHA256).state is CopyState.GOOD


def test_a_bad_copy_is_found_never_delivered_and_replaced_by_a_good_one(
    place: Place, archive: Path, tmp_path: Path
) -> None:
    replica = place.replica
    assert replica.check(SHA256).state is CopyState.MISSING
    replica.put(SHA256, archive)
    assert replica.check(SHA256).state is CopyState.GOOD
    place.overwrite(f"{SHA256[:2]}/{SHA256}", CONTENT[:-1] + b"!")
    assert replica.check(SHA256).state is CopyState.BAD
    store = ArchiveStore(place.settings)
    with pytest.raises(StoredObjectLostError, match="No replica has a good copy"):
        store.fetch(SHA256, tmp_path / "back")
    assert not (tmp_path / "back").exists()
    # To keep it again changes nothing that is there.
    assert store.put(archive).copies[place.url].state is CopyState.BAD
    assert replica.check(SHA256).state is CopyState.BAD
    replica.replace(SHA256, archive)
    assert replica.check(SHA256).state is CopyState.GOOD
    replica.remove(SHA256)
    assert replica.check(SHA256).state is CopyState.MISSING
    replica.close()


def test_a_copy_of_which_other_bytes_come_back_is_not_left_there(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a disk that fails; a copy that cannot be read once is read again."""
    (tmp_path / "kept").mkdir()
    settings = load_settings(home=tmp_path, archive_replicas=str(tmp_path / "kept"))
    with monkeypatch.context() as failing:
        failing.setattr(Directory, "put_file", lambda _self, _source, target, **_: put_other_bytes(Path(target)))
        (copy,) = ArchiveStore(settings).put(archive).copies.values()
        assert (copy.state, "other bytes came back" in (copy.reason or "")) == (CopyState.PENDING, True)
    assert [path for path in (tmp_path / "kept").rglob("*") if path.is_file()] == []
    store = ArchiveStore(settings)
    assert store.put(archive).is_stored
    digest, failures = Replica._digest, [OSError(errno.EIO, "Input/output error")]

    def once(self: Replica, files: Any, sha256: str) -> str:
        if failures:
            raise failures.pop()
        return digest(self, files, sha256)

    monkeypatch.setattr(Replica, "_digest", once)
    assert (store.replicas[0].check(SHA256).state, failures) == (CopyState.GOOD, [])


def test_a_directory_takes_no_copy_that_leaves_too_little_room(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept").mkdir()
    monkeypatch.setattr("dcc.store.archive_store.free_bytes", lambda _: len(CONTENT) + 9)
    settings = load_settings(home=tmp_path, archive_replicas=str(tmp_path / "kept"), min_free_bytes=10)
    kept = ArchiveStore(settings).put(archive)
    (copy,) = kept.copies.values()
    assert (kept.is_stored, copy.state) == (False, CopyState.PENDING)
    assert "are free, and 10 B must stay so." in (copy.reason or "")
    assert list((tmp_path / "kept").iterdir()) == []
    assert ArchiveStore(settings.model_copy(update={"min_free_bytes": 9})).put(archive).is_stored


def put_other_bytes(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"other")


@pytest.mark.servers
def test_a_replica_that_is_away_stops_nothing_unless_it_is_required(
    openssh: SftpServer, archive: Path, tmp_path: Path
) -> None:
    (tmp_path / "one").mkdir()
    away = f"sftp://{getpass.getuser()}@127.0.0.1:{free_port()}{tmp_path}/two"
    unknown = f"sftp://{getpass.getuser()}@{openssh.hostname}{tmp_path}/three"
    settings = load_settings(
        home=tmp_path,
        connect_timeout=2,
        archive_replicas=f"{tmp_path}/one, {away} optional, {unknown} optional, {tmp_path}/missing optional",
        archive_access_key=f"key:{openssh.key}",
    )
    store = ArchiveStore(settings)
    kept = store.put(archive)
    assert (kept.sha256, kept.is_stored) == (SHA256, True)
    assert [copy.state for copy in kept.copies.values()] == [CopyState.GOOD, *[CopyState.PENDING] * 3]
    assert "DCC_KNOWN_HOSTS does not" in (kept.copies[unknown].reason or "")
    with pytest.raises(StoreRefusedError, match=r"shows the host key \S+ SHA256:\S+, which DCC_KNOWN_HOSTS does not"):
        store.replicas[2].answer()
    required = ArchiveStore(settings.model_copy(update={"archive_replicas": f"{tmp_path}/one, {away}"}))
    kept = required.put(archive)
    assert (kept.is_stored, away in (kept.copies[away].reason or "")) == (False, True)
    store.fetch(SHA256, tmp_path / "back")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("s3://bucket optional", "must not be optional"),
        ("sftp://user:secret@host/path", "without a password"),
        ("sftp://host/path", "such as sftp://user@host/path"),
        ("sftp://user@host", "such as sftp://user@host/path"),
        ("ftp://host/path", "of a kind that no store is: write s3://bucket/prefix, sftp://user@host/path or the path"),
        ("/" + "x" * 255, "255 characters"),
    ],
)
def test_an_unusable_replica_is_refused_without_its_password(given: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        load_settings(archive_replicas=given)
    assert "secret" not in str(caught.value)
