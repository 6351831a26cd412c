"""The jobs of sessions.

A job does all work that is due and reports on the partitions that it meets: sources, submissions and centres in one
run. So it is made of an op: a run of assets takes only partitions of one kind, chosen before it starts. `job_of` names
its assets: the page of each shows the job and what starts it.
"""

from typing import Final

from dagster import OpExecutionContext, op

from dcc_assets.collection import ARCHIVE_SPECS, crawl
from dcc_assets.data import DATA_SPECS, load
from dcc_assets.graph import FILE_SOURCE_LISTINGS, QC, ZIP_ACTIONS
from dcc_assets.quality_control import CONTEXT_SPECS
from dcc_assets.runs import session_work
from dcc_assets.sync.changes import DataReporter
from dcc_assets.sync.overdue import overdue_changes
from dcc_assets.sync.recorder import recorded_work, recorder_of
from dcc_assets.validation import DOCUMENT_SPECS, process
from dcc_dagster.instance import QC_DATABASE_POOL
from dcc_dagster.job_assets import job_of
from dcc_resources.databases import QcDatabaseResource, TrackerResource
from dcc_resources.file_sources import FolderResource, FtpResource, HttpResource, SftpResource
from dcc_resources.services import StoreResource
from dcc_resources.session import SessionResource

CRAWL_JOB: Final = "crawl_file_sources"
PROCESS_JOB: Final = "process_zip_actions"
LOAD_JOB: Final = "load_data"
SHOW_JOB: Final = "show_changes"

_DATA_ASSETS: Final = (*(spec.key for spec in (*DATA_SPECS, *CONTEXT_SPECS)), QC)


@op(
    name="crawl",
    description="Lists every available file source of an active centre, and registers new submissions.",
)
def _crawl(
    context: OpExecutionContext,
    session: SessionResource,
    sftp: SftpResource,
    ftp: FtpResource,
    http: HttpResource,
    folder: FolderResource,
) -> None:
    with recorded_work(context, session, sftp, ftp, http, folder) as (work, recorder):
        recorder.record(crawl(work, recorder))


@op(
    name="process",
    description="Downloads, extracts and validates every waiting submission.",
)
def _process(
    context: OpExecutionContext,
    session: SessionResource,
    store: StoreResource,
    sftp: SftpResource,
    ftp: FtpResource,
    http: HttpResource,
    folder: FolderResource,
) -> None:
    with recorded_work(context, session, sftp, ftp, http, folder) as (work, recorder):
        recorder.record(process(work, recorder, store.staging()))


@op(
    name="load",
    pool=QC_DATABASE_POOL,
    description="Takes every waiting document through the phases after validation.",
)
def _load(context: OpExecutionContext, session: SessionResource, qc_database: QcDatabaseResource) -> None:
    with session_work(context, session) as work:
        qc = work.ready(qc_database.ready)
        with recorder_of(context, work.tracker, work.settings, qc) as recorder:
            recorder.record(load(work, qc, recorder))


@op(
    name="show",
    description="Shows changes in the tracker and the QC database that Dagster does not show yet.",
)
def _show(context: OpExecutionContext, tracker: TrackerResource, qc_database: QcDatabaseResource) -> None:
    settings, engine, qc = tracker.settings_with(qc_database), tracker.ready(), qc_database.ready()
    with recorder_of(context, engine, settings, qc) as recorder:
        reporter = DataReporter(context.instance, engine, qc, settings)
        recorder.record(reporter.reports_of_changes())
        recorder.record(overdue_changes(recorder, engine, settings, reporter.reported_centres))
        recorder.when_stored(reporter.note_shown)


crawl_file_sources: Final = job_of(
    _crawl,
    CRAWL_JOB,
    (FILE_SOURCE_LISTINGS, ZIP_ACTIONS),
    "Crawls all available file sources of active centres and registers new submissions. Downloads nothing.",
)
process_zip_actions: Final = job_of(
    _process,
    PROCESS_JOB,
    tuple(spec.key for spec in (*ARCHIVE_SPECS, *DOCUMENT_SPECS)),
    "Downloads, extracts and validates every waiting submission, and tries failed downloads again.",
)
load_data: Final = job_of(
    _load,
    LOAD_JOB,
    _DATA_ASSETS,
    "Uploads valid documents in order, checks their integrity, builds data contexts and overviews, and "
    "hands the archives to quality control. It judges documents again when the cause of a finding has gone.",
)
show_changes: Final = job_of(
    _show,
    SHOW_JOB,
    _DATA_ASSETS,
    "Shows what `dcc` commands changed: quality control, withdrawals, confirmations. It changes no data.",
)
