"""The staging area: archives stand under their names only when whole, and parts are gone on with only if they fit."""

import os
import shutil
import stat
from collections import namedtuple
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcc.errors import BadFileNameError, DiskFullError, SizeMismatchError
from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.store.staging import PartOrigin, Staging, remove_leftovers

KEY = SubmissionKey(Action.ADD, "H.2013-10-31.1.impc.zip")
OTHER = SubmissionKey(Action.ADD, "H.2013-10-31.2.impc.zip")
ORIGIN = PartOrigin(source_id=3, size_bytes=10, modified=1_400_000_000)

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    made = Staging(tmp_path / "staging")
    made.prepare(KEY)
    return made


def _half_received(staging: Staging, origin: PartOrigin = ORIGIN, content: bytes = b"01234") -> None:
    os.close(staging.begin_part(KEY))
    staging.note_origin(KEY, origin)
    staging.part(KEY).write_bytes(content)


def test_archives_lie_by_action_with_their_contents_and_parts_beside_them_for_this_user_only(staging: Staging) -> None:
    archive = staging.archive(KEY)
    assert archive == staging.root / "add" / "H.2013-10-31.1.impc.zip"
    assert staging.contents(KEY) == archive.parent / "H.2013-10-31.1.impc.zip.contents"
    assert staging.part(KEY) == archive.parent / "H.2013-10-31.1.impc.zip.part"
    assert staging.archive(SubmissionKey(Action.EDIT, KEY.file_name)).parent == staging.root / "edit"
    for directory in (staging.root, staging.root / "add"):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    staging.prepare(KEY)
    os.close(staging.begin_part(KEY))
    assert staging.part(KEY).stat().st_mode & 0o111 == 0, "What centres send is no program."


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x.zip", "/etc/passwd", "sub/x.zip", "..\\x.zip", "C:\\x.zip", "x\0.zip", "x/.."]
)
def test_a_name_that_leads_elsewhere_is_refused(name: str, staging: Staging) -> None:
    key = SubmissionKey(Action.ADD, name)
    for path in (staging.archive, staging.contents, staging.part):
        with pytest.raises(BadFileNameError, match="cannot be the name of a file in staging"):
            path(key)


@given(st.text(max_size=60))
def test_whatever_the_name_its_archive_lies_right_below_its_action(name: str) -> None:
    staging = Staging(Path("/staging"))
    try:
        path = staging.archive(SubmissionKey(Action.ADD, name))
    except BadFileNameError:
        assert name in {"", ".", ".."} or set(name) & set("/\\\0")
    else:
        assert path.parent == Path("/staging/add")
        assert Path(os.path.normpath(path)) == path


class TestParts:
    @pytest.mark.parametrize("unknown", [PartOrigin(3, None, None), PartOrigin(3, 10, None), PartOrigin(3, None, 1)])
    def test_without_size_or_time_nothing_is_gone_on_with(self, unknown: PartOrigin, staging: Staging) -> None:
        _half_received(staging, unknown)
        assert staging.resumable(KEY, unknown) == 0

    @pytest.mark.parametrize("note", [b"", b"{", b"\xff\xfe", b"[]", b"null", b'"x"', b'{"source_id": 3}'])
    def test_a_part_whose_origin_cannot_be_read_is_begun_anew(self, note: bytes, staging: Staging) -> None:
        _half_received(staging)
        staging.part(KEY).with_name(f"{KEY.file_name}.part.json").write_bytes(note)
        assert staging.resumable(KEY, ORIGIN) == 0

    def test_a_part_larger_than_its_origin_is_begun_anew(self, staging: Staging) -> None:
        for received, resumed in ((10, 10), (11, 0)):
            _half_received(staging, content=b"0" * received)
            assert staging.resumable(KEY, ORIGIN) == resumed

    def test_parts_of_one_name_under_two_actions_are_apart(self, staging: Staging) -> None:
        edit = SubmissionKey(Action.EDIT, KEY.file_name)
        staging.prepare(edit)
        _half_received(staging)
        assert staging.resumable(edit, ORIGIN) == 0
        staging.drop_part(edit)
        assert staging.resumable(KEY, ORIGIN) == 5
        staging.drop_part(KEY)
        assert list((staging.root / "add").iterdir()) == []


