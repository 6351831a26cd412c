"""`dcc validate`, `example` and `manifest`: what a centre runs before it uploads."""

import errno
import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from dcc.cli.demo import submissions
from dcc.cli.demo.examples import _KINDS
from dcc.cli.demo.submissions import PROJECTS
from dcc.reference.loading import SHIPPED
from dcc.rules.checking import JUDGED_TOGETHER, LEFT_TO_SESSIONS
from tests.cli.conftest import Dcc
from tests.support.data_installations import experiments
from tests.support.databases import only_sqlite
from tests.support.installations import specimens
from tests.support.reference_server import ReferenceServer

pytestmark = only_sqlite
NAME = "H.2013-10-31.1.specimen.impc.xml"
WRONG = specimens()[NAME].replace(b"gender=", b"gendr=")


LEFT = (
    f"Not checked, since it needs what was submitted before: {', '.join(sorted(LEFT_TO_SESSIONS))}, and "
    f"{', '.join(sorted(JUDGED_TOGETHER))} beyond these files. A session checks it.\n"
)


def put(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_a_valid_archive_ends_with_0(bare_dcc: Dcc, tmp_path: Path) -> None:
    path = put(tmp_path, "H.2013-10-31.1.impc.zip", submissions.archive(specimens()))
    assert bare_dcc.json("validate", path) == [
        {"path": str(path), "valid": True, "errors": [], "warnings": [], "missing": []},
        {"path": f"{path}/{NAME}", "valid": True, "errors": [], "warnings": [], "missing": []},
    ]
    result = bare_dcc("validate", path)
    assert result.stdout.startswith(f"valid    {path}\n")
    assert result.stderr == f"2 files checked, all valid.\n{LEFT}"
    assert not bare_dcc.home.exists()


def test_a_document_that_is_not_valid_ends_with_1_and_every_error(bare_dcc: Dcc, tmp_path: Path) -> None:
    path = put(tmp_path, NAME, WRONG)
    (verdict,) = bare_dcc.json("validate", path, exit_code=1)
    assert (verdict["path"], verdict["valid"], verdict["warnings"]) == (str(path), False, [])
    assert [list(error) for error in verdict["errors"]] == [["kind", "message", "line", "column"]] * 4
    assert (verdict["errors"][0]["line"], verdict["errors"][0]["column"]) == (4, 5)
    result = bare_dcc("validate", path, exit_code=1)
    assert f"INVALID  {path}\n  line 4, column 5: " in result.stdout
    assert result.stderr == f"1 file checked, 1 not valid.\n{LEFT}"


def test_the_verdict_and_errors_are_those_of_the_crawl(dcc: Dcc, tmp_path: Path) -> None:
    content = submissions.archive({NAME: WRONG})
    path = put(tmp_path, "H.2013-10-31.1.impc.zip", content)
    dcc.collect({f"add/{path.name}": content}, exit_code=1)
    (document,) = dcc.json("show", f"add/{path.name}")["documents"]
    archive, verdict = dcc.json("validate", path, exit_code=1)
    assert verdict["errors"] == document["errors"]
    assert not archive["valid"]


def test_a_folder_is_checked_and_a_single_documents_wrong_name_warned_of(bare_dcc: Dcc, tmp_path: Path) -> None:
    folder = tmp_path / "exports"
    folder.mkdir()
    # As the document in the archive: a copy, not a second submission of the same animals.
    put(folder, "mine.xml", specimens()[NAME])
    put(folder, "other.txt", b"no submission")
    put(folder, "wrong.zip", submissions.archive(specimens()))
    single, archive, inner = bare_dcc.json("validate", folder, exit_code=1)
    assert single["valid"]
    assert single["warnings"][0]["kind"] == "BadFileNameError"
    assert archive["errors"][0]["kind"] == "BadFileNameError"
    assert inner["valid"]
    assert "warning: 'mine.xml' does not follow" in bare_dcc("validate", folder, exit_code=1).stdout


def test_a_folder_is_checked_for_every_name_that_a_session_judges_and_the_others_are_told(
    bare_dcc: Dcc, tmp_path: Path
) -> None:
    archive = put(tmp_path, "H.2013-10-31.1.impc.zip", submissions.archive(specimens()))
    put(tmp_path, f"{archive.name}.md5", hashlib.md5(archive.read_bytes()).hexdigest().encode())
    assert "not checked" not in bare_dcc("validate", tmp_path).stderr
    names = ("H.2013-10-31.15.impc.ZIP", "H.2013-10-31.16.impc.TGZ", "H.2013-10-31.17.specimen.impc.XML")
    for name in names:
        put(tmp_path, name, b"Nothing.")
    others = [put(tmp_path, f"animals{number}.csv", b"a,b") for number in range(7)]
    told = bare_dcc("validate", tmp_path, exit_code=1)
    assert [name for name in names if f"'{name}' does not follow" not in told.stdout] == []
    named = ", ".join(map(str, others[:5]))
    assert (
        f"Warning: 7 files not checked, since the name is of no archive, document or table: {named} and 2 more.\n"
    ) in told.stderr


def test_files_given_together_are_neighbours(bare_dcc: Dcc, tmp_path: Path) -> None:
    animals = put(tmp_path, "H.2013-10-31.1.impc.zip", submissions.archive(specimens()))
    runs = put(tmp_path, "H.2013-10-31.2.impc.zip", submissions.archive(experiments("2013-10-31.2", animals=2)))
    alone = bare_dcc.json("validate", runs)[1]
    assert [problem["kind"] for problem in alone["missing"]] == ["E4"] * 2
    assert "They miss 2 animals: H-M000001, H-M000002." in bare_dcc("validate", runs).stderr
    assert not bare_dcc.json("validate", runs, animals)[1]["missing"]
    changed = specimens()[NAME].replace(b'litterId="', b'litterId="other ')
    later = {NAME.replace("2013-10-31", "2013-11-01"): changed}
    again = put(tmp_path, "H.2013-11-01.1.impc.zip", submissions.archive(later))
    _, first, _, second = bare_dcc.json("validate", again, animals, exit_code=1)
    assert [problem["kind"] for problem in first["errors"]] == ["S13"] * 2
    assert f"by document {animals}/{NAME}" in first["errors"][0]["message"]
    assert second["valid"]
    (tmp_path / "edit").mkdir()
    edit = again.rename(tmp_path / "edit" / again.name)
    assert all(verdict["valid"] for verdict in bare_dcc.json("validate", animals, edit))


def test_the_animals_that_a_table_misses_are_named(bare_dcc: Dcc, tmp_path: Path) -> None:
    bare_dcc("example", tmp_path, "--format", "csv")
    with zipfile.ZipFile(tmp_path / "add" / "H.2013-10-31.1.impc.zip") as archive:
        archive.extract("experiments.csv", tmp_path)
    told = bare_dcc("validate", tmp_path / "experiments.csv")
    assert "They miss 24 animals: " in told.stderr
    bare_dcc("manifest", tmp_path)
    assert f"{tmp_path}/manifest.json was not compared" in bare_dcc("validate", tmp_path).stderr
    (verdict,) = bare_dcc.json("validate", tmp_path / "experiments.csv")
    assert "See experiments.csv, row 2" in verdict["missing"][0]["message"]


@pytest.mark.parametrize(
    ("name", "content", "advice"),
    [
        ("animals.csv", b"a,b", "Rename it: the name of a table begins with specimens or experiments and ends with"),
        ("specimens.xlsx", b"PK\3\4", "Save it as CSV, under a name that begins with specimens or experiments and"),
    ],
)
def test_a_table_under_another_name_or_in_a_spreadsheet_is_told_how_it_is_read(
    bare_dcc: Dcc, tmp_path: Path, name: str, content: bytes, advice: str
) -> None:
    (verdict,) = bare_dcc.json("validate", put(tmp_path, name, content), exit_code=1)
    assert advice in verdict["errors"][0]["message"]


def test_animals_that_were_never_sent_are_told_once_though_several_things_miss_them(
    bare_dcc: Dcc, tmp_path: Path
) -> None:
    runs = experiments("2013-10-31.2", animals=12) | experiments("2013-10-31.3", animals=1, procedure="IMPC_CBC_001")
    paths = [put(tmp_path, name, content) for name, content in runs.items()]
    first = ", ".join(f"H-M{number:06}" for number in range(1, 11))
    assert f"They miss 12 animals: {first} and 2 more." in bare_dcc("validate", *paths).stderr


def test_a_copy_is_named_with_the_first(bare_dcc: Dcc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    later = NAME.replace("2013-10-31", "2013-11-01")
    for name in (NAME, later):
        put(tmp_path, name, specimens()[NAME])
    told = " ".join(bare_dcc("validate", later, NAME).stdout.split())
    assert f"warning: The document is the same as {NAME} of {tmp_path}. It is not taken" in told


def test_an_archive_that_a_session_refuses_supplies_no_animals(bare_dcc: Dcc, tmp_path: Path) -> None:
    refused = put(tmp_path, "H.2013-13-31.1.impc.zip", submissions.archive(specimens()))
    runs = put(tmp_path, "H.2013-10-31.2.impc.zip", submissions.archive(experiments("2013-10-31.2", animals=2)))
    document = put(tmp_path, NAME, specimens()[NAME])
    told = bare_dcc("validate", refused, runs, exit_code=1)
    assert "They miss 2 animals: H-M000001, H-M000002. Some may be in the files that are not valid." in told.stderr
    verdicts = bare_dcc.json("validate", refused, document, runs, exit_code=1)
    assert [verdict["valid"] for verdict in verdicts] == [False, True, True, True, True]
    assert not any(verdict["warnings"] or verdict["missing"] for verdict in verdicts)
    # Their own findings are told all the same.
    wrong = specimens()[NAME].replace(b'pipeline="IMPC_001"', b'pipeline="NOPE_001"')
    put(tmp_path, refused.name, submissions.archive({NAME: wrong}))
    _, own = bare_dcc.json("validate", refused, exit_code=1)
    assert "NOPE_001" in own["warnings"][0]["message"]


def test_what_lies_beside_an_archive_is_checked_with_it(bare_dcc: Dcc, tmp_path: Path) -> None:
    archive = put(tmp_path, "H.2013-10-31.1.impc.zip", submissions.archive(specimens()))
    beside = [
        put(tmp_path, f"{archive.name}.md5", hashlib.md5(archive.read_bytes()).hexdigest().encode()),
        put(tmp_path, f"{archive.name}.manifest.json", json.dumps({"files": [{"file": NAME}]}).encode()),
    ]
    verdicts = bare_dcc.json("validate", archive, *beside)
    assert [verdict["path"] for verdict in verdicts] == [str(archive), f"{archive}/{NAME}"]
    told = bare_dcc("validate", *beside, exit_code=2).stderr
    assert "is checked with the archive that it lies beside. Name the archive." in told


def test_reference_data_are_read_from_a_server(bare_dcc: Dcc, tmp_path: Path) -> None:
    path = put(tmp_path, NAME, specimens()[NAME])
    pages = {f"/sets/{file.name}": file.read_bytes() for file in SHIPPED.iterdir()}
    pages["/sets/colonies.csv"] = (
        pages["/sets/colonies.csv"].splitlines(keepends=True)[0] + b"C1,H,Phenotyping Complete,MGI:2159965,MGI:1,A\n"
    )
    with ReferenceServer(pages) as server:
        (verdict,) = bare_dcc.json("validate", path, "--reference", f"{server.url}/sets", exit_code=1)
    assert {problem["kind"] for problem in verdict["errors"]} == {"S4"}
    said = bare_dcc.error("validate", path, "--reference", tmp_path / "nowhere", exit_code=2)
    assert "No folder" in said


def test_a_further_centre_code_can_be_named(bare_dcc: Dcc, tmp_path: Path) -> None:
    document = specimens("H")[NAME]
    name = "New_Centre.2013-10-31.1"
    content = submissions.archive({f"{name}.specimen.impc.xml": document})
    path = put(tmp_path, f"{name}.impc.zip", content)
    assert "not registered" in bare_dcc("validate", path, exit_code=1).stdout
    bare_dcc("validate", "--centre", "New_Centre", path)


def test_what_cannot_be_read_is_told_and_the_others_are_checked(
    bare_dcc: Dcc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "export"
    closed = folder / "closed"
    closed.mkdir(parents=True)
    good, vanished = put(folder, NAME, specimens()[NAME]), folder / "H.2013-10-31.2.specimen.impc.xml"
    vanished.symlink_to("nowhere")
    broken = folder / "H.2013-10-31.1.impc.zip"
    broken.symlink_to("/proc/self/mem")
    listed = os.scandir

    def listing(path: str | int) -> Iterator[os.DirEntry[str]]:
        if path == str(closed):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", listing)
    reasons = {
        closed: "Permission denied",
        vanished: "No such file or directory",
        broken: "Input/output error",
        Path("/proc/self/mem"): "Input/output error",
    }
    told = bare_dcc("validate", "--json", folder, "/proc/self/mem", exit_code=1).stdout
    errors = {verdict["path"]: [error["message"] for error in verdict["errors"]] for verdict in json.loads(told)}
    advice = "See that it is there and that you may read it, then check it again."
    assert errors == {str(good): []} | {
        str(path): [f"{path} cannot be read: {reason}. {advice}"] for path, reason in reasons.items()
    }
    assert "5 files checked, 4 not valid." in bare_dcc("validate", folder, "/proc/self/mem", exit_code=1).stderr
    assert f"{closed} cannot be read" in bare_dcc("validate", closed, exit_code=1).stdout


def test_what_is_not_the_fault_of_a_file_ends_the_check(
    bare_dcc: Dcc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path, NAME, specimens()[NAME])

    def no_folder(**_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "TemporaryFile", no_folder)
    said = bare_dcc("validate", path, exit_code=2).stderr
    assert "The folder for temporary files cannot be used: No usable temporary directory found." in said


def test_what_is_not_there_ends_with_2(bare_dcc: Dcc, tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    for name in ("nothing.zip", "."):
        assert "Name " in bare_dcc.error("validate", folder / name, exit_code=2)
    bare_dcc.environment["DCC_XSD_DIR"] = str(tmp_path)
    assert "DCC_XSD_DIR" in bare_dcc.error("validate", put(tmp_path, NAME, WRONG), exit_code=2)


def test_what_a_session_would_fail_is_not_valid_before_the_upload(bare_dcc: Dcc) -> None:
    for kind, centre in product(_KINDS, PROJECTS):
        written = bare_dcc.json("example", bare_dcc.root, "--kind", kind, "--centre", centre)
        assert (written["kind"], written["centre"]) == (kind, centre)
        verdicts = bare_dcc("validate", "--json", written["path"], exit_code=int("errors" in kind)).stdout
        assert f"{centre}.2013-1" in verdicts


def test_tables_come_to_the_same_as_documents(bare_dcc: Dcc) -> None:
    for kind in _KINDS:
        written = bare_dcc.json("example", bare_dcc.root, "--kind", kind, "--format", "csv")
        verdicts = bare_dcc("validate", written["path"], exit_code=int("errors" in kind)).stdout
        assert "specimens.csv" in verdicts
        assert ("See specimens.csv, row " in verdicts) == ("errors" in kind)


def test_an_example_replaces_nothing(bare_dcc: Dcc) -> None:
    bare_dcc("example", bare_dcc.root / "new" / "centre")
    assert "is there already" in bare_dcc.error("example", bare_dcc.root / "new" / "centre", exit_code=2)
    (example,) = (bare_dcc.root / "new").rglob("*.zip")
    example.unlink()
    example.symlink_to(bare_dcc.root / "elsewhere")
    assert "is there already" in bare_dcc.error("example", bare_dcc.root / "new" / "centre", exit_code=2)
    assert not (bare_dcc.root / "elsewhere").exists()
    (bare_dcc.root / "file").write_bytes(b"")
    assert "cannot be written" in bare_dcc.error("example", bare_dcc.root / "file" / "below", exit_code=2)


@pytest.mark.parametrize(("suffix", "documents", "inner"), [("json", "xml", True), ("csv", "csv", False)])
def test_a_manifest_is_of_what_is_packed(
    bare_dcc: Dcc, tmp_path: Path, suffix: str, documents: str, inner: bool
) -> None:
    """And the archive that holds it passes, while one without a document of it does not."""
    folder = tmp_path / "export"
    folder.mkdir()
    with zipfile.ZipFile(bare_dcc.json("example", tmp_path / "centre", "--format", documents)["path"]) as archive:
        archive.extractall(folder)
    first = next(folder.glob(f"*s*.{documents}"))
    if inner:
        with zipfile.ZipFile(folder / "inner.zip", "w") as archive:
            archive.write(first, f"below/{first.name}")
        first.unlink()
        first = folder / "inner.zip"
        with zipfile.ZipFile(folder / "pictures.zip", "w") as archive:
            archive.writestr("1.png", b"")
    made = bare_dcc("manifest", folder, "--format", suffix)
    assert made.stdout.startswith(f"Wrote {folder}/manifest.{suffix}: 2 documents, 24 specimens, 24 experiments.")
    packed = tmp_path / "H.2013-10-31.9.impc.zip"
    for left_out, exit_code in ((set(), 0), ({first}, 1)):
        with zipfile.ZipFile(packed, "w") as archive:
            for path in set(folder.iterdir()) - left_out:
                archive.write(path, path.name)
        checked = bare_dcc("validate", packed, exit_code=exit_code)
        assert ("is missing" in checked.stdout) is bool(left_out)


@pytest.mark.parametrize("documents", ["xml", "csv"])
def test_a_manifest_is_written_beside_an_archive(bare_dcc: Dcc, tmp_path: Path, documents: str) -> None:
    archive = Path(bare_dcc.json("example", tmp_path, "--format", documents)["path"])
    made = bare_dcc("manifest", archive)
    beside = archive.with_name(f"{archive.name}.manifest.json")
    assert made.stdout.startswith(f"Wrote {beside}: 2 documents, 24 specimens, 24 experiments.")
    bare_dcc("validate", archive)
    with zipfile.ZipFile(archive, "a") as opened:
        opened.writestr("notes.txt", "More.")
    assert f"{archive.name} has" in bare_dcc("validate", archive, exit_code=1).stdout
    assert "is neither a zip nor a tar" in bare_dcc.error("manifest", beside, exit_code=1)


def test_without_a_document_no_manifest_is_written(bare_dcc: Dcc, tmp_path: Path) -> None:
    assert "holds no .xml document" in bare_dcc.error("manifest", tmp_path, exit_code=2)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "inner.zip").write_bytes(b"none")
    assert "inner.zip is neither a zip nor a tar" in bare_dcc.error("manifest", tmp_path, exit_code=1)


def test_a_document_that_cannot_be_counted_is_named(bare_dcc: Dcc, tmp_path: Path) -> None:
    archive = bare_dcc.json("example", tmp_path, "--kind", "schema-errors")["path"]
    said = bare_dcc.error("manifest", archive, exit_code=1)
    assert "impc.xml cannot be counted: " in said
    assert "dcc validate" in said


def test_a_document_in_an_archive_that_cannot_be_counted_is_told_from_one_beside_it(
    bare_dcc: Dcc, tmp_path: Path
) -> None:
    put(tmp_path, NAME, specimens()[NAME])
    archive = put(tmp_path, "H.2013-10-31.1.impc.zip", submissions.archive({NAME: b""}))
    said = bare_dcc.error("manifest", tmp_path, exit_code=2)
    assert f"{archive.name}/{NAME} is no document of the format." in said
