"""What may be wrong with a document as it is applied: findings of the rules of `dcc/rules/upload.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import Final, NamedTuple

from sqlalchemy import Connection, select

from dcc.naming import Action
from dcc.qc.apply.entity_keys import Key
from dcc.qc.apply.entity_rows import TooLong
from dcc.qc.apply.versions import Version, describe
from dcc.qc.models import Finding
from dcc.rules.upload import LATE, NOT_STORED, OWNERSHIP, UPLOAD_RULES
from dcc.vocabulary import EntityKind, Severity

FINDINGS_KEPT: Final = 1_000
"""How many findings of each rule are kept of one document; the others are counted."""

_NAMED: Final = 10
_QUOTED: Final = 255
_DONE: Final = {Action.EDIT: "edited", Action.DELETE: "deleted"}
_EXISTS: Final = {EntityKind.SPECIMEN: "S13", EntityKind.EXPERIMENT: "E9"}


class UploadFinding(NamedTuple):
    """A finding of the upload, as in the table `finding`; of the row `entity_id`, where one was written.

    `path` is that of the element that it lies in, None for the document as a whole.
    """

    rule: str
    severity: Severity
    message: str
    line: int | None = None
    value: str | None = None
    entity_kind: str | None = None
    entity_id: int | None = None
    path: str | None = None


class FindingsKept:
    """The findings of one document: of each rule the first `FINDINGS_KEPT`, and how many more."""

    def __init__(self) -> None:
        self._kept: list[UploadFinding] = []
        self._counts: Counter[str] = Counter()

    def add(self, finding: UploadFinding) -> None:
        """Take a finding, or count it."""
        self._counts[finding.rule] += 1
        if self._counts[finding.rule] <= FINDINGS_KEPT:
            self._kept.append(finding)

    def all(self) -> tuple[UploadFinding, ...]:
        """The findings kept, in the order in which they were made, and one on the rest of each rule."""
        more = {rule: number - FINDINGS_KEPT for rule, number in self._counts.items() if number > FINDINGS_KEPT}
        return (*self._kept, *(_and_more(rule, number) for rule, number in more.items()))


def _and_more(rule: str, number: int) -> UploadFinding:
    message = f"{number:,} more findings of this rule are not listed. Correct those listed and submit all again."
    return UploadFinding(rule, Severity.ERROR, message)


class Judgement(NamedTuple):
    """What an entity is judged by: the current version of it, if any, and experiments that hold a specimen."""

    action: Action
    kind: EntityKind
    key: Key
    there: Version | None
    document_id: int
    experiments: Sequence[str]


def judge(judged: Judgement, line: int, entity_id: int) -> UploadFinding | None:
    """Why an entity cannot take effect; None if it can."""
    found = _reason(judged)
    if found is None:
        return None
    rule, reason = found
    message = f"{describe(judged.kind, judged.key)} {reason}"
    value = None if judged.key[1] is None else str(judged.key[1])
    return UploadFinding(rule, Severity.ERROR, message, line, value, judged.kind.value, entity_id)


def _reason(judged: Judgement) -> tuple[str, str] | None:
    """The rule and what it says."""
    there, action = judged.there, judged.action
    twice = there is not None and there.document_id == judged.document_id
    if action is Action.ADD:
        rule = _EXISTS.get(judged.kind, "Q2")
        if twice:
            return rule, "is named before in this document; the first one counts. Name it once."
        if there is not None:
            return rule, f"is there already, by document {there.document_id}. Submit it for edit to change it."
        return None
    if there is None:
        return "Q3", (
            f"is not there, so it cannot be {_DONE[action]}. Check its ids, what was uploaded before, and whether the "
            "document names it twice."
        )
    if twice:
        return "Q3", "is named before in this document; the first one counts. Name it once."
    if judged.experiments and action is Action.DELETE:
        return "Q4", f"still has {_named(judged.experiments)}. Delete these first."
    return None


def _named(experiments: Sequence[str]) -> str:
    """Experiments by name, the first few of many."""
    first = ", ".join(experiments[:_NAMED])
    rest = f" and {len(experiments) - _NAMED} more" if len(experiments) > _NAMED else ""
    return f"experiment{'s' if len(experiments) > 1 else ''} {first}{rest}"


def too_long(line: int, what: str, excess: TooLong, key: Key | None = None) -> UploadFinding:
    """The finding on a text that cannot be stored, of the entity of that key or of its whole centre element.

    Its value tells the entity's name, for as much as a finding may quote.
    """
    value = None if key is None or key[1] is None else str(key[1])[:_QUOTED]
    message = (
        f"A text of this {what} has {excess.length} characters and {excess.column} holds {excess.limit}: nothing of "
        f"the {what} was stored. Shorten it and submit it again."
    )
    return UploadFinding(NOT_STORED, Severity.ERROR, message, line, value, None if key is None else what)


def late(created: date, newest: date) -> UploadFinding:
    """The finding on a document that came late."""
    message = (
        f"The document is of {created} and arrived after one of {newest} of the same centre was uploaded. It was "
        "applied last: check what it edits or deletes."
    )
    return UploadFinding(LATE, Severity.WARNING, message)


def not_permitted(action: Action, own: str | None, centre: str, line: int) -> UploadFinding:
    """The finding on a centre element of a centre that the archive does not speak for."""
    archive = own or "unknown"
    said = f"The centreID is {centre}, and the archive is of centre {archive}."
    if action is Action.ADD:
        message = (
            f"{said} The document waits until somebody confirms it, or {centre} delegates. If it is meant, ask your "
            "data wrangler."
        )
        return UploadFinding(OWNERSHIP, Severity.WARNING, message, line, centre[:_QUOTED])
    message = (
        f"{said} Nothing of the document was {_DONE[action]}: for that {centre} has to delegate. If it is meant, ask "
        "your data wrangler to have that recorded."
    )
    return UploadFinding(OWNERSHIP, Severity.ERROR, message, line, centre[:_QUOTED])


def findings_of(connection: Connection, document_id: int) -> tuple[UploadFinding, ...]:
    """The active findings that the upload made on a document."""
    table = Finding.__table__
    columns = [table.c[name] for name in UploadFinding._fields]
    of_upload = (table.c.document_id == document_id) & table.c.rule.in_(UPLOAD_RULES) & table.c.is_active
    rows = connection.execute(select(*columns).where(of_upload).order_by(table.c.id))
    return tuple(UploadFinding(row[0], Severity(row[1]), *row[2:]) for row in rows)
