"""Extraction of archives: what is taken, what is left aside and said so, how it lands on the disk, what is refused."""

import errno
import hashlib
import io
import os
import shutil
import stat
import struct
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcc.archives import extraction
from dcc.archives.extraction import ExtractedArchive, archive_members, extract_archive
from dcc.archives.limits import Allowance, ArchiveLimits
from dcc.errors import (
    ArchiveError,
    CorruptArchiveError,
    DiskFullError,
    DuplicateMemberError,
    EmptyArchiveError,
    EncryptedArchiveError,
    OversizedArchiveError,
)
from dcc.naming import NamingConvention
from dcc.store.staging import remove_leftovers
from tests.hostile.compounds import BOMBS, EXPERIMENT, HOSTILE_TARS, SPECIMEN, Members, packed, tarred, zipped
from tests.support.memory import little_memory
from tests.support.raising import raising
from tests.support.trials import trials

ARCHIVE = "J.2013-10-31.1.impc.zip"
LIMITS = ArchiveLimits(max_bytes=10**8, max_ratio=200, max_entries=100)


def extract(directory: Path, content: bytes, name: str = ARCHIVE, limits: ArchiveLimits = LIMITS) -> ExtractedArchive:
    """Put an archive with this content into a directory and extract it to `contents` there."""
    path = directory / name
    path.write_bytes(content)
    target = directory / "contents"
    return extract_archive(path, target, limits=limits, naming=NamingConvention(), centres={"J", "H"})


def refuse(directory: Path, content: bytes, error: type[Exception], said: str, limits: ArchiveLimits = LIMITS) -> None:
    """The archive is refused by its name, and nothing of it is left on the disk."""
    with pytest.raises(error) as caught:
        extract(directory, content, limits=limits)
    assert said in str(caught.value)
    assert ARCHIVE in str(caught.value)
    assert tree(directory) == {ARCHIVE}


def tree(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


def test_every_entry_is_accounted_for(tmp_path: Path) -> None:
    members = {
        EXPERIMENT: b"<a/>",
        "notes.txt": b"x",
        "folder/": b"",
        "copy of " + SPECIMEN: b"<b/>",
        SPECIMEN: b"<c/>",
        "__MACOSX/._x": b"",
        "H.2013-10-31.3.SPECIMEN.impc.xml": b"ee",
        "OTHER.XML": b"",
    }
    found = extract(tmp_path, zipped(members))
    assert [document.name.file_name for document in found.documents] == [SPECIMEN, EXPERIMENT]
    assert [(name, size) for name, size, _ in found.refused] == [
        ("copy of " + SPECIMEN, 4),
        ("H.2013-10-31.3.SPECIMEN.impc.xml", 2),
        ("OTHER.XML", 0),
    ]
    assert all("Rename" in reason.message for _, _, reason in found.refused)
    assert dict(found.ignored) == {
        "notes.txt": "no .xml document and no table, such as specimens.csv or experiments.csv",
        "__MACOSX/._x": "made by macOS; no document",
    }
    assert tree(tmp_path) == {ARCHIVE, "contents", f"contents/{SPECIMEN}", f"contents/{EXPERIMENT}"}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_all_usual_compression_methods_are_read(tmp_path: Path, method: int) -> None:
    """Documents come with their size and checksum."""
    content = b"<a>some text</a>\n" * 50_000
    (document,) = extract(tmp_path, zipped({SPECIMEN: content}, method)).documents
    assert document.path.read_bytes() == content
    assert (document.size_bytes, document.md5) == (len(content), hashlib.md5(content).hexdigest())


def test_documents_are_private_to_the_user(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        (document,) = extract(tmp_path, zipped({SPECIMEN: b"<a/>"})).documents
    finally:
        os.umask(old)
    assert stat.S_IMODE(document.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(document.path.parent.stat().st_mode) == 0o700


def test_an_earlier_extraction_is_replaced_whole(tmp_path: Path) -> None:
    extract(tmp_path, zipped({SPECIMEN: b"<a/>", EXPERIMENT: b"<a/>"}))
    extract(tmp_path, zipped({EXPERIMENT: b"<b/>"}))
    assert tree(tmp_path) == {ARCHIVE, "contents", f"contents/{EXPERIMENT}"}
    assert (tmp_path / "contents" / EXPERIMENT).read_bytes() == b"<b/>"


def test_a_failed_extraction_leaves_the_earlier_one_and_nothing_else(tmp_path: Path) -> None:
    extract(tmp_path, zipped({SPECIMEN: b"<a>first</a>"}))
    before = tree(tmp_path)
    damaged = zipped({EXPERIMENT: b"<b/>", SPECIMEN: b"<a>again</a>"}, zipfile.ZIP_STORED).replace(b"again", b"other")
    with pytest.raises(CorruptArchiveError, match="CRC"):
        extract(tmp_path, damaged)
    assert tree(tmp_path) == before
    assert (tmp_path / "contents" / SPECIMEN).read_bytes() == b"<a>first</a>"


def test_what_a_killed_extraction_leaves_is_found_by_the_clean_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "add"
    directory.mkdir()
    monkeypatch.setattr(extraction, "_put_in_place", raising(KeyboardInterrupt))
    monkeypatch.setattr(shutil, "rmtree", lambda *_args, **_keywords: None)
    with pytest.raises(KeyboardInterrupt):
        extract(directory, zipped({SPECIMEN: b"<a/>"}))
    monkeypatch.undo()
    assert len(tree(directory)) == 3
    assert remove_leftovers(tmp_path) == 1
    assert tree(directory) == {ARCHIVE}


def test_many_ignored_entries_are_counted_not_listed(tmp_path: Path) -> None:
    members = {SPECIMEN: b"<a/>"} | {f"{n}.txt": b"" for n in range(250)}
    ignored = extract(tmp_path, zipped(members), limits=replace(LIMITS, max_entries=1000)).ignored
    assert len(ignored) == 101
    assert ignored[-1][0] == "further entries: 150"


def test_a_disk_without_room_is_noticed_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=5000))
    members = {SPECIMEN: b"<a/>" * 400, EXPERIMENT: b"<a/>" * 325, "in.zip": zipped({THIRD: b"<a/>" * 60})}
    with pytest.raises(DiskFullError, match=r"to 3(\.1)? kB; .* 5 kB free.* 2 kB must"):
        extract(tmp_path, zipped(members), limits=replace(LIMITS, min_free_bytes=2000))
    assert tree(tmp_path) == {ARCHIVE}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    real_open = os.open

    def fail_second(place: Path, flags: int, mode: int = 0o777, **keywords: int) -> int:
        if str(place).endswith(EXPERIMENT):
            raise OSError(code, os.strerror(code))
        return real_open(place, flags, mode, **keywords)

    monkeypatch.setattr(os, "open", fail_second)
    refuse(
        tmp_path,
        zipped({SPECIMEN: b"<a/>", EXPERIMENT: b"<a/>"}),
        DiskFullError,
        f"disk of {tmp_path} filled up while {ARCHIVE}",
    )


LARGE = {SPECIMEN: b"<a>" + b"x" * 5_000 + b"</a>"}


def test_what_a_disk_takes_in_pieces_is_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:999]))
    (document,) = extract(tmp_path, zipped(LARGE)).documents
    assert document.path.read_bytes() == LARGE[SPECIMEN]


