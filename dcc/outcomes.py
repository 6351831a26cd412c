"""What became of a source's crawl, a zip action and a document: the facts that every view of the platform shows."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from dcc import errors
from dcc.messages import Message, mark, message
from dcc.naming import Action
from dcc.phases import Phase, Status
from dcc.vocabulary import Severity

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]|\.\.\.")
_LONGEST_KEY = 64
_RULE_ID = re.compile(r"[A-Z]+[0-9]+")

HELD = "held"
"""The kind of a problem that says that a document waits to be confirmed."""
DECLINED = "declined"
"""The kind of a reason that says that an archive on another centre's source was turned down."""
WAITS = "waits"
"""The kind of a reason that says that an archive waits for an older one of its centre."""
MARKS = {Severity.WARNING: mark("Warning: {problem}"), Severity.UNCHECKED: mark("Not checked: {problem}")}
"""What messages of problems that fail no document begin with."""
NO_ROOM = "DiskFullError"
"""The kind of a problem that says that a disk of the platform is full."""
_IGNORED = errors.MemberIgnoredError.short_name()
_NOT_ARRIVED = frozenset(
    kind.short_name()
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.SourceError) and kind is not errors.ChecksumMismatchError
)
"""The kinds of reasons why an archive did not arrive from a file source."""


class AttemptOutcome(StrEnum):
    """How an attempt to fetch an archive from a file source ended.

    FINISHED: the archive arrived whole. NOT_MODIFIED: nothing was sent, for what the source has is in staging already.
    ABORTED: it had begun and broke off, because the connection broke, the server stalled, a disk was full or the
    session died. CANCELLED: a person ended the session before. FAILED: the source could not be reached, refused, or had
    not what it listed.
    """

    FINISHED = "finished"
    NOT_MODIFIED = "not_modified"
    ABORTED = "aborted"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, order=True)
