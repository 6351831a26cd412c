"""Documents of the QC database that are judged, locked against other judgements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from sqlalchemy import Connection, bindparam, select

from dcc.errors import NotFoundError
from dcc.qc.apply.versions import in_chunks
from dcc.qc.models import DOCUMENT
from dcc.vocabulary import DocumentAction, DocumentState


class StoredDocument(NamedTuple):
    """The data of a document that judging needs."""

    id: int
    tracker_id: int | None
    kind: str
    centre: str
    action: str
    state: str
    judged_by: str | None
    origin: str | None

    @property
    def was_judged(self) -> bool:
        """Whether it was ever judged; before that, the validity of its entities is unknown."""
        return self.judged_by is not None

    @property
    def deletes(self) -> bool:
        """Whether it deletes."""
        return self.action == DocumentAction.DELETE.value

    @property
    def stands(self) -> bool:
        """Whether it was not withdrawn."""
        return self.state != DocumentState.UNDONE.value


_STORED: Final = (
    select(*(DOCUMENT.c[name] for name in StoredDocument._fields))
    .where(DOCUMENT.c.id.in_(bindparam("documents", expanding=True)))
    .order_by(DOCUMENT.c.id)
    .with_for_update()
)


def lock_documents(connection: Connection, document_ids: Iterable[int]) -> dict[int, StoredDocument]:
    """The existing documents with these ids, locked against other judgements until the transaction ends."""
    found: dict[int, StoredDocument] = {}
    for chunk in in_chunks(sorted(document_ids)):
        for row in connection.execute(_STORED, {"documents": chunk}):
            found[row.id] = StoredDocument(*row)
    return found


def require_standing(document_id: int, document: StoredDocument | None) -> StoredDocument:
    """A document; raises NotFoundError if it is missing or was withdrawn."""
    if document is None:
        raise NotFoundError(f"There is no document {document_id} in the QC database. Look up which there are.")
    if not document.stands:
        raise NotFoundError(f"Document {document_id} was withdrawn. To bring it back, retry its archive.")
    return document
