"""Documents in folders and in archives inside the archive: what is taken, what is told of it, and what is refused."""

import hashlib
import io
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dcc.archives.extraction import archive_members
from dcc.archives.limits import Allowance, ArchiveLimits
from dcc.errors import (
    CorruptArchiveError,
    DiskFullError,
    DuplicateMemberError,
    EmptyArchiveError,
    EncryptedArchiveError,
    OversizedArchiveError,
)
from dcc.naming import NamingConvention
from tests.archives.test_archives import ARCHIVE, EXPERIMENT, LIMITS, SPECIMEN, extract, refuse
from tests.hostile.compounds import BOMBS, HOSTILE_TARS, Members, packed, tarred, zipped
from tests.support.memory import little_memory

THIRD = "J.2013-10-31.3.experiment.impc.xml"
KINDS = [(".zip", zipped), (".tar", tarred), (".tar.gz", packed), (".tgz", packed)]


@pytest.mark.parametrize(("suffix", "make"), KINDS)
def test_an_archive_may_be_of_any_of_the_kinds(suffix: str, make: Callable[[Members], bytes], tmp_path: Path) -> None:
    found = extract(tmp_path, make({SPECIMEN: b"<a/>", "notes.txt": b"x"}), f"J.2013-10-31.1.impc{suffix}")
    (document,) = found.documents
    assert (document.path.read_bytes(), document.place, document.archives) == (b"<a/>", SPECIMEN, ())
    assert [str(path) for path, _ in found.ignored] == ["notes.txt"]
    assert NamingConvention().parse_zip_name(f"J.2013-10-31.1.impc{suffix}", {"J"}).inc == 1


@pytest.mark.parametrize(("suffix", "make"), KINDS)
def test_what_an_archive_unpacks_to_counts_once(suffix: str, make: Callable[[Members], bytes], tmp_path: Path) -> None:
    content = make({SPECIMEN: b"<a/>" * 60_000, EXPERIMENT: b"<a/>" * 40_000})
    assert extract(tmp_path, content, f"J.2013-10-31.1.impc{suffix}", ArchiveLimits(500_000, 200, 100)).documents
    with pytest.raises(OversizedArchiveError, match="399,999 are allowed"):
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


def with_long_header() -> bytes:
    """A header that asks for much memory."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        entry = tarfile.TarInfo(SPECIMEN)
        entry.pax_headers = {"comment": "x" * 30_000_000}
        archive.addfile(entry)
    return made.getvalue()


@pytest.mark.parametrize(
    ("members", "error", "said", "limits"),
    [
        (
            {f"a/{SPECIMEN}": b"<a/>", "in.zip": zipped({SPECIMEN: b"<a/>"})},
            DuplicateMemberError,
            f"as 'a/{SPECIMEN}' and as 'in.zip/{SPECIMEN}'",
            LIMITS,
        ),
        ({"in.zip": zipped({"notes.txt": b""})}, EmptyArchiveError, "no .xml document and no table", LIMITS),
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


def test_an_archive_with_a_header_of_much_memory_is_refused_whole(tmp_path: Path) -> None:
    refuse(tmp_path, with_long_header(), CorruptArchiveError, "a header of")
