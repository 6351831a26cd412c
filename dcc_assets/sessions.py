"""A complete crawling session in this process, through the same jobs and instance as Dagster's own processes.

The tracker is the truth and Dagster shows it: if Dagster's storage fails, the work is done anyway, and the failure is
raised at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import Unpack

from dagster import DagsterInstance, JobDefinition, ResourceDefinition
from sqlalchemy import Engine

from dcc.cli.shell.dagster_side import LOCATION_NAME
from dcc.errors import DagsterStorageError
from dcc.operations.sessions import SessionRequest, SessionWork, open_work
from dcc.phases import Phase
from dcc.runtime.disk_space import comes_from_full_disk, no_space_left
from dcc.settings import Settings
from dcc_assets.jobs import crawl_file_sources, load_data, process_zip_actions
from dcc_assets.runs import STARTED_BY_TAG, finish_dead_runs, ready_made, run_here, session_tags
from dcc_dagster.executors import require_executor
from dcc_dagster.instance import storage_place
from dcc_resources.code_location import SOURCES
from dcc_resources.databases import QcDatabaseResource
from dcc_resources.file_sources import FileSourceResource
from dcc_resources.services import StoreResource
from dcc_resources.session import SessionResource

log = logging.getLogger(__name__)

_REPOSITORY_TAG = {".dagster/repository": f"__repository__@{LOCATION_NAME}"}


@dataclass(frozen=True, slots=True)
class FinishedSession:
    """A finished session: its id, its notices (`Session.notices`), and its runs in Dagster."""

    session_id: int
    notices: tuple[str, ...]
    run_ids: tuple[str, ...]


def run_session(
    settings: Settings, tracker: Engine, instance: DagsterInstance, **request: Unpack[SessionRequest]
) -> FinishedSession:
    """Run a complete session, as the `request` says (see `open_work`).

    Raises SessionActiveError, SessionLostError, DatabaseUnreachableError, QcDatabaseOutdatedError and
    InternalFaultError, ConfigurationError if the workers of the settings lack something, and, after all work,
    DagsterStorageError. Of `keys`, raises NotFoundError for one that is unknown or not hosted, and ConfigurationError
    for one with a bad name.
    """
    require_executor(settings)
    with open_work(tracker, settings, **request) as work:
        runs = _Runs(instance, work)
        runs.execute_all()
        work.finish()
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

    def __init__(self, instance: DagsterInstance, work: SessionWork) -> None:
        started_by = "dcc crawl" if work.keys is None else f"dcc retry, for {work.requested_by}"
        self._instance = instance
        self._work = work
        self._tags = {**_REPOSITORY_TAG, **session_tags(work.session), STARTED_BY_TAG: started_by}
        self._run_ids: list[str] = []
        self._storage_failure: Exception | None = None

    def execute_all(self) -> None:
        """Execute the jobs of the session, until Dagster fails; what the work raises passes."""
        if self._work.keys is None:
            self._execute(crawl_file_sources)
        if self._work.until >= Phase.XSD:
            self._execute(process_zip_actions)
        if self._work.until >= Phase.UPLOAD:
            with QcDatabaseResource.of(self._work.settings).opened() as qc_database:
                self._execute(load_data, {QcDatabaseResource.key: ready_made(qc_database)})

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
