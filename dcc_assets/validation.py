"""The group `validation`: the documents of archives, extracted and validated.

One step takes many archives at once from their download to their validation.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from dagster import AssetExecutionContext

from dcc.databases.transactions import run_reading
from dcc.operations.session_work import SessionWork
from dcc.outcomes import SubmissionKey, SubmissionOutcome
from dcc.phases import Phase
from dcc.store.staging import Staging
from dcc.tracker.hostings.retries import require_retriable
from dcc_assets import graph
from dcc_assets.batches import workers_of
from dcc_assets.collection import ARCHIVE_CHECKS, ARCHIVE_SPECS
from dcc_assets.metadata.archives import archive_report, complete_archive_report
from dcc_assets.metadata.causes import causes_explained
from dcc_assets.partitions import chosen_partitions, known_keys
from dcc_assets.sync.archives import note_shown, recorded_reports, show_missing
from dcc_assets.sync.recorder import recorded_work
from dcc_dagster.event_recorder import EventRecorder
from dcc_dagster.partition_events import PartitionReport, Result, results
from dcc_resources.databases import TrackerResource
from dcc_resources.file_sources import FolderResource, FtpResource, HttpResource, SftpResource
from dcc_resources.services import StoreResource
from dcc_resources.session import SessionResource

GROUP: Final = "validation"

DOCUMENT_SPECS: Final = (
    graph.asset(
        graph.XML_DOCUMENTS,
        GROUP,
        "The XML documents of an archive, extracted to a folder of its own.\n\nThe session extracts the documents "
        "whose names follow the convention, also from sub-folders and inner archives, and lists all other entries. A "
        "damaged, encrypted or unsafe archive fails the check *unzip*: the centre must upload it again.",
        {"xml"},
        graph.ZIP_ACTION_PARTITIONS,
        [graph.ZIP_DOWNLOADS],
    ),
    graph.asset(
        graph.VALIDATED_DOCUMENTS,
        GROUP,
        "The archives whose documents are all valid against the XML schemas. An archive that fails is "
        "shown here with the reason and a failed check.\n\nIf a document is not valid, the check "
        "*xsd* fails. It lists the documents, with the line, the column and the reason of each error. A centre can run "
        "the same check before it uploads: `dcc validate`.",
        {"xml", "xsd"},
        graph.ZIP_ACTION_PARTITIONS,
        [graph.XML_DOCUMENTS],
    ),
)
DOCUMENT_CHECKS: Final = tuple(
    graph.check(graph.CHECK_OF_PHASE[phase], graph.ZIP_ACTION_PARTITIONS)
    for phase in (Phase.UNZIP, Phase.XML_NAME, Phase.XSD)
)


@graph.chosen_assets(
    name="process_chosen_zip_actions",
    specs=[*ARCHIVE_SPECS, *DOCUMENT_SPECS],
    check_specs=[*ARCHIVE_CHECKS, *DOCUMENT_CHECKS],
    description="Downloads, extracts and validates the submissions whose partitions are chosen, again and alone.",
)
def chosen_submissions(
    context: AssetExecutionContext,
    tracker: TrackerResource,
    store: StoreResource,
    session: SessionResource,
    sftp: SftpResource,
    ftp: FtpResource,
    http: HttpResource,
    folder: FolderResource,
) -> Iterator[Result]:
    """Process the submissions of the run's partitions again. Raises as `process`, `known_keys` and `require_retriable`.

    If the run chose only the asset of submissions, it shows the tracker's state and processes nothing.
    """
    run, chosen, engine = context.op_execution_context, context.selected_asset_keys, tracker.ready()
    keys = known_keys(engine, chosen_partitions(context))
    if chosen == {graph.ZIP_ACTIONS}:
        settings = tracker.settings_with()
        yield from results(context, recorded_reports(engine, settings, keys), causes_explained(engine, settings))
        return
    # Before the session: people are notified of one that broke off.
    run_reading(engine, lambda connection: require_retriable(connection, keys))
    with recorded_work(run, session, sftp, ftp, http, folder) as (work, recorder):
        report = complete_archive_report if graph.ZIP_ACTIONS in chosen else archive_report
        reports = process(work, recorder, store.staging(), keys, report)
        yield from results(context, reports, causes_explained(work.tracker, work.settings))


def process(
    work: SessionWork,
    recorder: EventRecorder,
    staging: Staging,
    keys: Sequence[SubmissionKey] | None = None,
    report: Callable[[SubmissionOutcome, Staging], PartitionReport] = archive_report,
) -> Iterator[PartitionReport]:
    """Process the submissions of `keys` again, or all that wait and all failed downloads; report on each.

    `report` makes a report of an outcome. Faulty data fail checks, never the run. Raises as the processing.
    """
    show_missing(recorder, work)
    for outcome in work.process(keys, workers_of(work.settings)):
        # If nothing could be fetched, the last attempt's events stay right.
        if not outcome.kept:
            yield report(outcome, staging)
    recorder.when_stored(lambda: note_shown(recorder.instance, work))
    work.hand_over_if_due()
