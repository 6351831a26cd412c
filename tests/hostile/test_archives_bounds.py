"""Archives of every hostile kind: refused with a reason or read without harm, in little memory, time and disk."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from dcc.archives.extraction import extract_archive
from dcc.archives.limits import ArchiveLimits
from dcc.converters.conversion import FULL_LISTS
from dcc.errors import ArchiveError, BadFileNameError
from dcc.naming import NamingConvention
from dcc.session.prepare.archive_checks import ArchiveChecker, CheckedArchive, Setup
from tests.hostile.archives import Member, accepted_archives, archive, bz2_bomb, document, refused_archives

LIMITS = ArchiveLimits(max_bytes=100 << 30, max_ratio=200, max_entries=100_000)
NAME = "H.2013-10-31.1.impc.zip"
SECONDS = 5.0
"""How long one archive may take on a machine that is busy with other things."""


def tree(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder three levels down, so that what leads out of it would be found."""
    folder = tmp_path / "a" / "b" / "c"
    folder.mkdir(parents=True)
    return folder


def is_legible(text: str) -> bool:
    return text.isprintable() and len(text) < 1_000


def is_any_open(place: Path) -> bool:
    """Whether this process has a file below a folder open."""
    return any(os.path.realpath(number).startswith(f"{place}/") for number in Path("/proc/self/fd").iterdir())


def judge_refused(place: Path, content: bytes, reason: str) -> str | None:
    """What is amiss with how an archive is refused; None if nothing is."""
    path = place / NAME
    path.write_bytes(content)
    before, began = tree(place.parents[2]), time.process_time()
    try:
        extract_archive(path, place / "contents", limits=LIMITS, naming=NamingConvention(), centres={"H"})
    except ArchiveError as error:
        said = str(error)
    else:
        return "it was read"
    if time.process_time() - began > SECONDS:
        return "it took too long"
    if not re.search(reason, said) or NAME not in said or not is_legible(said):
        return said
    return None if tree(place.parents[2]) == before and not is_any_open(place) else "it left something"


def test_hostile_archives_are_refused_with_a_legible_reason_and_leave_nothing(place: Path) -> None:
    judged = {kind: judge_refused(place, content, reason) for kind, content, reason in refused_archives()}
    assert len(judged) > 60
    assert {kind: fault for kind, fault in judged.items() if fault} == {}


def judge_accepted(place: Path, content: bytes, documents: int) -> str | None:
    """What is amiss with how an archive is read; None if nothing is."""
    path = place / NAME
    path.write_bytes(content)
    before = tree(place.parents[2])
    found = extract_archive(path, place / "contents", limits=LIMITS, naming=NamingConvention(), centres={"H"})
    written = {f"a/b/c/contents/{item.name.file_name}" for item in found.documents}
    if len(found.documents) != documents or tree(place.parents[2]) - before - {f"a/b/c/{NAME}"} != {
        *written,
        "a/b/c/contents",
    }:
        return f"it left {written}"
    if is_any_open(place):
        return "it left a file open"
    shutil.rmtree(place / "contents")
    with zipfile.ZipFile(path) as opened:
        entries = len(opened.infolist())
    if entries < 100 and documents + len(found.refused) + len(found.ignored) != entries:
        return "an entry is not accounted for"
    told = [*(str(name) for name, _ in found.ignored), *(reason.message for _, _, reason in found.refused)]
    names = [name for name, _, _ in found.refused]
    return None if all(map(is_legible, told)) and all(name.isprintable() for name in names) else repr(told)[:300]


def test_odd_archives_give_their_documents_and_all_their_names_are_legible(place: Path) -> None:
    judged = {kind: judge_accepted(place, content, documents) for kind, content, documents in accepted_archives()}
    assert len(judged) > 40
    assert {kind: fault for kind, fault in judged.items() if fault} == {}


_MEASURED = """
import sys
from pathlib import Path
from dcc.archives.extraction import extract_archive
from dcc.archives.limits import ArchiveLimits
from dcc.errors import ArchiveError
from dcc.naming import NamingConvention
from tests.hostile.audited_session import peak_megabytes
import lzma
before = peak_megabytes()
for folder in sorted(Path(sys.argv[1]).iterdir()):
    try:
        limits = ArchiveLimits(100 << 30, 200, 100_000)
        path = folder / sys.argv[2]
        extract_archive(path, folder / "out", limits=limits, naming=NamingConvention(), centres={"H"})
    except ArchiveError:
        pass
    print(folder.name, peak_megabytes() - before, flush=True)
"""


