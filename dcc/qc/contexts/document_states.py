"""Which documents have data that somebody still has to look at."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, select

from dcc.qc.contexts.transitions import SETTLED
from dcc.qc.models import DataContext, Document, DocumentContext

_DOCUMENT: Final = Document.__table__
_CONTEXT: Final = DataContext.__table__
_PART: Final = DocumentContext.__table__

# Nested, so that it is the open contexts that documents are looked up by, however few they are.
_OPEN_CONTEXTS: Final = select(_CONTEXT.c.id).where(_CONTEXT.c.state.not_in([state.value for state in SETTLED]))
_WITH_OPEN: Final = select(_PART.c.document_id).where(_PART.c.context_id.in_(_OPEN_CONTEXTS))
_OPEN: Final = select(_DOCUMENT.c.tracker_id).where(_DOCUMENT.c.id.in_(_WITH_OPEN), _DOCUMENT.c.tracker_id.is_not(None))


def open_documents(connection: Connection) -> set[int]:
    """The documents with measurements in a context that nobody is done with, by the ids of their `xml_file`.

    Those without a tracker are left out.
    """
    return set(connection.scalars(_OPEN))
