"""The MD5 of an archive: taken once, where it is opened or compared, and recorded whatever comes of the archive."""

from __future__ import annotations

import errno
import hashlib
import signal
from collections.abc import Callable
from typing import Any, BinaryIO

import pytest
from sqlalchemy import select

from dcc.cli.demo import submissions
from dcc.errors import TransferFailedError
from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.sources.folder import LocalConnection
from dcc.tracker.database import writing
from dcc.tracker.hostings.retries import reopen_named
from dcc.tracker.models import Reopening, ZipFile, ZipLog
from tests.session.test_crash_recovery import run_dying
from tests.support.databases import only_sqlite
from tests.support.installations import Folder, Installation, specimens

NAME = "H.2013-10-31.1.impc.zip"
KEY = f"add/{NAME}"
BEFORE_THE_CHECKSUM = "before a checksum is taken"


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of which a checksum was taken, by name."""
    names: list[str] = []
    digest = hashlib.file_digest

    def noting(file: BinaryIO, algorithm: Callable[[], Any]) -> Any:
        names.append(str(file.name).rpartition("/")[2])
        return digest(file, algorithm)

    monkeypatch.setattr(hashlib, "file_digest", noting)
    return names


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offsets from which archives were fetched."""
    offsets: list[int] = []
    fetch = LocalConnection.fetch

    def noting(self: LocalConnection, *arguments: Any, offset: int = 0, **named: Any) -> None:
        offsets.append(offset)
        fetch(self, *arguments, offset=offset, **named)

    monkeypatch.setattr(LocalConnection, "fetch", noting)
    return offsets


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def recorded(installation: Installation) -> list[tuple[int | None, str | None]]:
    """Size and MD5 of each archive in the tracker."""
    with installation.tracker.connect() as connection:
        return [tuple(row) for row in connection.execute(select(ZipFile.size_bytes, ZipFile.content_md5))]


def faults(installation: Installation) -> list[str]:
    with installation.tracker.connect() as connection:
        return list(connection.scalars(select(ZipLog.message)))


@pytest.mark.parametrize(
    ("content", "state"),
    [
        pytest.param(submissions.archive(specimens()), "xsd done", id="good"),
        pytest.param(b"no zip at all", "unzip failed", id="no zip"),
        pytest.param(b"", "unzip failed", id="empty"),
        pytest.param(submissions.archive({"readme.txt": b"hello"}), "unzip failed", id="nothing inside"),
    ],
)
def test_it_is_taken_once_and_recorded_of_good_archives_and_bad(
    installation: Installation, folder: Folder, hashed: list[str], content: bytes, state: str
) -> None:
    folder.put(KEY, content)

    outcome = installation.run_session().zips[KEY]

    assert installation.states() == {KEY: state}
    assert (outcome.size_bytes, outcome.md5) == (len(content), md5(content))
    assert recorded(installation) == [(len(content), md5(content))]
    assert hashed == [NAME]


@only_sqlite
@pytest.mark.parametrize("content", [submissions.archive(specimens()), b"no zip at all"], ids=["good", "bad"])
def test_what_was_compared_with_the_centre_s_is_not_taken_again(
    installation: Installation, folder: Folder, hashed: list[str], content: bytes
) -> None:
    folder.put(KEY, content)
    (folder.path / f"{KEY}.md5").write_text(f"{md5(content)}  {NAME}\n")

    assert installation.run_session().zips[KEY].md5 == md5(content)

    assert recorded(installation) == [(len(content), md5(content))]
    assert hashed == [f"{NAME}.part"]


@only_sqlite
def test_an_archive_with_another_than_the_centre_published_has_none_recorded(
    installation: Installation, folder: Folder, hashed: list[str]
) -> None:
    folder.put(KEY)
    (folder.path / f"{KEY}.md5").write_text(f"{'0' * 32}  {NAME}\n")

    outcome = installation.with_settings(max_retries=1).run_session().zips[KEY]

    assert installation.states() == {KEY: "zip_md5 failed"}
    assert (outcome.md5, [found for _, found in recorded(installation)]) == (None, [None])
    assert hashed == [f"{NAME}.part"], "the copy is not fetched again while it is the same"