def test_no_archive_takes_much_memory(tmp_path: Path) -> None:
    """A bzip2 bomb of a gigabyte, very many long names, and those of tars that are nearly a megabyte each."""
    forms = {"tar of GNU": tarfile.GNU_FORMAT, "tar of pax": tarfile.PAX_FORMAT}
    paths = {kind: tmp_path / kind / NAME for kind in ("bomb", "names", *forms)}
    for path in paths.values():
        path.parent.mkdir()
    bomb = bz2_bomb()
    assert len(bomb) < 1_000
    paths["bomb"].write_bytes(archive([Member(document(1), bytes(1_000_000), zipfile.ZIP_BZIP2, stored=bomb)]))
    names = (Member(b"%07d" % n + b"\xf0\x9f\x90\x80" * 100, b"", 0, 0x800) for n in range(10_000))
    paths["names"].write_bytes(archive(names))
    for kind, form in forms.items():
        with tarfile.open(paths[kind], "w", format=form) as written:
            for number in range(60):
                written.addfile(tarfile.TarInfo(f"{number}{'x' * 900_000}"))
    # Beyond that of the program, and of those before it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", _MEASURED, str(tmp_path), NAME]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, env=environment)
    lines = done.stdout.splitlines()
    assert [line for line in lines if int(line.split()[-1]) >= 40] == []
    assert len(lines) == len(paths)


def test_the_documents_of_an_archive_have_no_more_problems_than_memory_holds(place: Path) -> None:
    """A document of a kilobyte, packed, may have a thousand; each of 150 documents and 150 tables has three here."""
    root = "centreSpecimenSet"
    namespace = "http://www.mousephenotype.org/dcc/exportlibrary/datastructure/core/specimen"
    wrong = f'<{root} xmlns="{namespace}"><centre centreID="H">{"<mouse/>" * 3}</centre></{root}>'.encode()
    table = b"specimenID,isBaseline,gender,zygosity,litterId,pipeline,phenotypingCentre,project\n" + b"1,2\n" * 3
    tables = [Member(f"specimens{number}.csv".encode(), table) for number in range(150)]
    (place / NAME).write_bytes(archive([*tables, *(Member(document(number), wrong) for number in range(500, 650))]))
    checker = ArchiveChecker(Setup(LIMITS, NamingConvention(), {"H"}, None, 3, 4_000_000))
    found = checker.check(place / NAME, place / "contents")
    assert isinstance(found, CheckedArchive)
    numbers = sorted(map(len, found.problems))
    assert (numbers[0], numbers[-1], len(numbers)) == (1, 3, 300)
    assert sum(numbers) <= 3 * FULL_LISTS + 200


def test_a_tar_of_names_as_long_as_paths_may_be_is_read(place: Path) -> None:
    path = place / NAME
    with tarfile.open(path, "w") as written:
        for number in range(2_000):
            written.addfile(tarfile.TarInfo("folder/" * 30 + f"{number}.txt"))
        written.addfile(tarfile.TarInfo(document(1).decode()))
    found = extract_archive(path, place / "out", limits=LIMITS, naming=NamingConvention(), centres={"H"})
    assert len(found.documents) == 1


@pytest.mark.parametrize("kind", ["zip", "document"])
def test_a_name_longer_than_any_file_has_is_refused_before_it_is_matched(kind: str) -> None:
    slow = NamingConvention(
        r"(?P<centre>(a+)+)\.(?P<date>x)(?P<inc>x)", r"(?P<centre>(a+)+)\.(?P<date>)(?P<inc>)(?P<kind>)"
    )
    parse = slow.parse_archive_name if kind == "zip" else slow.parse_document_name
    with pytest.raises(BadFileNameError, match="is a name of 60,000 characters") as raised:
        parse("a" * 60_000, {"H"})
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("name", ["H" * 255, "H." * 127, "." * 255, "H.2013-10-31." + "9" * 200, "_" * 250 + ".zip"])
def test_the_name_patterns_take_no_time_with_any_name(name: str) -> None:
    naming = NamingConvention()
    began = time.process_time()
    for parse in (naming.parse_archive_name, naming.parse_document_name):
        with pytest.raises(BadFileNameError):
            parse(name, {"H"})
    assert time.process_time() - began < 0.1
    assert re.fullmatch(naming.zip_pattern, name) is None
