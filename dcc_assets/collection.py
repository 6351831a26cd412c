"""The step that crawls: file source listings, and the zip actions that turn up in them."""

from collections.abc import Collection, Iterator, Sequence

from dagster import (
    AssetCheckKey,
    AssetExecutionContext,
    BackfillPolicy,
    MaterializeResult,
    OpExecutionContext,
    multi_asset,
)
from sqlalchemy import Connection

from dcc.errors import NotFoundError
from dcc.phases import Phase
from dcc.tracker.database import run_reading
from dcc.tracker.hostings.download_plan import count_not_arrived
from dcc.tracker.queries.zip_action_lists import waiting_zip_actions
from dcc_assets.keys import FILE_SOURCE_CHECK_SPECS, FILE_SOURCE_SPEC, FILE_SOURCES
from dcc_assets.metadata.causes import zips_explained
from dcc_assets.metadata.file_sources import found_zip_reports, source_report
from dcc_assets.partitions import data_is_due, source_partitions
from dcc_assets.runs import session_to_resume, step_of, tag_session
from dcc_assets.sync.archives import note_shown, show_unshown
from dcc_assets.sync.overdue import tell_overdue
from dcc_assets.sync.recall import zips_recalled
from dcc_dagster.event_recorder import EventRecorder
from dcc_resources.file_source import FileSourceResource
from dcc_resources.folder import FolderResource
from dcc_resources.ftp import FtpResource
from dcc_resources.http import HttpResource
from dcc_resources.session import SessionResource
from dcc_resources.sftp import SftpResource
from dcc_resources.work import Work


@multi_asset(
    name="list_file_sources",
    specs=[FILE_SOURCE_SPEC],
    check_specs=FILE_SOURCE_CHECK_SPECS,
    can_subset=True,
    backfill_policy=BackfillPolicy.single_run(),
    description="List the file sources whose partitions are chosen.",
)
def chosen_file_sources(
    context: AssetExecutionContext,
    session: SessionResource,
    sftp: SftpResource,
    ftp: FtpResource,
    http: HttpResource,
    folder: FolderResource,
) -> Iterator[MaterializeResult[None]]:
    """Crawl the file sources of the run's partitions. Raises as `crawl`, and NotFoundError for an unknown one."""
    sources = (sftp, ftp, http, folder)
    crawl(context.op_execution_context, session, sources, context.partition_keys, context.selected_asset_check_keys)
    yield from ()


def crawl(
    context: OpExecutionContext,
    session: SessionResource,
    kinds: Sequence[FileSourceResource],
    partitions: Sequence[str] | None = None,
    planned: Collection[AssetCheckKey] = (),
) -> None:
    """Crawl the file sources of `partitions`, or all available ones; register what is new as partitions.

    `kinds` say how the sources of each kind are spoken to, `planned` are the checks that the run announced. Raises what
    SessionResource.work and the crawl raise.
    """
    with session.work(session_to_resume(context), *kinds) as work:
        tag_session(context, work.session)
        sources = run_reading(work.tracker, source_partitions, patience_seconds=work.settings.database_retry)
        context.instance.add_dynamic_partitions(str(FILE_SOURCES.name), list(sources))
        wanted = None if partitions is None else _source_ids(sources, partitions)
        recall, explain = zips_recalled(work.tracker, work.settings), zips_explained(work.tracker, work.settings)
        with EventRecorder(context.instance, step_of(context), planned, recall, explain) as recorder:
            show_unshown(context.instance, recorder, work.tracker, work.settings)
            listed = []
            for outcome in work.crawl(wanted):
                listed.append(outcome.partition)
                recorder.tell(source_report(outcome))
                recorder.tell_of_many(found_zip_reports(outcome))
            note_overdue = tell_overdue(context.instance, recorder, work.tracker, work.settings, listed)
        note_overdue()
        note_shown(context.instance, work.tracker, work.settings)
        if work.hands_over:
            _leave_to_others(work)


def _source_ids(sources: dict[str, int], partitions: Sequence[str]) -> list[int]:
    unknown = [partition for partition in partitions if partition not in sources]
    if unknown:
        raise NotFoundError(
            f"The tracker knows no file source {unknown[0]}. See `dcc source list` for those there are; their "
            "partitions are `<centre>-<id>`."
        )
    return [sources[partition] for partition in partitions]


def _leave_to_others(work: Work) -> None:
    """Keep the session open for the run that will process what is to be done, if there is anything."""
    patience = work.settings.database_retry
    due = work.until >= Phase.XSD and run_reading(work.tracker, work_is_due, patience_seconds=patience)
    if due or data_is_due(work.tracker, work.settings):
        work.session.hand_over()


def work_is_due(connection: Connection) -> bool:
    """Whether zip actions wait to be processed, or downloads that failed to be tried again."""
    return bool(waiting_zip_actions(connection, limit=1)) or count_not_arrived(connection) > 0
