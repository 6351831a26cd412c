"""Documents of the QC database by id or name, and single specimens and experiments as XML."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, select

from dcc.documents.writing_xml import content_lines
from dcc.errors import NotFoundError
from dcc.naming import Action, DocumentKind
from dcc.outcomes import SubmissionKey
from dcc.qc.apply.versions import same_text
from dcc.qc.models import BLOCK, DOCUMENT, EXPERIMENT, SPECIMEN
from dcc.qc.rows.stored_content import load_experiments, load_specimens
from dcc.vocabulary import DocumentAction, DocumentState

_ID: Final = re.compile("[0-9]{1,18}")


class FoundDocument(NamedTuple):
    """A document of the QC database: of which submission it is, and what became of it."""

    id: int
    key: SubmissionKey
    file_name: str
    kind: DocumentKind
    md5: str | None
    state: DocumentState

    def require_rows(self, connection: Connection) -> None:
        """Raise NotFoundError if nothing of it was stored."""
        if connection.scalar(select(BLOCK.c.id).where(BLOCK.c.document_id == self.id).limit(1)) is None:
            raise NotFoundError(
                f"The QC database has no data of document {self.id}, {self.file_name} ({self.state}). See "
                f"`dcc show {self.key}`."
            )


class StoredRecord(NamedTuple):
    """A version of a specimen or experiment, as lines of XML, with the document and line that it stands in."""

    kind: str
    centre: str
    id: str
    is_current: bool
    document: FoundDocument
    line: int
    xml: list[str]


def find_document(connection: Connection, wanted: str) -> FoundDocument:
    """A document by its id, or the last one of a name. Raises NotFoundError; also for an undo, which has no XML."""
    own, undo = DOCUMENT.c, DocumentAction.UNDO.value
    is_id = _ID.fullmatch(wanted) is not None
    condition = own.id == int(wanted) if is_id else (own.file_name == wanted) & (own.action != undo)
    row = connection.execute(select(DOCUMENT).where(condition).order_by(own.id.desc()).limit(1)).first()
    if row is None:
        raise NotFoundError(
            f"The QC database has no document {wanted!r}. `dcc data history` and the column document_id name documents."
        )
    if row.action == undo:
        raise NotFoundError(f"Document {row.id} withdrew document {row.undoes}, and has no XML of its own.")
    return _found_document(row)


def stored_records(
    connection: Connection, kind: str, centre: str, record_id: str, *, everything: bool = False
) -> list[StoredRecord]:
    """The current versions of a specimen or experiment, or all versions; oldest first."""
    table = SPECIMEN if kind == "specimen" else EXPERIMENT
    own = table.c.specimen_id if kind == "specimen" else table.c.experiment_id
    condition = (table.c.centre == centre) & same_text(own, record_id)
    query = select(table).where(condition, *([] if everything else [table.c.is_current])).order_by(table.c.id)
    rows = list(connection.execute(query))
    documents = select(DOCUMENT).where(DOCUMENT.c.id.in_({row.document_id for row in rows}))
    by_id = {row.id: _found_document(row) for row in connection.execute(documents)}
    load: Any = load_specimens if kind == "specimen" else load_experiments
    records = []
    for row, entity in zip(rows, load(connection, rows), strict=True):
        document, own_id = by_id[row.document_id], row._mapping[own.name]
        lines = content_lines(document.kind, entity)
        records.append(StoredRecord(kind, row.centre, own_id, bool(row.is_current), document, row.line, lines))
    return records


def _found_document(row: Any) -> FoundDocument:
    key = SubmissionKey(Action(row.zip_action), row.zip_file)
    return FoundDocument(row.id, key, row.file_name, DocumentKind(row.kind), row.md5, DocumentState(row.state))
