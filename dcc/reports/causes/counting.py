"""Findings counted by what caused them, as they come: grouped by document and cause, a document after the other.

What is held is one document's groups and the numbers of each cause, and the number of the causes is bounded: of a code
beyond `MOST_SUBJECTS` causes at one centre, the others are one cause together. So memory does not grow with findings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.reports.causes.cause import MOST_SUBJECTS, Cause, Clears
from dcc.vocabulary import EntityKind, Severity

_RANK: Final = {severity.value: rank for rank, severity in enumerate(Severity)}
_FAILING: Final = frozenset({Severity.ERROR.value, Severity.FATAL.value})
_IN_PLURAL: Final = {kind.value: f"{kind.value}s" for kind in EntityKind}


class Group(NamedTuple):
    """Findings of one document, code, cause and severity: how many, and in how many entities of a kind.

    `cause` is as of `dcc.declarations.cause_id`, `first` the id of one of them. What concerns an archive as a whole has
    no document, and what concerns a file source no zip.
    """

    zip_action: str
    zip_file: str
    centre: str
    document: int | None
    code: str
    cause: int
    severity: str
    first: int
    number: int = 1
    entity_kind: str | None = None
    entities: int = 0


CauseId = tuple[str, str, int | None]
"""Centre, code, and the number of the cause; None for what is not told apart."""


@dataclass(slots=True)
class _Tally:
    """The numbers of one cause."""

    first: int
    severity: str
    findings: int = 0
    documents: int = 0
    zips: int = 0
    entities: Counter[str] = field(default_factory=Counter)
    clears_documents: int = 0
    clears_zips: int = 0


class CauseCounter:
    """Takes groups in the order of their zips and documents, and counts them by cause.

    `faulty_elsewhere` are the zips that fail for other reasons too, which fixing what was found in data does not clear.
    """

    def __init__(self, faulty_elsewhere: Container[ZipKey] = frozenset()) -> None:
        self._elsewhere = faulty_elsewhere
        self._tallies: dict[CauseId, _Tally] = {}
        self._subjects: Counter[tuple[str, str]] = Counter()
        self._document: int | None = None
        self._zip: ZipKey | None = None
        # What of the document and of the zip is affected by which cause, and whether that is why it fails.
        self._in_document: dict[CauseId, bool] = {}
        self._in_zip: dict[CauseId, bool] = {}

    def take(self, group: Group) -> None:
        """Take the next group."""
        if group.document is None or group.document != self._document:
            self._end_document()
            self._document = group.document
            if self._zip is None or (group.zip_file, group.zip_action) != (self._zip.file_name, self._zip.action):
                self._end_zip()
                self._zip = ZipKey(Action(group.zip_action), group.zip_file) if group.zip_file else None
        cause = self._cause_of(group)
        tally = self._tallies[cause]
        tally.findings += group.number
        if group.entity_kind in _IN_PLURAL:
            tally.entities[_IN_PLURAL[group.entity_kind]] += group.entities
        if _RANK[group.severity] > _RANK[tally.severity]:
            tally.severity, tally.first = group.severity, group.first
        affected = self._in_zip if group.document is None else self._in_document
        affected[cause] = group.severity in _FAILING or affected.get(cause, False)

    def causes(self) -> list[tuple[int, Cause]]:
        """The causes of what was taken, each with the id of a finding that is an example; in no order."""
        self._end_document()
        self._end_zip()
        return [(tally.first, _cause(cause, tally)) for cause, tally in self._tallies.items()]

    def _cause_of(self, group: Group) -> CauseId:
        cause: CauseId = (group.centre, group.code, group.cause)
        if cause not in self._tallies:
            of_code = (group.centre, group.code)
            if self._subjects[of_code] >= MOST_SUBJECTS:
                cause = (*of_code, None)
            else:
                self._subjects[of_code] += 1
            self._tallies.setdefault(cause, _Tally(group.first, group.severity))
        return cause

    def _end_document(self) -> None:
        sole = _sole(self._in_document)
        for cause, fails in self._in_document.items():
            self._tallies[cause].documents += 1
            self._in_zip[cause] = fails or self._in_zip.get(cause, False)
        if sole is not None:
            self._tallies[sole].clears_documents += 1
        self._in_document.clear()

    def _end_zip(self) -> None:
        if self._zip is not None:
            for cause in self._in_zip:
                self._tallies[cause].zips += 1
            sole = _sole(self._in_zip)
            if sole is not None and self._zip not in self._elsewhere:
                self._tallies[sole].clears_zips += 1
        self._in_zip.clear()


def _sole(causes: Mapping[CauseId, bool]) -> CauseId | None:
    """The only cause for which something fails or, where it does not fail, the only one it has; None if several."""
    if len(causes) == 1:
        return next(iter(causes))
    failing = [cause for cause, fails in causes.items() if fails]
    return failing[0] if len(failing) == 1 else None


def _cause(cause: CauseId, tally: _Tally) -> Cause:
    centre, code, number = cause
    return Cause(
        key=f"{code}|{centre}|{'*' if number is None else f'{number:x}'}",
        code=code,
        centre=centre or None,
        severity=Severity(tally.severity),
        findings=tally.findings,
        documents=tally.documents,
        zips=tally.zips,
        entities=dict(tally.entities),
        clears=Clears(tally.findings, tally.clears_documents, tally.clears_zips),
        is_rest=number is None,
    )
