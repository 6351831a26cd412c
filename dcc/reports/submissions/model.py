"""The facts of a report on a submission, a centre or a session, before they are rendered.

Lists are bounded, with the number of all beside them. Only pictures have texts of one language.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Final, Self

from dcc.messages import Message
from dcc.outcomes import Problem, SubmissionKey
from dcc.phases import Phase, Status
from dcc.runtime.legible_text import legible
from dcc.tracker.crawls import CrawlEntry, CrawlFindingEntry
from dcc.tracker.decisions import Decision
from dcc.tracker.queries.state_counts import StateCount
from dcc.tracker.queries.submission_stories import DownloadStory, Host, ReopeningStory
from dcc.tracker.session_statistics import SourceStatistics
from dcc.vocabulary import Actor

if TYPE_CHECKING:
    from dcc.reports.causes.cause import Cause
    from dcc.reports.causes.skipped_archives import SkippedEntry
    from dcc.reports.plots.picture import Picture


class Tone(StrEnum):
    """How good or bad something is; shown by a word and a sign as well as by a colour."""

    GOOD = "good"
    WAIT = "wait"
    WARN = "warn"
    BAD = "bad"

    @property
    def needs_somebody(self) -> bool:
        """Whether a person must act."""
        return self in (Tone.WARN, Tone.BAD)


class Outcome(StrEnum):
    """What became of a submission, as a data manager sees it, and how good or bad that is."""

    tone: Tone

    def __new__(cls, word: str, tone: Tone) -> Self:
        """A member of that word."""
        member = str.__new__(cls, word)
        member._value_, member.tone = word, tone
        return member

    NAME_REFUSED = "name refused", Tone.BAD
    WAITING = "waiting", Tone.WAIT
    GONE = "gone", Tone.WAIT
    ON_HOLD = "on hold", Tone.WAIT
    FOREIGN = "foreign", Tone.WARN
    DECLINED = "declined", Tone.WAIT
    NOT_ARRIVED = "not arrived", Tone.WARN
    CHECKSUM_WRONG = "checksum wrong", Tone.BAD
    UNREADABLE = "unreadable", Tone.BAD
    UNDER_WAY = "under way", Tone.WAIT
    NOTHING_TAKEN = "nothing taken", Tone.BAD
    PARTLY_TAKEN = "partly taken", Tone.WARN
    WAITS_FOR_DATA = "waits for data", Tone.WARN
    HELD = "held", Tone.WARN
    WITHDRAWN = "withdrawn", Tone.WAIT
    COPY_OF_WITHDRAWN = "copy of withdrawn", Tone.WAIT
    LEFT_OUT = "left out", Tone.WAIT
    TO_BE_TAKEN = "to be taken", Tone.WAIT
    IN_ORDER = "waits for older archives", Tone.WAIT
    BEHIND_DECISION = "waits for a decision", Tone.WAIT
    CHANGED = "changed", Tone.WARN
    TO_BE_LOOKED_AT = "to be looked at", Tone.GOOD
    DONE = "done", Tone.GOOD


class Standing(StrEnum):
    """How far a document is in one phase."""

    PASSED = "passed"
    IN_PART = "in part"
    WAITS = "waits"
    RUNNING = "running"
    CANCELLED = "cancelled"
    LEFT_OUT = "left out"
    FAILED = "failed"
    NOT_REACHED = "not reached"


@dataclass(frozen=True, slots=True)
class PhaseStep:
    """A phase of a document, and how far it is in it."""

    phase: Phase
    standing: Standing


@dataclass(frozen=True, slots=True)
class DocumentReport:
    """A document of the latest download, with what became of it.

    `errors` and `warnings` count what holds of what was found in it.
    `counts` are the entities that it names and its measurements (`specimens`, `experiments`, `lines`, `housings`,
    `measurements`); empty when the QC database has nothing of it. `held`: it waits to be confirmed; `confirmed`: it
    was, and the next session applies it. `late`: newer documents of the centre had been taken before it;
    `repeated`: it is a copy of one that stands. `place` is where in the archive it lay, None at the top.
    """

    file_name: str
    size_bytes: int | None
    md5: str | None
    phase: Phase
    status: Status
    steps: tuple[PhaseStep, ...]
    errors: int = 0
    warnings: int = 0
    held: bool = False
    confirmed: bool = False
    late: bool = False
    repeated: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    place: str | None = None

    @property
    def without_effect(self) -> bool:
        """Whether the upload refused all of it, or it was withdrawn."""
        return self.phase is Phase.UPLOAD and self.status in (Status.FAILED, Status.CANCELLED)


@dataclass(frozen=True, slots=True)
class EntityCount:
    """What was taken over of one kind (`specimen`, `experiment`, `line`, `housing`).

    `named`: how many the documents name. `accepted`: they stand and no rule objects. `unchecked`: they stand and were
    not checked yet. `faulty`: they stand and count nowhere, since a rule found an error. `animal_faulty`: experiments
    that stand and count nowhere, since a rule found an error in an animal of theirs. `superseded`: they were taken
    and have been replaced or deleted since. `refused`: they took no effect. `ended`: what was there before and was
    replaced or deleted by the documents.
    """

    kind: str
    named: int
    accepted: int
    unchecked: int
    faulty: int
    animal_faulty: int
    superseded: int
    refused: int
    ended: int


@dataclass(frozen=True, slots=True)
class ProcedureCount:
    """What was taken over of one procedure: `name` is that of IMPReSS, if known; `accepted` measurements count."""

    procedure: str
    name: str | None
    runs: int
    measurements: int
    accepted: int


@dataclass(frozen=True, slots=True)
class AcceptedData:
    """What the QC database has of a submission, or of a centre.

    `contexts` counts the data contexts that it has data in, by their state. `procedures_total` and `measurements`
    (accepted ones) are of all procedures, also where the list is cut. `copies_of_withdrawn` counts documents that were
    not taken, since they are the same as one that stood then and was withdrawn.
    """

    entities: tuple[EntityCount, ...] = ()
    procedures: tuple[ProcedureCount, ...] = ()
    procedures_total: int = 0
    measurements: int = 0
    contexts: Mapping[str, int] = field(default_factory=dict)
    copies_of_withdrawn: int = 0


@dataclass(frozen=True, slots=True)
class SubmissionReport:
    """The report of one submission. `documents` are the worst first; `attempts` the latest last.

    `accepted` is None where the QC database could not be asked, and `qc_missing` then says why. `reasons` say why the
    archive as a whole is as it is. `removals`: when it went from staging. `changed`: when it was noticed that the
    archive has changed since its data were taken over. `to_be_corrected` of its documents somebody has to correct.
    `waits`: what it waits for, and until when if that is known; `awaited` are those who act on that.
    `decisions` are those that hold about it: to leave it alone, or that nobody has to act.
    """

    kind: ClassVar = "submission"
    is_for_wranglers: ClassVar = False

    key: SubmissionKey
    centre: str | None
    centre_name: str | None
    phase: Phase
    status: Status
    outcome: Outcome
    made: datetime
    size_bytes: int | None
    md5: str | None
    created: date | None
    inc: int | None
    hosts: tuple[Host, ...]
    attempts: tuple[DownloadStory, ...]
    attempts_total: int
    documents: tuple[DocumentReport, ...]
    documents_total: int
    states: tuple[StateCount, ...]
    reasons: tuple[Problem, ...]
    reopenings: tuple[ReopeningStory, ...]
    findings: tuple[CrawlFindingEntry, ...]
    removals: tuple[Problem, ...]
    causes: tuple[Cause, ...]
    causes_total: int
    found: int
    accepted: AcceptedData | None
    qc_missing: str | None = None
    pictures: tuple[Picture, ...] = ()
    changed: datetime | None = None
    waits: tuple[Message, ...] = ()
    awaited: tuple[Actor, ...] = ()
    decisions: tuple[Decision, ...] = ()
    to_be_corrected: int = 0

    @property
    def tone(self) -> Tone:
        """How good its outcome is."""
        return self.outcome.tone

    @property
    def documents_failed(self) -> int:
        """How many documents failed."""
        return sum(state.count for state in self.states if state.status is Status.FAILED)

    @property
    def held(self) -> int:
        """How many of the documents listed wait to be confirmed."""
        return sum(document.held for document in self.documents)


@dataclass(frozen=True, slots=True)
class SubmissionLine:
    """A submission in the summary of a centre or session; `failed` of its `documents` failed, and `clearing` of these
    only by errors that clear by themselves. `counts_for`: its centre or, where its name tells none, that of its source.

    `acts` are those who act on the errors of its documents. `changed`: when it was noticed that the archive has changed
    since its data were taken over. `needs_nobody`: somebody acknowledged that it failed, or the file was renamed.
    `left_alone`, for wranglers: it waits for an older archive, or is on the source of another centre alone.
    """

    za_id: int
    key: SubmissionKey
    centre: str | None
    phase: Phase
    status: Status
    outcome: Outcome
    size_bytes: int | None
    documents: int
    failed: int
    changed: datetime | None = None
    acts: tuple[Actor, ...] = ()
    needs_nobody: bool = False
    clearing: int = 0
    counts_for: str | None = None
    left_alone: Message | None = None

    @property
    def tone(self) -> Tone:
        """How good its outcome is."""
        return self.outcome.tone

    @property
    def to_be_corrected(self) -> int:
        """How many of its documents somebody has to correct: none if nobody has to act, or they do not count."""
        nothing = self.needs_nobody or self.outcome is Outcome.WITHDRAWN
        return 0 if nothing else self.failed - self.clearing


@dataclass(frozen=True, slots=True)
class SourceReport:
    """A file source with its last crawl (of the session, where it is the report of one), and what was not taken.

    `title` names it in sentences. `done` is what the session did with it, None before its end and in other reports.
    """

    source: int
    label: str
    title: Message
    centre: str
    state: str
    hosted: int
    crawl: CrawlEntry | None
    not_taken: tuple[SkippedEntry, ...] = ()
    not_taken_total: int = 0
    done: SourceStatistics | None = None

    @property
    def crawl_error(self) -> Problem | None:
        """Why its last crawl did not list it whole."""
        return None if self.crawl is None else self.crawl.error


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What the summaries of a centre and of a session have in common: archives, the worst first, causes, sources."""

    made: datetime
    tone: Tone
    sources: tuple[SourceReport, ...]
    sources_total: int
    zips: tuple[SubmissionLine, ...]
    zips_total: int
    outcomes: Mapping[Outcome, int]
    states: tuple[StateCount, ...]
    causes: tuple[Cause, ...]
    causes_total: int
    found: int
    qc_missing: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CentreReport(Summary):
    """The summary of a centre."""

    kind: ClassVar = "centre"
    is_for_wranglers: ClassVar = False

    centre: str
    centre_name: str
    accepted: AcceptedData | None
    pictures: tuple[Picture, ...] = ()


