"""The group `reports`: submission reports that are kept as files, with a summary beside each.

`dcc ui` makes the report of any submission on request, and sessions keep those that DCC_SUBMISSION_REPORTS names. With
this asset a person keeps one.
"""

from collections.abc import Iterator
from typing import Final

import dagster as dg
from sqlalchemy import Connection

from dcc.outcomes import SubmissionKey
from dcc.settings import Settings
from dcc_assets.graph import QC, SUBMISSION_REPORTS, ZIP_ACTION_PARTITIONS, asset, chosen_assets
from dcc_assets.metadata.archives import links_to_steps
from dcc_assets.metadata.causes import causes_table, wranglers_catalogue
from dcc_assets.metadata.links import links, report_of_centre, report_of_submission
from dcc_assets.partitions import chosen_partitions, known_keys
from dcc_dagster.metadata import Metadata, table
from dcc_dagster.partition_events import MaterialisedPartition, PartitionReport, Result, results
from dcc_resources.databases import QcDatabaseResource, TrackerResource

GROUP: Final = "reports"

REPORT_SPEC: Final = asset(
    SUBMISSION_REPORTS,
    GROUP,
    "The report that a centre's data manager gets on a submission. It has the archive, the outcome of each document, "
    "every error by its cause with what to do, the accepted data, and plots of them.\n\nEvery check and every step of "
    "a submission links its report, which `dcc ui` makes when somebody opens it. Materialise a partition to keep the "
    "report of now as a page in `reports` of DCC_HOME; `dcc report` writes it anywhere.",
    {"html"},
    ZIP_ACTION_PARTITIONS,
    [QC],
)


@chosen_assets(
    name="keep_chosen_reports",
    specs=[REPORT_SPEC],
    description="Keeps the reports of the submissions whose partitions are chosen.",
)
def chosen_reports(
    context: dg.AssetExecutionContext, tracker: TrackerResource, qc_database: QcDatabaseResource
) -> Iterator[Result]:
    """Write the reports of the run's submissions to DCC_HOME/reports; no session is needed.

    Raises NotFoundError for an unknown submission, ExportError if a page cannot be written, and
    DatabaseUnreachableError.
    """
    from dcc.reports.submissions.stored_reports import qc_at_hand

    settings, engine = tracker.settings_with(qc_database), tracker.ready()
    keys = known_keys(engine, chosen_partitions(context))
    with qc_at_hand(settings) as (qc, missing), engine.connect() as connection:
        yield from results(context, (_keep_report(connection, qc, missing, key, settings) for key in keys))


def _keep_report(
    tracker: Connection, qc: Connection | None, missing: str | None, key: SubmissionKey, settings: Settings
) -> PartitionReport:
    # Imported here, because plots and pages load large libraries.
    from dcc.reports.submissions.collecting import MAX_PICTURES
    from dcc.reports.submissions.stored_reports import store_report

    report, page, language = store_report(tracker, qc, missing, key, settings, max_pictures=MAX_PICTURES)
    wanted = [("The report as it is now", report_of_submission(key))]
    if report.centre:
        wanted.append(("Report on the centre", report_of_centre(report.centre)))
    states = [(state.phase.short_name, state.status.short_name, state.count) for state in report.states]
    metadata: Metadata = {
        "zip": str(key),
        "centre": report.centre or "unknown",
        "outcome": report.outcome.value,
        "documents": report.documents_total,
        "documents failed": report.documents_failed,
        "errors and findings": report.found,
        "causes": report.causes_total,
        "pictures": len(report.pictures),
        "bytes": page.stat().st_size,
        "language": language,
        "page": dg.MetadataValue.path(str(page)),
        "Links": links([*wanted, *links_to_steps(key.partition, SUBMISSION_REPORTS)]),
        **causes_table(report.causes, wranglers_catalogue(settings)),
    }
    if states:
        metadata["documents by state"] = table(("phase", "status", "documents"), states)
    return PartitionReport(
        key.partition,
        (MaterialisedPartition(SUBMISSION_REPORTS, metadata),),
        partition_set=str(ZIP_ACTION_PARTITIONS.name),
    )
