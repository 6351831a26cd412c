"""The crawling session that a step belongs to: what it has to do, and the resource that opens it."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from dagster import ResourceDependency
from sqlalchemy import Connection, Engine

from dcc.databases.transactions import run_reading
from dcc.operations.sessions import open_session
from dcc.outcomes import SourceCrawl, ZipKey, ZipOutcome
from dcc.phases import Phase
from dcc.redaction import clean
from dcc.session.listeners import NOBODY, Listeners
from dcc.session.sessions import Session
from dcc.settings import Settings
from dcc_resources.databases import QcDatabaseResource, TrackerResource
from dcc_resources.file_sources import FileSourceResource
from dcc_resources.platform_resource import PlatformResource, setting
from dcc_resources.services import MailResource, StoreResource, WebhookResource

if TYPE_CHECKING:
    from dcc.data_outcomes import DataOutcome
    from dcc.session.batches.exchange import Workers


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
        with self._noting_failure():
            for outcome in crawl_file_sources(self.session, wanted, only_scheduled=self.only_scheduled):
                self.listeners.on_crawl(outcome)
                yield outcome
        self.crawled = True

    def process(self, keys: Sequence[ZipKey] | None = None, workers: "Workers | None" = None) -> Iterator[ZipOutcome]:
        """Process submissions; yields each outcome once it is in the tracker.

        `keys` restricts the work; `workers` fetch and prepare archives if there are no keys.
        """
        from dcc.session.archives.processing import process_zip_actions

        wanted = self.keys if keys is None else keys
        with self._noting_failure():
            for outcome in process_zip_actions(
                self.session,
                wanted,
                requested_by=self.requested_by,
                workers=workers,
            ):
                self.listeners.on_zip(outcome)
                yield outcome
        self.processed = True

    def process_data(
        self, qc: Engine, keys: Collection[ZipKey] | None = None, *, rejudge: bool = False
    ) -> "Iterator[DataOutcome]":
        """Process valid documents up to `until`; yields each outcome once it is in both databases.

        `keys` restricts the work. `rejudge`: documents that were judged are judged again; they reach the phase data
        whatever `until` is. Raises as `dcc.session.data.session_data.process_data`.
        """
        from dcc.session.data.corrections import recheck
        from dcc.session.data.session_data import process_data

        wanted = self.keys if keys is None else keys
        with self._noting_failure():
            if rejudge:
                reason = "Materialised in Dagster."
                recheck(self.tracker, qc, self.settings, keys=wanted, author=self.requested_by, reason=reason)
            until = max(self.until, Phase.DATA) if rejudge else self.until
            for outcome in process_data(qc, self.session, until=until, keys=wanted):
                self.listeners.on_data(outcome)
                yield outcome
        self.loaded = True

    def hand_over_if_due(self, *, archives: bool = False) -> None:
        """Keep the session open for a later run, if that has documents of its centres to process, or `archives`."""
        if self.hands_over and ((archives and self._archives_are_due()) or self._documents_are_due()):
            self.session.hand_over()

    def _archives_are_due(self) -> bool:
        """Whether submissions wait to be processed, or failed downloads to be repeated."""
        from dcc.tracker.hostings.download_plan import count_not_arrived
        from dcc.tracker.queries.zip_action_lists import waiting_zip_actions

        def look(connection: Connection) -> bool:
            waits = waiting_zip_actions(connection, centres=self.session.centres, limit=1)
            return bool(waits) or count_not_arrived(connection, self.session.centres) > 0

        return self.until >= Phase.XSD and run_reading(self.tracker, look)

    def _documents_are_due(self) -> bool:
        """Whether documents wait for steps that sessions do."""
        from dcc.session.data.documents import count_waiting, load_due

        until = self.settings.last_phase

        def look(connection: Connection) -> bool:
            if until is Phase.QC:
                return count_waiting(connection, self.session.centres) > 0
            phases = (phase for phase in Phase if Phase.UPLOAD <= phase <= until)
            due = (one for phase in phases for one in load_due(connection, phase, self.settings.naming))
            return any(self.session.covers(one.centre) for one in due)

        return until >= Phase.UPLOAD and run_reading(self.tracker, look)

    def ready(self, qc_database: QcDatabaseResource) -> Engine:
        """The QC database. Raises QcDatabaseOutdatedError and QcDatabaseUnreachableError."""
        with self._noting_failure():
            return qc_database.ready()

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


class SessionResource(PlatformResource):
    """The crawling session of a run: its last phase, how much it does at once, and its limits.

    Only one session of a centre works at a time. It is registered in the tracker, uses the store and the QC database,
    and notifies people by e-mail and webhook when it ends.
    """

    key: ClassVar[str] = "session"

    tracker: ResourceDependency[TrackerResource]
    qc_database: ResourceDependency[QcDatabaseResource]
    store: ResourceDependency[StoreResource]
    mail: ResourceDependency[MailResource]
    webhook: ResourceDependency[WebhookResource]

    until: str | None = setting("until")
    downloaders: int | None = setting("downloaders")
    workers: int | None = setting("workers")
    max_retries: int | None = setting("max_retries")
    retry_delay: float | None = setting("retry_delay")
    quiet_seconds: float | None = setting("quiet_seconds")
    listing_shrink_limit: float | None = setting("listing_shrink_limit")
    hold_threshold: int | None = setting("hold_threshold")
    xsd_dir: str | None = setting("xsd_dir")
    max_archive_bytes: int | None = setting("max_archive_bytes")
    max_archive_ratio: int | None = setting("max_archive_ratio")
    max_archive_entries: int | None = setting("max_archive_entries")
    max_document_errors: int | None = setting("max_document_errors")

    @contextmanager
    def work(self, resume: int | None, *sources: FileSourceResource, group: str | None = None) -> Iterator[SessionWork]:
        """The work, with a session that is open during the block; `sources` configure the connections.

        `resume` names a session that an earlier run handed over; a new one is for a `group` of centres, or for all.
        Raises NotFoundError for a group that DCC_GROUPS does not name, SessionActiveError, TrackerOutdatedError,
        TrackerUnreachableError and ConfigurationError.
        """
        settings, tracker = self.session_settings(*sources), self.tracker.ready()
        with open_session(tracker, settings, group=group, resume=resume) as session:
            yield SessionWork(settings, tracker, session, hands_over=True, until=settings.last_phase)

    def session_settings(self, *sources: FileSourceResource) -> Settings:
        """The settings of sessions. Raises ConfigurationError."""
        return self.tracker.settings_with(self.qc_database, self.store, self.mail, self.webhook, self, *sources)
