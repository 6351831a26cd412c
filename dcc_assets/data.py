"""The group `data`: documents in the QC database, and whether they satisfy the integrity rules.

One step takes valid documents to quality control, because every phase processes all documents before the next begins.
It has the concurrency pool of the QC database to itself.
"""

from collections.abc import Iterator
from typing import Final

from dagster import AssetExecutionContext
from sqlalchemy import Engine

from dcc.errors import NotFoundError
from dcc.operations.session_work import SessionWork
from dcc_assets import graph
from dcc_assets.metadata.causes import causes_explained
from dcc_assets.partitions import chosen_partitions, known_keys
from dcc_assets.runs import session_work
from dcc_assets.sync.changes import DataReporter
from dcc_assets.sync.horizon import archive_older
from dcc_assets.sync.overdue import overdue_changes
from dcc_assets.sync.recorder import recorder_of
from dcc_dagster.event_recorder import EventRecorder
from dcc_dagster.instance import QC_DATABASE_POOL
from dcc_dagster.partition_events import PartitionReport, Result, results
from dcc_resources.databases import QcDatabaseResource
from dcc_resources.session import SessionResource

GROUP: Final = "data"

DATA_SPECS: Final = (
    graph.asset(
        graph.UPLOADED_DATA,
        GROUP,
        "The archives whose documents are all in the QC database. The session uploads specimens before experiments, "
        "then by date, increment and centre, across all archives.\n\nA document that could not be uploaded, waits for "
        "`dcc data confirm`, or was withdrawn fails the check *upload*. Materialise a partition to upload and judge "
        "the documents of that submission again, alone.",
        {"xml", "table"},
        graph.ZIP_ACTION_PARTITIONS,
        [graph.VALIDATED_DOCUMENTS],
    ),
    graph.asset(
        graph.DATA_INTEGRITY,
        GROUP,
        "The archives whose data follow the integrity rules. The rules look at each document, at earlier "
        "submissions, and at IMPReSS.\n\nEach check is a group of rules (see `dcc rules list`). A check that fails "
        "lists the worst findings with document and line; `dcc data findings` lists all. A finding clears when the "
        "missing animal arrives, when you waive the rule, or when the reference data change.",
        {"table"},
        graph.ZIP_ACTION_PARTITIONS,
        [graph.UPLOADED_DATA, *graph.REFERENCE.values()],
    ),
)
DATA_CHECKS: Final = tuple(
    graph.check(key, graph.ZIP_ACTION_PARTITIONS) for key in (graph.UPLOAD_CHECK, *graph.CHECK_OF_GROUP.values())
)


@graph.chosen_assets(
    name="load_chosen_data",
    specs=DATA_SPECS,
    check_specs=DATA_CHECKS,
    pool=QC_DATABASE_POOL,
    description="Uploads the documents of the submissions whose partitions are chosen, and judges them again, alone.",
)
def chosen_data(
    context: AssetExecutionContext, session: SessionResource, qc_database: QcDatabaseResource
) -> Iterator[Result]:
    """Upload waiting documents of the run's submissions, and judge all of theirs. Raises as `load_chosen`."""
    yield from load_chosen(context, session, qc_database, rejudge=True)


def load(work: SessionWork, qc: Engine, recorder: EventRecorder) -> Iterator[PartitionReport]:
    """Process all waiting documents; report their results, and changes made outside of sessions.

    Faulty data fail checks, never the run. Raises as the work.
    """
    instance = recorder.instance
    reporter = DataReporter(instance, work.tracker, qc, work.settings, work.session.group)
    yield from reporter.reports_of_changes()
    yield from reporter.reports_of_session(work.process_data(qc))
    yield from reporter.reports_of_changes()
    yield from overdue_changes(recorder, work.tracker, work.settings, reporter.reported_centres)
    recorder.when_stored(reporter.note_shown)
    recorder.when_stored(lambda: archive_older(instance, work.tracker, work.settings, session=work.session))


def load_chosen(
    context: AssetExecutionContext,
    session: SessionResource,
    qc_database: QcDatabaseResource,
    *,
    rejudge: bool = False,
) -> Iterator[Result]:
    """Process the documents of the run's submissions, with `rejudge` those that were judged before too; yields the
    results.

    Raises as SessionResource.work and the work, and NotFoundError for a submission that is unknown or has no valid
    document.
    """
    run = context.op_execution_context
    # Outside the session: people are notified of one that broke off.
    chosen = chosen_partitions(context)
    keys = known_keys(session.tracker.ready(), chosen)
    with session_work(run, session) as work:
        qc = work.ready(qc_database.ready)
        with recorder_of(run, work.tracker, work.settings, qc) as recorder:
            reporter = DataReporter(context.instance, work.tracker, qc, work.settings)
            outcomes = work.process_data(qc, keys, rejudge=rejudge)
            recorder.record(reporter.reports_of_session(outcomes, but_keys=frozenset(keys)))
            reports = list(reporter.reports_of_recorded(keys, ()))
            yield from results(context, reports, causes_explained(work.tracker, work.settings))
    missing = set(chosen) - {report.partition for report in reports}
    if missing:
        raise NotFoundError(
            f"{min(missing)} has no document that passed validation and was taken up. Materialise zip_downloads for it "
            "first, or see what became of it: dcc show."
        )
