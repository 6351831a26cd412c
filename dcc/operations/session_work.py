"""The work of a crawling session, part by part or all in order, and what operations does around it.

Around it are events, stored archives, cleaning, notifications and metrics. The settings say which of these happen; each
result is added to the session's notices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import Connection, Engine

from dcc.databases.transactions import run_reading
from dcc.errors import QcDatabaseOutdatedError, QcDatabaseUnreachableError, SessionTimeLimitError
from dcc.outcomes import SourceCrawl, ZipKey, ZipOutcome
from dcc.phases import Phase
from dcc.redaction import clean, redacted
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
        from dcc.session.crawling import crawl_file_sources

        wanted = self.request.source_ids if source_ids is None else source_ids
        crawls = crawl_file_sources(self.session, wanted, only_scheduled=self.request.only_scheduled)
        yield from self._told(crawls, self.request.listeners.on_crawl)
        self.crawled = True

    def process(self, keys: Sequence[ZipKey] | None = None, workers: Workers | None = None) -> Iterator[ZipOutcome]:
        """Process submissions; yields each outcome once it is in the tracker.

        `keys` restricts the work; `workers` fetch and prepare archives if there are no keys.
        """
        from dcc.session.archives.processing import process_zip_actions

        wanted = self.request.keys if keys is None else keys
        yield from self._told(process_zip_actions(self.session, wanted, workers), self.request.listeners.on_zip)
        self.processed = True

    def process_data(
        self, qc: Engine, keys: Collection[ZipKey] | None = None, *, rejudge: bool = False
    ) -> Iterator[DataOutcome]:
        """Process valid documents up to `until`; yields each outcome once it is in both databases.

        `keys` restricts the work. `rejudge`: documents that were judged are judged again; they reach the phase data
        whatever `until` is. Raises as `dcc.session.data.data_processing.process_data`.
        """
        from dcc.session.data.data_processing import process_data
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
        if self.hands_over and run_reading(self.tracker, lambda connection: self._is_due(connection, archives)):
            self.session.hand_over()

    def _is_due(self, connection: Connection, archives: bool) -> bool:
        """Whether documents wait for steps that sessions do; with `archives`, also submissions and failed downloads."""
        from dcc.session.data.document_queries import count_due_documents
        from dcc.tracker.hostings.retries import count_not_arrived
        from dcc.tracker.queries.waiting_work import waiting_zip_actions
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
        waits = waiting_zip_actions(connection, centres=centres, sources=usable, limit=1)
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


@dataclass(frozen=True, slots=True)
class OperationsAroundSession:
    """The steps that the settings ask for (see `AroundSession`). Each part is imported when it is needed."""

    tracker: Engine
    settings: Settings

    def begun(self, session: Session) -> None:
        """Send the OpenLineage event of its begin."""
        if self.settings.openlineage_url is not None:
            from dcc.operations.openlineage.sending import send_begin

            send_begin(self.settings, session)

    def clean(self, session: Session) -> Iterator[str]:
        """Complete the copies of archives in the store, and remove staged files that nobody needs any more."""
        from dcc.operations.archive_audits import catch_up_after_session

        yield from catch_up_after_session(self.tracker, self.settings, session)
        if self.settings.staging_clean:
            from dcc.operations.retention.cleanup import clean_after_session

            yield from clean_after_session(self.tracker, self.settings, session)

    def notify(self, session: Session, failure: Exception | None, *, completed: bool) -> Iterator[str]:
        """Send the session's report, messages and OpenLineage events, and write the reports of its submissions."""
        # A person who interrupts a session does not want to wait for a mail server.
        ended = failure is not None or (completed and not session.is_handed_over)
        failure = None if isinstance(failure, SessionTimeLimitError) else failure
        # An error that is not the platform's own may repeat a secret.
        broke_off = None if failure is None else redacted(str(failure)) or type(failure).__name__
        if ended and self.settings.asks_for_reports:
            from dcc.notify.session_report import send_session_report

            yield from send_session_report(self.tracker, self.settings, session.id)
        if ended or completed:
            from dcc.notify.channels.open_channels import notifies

            if notifies(self.settings):
                from dcc.notify.notifications import notify_after_session

                yield from notify_after_session(self.tracker, self.settings, session, ended=ended, broke_off=broke_off)
            if self.settings.submission_reports != "none":
                from dcc.reports.submissions.stored_reports import write_reports

                yield from write_reports(self.tracker, self.settings, session.id)
        if self.settings.openlineage_url is not None and not session.is_handed_over:
            from dcc.operations.openlineage.sending import send_end

            yield from send_end(self.tracker, self.settings, session.id, broke_off)

    def write_metrics(self) -> Iterable[str]:
        """Write the file of metrics."""
        path = self.settings.metrics_file
        if path is None:
            return ()
        from dcc.operations.metrics.collector import write_metrics_file

        return write_metrics_file(self.settings, path)
