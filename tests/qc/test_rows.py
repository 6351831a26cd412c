"""What a document said is said by its rows to the letter, on SQLite and on MariaDB."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from sqlalchemy import Connection, Engine

from dcc.documents.comparison import differences
from dcc.documents.reading import read_document
from dcc.documents.validation import validate_document
from dcc.naming import Action, DocumentKind
from dcc.qc.rows import bulk
from dcc.qc.rows.stored_content import load_document
from tests.qc.test_applying import values
from tests.qc.test_rebuilding import SCHEMAS, without_lines
from tests.support.asking import in_reading
from tests.support.canonical_documents import canonical, write_document
from tests.support.databases import only_mariadb, only_sqlite
from tests.support.qc_documents import apply, apply_document, experiment, to_apply
from tests.support.qc_files import clear
from tests.support.strategies_documents import Document, full_document, valid_documents
from tests.support.trials import trials


def assert_kept(engine: Engine, content: bytes, kind: DocumentKind, folder: Path) -> None:
    path = folder / "document.xml"
    path.write_bytes(content)
    applied = apply_document(engine, to_apply(Action.ADD, kind), lambda: read_document(path, kind))
    assert "Q1" not in {finding.rule for finding in applied.findings}
    loaded = tuple(in_reading(engine, load_document, applied.document_id))
    assert without_lines(loaded) == without_lines(tuple(read_document(path, kind)))
    assert list(differences(kind, read_document(path, kind), loaded)) == []
    rebuilt = write_document(kind, loaded)
    assert canonical(rebuilt, kind) == canonical(content, kind)
    path.write_bytes(rebuilt)
    assert validate_document(path, kind, SCHEMAS, max_errors=1, max_tree_bytes=10**9) == []


@pytest.mark.parametrize("kind", list(DocumentKind))
def test_all_that_the_format_has_is_kept(qc_database: Engine, tmp_path: Path, kind: DocumentKind) -> None:
    assert_kept(qc_database, full_document(kind).render()[0], kind, tmp_path)


@only_sqlite
@given(document=valid_documents())
@settings(max_examples=trials(60))
def test_generated_documents_are_kept(qc_database: Engine, tmp_path: Path, document: Document) -> None:
    # One that says the same as an earlier one would be a duplicate, which brings nothing.
    clear(qc_database)
    assert_kept(qc_database, document.render()[0], document.kind, tmp_path)


@only_mariadb
@pytest.mark.parametrize("files_allowed", [True, False])
def test_rows_reach_mariadb_with_and_without_files(
    qc_database: Engine, monkeypatch: pytest.MonkeyPatch, files_allowed: bool
) -> None:
    odd = ["", " ", "NaN", "1e400", "١٢", "a\tb\\N\r\n'\"%s\\🐁"] * 150
    asked = []
    load_file = bulk._load_file

    def spy(*arguments: object) -> None:
        asked.append(arguments)
        load_file(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(bulk, "_load_file", spy)
    with qc_database.connect() as connection:
        connection.exec_driver_sql(f"SET GLOBAL local_infile = {int(files_allowed)}")
        inserted_before = inserts_so_far(connection)
    try:
        apply(
            qc_database, Action.ADD, *(experiment(f"E{number}", value=odd[number % len(odd)]) for number in range(900))
        )
    finally:
        with qc_database.connect() as connection:
            connection.exec_driver_sql("SET GLOBAL local_infile = 1")
            inserted = inserts_so_far(connection) - inserted_before
    assert values(qc_database) == sorted(odd)
    assert len(asked) > 1 if files_allowed else len(asked) == 1
    # Statements of many rows, and not one for each.
    assert inserted < 100


def inserts_so_far(connection: Connection) -> int:
    """How many INSERTs the server has had from anybody."""
    return int(connection.exec_driver_sql("SHOW GLOBAL STATUS LIKE 'Com_insert'").one()[1])


@only_mariadb
def test_few_rows_of_much_text_are_as_many_statements_as_the_server_takes(qc_database: Engine) -> None:
    with qc_database.connect() as connection:
        longest = int(connection.exec_driver_sql("SELECT @@max_allowed_packet").scalar_one())
    long = "x" * (longest // 10)
    apply(qc_database, Action.ADD, *(experiment(f"E{number}", value=f"{number} {long}") for number in range(20)))
    assert [value[:2] for value in values(qc_database)] == sorted(f"{number} "[:2] for number in range(20))
