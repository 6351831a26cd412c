"""The recorder of the steps of sessions: it knows the past of archives and the causes of failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from dagster import OpExecutionContext
from sqlalchemy import Engine

from dcc.databases.transactions import run_patiently, run_reading
from dcc.operations.session_work import SessionWork
from dcc.outcomes import SubmissionKey
from dcc.settings import Settings
from dcc_assets.metadata.causes import causes_explained
from dcc_assets.metadata.documents import data_reports
from dcc_assets.partitions import keys_of_partitions
from dcc_assets.runs import session_work, step_of
from dcc_assets.sync.archives import recorded_reports
from dcc_assets.sync.document_records import recorded_data
from dcc_dagster.event_recorder import EventRecorder
from dcc_dagster.partition_events import PartitionEvents, PartitionReport
from dcc_resources.file_sources import FileSourceResource
from dcc_resources.session import SessionResource

PASSES_SHOWN: Final = 100
"""How many submissions of a step have their passed checks shown, at fifteen milliseconds each."""


def recorder_of(
    context: OpExecutionContext, tracker: Engine, settings: Settings, qc: Engine | None = None
) -> EventRecorder:
    """The recorder for a step that shows the content of the databases; without `qc`, archives up to their validation.

    Its thread raises TrackerUnreachableError and QcDatabaseUnreachableError.
    """

    def recall(partitions: Sequence[str]) -> Iterator[PartitionReport]:
        keys = run_reading(tracker, lambda connection: keys_of_partitions(connection, partitions))
        yield from recorded_reports(tracker, settings, keys)
        if qc is not None:
            yield from run_patiently(tracker, lambda: _data_reports(tracker, qc, keys))

    events = PartitionEvents(context.instance, explain=causes_explained(tracker, settings), passes=PASSES_SHOWN)
    return EventRecorder(context.instance, step_of(context), events, recall)


@contextmanager
def recorded_work(
    context: OpExecutionContext, session: SessionResource, *kinds: FileSourceResource
) -> Iterator[tuple[SessionWork, EventRecorder]]:
    """The work of the run's crawling session, as `session_work`, and its recorder up to the validation."""
    with session_work(context, session, *kinds) as work, recorder_of(context, work.tracker, work.settings) as recorder:
        yield work, recorder


def _data_reports(tracker: Engine, qc: Engine, keys: Sequence[SubmissionKey]) -> list[PartitionReport]:
    with tracker.connect() as connection, qc.connect() as qc_connection:
        return list(data_reports(recorded_data(connection, qc_connection, keys)))