class TestFinishing:
    def test_it_takes_the_place_of_an_earlier_archive_and_its_contents(self, staging: Staging) -> None:
        staging.archive(KEY).write_bytes(b"old")
        staging.contents(KEY).mkdir()
        (staging.contents(KEY) / "old.xml").write_bytes(b"<old/>")
        _half_received(staging, content=b"0123456789")
        staging.finish_part(KEY)
        assert staging.archive(KEY).read_bytes() == b"0123456789"
        assert list((staging.root / "add").iterdir()) == [staging.archive(KEY)]

    def test_an_archive_is_known_again_by_its_size_and_checksum(self, staging: Staging) -> None:
        assert not staging.holds(KEY, 3, None)
        staging.archive(KEY).write_bytes(b"abc")
        assert staging.holds(KEY, 3, None)
        assert staging.holds(KEY, 3, "900150983cd24fb0d6963f7d28e17f72")
        assert not staging.holds(KEY, 4, None)
        assert not staging.holds(KEY, 3, "0" * 32)


class TestRoom:
    """Enough free disk is checked before a download starts."""

    @pytest.fixture
    def free(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
        disk = {"bytes": 1_000}
        monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10_000, 0, disk["bytes"]))
        return disk

    def test_what_does_not_fit_is_refused_with_what_is_needed_and_free(
        self, tmp_path: Path, free: dict[str, int]
    ) -> None:
        staging = Staging(tmp_path, min_free_bytes=400)
        with staging.room_for(KEY, 600):
            pass
        with (
            pytest.raises(DiskFullError, match=r"add/H\.2013.* needs 601 B .* 1 kB are free and 400 B must stay so"),
            staging.room_for(KEY, 601),
        ):
            pytest.fail("began")

    def test_what_no_such_disk_could_hold_is_a_fault_of_the_source(self, tmp_path: Path, free: dict[str, int]) -> None:
        """A server may list any size; nobody can free so much."""
        with (
            pytest.raises(SizeMismatchError, match=r"add/H\.2013.* 10 kB .* 10 kB in all"),
            Staging(tmp_path).room_for(KEY, 10_001),
        ):
            pytest.fail("began")

    def test_transfers_under_way_together_do_not_promise_the_same_bytes_twice_and_give_them_back(
        self, tmp_path: Path, free: dict[str, int]
    ) -> None:
        staging = Staging(tmp_path)
        with staging.room_for(KEY, 600):
            with pytest.raises(DiskFullError, match=r"needs 500 B .* 400 B are free"), staging.room_for(OTHER, 500):
                pytest.fail("began")
            with staging.room_for(OTHER, 400):
                pass
        for fault in (None, RuntimeError("broke")):
            with suppress(RuntimeError), staging.room_for(KEY, 900) as written:
                written(300)
                with pytest.raises(DiskFullError, match=r" 400 B are free"), staging.room_for(OTHER, 401):
                    pytest.fail("began")
                if fault is not None:
                    raise fault
        with staging.room_for(OTHER, 1_000):
            pass

    def test_what_is_larger_than_announced_ends_where_it_would_fill_the_disk(
        self, tmp_path: Path, free: dict[str, int]
    ) -> None:
        with Staging(tmp_path, min_free_bytes=400).room_for(KEY, 600) as written:
            written(600 + 64 * 1024 * 1024)
            free["bytes"] = 399
            written(64 * 1024 * 1024 - 1)
            with pytest.raises(DiskFullError, match=r"add/H\.2013.* is larger than announced, and 399 B are free"):
                written(1)


def test_half_written_contents_of_a_killed_session_are_removed_and_nothing_else(staging: Staging) -> None:
    add = staging.root / "add"
    (add / f".{KEY.file_name}.contents.unpacking-abc" / "deep").mkdir(parents=True)
    (add / f".{OTHER.file_name}.contents.unpacking-def").mkdir()
    staging.archive(KEY).write_bytes(b"whole")
    staging.contents(KEY).mkdir()
    _half_received(staging)
    before = {path.name for path in add.iterdir() if not path.name.startswith(".")}
    assert remove_leftovers(staging.root, lambda name: name not in (KEY.file_name, OTHER.file_name)) == 0, "of others"
    assert remove_leftovers(staging.root) == 2
    assert {path.name for path in add.iterdir()} == before
    assert remove_leftovers(staging.root) == 0
    assert remove_leftovers(staging.root / "not there") == 0
