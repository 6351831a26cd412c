"""Results of a source's crawl, a submission and a document: the facts that every view of the platform shows."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from dcc import errors
from dcc.messages import Message, mark, message
from dcc.naming import Action
from dcc.phases import STATES, Phase, State, Status
from dcc.vocabulary import Severity

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]|\.\.\.")
_LONGEST_KEY = 64
_RULE_ID = re.compile(r"[A-Z]+[0-9]+")

HELD = "held"
"""The kind of a problem: the document waits for confirmation."""
CONFIRMED = "confirmed"
"""The kind of an entry in a document's log: somebody confirmed it, and it is not applied yet."""
WAS_CONFIRMED = mark("was confirmed, and the next session applies it")
"""What such a document is, in a report, its log and Dagster."""
LEFT_OUT = {phase: f"left_out_{phase.short_name}" for phase in Phase if Phase.UPLOAD <= phase < Phase.QC}
"""The steps that settings may leave out, each with the kind of the entry in a document's log that says so."""
STEP_LEFT_OUT = {kind: phase for phase, kind in LEFT_OUT.items()}
"""The same the other way round."""
NOTES = {
    HELD: "A document that would change much, or has data of another centre, waits to be confirmed.",
    CONFIRMED: f"A document {WAS_CONFIRMED}.",
    **dict.fromkeys(STEP_LEFT_OUT, "The settings leave a step out of a document."),
}
"""The kinds of entries in a document's log that tell of no finding nor error, and what each means."""
DECLINED = "declined"
"""The kind of a reason: the archive on another centre's source was turned down."""
WAITS = "waits"
"""The kind of a reason: the archive waits for an older one of its centre."""
MARKS = {Severity.WARNING: mark("Warning: {problem}"), Severity.UNCHECKED: mark("Not checked: {problem}")}
"""Prefixes of messages about problems that fail no document."""
NO_ROOM = "DiskFullError"
"""The kind of a problem: a disk of the platform is full."""
_IGNORED = errors.MemberIgnoredError.short_name()
_OF_CHECKSUMS = (errors.ChecksumMismatchError, errors.BadChecksumFileError)
_NOT_ARRIVED = frozenset(
    kind.short_name()
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.SourceError) and kind not in _OF_CHECKSUMS
)
"""The kinds of reasons why an archive did not arrive from a source."""


class AttemptOutcome(StrEnum):
    """How an attempt to fetch an archive from a file source ended.

    FINISHED: the archive arrived whole. NOT_MODIFIED: nothing was sent, for what the source has is in staging already.
    ABORTED: it had begun and broke off, because the connection broke, the server stalled, a disk was full or the
    session died. CANCELLED: a person ended the session before, or paused the source, or its window closed. FAILED: the
    source could not be reached, refused, or had not what it listed.
    """

    FINISHED = "finished"
    NOT_MODIFIED = "not_modified"
    ABORTED = "aborted"
    CANCELLED = "cancelled"
    FAILED = "failed"


class EndReason(StrEnum):
    """Why a crawling session ended: the one word for it in every view, with one meaning (`SESSION_MEANINGS`)."""

    FINISHED = "finished"
    STOPPED = "stopped"
    TIME_LIMIT = "time_limit"
    DISK = "disk"
    FAULTS = "faults"
    DIED = "died"


SESSION_MEANINGS = {
    "active": mark("a process works on it"),
    "open": mark("it waits for a run to continue it"),
    EndReason.FINISHED: mark("all its work was done, whatever was wrong with the data"),
    EndReason.STOPPED: mark("a person ended it"),
    EndReason.TIME_LIMIT: mark("it had the time of DCC_SESSION_TIME_LIMIT"),
    EndReason.DISK: mark("a disk of the platform was full, and archives wait for room"),
    EndReason.FAULTS: mark("a source, a server or the platform kept it from a part of its work"),
    EndReason.DIED: mark("its process was killed"),
}
"""What each outcome of a session means, in every view."""
FAILED_ENDS = (EndReason.DISK, EndReason.FAULTS, EndReason.DIED)
"""The reasons for which somebody has to look at the platform or its sources."""


