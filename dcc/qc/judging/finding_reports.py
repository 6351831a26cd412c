"""Findings of the integrity rules for wranglers: by centre, rule, submission or document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, Connection, String, case, cast, func, select

from dcc.databases.list_parameters import equal
from dcc.outcomes import SubmissionKey
from dcc.qc.models import DOCUMENT, EXPERIMENT, FINDING, SNAPSHOT
from dcc.vocabulary import WORST_FIRST, Severity, Validity

SEVERITY_RANK: Final = case({severity.value: severity.rank for severity in WORST_FIRST}, value=FINDING.c.severity)
"""How bad a finding is, the worst first."""


@dataclass(frozen=True, slots=True)
class FindingFilter:
    """Selects findings; None: all. `only_active` leaves out those without a present cause."""

    centre: str | None = None
    rule: str | None = None
    severity: Severity | None = None
    key: SubmissionKey | None = None
    file_name: str | None = None
    only_active: bool = True


@dataclass(frozen=True, slots=True)
class FindingCount:
    """The number of findings of a rule and severity in a centre's documents, the number of these, and one of them."""

    centre: str
    rule: str
    severity: Severity
    findings: int
    documents: int
    example: str


@dataclass(frozen=True, slots=True)
class FindingRecord:
    """A finding with its document.

    `snapshot` is the reference data that judged it, such as `impress 3`; `waiver` the id of the waiver that lowered it
    or set it aside. `closed` is when it was found to hold no longer, None while it holds.
    """

    id: int
    rule: str
    severity: Severity
    centre: str
    zip_action: str
    zip_file: str
    file_name: str
    line: int | None
    path: str | None
    value: str | None
    message: str
    snapshot: str | None
    waiver: int | None
    is_active: bool
    created: datetime
    closed: datetime | None


def count_findings(connection: Connection, criteria: FindingFilter) -> list[FindingCount]:
    """The number of findings for each centre, rule and severity, the worst and most frequent first."""
    query = (
        select(
            DOCUMENT.c.centre,
            FINDING.c.rule,
            FINDING.c.severity,
            func.count().label("findings"),
            func.count(FINDING.c.document_id.distinct()).label("documents"),
            func.min(FINDING.c.id).label("first"),
        )
        .join(DOCUMENT, DOCUMENT.c.id == FINDING.c.document_id)
        .where(*_conditions(criteria))
        .group_by(DOCUMENT.c.centre, FINDING.c.rule, FINDING.c.severity)
        .order_by(func.min(SEVERITY_RANK), func.count().desc(), DOCUMENT.c.centre, FINDING.c.rule)
    )
    rows = connection.execute(query).all()
    first = select(FINDING.c.id, FINDING.c.message).where(FINDING.c.id.in_([row.first for row in rows]))
    messages = {row.id: row.message for row in connection.execute(first)}
    return [
        FindingCount(
            row.centre, row.rule, Severity(row.severity), row.findings, row.documents, messages.get(row.first, "")
        )
        for row in rows
    ]


def count_experiments_of_invalid_animals(connection: Connection, criteria: FindingFilter) -> int:
    """The number of experiments that do not count, without an error of their own, because an animal of theirs has one.

    Of the selected documents; 0 with a rule or severity, because such experiments have none.
    """
    if criteria.rule is not None or criteria.severity is not None:
        return 0
    counted = select(func.count()).join(DOCUMENT, DOCUMENT.c.id == EXPERIMENT.c.document_id)
    conditions = [EXPERIMENT.c.is_current, EXPERIMENT.c.validity == Validity.INVALID_ANIMAL, *_of_documents(criteria)]
    return connection.scalar(counted.select_from(EXPERIMENT).where(*conditions)) or 0


_OF_FINDING: Final = ("id", "rule", "severity", "line", "path", "value", "message", "is_active", "created", "closed")


def find_findings(
    connection: Connection, criteria: FindingFilter, *, limit: int | None = None
) -> Iterator[FindingRecord]:
    """The findings that a filter selects, by document and line, at most `limit` of them."""
    query = (
        select(
            *(FINDING.c[name] for name in _OF_FINDING),
            *(DOCUMENT.c[name] for name in ("centre", "zip_action", "zip_file", "file_name")),
            (SNAPSHOT.c.name + " " + cast(SNAPSHOT.c.id, String)).label("snapshot"),
            FINDING.c.waiver_id.label("waiver"),
        )
        .join(DOCUMENT, DOCUMENT.c.id == FINDING.c.document_id)
        .outerjoin(SNAPSHOT, SNAPSHOT.c.id == FINDING.c.snapshot_id)
        .where(*_conditions(criteria))
        .order_by(FINDING.c.document_id, SEVERITY_RANK, FINDING.c.line, FINDING.c.id)
        .limit(limit)
    )
    for row in connection.execute(query):
        yield FindingRecord(**dict(row._mapping) | {"severity": Severity(row.severity)})


def _conditions(criteria: FindingFilter) -> list[ColumnElement[bool]]:
    active = [FINDING.c.is_active.is_(True)] if criteria.only_active else []
    severity = criteria.severity and criteria.severity.value
    return [*_of_documents(criteria), *active, *equal((FINDING.c.rule, criteria.rule), (FINDING.c.severity, severity))]


def _of_documents(criteria: FindingFilter) -> list[ColumnElement[bool]]:
    action, zip_file = (None, None) if criteria.key is None else (criteria.key.action.value, criteria.key.file_name)
    return equal(
        (DOCUMENT.c.centre, criteria.centre),
        (DOCUMENT.c.zip_action, action),
        (DOCUMENT.c.zip_file, zip_file),
        (DOCUMENT.c.file_name, criteria.file_name),
    )
