"""Applies documents to the QC database, and makes the results for the tracker."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Engine

from dcc.data_outcomes import FindingEntry
from dcc.databases.transactions import run_reading
from dcc.errors import DccError
from dcc.naming import Action
from dcc.outcomes import Problem
from dcc.phases import Phase, Status
from dcc.qc.apply.documents import Applied, ToApply, apply_documents
from dcc.qc.apply.holding import add_what_is_there
from dcc.qc.apply.ownership import OtherCentre
from dcc.qc.apply.upload_findings import UploadFinding, findings_of
from dcc.qc.rows.prepared_file import PreparedDocument
from dcc.rights import Delegations
from dcc.rules.upload import OWNERSHIP
from dcc.session.data.data_session import Fact, data_of
from dcc.session.data.document_problems import held_problem, problems_of, worst_first
from dcc.session.data.documents import UPLOADED
from dcc.session.data.due_documents import DueDocument, document_to_apply
from dcc.settings import Settings
from dcc.tracker.hostings.owner_notices import NewNotice, Outcome
from dcc.tracker.states import State
from dcc.vocabulary import DocumentState

FINDINGS_TOLD: Final = 50
"""How many findings of a document are in its result."""
HELD: Final = State(Phase.UPLOAD, Status.PENDING)
"""The state of a document that waits for confirmation, or for an older archive."""

_FAILED: Final = State(Phase.UPLOAD, Status.FAILED)


@dataclass(frozen=True, slots=True)
class Uploader:
    """Applies documents; those that would change more than the settings allow are held.

    For `together_from` see `DocumentToApply`.
    """

    qc: Engine
    settings: Settings
    delegations: Delegations
    together_from: int | None = None

    def upload(self, documents: Sequence[DueDocument], prepared: Sequence[PreparedDocument]) -> list[Fact]:
        """Apply prepared documents in one transaction; returns the results for the tracker.

        Raises DatabaseUnreachableError, and errors that are no fault of the documents.
        """
        began = time.monotonic()
        to_apply = [
            ToApply(document_to_apply(document, self.delegations, self.together_from), one)
            for document, one in zip(documents, prepared, strict=True)
        ]
        applied = apply_documents(self.qc, to_apply, hold_above=self.settings.hold_threshold)
        seconds = (time.monotonic() - began) / len(documents)
        return [self.fact(document, one, seconds) for document, one in zip(documents, applied, strict=True)]

    def adding_what_is_there(self, additions: Mapping[DueDocument, PreparedDocument], of: Collection[int]) -> set[int]:
        """The ids of those of some additions that name entities which are there already; among the `xml_file` ids."""
        to_apply = [
            (document_to_apply(document, self.delegations), prepared, document.xml_id in of)
            for document, prepared in additions.items()
        ]
        found = run_reading(self.qc, lambda connection: add_what_is_there(connection, to_apply))
        return {document.xml_id for document, is_there in zip(additions, found, strict=True) if is_there}

    def recall(self, document: DueDocument, document_id: int) -> Fact:
        """The result of a document that was refused before the tracker recorded it."""
        findings = run_reading(self.qc, lambda connection: findings_of(connection, document_id))
        refused = Applied(
            document_id,
            DocumentState.REFUSED,
            {},
            repeated=True,
            findings=findings,
            others=tuple(
                OtherCentre(centre, {})
                for centre in sorted({found.value or "" for found in findings if found.rule == OWNERSHIP})
            ),
        )
        return self.fact(document, refused, 0.0)

    def fact(self, document: DueDocument, applied: Applied, seconds: float) -> Fact:
        """The result of an applied document, with the seconds that it took."""
        findings = worst_first(map(_entry, applied.findings))
        data = data_of(
            document,
            UPLOADED,
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
            finding_counts=dict(Counter((finding.rule, finding.severity) for finding in findings)),
        )
        notices = _notices(document, applied)
        if applied.state is DocumentState.HELD:
            problem = held_problem(document.key, applied.ended, applied.findings, document.centre)
            data = replace(data, reason=problem.message)
            return Fact(document, data, HELD, [problem], seconds, notices)
        problems = problems_of(findings, len(findings), self.settings.max_document_errors)
        state = _FAILED if applied.state is DocumentState.REFUSED else UPLOADED
        return Fact(document, data, state, problems, seconds, notices)


def failed_upload(document: DueDocument, error: DccError) -> Fact:
    """The result of a document that could not be applied: the QC database has nothing of it."""
    return Fact(document, data_of(document, _FAILED, reason=str(error)), _FAILED, [Problem.of(error)])


_OUTCOMES: Final = {DocumentState.HELD: Outcome.HELD, DocumentState.REFUSED: Outcome.REFUSED}


def _notices(document: DueDocument, applied: Applied) -> list[NewNotice]:
    """Notices for other centres about a document that was applied, held or refused."""
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
