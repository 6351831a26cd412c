"""Findings of the upload, by the rules of `dcc/rules/upload.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final

from sqlalchemy import Connection, select

from dcc.data_outcomes import FindingEntry
from dcc.declarations import ORIGIN, code_of, stored_details
from dcc.documents.origins import Origin
from dcc.messages import Details, message
from dcc.naming import Action
from dcc.qc.apply.versions import Version
from dcc.qc.models import FINDING
from dcc.qc.rows.documents import DocumentPlace
from dcc.qc.rows.entity_keys import Key
from dcc.qc.rows.types import TooLong
from dcc.rules.findings import facts_of
from dcc.rules.upload import (
    DUPLICATE,
    EXPERIMENT_EXISTS,
    LATE,
    MORE_CASE,
    NOT_STORED,
    OWNERSHIP,
    SPECIMEN_EXISTS,
    THERE_CASE,
    TWICE_CASE,
    UPLOAD_RULES,
    describe,
)
from dcc.runtime.json_values import fields_of
from dcc.vocabulary import EntityKind, Severity

FINDINGS_KEPT: Final = 1_000
"""The most findings kept for each rule and document; the others are counted."""

_NAMED: Final = 10
_QUOTED: Final = 255
_EXISTS: Final = {EntityKind.SPECIMEN: SPECIMEN_EXISTS, EntityKind.EXPERIMENT: EXPERIMENT_EXISTS}


@dataclass(frozen=True, slots=True)
class UploadFinding(FindingEntry):
    """A finding of the upload, as in the table `finding`; about the row `entity_id`, if one was written.

    `path` is that of its element, None for the document as a whole.
    """

    entity_kind: str | None = None
    entity_id: int | None = None

    def columns(self) -> dict[str, Any]:
        """The finding's columns in the table."""
        own = ("severity", "line", "path", "value", "entity_kind", "entity_id")
        return fields_of(self, *own) | facts_of(self.code, self.details, self.value)._asdict()


class FindingCollector:
    """The findings of one document, with an `origin`: of each rule the first ones, and the number of the others."""

    def __init__(self, origin: Origin | None = None) -> None:
        self._origin = origin
        self._kept: list[UploadFinding] = []
        self._counts: Counter[str] = Counter()

    def add(self, finding: UploadFinding) -> None:
        """Add a finding, or count it."""
        self._counts[finding.rule] += 1
        if self._counts[finding.rule] > FINDINGS_KEPT:
            return
        if self._origin is not None and finding.line is not None:
            finding = replace(finding, details={**finding.details, ORIGIN: self._origin.place(finding.line)})
        self._kept.append(finding)

    def all(self) -> tuple[UploadFinding, ...]:
        """The kept findings in order, and for each rule one with the number of the others."""
        more = {rule: number - FINDINGS_KEPT for rule, number in self._counts.items() if number > FINDINGS_KEPT}
        counted = (UploadFinding(code_of(rule, MORE_CASE), Severity.ERROR, {"number": n}) for rule, n in more.items())
        return (*self._kept, *counted)


def objection(
    action: Action,
    kind: EntityKind,
    there: Version | None,
    document_id: int,
    experiments: Sequence[str],
    path_of: Callable[[int], str],
) -> tuple[str, Details] | None:
    """Why a document's entity cannot take effect: a code, and details without the entity; None if it can.

    `there` is the entity's current version, `experiments` are those on a specimen; `path_of` yields the path of a
    document with an id.
    """
    rule = _EXISTS.get(kind, "Q2") if action is Action.ADD else "Q3"
    if there is None:
        return None if action is Action.ADD else (code_of(rule, "deleted" if action is Action.DELETE else ""), {})
    if there.document_id == document_id:
        return code_of(rule, TWICE_CASE), {}
    if action is Action.ADD:
        return code_of(rule, THERE_CASE), {"document": path_of(there.document_id)}
    if not experiments or action is not Action.DELETE:
        return None
    named: Details = {"experiments": list(experiments[:_NAMED])}
    more = len(experiments) - _NAMED
    return ("Q4", named) if more <= 0 else (code_of("Q4", "many"), {**named, "number": more})


def not_effective(
    found: tuple[str, Details], kind: EntityKind, key: Key, line: int, path: str, entity_id: int
) -> UploadFinding:
    """The finding on an entity to which there is such an objection."""
    code, details = found
    value = None if key[1] is None else str(key[1])
    known = {"entity": describe(kind, key), **details}
    return UploadFinding(code, Severity.ERROR, known, line, path, value, None, kind.value, entity_id)


def too_long(line: int, path: str, what: str, excess: TooLong, key: Key | None = None) -> UploadFinding:
    """The finding on a text that cannot be stored, of the entity of that key or of its whole centre element.

    Its value is the entity's name, as far as a finding may quote it.
    """
    value = None if key is None or key[1] is None else str(key[1])[:_QUOTED]
    details = {"kind": message(what), "length": excess.length, "column": excess.name, "limit": excess.limit}
    return UploadFinding(NOT_STORED, Severity.ERROR, details, line, path, value, None, None if key is None else what)


def late(created: date, newest: date) -> UploadFinding:
    """The finding on a document that came late."""
    return UploadFinding(LATE, Severity.WARNING, {"created": str(created), "newest": str(newest)})


def duplicate(original: DocumentPlace) -> UploadFinding:
    """The finding on a document that is the same as an applied one."""
    return UploadFinding(DUPLICATE, Severity.WARNING, {"document": original.file_name, "archive": original.archive})


def not_permitted(action: Action, own: str | None, centre: str, line: int, path: str) -> UploadFinding:
    """The finding on a centre element of a centre whose data the archive may not change."""
    case, severity = _NOT_PERMITTED[action]
    details = {"archive": own or "unknown"}
    return UploadFinding(code_of(OWNERSHIP, case), severity, details, line, path, centre[:_QUOTED])


_NOT_PERMITTED: Final = {
    Action.ADD: ("held", Severity.WARNING),
    Action.EDIT: ("", Severity.ERROR),
    Action.DELETE: ("deleted", Severity.ERROR),
}


def findings_of(connection: Connection, document_id: int) -> tuple[UploadFinding, ...]:
    """The active findings of the upload on a document."""
    of_upload = (FINDING.c.document_id == document_id) & FINDING.c.rule.in_(UPLOAD_RULES) & FINDING.c.is_active
    rows = connection.execute(select(FINDING).where(of_upload).order_by(FINDING.c.id))
    return tuple(
        UploadFinding(
            row.code,
            Severity(row.severity),
            stored_details(row.code, row.details, row.message),
            *(row.line, row.path, row.value, None, row.entity_kind, row.entity_id),
        )
        for row in rows
    )
