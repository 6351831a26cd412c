"""The rows of the QC database for the tracker's documents. Lists may be of any length.

A row belongs to the document of its `xml_file` id only if it is of the same file. A tracker that was made again gives
the ids of a lost one to other documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, select

from dcc.databases.list_parameters import IDS, rows_about
from dcc.naming import Action, NamingConvention
from dcc.outcomes import ZipKey
from dcc.qc.models import DOCUMENT
from dcc.session.data.document_queries import load_documents
from dcc.session.data.upload_order import DueDocument
from dcc.vocabulary import DocumentAction, DocumentState

_NOT_UNDO: Final = DOCUMENT.c.action != DocumentAction.UNDO.value


class QcDocument(NamedTuple):
    """A document of the QC database, with the id of its `xml_file` in the tracker; `author` is who confirmed it."""

    id: int
    xml_id: int | None
    state: DocumentState
    author: str | None
    key: ZipKey
    file_name: str
    md5: str

    @property
    def is_held(self) -> bool:
        """Whether it waits for confirmation."""
        return self.state is DocumentState.HELD and self.author is None

    def is_of(self, document: DueDocument) -> bool:
        """Whether it belongs to a document of the tracker: the same file, not only the same id."""
        mine = (self.xml_id, self.key, self.file_name, self.md5)
        return mine == (document.xml_id, document.key, document.name.file_name, document.md5 or "")

    def with_names_of(self, document: DueDocument) -> QcDocument:
        """The same, sharing equal names with the tracker's document to save memory."""
        name, md5 = document.name.file_name, document.md5 or ""
        return QcDocument(self.id, document.xml_id, self.state, self.author, document.key, name, md5)


def documents_of(connection: Connection, documents: Iterable[DueDocument]) -> dict[int, QcDocument]:
    """The rows of these documents of the tracker, by the ids of their `xml_file`."""
    wanted = {document.xml_id: document for document in documents}
    return {
        found.xml_id: found.with_names_of(wanted[found.xml_id])
        for found in _documents_of_rows(rows_about(connection, _OF_TRACKER, wanted))
        if found.xml_id and found.is_of(wanted[found.xml_id])
    }


def documents_by_id(connection: Connection, document_ids: Iterable[int]) -> list[QcDocument]:
    """The documents with these ids."""
    return list(_documents_of_rows(rows_about(connection, _BY_ID, document_ids)))


def counted_by_tracker(
    connection: Connection, documents: Iterable[QcDocument], naming: NamingConvention
) -> list[tuple[DueDocument, QcDocument]]:
    """Those documents that the tracker counts, as it has them, in the order of upload."""
    by_xml_id = {found.xml_id: found for found in documents if found.xml_id is not None}
    counted = load_documents(connection, by_xml_id, naming)
    return [
        (document, by_xml_id[document.xml_id]) for document in counted if by_xml_id[document.xml_id].is_of(document)
    ]


def in_state(connection: Connection, state: DocumentState, key: ZipKey | None = None) -> list[QcDocument]:
    """The documents in a state that the tracker knows; of one submission only, if given."""
    known = DOCUMENT.c.tracker_id.is_not(None)
    query = _documents().where(DOCUMENT.c.state == state.value, known).order_by(DOCUMENT.c.id)
    if key is not None:
        query = query.where(DOCUMENT.c.zip_file == key.file_name, DOCUMENT.c.zip_action == key.action.value)
    return list(_documents_of_rows(connection.execute(query)))


def standing_documents(connection: Connection, centre: str | None = None) -> list[int]:
    """The ids of the applied documents, of one centre only, if given."""
    query = select(DOCUMENT.c.id).where(DOCUMENT.c.state == DocumentState.APPLIED.value, _NOT_UNDO)
    return list(connection.scalars(query if centre is None else query.where(DOCUMENT.c.centre == centre)))


_COLUMNS: Final = ("id", "tracker_id", "state", "author", "zip_action", "zip_file", "file_name", "md5")


def _documents() -> Any:
    return select(*(DOCUMENT.c[name] for name in _COLUMNS)).where(_NOT_UNDO)


_OF_TRACKER: Final = _documents().where(DOCUMENT.c.tracker_id.in_(IDS))
_BY_ID: Final = _documents().where(DOCUMENT.c.id.in_(IDS))


def _documents_of_rows(rows: Iterable[Any]) -> Iterator[QcDocument]:
    for document_id, xml_id, state, author, action, zip_file, file_name, md5 in rows:
        key = ZipKey(Action(action), zip_file)
        yield QcDocument(document_id, xml_id, DocumentState(state), author, key, file_name, md5 or "")