@pytest.mark.parametrize("taken", [0, 4_096])
def test_a_disk_that_takes_a_part_and_then_nothing_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    write, left = os.write, [taken]

    def fill_up(file: int, data: memoryview) -> int:
        written = write(file, data[: left[0]]) if left[0] else 0
        left[0] -= written
        return written

    monkeypatch.setattr(os, "write", fill_up)
    refuse(tmp_path, zipped(LARGE), DiskFullError, "filled up")


def test_a_missing_archive_is_no_fault_of_the_centre(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        extract_archive(
            tmp_path / ARCHIVE, tmp_path / "contents", limits=LIMITS, naming=NamingConvention(), centres={"J"}
        )


CONTENTS = {SPECIMEN: b"<a>" + b"text " * 200 + b"</a>", EXPERIMENT: b"<b/>", "notes.txt": b"n", "x.xml": b"<x/>"}


@settings(max_examples=trials(300))
@given(data=st.data(), method=st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA]))
def test_a_damaged_archive_is_refused_or_gives_the_right_documents(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, method: int
) -> None:
    directory = tmp_path_factory.mktemp("damaged")
    content = bytearray(zipped(CONTENTS, method))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))
    try:
        found = extract(directory, bytes(content[:cut]))
    except ArchiveError:
        assert not (directory / "contents").exists()
    else:
        for document in found.documents:
            assert document.path.read_bytes() == CONTENTS[document.name.file_name]
        assert tree(directory / "contents") == {document.name.file_name for document in found.documents}


def test_the_ratio_allowed_is_a_limit_of_the_installation(tmp_path: Path) -> None:
    content = zipped({SPECIMEN: bytes(2_000_000)})
    refuse(tmp_path, content, OversizedArchiveError, "more than 100 times", replace(LIMITS, max_ratio=100))
    assert len(extract(tmp_path, content, limits=replace(LIMITS, max_ratio=2000)).documents) == 1


def test_small_documents_may_repeat_themselves(tmp_path: Path) -> None:
    content = zipped({SPECIMEN: b"<value>1</value>\n" * 50_000})
    assert len(content) * 200 < 850_000
    assert len(extract(tmp_path, content).documents) == 1


