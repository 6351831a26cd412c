"""New judgements that people ask for, which the next session makes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from dcc.databases.transactions import run_reading, run_writing
from dcc.outcomes import SubmissionKey
from dcc.qc.apply.held_documents import check_signature
from dcc.qc.judging import rejudgements
from dcc.session.data.document_queries import counted_by_tracker, documents_by_id, standing_documents
from dcc.session.data.judgement_phase import may_be_judged_again
from dcc.session.data.upload_order import DueDocument
from dcc.settings import Settings
from dcc.tracker import progress
from dcc.tracker.states import UPLOADED


@dataclass(frozen=True, slots=True)
class RecheckResult:
    """What the next session judges again: the number of documents, and their submissions."""

    documents: int
    keys: tuple[SubmissionKey, ...]


def recheck(
    tracker: Engine,
    qc: Engine,
    settings: Settings,
    *,
    centre: str | None = None,
    rule: str | None = None,
    keys: Collection[SubmissionKey] | None = None,
    author: str,
    reason: str,
) -> RecheckResult:
    """Let the next session judge documents again: those with findings of `rule`, else all applied ones.

    `centre` and `keys` restrict them. Those that the tracker does not count are set back in the QC database alone: it
    decides even if a running session advances a document in the tracker meanwhile. Raises ConfigurationError for an
    unsuitable author or reason, and the `unreachable` error of either database.
    """
    check_signature(author, reason)

    def find(connection: Connection) -> list[int]:
        if rule is not None:
            return rejudgements.documents_of_rule(connection, rule, centre)
        return standing_documents(connection, centre)

    found = run_reading(qc, lambda connection: documents_by_id(connection, find(connection)))
    chosen = None if keys is None else set(keys)
    wanted = [document for document in found if chosen is None or document.key in chosen]
    run_writing(qc, lambda connection: rejudgements.mark_for_judging(connection, [document.id for document in wanted]))

    def set_back(connection: Connection) -> tuple[list[DueDocument], set[int]]:
        counted = counted_by_tracker(connection, wanted, settings.naming)
        judged = [document.due for document in counted if may_be_judged_again(document.due)]
        progress.reopen_documents(connection, {document.xml_id: UPLOADED for document in judged}, author, reason)
        return judged, {document.stored.id for document in counted}

    judged, counted = run_writing(tracker, set_back)
    others = [document for document in wanted if document.id not in counted]
    concerned = {document.key for document in judged} | {document.key for document in others}
    return RecheckResult(len(judged) + len(others), tuple(sorted(concerned)))
