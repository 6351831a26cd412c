"""Archives that would do harm, or that cannot be what they claim: refused whole, with nothing written."""

import io
import struct
import zipfile
from pathlib import Path

import pytest

from dcc.archives.limits import ArchiveLimits
from dcc.errors import CorruptArchiveError, OversizedArchiveError
from tests.archives.test_archives import EXPERIMENT, LIMITS, SPECIMEN, extract, make_zip, tree

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
