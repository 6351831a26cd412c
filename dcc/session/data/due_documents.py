"""The documents that a session would process if it began now."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection

from dcc.databases.schema import current
from dcc.naming import Action
from dcc.phases import Phase
from dcc.qc.database import open_qc_database
from dcc.session.data.document_queries import count_waiting, in_state, load_due
from dcc.settings import Settings
from dcc.tracker.hostings.older_archives import waiting_for_older
from dcc.tracker.states import AWAITING_QC
from dcc.vocabulary import DocumentState


def count_due_documents(tracker: Connection, settings: Settings, centres: Collection[str] | None, until: Phase) -> int:
    """The number of documents of centres, or of all, that wait for the steps after validation up to `until`.

    Without those that wait for a person, or for an older archive. Raises QcDatabaseOutdatedError and
    QcDatabaseUnreachableError.
    """
    if count_waiting(tracker, centres, until) == 0:
        return 0
    found = [
        document
        for phase in Phase
        if Phase.UPLOAD <= phase <= until
        for document in load_due(tracker, phase, settings.naming)
        if document.state != AWAITING_QC and (centres is None or document.centre in centres)
    ]
    to_upload = [document for document in found if document.state.phase <= Phase.UPLOAD]
    # The session that takes the older archive, or the next one after the decision about it, takes these too.
    # An addition waits only after a session that saw to it.
    may_wait = [one for one in to_upload if one.key.action is not Action.ADD or one.state.phase is Phase.UPLOAD]
    older = waiting_for_older(tracker, {document.za_id for document in may_wait})
    left = {document.xml_id for document in may_wait if document.za_id in older}
    if any(document.state.phase is Phase.UPLOAD for document in to_upload):
        with current(open_qc_database(settings)) as engine, engine.connect() as qc:
            left |= {one.xml_id for one in in_state(qc, DocumentState.HELD) if one.is_held and one.xml_id is not None}
    return len({document.xml_id for document in found} - left)
