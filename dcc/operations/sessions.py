"""Crawling sessions: what they have to do, and the work at their end, which stores archives, cleans, and notifies.

The settings say which of these happen; each result is added to the session's notices.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict, TypeVar, Unpack

from sqlalchemy import Connection, Engine

from dcc.databases.transactions import run_reading
from dcc.errors import SessionTimeLimitError
from dcc.outcomes import SourceCrawl, ZipKey, ZipOutcome
from dcc.phases import Phase
from dcc.redaction import clean, redacted
from dcc.session.listeners import NOBODY, Listeners
from dcc.session.sessions import Session, hold_session
from dcc.settings import Settings

if TYPE_CHECKING:
    from dcc.data_outcomes import DataOutcome
    from dcc.session.batches.exchange import Workers


T = TypeVar("T")


def open_session(
    tracker: Engine, settings: Settings, *, group: str | None = None, resume: int | None = None
) -> AbstractContextManager[Session]:
    """Open a crawling session, hold it while the block runs (see `hold_session`), and do what the settings ask for at
    its end.

    The session is for a group of centres, or for all. Raises NotFoundError for a group that the settings do not name,
    and SessionActiveError while another process has a session of one of the centres. Raises SessionLostError when the
    lease was lost meanwhile.
    """
    return hold_session(tracker, settings, _SessionEnd(tracker, settings), group=group, resume=resume)


class WorkRequest(TypedDict, total=False):
    """What a session has to do, as `SessionWork` has it."""

    source_ids: Sequence[int] | None
    keys: Sequence[ZipKey] | None
    requested_by: str
    until: Phase
    listeners: Listeners


class SessionRequest(WorkRequest, total=False):
    """The options of `open_work`."""

    group: str | None
    urgent: Collection[ZipKey]


@contextmanager
def open_work(
    tracker: Engine,
    settings: Settings,
    *,
    group: str | None = None,
    urgent: Collection[ZipKey] = (),
    **request: Unpack[WorkRequest],
) -> Iterator[SessionWork]:
    """The work of a complete session, which is open during the block; see `SessionWork`. Raises as `open_session`.

    It is for a `group` of centres, or for all. With `source_ids`, it crawls only these sources; with `urgent` ones, it
    processes only these submissions. With `keys`, it crawls nothing, and opens these submissions again in the name of
    `requested_by` and processes them. `until` is the last phase, by default that of the settings: before `xsd` there is
    only the crawl; up to `xsd` submissions are processed, after it documents.
    """
    request.setdefault("until", settings.last_phase)
    request.setdefault("requested_by", "dcc")
    with open_session(tracker, settings, group=group) as session:
        session.urgent = frozenset(urgent)
        request.get("listeners", NOBODY).on_begin(session)
        yield SessionWork(settings, tracker, session, **request)


@dataclass
class SessionWork:
    """A session and what it has to do.

    `source_ids`: the sources to crawl, `keys`: the submissions to process; None for all that are due. `only_scheduled`:
    of the sources that are due, only those with an age of their own. `requested_by` is the person who asked.
    `hands_over`: work that a run brings about is left to a later run of the same session. `until` is the last phase for
    documents. `crawled`, `processed` and `loaded`: that part was completed. `failure`: what the work itself raised.
    """

    settings: Settings
    tracker: Engine
    session: Session
    source_ids: Sequence[int] | None = None
    only_scheduled: bool = False
    keys: Sequence[ZipKey] | None = None
    requested_by: str = "Dagster"
    hands_over: bool = False
    until: Phase = Phase.QC
    listeners: Listeners = NOBODY
    crawled: bool = field(default=False, init=False)
    processed: bool = field(default=False, init=False)
    loaded: bool = field(default=False, init=False)
    failure: BaseException | None = field(default=None, init=False)

    def crawl(self, source_ids: Sequence[int] | None = None) -> Iterator[SourceCrawl]:
        """Crawl the sources; yields each outcome once it is in the tracker. `source_ids` restricts the work."""
        from dcc.session.crawling import crawl_file_sources

        wanted = self.source_ids if source_ids is None else source_ids
        crawls = crawl_file_sources(self.session, wanted, only_scheduled=self.only_scheduled)
        yield from self._told(crawls, self.listeners.on_crawl)
        self.crawled = True

    def process(self, keys: Sequence[ZipKey] | None = None, workers: Workers | None = None) -> Iterator[ZipOutcome]:
        """Process submissions; yields each outcome once it is in the tracker.

        `keys` restricts the work; `workers` fetch and prepare archives if there are no keys.
        """
        from dcc.session.archives.processing import process_zip_actions

        wanted = self.keys if keys is None else keys
        outcomes = process_zip_actions(self.session, wanted, requested_by=self.requested_by, workers=workers)
        yield from self._told(outcomes, self.listeners.on_zip)
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

        wanted = self.keys if keys is None else keys
        with self._noting_failure():
            if rejudge:
                reason = "Materialised in Dagster."
                recheck(self.tracker, qc, self.settings, keys=wanted, author=self.requested_by, reason=reason)
        until = max(self.until, Phase.DATA) if rejudge else self.until
        yield from self._told(process_data(qc, self.session, until=until, keys=wanted), self.listeners.on_data)
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
        from dcc.session.data.document_queries import count_waiting
        from dcc.tracker.hostings.download_plan import count_not_arrived
        from dcc.tracker.queries.zip_action_lists import waiting_zip_actions

        centres = self.session.centres
        if count_waiting(connection, centres, self.until) > 0:
            return True
        if not archives or self.until < Phase.XSD:
            return False
        waits = waiting_zip_actions(connection, centres=centres, limit=1)
        return bool(waits) or count_not_arrived(connection, centres) > 0

    def ready(self, qc_database: Callable[[], Engine]) -> Engine:
        """The QC database, opened by `qc_database`. Raises what that raises."""
        with self._noting_failure():
            return qc_database()

    def finish(self) -> None:
        """Do the rest of the work, up to `until`; without `keys`, that begins with the crawl.

        Raises as the work, and QcDatabaseOutdatedError and QcDatabaseUnreachableError.
        """
        if self.keys is None and not self.crawled:
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
class _SessionEnd:
    """The work at the end of a session. Each part is imported when it is needed."""

    tracker: Engine
    settings: Settings

    def begin(self, session: Session) -> None:
        if self.settings.openlineage_url is not None:
            from dcc.operations.openlineage.sending import send_begin

            send_begin(self.settings, session)

    def clean(self, session: Session) -> Iterator[str]:
        from dcc.operations.archive_audits import catch_up_after_session

        yield from catch_up_after_session(self.tracker, self.settings, session)
        if self.settings.staging_clean:
            from dcc.operations.retention.cleanup import clean_after_session

            yield from clean_after_session(self.tracker, self.settings, session)

    def notify(self, session: Session, failure: Exception | None, *, completed: bool) -> Iterator[str]:
        # A person who interrupts a session does not want to wait for a mail server.
        ended = failure is not None or (completed and not session.is_handed_over)
        failure = None if isinstance(failure, SessionTimeLimitError) else failure
        # An error that is not the platform's own may repeat a secret.
        broke_off = None if failure is None else redacted(str(failure)) or type(failure).__name__
        if ended and self.settings.asks_for_reports:
            from dcc.notify.session_report import send_session_report

            yield from send_session_report(self.tracker, self.settings, session.id)
        if ended or completed:
            from dcc.notify.channels.base import notifies

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
        path = self.settings.metrics_file
        if path is None:
            return ()
        from dcc.operations.metrics.collector import write_metrics_file

        return write_metrics_file(self.settings, path)
