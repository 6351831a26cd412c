"""Collects the results of a phase of documents, and records many of them in the tracker at once.

The next session repeats a document whose result a killed session had not recorded.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection

from dcc.data_outcomes import DocumentData, ZipData
from dcc.messages import mark
from dcc.outcomes import Problem
from dcc.phases import Phase, Status
from dcc.session.data.data_session import DataSession, data_of
from dcc.session.data.document_log import add_to_log, rewrite_log
from dcc.session.data.upload_order import DueDocument
from dcc.tracker import progress
from dcc.tracker.hostings.owner_notices import NewNotice, add_notices
from dcc.tracker.models import utc_now
from dcc.tracker.progress import Proposal, Subject
from dcc.tracker.states import State
from dcc.tracker.submission_rows import action_states

_COMMIT_SECONDS: Final = 0.3
_MAX_SECONDS: Final = 2.0
_SHARE: Final = 0.05
"""The least and most seconds between recordings; between these limits, recording takes this share of the time."""

_MAX_DOCUMENTS: Final = 500


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
    def of_state(cls, document: DueDocument, state: State | None, **more: Any) -> DocumentResult:
        """The result of a document that gets a state, or (None) keeps its own; `more` are fields of its outcome."""
        return cls(document, data_of(document, state or document.state, **more), state)


class Recorder:
    """Collects the results of a phase, writes them to the tracker, and yields each submission once.

    A submission is yielded once all its documents among `documents` are recorded.
    """

    def __init__(self, work: DataSession, phase: Phase, documents: Iterable[DueDocument]) -> None:
        self._work, self._phase = work, phase
        self._left = Counter(document.za_id for document in documents)
        self._results: dict[int, list[DocumentResult]] = defaultdict(list)
        self._batch: list[DocumentResult] = []
        self._running: dict[int, Proposal] = {}
        self._shown: set[int] = set()
        self._written = time.monotonic()
        self._pause = _COMMIT_SECONDS

    def show_pending(self, documents: Iterable[DueDocument]) -> None:
        """Show that documents wait for the phase."""
        pending = State(self._phase, Status.PENDING)
        proposals = [
            Proposal(Subject.XML_FILE, document.xml_id, pending) for document in documents if document.state != pending
        ]
        if proposals:
            self._record([], proposals)

    def show_running(self, document: DueDocument) -> None:
        """Show that a document is being processed, with the next recording."""
        running = State(self._phase, Status.RUNNING)
        self._running[document.xml_id] = Proposal(Subject.XML_FILE, document.xml_id, running)

    def add(self, result: DocumentResult) -> None:
        """Add a document's result."""
        self._running.pop(result.document.xml_id, None)
        self._shown.discard(result.document.xml_id)
        self._batch.append(result)

    def record(self, results: Iterable[DocumentResult]) -> Iterator[ZipData]:
        """Add results as they come, and write them now and then; yields the submissions that are complete."""
        for result in results:
            self.add(result)
            if self.is_due:
                yield from self.write()
        yield from self.write()

    @property
    def is_due(self) -> bool:
        """Whether it is time to write."""
        waited = time.monotonic() - self._written > self._pause
        return len(self._batch) >= _MAX_DOCUMENTS or (waited and bool(self._batch or self._running))

    def write(self) -> list[ZipData]:
        """Write the collected results in one transaction; returns the submissions that are complete."""
        if not self._batch and not self._running:
            return []
        self._shown.update(self._running)
        batch, running = self._batch, list(self._running.values())
        self._batch, self._running = [], {}
        documents, submissions = self._record(batch, running)
        for result in batch:
            state = documents.get(result.document.xml_id, result.state or result.document.state)
            if state != (result.data.phase, result.data.status):
                result = replace(result, data=replace(result.data, phase=state.phase, status=state.status))
            self._results[result.document.za_id].append(result)
            self._left[result.document.za_id] -= 1
        return list(self._finished(submissions))

    def _record(
        self, batch: Sequence[DocumentResult], shown: Sequence[Proposal]
    ) -> tuple[dict[int, State], dict[int, State]]:
        began = time.monotonic()
        states = self._work.session.write(lambda connection: record_results(connection, batch, shown))
        self._written = time.monotonic()
        self._pause = max(_COMMIT_SECONDS, min((self._written - began) / _SHARE, _MAX_SECONDS))
        return states

    def break_off(self) -> None:
        """Write the results before the phase is abandoned; documents that were being processed wait again."""
        self._running.clear()
        self.write()
        waiting = State(self._phase, Status.PENDING)
        self._work.reopen(
            dict.fromkeys(self._shown, waiting), mark("The QC database went away in the document's turn.")
        )
        self._shown.clear()

    def _finished(self, states: Mapping[int, State]) -> Iterator[ZipData]:
        for za_id in [za_id for za_id in self._results if self._left[za_id] <= 0]:
            results = self._results.pop(za_id)
            first = results[0].document
            # A missing submission was removed with its source.
            state = states.get(za_id, first.state)
            yield ZipData(
                key=first.key,
                centre=first.centre,
                reached=self._phase,
                phase=state.phase,
                status=state.status,
                documents=tuple(result.data for result in results),
                seconds=sum(result.seconds for result in results),
                finished=utc_now(),
            )


def record_results(
    connection: Connection, results: Sequence[DocumentResult], shown: Sequence[Proposal] = ()
) -> tuple[dict[int, State], dict[int, State]]:
    """Write results to the tracker; returns the resulting states of documents, and of their submissions, by ids.

    `shown` are further proposals.
    """
    proposals = [Proposal(Subject.XML_FILE, result.document.xml_id, result.state) for result in results if result.state]
    reported = progress.report(connection, [*shown, *proposals])
    states = {row_id: state for (subject, row_id), state in reported.items() if subject is Subject.XML_FILE}
    problems = {result.document.xml_id: result.problems for result in results if result.problems is not None}
    rewrite_log(connection, {xml_id: some for xml_id, some in problems.items() if xml_id in states})
    add_to_log(connection, {result.document.xml_id: result.noted for result in results if result.noted})
    add_notices(connection, [notice for result in results for notice in result.notices])
    submissions = {row_id: state for (subject, row_id), state in reported.items() if subject is Subject.ZIP_ACTION}
    return states, submissions | action_states(
        connection, {result.document.za_id for result in results} - submissions.keys()
    )