class Noted(StrEnum):
    """What a session's report tells beside causes and the sources that it crawled."""

    FAILED = "failed"
    WITHOUT_ROOM = "without room"
    HELD = "held"
    FINDINGS = "findings"
    LATE = "late"
    IN_ORDER = "in order"
    LEFT_ALONE = "left alone"


@dataclass(frozen=True, slots=True)
class Note:
    """The first problems of a submission or document, by its `name`, or of neither; `total` counts all.

    `centre` is the submission's, with its full name; `failed_at` is the phase at which it failed, if it did.
    `documents` are the first of its documents that have problems themselves.
    """

    problems: tuple[Problem, ...] = ()
    total: int = 0
    name: Message | str = ""
    centre: str = ""
    failed_at: Phase | None = None
    documents: tuple[Note, ...] = ()
    documents_total: int = 0


@dataclass(frozen=True, slots=True)
class Section:
    """The first notes of a kind; `total` counts all."""

    kind: Noted
    notes: tuple[Note, ...]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReport(Summary):
    """The summary of a crawling session: `outcome` and `failed_step` as in `tracker.crawls.SessionEntry`.

    `task_errors` say why tasks failed, `seconds` how long each phase took. `sources_in_trouble` counts crawls.
    """

    kind: ClassVar = "session"
    is_for_wranglers: ClassVar = True

    session: int
    started: datetime
    finished: datetime | None
    outcome: str
    failed_step: str | None
    task_errors: tuple[str, ...]
    seconds: Mapping[str, int]
    document_states: tuple[StateCount, ...]
    sources_in_trouble: int
    sections: tuple[Section, ...]
    proposals: int


Report = SubmissionReport | CentreReport | SessionReport
"""Any of the three: the `kind` of each is the name of its template; those that centres get are not `is_for_wranglers`,
and name no commands.
"""


# So much of what centres and servers say is shown that a page stays below two megabytes.
LONGEST_MESSAGE: Final = 600
LONGEST_VALUE: Final = 200
MAX_PERMITTED: Final = 10
MAX_HOSTS: Final = 20
MAX_REASONS: Final = 3
"""Reasons of one download attempt: the last."""
MAX_PICTURE_BYTES: Final = 600_000
"""Of all pictures in a page, encoded; the page says how many more it leaves out."""


def shortened(text: str, limit: int = LONGEST_MESSAGE) -> str:
    """The text, or the beginning of it with an ellipsis; no longer than `limit` when what is not seen is spelt out."""
    seen = legible(text[:limit])
    return text if len(text) <= limit and len(seen) <= limit else f"{seen[: limit - 1]}…"
