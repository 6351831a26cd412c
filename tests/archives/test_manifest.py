"""The manifest of an archive: how it is read and written, and what an archive that differs from it comes to."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcc.archives.entries import plain_path
from dcc.archives.limits import ArchiveLimits
from dcc.archives.manifest import ManifestEntry, read_manifest, write_manifest
from dcc.cli.demo import submissions
from dcc.errors import ManifestError
from dcc.naming import NamingConvention
from dcc.reports.languages import load_catalogue
from dcc.session.prepare.archive_checks import ArchiveChecker, CheckedArchive, Setup, UnopenedArchive
from dcc.settings import Settings
from dcc.sources.remote_names import printable
from tests.hostile.compounds import Members, packed, tarred, zipped
from tests.support.memory import little_memory

ARCHIVE = "H.2013-10-31.1.impc.zip"
SPECIMENS = "H.2013-10-31.1.specimen.impc.xml"
EXPERIMENTS = "f/H.2013-10-31.1.experiment.impc.xml"
DOCUMENTS = {
    SPECIMENS: submissions.specimen_document("H", mice=3),
    EXPERIMENTS: submissions.experiment_document("H", animals=2),
}
SETUP = Setup(ArchiveLimits(10**8, 200, 100), NamingConvention(), {"H"}, None, 100, 4_000_000)


@pytest.fixture(scope="module")
def checker() -> ArchiveChecker:
    return ArchiveChecker(SETUP)


def rows(**changed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a right manifest, some of them with other values."""
    counts = {SPECIMENS: (3, 0), EXPERIMENTS: (0, 2)}
    made = {
        file: {
            "file": file,
            "size": len(content),
            "checksum": hashlib.sha256(content).hexdigest(),
            "specimens": counts[file][0],
            "experiments": counts[file][1],
        }
        for file, content in DOCUMENTS.items()
    }
    made[SPECIMENS] |= changed.get("specimens", {})
    made[EXPERIMENTS] |= changed.get("experiments", {})
    return list(made.values())


def check(
    checker: ArchiveChecker, directory: Path, manifest: bytes, name: str = "manifest.json", **more: bytes
) -> CheckedArchive | UnopenedArchive:
    (directory / ARCHIVE).write_bytes(zipped({name: manifest} | DOCUMENTS | more))
    return checker.check(directory / ARCHIVE, directory / "contents")


def as_json(told: object) -> bytes:
    return json.dumps(told).encode()


@pytest.mark.parametrize("name", ["manifest.json", "manifest.csv"])
def test_an_archive_that_holds_what_its_manifest_says_is_taken(
    checker: ArchiveChecker, tmp_path: Path, name: str
) -> None:
    write_manifest(rows(), tmp_path / name, name.rpartition(".")[2])
    found = check(checker, tmp_path, (tmp_path / name).read_bytes(), name, **{"notes.txt": b"not in it, no document"})
    assert isinstance(found, CheckedArchive)
    assert len(found.archive.documents) == 2
    assert [str(path) for path, _ in found.archive.ignored] == ["notes.txt"]


@pytest.mark.parametrize("make", [zipped, tarred, packed])
def test_paths_of_the_present_folder_are_those_that_a_manifest_tells(
    checker: ArchiveChecker, tmp_path: Path, make: Callable[[Members], bytes]
) -> None:
    """`tar -c .` writes them so."""
    places = {SPECIMENS: f"./{SPECIMENS}", EXPERIMENTS: f"inner.tgz/./data/{EXPERIMENTS}"}
    told = [{"file": places[file], "size": len(content)} for file, content in DOCUMENTS.items()]
    inner = make({f"./data/{EXPERIMENTS}": DOCUMENTS[EXPERIMENTS]})
    members = {f"./{SPECIMENS}": DOCUMENTS[SPECIMENS], "./manifest.json": as_json(told), "./inner.tgz": inner}
    (tmp_path / ARCHIVE).write_bytes(make(members))
    found = checker.check(tmp_path / ARCHIVE, tmp_path / "contents")
    assert isinstance(found, CheckedArchive)
    assert found.archive.manifest is not None
    assert {document.place for document in found.archive.documents} == {SPECIMENS, f"inner.tgz/data/{EXPERIMENTS}"}


@pytest.mark.parametrize("names", [("manifest.json", "manifest.csv"), ("manifest.csv", "manifest.json")])
def test_of_two_manifests_in_an_archive_that_in_json_counts(
    checker: ArchiveChecker, tmp_path: Path, names: tuple[str, str]
) -> None:
    told = {"manifest.json": as_json(rows()), "manifest.csv": b"file\nmore.txt\n"}
    first, second = names
    found = check(checker, tmp_path, told[first], first, **{second: told[second]})
    assert isinstance(found, CheckedArchive)
    assert [(str(path), str(why)) for path, why in found.archive.ignored] == [
        ("manifest.csv", "not compared, because the archive has manifest.json")
    ]


