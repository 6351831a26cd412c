"""The recorder of a phase: it writes results of documents to the tracker, now and then, and tells of submissions.

The next session repeats a document whose result a killed session had not recorded.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from dcc.data_outcomes import SubmissionData
from dcc.messages import mark
from dcc.phases import Phase, State, Status
from dcc.runtime.clock import utc_now
from dcc.session.data.data_session import DataSession
from dcc.session.data.document_results import DocumentResult, RecordedStates, record_results
from dcc.session.data.upload_order import DueDocument
from dcc.tracker.progress import StateReport, Subject

_COMMIT_SECONDS: Final = 0.3
_MAX_SECONDS: Final = 2.0
_SHARE: Final = 0.05
"""The least and most seconds between recordings; between these limits, recording takes this share of the time."""

_MAX_DOCUMENTS: Final = 500


class Recorder:
    """Collects the results of a phase, writes them to the tracker, and yields each submission once.

    A submission is yielded once all its documents among `documents` are recorded.
    """

    def __init__(self, work: DataSession, phase: Phase, documents: Iterable[DueDocument]) -> None:
        self._work, self._phase = work, phase
        self._left = Counter(document.za_id for document in documents)
        self._results: dict[int, list[DocumentResult]] = defaultdict(list)
        self._batch: list[DocumentResult] = []
        self._running: dict[int, StateReport] = {}
        self._shown: set[int] = set()
        self._pauses_until = time.monotonic() + _COMMIT_SECONDS

    def show_pending(self, documents: Iterable[DueDocument]) -> None:
        """Show that documents wait for the phase."""
        pending = State(self._phase, Status.PENDING)
        reports = [
            StateReport(Subject.XML_FILE, document.xml_id, pending)
            for document in documents
            if document.state != pending
        ]
        if reports:
            self._record([], reports)

    def show_running(self, document: DueDocument) -> None:
        """Show that a document is being processed, with the next recording."""
        running = State(self._phase, Status.RUNNING)
        self._running[document.xml_id] = StateReport(Subject.XML_FILE, document.xml_id, running)

    def add(self, result: DocumentResult) -> None:
        """Add a document's result."""
        self._running.pop(result.document.xml_id, None)
        self._shown.discard(result.document.xml_id)
        self._batch.append(result)

    def record(self, results: Iterable[DocumentResult]) -> Iterator[SubmissionData]:
        """Add results as they come, and write them now and then; yields the submissions that are complete."""
        for result in results:
            self.add(result)
            if self.is_due:
                yield from self.write()
        yield from self.write()

    @property
    def is_due(self) -> bool:
        """Whether it is time to write."""
        has_paused = time.monotonic() > self._pauses_until
        return len(self._batch) >= _MAX_DOCUMENTS or (has_paused and bool(self._batch or self._running))

    def write(self) -> list[SubmissionData]:
        """Write the collected results in one transaction; returns the submissions that are complete."""
        if not self._batch and not self._running:
            return []
        self._shown.update(self._running)
        batch, running = self._batch, list(self._running.values())
        self._batch, self._running = [], {}
        recorded = self._record(batch, running)
        for result in batch:
            state = recorded.documents.get(result.document.xml_id, result.state or result.document.state)
            if state != result.data.state:
                result = replace(result, data=replace(result.data, phase=state.phase, status=state.status))
            self._results[result.document.za_id].append(result)
            self._left[result.document.za_id] -= 1
        return list(self._finished(recorded.submissions))

    def _record(self, batch: Sequence[DocumentResult], shown: Sequence[StateReport]) -> RecordedStates:
        began = time.monotonic()
        states = self._work.session.write(lambda connection: record_results(connection, batch, shown))
        now = time.monotonic()
        self._pauses_until = now + max(_COMMIT_SECONDS, min((now - began) / _SHARE, _MAX_SECONDS))
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

    def _finished(self, states: Mapping[int, State]) -> Iterator[SubmissionData]:
        for za_id in [za_id for za_id in self._results if self._left[za_id] <= 0]:
            results = self._results.pop(za_id)
            first = results[0].document
            # A missing submission was removed with its source.
            state = states.get(za_id, first.state)
            yield SubmissionData(
                key=first.key,
                centre=first.centre,
                reached=self._phase,
                phase=state.phase,
                status=state.status,
                documents=tuple(result.data for result in results),
                seconds=sum(result.seconds for result in results),
                finished=utc_now(),
            )