@dataclass(frozen=True, slots=True, order=True)
class SubmissionKey:
    """A submission by name: users type and see `<action>/<file name>`."""

    action: Action
    file_name: str

    def __str__(self) -> str:
        return f"{self.action}/{self.file_name}"

    @property
    def partition(self) -> str:
        """The Dagster partition key of the submission.

        It equals `str(self)` for conforming names of centres with codes of up to 31 letters. Dagster refuses control
        characters and `...` in keys, and on MySQL compares only their first 64 characters: other names are escaped, and
        long ones end in a digest.
        """
        key = _UNPRINTABLE.sub(lambda found: "".join(f"\\x{ord(c):02x}" for c in found.group()), str(self))
        if len(key) > _LONGEST_KEY:
            digest = hashlib.sha256(str(self).encode()).hexdigest()[:12]
            key = f"{key[: _LONGEST_KEY - 13]}~{digest}"
        return key


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of an archive or document.

    `kind` is the error's name in `an_exception`, or the id of the integrity rule; `translatable` is the message, plain
    words if it is a text. Line and column count from 1; None without one. `code` names its declaration, empty if
    unknown. Messages of warnings and of checks that could not be made begin with a prefix. `recorded`: when, for the
    reasons why an archive failed or was set back; else None.
    """

    kind: str
    translatable: Message | str
    line: int | None = None
    column: int | None = None
    code: str = field(default="", compare=False)
    severity: Severity = field(default=Severity.ERROR, compare=False)
    recorded: datetime | None = None

    @classmethod
    def of(cls, error: errors.DccError, line: int | None = None) -> Problem:
        """The problem for an error."""
        return cls(error.short_name(), error.translatable, line, code=error.code)

    @property
    def fact(self) -> Message:
        """The message, without the prefix of a warning."""
        return self.translatable if isinstance(self.translatable, Message) else Message(self.translatable)

    @property
    def marked(self) -> Message:
        """The message, translatable; one that an earlier version recorded as text alone has its mark already."""
        mark = None if self.fact.details is None else MARKS.get(self.severity)
        return self.fact if mark is None else message(mark, problem=self.fact)

    @property
    def message(self) -> str:
        """The message in English."""
        return str(self.marked)

    @property
    def place(self) -> str:
        """Its place in messages: `line 4, column 5`, `line 4`, or empty."""
        if self.line is None:
            return ""
        return f"line {self.line}" if self.column is None else f"line {self.line}, column {self.column}"

    @property
    def rule(self) -> str:
        """The id of the rule that found it; empty if none did."""
        return self.kind if _RULE_ID.fullmatch(self.kind) else ""

    @property
    def text(self) -> str:
        """The message, after the id of the rule if there is one."""
        return f"{self.rule}: {self.message}" if self.rule else self.message

    def as_json(self) -> dict[str, object]:
        """The problem in JSON."""
        place = {"line": self.line, "column": self.column} if self.recorded is None else {"recorded": self.recorded}
        return {"kind": self.kind, "message": self.message, **place}

    @property
    def is_error(self) -> bool:
        """Whether it fails a document: not a warning, nor unchecked, nor something to be confirmed."""
        return self.kind not in NOTES and self.severity.fails


@dataclass(frozen=True, slots=True)
class DocumentOutcome:
    """The result of one XML document. `errors` are those in `xml_log`, in document order."""

    file_name: str
    phase: Phase
    status: Status
    size_bytes: int
    errors: tuple[Problem, ...] = ()

    @property
    def state(self) -> State:
        """The document's state."""
        return STATES[self.phase, self.status]