class ZipKey:
    """A zip action by name: what users type and see as `<action>/<file name>`."""

    action: Action
    file_name: str

    def __str__(self) -> str:
        return f"{self.action}/{self.file_name}"

    @property
    def partition(self) -> str:
        """The Dagster partition key of the zip action.

        The same as `str(self)` for conforming names of centres with codes of up to 31 letters. Dagster refuses control
        characters and `...` in keys, and tells keys apart by their first 64 characters on MySQL: other names are
        escaped, long ones end in a digest.
        """
        key = _UNPRINTABLE.sub(lambda found: "".join(f"\\x{ord(c):02x}" for c in found.group()), str(self))
        if len(key) > _LONGEST_KEY:
            digest = hashlib.sha256(str(self).encode()).hexdigest()[:12]
            key = f"{key[: _LONGEST_KEY - 13]}~{digest}"
        return key


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with an archive or document.

    `kind` is the error's name in `an_exception`, or the id of the integrity rule that found it; `said` what it says,
    words where it is a text. Line and column count from 1 and are None where there is none. `code` is what it is
    declared by, empty where that is not known. Messages of warnings and of what could not be checked begin with a mark.
    """

    kind: str
    said: Message | str
    line: int | None = None
    column: int | None = None
    code: str = field(default="", compare=False)
    severity: Severity = field(default=Severity.ERROR, compare=False)

    @classmethod
    def of(cls, error: errors.DccError, line: int | None = None) -> Problem:
        """The problem that an error is."""
        return cls(error.short_name(), error.said, line, code=error.code)

    @property
    def fact(self) -> Message:
        """What it says, without the mark of a warning."""
        return self.said if isinstance(self.said, Message) else Message(self.said)

    @property
    def marked(self) -> Message:
        """What it says, to be put into words when somebody reads it."""
        mark = MARKS.get(self.severity)
        return self.fact if mark is None else message(mark, problem=self.fact)

    @property
    def message(self) -> str:
        """What it says, in English."""
        return str(self.marked)

    @property
    def place(self) -> str:
        """Where it is, as messages say it: `line 4, column 5`, `line 4`, or empty."""
        if self.line is None:
            return ""
        return f"line {self.line}" if self.column is None else f"line {self.line}, column {self.column}"

    @property
    def text(self) -> str:
        """The message, after the id of the rule if one found it."""
        return f"{self.kind}: {self.message}" if _RULE_ID.fullmatch(self.kind) else self.message

    def as_json(self) -> dict[str, object]:
        """The problem as JSON has it."""
        return {"kind": self.kind, "message": self.message, "line": self.line, "column": self.column}

    @property
    def is_error(self) -> bool:
        """Whether it fails a document: it is neither a warning nor unchecked, nor something to be confirmed."""
        return self.kind != HELD and self.severity in (Severity.ERROR, Severity.FATAL)


@dataclass(frozen=True, slots=True)
class DocumentOutcome:
    """What became of one XML document. `errors` are as recorded in `xml_log`, in document order."""

    file_name: str
    phase: Phase
    status: Status
    size_bytes: int
    errors: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class ZipOutcome:
    """What became of one zip action when its processing ended.

    `reasons` are what `zip_log` and `zip_action_log` hold for the attempts of this processing, oldest first.
    `seconds` is from the request of the last download to the last validation, `transfer_seconds` of these what the
    transfer took (None when nothing was transferred); `source` the label of the file source that delivered and
    `source_partition` its partition (None when none did), `attempts` the download attempts made. `downloaded`: bytes
    arrived with the right size and checksum; `extracted`: the archive's documents are in staging. `kept`: no source
    delivered it this time, and the state is that of the last attempt that had the bytes.
    """

    key: ZipKey
    centre: str | None
    phase: Phase
    status: Status
    downloaded: bool
    extracted: bool
    size_bytes: int | None
    md5: str | None
    source: str | None
    attempts: int
    seconds: float
    finished: datetime
    documents: tuple[DocumentOutcome, ...] = ()
    reasons: tuple[Problem, ...] = ()
    transfer_seconds: float | None = None
    source_partition: str | None = None
    kept: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether every document passed XSD validation."""
        return self.phase >= Phase.XSD and self.status is Status.DONE

    @property
    def failed(self) -> bool:
        """Whether the zip action ended in a failure."""
        return self.status is Status.FAILED

    @property
    def main_reason(self) -> Problem | None:
        """Why it is as it is: the last reason that was recorded, for earlier ones were of earlier attempts.

        Of an archive that arrived, those are left out that tell why another source's copy was not to be had.
        """
        told = [reason for reason in self.reasons if reason.kind != _IGNORED]
        if self.phase > Phase.DOWNLOAD:
            told = [reason for reason in told if reason.kind not in _NOT_ARRIVED] or told
        return told[-1] if told else None

    @property
    def lacks_room(self) -> bool:
        """Whether it waits because a disk of the platform is full."""
        return not self.failed and not self.succeeded and self.reasons[-1:] != () and self.reasons[-1].kind == NO_ROOM


@dataclass(frozen=True, slots=True)
class SourceCrawl:
    """What one crawl of one file source found: a row of `source_crawl` with its new zip actions.

    `outcome` is `ok`, `partial` (some directory could not be listed) or `failed`; `error` says why. Counts are of
    archives: `listed` in all; of these `new`, `known`, `changed` (size or time differ from the last listing),
    `refused` (name does not conform, newly so); `ignored` counts other entries, `gone` archives listed before and
    not any more. `findings` are sentences for a wrangler, `notes` such as nobody has to do anything
    about. `new_zips` are the zip actions first seen here;
    `refused_zips` those of them whose names do not conform, with the reason; `accepted_zips` those refused before
    whose names conform by now (their centre has been registered since).
    """

    source_id: int
    partition: str
    label: str
    centre: str
    outcome: str
    error: Problem | None
    listed: int
    new: int
    known: int
    changed: int
    refused: int
    ignored: int
    gone: int
    seconds: float
    finished: datetime
    new_zips: tuple[ZipKey, ...] = ()
    refused_zips: tuple[tuple[ZipKey, str], ...] = ()
    accepted_zips: tuple[ZipKey, ...] = ()
    ignored_examples: tuple[tuple[str, str], ...] = ()
    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def source_partition(centre: str, source_id: int) -> str:
    """The Dagster partition key of a file source: `<centre>-<id>`."""
    return f"{centre}-{source_id}"
