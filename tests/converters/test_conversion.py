"""Files in other formats become documents of their archive, whatever their converter does."""

import io
import itertools
import shutil
import zipfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dcc.archives.extraction import ExtractedArchive, ExtractedFile
from dcc.cli.demo.examples import example_submission
from dcc.cli.demo.submissions import specimen_document
from dcc.converters import conversion
from dcc.converters.base import ConversionFault, SubmittedFile, element
from dcc.converters.csv_tables import CsvTables
from dcc.documents.contents import Content
from dcc.documents.origins import Origin, read_origin
from dcc.errors import ConfigurationError, DiskFullError
from dcc.messages import message
from dcc.naming import DocumentKind
from dcc.session.prepare.archive_checks import ArchiveChecker, CheckedArchive, UnopenedArchive
from tests.archives.test_manifest import SETUP
from tests.hostile.compounds import zipped

SPECIMEN = DocumentKind.SPECIMEN
ARCHIVE = "H.2013-10-31.3.impc.zip"
CHECKER = ArchiveChecker(SETUP)
DOCUMENT = specimen_document("H", mice=2)


def table(kind: str = "specimens") -> bytes:
    """A table of an example submission."""
    with zipfile.ZipFile(io.BytesIO(example_submission("valid", "H", tables=True)[1])) as archive:
        return archive.read(f"{kind}.csv")


TABLE = table()


def check(
    folder: Path, files: Mapping[str, bytes], name: str = ARCHIVE, checker: ArchiveChecker = CHECKER
) -> CheckedArchive | UnopenedArchive:
    """Check an archive of these files."""
    (folder / name).write_bytes(zipped(files))
    return checker.check(folder / name, folder / "contents")


def opened(folder: Path, files: Mapping[str, bytes], **more: Any) -> CheckedArchive:
    """An archive of these files that can be opened."""
    found = check(folder, files, **more)
    assert isinstance(found, CheckedArchive), found
    return found


def test_tables_wherever_they_lie_are_documents_named_after_their_archive(tmp_path: Path) -> None:
    files = {
        "H.2013-10-31.3.specimen.impc.xml": DOCUMENT,
        "specimens.csv": TABLE,
        "data/experiments.csv": table("experiments"),
        "inner.zip": zipped({"f/specimens-2.csv": TABLE}),
        "notes.csv": b"",
    }
    found = opened(tmp_path, files)
    assert {one.place: one.name.file_name for one in found.archive.documents} == {
        "H.2013-10-31.3.specimen.impc.xml": "H.2013-10-31.3.specimen.impc.xml",
        "specimens.csv": "H.2013-10-31.4.specimen.impc.xml",
        "inner.zip/f/specimens-2.csv": "H.2013-10-31.5.specimen.impc.xml",
        "data/experiments.csv": "H.2013-10-31.3.experiment.impc.xml",
    }
    assert not any(found.problems)
    assert [str(path) for path, _ in found.archive.ignored] == ["notes.csv"]
    assert {path.name for path in (tmp_path / "contents").iterdir()} == {
        one.name.file_name for one in found.archive.documents
    }
    assert [inner.path for one in found.archive.documents for inner in one.archives] == ["inner.zip"]


def test_what_breaks_the_schema_is_told_by_its_row_and_column(tmp_path: Path) -> None:
    wrong = TABLE.replace(b",2013-07-16,", b",16.07.2013,", 1)
    found = opened(tmp_path, {"data/specimens.csv": wrong})
    ((problem,),) = found.problems
    assert problem.line == 2
    assert 'Attribute "DOB" of <mouse> is "16.07.2013"' in problem.message
    assert problem.message.endswith("See data/specimens.csv, row 2, column DOB.")


