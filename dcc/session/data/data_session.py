"""What the phases after validation use in a session: both databases, and a recorder of their results.

The next session repeats a document whose result a killed session had not recorded.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine

from dcc.data_outcomes import DocumentData, SubmissionData
from dcc.databases.transactions import run_reading
from dcc.errors import ReferenceDataError, ReferenceUnreachableError
from dcc.messages import mark
from dcc.outcomes import Problem, SubmissionKey
from dcc.phases import Phase, State, Status
from dcc.qc.archive_scope import ArchiveScope
from dcc.qc.judging.documents import JudgingBasis
from dcc.qc.judging.waiver_store import waivers_in_force
from dcc.qc.reference import snapshots
from dcc.qc.reference.refresh import RefreshOutcome, ensure_reference
from dcc.rights import Delegations
from dcc.runtime.clock import utc_now, utc_today
from dcc.session.data.document_log import rewrite_log
from dcc.session.data.document_queries import archives_from, load_due
from dcc.session.data.upload_order import DueDocument, in_order_of_upload
from dcc.session.faults import Faults
from dcc.session.sessions import Session
from dcc.settings import Settings
from dcc.settings.left_out_steps import LeftOutSteps
from dcc.store.staging import Staging
from dcc.tracker import progress
from dcc.tracker.hostings.owner_notices import NewNotice, add_notices
from dcc.tracker.progress import StateReport, Subject
from dcc.tracker.register.centres import imits_names
from dcc.tracker.reopened_by import session_name
from dcc.tracker.submission_rows import action_states

log = logging.getLogger(__name__)

_COMMIT_SECONDS: Final = 0.3
_MAX_SECONDS: Final = 2.0
_SHARE: Final = 0.05
"""The least and most seconds between recordings; between these limits, recording takes this share of the time."""

_MAX_DOCUMENTS: Final = 500


@dataclass
class DataSession:
    """One session's work on both databases. `keys` are its submissions, None for all.

    `has_reference`: reference data were refreshed. `delegations` are those in force since the upload began.
    """

    qc: Engine
    session: Session
    keys: set[SubmissionKey] | None
    staging: Staging
    faults: Faults = field(default_factory=Faults)
    has_reference: bool = False
    delegations: Delegations = field(default_factory=Delegations)

    def __post_init__(self) -> None:
        self.settings: Settings = self.session.settings
        self.left_out: LeftOutSteps = self.settings.steps_left_out
        self.scope = ArchiveScope(self.settings.naming, self.session.centres)

    @property
    def author(self) -> str:
        """The name in which the session sets documents back."""
        return session_name(self.session.id)

    def covers(self, key: SubmissionKey) -> bool:
        """Whether the session is for the centre in an archive's name."""
        return self.scope.has(key.file_name)

    def due(self, phase: Phase, *, left_out: bool = False) -> list[DueDocument]:
        """The documents of the session's centres that wait for a phase, in the order of upload.

        Without those for which the settings leave it out; or only these.
        """
        if left_out and not self.left_out.has(phase):
            return []
        due = self.session.read(lambda connection: load_due(connection, phase, self.settings.naming, self.keys))
        return [one for one in due if self.covers(one.key) and (phase in self.left_out_of(one)) == left_out]

    def left_out_of(self, document: DueDocument) -> frozenset[Phase]:
        """The steps that the settings leave out of a document."""
        return self.left_out.of(document.centre, document.source)

    def scope_of(self, phase: Phase) -> ArchiveScope:
        """The archives for which the session builds a phase."""
        if not self.left_out.has(phase):
            return self.scope
        if phase in self.left_out.everywhere:
            return replace(self.scope, centres=())
        centres = {centre for centre, steps in self.left_out.of_centres.items() if phase in steps}
        sources = [source for source, steps in self.left_out.of_sources.items() if phase in steps]
        archives = self.session.read(lambda connection: archives_from(connection, sources))
        return replace(self.scope, left_out_centres=centres, left_out_archives=archives)

    def reopen(self, states: dict[int, State], reason: str) -> None:
        """Set documents back in the session's name."""
        if states:
            self.session.write(
                lambda connection: progress.reopen_documents(connection, states, self.author, reason) and None
            )


def merged(*documents: Iterable[DueDocument]) -> list[DueDocument]:
    """The distinct documents of several lists, in the order of upload."""
    return in_order_of_upload({document.xml_id: document for some in documents for document in some}.values())


def refresh_reference_data(work: DataSession, known: snapshots.ActiveReference) -> bool:
    """Refresh the sets of reference data that the settings name; returns whether one was read.

    Once a session. If one cannot be read, its rules are unchecked, or use the earlier snapshot: the session reports
    that. `known` are the active ones.
    """
    if work.has_reference:
        return False
    work.has_reference = True
    refreshed = ensure_reference(work.qc, work.settings, known.stored)
    for each in refreshed:
        if each.outcome is RefreshOutcome.FAILED:
            log.warning("%s", each.message)
            kind = ReferenceUnreachableError if each.is_unreachable else ReferenceDataError
            work.session.record_task_error(Phase.DATA, kind(each.message))
    return bool(refreshed)


def current_basis(work: DataSession) -> JudgingBasis:
    """The basis of judging: the active reference data, after a refresh, and today's waivers, in UTC."""
    names = run_reading(work.session.tracker, imits_names)

    def load(connection: Connection) -> tuple[snapshots.ActiveReference, JudgingBasis]:
        reference, today = snapshots.load_active(connection, names), utc_today()
        waivers = waivers_in_force(connection, today)
        return reference, JudgingBasis(reference, waivers, today, work.settings.max_document_errors)

    reference, basis = run_reading(work.qc, load)
    # One query is enough if nothing has to be read.
    return run_reading(work.qc, load)[1] if refresh_reference_data(work, reference) else basis


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
        self._written = time.monotonic()
        self._pause = _COMMIT_SECONDS

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
        waited = time.monotonic() - self._written > self._pause
        return len(self._batch) >= _MAX_DOCUMENTS or (waited and bool(self._batch or self._running))

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
    submissions = {row_id: state for (subject, row_id), state in reported.items() if subject is Subject.ZIP_ACTION}
    others = {result.document.za_id for result in results} - submissions.keys()
    return RecordedStates(states, submissions | action_states(connection, others))
