"""The step that processes zip actions: downloads, documents, validation; all overlapping, one step for many zips."""

from collections.abc import Iterator

from dagster import AssetExecutionContext, BackfillPolicy, MaterializeResult, multi_asset

from dcc_assets.catalogue import ZIP_CHECK_SPECS, ZIP_SPECS
from dcc_assets.event_recorder import EventRecorder
from dcc_assets.runs import asked_partitions, planned_checks, session_to_resume, step_of, tag_session
from dcc_assets.work import PLATFORM, Platform, Work, keys_of_partitions
from dcc_assets.zip_reports import zip_report
from dcc_resources.errors import NotFoundError
from dcc_resources.outcomes import ZipKey
from dcc_resources.staging import Staging


@multi_asset(
    name="process",
    specs=ZIP_SPECS,
    check_specs=ZIP_CHECK_SPECS,
    can_subset=True,
    required_resource_keys={PLATFORM},
    backfill_policy=BackfillPolicy.single_run(),
    description=(
        "Download, extract and validate the zip actions whose partitions are chosen, again and alone; or, in a run "
        "without partitions, all that wait, with the downloads that failed before."
    ),
)
def process(context: AssetExecutionContext) -> Iterator[MaterializeResult[None]]:
    """Process the zip actions of the run's partitions again, or all waiting work.

    Faulty data fail checks, never the run. Raises NotFoundError for a partition of no zip action, and what
    Platform.work and the processing raise.
    """
    platform: Platform = context.resources.platform
    with platform.work(session_to_resume(context)) as work:
        tag_session(context, work.session)
        keys = _asked_keys(context, work)
        staging = Staging(work.settings.staging_directory)
        with EventRecorder(context.instance, step_of(context), planned_checks(context)) as recorder:
            for outcome in work.process(keys):
                recorder.tell(zip_report(outcome, staging))
    yield from ()


def _asked_keys(context: AssetExecutionContext, work: Work) -> list[ZipKey] | None:
    partitions = asked_partitions(context)
    if partitions is None:
        return None
    with work.tracker.connect() as connection:
        keys = keys_of_partitions(connection, partitions)
    missing = set(partitions) - {key.partition for key in keys}
    if missing:
        raise NotFoundError(
            f"The tracker knows no zip action {min(missing)}. See `dcc zips` for those there are; they are of the form "
            "<action>/<file name>."
        )
    return keys