@dataclass(frozen=True, slots=True)
class SubmissionOutcome:
    """The result of processing one submission.

    `reasons` are the entries of `zip_log` and `zip_action_log` for the attempts of this processing, oldest first.
    `seconds` is the time from the request of the last download to the last validation, `transfer_seconds` that of the
    transfer (None without one). `source` is the label of the source that delivered and `source_partition` its partition
    (None without one); `attempts` is the number of download attempts. `downloaded`: bytes with the right size and
    checksum arrived. `extracted`: the archive's documents are in staging. `kept`: no source delivered it this time, and
    the state is that of the last attempt with its bytes. `fetched`: how the last attempt ended. `decisions` are those
    that hold about it, a sentence each. `first_listed`: when a source first listed it, and the label of that, if known.
    """

    key: SubmissionKey
    centre: str | None
    phase: Phase
    status: Status
    finished: datetime
    downloaded: bool = False
    extracted: bool = False
    size_bytes: int | None = None
    md5: str | None = None
    source: str | None = None
    attempts: int = 0
    seconds: float = 0.0
    documents: tuple[DocumentOutcome, ...] = ()
    reasons: tuple[Problem, ...] = ()
    transfer_seconds: float | None = None
    source_partition: str | None = None
    kept: bool = False
    fetched: AttemptOutcome | None = None
    decisions: tuple[str, ...] = ()
    first_listed: tuple[datetime, str] | None = None

    @property
    def state(self) -> State:
        """The submission's state."""
        return STATES[self.phase, self.status]

    @property
    def succeeded(self) -> bool:
        """Whether every document passed XSD validation."""
        return self.phase >= Phase.XSD and self.status is Status.DONE

    @property
    def failed(self) -> bool:
        """Whether processing the submission ended in a failure."""
        return self.status is Status.FAILED

    @property
    def main_reason(self) -> Problem | None:
        """The reason for the state: the last one, because earlier ones belong to earlier attempts.

        If the archive arrived, reasons why another source had no copy are left out.
        """
        reasons = [reason for reason in self.reasons if reason.kind != _IGNORED]
        if self.phase > Phase.DOWNLOAD:
            reasons = [reason for reason in reasons if reason.kind not in _NOT_ARRIVED] or reasons
        return reasons[-1] if reasons else None

    @property
    def lacks_room(self) -> bool:
        """Whether it waits because a disk of the platform is full."""
        return not self.failed and not self.succeeded and self.reasons[-1:] != () and self.reasons[-1].kind == NO_ROOM


class CrawlOutcome(StrEnum):
    """How a crawl of a source ended. PARTIAL: a directory could not be listed; FAILED: none could."""

    OK = "ok"
    PARTIAL = "partial"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlCounts:
    """The archives that a crawl `listed`, and how many of these are `new`, `known`, `changed` and `refused`.

    `changed`: of another size or time than in the last listing; `refused`: newly seen with a bad name. `ignored` counts
    other entries, `gone` archives that are no longer listed.
    """

    listed: int
    new: int
    known: int
    changed: int
    refused: int
    ignored: int
    gone: int

    @property
    def elsewhere(self) -> int:
        """The listed archives that are new on this source, while another source had shown them before."""
        return max(self.listed - self.known - self.new - self.refused, 0)

    @property
    def counts(self) -> dict[str, Any]:
        """The counts by their names."""
        return {name: getattr(self, name) for name in CrawlCounts.__dataclass_fields__}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCrawl(CrawlCounts):
    """The result of one crawl of one source: a row of `source_crawl` with its new submissions.

    `error` says why the outcome is not OK. `findings` are sentences for a wrangler; `notes` are sentences that need no
    action. `new_zips` are the submissions first seen here, `refused_zips` those of them with bad names and the reason.
    `accepted_zips` are formerly refused ones whose names conform by now because their centre was registered. `pace`
    says when it must be crawled, `then` why and until when it is left alone from now on, if the next session does not
    crawl it.
    """

    source_id: int
    partition: str
    label: str
    centre: str
    outcome: CrawlOutcome
    error: Problem | None
    seconds: float
    finished: datetime
    new_zips: tuple[SubmissionKey, ...] = ()
    refused_zips: tuple[tuple[SubmissionKey, str], ...] = ()
    accepted_zips: tuple[SubmissionKey, ...] = ()
    ignored_examples: tuple[tuple[str, str], ...] = ()
    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    pace: str = ""
    then: str = ""


def source_partition(centre: str, source_id: int) -> str:
    """The Dagster partition key of a source: `<centre>-<id>`."""
    return f"{centre}-{source_id}"
