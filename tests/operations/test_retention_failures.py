"""Cleaning that fails half way, or meets another cleaning or a session: nothing goes that is not recorded."""

import sqlite3
from contextlib import suppress
from pathlib import Path

import pymysql
import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from dcc.errors import SessionActiveError
from dcc.operations.retention import cleanup
from dcc.operations.retention.cleanup import CleaningResult, Policy, clean, review_staging
from dcc.operations.retention.staged_files import RemovalDirectories, read_staging
from dcc.operations.sessions import open_session
from dcc.outcomes import ZipKey
from dcc.phases import Phase
from dcc.store.staging import remove_leftovers
from dcc.tracker.queries.zip_stories import zip_story
from tests.support.asking import in_reading
from tests.support.data_installations import DataInstallation, key_of
from tests.support.databases import only_sqlite
from tests.support.installations import Installation
from tests.support.prepared_installations import PreparedInstallations
from tests.support.raising import raising

ZIP = "add/H.2013-10-31.1.impc.zip"
KEY = key_of(ZIP)
WHOLE = {ZIP: b"no zip", f"{ZIP}.contents/a.xml": b"<a/>"}
AT_ONCE = Policy(keep_days=0, keep_failed_days=0, keep_part_days=0, phase=Phase.DATA)


def fail(data: DataInstallation) -> None:
    """Have an archive that failed, with something beside it, all of which may go."""
    data.folder.put(ZIP, WHOLE[ZIP])
    data.validate()
    contents = data.settings.staging_directory / f"{ZIP}.contents"
    contents.mkdir()
    (contents / "a.xml").write_bytes(WHOLE[f"{ZIP}.contents/a.xml"])


@pytest.fixture
def failed(data: DataInstallation, prepared_installations: PreparedInstallations) -> Installation:
    prepared_installations.begin(data, fail)
    return data.base


def _clean(made: Installation) -> CleaningResult:
    return clean(made.tracker, made.settings, AT_ONCE, review_staging(made.tracker, made.settings, AT_ONCE))


def _removals(tracker: Engine, key: ZipKey = KEY) -> int:
    return len(in_reading(tracker, zip_story, key).removals)


def _contention(engine: Engine) -> Exception:
    if engine.dialect.name == "sqlite":
        locked = sqlite3.OperationalError("database is locked")
        locked.sqlite_errorcode = sqlite3.SQLITE_BUSY
        return OperationalError("INSERT", {}, locked)
    return OperationalError("INSERT", {}, pymysql.err.OperationalError(1213, "Deadlock found"))


def test_what_could_not_be_recorded_is_where_it_was(failed: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        assert failed.staged().keys() != WHOLE.keys()
        raise ZeroDivisionError

    monkeypatch.setattr(cleanup, "insert_rows", broken)
    with pytest.raises(ZeroDivisionError):
        _clean(failed)
    assert failed.staged() == WHOLE
    assert list((failed.settings.staging_directory / "add").glob(".*")) == []
    assert _removals(failed.tracker) == 0
    monkeypatch.undo()
    _clean(failed)
    assert failed.staged() == {}
    assert _removals(failed.tracker) == 1


def test_a_session_that_began_while_the_database_was_away_finds_the_archive(
    failed: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        monkeypatch.setattr(cleanup, "refuse_during_session", raising(SessionActiveError("Session 2 is active.")))
        raise _contention(failed.tracker)

    monkeypatch.setattr(cleanup, "insert_rows", lost)
    with pytest.raises(SessionActiveError):
        _clean(failed)
    assert failed.staged() == WHOLE
    assert _removals(failed.tracker) == 0


def test_what_may_not_go_any_more_when_the_database_is_back_stays(
    failed: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        monkeypatch.undo()
        monkeypatch.setattr(cleanup, "known_archives", lambda *_: {})
        raise _contention(failed.tracker)

    monkeypatch.setattr(cleanup, "insert_rows", lost)
    cleaned = _clean(failed)
    assert (cleaned.removed, cleaned.changed) == ([], [ZIP])
    assert failed.staged() == WHOLE


class TestPuttingBack:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        root = tmp_path / "staging"
        (root / "add" / "x.zip.contents").mkdir(parents=True)
        (root / "add" / "x.zip").write_bytes(b"old")
        (root / "add" / "x.zip.contents" / "a.xml").write_bytes(b"old")
        (root / "add" / "y.zip").symlink_to("nowhere")
        (root / "notes").write_bytes(b"old")
        return root

    def _take_all(self, root: Path, aside: RemovalDirectories) -> None:
        for staged in read_staging(root):
            assert aside.take(staged.entries) == list(staged.entries)
        assert [path.name for path in root.iterdir() if not path.name.startswith(".")] == ["add"]

    def test_all_is_as_it_was_links_too(self, root: Path) -> None:
        before = {path: path.lstat().st_ino for path in root.rglob("*")}
        with suppress(ZeroDivisionError), RemovalDirectories(root) as aside:
            self._take_all(root, aside)
            raise ZeroDivisionError
        assert {path: path.lstat().st_ino for path in root.rglob("*")} == before

    def test_what_came_in_its_place_is_not_replaced_and_the_old_one_goes_like_a_left_over(
        self, root: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with suppress(ZeroDivisionError), RemovalDirectories(root) as aside:
            self._take_all(root, aside)
            (root / "add" / "x.zip").write_bytes(b"new")
            (root / "add" / "x.zip.contents").mkdir()
            (root / "add" / "x.zip.contents" / "b.xml").write_bytes(b"new")
            raise ZeroDivisionError
        assert (root / "add" / "x.zip").read_bytes() == b"new"
        assert [path.name for path in (root / "add" / "x.zip.contents").iterdir()] == ["b.xml"]
        assert (root / "notes").read_bytes() == b"old"
        assert (root / "add" / "y.zip").is_symlink()
        assert "x.zip, x.zip.contents" in caplog.text
        assert remove_leftovers(root) == 1
        assert list(root.rglob(".*")) == []


@only_sqlite
def test_a_session_that_begins_leaves_alone_what_is_being_removed(
    failed: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = RemovalDirectories._remove

    def beside_session(self: RemovalDirectories) -> None:
        with open_session(failed.tracker, failed.settings):
            assert remove_leftovers(failed.settings.staging_directory) == 0
        remove(self)

    monkeypatch.setattr(RemovalDirectories, "_remove", beside_session)
    assert len(_clean(failed).removed) == 1
    assert failed.staged() == {}
    assert list((failed.settings.staging_directory / "add").iterdir()) == []
