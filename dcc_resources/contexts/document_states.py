"""Which documents have data that somebody still has to look at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, select

from dcc_resources.contexts.transitions import SETTLED
from dcc_resources.qc_database.models import DataContext, DocumentContext
from dcc_resources.qc_database.versions import in_chunks

_CONTEXT: Final = DataContext.__table__
_PART: Final = DocumentContext.__table__


def open_documents(connection: Connection, document_ids: Iterable[int] | None = None) -> set[int]:
    """Those documents, of all or of the given ones, with measurements in a context that nobody is done with."""
    statement = (
        select(_PART.c.document_id)
        .distinct()
        .join(_CONTEXT, _CONTEXT.c.id == _PART.c.context_id)
        .where(_CONTEXT.c.state.not_in([state.value for state in SETTLED]))
    )
    if document_ids is None:
        return set(connection.scalars(statement))
    found: set[int] = set()
    for chunk in in_chunks(sorted(set(document_ids))):
        found |= set(connection.scalars(statement.where(_PART.c.document_id.in_(chunk))))
    return found