def test_entries_are_counted_whatever_the_archive_says_of_their_number(tmp_path: Path) -> None:
    content = bytearray(zipped({SPECIMEN: b"<a/>", **{str(n): b"" for n in range(20)}}))
    struct.pack_into("<HH", content, len(content) - 14, 1, 1)
    refuse(tmp_path, bytes(content), OversizedArchiveError, "10 are allowed", replace(LIMITS, max_entries=10))
    refuse(tmp_path, bytes(content[-22:]), CorruptArchiveError, "its directory is cut off")


def test_a_huge_directory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """A directory of many gigabytes, here a hole in the file: reading it would take that much memory."""
    path = tmp_path / ARCHIVE
    size = 3_000_000_000
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(size)
        file.write(struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, size, 0, 0))
    with pytest.raises(OversizedArchiveError, match="directory of 3 GB"):
        extract_archive(path, tmp_path / "contents", limits=LIMITS, naming=NamingConvention(), centres={"J"})
    assert tree(tmp_path) == {ARCHIVE}


@pytest.mark.parametrize("name", [b"caf\x82", "caf\u00e9".encode()], ids=["in an old code page", "in UTF-8"])
def test_names_without_the_flag_of_utf_8_are_shown_right_and_refused(tmp_path: Path, name: bytes) -> None:
    content = zipped({SPECIMEN: b"<a/>", f"{'#' * len(name)}.xml": b"<a/>"}).replace(b"#" * len(name), name)
    assert extract(tmp_path, content).refused[0][0] == "caf\u00e9.xml"


def test_a_zip64_archive_is_read(tmp_path: Path) -> None:
    content = zipped({SPECIMEN: b"<a/>"})
    end = content.index(b"PK\x05\x06")
    count, directory_bytes, offset = struct.unpack_from("<8xH2xLL", content, end)
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, directory_bytes, offset)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1)
    sentinel = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    assert len(extract(tmp_path, content[:end] + record + locator + sentinel).documents) == 1


def test_an_archive_made_by_streaming_is_read(tmp_path: Path) -> None:
    class Pipe(io.BytesIO):
        def seek(self, *_: object) -> int:
            raise io.UnsupportedOperation

    pipe, content = Pipe(), b"<a>content</a>" * 1000
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(SPECIMEN, content)
    assert archive.getinfo(SPECIMEN).flag_bits & 8, "its size comes after it"
    assert extract(tmp_path, pipe.getvalue()).documents[0].path.read_bytes() == content


# In folders and in archives inside the archive

THIRD = "J.2013-10-31.3.experiment.impc.xml"
KINDS = [(".zip", zipped), (".tar", tarred), (".tar.gz", packed), (".tgz", packed)]


@pytest.mark.parametrize(("suffix", "make"), KINDS)
def test_an_archive_may_be_of_any_of_the_kinds(suffix: str, make: Callable[[Members], bytes], tmp_path: Path) -> None:
    found = extract(tmp_path, make({SPECIMEN: b"<a/>", "notes.txt": b"x"}), f"J.2013-10-31.1.impc{suffix}")
    (document,) = found.documents
    assert (document.path.read_bytes(), document.place, document.archives) == (b"<a/>", SPECIMEN, ())
    assert [str(path) for path, _ in found.ignored] == ["notes.txt"]
    assert NamingConvention().parse_archive_name(f"J.2013-10-31.1.impc{suffix}", {"J"}).inc == 1


@pytest.mark.parametrize(("suffix", "make"), KINDS)
def test_what_an_archive_unpacks_to_counts_once(suffix: str, make: Callable[[Members], bytes], tmp_path: Path) -> None:
    content = make({SPECIMEN: b"<a/>" * 60_000, EXPERIMENT: b"<a/>" * 40_000})
    assert extract(tmp_path, content, f"J.2013-10-31.1.impc{suffix}", ArchiveLimits(500_000, 200, 100)).documents
    with pytest.raises(OversizedArchiveError, match="more than the 400 kB that are allowed"):
        extract(tmp_path, content, f"J.2013-10-31.1.impc{suffix}", ArchiveLimits(399_999, 200, 100))


