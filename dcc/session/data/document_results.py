"""The results of documents in the phases after validation, for people and for the tracker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection

from dcc.data_outcomes import DocumentData
from dcc.outcomes import Problem
from dcc.phases import State
from dcc.session.data.document_log import rewrite_log
from dcc.session.data.upload_order import DueDocument
from dcc.tracker import progress
from dcc.tracker.hostings.owner_notices import NewNotice, add_notices
from dcc.tracker.progress import StateReport, Subject
from dcc.tracker.submission_rows import action_states


@dataclass(frozen=True, slots=True)
class DocumentResult:
    """A document's result: its state, outcome, and the entries of its log; None: unchanged.

    `notices` are for other centres than its archive's. `noted` are entries of its log beside those that it has.
    """

    document: DueDocument
    data: DocumentData
    state: State | None
    problems: Sequence[Problem] | None = None
    seconds: float = 0.0
    notices: Sequence[NewNotice] = ()
    noted: Sequence[Problem] = ()

    @classmethod
    def of_state(cls, document: DueDocument, state: State | None, **told: Any) -> DocumentResult:
        """The result of a document that gets a state, or (None) keeps its own; `told` are fields of its outcome."""
        name = document.name
        data = DocumentData(name.file_name, name.kind, name.centre, *(state or document.state), **told)
        return cls(document, data, state)


class RecordedStates(NamedTuple):
    """The states that reports led to, of documents and of their submissions, by ids."""

    documents: dict[int, State]
    submissions: dict[int, State]


def record_results(
    connection: Connection, results: Sequence[DocumentResult], shown: Sequence[StateReport] = ()
) -> RecordedStates:
    """Write results to the tracker; returns the resulting states.

    `shown` are further reports.
    """
    reports = [
        StateReport(Subject.XML_FILE, result.document.xml_id, result.state) for result in results if result.state
    ]
    reported = progress.report(connection, [*shown, *reports])
    states = {row_id: state for (subject, row_id), state in reported.items() if subject is Subject.XML_FILE}
    problems = {result.document.xml_id: result.problems for result in results if result.problems is not None}
    rewrite_log(connection, {xml_id: some for xml_id, some in problems.items() if xml_id in states})
    noted = {result.document.xml_id: result.noted for result in results if result.noted}
    rewrite_log(connection, noted, clears_others=False)
    add_notices(connection, [notice for result in results for notice in result.notices])
    # One that waited for an older archive has that state already, and is news all the same.
    progress.note_changed(connection, {result.document.za_id for result in results if result.data.held})
    submissions = {row_id: state for (subject, row_id), state in reported.items() if subject is Subject.ZIP_ACTION}
    others = {result.document.za_id for result in results} - submissions.keys()
    return RecordedStates(states, submissions | action_states(connection, others))
