"""The work of a crawling session, part by part or all in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import Connection, Engine

from dcc.databases.transactions import run_reading
from dcc.errors import QcDatabaseOutdatedError, QcDatabaseUnreachableError
from dcc.operations.around_session import OperationsAroundSession
from dcc.outcomes import SourceCrawl, SubmissionKey, SubmissionOutcome
from dcc.phases import Phase
from dcc.redaction import clean
from dcc.session.session_request import ALL_THAT_IS_DUE, SessionRequest
from dcc.session.sessions import Session, hold_session
from dcc.settings import Settings

if TYPE_CHECKING:
    from dcc.data_outcomes import DataOutcome
    from dcc.session.batches.exchange import Workers


T = TypeVar("T")


def open_session(
    tracker: Engine, settings: Settings, request: SessionRequest = ALL_THAT_IS_DUE, *, resume: int | None = None
) -> AbstractContextManager[Session]:
    """Open a crawling session, hold it while the block runs (see `hold_session`), and do what the settings ask for
    around it.

    Raises NotFoundError for a group that the settings do not name, and SessionActiveError while another process has a
    session of one of the centres. Raises SessionLostError when the lease was lost meanwhile.
    """
    return hold_session(tracker, settings, request, OperationsAroundSession(tracker, settings), resume=resume)


@contextmanager
def open_work(
    tracker: Engine, settings: Settings, request: SessionRequest, *, resume: int | None = None, hands_over: bool = False
) -> Iterator[SessionWork]:
    """What is requested of a session, which is open during the block; see `SessionWork`. Raises as `open_session`."""
    with open_session(tracker, settings, request, resume=resume) as session:
        yield SessionWork(settings, tracker, session, hands_over)


@dataclass
class SessionWork:
    """A session and what it has to do.

    `hands_over`: work that a run brings about is left to a later run of the same session. `crawled`, `processed` and
    `loaded`: that part was completed. `failure`: what the work itself raised.
    """

    settings: Settings
    tracker: Engine
    session: Session
    hands_over: bool = False
    crawled: bool = field(default=False, init=False)
    processed: bool = field(default=False, init=False)
    loaded: bool = field(default=False, init=False)
    failure: BaseException | None = field(default=None, init=False)

    @property
    def request(self) -> SessionRequest:
        """What was requested of the session."""
        return self.session.request

    @property
    def until(self) -> Phase:
        """The last phase of the work."""
        return self.settings.last_phase if self.request.until is None else self.request.until

    def crawl(self, source_ids: Sequence[int] | None = None) -> Iterator[SourceCrawl]:
        """Crawl the sources; yields each outcome once it is in the tracker. `source_ids` restricts the work."""
        from dcc.session.source_crawls import crawl_file_sources

        wanted = self.request.source_ids if source_ids is None else source_ids
        crawls = crawl_file_sources(self.session, wanted, only_scheduled=self.request.only_scheduled)
        yield from self._told(crawls, self.request.listeners.on_crawl)
        self.crawled = True

    def process(
        self, keys: Sequence[SubmissionKey] | None = None, workers: Workers | None = None
    ) -> Iterator[SubmissionOutcome]:
        """Process submissions; yields each outcome once it is in the tracker.

        `keys` restricts the work; `workers` fetch and prepare archives if there are no keys.
        """
        from dcc.session.archives.archive_phases import process_zip_actions

        wanted = self.request.keys if keys is None else keys
        yield from self._told(process_zip_actions(self.session, wanted, workers), self.request.listeners.on_submission)
        self.processed = True

    def process_data(
        self, qc: Engine, keys: Collection[SubmissionKey] | None = None, *, rejudge: bool = False
    ) -> Iterator[DataOutcome]:
        """Process valid documents up to `until`; yields each outcome once it is in both databases.

        `keys` restricts the work. `rejudge`: documents that were judged are judged again; they reach the phase data
        whatever `until` is. Raises as `dcc.session.data.document_phases.process_data`.
        """
        from dcc.session.data.document_phases import process_data
        from dcc.session.data.rechecks import recheck

        wanted = self.request.keys if keys is None else keys
        with self._noting_failure():
            if rejudge:
                reason = "Materialised in Dagster."
                recheck(self.tracker, qc, self.settings, keys=wanted, author=self.request.requested_by, reason=reason)
        until = max(self.until, Phase.DATA) if rejudge else self.until
        yield from self._told(process_data(qc, self.session, until=until, keys=wanted), self.request.listeners.on_data)
        self.loaded = True

    def _told(self, outcomes: Iterable[T], tell: Callable[[T], object]) -> Iterator[T]:
        with self._noting_failure():
            for outcome in outcomes:
                tell(outcome)
                yield outcome

    def hand_over_if_due(self, *, archives: bool = False) -> None:
        """Keep the session open for a later run, if that has documents of its centres to process, or `archives`."""
        if self.hands_over and run_reading(self.tracker, partial(self._is_due, archives=archives)):
            self.session.hand_over()

    def _is_due(self, connection: Connection, *, archives: bool) -> bool:
        """Whether documents wait for steps that sessions do; with `archives`, also submissions and failed downloads."""
        from dcc.session.data.document_queries import count_due_documents
        from dcc.tracker.hostings.retries import count_not_arrived
        from dcc.tracker.queries.waiting_work import waiting_submissions
        from dcc.tracker.register.source_schedules import usable_sources

        centres = self.session.centres
        try:
            if count_due_documents(connection, self.settings, centres, self.until) > 0:
                return True
        except (QcDatabaseOutdatedError, QcDatabaseUnreachableError):
            # The later run says so, and what to do.
            return True
        if not archives or self.until < Phase.XSD:
            return False
        usable = usable_sources(connection, self.settings.source_failure_limit)
        waits = waiting_submissions(connection, centres=centres, sources=usable, limit=1)
        return bool(waits) or count_not_arrived(connection, centres) > 0

    def ready(self, qc_database: Callable[[], Engine]) -> Engine:
        """The QC database, opened by `qc_database`. Raises what that raises."""
        with self._noting_failure():
            return qc_database()

    def finish(self) -> None:
        """Do the rest of the work, up to `until`; unless submissions were named, that begins with the crawl.

        Raises as the work, and QcDatabaseOutdatedError and QcDatabaseUnreachableError.
        """
        if self.request.keys is None and not self.crawled:
            deque(self.crawl(), maxlen=0)
        if self.until >= Phase.XSD and not self.processed:
            deque(self.process(), maxlen=0)
        if self.until >= Phase.UPLOAD and not self.loaded:
            from dcc.databases.schema import current
            from dcc.qc.database import open_qc_database

            with current(open_qc_database(self.settings), patience_seconds=self.settings.database_retry) as qc:
                deque(self.process_data(qc), maxlen=0)

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        # Dagster wraps what a step raises; the command needs the original.
        try:
            yield
        except GeneratorExit:
            raise
        except BaseException as failure:
            clean(failure)
            self.failure = failure
            raise