def test_what_breaks_the_schema_in_a_list_is_told_by_the_column_of_the_list(tmp_path: Path) -> None:
    """And not by the column of the same name that the animal has itself."""
    header, row, *_ = TABLE.splitlines()
    names = b",parentalStrain.gender,parentalStrain.level,parentalStrain.MGIStrainID,parentalStrain.percentage"
    lines = header + names + b",statusCode.date", row + b",no data,1,MGI:1,100,today"
    found = opened(tmp_path, {"specimens.csv": b"\n".join(lines)})
    told = [problem.message.rpartition(", ")[2] for (problems) in found.problems for problem in problems]
    assert told == ["column parentalStrain.gender.", "column statusCode.date."]


def test_an_archive_of_a_wrong_name_names_no_documents(tmp_path: Path) -> None:
    found = opened(tmp_path, {"specimens.csv": TABLE}, name="specimens.zip")
    ((place, _, problem),) = found.archive.refused
    assert (place, problem.kind) == ("specimens.csv", "BadFileNameError")


def test_documents_that_are_converted_keep_to_the_limits_of_the_archive(tmp_path: Path) -> None:
    checker = ArchiveChecker(replace(SETUP, limits=replace(SETUP.limits, max_bytes=len(TABLE) + 100)))
    found = opened(tmp_path, {"specimens.csv": TABLE}, checker=checker)
    ((problem,),) = found.problems
    assert "The document would be larger than" in problem.message


def test_documents_that_are_converted_leave_the_room_that_must_stay_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checker = ArchiveChecker(replace(SETUP, limits=replace(SETUP.limits, min_free_bytes=1_000_000)))
    free = itertools.chain([1_000_000 + len(TABLE)], itertools.repeat(1_000_000))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=next(free)))
    with pytest.raises(DiskFullError, match="of which 1 MB must stay so"):
        check(tmp_path, {"specimens.csv": TABLE}, checker=checker)
    assert [path.name for path in tmp_path.iterdir()] == [ARCHIVE]


def test_the_names_of_very_many_tables_are_each_tried_once(tmp_path: Path) -> None:
    class Archive:
        created, inc, tried = "2013-10-31", 3, 0

        @property
        def centre(self) -> str:
            self.tried += 1
            return "H"

    (tmp_path / "table").write_bytes(b"x")
    tables = [ExtractedFile(f"{number}/specimens.csv", tmp_path / "table") for number in range(200)]
    archive: Any = Archive()
    limits: dict[str, Any] = {"max_bytes": 10**9, "max_problems": 1, "check_room": lambda _: None}
    found = ExtractedArchive((), (), (), files=tuple(tables))
    made, _ = conversion.convert_files(found, tmp_path, archive, SETUP.naming, **limits)
    assert [document.name.inc for document in made.documents] == list(range(3, 203))
    # 100,000 took more than an hour when each began with the first name.
    assert archive.tried < 4 * len(tables)


@pytest.mark.parametrize(("counts", "said"), [("24,0", ""), ("23,0", "specimens.csv holds 24 specimens, not 23")])
def test_a_manifest_is_held_against_the_tables(tmp_path: Path, counts: str, said: str) -> None:
    manifest = f"file,size,specimens,experiments\nspecimens.csv,{len(TABLE)},{counts}\n".encode()
    found = check(tmp_path, {"specimens.csv": TABLE, "manifest.csv": manifest})
    assert isinstance(found, UnopenedArchive if said else CheckedArchive)
    assert not isinstance(found, UnopenedArchive) or said in str(found.error)


BLOCK = element(SPECIMEN, "", 1, {"centreID": "H"})


def mouse(row: int, **values: str) -> Any:
    return element(SPECIMEN, "mouse", row, values)


def raises() -> Iterator[Content | ConversionFault]:
    yield BLOCK
    raise KeyError("DOB")


