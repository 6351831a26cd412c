"""Archives prepared: rows and findings in a file that is used only as it was made."""

import importlib.metadata
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from dcc.cli.demo.submissions import damaged, experiment_document, specimen_document
from dcc.documents.reading import read_document
from dcc.errors import NotWellFormedError, StagedDocumentLostError
from dcc.naming import Action, DocumentKind
from dcc.outcomes import SubmissionKey
from dcc.qc.apply import entity_rows
from dcc.qc.apply.entity_rows import columns_for
from dcc.qc.rows import prepared_file
from dcc.qc.rows.prepared_file import PreparedDocument, PreparedFile, open_prepared
from dcc.reference.loading import load_shipped
from dcc.rules.accepted_elements import AcceptedElements
from dcc.rules.checking import ABOUT_SPECIMENS, check_contents
from dcc.rules.context import DocumentContext
from dcc.rules.findings import unpacked
from dcc.session.prepare import documents
from dcc.session.prepare.documents import ArchiveToPrepare, DocumentToPrepare, PreparationBasis, prepare_archive
from tests.support.canonical_documents import write_document
from tests.support.qc_documents import block, experiment, housing, line
from tests.support.strategies_documents import full_document

TODAY = date(2026, 11, 21)
BASIS = PreparationBasis(load_shipped(), "7", TODAY, columns_for(create_engine("sqlite://")))
ON_SERVER = replace(BASIS, columns=columns_for(create_engine("mysql+pymysql://")))
SPECIMEN, EXPERIMENT = DocumentKind.SPECIMEN, DocumentKind.EXPERIMENT
NAME = "H.2013-10-31.1.experiment.impc.xml"

Prepare = Callable[..., dict[str, Exception]]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "prepared.rows"


@pytest.fixture
def prepare(tmp_path: Path, target: Path) -> Prepare:
    """Prepares documents, given by name, as they are put to the disk; those that are None are not there."""

    def prepared(
        documents: dict[str, bytes | None],
        action: Action = Action.ADD,
        basis: PreparationBasis = BASIS,
        md5_of: str | None = None,
    ) -> dict[str, Exception]:
        for name, content in documents.items():
            if content is not None:
                (tmp_path / name).write_bytes(content)
        to_prepare = [
            DocumentToPrepare(
                str(tmp_path / name),
                SPECIMEN if "specimen" in name else EXPERIMENT,
                "H",
                md5_of or md5(content or b"").hexdigest(),
            )
            for name, content in documents.items()
        ]
        return prepare_archive(basis, ArchiveToPrepare(SubmissionKey(action, "H.zip"), "H", target, to_prepare))

    return prepared


def rows_of(document: PreparedDocument) -> dict[str, list[Any]]:
    """Its rows and entries, with ids as if it were the first document of its file."""
    id_offsets = {table: -before for table, (before, _) in document.rows.items()} | {"document": -document.number}
    return {
        table: list(
            document.file.ask(
                entity_rows._SHIFTED[table].format(source="main"),
                {**id_offsets, "are_current": 1, "row_before": before, "last_row": last},
            )
        )
        for table, (before, last) in document.rows.items()
        if table != "entry"
    } | {"entry": sorted(entries_of(document))}


def entries_of(document: PreparedDocument) -> list[tuple[Any, ...]]:
    """What is told of its centre elements and entities, each with its line first."""
    return [
        (line, some.kind and some.kind.value, *told, row_id and row_id - document.rows[str(some.kind)][0], excess)
        for some in document.entries()
        for line, *told, row_id, excess in zip(*some[1:], strict=True)
    ]


def only(target: Path, content: bytes, name: str = NAME) -> PreparedDocument:
    return PreparedFile(target).document(name, md5(content).hexdigest())


@pytest.mark.parametrize("kind", DocumentKind)
def test_rows_are_the_same_however_often_they_are_written_and_after_whatever_document(
    prepare: Prepare, target: Path, monkeypatch: pytest.MonkeyPatch, kind: DocumentKind
) -> None:
    """As rows for SQLite, and as lines for a server."""
    name, content = f"H.2013-10-31.1.{kind}.impc.xml", full_document(kind).render()[0]
    other = {"H.2013-10-30.1.experiment.impc.xml": experiment_document("H", animals=9)}
    written, sent = [], []
    for rows_held, before in ((20_000, {}), (3, other)):
        monkeypatch.setattr(prepared_file, "_ROWS_HELD", rows_held)
        assert prepare(before | {name: content}) == {}
        written.append(rows_of(only(target, content, name)))
        assert prepare({name: content}, basis=ON_SERVER) == {}
        document = only(target, content, name)
        tables = {table: rows for table, rows in document.rows.items() if table != "entry"}
        sent.append({table: b"".join(document.file.lines(table, *rows)) for table, rows in tables.items()})
    assert (written[0], sent[0]) == (written[1], sent[1])
    assert sum(map(len, written[0].values())) > 10
    assert sum(lines.count(b"\n") for lines in sent[0].values()) > 10