@pytest.mark.parametrize(("suffix", "make"), KINDS)
def test_documents_lie_in_folders_and_archives_two_levels_deep(
    suffix: str, make: Callable[[Members], bytes], tmp_path: Path
) -> None:
    innermost = make({f"c/{THIRD}": b"<c/>", f"deep{suffix}": make({SPECIMEN: b""})})
    inner = make({EXPERIMENT: b"<b/>", f"b/second{suffix}": innermost})
    found = extract(tmp_path, zipped({f"a/{SPECIMEN}": b"<a/>", f"first{suffix}": inner}))
    told = {one.place: [(each.path, each.md5) for each in one.archives] for one in found.documents}
    first, second = f"first{suffix}", f"first{suffix}/b/second{suffix}"
    first_md5, second_md5 = (hashlib.md5(each).hexdigest() for each in (inner, innermost))
    assert told == {
        f"a/{SPECIMEN}": [],
        f"{first}/{EXPERIMENT}": [(first, first_md5)],
        f"{second}/c/{THIRD}": [(first, first_md5), (second, second_md5)],
    }
    assert [one.path.read_bytes() for one in found.documents] == [b"<a/>", b"<b/>", b"<c/>"]
    assert {path.name for path in (tmp_path / "contents").iterdir()} == {SPECIMEN, EXPERIMENT, THIRD}
    # What lies deeper is not opened, and that is a fault, not a note.
    ((path, _, reason),) = found.refused
    assert path == f"{second}/deep{suffix}"
    assert "more than two archives deep" in reason.message


@pytest.mark.parametrize("name", ["data.7z", "data.rar", f"{SPECIMEN}.gz", "data.tar.bz2", "folder/data.tar.xz"])
def test_archives_of_other_kinds_are_named_as_not_read(name: str, tmp_path: Path) -> None:
    ((path, size, reason),) = extract(tmp_path, zipped({SPECIMEN: b"<a/>", name: b"four"})).refused
    assert (path, size, reason.kind) == (name, 4, "MemberNotOpenedError")
    assert name in reason.message


def test_names_that_do_not_conform_are_told_with_their_places(tmp_path: Path) -> None:
    of_macos = {"__MACOSX/._wrong.xml": b"", f"f/._{SPECIMEN}": b"", "__MACOSX/._in.zip": b"no archive"}
    inner = packed({"f/wrong.xml": b"", "f/OTHER.XML": b""} | of_macos)
    found = extract(tmp_path, zipped({SPECIMEN: b"<a/>", "in.tgz": inner}))
    assert [path for path, _, _ in found.refused] == ["in.tgz/f/wrong.xml", "in.tgz/f/OTHER.XML"]
    assert {str(reason) for _, reason in found.ignored} == {"made by macOS; no document"}
    members = archive_members(tmp_path / ARCHIVE, ARCHIVE, Allowance(LIMITS, tmp_path / ARCHIVE), tmp_path)
    assert [member.place for member in members][-1] == "in.tgz/__MACOSX/._in.zip"


@pytest.mark.parametrize("case", HOSTILE_TARS)
def test_hostile_tar_archives_are_refused_whole(case: str, tmp_path: Path) -> None:
    """Within another archive: tests/hostile/test_archives_bounds.py."""
    content, error, said = HOSTILE_TARS[case]
    refuse(tmp_path, content, error, said)


def test_a_fault_of_an_inner_archive_names_it(tmp_path: Path) -> None:
    made = bytearray(zipped({SPECIMEN: b"<a/>"}))
    for signature, place in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        made[made.index(signature) + place] |= 1
    said = f"{ARCHIVE}/f/in.zip"
    refuse(tmp_path, zipped({"f/in.zip": bytes(made)}), EncryptedArchiveError, said)
    refuse(tmp_path, zipped({"f/in.zip": b"garbage"}), CorruptArchiveError, said)


@pytest.mark.parametrize("case", BOMBS)
def test_limits_hold_for_all_levels_together(case: str, tmp_path: Path) -> None:
    make, said = BOMBS[case]
    content = make()
    with little_memory(20):
        refuse(tmp_path, content, OversizedArchiveError, said)


@pytest.mark.parametrize(
    ("members", "error", "said", "limits"),
    [
        (
            {f"a/{SPECIMEN}": b"<a/>", "in.zip": zipped({SPECIMEN: b"<a/>"})},
            DuplicateMemberError,
            f"as 'a/{SPECIMEN}' and as 'in.zip/{SPECIMEN}'",
            LIMITS,
        ),
        (
            {"in.zip": zipped({"notes.txt": b""})},
            EmptyArchiveError,
            "or experiments.csv (other entries: 1)",
            LIMITS,
        ),
        ({"manifest.json": b"[]"}, EmptyArchiveError, "holds a manifest but no .xml document", LIMITS),
        (
            {"in.zip": zipped({SPECIMEN: b"<a/>"})},
            DiskFullError,
            "must stay so",
            replace(LIMITS, min_free_bytes=1 << 60),
        ),
    ],
    ids=["two of one name", "no documents", "only a manifest", "no room"],
)
def test_an_archive_is_refused_whole_for(
    members: Members, error: type[Exception], said: str, limits: ArchiveLimits, tmp_path: Path
) -> None:
    refuse(tmp_path, zipped(members), error, said, limits)
