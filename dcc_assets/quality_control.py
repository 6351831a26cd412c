"""The group `quality_control`: what is built of each centre, and the archives that reached quality control."""

from collections.abc import Iterator
from typing import Final

from dagster import AllPartitionMapping, AssetDep, AssetExecutionContext

from dcc.errors import NotFoundError
from dcc_assets import graph
from dcc_assets.data import load_chosen
from dcc_assets.partitions import chosen_partitions
from dcc_assets.runs import session_work
from dcc_assets.sync.changes import DataReporter
from dcc_assets.sync.overdue import overdue_changes
from dcc_assets.sync.recorder import recorder_of
from dcc_dagster.instance import QC_DATABASE_POOL
from dcc_dagster.partition_events import Result, results
from dcc_resources.databases import QcDatabaseResource
from dcc_resources.session import SessionResource

GROUP: Final = "quality_control"

CONTEXT_SPECS: Final = (
    graph.asset(
        graph.CONTEXTS,
        GROUP,
        "The data contexts of each centre: for each pipeline, genotype, strain, procedure and parameter the number of "
        "valid measurements, and whether quality control is done.\n\nA partition is a centre, by its code. A context "
        "whose data change waits for a wrangler again. Materialise a partition to bring it up to date.",
        {"table"},
        graph.CENTRE_PARTITIONS,
        [AssetDep(graph.DATA_INTEGRITY, partition_mapping=AllPartitionMapping())],
    ),
    graph.asset(
        graph.OVERVIEWS,
        GROUP,
        "What each centre has, in tables for the web site and analysts: genotypes, strains, the procedures of each "
        "animal, the measurements, and their experimental conditions.\n\nA partition is a centre, by its code. "
        "Materialise a partition to bring it up to date.",
        {"table"},
        graph.CENTRE_PARTITIONS,
        [graph.CONTEXTS],
    ),
)
QC_SPEC: Final = graph.asset(
    graph.QC,
    GROUP,
    "The archives that came to quality control, with all their data in contexts.\n\nThe status in the metadata is "
    "*done* when a wrangler is done with every context that holds data of the archive (`dcc qc done`). Until then, and "
    "when data of such a context change, it is *pending*.",
    {"table"},
    graph.ZIP_ACTION_PARTITIONS,
    [AssetDep(graph.OVERVIEWS, partition_mapping=AllPartitionMapping())],
)
CENTRE_CHECKS: Final = (
    graph.check(graph.CENTRE_SILENT, graph.CENTRE_PARTITIONS),
    graph.check(graph.SUBMISSIONS_OVERDUE, graph.CENTRE_PARTITIONS),
)


@graph.chosen_assets(
    name="build_chosen_contexts",
    specs=CONTEXT_SPECS,
    check_specs=CENTRE_CHECKS,
    pool=QC_DATABASE_POOL,
    description="Brings what is built of the centres whose partitions are chosen up to date.",
)
def chosen_contexts(
    context: AssetExecutionContext, session: SessionResource, qc_database: QcDatabaseResource
) -> Iterator[Result]:
    """Build what is due and show the run's centres.

    Raises as SessionResource.work and the work, and NotFoundError for a centre without data.
    """
    run, chosen = context.op_execution_context, frozenset(chosen_partitions(context))
    with session_work(run, session) as work:
        qc = work.ready(qc_database.ready)
        with recorder_of(run, work.tracker, work.settings, qc) as recorder:
            reporter = DataReporter(context.instance, work.tracker, qc, work.settings)
            recorder.record(reporter.reports_of_session(work.process_data(qc, ()), but_centres=chosen))
            reports = list(reporter.reports_of_recorded((), chosen))
            yield from results(context, reports)
            overdue = overdue_changes(recorder, work.tracker, work.settings, reporter.reported_centres)
            yield from results(context, overdue)
    missing = chosen - {report.partition for report in reports}
    if missing:
        raise NotFoundError(
            f"The QC database has no data contexts of the centre {min(missing)}. They are built by the sessions that "
            "upload its data: see `dcc status`."
        )


@graph.chosen_assets(
    name="settle_chosen_zip_actions",
    specs=[QC_SPEC],
    pool=QC_DATABASE_POOL,
    description="Brings the submissions whose partitions are chosen to the state of their data contexts.",
)
def chosen_qc(
    context: AssetExecutionContext, session: SessionResource, qc_database: QcDatabaseResource
) -> Iterator[Result]:
    """Take the run's submissions as far as they may go. Raises as `load_chosen`."""
    yield from load_chosen(context, session, qc_database)
