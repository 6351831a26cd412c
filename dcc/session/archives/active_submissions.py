"""Submissions on their way through a session: their attempts, archives and documents.

Only the coordinating thread uses them. Results of other threads reach it as events.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from dcc.archives.extraction import ignored_problem
from dcc.errors import InternalFaultError
from dcc.messages import mark, message
from dcc.naming import DocumentName
from dcc.outcomes import AttemptOutcome, DocumentOutcome, Problem, SubmissionKey, SubmissionOutcome, source_partition
from dcc.phases import Phase, State, Status
from dcc.runtime.clock import utc_now
from dcc.runtime.log_context import logging_about
from dcc.session.archives.hosting_choice import HostingChoice
from dcc.session.fetching.archive_transfer import ReceivedArchive, Transfer
from dcc.session.prepare.archive_checks import CheckedArchive
from dcc.sources.base import SourceAddress
from dcc.tracker.archive_names import stored_name
from dcc.tracker.hostings.download_plan import KnownDocument, PlannedSubmission, StagedSubmission
from dcc.tracker.hostings.hosting import CopyFault, EarlierCopy, Hosting
from dcc.tracker.states import REFUSED_BY_NAME, VALID, WRONG_CHECKSUM

INVALID = State(Phase.XSD, Status.FAILED)
_BAD_COPIES = {
    CopyFault.DAMAGED: mark("file source {source} (MD5 {md5}, damaged)"),
    CopyFault.CHECKSUM: mark("file source {source} (MD5 {md5}, not the MD5 published)"),
}


@dataclass
class ArchiveDocument:
    """A document of the archive. `name` is None if it was refused.

    `place` is its path in the archive, None at the top level; `archives` are the inner archives that contain it.
    """

    file_name: str
    size_bytes: int
    md5: str | None
    name: DocumentName | None
    state: State
    problems: tuple[Problem, ...] = ()
    row_id: int | None = None
    place: str | None = None
    archives: tuple[tuple[str, str], ...] = ()


@dataclass
class ActiveSubmission:
    """A submission that is being processed, with the session's knowledge of it.

    `archive` is the last one that came, and it is there if `downloaded`, else it was discarded. `staged` is the copy in
    staging to use if no source can be reached. `attempts` counts those that began.
    """

    za_id: int
    zip_id: int
    key: SubmissionKey
    centre: str | None
    choice: HostingChoice = field(default_factory=HostingChoice)
    last_failure: State | None = None
    attempts: int = 0
    began: float = field(default_factory=time.monotonic)
    fetched: AttemptOutcome | None = None
    archive: ReceivedArchive | None = None
    downloaded: bool = False
    documents: list[ArchiveDocument] = field(default_factory=list)
    known_documents: dict[str, KnownDocument] = field(default_factory=dict)
    reasons: list[Problem] = field(default_factory=list)
    staged: StagedSubmission | None = None
    _attempt: Transfer | None = None

    @classmethod
    def planned(
        cls, plan: PlannedSubmission, max_retries: int, staged: StagedSubmission | None = None
    ) -> ActiveSubmission:
        """One that begins with a download: each hosting in order of preference, `max_retries` times over again."""
        choice = HostingChoice.planned(plan, max_retries)
        return cls(plan.za_id, plan.zip_id, plan.key, plan.centre, choice, staged=staged)

    @classmethod
    def from_staging(
        cls, staged: StagedSubmission, plan: PlannedSubmission | None, max_retries: int
    ) -> ActiveSubmission:
        """One that continues with an archive in staging; if that is damaged, with a download as planned."""
        submission = cls(staged.za_id, staged.zip_id, staged.key, staged.centre, known_documents=staged.documents)
        submission.take_from_staging(staged)
        if plan is not None:
            submission.choice = HostingChoice.planned(plan, max_retries)
        return submission

    def take_from_staging(self, staged: StagedSubmission) -> None:
        """Go on with an archive in staging, of an attempt that has begun."""
        self._attempt = Transfer(staged.download_id, self.key, staged.hosting)
        self.take_archive(ReceivedArchive(staged.size_bytes, staged.md5, is_sent=False))
        self.staged = None

    def take_archive(self, archive: ReceivedArchive) -> None:
        """Go on with an archive that came to staging."""
        self.archive, self.downloaded = archive, True

    def note_md5(self, md5: str) -> bool:
        """Record the checksum of the archive; returns whether it was another one, or unknown."""
        if self.archive is None or self.archive.md5 == md5:
            return False
        self.archive = replace(self.archive, md5=md5)
        return True

    @property
    def may_be_damaged(self) -> bool:
        """Whether a killed session left the archive in staging before its MD5 was known, perhaps by a crash."""
        return self.archive is not None and not self.archive.is_sent and self.archive.md5 is None

    @property
    def is_pieced_together(self) -> bool:
        """Whether the archive was joined from two attempts, and no checksum vouches for it."""
        return self.archive is not None and self.archive.resumed and self.archive.md5 is None

    @property
    def attempt(self) -> Transfer:
        """The latest attempt that began. Raises InternalFaultError if none did."""
        if self._attempt is None:
            raise InternalFaultError(f"{self.key} has no attempt. The next session takes it up again.")
        return self._attempt

    def as_subject(self) -> AbstractContextManager[None]:
        """The submission as the subject of messages."""
        source_id = None if self._attempt is None else self._attempt.hosting.source_id
        return logging_about(source=source_id, centre=self.centre, zip_action=self.key)

    def transfer(self, download_id: int, hosting: Hosting, earlier: EarlierCopy | None) -> Transfer:
        """The attempt to fetch the archive from a hosting; `earlier` is the last one there."""
        is_producer = hosting.own and hosting.has_md5
        return Transfer(download_id, self.key, hosting, None if is_producer else self.choice.published, earlier)

    def begin_attempt(self, attempt: Transfer) -> None:
        """Take a requested attempt, which has begun, as the latest."""
        self._attempt = attempt
        self.attempts += 1
        self.began = time.monotonic()

    def tried_hostings(self) -> list[Hosting]:
        """The hosting of the last attempt, and those with bad copies."""
        met = [*(found.hosting for found in self.choice.new_bad_copies.values()), self.attempt.hosting]
        return list({hosting.id: hosting for hosting in met}.values())

    def problem_of_all_copies(self) -> Problem:
        """The problem of several bad copies, which names each; its kind is that of the last reason."""
        bad_copies, last = self.choice.new_bad_copies.values(), self.reasons[-1]
        copies = [
            message(_BAD_COPIES[found.fault], source=str(found.hosting.source_id), md5=found.md5)
            for found in bad_copies
        ]
        template = mark(
            "{archive} is bad at {count} file sources: {copies}. Replace it with a good archive, under the same name."
        )
        if any(found.fault is CopyFault.CHECKSUM for found in bad_copies):
            template = mark(
                "{archive} is bad at {count} file sources: {copies}. Replace it with a good archive, under the same "
                "name, or correct its .md5."
            )
        reason = message(template, archive=str(self.key), count=len(copies), copies=copies)
        return Problem(last.kind, reason, code=last.code)

    def take_documents(self, checked: CheckedArchive) -> dict[int, ArchiveDocument]:
        """Record the archive's documents and their problems, in their order.

        What a dead session recorded of a document stands. Returns the unfinished documents that it knew, by row.
        """
        for found, of_document in checked.documents:
            state = INVALID if of_document else VALID
            document = ArchiveDocument(
                found.name.file_name, found.size_bytes, found.md5, found.name, state, of_document
            )
            if found.place != document.file_name:
                document.place = found.place
                document.archives = tuple((inner.path, inner.md5) for inner in found.archives)
            self.documents.append(document)
        for file_name, size_bytes, problem in checked.archive.refused:
            self.documents.append(
                ArchiveDocument(stored_name(file_name), size_bytes, None, None, REFUSED_BY_NAME, (problem,))
            )
        self.reasons.extend(ignored_problem(member, reason) for member, reason in checked.archive.ignored)
        return {number: document for document in self.documents if (number := self._recall(document)) is not None}

    def _recall(self, document: ArchiveDocument) -> int | None:
        """The row of a document that a dead session recorded without finishing it; None for any other."""
        known = self.known_documents.get(document.file_name)
        if known is None:
            return None
        document.row_id = known.id
        if known.state in {VALID, INVALID, REFUSED_BY_NAME}:
            document.state, document.problems = known.state, known.problems
            return None
        return known.id

    def outcome(self, state: State, source: SourceAddress | None) -> SubmissionOutcome:
        """The outcome of the submission, which ended in `state`; `source` delivered it."""
        archive = self.archive
        return SubmissionOutcome(
            key=self.key,
            centre=self.centre,
            phase=state.phase,
            status=state.status,
            downloaded=self.downloaded,
            extracted=bool(self.documents),
            size_bytes=None if archive is None else archive.size_bytes,
            md5=None if archive is None else archive.md5,
            source=None if source is None else str(source.label),
            attempts=self.attempts,
            seconds=time.monotonic() - self.began,
            finished=utc_now(),
            documents=tuple(
                DocumentOutcome(
                    file_name=one.file_name,
                    phase=one.state.phase,
                    status=one.state.status,
                    size_bytes=one.size_bytes,
                    errors=one.problems,
                )
                for one in self.documents
            ),
            reasons=tuple(self.reasons),
            transfer_seconds=archive.seconds if archive is not None and archive.is_sent else None,
            source_partition=None if source is None else source_partition(source.centre, source.id),
            kept=self._keeps(state),
            fetched=self.fetched,
        )

    def _keeps(self, state: State) -> bool:
        """Whether nothing was fetched, and `state` is that of an earlier attempt with bytes."""
        is_new = self.downloaded or self.choice.new_bad_copies or self.last_failure == WRONG_CHECKSUM
        return not is_new and state.phase > Phase.ZIP_NAME
