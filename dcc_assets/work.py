"""What the steps of a run work with: the settings, the tracker, and the crawling session that they are part of.

A step asks its resource `platform` for the session. In Dagster's own processes the step opens a session by itself; in
`dcc crawl` the session spans three runs and is held by the command.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, Engine

from dcc_resources.errors import InternalFaultError, NotFoundError
from dcc_resources.naming import Action
from dcc_resources.outcomes import SourceCrawl, ZipKey, ZipOutcome
from dcc_resources.qc_database.database import open_qc_database
from dcc_resources.qc_database.database import require_current as require_current_qc
from dcc_resources.redaction import clean
from dcc_resources.sessions import Session, open_session
from dcc_resources.settings import Settings, load_settings
from dcc_resources.tracker.database import open_tracker, require_current, run_reading
from dcc_resources.tracker.queries import find_zips
from dcc_resources.tracker.reference import Phase

if TYPE_CHECKING:
    from dcc_resources.data_outcomes import DataOutcome

PLATFORM: Final = "platform"
"""The resource's name."""


@contextmanager
def open_qc(settings: Settings) -> Iterator[Engine]:
    """The QC database that the settings name, of whatever version; its connections are closed afterwards."""
    qc = open_qc_database(settings)
    try:
        yield qc
    finally:
        qc.dispose()


def unheard(_outcome: object) -> None:
    """Where nobody wants to hear of outcomes."""


@dataclass
class Work:
    """A session with what it is asked to do.

    `source_ids`: the file sources to crawl, `keys`: the zip actions to process; None for all that are due.
    `requested_by` is in whose name. `hands_over`: what follows on a run is left to a later run of the same session.
    `until` is the last phase that documents are taken to. `on_crawl`, `on_zip` and `on_data` hear of each outcome, in
    the step's thread. `crawled`, `processed` and `loaded`: that part was done to its end. `failure`: what the work
    itself raised.
    """

    settings: Settings
    tracker: Engine
    session: Session
    source_ids: Sequence[int] | None = None
    keys: Sequence[ZipKey] | None = None
    requested_by: str = "Dagster"
    hands_over: bool = False
    on_crawl: Callable[[SourceCrawl], None] = unheard
    on_zip: Callable[[ZipOutcome], None] = unheard
    until: Phase = Phase.QC
    on_data: Callable[[DataOutcome], None] = unheard
    crawled: bool = field(default=False, init=False)
    processed: bool = field(default=False, init=False)
    loaded: bool = field(default=False, init=False)
    failure: BaseException | None = field(default=None, init=False)

    def crawl(self, source_ids: Sequence[int] | None = None) -> Iterator[SourceCrawl]:
        """Crawl the file sources; yield each outcome when it is in the tracker. `source_ids` narrows the work down."""
        from dcc_resources.crawling import crawl_file_sources

        wanted = self.source_ids if source_ids is None else source_ids
        with self._noting_failure():
            for outcome in crawl_file_sources(self.tracker, self.settings, self.session, wanted):
                self.on_crawl(outcome)
                yield outcome
        self.crawled = True

    def process(self, keys: Sequence[ZipKey] | None = None) -> Iterator[ZipOutcome]:
        """Process zip actions; yield each outcome when it is in the tracker. `keys` narrows the work down."""
        from dcc_resources.zip_processing import process_zip_actions

        wanted = self.keys if keys is None else keys
        with self._noting_failure():
            for outcome in process_zip_actions(
                self.tracker, self.settings, self.session, wanted, requested_by=self.requested_by
            ):
                self.on_zip(outcome)
                yield outcome
        self.processed = True

    def take_up_data(
        self, qc: Engine, keys: Collection[ZipKey] | None = None, *, again: bool = False
    ) -> Iterator[DataOutcome]:
        """Take valid documents on to `until`; yield each outcome when it is in both databases.

        `keys` narrows the work down. `again`: what was judged is judged again, and for that the documents go on to the
        phase data whatever `until` says. Raises as `dcc_resources.data_phases.session_data.take_up_data`.
        """
        from dcc_resources.data_phases.corrections import recheck
        from dcc_resources.data_phases.session_data import take_up_data

        wanted = self.keys if keys is None else keys
        with self._noting_failure():
            if again:
                reason = "Materialised in Dagster."
                recheck(self.tracker, qc, self.settings, keys=wanted, author=self.requested_by, reason=reason)
            until = max(self.until, Phase.DATA) if again else self.until
            for outcome in take_up_data(self.tracker, qc, self.settings, self.session, until=until, keys=wanted):
                self.on_data(outcome)
                yield outcome
        self.loaded = True

    @contextmanager
    def open_qc(self) -> Iterator[Engine]:
        """The QC database. Raises QcDatabaseOutdatedError and QcDatabaseUnreachableError."""
        with open_qc(self.settings) as qc:
            with self._noting_failure():
                require_current_qc(qc, patience_seconds=self.settings.database_retry)
            yield qc

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        # Dagster wraps what a step raises; the command wants it as it was.
        try:
            yield
        except GeneratorExit:
            raise
        except BaseException as failure:
            clean(failure)
            self.failure = failure
            raise


