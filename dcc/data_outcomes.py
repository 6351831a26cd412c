"""Results of documents in the phases after validation: the facts that every view shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from dcc.declarations import VALUE, message_of, rule_of
from dcc.messages import Details, Message, mark, message
from dcc.naming import DocumentKind
from dcc.outcomes import SubmissionKey
from dcc.phases import STATES, Phase, State, Status
from dcc.vocabulary import ContextState, Severity


@dataclass(frozen=True, slots=True)
class FindingEntry:
    """An active finding of a document; for `code` and `details` see `dcc.rules.findings.Finding`.

    `snapshot` names the reference data that judged it, such as `impress 3`.
    """

    code: str
    severity: Severity
    details: Details
    line: int | None = None
    path: str | None = None
    value: str | None = None
    snapshot: str | None = None

    @property
    def rule(self) -> str:
        """The id of the rule."""
        return rule_of(self.code)

    @property
    def translatable(self) -> Message:
        """What is wrong and what to do, translatable."""
        return message_of(self.code, {VALUE: self.value, **self.details})

    @property
    def message(self) -> str:
        """What is wrong and what to do, in English."""
        return str(self.translatable)


@dataclass(frozen=True, slots=True)
class DocumentData:
    """The result of one document in the phases after its validation.

    `document_id` is its id in the QC database, None if the database has nothing of it. For `said`, `opened` and
    `ended` see `dcc.qc.apply.document_effect.AppliedDocument`; `procedures` counts its measurements by procedure.
    `repeated`: it was applied before. `late`: newer documents of the centre were uploaded before it. `held`: it
    waits for confirmation. `unapplied`: it was confirmed, and the next session applies it. `findings` are the
    first of its active findings; `finding_counts` counts all of them by rule and severity. `cleared` counts earlier
    findings that no longer hold. `reason` says why its upload failed, or waits. `waits_for` is an older archive of
    its centre that is uploaded first. `left_out` are the phases that the settings leave out.
    """

    file_name: str
    kind: DocumentKind
    centre: str
    phase: Phase
    status: Status
    document_id: int | None = None
    repeated: bool = False
    late: bool = False
    held: bool = False
    unapplied: bool = False
    said: Mapping[str, int] = field(default_factory=dict)
    opened: Mapping[str, int] = field(default_factory=dict)
    ended: Mapping[str, int] = field(default_factory=dict)
    refused: int = 0
    procedures: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[FindingEntry, ...] = ()
    finding_counts: Mapping[tuple[str, Severity], int] = field(default_factory=dict)
    reason: str | None = None
    cleared: int = 0
    waits_for: SubmissionKey | None = None
    left_out: tuple[Phase, ...] = ()

    @property
    def state(self) -> State:
        """The document's state."""
        return STATES[self.phase, self.status]


@dataclass(frozen=True, slots=True)
class SubmissionData:
    """The results of one submission's documents in one phase, yielded once for each phase and submission.

    `reached` is that phase; `phase` and `status` are those of the submission afterwards. `documents` are those that the
    phase was due for.
    """

    key: SubmissionKey
    centre: str | None
    reached: Phase
    phase: Phase
    status: Status
    documents: tuple[DocumentData, ...]
    seconds: float
    finished: datetime

    @property
    def state(self) -> State:
        """The submission's state."""
        return STATES[self.phase, self.status]


@dataclass(frozen=True, slots=True)
class ContextCounts:
    """Data contexts of one centre: the number in each state, and of those that a build added, changed and emptied."""

    centre: str
    states: Mapping[ContextState, int]
    added: int = 0
    changed: int = 0
    removed: int = 0
    measurements: int = 0
    procedures: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ContextsBuilt:
    """The result of building data contexts: an entry for each affected centre.

    `history` is the newest id of `context_history` that the counts include.
    """

    centres: tuple[ContextCounts, ...]
    documents: int
    seconds: float
    finished: datetime
    history: int = 0


@dataclass(frozen=True, slots=True)
class OverviewsBuilt:
    """The result of building the overviews: the rows of each overview, by centre."""

    centres: Mapping[str, Mapping[str, int]]
    seconds: float
    finished: datetime


CentresBuilt = ContextsBuilt | OverviewsBuilt
"""What phases build of centres."""
DataOutcome = SubmissionData | CentresBuilt
"""What the phases after validation yield while they run."""


def left_out_message(phase: Phase) -> Message:
    """What is said of a document if the settings leave one of its steps out."""
    return message(
        mark("The step {step} is left out for this file source or group of centres (DCC_LEFT_OUT_STEPS)."),
        step=phase.short_name,
    )
