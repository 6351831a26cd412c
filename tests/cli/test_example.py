"""`dcc example`: submissions to try the platform with come out as they are said to."""

import zipfile
from itertools import product
from pathlib import Path

import pytest

from dcc.cli.demo.examples import _KINDS
from dcc.cli.demo.submissions import PROJECTS
from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite

pytestmark = only_sqlite


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
    (bare_dcc.root / "file").write_bytes(b"")
    assert "cannot be written" in bare_dcc.error("example", bare_dcc.root / "file" / "below", exit_code=2)


@pytest.mark.parametrize(("suffix", "documents", "inner"), [("json", "xml", True), ("csv", "csv", False)])
def test_a_manifest_is_written_of_what_is_to_be_packed(
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