class Platform(ABC):
    """Gives a step its work. The resource of every step."""

    @abstractmethod
    def work(self, resume: int | None) -> AbstractContextManager[Work]:
        """The work, with a session that is open for as long as the block lasts.

        `resume` names a session that an earlier run handed over. Raises SessionActiveError, TrackerOutdatedError and
        TrackerUnreachableError.
        """

    @abstractmethod
    def tracker(self) -> AbstractContextManager[tuple[Settings, Engine]]:
        """The settings and the tracker, to read. Raises TrackerOutdatedError and TrackerUnreachableError."""


class OwnSession(Platform):
    """For Dagster's own processes: each step opens the tracker and a session by itself."""

    @contextmanager
    def work(self, resume: int | None) -> Iterator[Work]:
        """As Platform.work."""
        with self.tracker() as (settings, tracker), open_session(tracker, settings, resume=resume) as session:
            yield Work(settings, tracker, session, hands_over=True, until=settings.last_phase)

    @contextmanager
    def tracker(self) -> Iterator[tuple[Settings, Engine]]:
        """As Platform.tracker."""
        settings = load_settings()
        tracker = open_tracker(settings)
        try:
            require_current(tracker, patience_seconds=settings.database_retry)
            yield settings, tracker
        finally:
            tracker.dispose()


@dataclass(frozen=True)
class HeldSession(Platform):
    """For runs inside a process that holds the session itself."""

    held: Work

    def work(self, resume: int | None) -> AbstractContextManager[Work]:  # noqa: ARG002 - the session is open
        """As Platform.work."""
        return nullcontext(self.held)

    def tracker(self) -> AbstractContextManager[tuple[Settings, Engine]]:
        """As Platform.tracker."""
        return nullcontext((self.held.settings, self.held.tracker))


@dataclass(frozen=True)
class NoSession(Platform):
    """For runs inside a process that only show what is recorded."""

    settings: Settings
    known: Engine

    def work(self, resume: int | None) -> AbstractContextManager[Work]:  # noqa: ARG002 - there is none
        """Raises InternalFaultError: nothing is worked on."""
        raise InternalFaultError("A run that only shows what is recorded has no session. Report this with the log.")

    def tracker(self) -> AbstractContextManager[tuple[Settings, Engine]]:
        """As Platform.tracker."""
        return nullcontext((self.settings, self.known))


def data_is_due(tracker: Engine, settings: Settings) -> bool:
    """Whether documents wait to be taken on, as far as sessions go."""
    from dcc_resources.data_phases.documents import count_waiting, load_due

    until = settings.last_phase
    if until < Phase.UPLOAD:
        return False

    def look(connection: Connection) -> bool:
        if until is Phase.QC:
            return count_waiting(connection) > 0
        due = (phase for phase in Phase if Phase.UPLOAD <= phase <= until)
        return any(load_due(connection, phase, settings.naming) for phase in due)

    return run_reading(tracker, look, patience_seconds=settings.database_retry)


def known_keys(tracker: Engine, settings: Settings, partitions: Sequence[str]) -> list[ZipKey]:
    """The zip actions of partition keys. Raises NotFoundError for one that the tracker does not know."""
    keys = run_reading(
        tracker,
        lambda connection: keys_of_partitions(connection, partitions),
        patience_seconds=settings.database_retry,
    )
    missing = set(partitions) - {key.partition for key in keys}
    if missing:
        raise NotFoundError(
            f"The tracker knows no zip action {min(missing)}. See `dcc zips` for those there are; they are of the form "
            "<action>/<file name>."
        )
    return keys


def keys_of_partitions(connection: Connection, partitions: Sequence[str]) -> list[ZipKey]:
    """The zip actions of partition keys; those that no zip action has are left out.

    A key is the zip action's name itself unless the name is odd or long (ZipKey.partition): then the tracker is
    searched.
    """
    keys = [plain_key(partition) for partition in partitions]
    if None not in keys:
        return [key for key in keys if key is not None]
    known = {key.partition: key for key in (ZipKey(zip_.action, zip_.file_name) for zip_ in find_zips(connection))}
    return [known[partition] for partition in partitions if partition in known]


def plain_key(partition: str) -> ZipKey | None:
    """The zip action whose name is its partition key, to the letter; None where only the tracker can tell."""
    action, _, file_name = partition.partition("/")
    if action not in set(Action):
        return None
    key = ZipKey(Action(action), file_name)
    return key if key.partition == partition and "~" not in partition and "\\" not in partition else None
