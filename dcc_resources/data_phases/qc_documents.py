"""The rows of the QC database that stand for the tracker's documents. All lists may be of any length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, select

from dcc_resources.outcomes import ZipKey
from dcc_resources.qc_database.models import Document
from dcc_resources.qc_database.vocabulary import DocumentAction, DocumentState
from dcc_resources.tracker.lineage import IDS, chunks

_DOCUMENT: Final = Document.__table__
_NOT_UNDO: Final = _DOCUMENT.c.action != DocumentAction.UNDO.value


class QcDocument(NamedTuple):
    """A document of the QC database, with the id of its `xml_file` in the tracker; `author` is who confirmed it."""

    id: int
    xml_id: int
    state: DocumentState
    author: str | None

    @property
    def is_held(self) -> bool:
        """Whether it waits to be confirmed."""
        return self.state is DocumentState.HELD and self.author is None


def documents_of(connection: Connection, xml_ids: Iterable[int]) -> dict[int, QcDocument]:
    """The documents that stand for these of the tracker, by the ids of their `xml_file`."""
    query = _tracked().where(_DOCUMENT.c.tracker_id.in_(IDS))
    rows = (row for ids in chunks(xml_ids) for row in connection.execute(query, {"ids": ids}))
    return {found.xml_id: found for found in _found(rows)}


def xml_ids_of(connection: Connection, document_ids: Iterable[int]) -> dict[int, int]:
    """The ids of the `xml_file` of documents, by their ids; those without a tracker are left out."""
    query = _tracked().where(_DOCUMENT.c.id.in_(IDS))
    rows = (row for ids in chunks(document_ids) for row in connection.execute(query, {"ids": ids}))
    return {found.id: found.xml_id for found in _found(rows)}


def in_state(connection: Connection, state: DocumentState, key: ZipKey | None = None) -> list[QcDocument]:
    """The documents in a state that the tracker knows; of one zip action only, if given."""
    query = _tracked().where(_DOCUMENT.c.state == state.value).order_by(_DOCUMENT.c.id)
    if key is not None:
        query = query.where(_DOCUMENT.c.zip_file == key.file_name, _DOCUMENT.c.zip_action == key.action.value)
    return list(_found(connection.execute(query)))


def standing_documents(connection: Connection, centre: str | None = None) -> list[int]:
    """The ids of the documents that stand, of one centre only, if given."""
    query = select(_DOCUMENT.c.id).where(_DOCUMENT.c.state == DocumentState.APPLIED.value, _NOT_UNDO)
    return list(connection.scalars(query if centre is None else query.where(_DOCUMENT.c.centre == centre)))


def _tracked() -> Any:
    return select(_DOCUMENT.c.id, _DOCUMENT.c.tracker_id, _DOCUMENT.c.state, _DOCUMENT.c.author).where(
        _DOCUMENT.c.tracker_id.is_not(None), _NOT_UNDO
    )


def _found(rows: Iterable[Any]) -> Iterator[QcDocument]:
    for document_id, xml_id, state, author in rows:
        yield QcDocument(document_id, xml_id, DocumentState(state), author)
