"""A complete crawling session in this process, through the same jobs and instance as Dagster's own processes.

The tracker is the truth and Dagster shows it: if Dagster's storage fails, the work is done anyway, and the failure is
raised at the end.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import MappingProxyType

from dagster import DagsterInstance, JobDefinition, ResourceDefinition
from sqlalchemy import Engine

from dcc.cli.shell.dagster_side import LOCATION_NAME
from dcc.errors import DagsterStorageError
from dcc.operations.sessions import open_session
from dcc.outcomes import ZipKey
from dcc.phases import Phase
from dcc.runtime.disk_space import comes_from_full_disk, no_space_left
from dcc.session.listeners import NOBODY, Listeners
from dcc.settings import Settings
from dcc_assets.jobs import crawl_file_sources, load_data, process_zip_actions
from dcc_assets.runs import STARTED_BY_TAG, finish_dead_runs, ready_made, run_here, session_tags
from dcc_dagster.executors import require_executor
from dcc_dagster.instance import storage_place
from dcc_resources.code_location import SOURCES
from dcc_resources.databases import QcDatabaseResource
from dcc_resources.file_sources import FileSourceResource
from dcc_resources.services import StoreResource
from dcc_resources.session import SessionResource, SessionWork

log = logging.getLogger(__name__)

_REPOSITORY_TAG = {".dagster/repository": f"__repository__@{LOCATION_NAME}"}


@dataclass(frozen=True, slots=True)
class FinishedSession:
    """A finished session: its id, its notices (`Session.notices`), and its runs in Dagster."""

    session_id: int
    notices: tuple[str, ...]
    run_ids: tuple[str, ...]


def run_session(
    settings: Settings,
    tracker: Engine,
    instance: DagsterInstance,
    *,
    source_ids: Sequence[int] | None = None,
    group: str | None = None,
    urgent: Collection[ZipKey] = (),
    keys: Sequence[ZipKey] | None = None,
    requested_by: str = "dcc",
    until: Phase = Phase.QC,
    listeners: Listeners = NOBODY,
) -> FinishedSession:
    """Crawl all available sources, or those of `source_ids`, then process waiting submissions up to the phase `until`.

    With `group`, the session crawls the sources of these centres and processes their archives; with `urgent` ones, it
    processes only these submissions. With `keys`, it crawls nothing, and opens these submissions again in the name of
    `requested_by` and processes them. Before `xsd` there is only the crawl; up to `xsd` submissions are processed,
    after it documents.

    Raises SessionActiveError, SessionLostError, DatabaseUnreachableError, QcDatabaseOutdatedError and
    InternalFaultError, ConfigurationError if the workers of the settings lack something, and, after all work,
    DagsterStorageError. Of `keys`, raises NotFoundError for one that is unknown or not hosted, and ConfigurationError
    for one with a bad name.
    """
    require_executor(settings)
    with open_session(tracker, settings, group=group) as session:
        session.urgent = frozenset(urgent)
        listeners.on_begin(session)
        work = SessionWork(
            settings,
            tracker,
            session,
            source_ids,
            keys=keys,
            requested_by=requested_by,
            until=until,
            listeners=listeners,
        )
        runs = _Runs(instance, work, "dcc crawl" if keys is None else f"dcc retry, for {requested_by}")
        if keys is None:
            runs.crawl()
        runs.process()
        runs.load()
    return runs.report()


@dataclass(frozen=True, slots=True)
class HeldSession:
    """Replaces SessionResource in runs inside a process that has the session itself."""

    held: SessionWork

    def work(
        self,
        resume: int | None,  # noqa: ARG002
        *sources: FileSourceResource,  # noqa: ARG002
        group: str | None = None,  # noqa: ARG002
    ) -> AbstractContextManager[SessionWork]:
        """The session's work, with the settings of the process."""
        return nullcontext(self.held)


def held_resources(work: SessionWork) -> Mapping[str, ResourceDefinition]:
    """The resources of the jobs in a session of this process."""
    of_settings = {kind.key: ready_made(kind.of(work.settings)) for kind in (*SOURCES, StoreResource)}
    return of_settings | {SessionResource.key: ready_made(HeldSession(work))}


class _Runs:
    """The runs of one session."""

    def __init__(self, instance: DagsterInstance, work: SessionWork, started_by: str) -> None:
        self._instance = instance
        self._work = work
        self._tags = {**_REPOSITORY_TAG, **session_tags(work.session), STARTED_BY_TAG: started_by}
        self._run_ids: list[str] = []
        self._storage_failure: Exception | None = None

    def crawl(self) -> None:
        self._execute(crawl_file_sources)
        if not self._work.crawled:
            deque(self._work.crawl(), maxlen=0)

    def process(self) -> None:
        if self._work.until < Phase.XSD:
            return
        self._execute(process_zip_actions)
        if not self._work.processed:
            deque(self._work.process(), maxlen=0)

    def load(self) -> None:
        if self._work.until < Phase.UPLOAD:
            return
        with QcDatabaseResource.of(self._work.settings).opened() as qc_database:
            self._execute(load_data, {QcDatabaseResource.key: ready_made(qc_database)})
            if not self._work.loaded:
                deque(self._work.process_data(self._work.ready(qc_database)), maxlen=0)

    def report(self) -> FinishedSession:
        if self._storage_failure is not None:
            raise DagsterStorageError(
                f"Session {self._work.session.id} is done and in the tracker, but Dagster could not store all of it "
                f"({self._reason(self._storage_failure)}). See to {storage_place(self._work.settings)}; the next "
                "session shows it, or all at once: dcc instance rebuild."
            ) from self._storage_failure
        session = self._work.session
        return FinishedSession(session.id, session.notices, tuple(self._run_ids))

    def _reason(self, failure: Exception) -> str:
        settings = self._work.settings
        if settings.dagster_url is None and comes_from_full_disk(failure, settings.dagster_home):
            return no_space_left(settings.dagster_home)
        return str(failure)

    def _execute(self, job: JobDefinition, more: Mapping[str, ResourceDefinition] = MappingProxyType({})) -> None:
        """Execute a job; errors of the work pass, errors of Dagster are kept for the report."""
        if self._storage_failure is not None:
            return
        try:
            finish_dead_runs(self._instance)
            result = run_here(job, self._instance, self._tags, {**held_resources(self._work), **more})
        except Exception as error:
            failure = self._work.failure
            if failure is not None:
                raise failure from None
            self._storage_failure = error
        else:
            self._run_ids.append(result.run_id)
