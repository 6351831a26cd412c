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

from dcc_assets.catalogue import ZIP_ACTIONS_ASSET, ZIP_CHECK_SPECS, ZIP_SPECS
from dcc_assets.event_recorder import EventRecorder, Report
from dcc_assets.recalled_zips import zips_recalled
from dcc_assets.runs import session_to_resume, step_of, tag_session
from dcc_assets.told_causes import zips_explained
from dcc_assets.work import PLATFORM, Platform, data_is_due, known_keys
from dcc_assets.zip_mirroring import note_shown, show_recorded, show_unshown
from dcc_assets.zip_reports import whole_zip_report, zip_report
from dcc_resources.outcomes import ZipOutcome
from dcc_resources.staging import Staging


@multi_asset(
    name="process_chosen_zip_actions",
    specs=ZIP_SPECS,
    check_specs=ZIP_CHECK_SPECS,
    can_subset=True,
    required_resource_keys={PLATFORM},
    backfill_policy=BackfillPolicy.single_run(),
    description="Download, extract and validate the zip actions whose partitions are chosen, again and alone.",
)
def chosen_zip_actions(context: AssetExecutionContext) -> Iterator[MaterializeResult[None]]:
    """Process the zip actions of the run's partitions again. Raises as `process`, and NotFoundError for others.

    If the zip actions themselves are all that is chosen, Dagster is only shown what the tracker has of them.
    """
    chosen, planned = context.selected_asset_keys, context.selected_asset_check_keys
    if chosen == {ZIP_ACTIONS_ASSET}:
        _show_recorded(context.op_execution_context, context.partition_keys, planned)
    else:
        report = whole_zip_report if ZIP_ACTIONS_ASSET in chosen else zip_report
        process(context.op_execution_context, context.partition_keys, planned, report)
    yield from ()


def process(
    context: OpExecutionContext,
    partitions: Sequence[str] | None = None,
    planned: Collection[AssetCheckKey] = (),
    report: Callable[[ZipOutcome, Staging], Report] = zip_report,
) -> None:
    """Process the zip actions of `partitions` again, or all that wait with the downloads that failed before.

    `planned` are the checks that the run announced, `report` tells what Dagster is shown of an outcome. Faulty data
    fail checks, never the run. Raises what Platform.work and the processing raise.
    """
    platform: Platform = context.resources.platform
    with platform.work(session_to_resume(context)) as work:
        tag_session(context, work.session)
        keys = None if partitions is None else known_keys(work.tracker, work.settings, partitions)
        staging = Staging(work.settings.staging_directory)
        with EventRecorder(
            context.instance,
            step_of(context),
            planned,
            zips_recalled(work.tracker, work.settings),
            zips_explained(work.tracker, work.settings),
        ) as recorder:
            show_unshown(context.instance, recorder, work.tracker, work.settings)
            for outcome in work.process(keys):
                # Of one that could not be fetched what is shown of its last attempt stays right.
                if not outcome.kept:
                    recorder.tell(report(outcome, staging))
        note_shown(context.instance, work.tracker, work.settings)
        if work.hands_over and data_is_due(work.tracker, work.settings):
            work.session.hand_over()


def _show_recorded(context: OpExecutionContext, partitions: Sequence[str], planned: Collection[AssetCheckKey]) -> None:
    platform: Platform = context.resources.platform
    with platform.tracker() as (settings, tracker):
        keys = known_keys(tracker, settings, partitions)
        with EventRecorder(context.instance, step_of(context), planned) as recorder:
            show_recorded(recorder, tracker, settings, keys)
