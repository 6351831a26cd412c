"""Judges valid documents by all rules: apart from `checking`, since holding files against the schema needs none."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Final

from dcc.declarations import message_of
from dcc.documents.origins import read_origin
from dcc.documents.reading import read_document
from dcc.documents.schema_set import SchemaSet
from dcc.naming import Action
from dcc.outcomes import Problem
from dcc.qc.apply.upload_findings import UploadFinding
from dcc.reference.loading import ReferenceData
from dcc.rules.checking import NEEDING_OTHERS, all_rules, check_contents
from dcc.rules.context import NOTHING_STORED, DocumentContext
from dcc.rules.findings import Finding, with_value
from dcc.session.validation.neighbours import MISSING, JudgedDocument, Neighbours, TextLimits
from dcc.session.validation.verdicts import DocumentToJudge, Draft, DraftFile, LaterFindings


class Judge:
    """Adds the findings of rules to drafts, at most `max_problems` errors and as many warnings for a document.

    Threads may share it.
    """

    def __init__(self, schemas: SchemaSet, reference: ReferenceData, max_problems: int) -> None:
        self._schemas: Final = schemas
        self._reference: Final = reference
        self._max_problems: Final = max_problems
        self._judged: dict[str, JudgedDocument] = {}

    def judge(self, document: DocumentToJudge, draft: Draft) -> None:
        """Add the rules' findings on a document, if it is valid, without rules about other documents."""
        actual = None if draft.errors else self._schemas.kind_of_file(document.path)
        if actual is None:
            return
        # Without a name that has the centre, none can be compared with it.
        without = NEEDING_OTHERS if document.name is not None else NEEDING_OTHERS | {"X5"}
        centre = "" if document.name is None else document.name.centre
        origin = read_origin(document.path)
        judged = JudgedDocument(draft.path, document, origin)
        limits = TextLimits(origin)
        contents = judged.keeping(read_document(document.path, actual), limits)
        context = DocumentContext(0, document.action, centre, _today(), self._reference, NOTHING_STORED, origin=origin)
        if document.action is Action.DELETE:
            # A session checks no rule on documents that delete.
            deque(contents, maxlen=0)
        else:
            self._add(draft, map(_problem_of, judged.noting(check_contents(contents, context, without))))
        self._add(draft, map(_problem_of, limits.findings.all()))
        self._judged[draft.path] = judged

    def judge_together(self, kept: DraftFile) -> None:
        """Store the findings of the rules about other documents, and forget the documents."""
        for judged, findings in Neighbours(self._judged.values()).judge(_today()):
            kept.add(judged.name, judged.takes_no_effect, map(_problem_of, findings))
        self._judged.clear()

    def add_later(self, draft: Draft, later: LaterFindings) -> None:
        """Add to a draft what was stored by `judge_together`."""
        if later.takes_no_effect:
            draft.errors = [error for error in draft.errors if error.kind not in all_rules()]
            draft.warnings = [warning for warning in draft.warnings if warning.kind not in all_rules()]
        self._add(draft, (problem for problem in later.problems if problem.kind not in MISSING))
        draft.missing += (problem for problem in later.problems if problem.kind in MISSING)

    def _add(self, draft: Draft, problems: Iterable[Problem]) -> None:
        """Add findings: those that fail a document, and of others as many as are recorded, in order of lines."""
        for problem in problems:
            of_sort = draft.errors if problem.is_error else draft.warnings
            if len(of_sort) < self._max_problems:
                of_sort.append(problem)
        for of_sort in (draft.errors, draft.warnings):
            of_sort.sort(key=lambda problem: problem.line or 0)


def _today() -> date:
    return datetime.now(UTC).date()


def _problem_of(finding: Finding | UploadFinding) -> Problem:
    text = message_of(finding.code, with_value(finding.details, finding.value))
    return Problem(finding.rule, text, finding.line, code=finding.code, severity=finding.severity)
