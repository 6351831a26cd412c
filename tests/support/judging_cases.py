"""Documents applied and judged in a QC database, for the tests of judging."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import date, datetime
from typing import Any

from sqlalchemy import Engine, Table, insert, select

from dcc.databases.transactions import writing
from dcc.documents.contents import Block, Content
from dcc.naming import Action, DocumentKind
from dcc.qc import models
from dcc.qc.apply.document_effect import AppliedDocument
from dcc.qc.judging.documents import Judgement, JudgingBasis, judge_document
from dcc.qc.judging.waiver_store import add_waiver
from dcc.qc.models import DOCUMENT, FINDING, SNAPSHOT
from dcc.qc.reference.snapshots import ActiveReference
from dcc.qc.rows.stored_content import load_document
from dcc.rules.waivers import Waiver
from dcc.vocabulary import Validity, WaiverEffect
from tests.support.asking import column_in, in_writing, row_in, rows_in
from tests.support.integrity_cases import REFERENCE, TODAY
from tests.support.qc_documents import apply_document, to_apply
from tests.support.sent_statements import sent_statements

BASIS = JudgingBasis(ActiveReference(REFERENCE, {}), (), TODAY)


def basis(*waivers: Waiver, **changes: Any) -> JudgingBasis:
    return replace(BASIS, waivers=waivers, **changes)


def add_snapshots(qc: Engine) -> dict[str, int]:
    """Rows of the reference data's snapshots; their ids by name."""
    with writing(qc) as connection:
        for snapshot in REFERENCE:
            row = {"name": snapshot.name, "source": "a test", "checksum": "0" * 64, "row_count": 1, "is_active": True}
            times = dict.fromkeys(("retrieved", "checked"), datetime(2026, 11, 1))
            connection.execute(insert(SNAPSHOT).values(row | times))
        return {row.name: row.id for row in connection.execute(select(SNAPSHOT.c.name, SNAPSHOT.c.id))}


def upload(qc: Engine, contents: list[Content], action: Action = Action.ADD, **options: Any) -> AppliedDocument:
    """Apply a document of these contents, positions given anew."""
    first = contents[0]
    assert isinstance(first, Block)
    kind = DocumentKind.SPECIMEN if first.pipeline is None else DocumentKind.EXPERIMENT
    placed = list(numbered(contents))
    return apply_document(qc, to_apply(action, kind, **options), lambda: placed, patience_seconds=5)


def numbered(contents: list[Content]) -> Iterator[Content]:
    """Contents with the positions that they have."""
    blocks = entities = 0
    for content in contents:
        if isinstance(content, Block):
            blocks, entities = blocks + 1, 0
            yield content._replace(position=blocks)
        else:
            entities += 1
            yield content._replace(position=entities)


def judge(qc: Engine, document: AppliedDocument | int, by: JudgingBasis = BASIS) -> Judgement:
    """Judge a document by its rows."""
    document_id = document if isinstance(document, int) else document.document_id
    with writing(qc) as connection:
        return judge_document(connection, document_id, load_document(connection, document_id), by)


def rules_of(judgement: Judgement) -> list[str]:
    """The rules of a judgement's findings that count or warn."""
    return [finding.rule for finding in judgement.findings]


def findings(qc: Engine, document: AppliedDocument | None = None) -> list[Any]:
    """The rows of findings, of a document or of all."""
    statement = select(FINDING).order_by(FINDING.c.id)
    if document is not None:
        statement = statement.where(FINDING.c.document_id == document.document_id)
    return rows_in(qc, statement)


IS_VALID = {Validity.UNJUDGED: None, Validity.VALID: True, Validity.INVALID: False}


def validity(qc: Engine, table: Table = models.EXPERIMENT) -> list[bool | None]:
    """Whether each version of an entity is valid, in the order of their ids; None for those that were not judged."""
    return [IS_VALID[each] for each in column_in(qc, select(table.c.validity).order_by(table.c.id))]


def document_row(qc: Engine, document: AppliedDocument) -> Any:
    return row_in(qc, select(DOCUMENT).where(DOCUMENT.c.id == document.document_id))


def statements(qc: Engine) -> AbstractContextManager[list[str]]:
    """The statements that are sent to a database meanwhile, but for what every transaction has."""
    return sent_statements(qc, lambda one: one not in {"BEGIN", "BEGIN IMMEDIATE"} and "write_receipt" not in one)


def waive(qc: Engine, made: Waiver) -> Waiver:
    """Record a waiver; the one that has an id."""
    return replace(made, id=in_writing(qc, add_waiver, made, TODAY))


def waiver(rule: str, **changes: Any) -> Waiver:
    made = Waiver(rule, WaiverEffect.WAIVE, "a broken balance", "a wrangler", date(2026, 1, 1))
    return replace(made, **changes)
