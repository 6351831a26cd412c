"""What the phases after validation work with in one session, and how they tell the tracker what they did.

The tracker hears of many documents at once; a document that it had not heard of when the session was killed is taken up
again by the next one.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeVar

from sqlalchemy import Connection, Engine, select

from dcc.data_outcomes import DocumentData, ZipData
from dcc.databases.transactions import run_reading, run_writing
from dcc.errors import InternalFaultError
from dcc.messages import mark
from dcc.outcomes import Problem, ZipKey
from dcc.phases import Phase, Status
from dcc.qc.judging.checked_at_upload import CheckedAtUpload
from dcc.runtime.background_work import BackgroundWork
from dcc.session.data.document_log import rewrite_log
from dcc.session.data.documents import DueDocument, in_order_of_upload, load_due
from dcc.session.sessions import Session
from dcc.settings import Settings
from dcc.store.staging import Staging
from dcc.tracker import progress
from dcc.tracker.hostings.owner_notices import NewNotice, add_notices
from dcc.tracker.lineage import IDS, rows_by_id
from dcc.tracker.models import ZipAction, utc_now
from dcc.tracker.progress import Proposal, Subject
from dcc.tracker.register.delegations import Delegations
from dcc.tracker.states import State

log = logging.getLogger(__name__)
T = TypeVar("T")

_COMMIT_SECONDS: Final = 0.3
_MOST_SECONDS: Final = 2.0
_SHARE: Final = 0.05
"""How long the tracker hears of nothing, at least and at most; between them, to write takes this share of the time."""

_MOST_DOCUMENTS: Final = 500
_ACTION_STATES: Final = select(ZipAction.id, ZipAction.phase_id, ZipAction.status_id).where(ZipAction.id.in_(IDS))


@dataclass
class DataSession:
    """One session's work on both databases. `keys` are the zip actions that it is about, None for all.

    `checked` holds what was found in documents while they were read; `has_reference`: reference data were seen to.
    `delegations` are those in force since the upload began.
    """

    tracker: Engine
    qc: Engine
    settings: Settings
    session: Session
    keys: set[ZipKey] | None
    staging: Staging
    faults: list[InternalFaultError] = field(default_factory=list)
    has_reference: bool = False
    checked: CheckedAtUpload | None = None
    delegations: Delegations = field(default_factory=Delegations)

    @property
    def author(self) -> str:
        """In whose name the session sets documents back."""
        return f"session {self.session.id}"

    def due(self, phase: Phase) -> list[DueDocument]:
        """The documents that wait for a phase, in the order of upload."""
        return self.read(lambda connection: load_due(connection, phase, self.settings.naming, self.keys))

    def read(self, work: Callable[[Connection], T]) -> T:
        """Ask the tracker something."""
        return run_reading(self.tracker, work, patience_seconds=self.settings.database_retry)

    def read_qc(self, work: Callable[[Connection], T]) -> T:
        """Ask the QC database something."""
        return run_reading(self.qc, work, patience_seconds=self.settings.database_retry)

    def write_qc(self, work: Callable[[Connection], T]) -> T:
        """Do something in a write transaction of the QC database."""
        return run_writing(self.qc, work, patience_seconds=self.settings.database_retry)

    def reopen(self, states: dict[int, State], reason: str) -> None:
        """Set documents back in the session's name."""
        if states:
            self.session.write(
                lambda connection: progress.reopen_documents(connection, states, self.author, reason) and None
            )

    def note_fault(self, key: ZipKey, file_name: str, error: Exception) -> InternalFaultError:
        """Keep and log a fault of the platform with a document, to be raised when everything else is done."""
        log.error("%s: %s met a fault of the platform", key, file_name, exc_info=error)
        fault = InternalFaultError(
            f"{key}: {file_name}: {type(error).__name__}: {error}. This is a fault of the platform. Report it with the "
            "log."
        )
        self.faults.append(fault)
        return fault


@dataclass(frozen=True, slots=True)
class Fact:
    """What became of a document: its state, what is told of it, and the entries of its log; None: as they are.

    `notices` are for other centres than its archive's.
    """

    document: DueDocument
    data: DocumentData
    state: State | None
    problems: Sequence[Problem] | None = None
    seconds: float = 0.0
    notices: Sequence[NewNotice] = ()


class _Written(NamedTuple):
    """What was written to the tracker, the states that came of it, and how long it took."""

    batch: Sequence[Fact]
    states: Mapping[Subject, Mapping[int, State]]
    seconds: float


