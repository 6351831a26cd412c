"""Stores the findings of a document: repeated ones stay, new ones are added, missing ones are closed.

A finding is open until it is closed, and active while it counts or warns: one that a waiver sets aside is open and not
active.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, FromClause, Row, bindparam, func, insert, select, update

from dcc.databases.list_parameters import change_rows, rows_with
from dcc.qc.models import BLOCK, ENTITY_TABLES, FINDING, SPECIMEN
from dcc.rules.checking import AWAITING_SPECIMENS
from dcc.rules.upload import UPLOAD_RULES
from dcc.runtime.clock import utc_now
from dcc.vocabulary import EntityKind, Severity

MESSAGE_LENGTH: Final = 4_000
"""The most characters of a stored message."""
VALUE_LENGTH: Final = 2_000
"""The most characters of a stored value, or path; the document has all of it."""

_IS_OPEN: Final = FINDING.c.closed.is_(None)
_OF_UPLOAD: Final = FINDING.c.rule.in_(UPLOAD_RULES)


def _with_owners() -> FromClause:
    source: FromClause = FINDING
    for table in _OWNERS:
        of_table = (FINDING.c.entity_kind == table.name) & (table.c.id == FINDING.c.entity_id)
        source = source.outerjoin(table, of_table)
    return source


_OWNERS: Final = (*ENTITY_TABLES.values(), BLOCK)
FINDING_AND_OWNER: Final = _with_owners()
"""Findings joined with their rows, if these were written."""
OWN_CENTRE: Final = func.coalesce(*(table.c.centre for table in _OWNERS)).label("own_centre")
OWN_PROCEDURE: Final = func.coalesce(*(table.c.procedure_id for table in _OWNERS if "procedure_id" in table.c)).label(
    "own_procedure"
)
"""The centre and the procedure of such a finding; waivers use them."""

# Made once: making such statements takes longer than executing them.
_OF_DOCUMENT: Final = (FINDING.c.document_id == bindparam("document")) & _IS_OPEN
_OPEN: Final = select(FINDING).where(_OF_DOCUMENT, ~_OF_UPLOAD).order_by(FINDING.c.id)
_UPLOADED: Final = (
    select(FINDING, OWN_CENTRE, OWN_PROCEDURE)
    .select_from(FINDING_AND_OWNER)
    .where(_OF_DOCUMENT, _OF_UPLOAD)
    .order_by(FINDING.c.id)
)

Key = tuple[str, int | None, str | None, str | None, str]
"""The identity of a finding in a document: rule, line, path, value and message."""


class FindingVerdict(NamedTuple):
    """What may change about a finding when its document is judged again."""

    severity: Severity
    snapshot_id: int | None
    waiver_id: int | None
    is_active: bool


class FindingRow(NamedTuple):
    """A finding to store, or a stored one with its `id`, about the row `entity_id` of the table `entity_kind`."""

    rule: str
    code: str
    details: str | None
    cause: int
    message: str
    line: int | None
    path: str | None
    value: str | None
    entity_kind: str | None
    entity_id: int | None
    verdict: FindingVerdict
    id: int = 0

    @property
    def key(self) -> Key:
        """Its identity."""
        return (self.rule, self.line, self.path, self.value, self.message)

    def columns(self) -> dict[str, Any]:
        """Its columns in the table, without its document."""
        values = self._asdict() | self.verdict._asdict()
        del values["verdict"], values["id"]
        return values


def shortened(text: str, length: int) -> str:
    """A text as stored: one that is too long ends in an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"


def open_findings(connection: Connection, document_id: int) -> list[FindingRow]:
    """The open findings of a document, without those of its upload."""
    return [_stored(row) for row in connection.execute(_OPEN, {"document": document_id})]


class UploadFinding(NamedTuple):
    """A finding of the upload, with the centre and the procedure that waivers go by."""

    row: FindingRow
    centre: str
    procedure: str | None


