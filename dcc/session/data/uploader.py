"""Documents applied to the QC database, and what is told of each."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

from sqlalchemy import Engine

from dcc.data_outcomes import DocumentData, FindingEntry
from dcc.databases.transactions import run_reading
from dcc.errors import DatabaseUnreachableError, DccError, HelperEndedError
from dcc.naming import Action
from dcc.outcomes import Problem, ZipKey
from dcc.phases import Phase, Status
from dcc.qc.apply.building_process import read_for_upload
from dcc.qc.apply.documents import Applied, apply_document
from dcc.qc.apply.many_documents import Build, Prepared, apply_together, prepare_together
from dcc.qc.apply.ownership import OtherCentre
from dcc.qc.apply.reading_ahead import ReadingAhead
from dcc.qc.apply.upload_findings import UploadFinding, findings_of
from dcc.rules.upload import OWNERSHIP
from dcc.session.data.data_session import Fact
from dcc.session.data.document_log import held_problem, problems_of, worst_first
from dcc.session.data.documents import UPLOADED, DueDocument
from dcc.session.data.staged_documents import staged_path
from dcc.session.data.upload_groups import document_to_apply
from dcc.settings import Settings
from dcc.store.staging import Staging
from dcc.tracker.hostings.owner_notices import NewNotice, Outcome
from dcc.tracker.register.delegations import Delegations
from dcc.tracker.states import State
from dcc.vocabulary import DocumentState, Severity

T = TypeVar("T")

log = logging.getLogger(__name__)

FINDINGS_TOLD: Final = 50
"""How many findings of a document are told of with it."""
HELD: Final = State(Phase.UPLOAD, Status.PENDING)
"""The state of a document that has to be confirmed, or waits for an older archive."""

_FAILED: Final = State(Phase.UPLOAD, Status.FAILED)


@dataclass(frozen=True, slots=True)
class Uploader:
    """Applies documents that are in staging; those that would change more than the settings let them are held.

    `together_from`: see `DocumentToApply`.
    """

    qc: Engine
    settings: Settings
    delegations: Delegations
    ahead: ReadingAhead | None = None
    together_from: int | None = None

    def upload(self, document: DueDocument) -> Fact:
        """Apply a document; what became of it, to be told to the tracker.

        Where the process that reads it ends, as when the machine is short of memory, it is read once more. Raises
        StagedDocumentLostError when it is not in staging as it was, DatabaseUnreachableError, and what else is no fault
        of the document.
        """
        began = time.monotonic()
        path = staged_path(Staging(self.settings.staging_directory), document)
        read = read_for_upload if self.ahead is None else self.ahead.read
        apply = partial(
            apply_document,
            self.qc,
            document_to_apply(document, self.delegations, self.together_from),
            lambda: read(path, document.name.kind),
            hold_above=self.settings.hold_threshold,
        )
        try:
            applied = apply()
        except HelperEndedError as error:
            log.warning("%s: %s It is read once more.", document.key, error)
            applied = apply()
        return self.fact(document, applied, time.monotonic() - began)

    def upload_together(self, documents: Sequence[DueDocument], ahead: ReadingAhead) -> list[Applied] | None:
        """Apply small documents that add, in one transaction; what became of the first ones.

        The one after these is to be uploaded by itself. None: it failed, and each is to be, which tells whose fault it
        was. Raises DatabaseUnreachableError.
        """
        to_apply = [document_to_apply(document, self.delegations, self.together_from) for document in documents]
        return unless_it_fails(documents, lambda: apply_together(self.qc, to_apply, self._build(documents, ahead)))

    def prepare(
        self, documents: Sequence[DueDocument], ahead: ReadingAhead, former: Sequence[Prepared]
    ) -> Prepared | None:
        """Do all of `upload_together`, which see, but for writing; `former` may be on their way into the database."""
        to_apply = [document_to_apply(document, self.delegations, self.together_from) for document in documents]
        build = self._build(documents, ahead)
        return unless_it_fails(documents, lambda: prepare_together(self.qc, to_apply, build, former))

    def _build(self, documents: Sequence[DueDocument], ahead: ReadingAhead) -> Build:
        contents = Staging(self.settings.staging_directory).contents
        paths = [contents(document.key) / document.name.file_name for document in documents]
        return lambda number, order: ahead.read_whole(paths[:number], order)

    def recall(self, document: DueDocument, document_id: int) -> Fact:
        """What became of a document that was refused before the tracker heard of it."""
        findings = run_reading(
            self.qc,
            lambda connection: findings_of(connection, document_id),
            patience_seconds=self.settings.database_retry,
        )
        refused = Applied(
            document_id,
            DocumentState.REFUSED,
            repeated=True,
            late=False,
            said={},
            opened={},
            ended={},
            refused=0,
            findings=findings,
            others=tuple(
                OtherCentre(centre, {})
                for centre in sorted({found.value or "" for found in findings if found.rule == OWNERSHIP})
            ),
        )
        return self.fact(document, refused, 0.0)

    def fact(self, document: DueDocument, applied: Applied, seconds: float) -> Fact:
        """What is told to the tracker of a document that was applied, which took so long."""
        findings = worst_first(map(_entry, applied.findings))
        counts: dict[tuple[str, Severity], int] = {}
        for finding in findings:
            counts[finding.rule, finding.severity] = counts.get((finding.rule, finding.severity), 0) + 1
        data = DocumentData(
            file_name=document.name.file_name,
            kind=document.name.kind,
            centre=document.name.centre,
            phase=Phase.UPLOAD,
            status=Status.DONE,
            document_id=applied.document_id,
            repeated=applied.repeated,
            late=applied.late,
            held=applied.state is DocumentState.HELD,
            said=applied.said,
            opened=applied.opened,
            ended=applied.ended,
            refused=applied.refused,
            procedures=applied.procedures,
            findings=tuple(findings[:FINDINGS_TOLD]),
            finding_counts=counts,
        )
        notices = _notices(document, applied)
        if applied.state is DocumentState.HELD:
            problem = held_problem(document.key, applied.ended, applied.findings, document.centre)
            data = replace(data, reason=problem.message)
            return Fact(document, data, HELD, [problem], seconds, notices)
        problems = problems_of(findings, len(findings), self.settings.max_document_errors)
        state = _FAILED if applied.state is DocumentState.REFUSED else UPLOADED
        return Fact(document, data, state, problems, seconds, notices)


def unless_it_fails(documents: Sequence[DueDocument], work: Callable[[], T]) -> T | None:
    """What comes of work with documents that go together; None if it failed, unless the database is away."""
    try:
        return work()
    except DatabaseUnreachableError:
        raise
    except Exception as error:
        log.warning("%d documents are applied one by one, because together they were not: %s", len(documents), error)
        return None


def failed_upload(document: DueDocument, error: DccError) -> Fact:
    """What is told of a document that could not be applied: nothing of it is in the QC database."""
    return Fact(document, not_applied(document, _FAILED, str(error)), _FAILED, [Problem.of(error)])


def not_applied(document: DueDocument, state: State, reason: str, waits_for: ZipKey | None = None) -> DocumentData:
    """What is told of a document that the QC database did not take, and of the state that it is in."""
    return DocumentData(
        file_name=document.name.file_name,
        kind=document.name.kind,
        centre=document.name.centre,
        phase=state.phase,
        status=state.status,
        reason=reason,
        waits_for=waits_for,
    )


_OUTCOMES: Final = {DocumentState.HELD: Outcome.HELD, DocumentState.REFUSED: Outcome.REFUSED}


def _notices(document: DueDocument, applied: Applied) -> list[NewNotice]:
    """What other centres than its archive's are told of a document that was applied, held or refused."""
    outcome, done_by = _OUTCOMES.get(applied.state, Outcome.DONE), applied.confirmed_by
    if outcome is Outcome.DONE and done_by is not None and document.key.action is Action.ADD:
        outcome = Outcome.CONFIRMED
    name = document.name.file_name
    return [
        NewNotice(other.centre, document.za_id, outcome, document.xml_id, name, other.counts, done_by)
        for other in applied.others
    ]


def _entry(finding: UploadFinding) -> FindingEntry:
    return FindingEntry(finding.code, finding.severity, finding.details, finding.line, finding.path, finding.value)
