"""Several documents in one transaction: what each would have come to by itself, and nothing where it fails."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from sqlalchemy import Engine, select

from dcc.cli.demo.submissions import experiment_document, specimen_document
from dcc.documents.reading import read_document
from dcc.naming import DocumentKind
from dcc.qc.apply.document_effect import AppliedDocument
from dcc.qc.apply.documents import apply_documents
from dcc.qc.models import DOCUMENT
from dcc.vocabulary import DocumentState
from tests.support.asking import column_in, execute_in
from tests.support.qc_child import fail_at_each_statement
from tests.support.qc_documents import contents, experiment, housing, line, prepared, specimen
from tests.support.qc_files import File, all_rows, alone, clear, file_maker
from tests.support.strategies_documents import full_document

EXPERIMENT, SPECIMEN = DocumentKind.EXPERIMENT, DocumentKind.SPECIMEN


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., File]:
    """Makes a file of a document's text, or of what it says."""
    return file_maker(tmp_path)


@pytest.fixture
def files(put: Callable[..., File]) -> list[File]:
    """Five plain documents, each about animals of its own."""
    return [put(EXPERIMENT, experiment_document("H", animals=3, first=number * 100)) for number in range(5)]


def together(engine: Engine, files: list[File]) -> list[AppliedDocument]:
    read = [(one.document, read_document(one.path, one.document.kind)) for one in files]
    with prepared(engine, *read) as to_apply:
        return apply_documents(engine, to_apply, patience_seconds=5)


@pytest.mark.both_databases
def test_documents_come_to_the_same_together_as_one_by_one(qc_database: Engine, put: Callable[..., File]) -> None:
    """Every row and every outcome: also of what is there already, is named twice, comes late or is refused."""
    old, new = date(2013, 10, 1), date(2013, 11, 1)
    first = put(EXPERIMENT, contents(experiment("E1"), experiment("E2"), housing()))
    files = [
        put(SPECIMEN, specimen_document("H", mice=12), tracker_id=7),
        put(SPECIMEN, contents(specimen("S1"), specimen("S1"), specimen("S2")), tracker_id=8),
        put(SPECIMEN, contents(specimen("S1"), centre="J"), centre="J"),
        put(EXPERIMENT, experiment_document("H", animals=30), created=old),
        put(EXPERIMENT, contents(experiment("E1"), experiment("E3"), housing(), line("C1")), created=new),
        put(EXPERIMENT, contents(experiment("E3"), line("C1"))),
        put(EXPERIMENT, contents(experiment("E4"))),
        put(SPECIMEN, contents(specimen("S3", "L2"))),
        put(EXPERIMENT, full_document(EXPERIMENT).render()[0]),
        put(SPECIMEN, full_document(SPECIMEN).render()[0]),
        put(EXPERIMENT, contents(experiment("E" * 300), experiment("E7"))),
        put(EXPERIMENT, experiment_document("H", animals=2)),
    ]
    alone(qc_database, first)
    expected = [alone(qc_database, one) for one in files]
    rows = all_rows(qc_database)
    clear(qc_database)
    alone(qc_database, first)
    applied = together(qc_database, files)
    assert applied == expected
    assert all_rows(qc_database) == rows
    assert [one.late for one in applied][3:8] == [True, False, True, True, True]
    assert [one.state is DocumentState.REFUSED for one in applied].count(True) == 2


@pytest.mark.parametrize("how", ["applied", "held", "its number is another's"])
def test_what_came_before_is_told_among_others(
    qc_database: Engine, files: list[File], put: Callable[..., File], how: str
) -> None:
    files[1] = replace(files[1], document=replace(files[1].document, tracker_id=5))
    before = files[1]
    if how == "held":
        before = replace(before, document=replace(before.document, md5="0" * 32))
    elif how == "its number is another's":
        before = put(EXPERIMENT, contents(experiment("E1")), tracker_id=5)
    alone(qc_database, before)
    if how == "held":
        execute_in(qc_database, DOCUMENT.update().values(state=DocumentState.HELD.value))
    applied = together(qc_database, files)
    assert [one.repeated for one in applied] == [False, how == "applied", False, False, False]
    assert [one.state for one in applied].count(DocumentState.APPLIED) == (4 if how == "held" else 5)
    assert column_in(qc_database, select(DOCUMENT.c.file_name).where(DOCUMENT.c.tracker_id == 5)) == [
        files[1].document.file_name
    ]


@pytest.mark.both_databases
def test_a_failure_at_any_statement_leaves_nothing_and_they_can_be_applied_again(
    qc_database: Engine, files: list[File], put: Callable[..., File]
) -> None:
    alone(qc_database, put(EXPERIMENT, contents(experiment("E1"))))
    files.append(put(EXPERIMENT, contents(experiment("E1"), experiment("E2"), line("C1"))))
    before = all_rows(qc_database)

    def nothing_is_left() -> None:
        assert all_rows(qc_database) == before

    applied, number = fail_at_each_statement(qc_database, lambda: together(qc_database, files), nothing_is_left)
    assert number > 10
    assert [one.document_id for one in applied] == [2, 3, 4, 5, 6, 7]
    assert applied[-1].refused == 1
