"""A Dagster instance rebuilt from the tracker and the QC database, after it was lost."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from dagster import DagsterInstance, OpExecutionContext, job, op
from sqlalchemy import Engine, func, select

from dcc.databases.engines import disposed
from dcc.databases.schema import require_current
from dcc.databases.transactions import writing
from dcc.errors import DagsterStorageError, DccError, QcDatabaseOutdatedError
from dcc.messages import count_of
from dcc.phases import Phase, Status
from dcc.qc.database import open_qc_database
from dcc.session.leases import refuse_during_session
from dcc.settings import Settings
from dcc.tracker.models import ZipAction
from dcc_assets.graph import FILE_SOURCE_PARTITIONS
from dcc_assets.partitions import source_partitions
from dcc_assets.runs import STARTED_BY_TAG, finish_dead_runs, run_here
from dcc_assets.sync.archives import ZIPS_SHOWN, newest_submission_watermark, recorded_reports, recorded_source_reports
from dcc_assets.sync.changes import DataReporter
from dcc_assets.sync.horizon import archive_older, read_archive
from dcc_assets.sync.overdue import overdue_changes
from dcc_assets.sync.recorder import recorder_of
from dcc_dagster.instance import storage_place

_REBUILD: Final = "rebuild"
_SHOWN_EVERY = 1000


@dataclass
class RebuildReport:
    """What was shown: sources, submissions, failed ones of these, centres with data; and the run's id."""

    file_sources: int = 0
    zip_actions: int = 0
    failed: int = 0
    run_id: str = ""
    centres: int = 0


def rebuild_instance(
    settings: Settings, tracker: Engine, instance: DagsterInstance, progress: Callable[[str], None] | None = None
) -> RebuildReport:
    """Show everything in the tracker in a Dagster instance: partitions, reached assets, failures.

    Results after validation come from the QC database, unless that was not made yet. Meant for an empty instance; in
    another one the same is recorded again. `progress` is called with the progress.

    Raises SessionActiveError during a session: what that shows would be followed by what was before. Raises
    DatabaseUnreachableError and DagsterStorageError.
    """
    with writing(tracker) as connection:
        refuse_during_session(connection, settings)
    say: Callable[[str], None] = progress or (lambda _: None)
    report = RebuildReport()
    failures: list[DccError] = []

    @op(name=_REBUILD, description="Tells Dagster what is in the tracker.")
    def record(context: OpExecutionContext) -> None:
        try:
            _record(context, settings, tracker, report, say)
        except DccError as error:
            failures.append(error)
            raise

    @job(name=_REBUILD, description="A Dagster instance built again from the tracker.")
    def rebuild() -> None:
        record()

    try:
        finish_dead_runs(instance, tracker, settings)
        report.run_id = run_here(rebuild, instance, {STARTED_BY_TAG: "dcc instance rebuild"}).run_id
    except Exception as error:
        if failures:
            raise failures[0] from None
        raise DagsterStorageError(
            f"The Dagster instance in {settings.dagster_home} could not be written ({error}). See to "
            f"{storage_place(settings)}, delete the instance, and try again."
        ) from error
    say(
        f"Dagster shows {count_of(report.file_sources, 'file source')} and "
        f"{count_of(report.zip_actions, 'submission')}, {report.failed:,} of them failed."
    )
    return report


def _record(
    context: OpExecutionContext, settings: Settings, tracker: Engine, report: RebuildReport, say: Callable[[str], None]
) -> None:
    instance = context.instance
    with tracker.connect() as connection, recorder_of(context, tracker, settings) as recorder:
        archive_older(instance, tracker, settings, start_over=True)
        shown = read_archive(instance).horizon.shows()
        instance.add_dynamic_partitions(str(FILE_SOURCE_PARTITIONS.name), list(source_partitions(connection)))
        for source in recorded_source_reports(connection, settings):
            recorder.record([source])
            report.file_sources += 1
        newest = newest_submission_watermark(connection)
        total = connection.scalar(select(func.count(ZipAction.id)).where(shown)) or 0
        failed = select(func.count(ZipAction.id)).where(shown, ZipAction.status_id == Status.FAILED)
        report.failed = connection.scalar(failed) or 0
        for submission in recorded_reports(tracker, settings, condition=shown):
            recorder.record([submission])
            report.zip_actions += 1
            if report.zip_actions % _SHOWN_EVERY == 0:
                say(f"{report.zip_actions:,} of {total:,} submissions")
        recorder.when_stored(lambda: ZIPS_SHOWN.write(instance, newest))
        taken_up = connection.scalar(select(ZipAction.id).where(ZipAction.phase_id >= Phase.UPLOAD).limit(1))
        with disposed(open_qc_database(settings)) as qc:
            try:
                require_current(qc)
            except QcDatabaseOutdatedError as error:
                if taken_up is not None:
                    say(f"What became of documents after validation is not shown: {error}")
            else:
                reporter = DataReporter(instance, tracker, qc, settings)
                recorder.record(reporter.reports_of_everything())
                report.centres = len(reporter.reported_centres)
                recorder.when_stored(reporter.note_shown)
        recorder.record(overdue_changes(recorder, tracker, settings, materialised=None))
