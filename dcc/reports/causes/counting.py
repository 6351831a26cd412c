"""Findings counted by what caused them, as they come from the database, a document after the other.

What is held is one document's findings, the numbers of each cause, and the number of the causes is bounded: of a face
of a rule beyond `MOST_SUBJECTS` subjects, the others are one cause together. So memory does not grow with findings.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.reports.causes.cause import Actor, Cause, Clears, Example, key_of
from dcc.reports.causes.grouping import VALUE, Face, face_among, shown
from dcc.reports.causes.rules import faces_of
from dcc.reports.languages.marking import mark
from dcc.vocabulary import EntityKind, Severity

MOST_SUBJECTS: Final = 2_000
"""How many subjects of a face of a rule, at one centre, are told apart."""

_MOST_VALUES: Final = 10_000
_LONGEST_FIELD: Final = 2_000
_KNOWN: Final = 5_000
_LONGEST_KNOWN: Final = 500
_RANK: Final = {severity.value: rank for rank, severity in enumerate(Severity)}
_FAILING: Final = frozenset({Severity.ERROR.value, Severity.FATAL.value})
_IN_PLURAL: Final = {kind.value: f"{kind.value}s" for kind in EntityKind}
_OTHERS_TITLE: Final = mark("Rule {rule}: others like these, of more than {most} different values")


class FindingLine(NamedTuple):
    """As much of a finding, or of an error in a log, as it is grouped by: `rule` is the id of the rule or error.

    `message` is empty where the rule's findings are grouped without it. What concerns an archive as a whole has no
    document, and what concerns a file source no zip.
    """

    id: int
    document: int | None
    zip_action: str
    zip_file: str
    centre: str
    rule: str
    severity: str
    value: str | None
    message: str
    entity_kind: str | None = None
    entity_id: int | None = None


CauseId = tuple[str, str, int, tuple[str, ...] | None]
"""Centre, rule, number of the face, and the fields that the cause is known by; None for what is not told apart."""


@dataclass(slots=True)
class _Tally:
    """The numbers of one cause."""

    face: Face
    fields: Mapping[str, str]
    first: int
    severity: str
    findings: int = 0
    documents: int = 0
    zips: int = 0
    entities: Counter[str] = field(default_factory=Counter)
    clears_documents: int = 0
    clears_zips: int = 0
    clears_entities: Counter[str] = field(default_factory=Counter)
    values: set[int] | None = None


class CauseCounter:
    """Takes findings in the order of their zips and documents, and counts them by cause.

    `faulty_elsewhere` are the zips that fail for other reasons too, which fixing what was found in data does not clear.
    """

    def __init__(self, faulty_elsewhere: Container[ZipKey] = frozenset()) -> None:
        self._elsewhere = faulty_elsewhere
        self._tallies: dict[CauseId, _Tally] = {}
        self._subjects: Counter[tuple[str, str, int]] = Counter()
        self._known: dict[tuple[str, str, str | None, str], CauseId] = {}
        self._document: int | None = None
        self._zip: ZipKey | None = None
        # What of the document is affected by which cause, and whether that is why it fails.
        self._in_document: dict[CauseId, bool] = {}
        self._in_entities: dict[tuple[str, int], dict[CauseId, bool]] = defaultdict(dict)
        self._in_zip: dict[CauseId, bool] = {}

    def take(self, line: FindingLine) -> None:
        """Take the next finding."""
        if line.document is None or line.document != self._document:
            self._end_document()
            self._document = line.document
            if self._zip is None or (line.zip_file, line.zip_action) != (self._zip.file_name, self._zip.action):
                self._end_zip()
                self._zip = ZipKey(Action(line.zip_action), line.zip_file) if line.zip_file else None
        cause = self._cause_of(line)
        tally = self._tallies[cause]
        tally.findings += 1
        if _RANK[line.severity] > _RANK[tally.severity]:
            tally.severity, tally.first = line.severity, line.id
        if tally.values is not None and line.value is not None and len(tally.values) < _MOST_VALUES:
            tally.values.add(hash(line.value))
        self._affect(line, cause, fails=line.severity in _FAILING)

    def _affect(self, line: FindingLine, cause: CauseId, *, fails: bool) -> None:
        affected = self._in_zip if line.document is None else self._in_document
        affected[cause] = fails or affected.get(cause, False)
        if line.entity_id is not None and line.entity_kind in _IN_PLURAL:
            causes = self._in_entities[line.entity_kind, line.entity_id]
            causes[cause] = fails or causes.get(cause, False)

    def causes(self) -> list[tuple[int, Cause]]:
        """The causes of what was taken, each with the id of a finding that is an example; in no order."""
        self._end_document()
        self._end_zip()
        return [(tally.first, _cause(cause, tally)) for cause, tally in self._tallies.items()]

    def _cause_of(self, line: FindingLine) -> CauseId:
        place = (line.centre, line.rule, line.value, line.message)
        known = self._known.get(place)
        return self._new_cause(line, place) if known is None else known

    def _new_cause(self, line: FindingLine, place: tuple[str, str, str | None, str]) -> CauseId:
        number, face, fields = face_among(faces_of(line.rule), line.value, line.message)
        cause: CauseId = (line.centre, line.rule, number, tuple(fields.get(name, "") for name in face.by))
        if cause not in self._tallies:
            of_face = (line.centre, line.rule, number)
            if face.by and self._subjects[of_face] >= MOST_SUBJECTS:
                cause = (*of_face, None)
            if cause not in self._tallies:
                self._subjects[of_face] += 1
                kept = {name: text[:_LONGEST_FIELD] for name, text in fields.items()}
                distinct: set[int] | None = set() if not face.by or cause[3] is None else None
                self._tallies[cause] = _Tally(face, kept, line.id, line.severity, values=distinct)
        if len(line.message) + len(line.value or "") <= _LONGEST_KNOWN:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[place] = cause
        return cause

    def _end_document(self) -> None:
        sole = _sole(self._in_document)
        for cause, fails in self._in_document.items():
            tally = self._tallies[cause]
            tally.documents += 1
            self._in_zip[cause] = fails or self._in_zip.get(cause, False)
        if sole is not None:
            self._tallies[sole].clears_documents += 1
        for (kind, _), causes in self._in_entities.items():
            for cause in causes:
                self._tallies[cause].entities[_IN_PLURAL[kind]] += 1
            sole = _sole(causes)
            if sole is not None:
                self._tallies[sole].clears_entities[_IN_PLURAL[kind]] += 1
        self._in_document.clear()
        self._in_entities.clear()

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
    centre, rule, number, subject = cause
    face = tally.face
    fields = {name: shown(text) for name, text in tally.fields.items()}
    title, remedy = face.title, face.remedy
    if subject is None:
        fields = {"rule": rule, "most": f"{MOST_SUBJECTS:,}", **fields}
        title = _OTHERS_TITLE
    severity = Severity(tally.severity)
    return Cause(
        key=key_of(rule, centre, str(number), *(("*",) if subject is None else subject)),
        kind=rule,
        subject=": ".join(map(shown, subject or ())),
        centre=centre or None,
        acts=Actor.DCC if severity is Severity.UNCHECKED else face.acts,
        severity=severity,
        findings=tally.findings,
        documents=tally.documents,
        zips=tally.zips,
        entities=dict(tally.entities),
        clears=Clears(tally.findings, tally.clears_documents, tally.clears_zips, dict(tally.clears_entities)),
        example=Example(),
        headline=title,
        advice=remedy,
        advice_to_centre=face.told,
        fields=fields,
        values=None if tally.values is None else len(tally.values),
        shared_value=None if subject is None else tally.fields.get(VALUE),
    )