DIFFERENT: dict[str, tuple[object, str]] = {
    "missing": ([*rows(), {"file": "more.txt"}], "more.txt is missing"),
    "unexpected": (rows()[:1], f"{EXPERIMENTS} is not in the manifest"),
    "odd name": ([*rows(), {"file": "\x1b[2J.txt"}], r"\x1b[2J.txt is missing"),
    "size": (rows(specimens={"size": 1}), f"{SPECIMENS} has {len(DOCUMENTS[SPECIMENS]):,} bytes, not 1"),
    "sha256": (rows(experiments={"checksum": "0" * 64}), f"not {'0' * 64}"),
    "md5": (rows(experiments={"checksum": "A" * 32}), f"not {'a' * 32}"),
    "specimens": (rows(specimens={"specimens": 4}), f"{SPECIMENS} holds 3 specimens, not 4"),
    "experiments": (rows(experiments={"experiments": "0"}), f"{EXPERIMENTS} holds 2 experiments, not 0"),
    "several": (
        rows(specimens={"size": 1}, experiments={"size": 2}),
        f"bytes, not 1, {EXPERIMENTS} has {len(DOCUMENTS[EXPERIMENTS]):,} bytes, not 2. Correct",
    ),
    "many": ([*rows(), *({"file": f"{number}.txt"} for number in range(9))], "4.txt is missing (9 differences in all)"),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_an_archive_that_differs_from_its_manifest_is_refused_whole(
    checker: ArchiveChecker, tmp_path: Path, case: str
) -> None:
    told, said = DIFFERENT[case]
    found = check(checker, tmp_path, as_json(told))
    assert isinstance(found, UnopenedArchive)
    assert isinstance(found.error, ManifestError)
    assert said in str(found.error)
    assert not (tmp_path / "contents").exists()


def test_what_a_manifest_leaves_out_is_not_compared(checker: ArchiveChecker, tmp_path: Path) -> None:
    told = [{"file": SPECIMENS}, {"file": f"./{EXPERIMENTS}", "size": None, "checksum": ""}]
    assert isinstance(check(checker, tmp_path, as_json(told)), CheckedArchive)
    # As a spreadsheet writes it where the comma separates decimals.
    told_otherwise = f"\ufefffile;size;checksum\r\n{SPECIMENS};;\r\n{EXPERIMENTS};;\r\n".encode()
    assert isinstance(check(checker, tmp_path, told_otherwise, "manifest.csv"), CheckedArchive)


def test_a_long_place_that_a_manifest_leaves_out_is_told_in_brief(checker: ArchiveChecker, tmp_path: Path) -> None:
    place = "d/" * 5_000 + "H.2013-10-31.2.specimen.impc.xml"
    found = check(checker, tmp_path, as_json(rows()), **{place: DOCUMENTS[SPECIMENS]})
    assert isinstance(found, UnopenedArchive)
    assert "is not in the manifest" in str(found.error)
    assert len(str(found.error)) < 500


def test_a_document_that_breaks_the_schema_is_told_by_that_and_not_by_its_counts(
    checker: ArchiveChecker, tmp_path: Path
) -> None:
    broken = "H.2013-10-31.2.specimen.impc.xml"
    told = [*rows(), {"file": broken, "specimens": 7}]
    found = check(checker, tmp_path, as_json({"files": told}), **{broken: b"<a/>"})
    assert isinstance(found, CheckedArchive)
    assert any(found.problems)


@pytest.mark.parametrize("place", ["folder/", "inner.zip/"])
def test_a_manifest_that_is_not_at_the_top_is_a_file_like_others(
    checker: ArchiveChecker, tmp_path: Path, place: str
) -> None:
    more = {"inner.zip": zipped({"manifest.json": b"[]"})} if place == "inner.zip/" else {}
    assert isinstance(check(checker, tmp_path, b"[]", "folder/manifest.json", **more), CheckedArchive)


OWN = {"file": ARCHIVE, "size": "the size", "checksum": "the checksum"}
BESIDE: dict[str, tuple[object, object, str]] = {
    "right": ([OWN, *rows()], None, ""),
    "wrong size of the archive": ([OWN | {"size": 7}, *rows()], None, "bytes, not 7"),
    "wrong checksum of the archive": ([OWN | {"checksum": "0" * 64}, *rows()], None, f"not {'0' * 64}"),
    "wrong MD5 of the archive": ([OWN | {"checksum": "0" * 32}, *rows()], None, f"not {'0' * 32}"),
    "counts of the archive": ([OWN | {"specimens": 7}, *rows()], None, ""),
    "wrong document": ([OWN, *rows(specimens={"specimens": 4})], None, "holds 3 specimens, not 4"),
    "document not named": ([OWN], None, "is not in the manifest"),
    "archive not named": (rows(), None, ""),
    "both alike": ([OWN, *rows()], rows(specimens={"checksum": None}), ""),
    "both wrong alike": (rows(specimens={"size": 1}), rows(specimens={"size": 1}), "bytes, not 1"),
    "both with another size": (rows(), rows(specimens={"size": 1}), f"says something else of {SPECIMENS}"),
    "both with other files": (rows(), rows()[:1], f"says something else of {EXPERIMENTS}"),
    "no manifest": ("{", None, f"has a {ARCHIVE}.manifest.json that cannot be read"),
}


@pytest.mark.parametrize("case", BESIDE)
def test_a_manifest_beside_an_archive_is_held_against_it(checker: ArchiveChecker, tmp_path: Path, case: str) -> None:
    outside, inside, said = BESIDE[case]
    path = tmp_path / ARCHIVE
    inner = {}
    if isinstance(inside, list):
        write_manifest(inside, tmp_path / "inner.csv", "csv")
        inner["manifest.csv"] = (tmp_path / "inner.csv").read_bytes()
    path.write_bytes(submissions.archive(inner | DOCUMENTS))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    text = outside if isinstance(outside, str) else json.dumps(outside)
    told = text.replace('"the size"', str(path.stat().st_size)).replace("the checksum", digest)
    (tmp_path / f"{ARCHIVE}.manifest.json").write_text(told, "utf-8")
    found = checker.check(path, tmp_path / "contents")
    assert isinstance(found, UnopenedArchive if said else CheckedArchive), found
    if isinstance(found, UnopenedArchive):
        assert isinstance(found.error, ManifestError)
        assert said in str(found.error)


UNREADABLE = {
    "no JSON": ("manifest.json", b"{"),
    "no list": ("manifest.json", b"7"),
    "no rows": ("manifest.json", b'{"files": [7]}'),
    "no file": ("manifest.json", b'[{"size": 7}]'),
    "no name": ("manifest.json", b'[{"file": " "}]'),
    "no number": ("manifest.csv", b"file,size\na.xml,many\n"),
    "no checksum": ("manifest.csv", b"file,checksum\na.xml,abc\n"),
    "no text": ("manifest.csv", b"\xff\xfe\xff"),
    "no finite number": ("manifest.json", b'[{"file": "a.xml", "size": 1e400}]'),
    "no whole number": ("manifest.json", b'[{"file": "a.xml", "specimens": 1.5}]'),
    "no character": ("manifest.json", rb'[{"file": "\ud800.xml"}]'),
    "too long a name": ("manifest.csv", b"file\n" + b"a" * 2_000 + b".xml"),
    "too many columns": ("manifest.csv", b"file" + b",c" * 100 + b"\na.xml\n"),
    "a file twice": ("manifest.json", b'[{"file": "a.xml", "size": 1}, {"file": "./a.xml"}]'),
    "too deep": ("manifest.json", b"[" * 100_000),
}


REASONS = {
    "no rows": "a row names no file",
    "no file": "a row names no file",
    "no number": "size is 'many', which is no whole number",
    "no whole number": "specimens is '1.5', which is no whole number",
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_manifest_that_cannot_be_read_is_said_to_be_so(checker: ArchiveChecker, tmp_path: Path, case: str) -> None:
    name, content = UNREADABLE[case]
    found = check(checker, tmp_path, content, name)
    assert isinstance(found, UnopenedArchive)
    assert f"has a {name} that cannot be read" in str(found.error)
    assert REASONS.get(case, "") in str(found.error)
    assert "Error" not in str(found.error)
    german = load_catalogue("de", Settings(home=tmp_path)).tell(found.error.translatable)
    assert " (das Leseprogramm meldet „" in german, "what a library says is quoted as it is"


@pytest.mark.parametrize(
    ("name", "beginning", "value"),
    [
        ("manifest.csv", b"file\n", b"a\n"),
        ("manifest.csv", b"file\n", b"ab,"),
        ("manifest.csv", b"file;size\n", b"ab;"),
        ("manifest.json", b"[{}", b",{}"),
        ("manifest.json", b'{"x": [[]', b",[]"),
    ],
)
def test_a_manifest_of_more_values_than_an_archive_needs_is_refused_before_they_take_memory(
    name: str, beginning: bytes, value: bytes
) -> None:
    with little_memory(16), pytest.raises(ManifestError, match="more than 1,000,000 values"):
        read_manifest(beginning + value * 1_000_000, name, ARCHIVE)


_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1, max_size=30)
_ROW = st.fixed_dictionaries(
    {
        "file": _TEXT.filter(lambda name: name == plain_path(name.strip())),
        "size": st.integers(0, 2**60),
        "checksum": st.sampled_from(["", "0123456789abcdef" * 2, "fedcba9876543210" * 4]),
        "specimens": st.integers(0, 10**6),
        "experiments": st.integers(0, 10**6),
    }
)


@given(
    st.lists(_ROW, max_size=5, unique_by=lambda row: printable(row["file"].encode())),
    st.sampled_from(["manifest.json", "manifest.csv"]),
)
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, written: list[dict[str, Any]], name: str
) -> None:
    path = tmp_path_factory.mktemp("manifest") / name
    write_manifest(written, path, name.rpartition(".")[2])
    read = read_manifest(path.read_bytes(), name, ARCHIVE)
    for row in written:
        row["checksum"] = row["checksum"] or None
        row["file"] = row["file"] if row["file"].isprintable() else printable(row["file"].encode())
    assert read == tuple(ManifestEntry(**row) for row in written)