class Recorder:
    """Gathers what became of the documents of a phase, writes it to the tracker, and tells of each zip action once.

    A zip action is told of when all its documents among `documents` have been recorded. What is begun `beside` the
    caller's work, if anything can be, is written in its order; what goes wrong there is raised by `finish`.
    """

    def __init__(
        self, work: DataSession, phase: Phase, documents: Iterable[DueDocument], beside: BackgroundWork | None = None
    ) -> None:
        self._work, self._phase = work, phase
        self._beside = beside or BackgroundWork(None)
        self._left = Counter(document.za_id for document in documents)
        self._told: dict[int, list[Fact]] = defaultdict(list)
        self._batch: list[Fact] = []
        self._running: dict[int, Proposal] = {}
        self._shown: set[int] = set()
        self._writing: deque[Callable[[], _Written]] = deque()
        self._written = time.monotonic()
        self._pause = _COMMIT_SECONDS

    def show_pending(self, documents: Iterable[DueDocument]) -> None:
        """Begin to show that documents wait for the phase."""
        pending = State(self._phase, Status.PENDING)
        proposals = [Proposal(Subject.XML_FILE, one.xml_id, pending) for one in documents if one.state != pending]
        if proposals:
            self._begin([], proposals)

    def show_running(self, document: DueDocument) -> None:
        """Show that a document's turn has come, with the next writing."""
        running = State(self._phase, Status.RUNNING)
        self._running[document.xml_id] = Proposal(Subject.XML_FILE, document.xml_id, running)

    def add(self, fact: Fact) -> None:
        """Take what became of a document."""
        self._running.pop(fact.document.xml_id, None)
        self._shown.discard(fact.document.xml_id)
        self._batch.append(fact)

    @property
    def is_due(self) -> bool:
        """Whether it is time to write."""
        waited = time.monotonic() - self._written > self._pause
        return len(self._batch) >= _MOST_DOCUMENTS or (waited and bool(self._batch or self._running))

    def begin(self) -> None:
        """Begin to write what was gathered in one transaction. `finish` comes before anything else is written."""
        if not self._batch and not self._running:
            return
        self._shown.update(self._running)
        batch, running = self._batch, list(self._running.values())
        self._batch, self._running = [], {}
        self._begin(batch, running)

    def finish(self) -> list[ZipData]:
        """Wait until all is written that was begun; the zip actions that have come to an end with it."""
        ended: list[ZipData] = []
        while self._writing:
            ended += self._take(self._writing.popleft()())
        return ended

    def write(self) -> list[ZipData]:
        """Write what was gathered in one transaction; the zip actions that have come to an end with it."""
        self.begin()
        return self.finish()

    def _begin(self, batch: Sequence[Fact], shown: Sequence[Proposal]) -> None:
        def write() -> _Written:
            began = time.monotonic()
            states = self._work.session.write(lambda connection: _write(connection, batch, shown))
            return _Written(batch, states, time.monotonic() - began)

        self._writing.append(self._beside.begin(write))

    def _take(self, written: _Written) -> Iterator[ZipData]:
        self._written = time.monotonic()
        self._pause = max(_COMMIT_SECONDS, min(written.seconds / _SHARE, _MOST_SECONDS))
        for fact in written.batch:
            state = written.states[Subject.XML_FILE].get(fact.document.xml_id, fact.state or fact.document.state)
            if state != (fact.data.phase, fact.data.status):
                fact = replace(fact, data=replace(fact.data, phase=state.phase, status=state.status))
            self._told[fact.document.za_id].append(fact)
            self._left[fact.document.za_id] -= 1
        return self._finished(written.states[Subject.ZIP_ACTION])

    def break_off(self) -> None:
        """Write what became of documents before the phase had to be given up; those whose turn it was wait again."""
        self._running.clear()
        self.write()
        waiting = State(self._phase, Status.PENDING)
        self._work.reopen(
            dict.fromkeys(self._shown, waiting), mark("The QC database went away in the document's turn.")
        )
        self._shown.clear()

    def _finished(self, states: Mapping[int, State]) -> Iterator[ZipData]:
        for za_id in [za_id for za_id in self._told if self._left[za_id] <= 0]:
            facts = self._told.pop(za_id)
            first = facts[0].document
            # A zip action that is not there any more went with its file source.
            state = states.get(za_id, first.state)
            yield ZipData(
                key=first.key,
                centre=first.centre,
                reached=self._phase,
                phase=state.phase,
                status=state.status,
                documents=tuple(fact.data for fact in facts),
                seconds=sum(fact.seconds for fact in facts),
                finished=utc_now(),
            )


def _write(
    connection: Connection, batch: Sequence[Fact], running: Sequence[Proposal]
) -> dict[Subject, dict[int, State]]:
    proposals = [Proposal(Subject.XML_FILE, fact.document.xml_id, fact.state) for fact in batch if fact.state]
    states: dict[Subject, dict[int, State]] = {subject: {} for subject in Subject}
    for (subject, row_id), state in progress.report(connection, [*running, *proposals]).items():
        states[subject][row_id] = state
    rewrite_log(
        connection,
        {
            fact.document.xml_id: fact.problems
            for fact in batch
            if fact.problems is not None and fact.document.xml_id in states[Subject.XML_FILE]
        },
    )
    add_notices(connection, [one for fact in batch for one in fact.notices])
    unproposed = {fact.document.za_id for fact in batch} - set(states[Subject.ZIP_ACTION])
    for za_id, phase, status in rows_by_id(connection, _ACTION_STATES, unproposed):
        states[Subject.ZIP_ACTION][za_id] = State(Phase(phase), Status(status))
    return states


def merged(*documents: Iterable[DueDocument]) -> list[DueDocument]:
    """Documents of several lists, each once, in the order of upload."""
    return in_order_of_upload({one.xml_id: one for some in documents for one in some}.values())