MADE: dict[str, tuple[Any, str]] = {
    "raises": (raises, "KeyError: 'DOB'"),
    "no block": (lambda: [mouse(1)], "a specimen document cannot hold <mouse> before a block"),
    "another kind": (lambda: [BLOCK, element(DocumentKind.EXPERIMENT, "experiment", 2, {})], "<experiment> here"),
    "no content": (lambda: [BLOCK, "<mouse/>"], "The converter fake failed"),
    "nothing": (lambda: None, "TypeError"),
    "backwards": (lambda: [BLOCK, mouse(3), mouse(2)], "what is of row 2 comes after what is of row 3"),
    "no text": (lambda: [BLOCK, mouse(2, DOB="\udc80")], "UnicodeEncodeError"),
    "far away": (lambda: [BLOCK, mouse(10**12)], "would be larger than"),
    "without end": (lambda: itertools.chain([BLOCK], itertools.repeat(mouse(2))), "would be larger than"),
    "faults without end": (
        lambda: itertools.repeat(ConversionFault(7, message("Odd."), "x")),
        "Odd. See herd.txt, row 7, column x.",
    ),
    "too long": (lambda: [BLOCK, mouse(2)], "TimeoutError: it took more than"),
    "illegal": (lambda: [BLOCK, mouse(2, DOB="\0")], "See herd.txt, row 2."),
}


class Fake:
    """A converter of files that end in .txt."""

    name: str = "fake"
    columns: Mapping[str, str] = {"DOB": "born"}

    def __init__(self, make: Any) -> None:
        self._make = make

    def kinds(self, name: str) -> Collection[DocumentKind]:
        if name == "raises.xlsx":
            raise ValueError(name)
        return [SPECIMEN] if name.endswith(".txt") else []

    def convert(self, file: SubmittedFile, kind: DocumentKind) -> Iterator[Content | ConversionFault]:
        return self._make()  # type: ignore[no-any-return]


@pytest.mark.parametrize("case", MADE)
def test_a_converter_that_fails_or_makes_the_impossible_fails_its_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    make, said = MADE[case]
    monkeypatch.setattr(conversion, "all_converters", lambda: (Fake(make), CsvTables()))
    if case == "too long":
        monkeypatch.setattr(conversion, "MAX_SECONDS", -1.0)
    checker = ArchiveChecker(replace(SETUP, limits=replace(SETUP.limits, max_bytes=10**5)))
    found = opened(
        tmp_path, {"herd.txt": b"", "H.2013-10-31.1.specimen.impc.xml": DOCUMENT, "raises.xlsx": b""}, checker=checker
    )
    told = dict(zip([one.place for one in found.archive.documents], found.problems, strict=True))
    assert not told.pop("H.2013-10-31.1.specimen.impc.xml")
    (problems,) = told.values()
    assert said in problems[0].message
    assert "herd.txt, row " in problems[0].message
    assert len(problems) == (SETUP.max_document_errors if case == "faults without end" else 1)
    assert problems[0].code == (
        "conversion.converter" if "converter fake failed" in problems[0].message else problems[0].code
    )


def test_columns_of_other_names_are_told_by_these(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "all_converters", lambda: (Fake(lambda: [BLOCK, mouse(5, DOB="yesterday")]),))
    problems = opened(tmp_path, {"herd>?.txt": b""}).problems[0]
    (of_birth,) = [one for one in problems if '"yesterday"' in one.message]
    assert of_birth.message.endswith("See herd>?.txt, row 5, column born.")


ORIGINS = [None, "", "7", "[]", "{}", '{"file": 1}', '{"file": "a", "columns": 7}', "{"]


@pytest.mark.parametrize("kept", ORIGINS)
def test_what_is_no_origin_is_none(tmp_path: Path, kept: str | None) -> None:
    assert Origin.from_json(kept) is None
    document = tmp_path / "document.xml"
    document.write_text(f'<?xml version="1.0" encoding="UTF-8"?><?dcc-origin {kept}?><a/>', "utf-8")
    assert read_origin(document) is None


def test_what_makes_no_converter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "load_added", lambda _group: [Fake])
    with pytest.raises(ConfigurationError, match=r"Fake.*makes no converter: TypeError"):
        conversion.all_converters.__wrapped__()