def test_what_is_too_long_has_no_row_and_is_told_of(prepare: Prepare, target: Path) -> None:
    said = [
        block(EXPERIMENT),
        experiment("E1"),
        experiment("E2" * 200),
        experiment("E3", procedure_id="P" * 65),
        line("C" * 129),
        housing("kept"),
        block(EXPERIMENT, "H" * 33, position=2),
        experiment("E5"),
    ]
    content = write_document(EXPERIMENT, said)
    assert prepare({NAME: content}) == {}
    document = only(target, content)
    entries = [(kind, row_id, excess and excess.name) for _, kind, _, _, row_id, excess in entries_of(document)]
    assert entries == [
        (None, None, None),
        (None, None, "centreID"),
        ("experiment", 1, None),
        ("experiment", None, "experimentID"),
        ("experiment", None, "procedureID"),
        ("experiment", None, None),
        ("line", None, "colonyID"),
        ("housing", 1, None),
    ]
    assert not document.whole
    rows = rows_of(document)
    assert len(rows["measurement"]) == len(rows["procedure_run"]) == 2
    assert document.centres == ["H", "H" * 33]


def test_a_document_that_breaks_off_is_told_of_and_the_others_are_prepared(prepare: Prepare, target: Path) -> None:
    content, other = experiment_document("H", animals=900), experiment_document("H", animals=2)
    failed = prepare({NAME: content[: len(content) * 9 // 10], "H.2013-10-31.2.experiment.impc.xml": other})
    assert [(name, type(error)) for name, error in failed.items()] == [(NAME, NotWellFormedError)]
    file = PreparedFile(target)
    assert not file.has(NAME, md5(content).hexdigest())
    document = file.document("H.2013-10-31.2.experiment.impc.xml", md5(other).hexdigest())
    assert len(rows_of(document)["experiment"]) == 2


@pytest.mark.parametrize("is_there", [False, True])
def test_a_document_that_is_not_as_it_was_validated_is_lost(prepare: Prepare, is_there: bool) -> None:
    content = experiment_document("H", animals=2) if is_there else None
    (error,) = prepare({NAME: content}, md5_of="0" * 32).values()
    assert isinstance(error, StagedDocumentLostError)
    assert ("cannot be read" in str(error)) != is_there


def test_a_file_that_is_damaged_or_of_another_basis_or_version_is_not_used(
    prepare: Prepare, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert open_prepared(target, BASIS.name) is None
    prepare({NAME: experiment_document("H", animals=2)})
    (file,) = filter(None, [open_prepared(target, BASIS.name)])
    file.close()
    columns = {**BASIS.columns.names, "experiment": (*BASIS.columns.names["experiment"], "later")}
    later = replace(BASIS, columns=BASIS.columns._replace(names=columns))
    for other in (replace(BASIS, signature="8"), replace(BASIS, today=date(2026, 11, 22)), ON_SERVER, later):
        assert open_prepared(target, other.name) is None
    with monkeypatch.context() as patched:
        patched.setattr(prepared_file, "VERSION", prepared_file.VERSION + 1)
        assert open_prepared(target, BASIS.name) is None
    whole = target.read_bytes()
    facts = whole.replace(b'"whole": true', b'"whole": trux')
    assert facts != whole
    for damaged_one in (whole[:-1], whole + b"x", whole[:9000] + b"x" + whole[9001:], facts, whole[:7], b""):
        target.write_bytes(damaged_one)
        assert open_prepared(target, BASIS.name) is None
    target.write_bytes(whole)
    assert open_prepared(target, BASIS.name) is not None
    assert [one.name for one in target.parent.glob("prepared*")] == [target.name]


def test_a_file_of_another_version_of_the_platform_or_of_a_package_with_rules_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def name(version: str, *packages: str) -> str:
        """That of a platform of this version with packages that add rules."""
        with monkeypatch.context() as patched:
            patched.setattr(importlib.metadata, "version", lambda _: version)
            patched.setattr(documents, "added_entries", lambda _: [(package, None) for package in packages])
            documents._rules_installed.cache_clear()
            return replace(BASIS).name

    assert name("1") == name("1")
    assert len({name("1"), name("9"), name("1", "rules 1.0"), name("1", "rules 2.0")}) == 4
    documents._rules_installed.cache_clear()


@pytest.mark.parametrize("action", Action)
def test_what_the_rules_find_is_what_they_find_in_the_document_by_itself(
    prepare: Prepare, target: Path, action: Action
) -> None:
    content = damaged(specimen_document("H", mice=9), 'project="BaSH"', 'project="Nobody"')
    name = "H.2013-10-31.1.specimen.impc.xml"
    assert prepare({name: content}, action) == {}
    found = only(target, content, name).findings
    if action is Action.DELETE:
        assert found is None
        return
    context = DocumentContext(action, "H", TODAY, BASIS.reference)
    expected = list(check_contents(read_document(target.with_name(name), SPECIMEN), context, ABOUT_SPECIMENS))
    assert [unpacked(one) for one in found or ()] == expected
    assert "S12" in {one.rule for one in expected}


def test_a_process_that_prepares_loads_no_database_not_even_by_what_it_is_sent() -> None:
    code = (
        "import pickle, sys, dcc.session.prepare.documents; pickle.load(sys.stdin.buffer); "
        "print(sorted({'sqlalchemy', 'pydantic'} & set(sys.modules)))"
    )
    sent = replace(BASIS, accepted=AcceptedElements())
    ran = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(sent), capture_output=True, check=True)
    assert ran.stdout.strip() == b"[]"
