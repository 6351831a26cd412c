"""Extraction of archives: what is taken, what is left aside and said so, and how it lands on the disk."""

import errno
import hashlib
import os
import shutil
import stat
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcc.archives import extraction
from dcc.archives.extraction import ExtractedArchive, extract_archive
from dcc.archives.limits import ArchiveLimits
from dcc.errors import ArchiveError, CorruptArchiveError, DiskFullError
from dcc.naming import NamingConvention
from dcc.store.staging import remove_leftovers
from tests.support.raising import raising
from tests.support.trials import trials

SPECIMEN = "J.2013-10-31.1.specimen.impc.xml"
EXPERIMENT = "J.2013-10-31.2.experiment.impc.xml"
LIMITS = ArchiveLimits(max_bytes=10**9, max_ratio=200, max_entries=1000)


def make_zip(directory: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    path = directory / "J.2013-10-31.1.impc.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def extract(path: Path, limits: ArchiveLimits = LIMITS) -> ExtractedArchive:
    target = path.with_name(f"{path.name}.contents")
    return extract_archive(path, target, limits=limits, naming=NamingConvention(), centres={"J", "H"})


def tree(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


def test_every_entry_is_accounted_for(tmp_path: Path) -> None:
    members = {
        EXPERIMENT: b"<a/>",
        "notes.txt": b"x",
        "copy of " + SPECIMEN: b"<b/>",
        SPECIMEN: b"<c/>",
        "__MACOSX/._x": b"",
        "H.2013-10-31.3.SPECIMEN.impc.xml": b"ee",
        "OTHER.XML": b"",
    }
    path = make_zip(tmp_path, members)
    found = extract(path)
    assert [document.name.file_name for document in found.documents] == [SPECIMEN, EXPERIMENT]
    assert [(name, size) for name, size, _ in found.refused] == [
        ("copy of " + SPECIMEN, 4),
        ("H.2013-10-31.3.SPECIMEN.impc.xml", 2),
        ("OTHER.XML", 0),
    ]
    assert all("Rename" in reason.message for _, _, reason in found.refused)
    assert dict(found.ignored) == {
        "notes.txt": "does not end in .xml",
        "__MACOSX/._x": "made by macOS; no document",
    }
    assert tree(tmp_path) == {path.name, f"{path.name}.contents"} | {
        f"{path.name}.contents/{name}" for name in (SPECIMEN, EXPERIMENT)
    }


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_all_usual_compression_methods_are_read(tmp_path: Path, method: int) -> None:
    """Documents come with their size and checksum."""
    content = b"<a>some text</a>\n" * 50_000
    (document,) = extract(make_zip(tmp_path, {SPECIMEN: content}, method)).documents
    assert document.path.read_bytes() == content
    assert (document.size_bytes, document.md5) == (len(content), hashlib.md5(content).hexdigest())


def test_documents_are_private_to_the_user(tmp_path: Path) -> None:
    path = make_zip(tmp_path, {SPECIMEN: b"<a/>"})
    old = os.umask(0)
    try:
        (document,) = extract(path).documents
    finally:
        os.umask(old)
    assert stat.S_IMODE(document.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(document.path.parent.stat().st_mode) == 0o700


def test_an_earlier_extraction_is_replaced_whole(tmp_path: Path) -> None:
    path = make_zip(tmp_path, {SPECIMEN: b"<a/>", EXPERIMENT: b"<a/>"})
    extract(path)
    make_zip(tmp_path, {EXPERIMENT: b"<b/>"})
    extract(path)
    contents = path.with_name(f"{path.name}.contents")
    assert tree(tmp_path) == {path.name, contents.name, f"{contents.name}/{EXPERIMENT}"}
    assert (contents / EXPERIMENT).read_bytes() == b"<b/>"


def test_the_reason_of_zipfile_is_a_part_of_the_sentence(tmp_path: Path) -> None:
    path = make_zip(tmp_path, {SPECIMEN: b"<a/>"})
    # The name in the entry's own header is another one than that in the directory.
    path.write_bytes(path.read_bytes().replace(b".impc.xml", b".impc.XML", 1))
    with pytest.raises(CorruptArchiveError, match=r" differ\. Replace it with a good archive"):
        extract(path)


def test_a_failed_extraction_leaves_the_earlier_one_and_nothing_else(tmp_path: Path) -> None:
    path = make_zip(tmp_path, {SPECIMEN: b"<a>first</a>"})
    extract(path)
    damaged = bytearray(make_zip(tmp_path, {EXPERIMENT: b"<b/>", SPECIMEN: b"<a>again</a>"}, 0).read_bytes())
    place = damaged.index(b"<a>again")
    damaged[place + 1] ^= 1
    path.write_bytes(damaged)
    before = tree(tmp_path)
    with pytest.raises(CorruptArchiveError, match="CRC"):
        extract(path)
    assert tree(tmp_path) == before
    assert (path.with_name(f"{path.name}.contents") / SPECIMEN).read_bytes() == b"<a>first</a>"


def test_what_a_killed_extraction_leaves_is_found_by_the_clean_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "add"
    directory.mkdir()
    path = make_zip(directory, {SPECIMEN: b"<a/>"})

    monkeypatch.setattr(extraction, "_put_in_place", raising(KeyboardInterrupt))
    monkeypatch.setattr(shutil, "rmtree", lambda *_args, **_keywords: None)
    with pytest.raises(KeyboardInterrupt):
        extract(path)
    monkeypatch.undo()
    assert len(tree(directory)) == 3
    assert remove_leftovers(tmp_path) == 1
    assert tree(directory) == {path.name}


def test_many_ignored_entries_are_counted_not_listed(tmp_path: Path) -> None:
    members = {SPECIMEN: b"<a/>"} | {f"{n}.txt": b"" for n in range(250)}
    ignored = extract(make_zip(tmp_path, members)).ignored
    assert len(ignored) == 101
    assert ignored[-1][0] == "150 more entries"


def test_a_disk_without_room_is_noticed_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_zip(tmp_path, {SPECIMEN: b"<a/>" * 1000})
    usage = SimpleNamespace(free=5000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    limits = ArchiveLimits(10**9, 200, 1000, min_free_bytes=2000)
    with pytest.raises(DiskFullError, match=r"4,000 bytes.* 5,000 free.* 2,000 must"):
        extract(path, limits)
    assert tree(tmp_path) == {path.name}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    path = make_zip(tmp_path, {SPECIMEN: b"<a/>", EXPERIMENT: b"<a/>"})
    real_open = os.open

    def fail_second(place: Path, flags: int, mode: int = 0o777, **keywords: int) -> int:
        if str(place).endswith(EXPERIMENT):
            raise OSError(code, os.strerror(code))
        return real_open(place, flags, mode, **keywords)

    monkeypatch.setattr(os, "open", fail_second)
    with pytest.raises(DiskFullError, match=f"disk of {tmp_path} filled up"):
        extract(path)
    assert tree(tmp_path) == {path.name}


def test_what_a_disk_takes_in_pieces_is_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"<a>" + b"x" * 5_000 + b"</a>"
    path = make_zip(tmp_path, {SPECIMEN: content})
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:999]))
    (document,) = extract(path).documents
    assert document.path.read_bytes() == content


@pytest.mark.parametrize("taken", [0, 4_096])
def test_a_disk_that_takes_a_part_and_then_nothing_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    path = make_zip(tmp_path, {SPECIMEN: b"<a>" + b"x" * 5_000 + b"</a>"})
    write, left = os.write, [taken]

    def fill_up(file: int, data: memoryview) -> int:
        written = write(file, data[: left[0]]) if left[0] else 0
        left[0] -= written
        return written

    monkeypatch.setattr(os, "write", fill_up)
    with pytest.raises(DiskFullError, match="filled up"):
        extract(path)
    assert tree(tmp_path) == {path.name}


def test_a_missing_archive_is_no_fault_of_the_centre(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        extract(tmp_path / "J.2013-10-31.1.impc.zip")


CONTENTS = {SPECIMEN: b"<a>" + b"text " * 200 + b"</a>", EXPERIMENT: b"<b/>", "notes.txt": b"n", "x.xml": b"<x/>"}


@settings(max_examples=trials(300))
@given(data=st.data(), method=st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA]))
def test_a_damaged_archive_is_refused_or_gives_the_right_documents(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, method: int
) -> None:
    directory = tmp_path_factory.mktemp("damaged")
    path = make_zip(directory, CONTENTS, method)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))])
    contents = path.with_name(f"{path.name}.contents")
    try:
        found = extract(path)
    except ArchiveError:
        assert not contents.exists()
    else:
        for document in found.documents:
            assert document.path.read_bytes() == CONTENTS[document.name.file_name]
        assert tree(contents) == {document.name.file_name for document in found.documents}