def upload_findings(connection: Connection, document_id: int, centre: str) -> Iterator[UploadFinding]:
    """The open findings of the upload on a document of `centre`."""
    for row in connection.execute(_UPLOADED, {"document": document_id}):
        yield UploadFinding(_stored(row), row.own_centre or centre, row.own_procedure)


def _stored(row: Row[Any]) -> FindingRow:
    verdict = FindingVerdict(Severity(row.severity), row.snapshot_id, row.waiver_id, row.is_active)
    return FindingRow._make((*(getattr(row, name) for name in FindingRow._fields[:-2]), verdict, row.id))


def replace_findings(
    connection: Connection,
    document_id: int,
    tracker_id: int | None,
    found: Sequence[FindingRow],
    stored: Sequence[FindingRow],
    ended_by: Mapping[Key, int],
) -> int:
    """Replace the `stored` open findings of a document by `found`; returns how many hold no more.

    Missing ones are closed by the document that `ended_by` names for them, or that brought the specimen they missed;
    others by none.
    """
    there: dict[Key, list[FindingRow]] = defaultdict(list)
    for row in stored:
        there[row.key].append(row)
    added: list[FindingRow] = []
    changed: dict[FindingVerdict, list[int]] = defaultdict(list)
    for row in found:
        same = there.get(row.key)
        if not same:
            added.append(row)
            continue
        kept = same.pop()
        if kept.details is None and row.details is not None:
            facts = {"code": row.code, "details": row.details, "cause": row.cause}
            connection.execute(update(FINDING).where(FINDING.c.id == kept.id).values(facts))
        if kept.verdict != row.verdict:
            changed[row.verdict].append(kept.id)
    gone = [one for rest in there.values() for one in rest]
    restate(connection, changed)
    _close(connection, gone, ended_by)
    if added:
        common = {"document_id": document_id, "tracker_id": tracker_id, "created": utc_now()}
        connection.execute(insert(FINDING), [common | row.columns() for row in added])
    return len(gone)


def restate(connection: Connection, changed: Mapping[FindingVerdict, Collection[int]]) -> None:
    """Change the severity, snapshot, waiver or activity of the findings with these ids."""
    for verdict, ids in changed.items():
        change_rows(connection, FINDING.c.id, ids, **verdict._asdict())


def _close(connection: Connection, gone: Sequence[FindingRow], ended_by: Mapping[Key, int]) -> None:
    if not gone:
        return
    arrived = _arrivals(connection, [one.id for one in gone if one.rule in AWAITING_SPECIMENS])
    by_document: dict[int | None, list[int]] = defaultdict(list)
    for finding in gone:
        by_document[ended_by.get(finding.key) or arrived.get(finding.id)].append(finding.id)
    now = utc_now()
    for document_id, ids in by_document.items():
        change_rows(connection, FINDING.c.id, ids, is_active=False, closed=now, closed_by=document_id)


def _arrivals(connection: Connection, ids: Sequence[int]) -> dict[int, int]:
    """The documents that brought the missing specimens of findings."""
    specimen = SPECIMEN.alias("specimen_there")
    found: dict[int, int] = {}
    for kind in (EntityKind.EXPERIMENT, EntityKind.SPECIMEN):
        owner = ENTITY_TABLES[kind]
        same = (specimen.c.centre == owner.c.centre) & (specimen.c.specimen_id == FINDING.c.value)
        source = FINDING.join(owner, owner.c.id == FINDING.c.entity_id).join(specimen, same & specimen.c.is_current)
        columns = (FINDING.c.id, specimen.c.document_id, specimen.c.specimen_id, FINDING.c.value)
        query = select(*columns).select_from(source).where(FINDING.c.entity_kind == kind.value)
        for row in rows_with(connection, query, FINDING.c.id, ids):
            if row.specimen_id == row.value:
                found[row.id] = row.document_id
    return found
