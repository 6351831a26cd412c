"""Judges many documents in one transaction, by findings that were computed before it began.

Most documents have no findings, and had none: these take a few statements together. The others are judged one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, func, select

from dcc.databases.columns import utc_now
from dcc.databases.list_parameters import change_rows, rows_with
from dcc.errors import NotFoundError
from dcc.naming import DocumentKind
from dcc.qc.judging.documents import (
    Judgement,
    JudgingBasis,
    StoredDocument,
    lock_documents,
    record_judgement,
    require_standing,
)
from dcc.qc.judging.version_validity import kinds_in
from dcc.qc.models import DOCUMENT, ENTITY_TABLES, FINDING
from dcc.rules.findings import Finding
from dcc.vocabulary import EntityKind, Validity

_TOLD_OF: Final = select(FINDING.c.document_id).distinct().where(FINDING.c.closed.is_(None))
_UNJUDGED: Final = {kind: table.c.validity == Validity.UNJUDGED for kind, table in ENTITY_TABLES.items()}


class ContentFindings(NamedTuple):
    """The rules' findings in a document, without those of the upload."""

    document_id: int
    findings: Sequence[Finding]


def newest_document(connection: Connection) -> int:
    """The id of the newest document, 0 without any: versions change only with a newer one."""
    return connection.scalar(select(func.max(DOCUMENT.c.id))) or 0


def judge_together(
    connection: Connection, found: Sequence[ContentFindings], basis: JudgingBasis
) -> list[Judgement | NotFoundError]:
    """Judge documents by computed findings, in their order, within a write transaction.

    Returns what `judge_document` does for each; a NotFoundError for one that is missing or was withdrawn.
    """
    documents = lock_documents(connection, [one.document_id for one in found])
    clean = [documents[one.document_id] for one in found if one.document_id in documents and not one.findings]
    quiet = _without_history(connection, clean)
    _judge_quiet(connection, quiet, basis)
    unheard_of = {document.id for document in quiet}
    judged: list[Judgement | NotFoundError] = []
    for document_id, findings in found:
        try:
            document = require_standing(document_id, documents.get(document_id))
        except NotFoundError as error:
            judged.append(error)
            continue
        if document_id in unheard_of:
            judged.append(Judgement(document_id, failed=False, findings=(), counts={}, added=(), cleared=()))
        else:
            judged.append(record_judgement(connection, document, findings, basis))
    return judged


def _without_history(connection: Connection, documents: Collection[StoredDocument]) -> list[StoredDocument]:
    """The applied documents with neither open findings nor invalid versions."""
    loud = {
        row.document_id
        for row in rows_with(connection, _TOLD_OF, FINDING.c.document_id, [document.id for document in documents])
    }
    for kind, ids in _by_entity_kind(document for document in documents if document.was_judged).items():
        loud |= _with_validity(connection, kind, ids, Validity.INVALID)
    return [document for document in documents if document.id not in loud and document.stands]


def _with_validity(connection: Connection, kind: EntityKind, document_ids: Iterable[int], validity: int) -> set[int]:
    """The documents with an entity of that kind and validity."""
    own = ENTITY_TABLES[kind].c
    having = select(own.document_id).distinct().where(own.validity == validity)
    return {row.document_id for row in rows_with(connection, having, own.document_id, document_ids)}


def _judge_quiet(connection: Connection, documents: Collection[StoredDocument], basis: JudgingBasis) -> None:
    """Record that documents without present and former findings are valid."""
    unjudged = _by_entity_kind(document for document in documents if not document.was_judged)
    for kind, ids in _by_entity_kind(document for document in documents if document.was_judged).items():
        unjudged.setdefault(kind, []).extend(_with_validity(connection, kind, ids, Validity.UNJUDGED))
    for kind, ids in unjudged.items():
        change_rows(connection, ENTITY_TABLES[kind].c.document_id, ids, _UNJUDGED[kind], validity=Validity.VALID)
    changed = set[int]().union(*unjudged.values())
    judged = {"judged_at": utc_now(), "judged_by": basis.signature}
    change_rows(connection, DOCUMENT.c.id, changed, **judged, contexts_built=False)
    change_rows(connection, DOCUMENT.c.id, {document.id for document in documents} - changed, **judged)


def _by_entity_kind(documents: Iterable[StoredDocument]) -> dict[EntityKind, list[int]]:
    """The ids of the documents that may have a kind of entity."""
    ids: dict[EntityKind, list[int]] = {}
    for document in documents:
        for kind in kinds_in(DocumentKind(document.kind)):
            ids.setdefault(kind, []).append(document.id)
    return ids