@only_sqlite
def test_of_an_archive_that_came_in_two_attempts_it_is_that_of_the_whole(
    installation: Installation, folder: Folder, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = folder.put(KEY)
    fetch, offsets = LocalConnection.fetch, []

    def breaking(self: Any, action: Any, name: str, sink: Any, *, offset: int = 0, **named: Any) -> None:
        offsets.append(offset)
        if not offset:
            sink(content[:10])
            raise TransferFailedError("broke off")
        fetch(self, action, name, sink, offset=offset, **named)

    monkeypatch.setattr(LocalConnection, "fetch", breaking)
    assert installation.run_session().zips[KEY].succeeded
    assert offsets == [0, 10]
    assert recorded(installation) == [(len(content), md5(content))]
    assert hashed == [NAME]


@only_sqlite
def test_one_in_two_attempts_is_fetched_whole_before_its_centre_is_blamed_when_the_checksum_listed_is_gone(
    installation: Installation, folder: Folder, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = folder.put(KEY)
    (folder.path / f"{KEY}.md5").write_text(f"{md5(content)}  {NAME}\n")
    fetch, offsets = LocalConnection.fetch, []

    def breaking(self: Any, action: Any, name: str, sink: Any, *, offset: int = 0, **named: Any) -> None:
        offsets.append(offset)
        if len(offsets) == 1:
            sink(b"#" * 10)
            raise TransferFailedError("broke off")
        fetch(self, action, name, sink, offset=offset, **named)

    monkeypatch.setattr(LocalConnection, "fetch", breaking)
    monkeypatch.setattr(LocalConnection, "read_md5", lambda *_: None)
    assert installation.run_session().zips[KEY].succeeded
    assert offsets == [0, 10, 0]
    assert recorded(installation) == [(len(content), md5(content))]
    assert hashed == [NAME] * 2


@pytest.fixture
def killed(installation: Installation) -> Callable[[], None]:
    """Runs a session that is killed when the arrival of its archive is recorded and no MD5 is."""

    def run() -> None:
        assert run_dying(installation.settings, BEFORE_THE_CHECKSUM) == -signal.SIGKILL
        assert installation.states() == {KEY: "unzip running"}
        assert [found for _, found in recorded(installation)] == [None]

    return run


def test_a_kill_before_it_is_taken_costs_no_download(
    installation: Installation, folder: Folder, killed: Callable[[], None], hashed: list[str], fetched: list[int]
) -> None:
    content = folder.put(KEY)
    killed()

    assert installation.run_session().zips[KEY].succeeded

    assert recorded(installation) == [(len(content), md5(content))]
    assert fetched == []
    assert hashed == [NAME] * 2, "first to see whether it can be read"
    assert installation.attempts(KEY) == [(folder.source_id, "xsd done")]


@only_sqlite
def test_that_of_an_earlier_content_is_not_taken_for_that_of_one_just_arrived(
    installation: Installation, folder: Folder, killed: Callable[[], None], fetched: list[int]
) -> None:
    folder.put(KEY, b"no zip at all")
    installation.run_session()
    assert recorded(installation) == [(13, md5(b"no zip at all"))]
    fetched.clear()
    content = folder.put(KEY)
    with writing(installation.tracker) as connection:
        reopen_named(connection, [ZipKey(Action.ADD, NAME)], "Ada")
    killed()

    assert installation.run_session().zips[KEY].succeeded

    assert recorded(installation) == [(len(content), md5(content))]
    assert fetched == []


def test_an_archive_that_lost_bytes_before_it_was_taken_is_fetched_anew_before_the_centre_is_blamed(
    installation: Installation, folder: Folder, killed: Callable[[], None], fetched: list[int]
) -> None:
    """A machine that loses its power may leave a file of the right size without what was written to it."""
    content = folder.put(KEY)
    killed()
    staged = installation.settings.staging_directory / KEY
    staged.write_bytes(bytes(len(content)))

    outcome = installation.run_session().zips[KEY]

    assert outcome.succeeded
    assert (outcome.reasons, faults(installation)) == ((), [])
    assert fetched == [0]
    assert staged.read_bytes() == content
    assert recorded(installation) == [(len(content), md5(content))]
    assert installation.attempts(KEY) == [(folder.source_id, "unzip cancelled"), (folder.source_id, "xsd done")]
    with installation.tracker.connect() as connection:
        assert list(connection.scalars(select(Reopening.reason))) == [
            "The archive in staging was damaged, perhaps not when it arrived."
        ]


@only_sqlite
def test_one_that_the_disk_does_not_give_back_is_fetched_anew(
    installation: Installation,
    folder: Folder,
    killed: Callable[[], None],
    fetched: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = folder.put(KEY)
    killed()
    digest = hashlib.file_digest

    def failing(file: BinaryIO, algorithm: Callable[[], Any]) -> Any:
        if not fetched:
            raise OSError(errno.EIO, "Input/output error")
        return digest(file, algorithm)

    monkeypatch.setattr(hashlib, "file_digest", failing)
    assert installation.run_session().zips[KEY].succeeded
    assert fetched == [0]
    assert recorded(installation) == [(len(content), md5(content))]


@only_sqlite
def test_one_that_is_bad_at_its_centre_is_said_to_be_so_once(
    installation: Installation, folder: Folder, killed: Callable[[], None]
) -> None:
    folder.put(KEY, b"no zip at all")
    killed()

    outcome = installation.run_session().zips[KEY]

    assert installation.states() == {KEY: "unzip failed"}
    assert [reason.kind for reason in outcome.reasons] == ["CorruptArchiveError"]
    assert faults(installation) == [outcome.reasons[0].message]
    assert outcome.md5 == md5(b"no zip at all")
    assert installation.attempts(KEY) == [(folder.source_id, "unzip cancelled"), (folder.source_id, "unzip failed")]


@only_sqlite
def test_one_that_no_source_has_any_more_waits(
    installation: Installation, folder: Folder, killed: Callable[[], None]
) -> None:
    content = folder.put(KEY)
    killed()
    (installation.settings.staging_directory / KEY).write_bytes(bytes(len(content)))
    (folder.path / KEY).unlink()

    assert installation.run_session().zips == {}

    assert installation.states() == {KEY: "zip_name done"}
    folder.put(KEY)
    assert installation.run_session().zips[KEY].succeeded
