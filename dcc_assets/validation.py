"""The step that processes zip actions: downloads, documents, validation; all overlapping, one step for many zips."""

from collections.abc import Callable, Collection, Iterator, Sequence

from dagster import (
    AssetCheckKey,
    AssetExecutionContext,
    BackfillPolicy,
    MaterializeResult,
    OpExecutionContext,
    multi_asset,
)

from dcc.outcomes import ZipOutcome
from dcc.store.staging import Staging
from dcc_assets.keys import ZIP_ACTIONS_ASSET, ZIP_CHECK_SPECS, ZIP_SPECS
from dcc_assets.metadata.archives import whole_zip_report, zip_report
from dcc_assets.metadata.causes import zips_explained
from dcc_assets.partitions import data_is_due, known_keys
from dcc_assets.runs import session_to_resume, step_of, tag_session
from dcc_assets.sync.archives import note_shown, show_recorded, show_unshown
from dcc_assets.sync.recall import zips_recalled
from dcc_dagster.event_recorder import EventRecorder, Report
from dcc_resources.file_source import FileSourceResource
from dcc_resources.folder import FolderResource
from dcc_resources.ftp import FtpResource
from dcc_resources.http import HttpResource
from dcc_resources.session import SessionResource
from dcc_resources.sftp import SftpResource
from dcc_resources.store import StoreResource
from dcc_resources.tracker import TrackerResource


@multi_asset(
    name="process_chosen_zip_actions",
    specs=ZIP_SPECS,
    check_specs=ZIP_CHECK_SPECS,
    can_subset=True,
    backfill_policy=BackfillPolicy.single_run(),
    description="Download, extract and validate the zip actions whose partitions are chosen, again and alone.",
)
def chosen_zip_actions(
    context: AssetExecutionContext,
    tracker: TrackerResource,
    store: StoreResource,
    session: SessionResource,
    sftp: SftpResource,
    ftp: FtpResource,
    http: HttpResource,
    folder: FolderResource,
) -> Iterator[MaterializeResult[None]]:
    """Process the zip actions of the run's partitions again. Raises as `process`, and NotFoundError for others.

    If the zip actions themselves are all that is chosen, Dagster is only shown what the tracker has of them.
    """
    chosen, planned = context.selected_asset_keys, context.selected_asset_check_keys
    if chosen == {ZIP_ACTIONS_ASSET}:
        _show_recorded(context.op_execution_context, tracker, context.partition_keys, planned)
    else:
        report = whole_zip_report if ZIP_ACTIONS_ASSET in chosen else zip_report
        kinds = (sftp, ftp, http, folder)
        process(context.op_execution_context, session, store, kinds, context.partition_keys, planned, report)
    yield from ()


def process(
    context: OpExecutionContext,
    session: SessionResource,
    store: StoreResource,
    kinds: Sequence[FileSourceResource],
    partitions: Sequence[str] | None = None,
    planned: Collection[AssetCheckKey] = (),
    report: Callable[[ZipOutcome, Staging], Report] = zip_report,
) -> None:
    """Process the zip actions of `partitions` again, or all that wait with the downloads that failed before.

    `kinds` say how the sources of each kind are spoken to, `planned` are the checks that the run announced, `report`
    tells what Dagster is shown of an outcome. Faulty data fail checks, never the run. Raises what SessionResource.work
    and the processing raise.
    """
    with session.work(session_to_resume(context), *kinds) as work:
        tag_session(context, work.session)
        keys = None if partitions is None else known_keys(work.tracker, work.settings, partitions)
        staging = store.staging()
        recall, explain = zips_recalled(work.tracker, work.settings), zips_explained(work.tracker, work.settings)
        with EventRecorder(context.instance, step_of(context), planned, recall, explain) as recorder:
            show_unshown(context.instance, recorder, work.tracker, work.settings)
            for outcome in work.process(keys):
                # Of one that could not be fetched what is shown of its last attempt stays right.
                if not outcome.kept:
                    recorder.tell(report(outcome, staging))
        note_shown(context.instance, work.tracker, work.settings)
        if work.hands_over and data_is_due(work.tracker, work.settings):
            work.session.hand_over()


def _show_recorded(
    context: OpExecutionContext,
    tracker: TrackerResource,
    partitions: Sequence[str],
    planned: Collection[AssetCheckKey],
) -> None:
    settings, engine = tracker.settings_with(), tracker.ready()
    keys = known_keys(engine, settings, partitions)
    with EventRecorder(context.instance, step_of(context), planned) as recorder:
        show_recorded(recorder, engine, settings, keys)
