"""A complete crawling session in this process, through the same jobs and instance as Dagster's own processes.

The tracker is the truth and Dagster shows it: if Dagster's storage fails, the work is done anyway, and the failure is
raised at the end.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from dagster import DagsterInstance
from sqlalchemy import Engine

from dcc.cli.shell.dagster_side import LOCATION_NAME
from dcc.errors import DagsterStorageError
from dcc.operations.session_work import SessionWork, open_work
from dcc.phases import Phase
from dcc.runtime.disk_space import comes_from_full_disk, no_space_left
from dcc.session.session_request import SessionRequest
from dcc.settings import Settings
from dcc_assets.jobs import crawl_file_sources, load_data, process_zip_actions
from dcc_assets.runs import STARTED_BY_TAG, await_pool, ready_made, run_here, session_tags
from dcc_dagster.executors import require_executor
from dcc_dagster.instance import storage_place
from dcc_resources.code_location import SOURCES
from dcc_resources.databases import QcDatabaseResource
from dcc_resources.services import StoreResource
from dcc_resources.session import SessionResource

_REPOSITORY_TAG = {".dagster/repository": f"__repository__@{LOCATION_NAME}"}


def run_session(settings: Settings, tracker: Engine, instance: DagsterInstance, request: SessionRequest) -> None:
    """Run a complete session, as the `request` says.

    Raises SessionActiveError, SessionLostError, DatabaseUnreachableError, QcDatabaseOutdatedError and
    InternalFaultError, ConfigurationError if the workers of the settings lack something, and, after all work,
    DagsterStorageError. Of its `keys`, raises NotFoundError for one that is unknown or not hosted, and
    ConfigurationError for one with a bad name.
    """
    require_executor(settings)
    storage_failure: Exception | None = None
    with open_work(tracker, settings, request) as work:
        try:
            _run_jobs(instance, work)
        except Exception as error:
            if work.failure is not None:
                raise work.failure from None
            storage_failure = error
        work.finish()
    if storage_failure is not None:
        reason = str(storage_failure)
        if settings.dagster_url is None and comes_from_full_disk(storage_failure, settings.dagster_home):
            reason = no_space_left(settings.dagster_home)
        raise DagsterStorageError(
            f"Session {work.session.id} is done and in the tracker, but Dagster could not store all of it ({reason}). "
            f"See to {storage_place(settings)}; the next session shows it, or all at once: dcc instance rebuild."
        ) from storage_failure


def _run_jobs(instance: DagsterInstance, work: SessionWork) -> None:
    """Execute the jobs of the session, with its resources."""
    started_by = "dcc crawl" if work.request.keys is None else f"dcc retry, for {work.request.requested_by}"
    tags = {**_REPOSITORY_TAG, **session_tags(work.session), STARTED_BY_TAG: started_by}
    resources = {kind.key: ready_made(kind.of(work.settings)) for kind in (*SOURCES, StoreResource)}
    resources[SessionResource.key] = ready_made(_OpenSession(work))
    with QcDatabaseResource.of(work.settings).opened() as qc_database:
        resources[QcDatabaseResource.key] = ready_made(qc_database)
        for job, is_due in (
            (crawl_file_sources, work.request.keys is None),
            (process_zip_actions, work.until >= Phase.XSD),
            (load_data, work.until >= Phase.UPLOAD),
        ):
            if is_due:
                if job is load_data:
                    await_pool(instance, work.tracker, work.settings)
                run_here(job, instance, tags, resources)


@dataclass(frozen=True, slots=True)
class _OpenSession:
    """Replaces SessionResource in runs inside a process that has the session itself, and its settings."""

    opened: SessionWork

    def work(self, *_: object, **__: object) -> AbstractContextManager[SessionWork]:
        return nullcontext(self.opened)
