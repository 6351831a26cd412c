"""Documents in files for the tests of the QC database, and all that it holds of documents."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import md5
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, select, text

from dcc.documents.reading import read_document
from dcc.naming import Action, DocumentKind
from dcc.qc.apply.document_effect import AppliedDocument
from dcc.qc.models import DOCUMENT, DOCUMENT_TABLES, FINDING, RESERVED_IDS
from dcc.qc.rows.documents import DocumentToApply
from tests.support.canonical_documents import write_document
from tests.support.qc_documents import apply_document, to_apply

_TIMES = {"applied_at", "created"}


@dataclass(frozen=True)
class File:
    """A document and where it lies."""

    document: DocumentToApply
    path: Path


def file_maker(folder: Path) -> Callable[..., File]:
    """Makes a file in a folder of a document's text, or of what it says."""

    def put(kind: DocumentKind, said: bytes | list[Any], **options: Any) -> File:
        document = to_apply(Action.ADD, kind, **options)
        path = folder / document.file_name
        path.write_bytes(said if isinstance(said, bytes) else write_document(kind, said))
        return File(replace(document, md5=md5(path.read_bytes()).hexdigest()), path)

    return put


def alone(engine: Engine, one: File) -> AppliedDocument:
    return apply_document(engine, one.document, lambda: read_document(one.path, one.document.kind), patience_seconds=5)


def all_rows(engine: Engine) -> dict[str, list[tuple[Any, ...]]]:
    """All rows but when they were written, and the ids of lifetimes, which go by kinds where documents share a turn."""
    tables = (DOCUMENT, *DOCUMENT_TABLES, FINDING)
    with engine.connect() as connection:
        rows = {
            table.name: [
                tuple(row)
                for row in connection.execute(
                    select(*(column for column in table.c if column.name not in _TIMES)).order_by(*table.primary_key)
                )
            ]
            for table in tables
        }
    rows["lifetime"] = sorted((row[1:] for row in rows["lifetime"]), key=str)
    return rows


def clear(engine: Engine) -> None:
    """Remove all documents, so that the next one's rows get the same ids."""
    with engine.begin() as connection:
        for table in (FINDING, *reversed(DOCUMENT_TABLES), DOCUMENT, RESERVED_IDS):
            name = connection.dialect.identifier_preparer.format_table(table)
            connection.execute(text(f"DELETE FROM {name}"))
        if connection.dialect.name == "sqlite":
            connection.execute(text("DELETE FROM sqlite_sequence"))
        else:
            connection.execute(text("ALTER TABLE finding AUTO_INCREMENT = 1"))
