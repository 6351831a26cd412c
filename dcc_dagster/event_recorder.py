"""The recorder of sessions: stores the events about hundreds of archives together, while the step works.

Which archives succeed is known only when they finish. The step gives the recorder a report of each, and the recorder's
own thread stores the events about once a second. They are the same events that `context.log_event` would have stored
one at a time, which takes longer.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import dagster as dg
from dagster._core.events import StepMaterializationData

from dcc.errors import DagsterStorageError
from dcc_dagster.event_batches import wipe_times
from dcc_dagster.partition_events import Event, PartitionEvents, PartitionReport, one_line

log = logging.getLogger(__name__)

_MAX_AT_ONCE = 1000
_MAX_WAITING = 2000
"""Whoever records more waits, so that reports do not fill the memory."""
_SECONDS_BETWEEN_WRITES = 1.0


@dataclass(frozen=True, slots=True)
class RunStep:
    """The step that the events belong to."""

    run_id: str
    job_name: str
    step_key: str


class EventRecorder:
    """Stores reports as Dagster events. A context manager: on leaving, all reports are stored.

    `recall` returns everything recorded about partitions that are missing in Dagster, such as archived ones, if a
    report does not cover it. It is called in the recorder's thread, like `events`. A failure to store never delays the
    work, which the tracker has in any case: it is raised on leaving, as DagsterStorageError.
    """

    def __init__(
        self,
        instance: dg.DagsterInstance,
        step: RunStep,
        events: PartitionEvents | None = None,
        recall: Callable[[Sequence[str]], Iterable[PartitionReport]] | None = None,
    ) -> None:
        self.instance = instance
        self._step = step
        self._events = events or PartitionEvents(instance)
        self._recall = recall
        self._told: queue.Queue[PartitionReport | None] = queue.Queue(_MAX_WAITING)
        self._error: Exception | None = None
        self._when_stored: list[Callable[[], object]] = []
        self._thread = threading.Thread(target=self._write_all, name="dagster events", daemon=True)

    def record(self, reports: Iterable[PartitionReport]) -> None:
        """Queue reports, no faster than they are stored."""
        for report in reports:
            self._told.put(report)

    def when_stored(self, note: Callable[[], object]) -> None:
        """Call a function once all reports so far are stored; in the order of the calls, and not after an error."""
        self._when_stored.append(note)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._told.put(None)
        self._thread.join()
        if self._error is not None:
            failure = DagsterStorageError(
                f"Dagster could not store what happened in run {self._step.run_id} ({self._error}). The tracker has it "
                "all. See to the Dagster instance's disk or database, then bring it up to date: dcc instance rebuild."
            )
            if error is None:
                raise failure from self._error
            log.error("%s", failure)
        elif error is None:
            for note in self._when_stored:
                note()

    def _write_all(self) -> None:
        for reports in _batches(self._told):
            if self._error is not None:
                continue
            try:
                self._write(reports)
            except Exception as error:
                log.debug("Events could not be stored in Dagster", exc_info=True)
                self._error = error

    def _write(self, reported: Sequence[PartitionReport]) -> None:
        new = self._new_partitions(reported)
        complete = {report.partition for report in reported if report.is_complete}
        to_recall = [partition for partitions in new.values() for partition in partitions if partition not in complete]
        reports = [*(self._recall(to_recall) if to_recall and self._recall else ()), *reported]
        for batch in self._events.batches(reports):
            if batch:
                wiped = wipe_times(self.instance.event_log_storage, {reported.event.asset_key for reported in batch})
                entries = [self._entry(report, event, wiped.get(event.asset_key, 0.0)) for report, event in batch]
                self.instance.event_log_storage.store_event_batch(entries)
        # Last: an existing partition is not recalled again, so everything recalled must be stored first.
        for name, partitions in new.items():
            self.instance.add_dynamic_partitions(name, partitions)

    def _new_partitions(self, reports: Sequence[PartitionReport]) -> dict[str, list[str]]:
        """The missing partitions, by the names of their sets."""
        told: dict[str, list[str]] = {}
        for report in reports:
            if report.partition_set is not None:
                told.setdefault(report.partition_set, []).append(report.partition)
        new: dict[str, list[str]] = {}
        for name, partitions in told.items():
            existing = self.instance.get_existing_dynamic_partitions(name, partitions)
            if missing := [partition for partition in dict.fromkeys(partitions) if partition not in existing]:
                new[name] = missing
        return new

    def _entry(self, report: PartitionReport, event: Event, wiped: float) -> dg.EventLogEntry:
        """The entry of an event, as of now if its asset was `wiped` since: Dagster does not show what is older."""
        timestamp = report.timestamp or 0.0
        step, kind = self._step, dg.DagsterEventType.ASSET_CHECK_EVALUATION
        data: StepMaterializationData | dg.AssetCheckEvaluation
        if isinstance(event, dg.AssetMaterialization):
            kind, data = dg.DagsterEventType.ASSET_MATERIALIZATION, StepMaterializationData(event)
        else:
            data = event
        message = one_line(f"{report.partition}: {event.description or kind.value.lower()}")
        dagster_event = dg.DagsterEvent(
            event_type_value=kind.value,
            job_name=step.job_name,
            event_specific_data=data,
            message=message,
            pid=os.getpid(),
            step_key=step.step_key,
        )
        return dg.EventLogEntry(  # type: ignore[no-untyped-call]
            error_info=None,
            level=logging.INFO,
            user_message=message,
            run_id=step.run_id,
            timestamp=timestamp if timestamp > wiped else time.time(),
            step_key=step.step_key,
            job_name=step.job_name,
            dagster_event=dagster_event,
        )


def _batches(reported: queue.Queue[PartitionReport | None]) -> Iterator[list[PartitionReport]]:
    """Gather reports until there are many or a second has passed since the first; stop at None."""
    while True:
        report = reported.get()
        if report is None:
            return
        batch = [report]
        deadline = time.monotonic() + _SECONDS_BETWEEN_WRITES
        while len(batch) < _MAX_AT_ONCE:
            try:
                report = reported.get(timeout=max(deadline - time.monotonic(), 0))
            except queue.Empty:
                break
            if report is None:
                yield batch
                return
            batch.append(report)
        yield batch
