"""The recorder of the steps of sessions: it knows the past of archives and the causes of what fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from dagster import OpExecutionContext
from sqlalchemy import Engine

from dcc.databases.transactions import run_patiently
from dcc.settings import Settings
from dcc.store.staging import Staging
from dcc_assets.metadata.archives import whole_zip_report
from dcc_assets.metadata.causes import causes_explained
from dcc_assets.metadata.documents import data_report
from dcc_assets.partitions import keys_of_partitions
from dcc_assets.runs import step_of
from dcc_assets.sync.archive_records import recorded_zips
from dcc_assets.sync.document_records import recorded_data
from dcc_dagster.event_recorder import EventRecorder
from dcc_dagster.partition_events import PartitionEvents, Report
from dcc_resources.work import Work

PASSES_SHOWN: Final = 100
"""Zip actions of a step whose passed checks are shown, at fifteen milliseconds each."""


def session_recorder(context: OpExecutionContext, work: Work, qc: Engine | None = None) -> EventRecorder:
    """The recorder for a step of a session. Archives are shown up to their validation where there is no `qc`."""
    return recorder_of(context, work.tracker, work.settings, qc)


def recorder_of(
    context: OpExecutionContext, tracker: Engine, settings: Settings, qc: Engine | None = None
) -> EventRecorder:
    """The recorder for a step that shows what the databases hold."""
    events = PartitionEvents(context.instance, explain=causes_explained(tracker, settings), passes=PASSES_SHOWN)
    return EventRecorder(context.instance, step_of(context), events, zips_recalled(tracker, settings, qc))


def zips_recalled(
    tracker: Engine, settings: Settings, qc: Engine | None = None
) -> Callable[[Sequence[str]], list[Report]]:
    """What tells all that is recorded of zip actions by their partitions; without `qc` up to their validation.

    What it returns may be called in any thread. It raises TrackerUnreachableError and QcDatabaseUnreachableError.
    """
    staging = Staging(settings.staging_directory)

    def recall(partitions: Sequence[str]) -> list[Report]:
        return run_patiently(tracker, lambda: read(partitions), patience_seconds=settings.database_retry)

    def read(partitions: Sequence[str]) -> list[Report]:
        with tracker.connect() as connection:
            keys = keys_of_partitions(connection, partitions)
            reports = [whole_zip_report(zip_, staging) for zip_ in recorded_zips(connection, keys)]
            if qc is not None:
                with qc.connect() as qc_connection:
                    told = [data_report(outcome) for outcome in recorded_data(connection, qc_connection, keys)]
                reports += [report for report in told if report is not None]
            return reports

    return recall
