"""Extraction of archives: what is taken, what is left aside and said so, how it lands on the disk, what is refused."""

import errno
import hashlib
import io
import os
import shutil
import stat
import struct
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcc.archives import extraction
from dcc.archives.extraction import ExtractedArchive, extract_archive
from dcc.archives.limits import ArchiveLimits
from dcc.errors import ArchiveError, CorruptArchiveError, DiskFullError, OversizedArchiveError
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


DOCUMENT = b"<a>content</a>"


def refuse(path: Path, error: type[Exception], reason: str, limits: ArchiveLimits = LIMITS) -> None:
    before = tree(path.parent)
    with pytest.raises(error, match=reason) as raised:
        extract(path, limits)
    assert path.name in str(raised.value)
    assert tree(path.parent) == before


def test_the_ratio_allowed_is_a_limit_of_the_installation(tmp_path: Path) -> None:
    path = make_zip(tmp_path, {SPECIMEN: bytes(2_000_000)})
    assert len(extract(path, ArchiveLimits(10**9, 2000, 10)).documents) == 1
    refuse(path, OversizedArchiveError, "more than 100 times", ArchiveLimits(10**9, 100, 10))


def test_small_documents_may_repeat_themselves(tmp_path: Path) -> None:
    path = make_zip(tmp_path, {SPECIMEN: b"<value>1</value>\n" * 50_000})
    assert path.stat().st_size * 200 < 850_000
    assert len(extract(path).documents) == 1


def test_an_archive_is_refused_for_its_size_in_all(tmp_path: Path) -> None:
    path = make_zip(tmp_path, {SPECIMEN: b"a" * 600, EXPERIMENT: b"b" * 600})
    refuse(path, OversizedArchiveError, r"1,200 bytes; 1,000 are allowed", ArchiveLimits(1000, 200, 10))


def test_entries_are_counted_whatever_the_archive_says_of_their_number(tmp_path: Path) -> None:
    path = make_zip(tmp_path, {SPECIMEN: DOCUMENT, **{str(n): b"" for n in range(20)}})
    content = bytearray(path.read_bytes())
    struct.pack_into("<HH", content, len(content) - 14, 1, 1)
    path.write_bytes(content)
    refuse(path, OversizedArchiveError, "10 are allowed", ArchiveLimits(10**9, 200, 10))
    refuse(path, CorruptArchiveError, "lists 21 entries where 1 are announced")


def test_a_huge_directory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """A directory of many gigabytes, here a hole in the file: reading it would take that much memory."""
    path = tmp_path / "J.2013-10-31.1.impc.zip"
    size = 3_000_000_000
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(size)
        file.write(struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, size, 0, 0))
    refuse(path, OversizedArchiveError, "directory of 3,000,000,000 bytes")


@pytest.mark.parametrize(("name", "shown"), [(b"caf\x82", "caf\u00e9"), ("caf\u00e9".encode(), "caf\u00e9")])
def test_names_without_the_flag_of_utf_8_are_shown_right_and_refused(tmp_path: Path, name: bytes, shown: str) -> None:
    """In an old code page, and in UTF-8."""
    path = make_zip(tmp_path, {SPECIMEN: DOCUMENT, f"{'#' * len(name)}.xml": b"<a/>"})
    path.write_bytes(path.read_bytes().replace(b"#" * len(name), name))
    assert extract(path).refused[0][0] == f"{shown}.xml"


def test_a_zip64_archive_is_read(tmp_path: Path) -> None:
    path = tmp_path / "J.2013-10-31.1.impc.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(SPECIMEN, DOCUMENT)
    content = path.read_bytes()
    end = content.index(b"PK\x05\x06")
    count, directory_bytes, offset = struct.unpack_from("<8xH2xLL", content, end)
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, directory_bytes, offset)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1)
    sentinel = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    path.write_bytes(content[:end] + record + locator + sentinel)
    assert len(extract(path).documents) == 1


def test_an_archive_made_by_streaming_is_read(tmp_path: Path) -> None:
    path = tmp_path / "J.2013-10-31.1.impc.zip"
    content = DOCUMENT * 1000
    buffer = io.BytesIO()

    class Pipe(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: bytes) -> int:  # type: ignore[override]
            return buffer.write(data)

    with zipfile.ZipFile(Pipe(), "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[type-var]
        archive.writestr(SPECIMEN, content)
    path.write_bytes(buffer.getvalue())
    assert extract(path).documents[0].path.read_bytes() == content
