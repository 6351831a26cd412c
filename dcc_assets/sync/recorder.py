"""The recorder of the steps of sessions: it knows the past of archives and the causes of failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from dagster import OpExecutionContext
from sqlalchemy import Engine

from dcc.databases.transactions import run_patiently
from dcc.operations.sessions import SessionWork
from dcc.settings import Settings
from dcc.store.staging import Staging
from dcc_assets.metadata.archives import complete_zip_report
from dcc_assets.metadata.causes import causes_explained
from dcc_assets.metadata.documents import data_reports
from dcc_assets.partitions import keys_of_partitions
from dcc_assets.runs import step_of
from dcc_assets.sync.archives import recorded_zips
from dcc_assets.sync.document_records import recorded_data
from dcc_dagster.event_recorder import EventRecorder
from dcc_dagster.partition_events import PartitionEvents, PartitionReport

PASSES_SHOWN: Final = 100
"""How many submissions of a step have their passed checks shown, at fifteen milliseconds each."""


def session_recorder(context: OpExecutionContext, work: SessionWork, qc: Engine | None = None) -> EventRecorder:
    """The recorder for a step of a session. Without `qc`, archives are shown up to their validation."""
    return recorder_of(context, work.tracker, work.settings, qc)


def recorder_of(
    context: OpExecutionContext, tracker: Engine, settings: Settings, qc: Engine | None = None
) -> EventRecorder:
    """The recorder for a step that shows the content of the databases."""
    events = PartitionEvents(context.instance, explain=causes_explained(tracker, settings), passes=PASSES_SHOWN)
    return EventRecorder(context.instance, step_of(context), events, zips_recalled(tracker, settings, qc))


def zips_recalled(
    tracker: Engine, settings: Settings, qc: Engine | None = None
) -> Callable[[Sequence[str]], list[PartitionReport]]:
    """A function that returns everything recorded of submissions by their partitions; without `qc` up to their
    validation.

    It may be called in any thread, and raises TrackerUnreachableError and QcDatabaseUnreachableError.
    """
    staging = Staging(settings.staging_directory)

    def recall(partitions: Sequence[str]) -> list[PartitionReport]:
        return run_patiently(tracker, lambda: read(partitions))

    def read(partitions: Sequence[str]) -> list[PartitionReport]:
        with tracker.connect() as connection:
            keys = keys_of_partitions(connection, partitions)
            reports = [complete_zip_report(zip_, staging) for zip_ in recorded_zips(connection, keys)]
            if qc is not None:
                with qc.connect() as qc_connection:
                    reports += data_reports(recorded_data(connection, qc_connection, keys))
            return reports

    return recall
