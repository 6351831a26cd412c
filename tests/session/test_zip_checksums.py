"""The MD5 of an archive: taken once, where it is opened or compared, and recorded whatever comes of the archive."""

import hashlib
from collections.abc import Callable
from typing import Any, BinaryIO

import pytest
from sqlalchemy import select

from dcc.cli.demo import submissions
from dcc.tracker.models import Reopening, ZipFile, ZipLog
from tests.support import dying_session
from tests.support.asking import column_in, rows_in
from tests.support.databases import only_sqlite
from tests.support.installations import Fetches, Folder, Installation, md5, specimens
from tests.support.prepared_processes import run_dying

NAME = "H.2013-10-31.1.impc.zip"
KEY = f"add/{NAME}"


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of which an MD5 was taken, by name."""
    names: list[str] = []
    digest = hashlib.file_digest

    def noting(file: BinaryIO, algorithm: str | Callable[[], Any]) -> Any:
        if algorithm != "sha256":
            names.append(str(file.name).rpartition("/")[2])
        return digest(file, algorithm)

    monkeypatch.setattr(hashlib, "file_digest", noting)
    return names


def recorded(installation: Installation) -> list[tuple[int | None, str | None]]:
    """Size and MD5 of each archive in the tracker."""
    return [tuple(row) for row in rows_in(installation.tracker, select(ZipFile.size_bytes, ZipFile.content_md5))]


def test_it_is_taken_once_and_recorded_of_good_archives_and_bad(
    installation: Installation, folder: Folder, hashed: list[str]
) -> None:
    contents = [submissions.archive(specimens()), b"no zip at all", b"", submissions.archive({"readme.txt": b"hello"})]
    names = [f"H.2013-10-31.{inc}.impc.zip" for inc, _ in enumerate(contents)]
    for name, content in zip(names, contents, strict=True):
        folder.put(f"add/{name}", content)

    outcomes = installation.run_session().zips

    assert [installation.states()[f"add/{name}"] for name in names] == ["xsd done", *["unzip failed"] * 3]
    expected = [(len(content), md5(content)) for content in contents]
    assert [(outcomes[f"add/{name}"].size_bytes, outcomes[f"add/{name}"].md5) for name in names] == expected
    assert sorted(map(str, recorded(installation))) == sorted(map(str, expected))
    assert sorted(hashed) == names


@only_sqlite
def test_of_an_archive_that_came_in_two_attempts_it_is_that_of_the_whole(
    installation: Installation, folder: Folder, hashed: list[str], fetches: Fetches
) -> None:
    content = folder.put(KEY)
    fetches.break_off["centre"] = 1
    assert installation.run_session().zips[KEY].succeeded
    assert fetches.offsets == [0, 10]
    assert recorded(installation) == [(len(content), md5(content))]
    assert hashed == [NAME]


@pytest.fixture
def killed(installation: Installation) -> Callable[[], None]:
    """Runs a session that is killed when the arrival of its archive is recorded and no MD5 is."""

    def run() -> None:
        run_dying(dying_session.main, "before a checksum is taken", installation.settings)
        assert installation.states() == {KEY: "unzip running"}
        assert [found for _, found in recorded(installation)] == [None]

    return run


def test_a_kill_before_it_is_taken_costs_no_download(
    installation: Installation, folder: Folder, killed: Callable[[], None], hashed: list[str], fetches: Fetches
) -> None:
    content = folder.put(KEY)
    killed()

    assert installation.run_session().zips[KEY].succeeded

    assert recorded(installation) == [(len(content), md5(content))]
    assert fetches.offsets == []
    assert hashed == [NAME] * 2, "first to see whether it can be read"
    assert installation.attempts(KEY) == [(folder.source_id, "xsd done")]


def test_an_archive_that_lost_bytes_before_it_was_taken_is_fetched_anew_before_the_centre_is_blamed(
    installation: Installation, folder: Folder, killed: Callable[[], None], fetches: Fetches
) -> None:
    """A machine that loses its power may leave a file of the right size without what was written to it."""
    content = folder.put(KEY)
    killed()
    staged = installation.settings.staging_directory / KEY
    staged.write_bytes(bytes(len(content)))

    outcome = installation.run_session().zips[KEY]

    assert outcome.succeeded
    assert (outcome.reasons, column_in(installation.tracker, select(ZipLog.message))) == ((), [])
    assert fetches.offsets == [0]
    assert staged.read_bytes() == content
    assert recorded(installation) == [(len(content), md5(content))]
    assert installation.attempts(KEY) == [(folder.source_id, "unzip cancelled"), (folder.source_id, "xsd done")]
    assert column_in(installation.tracker, select(Reopening.reason)) == [
        "The archive in staging was damaged, perhaps not when it arrived."
    ]
