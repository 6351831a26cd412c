"""Verdicts on documents as facts, and their differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import dcc.error_declarations  # noqa: F401 - declares the causes of errors
from dcc.declarations import declaration_of
from dcc.messages import Message
from dcc.outcomes import Problem, SubmissionKey
from dcc.phases import Phase, State, Status
from dcc.vocabulary import Severity

ACCEPTED: Final = "accepted"
HELD: Final = "held"
NOT_OPENED: Final = "archive not opened"


def failed(phase: Phase) -> str:
    """The outcome of a document that failed in a phase."""
    return f"failed {phase.short_name}"


def outcome_of(state: State) -> str | None:
    """The outcome of a document in a state of the tracker; None: it is not judged yet, held or withdrawn."""
    if state.status is Status.FAILED:
        return failed(state.phase)
    judged = state.is_past(Phase.DATA) or state == (Phase.DATA, Status.CANCELLED)
    return ACCEPTED if judged else None


class ReplayFact(NamedTuple):
    """A finding in a document: its code, severity, line, and in English its cause and its message."""

    code: str
    severity: Severity
    line: int | None
    cause: str
    message: str

    @property
    def identity(self) -> tuple[str, Severity, int | None]:
        """What it is compared by; messages may name numbers of documents, which differ."""
        return self.code, self.severity, self.line

    @classmethod
    def of(cls, problem: Problem) -> ReplayFact:
        """The fact of a problem."""
        code, text = problem.code or problem.kind, problem.fact
        declared = declaration_of(code)
        cause = text if declared is None or text.details is None else Message(declared.cause, text.all_details)
        return cls(code, problem.severity, problem.line, str(cause), str(text))


class DocumentKey(NamedTuple):
    """A document of a submission; the name is empty for the archive itself."""

    archive: SubmissionKey
    file_name: str


class ReplayVerdict(NamedTuple):
    """The outcome of a document, and its findings. None: it has no verdict yet."""

    outcome: str | None
    facts: tuple[ReplayFact, ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """A document that is judged differently; an outcome is None for a document that is in the archive on one side only.

    `appeared` are findings that only the proposal has, `gone` those that only the present has.
    """

    document: DocumentKey
    centre: str | None
    before: str | None
    after: str | None
    appeared: tuple[ReplayFact, ...]
    gone: tuple[ReplayFact, ...]

    @property
    def is_verdict(self) -> bool:
        """Whether the outcome changes, and not the findings alone."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class CentreChange:
    """A centre's documents: how many were compared, now accepted, no longer accepted, or have other findings."""

    centre: str
    documents: int
    gained: int
    lost: int
    otherwise: int


@dataclass(frozen=True, slots=True)
class CauseChange:
    """A cause in English, the documents in which it appears and from which it goes; `verdicts` change their outcome."""

    code: str
    severity: Severity
    cause: str
    appears: int
    goes: int
    verdicts: int


@dataclass(frozen=True)
class Replay:
    """The result of a replay.

    `unjudged` documents have no present verdict: they wait, are held or were withdrawn. `missing` archives have no
    stored bytes; they were left out.
    """

    proposal: Mapping[str, str]
    archives: int
    documents: Mapping[str, int]
    unjudged: int
    missing: tuple[SubmissionKey, ...]
    changes: tuple[DocumentChange, ...]
    verdicts: Mapping[DocumentKey, ReplayVerdict]
    """Those under the proposal."""

    @property
    def centres(self) -> list[CentreChange]:
        """The changes by centre."""
        return [_centre_change(centre, number, self.changes) for centre, number in sorted(self.documents.items())]

    @property
    def causes(self) -> list[CauseChange]:
        """The changes by cause, those that change most outcomes first."""
        appears, goes, verdicts = Counter[_Cause](), Counter[_Cause](), Counter[_Cause]()
        for change in self.changes:
            came, went = set(map(_cause, change.appeared)), set(map(_cause, change.gone))
            appears.update(came)
            goes.update(went)
            verdicts.update(came | went if change.is_verdict else ())
        found = [CauseChange(*one, appears[one], goes[one], verdicts[one]) for one in {*appears, *goes}]
        return sorted(found, key=lambda one: (-one.verdicts, -one.appears - one.goes, one.code, one.cause))


_Cause = tuple[str, Severity, str]


def _cause(fact: ReplayFact) -> _Cause:
    return fact.code, fact.severity, fact.cause


def _centre_change(centre: str, documents: int, changes: Iterable[DocumentChange]) -> CentreChange:
    own = [change for change in changes if (change.centre or "") == centre]
    gained = sum(change.is_verdict and change.after == ACCEPTED for change in own)
    lost = sum(change.is_verdict and change.before == ACCEPTED for change in own)
    return CentreChange(centre, documents, gained, lost, len(own) - gained - lost)


def compare(
    archive: SubmissionKey, centre: str | None, before: Mapping[str, ReplayVerdict], after: Mapping[str, ReplayVerdict]
) -> Iterator[DocumentChange]:
    """The changes in the documents of an archive, by their names; without those that have no verdict yet.

    A verdict under the empty name is that of an archive that was not opened, and of all its documents.
    """
    names = before.keys() | after.keys()
    if before.keys() != after.keys():
        names.discard("")
    for name in sorted(names):
        old = before.get(name) or before.get("") or ReplayVerdict("")
        new = after.get(name) or after.get("") or ReplayVerdict("")
        if old.outcome is None:
            continue
        appeared, gone = _beyond(new.facts, old.facts), _beyond(old.facts, new.facts)
        if old.outcome != new.outcome or appeared or gone:
            document = DocumentKey(archive, name)
            yield DocumentChange(document, centre, old.outcome or None, new.outcome or None, appeared, gone)


def _beyond(facts: Iterable[ReplayFact], others: Iterable[ReplayFact]) -> tuple[ReplayFact, ...]:
    """The facts that are not among others, each as often as it is there more often."""
    left = Counter(other.identity for other in others)
    found = []
    for fact in facts:
        left[fact.identity] -= 1
        if left[fact.identity] < 0:
            found.append(fact)
    return tuple(found)
