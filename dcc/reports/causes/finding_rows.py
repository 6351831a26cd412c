"""Findings and errors of a scope one by one, with what is permitted and who acts: the rows of a spreadsheet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, or_, select

from dcc.declarations import acts_on, rule_of
from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.qc.models import Document, Finding
from dcc.reports.causes.cause import Example
from dcc.reports.causes.errors import declared_code
from dcc.reports.causes.findings import data_example, known_details
from dcc.reports.causes.permitted import Permitted
from dcc.reports.causes.submissions import logged_after, logged_example
from dcc.reports.causes.zip_scopes import Scope, qc_conditions, zip_conditions
from dcc.vocabulary import Actor, Severity

_FINDING: Final = Finding.__table__
_DOCUMENT: Final = Document.__table__
_PAGE: Final = 2_000


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding of a rule or an error, with what would do in its place, and who acts; `kind` as of a cause."""

    found: Example
    kind: str
    severity: Severity
    acts: Actor


def finding_rows(tracker: Connection, qc: Connection | None, scope: Scope) -> Iterator[FindingRow]:
    """What is wrong with the documents of a scope, one by one: first what stopped documents, then what rules found.

    Two thousand are held at a time; a statement for each two thousand. Without the QC database, the former alone.
    """
    for condition in zip_conditions(scope):
        last = 0
        while rows := tracker.execute(logged_after(condition, last, _PAGE)).all():
            yield from map(_of_log, rows)
            last = rows[-1].id
    if qc is None:
        return
    permitted = Permitted(qc)
    for row in _data_rows(qc, scope):
        yield _of_finding(row, permitted)


def _data_rows(qc: Connection, scope: Scope) -> Iterator[Any]:
    """The active findings by document; pages, since a connection can ask nothing else while one answer streams."""
    query = (
        select(_FINDING, _DOCUMENT.c.zip_action, _DOCUMENT.c.zip_file, _DOCUMENT.c.file_name)
        .join(_DOCUMENT, _DOCUMENT.c.id == _FINDING.c.document_id)
        .where(_FINDING.c.is_active.is_(True))
        .order_by(_FINDING.c.document_id, _FINDING.c.id)
        .limit(_PAGE)
    )
    for condition, wanted in qc_conditions(scope):
        document, last = 0, 0
        while rows := qc.execute(query.where(_after(document, last), *condition)).all():
            for row in rows:
                if wanted is None or ZipKey(Action(row.zip_action), row.zip_file) in wanted:
                    yield row
            document, last = rows[-1].document_id, rows[-1].id


def _after(document: int, last: int) -> ColumnElement[bool]:
    of_document = and_(_FINDING.c.document_id == document, _FINDING.c.id > last)
    return and_(_FINDING.c.document_id >= document, or_(_FINDING.c.document_id > document, of_document))


def _of_finding(row: Any, permitted: Permitted) -> FindingRow:
    severity = Severity(row.severity)
    found = data_example(row, known_details(row), permitted)
    return FindingRow(found, row.rule, severity, acts_on(row.code, severity))


def _of_log(row: Any) -> FindingRow:
    code = declared_code(row.kind, row.code)
    return FindingRow(logged_example(row), rule_of(code), Severity.ERROR, acts_on(code))
