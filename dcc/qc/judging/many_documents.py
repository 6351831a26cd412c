"""Judges many documents in one transaction, by findings that were computed before it began.

Most documents have no findings, and had none: these take a few statements together. The others are judged one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, bindparam, func, select, update

from dcc.databases.columns import utc_now
from dcc.errors import NotFoundError
from dcc.naming import DocumentKind
from dcc.qc.apply.versions import in_chunks
from dcc.qc.judging.documents import Basis, Judgement, settle
from dcc.qc.judging.stored_documents import StoredDocument, lock_documents, require_standing
from dcc.qc.judging.validity import kinds_in
from dcc.qc.models import DOCUMENT, ENTITY_TABLES, FINDING
from dcc.rules.findings import Finding
from dcc.vocabulary import EntityKind, Validity

_THESE: Final[Any] = bindparam("documents", expanding=True)
_NEWEST: Final = select(func.max(DOCUMENT.c.id))
_WITH_FINDINGS: Final = (
    select(FINDING.c.document_id).distinct().where(FINDING.c.document_id.in_(_THESE), FINDING.c.closed.is_(None))
)
_KNOWN_INVALID: Final = {
    kind: select(table.c.document_id)
    .distinct()
    .where(table.c.document_id.in_(_THESE), table.c.validity == Validity.INVALID)
    for kind, table in ENTITY_TABLES.items()
}
_UNJUDGED: Final = {
    kind: select(table.c.document_id)
    .distinct()
    .where(table.c.document_id.in_(_THESE), table.c.validity == Validity.UNJUDGED)
    for kind, table in ENTITY_TABLES.items()
}
_VALID: Final = {
    kind: update(table)
    .where(table.c.document_id.in_(_THESE), table.c.validity == Validity.UNJUDGED)
    .values(validity=Validity.VALID)
    for kind, table in ENTITY_TABLES.items()
}
_JUDGED: Final = (
    update(DOCUMENT)
    .where(DOCUMENT.c.id.in_(_THESE))
    .values(judged_at=bindparam("new_judged_at"), judged_by=bindparam("new_judged_by"))
)
_CHANGED: Final = _JUDGED.values(contexts_built=False)


class Found(NamedTuple):
    """The rules' findings in a document, without those of the upload."""

    document_id: int
    findings: Sequence[Finding]


def newest_document(connection: Connection) -> int:
    """The id of the newest document, 0 without any: versions change only with a newer one."""
    return connection.scalar(_NEWEST) or 0


def judge_together(connection: Connection, found: Sequence[Found], basis: Basis) -> list[Judgement | NotFoundError]:
    """Judge documents by computed findings, in their order, within a write transaction.

    Returns what `judge_document` does for each; a NotFoundError for one that is missing or was withdrawn.
    """
    there = lock_documents(connection, [one.document_id for one in found])
    clean = [there[one.document_id] for one in found if one.document_id in there and not one.findings]
    quiet = _without_history(connection, clean)
    _judge_quiet(connection, quiet, basis)
    unheard_of = {document.id for document in quiet}
    judged: list[Judgement | NotFoundError] = []
    for document_id, findings in found:
        try:
            document = require_standing(document_id, there.get(document_id))
        except NotFoundError as error:
            judged.append(error)
            continue
        if document_id in unheard_of:
            judged.append(Judgement(document_id, failed=False, findings=(), counts={}, added=(), cleared=()))
        else:
            judged.append(settle(connection, document, findings, basis))
    return judged


def _without_history(connection: Connection, documents: Collection[StoredDocument]) -> list[StoredDocument]:
    """The applied documents with neither open findings nor invalid versions."""
    ids = [document.id for document in documents]
    told_of: set[int] = set()
    for chunk in in_chunks(ids):
        told_of.update(connection.scalars(_WITH_FINDINGS, {"documents": chunk}))
    for kind, of_kind in _by_entity_kind(document for document in documents if document.was_judged).items():
        for chunk in in_chunks(of_kind):
            told_of.update(connection.scalars(_KNOWN_INVALID[kind], {"documents": chunk}))
    return [document for document in documents if document.id not in told_of and document.stands]


def _judge_quiet(connection: Connection, documents: Collection[StoredDocument], basis: Basis) -> None:
    """Record that documents without present and former findings are valid."""
    unjudged = [document for document in documents if not document.was_judged]
    changed = {document.id for document in unjudged}
    ids_of_kind = _by_entity_kind(unjudged)
    for kind, of_kind in _by_entity_kind(document for document in documents if document.was_judged).items():
        for chunk in in_chunks(of_kind):
            partly = connection.scalars(_UNJUDGED[kind], {"documents": chunk}).all()
            changed.update(partly)
            ids_of_kind.setdefault(kind, []).extend(partly)
    for kind, of_kind in ids_of_kind.items():
        for chunk in in_chunks(of_kind):
            connection.execute(_VALID[kind], {"documents": chunk})
    now = {"new_judged_at": utc_now(), "new_judged_by": basis.signature}
    for statement, ids in (
        (_CHANGED, sorted(changed)),
        (_JUDGED, sorted({document.id for document in documents} - changed)),
    ):
        for chunk in in_chunks(ids):
            connection.execute(statement, now | {"documents": chunk})


def _by_entity_kind(documents: Iterable[StoredDocument]) -> dict[EntityKind, list[int]]:
    """The ids of the documents that may have a kind of entity."""
    ids: dict[EntityKind, list[int]] = {}
    for document in documents:
        for kind in kinds_in(DocumentKind(document.kind)):
            ids.setdefault(kind, []).append(document.id)
    return ids
