"""Events about partitions, stored in batches while a step works.

One run covers hundreds of zip actions, and which of them succeeded is known only as they finish. So the step tells a
recorder about each, and the recorder's own thread stores the events together, about once a second. The events are the
ones that `context.log_event` would have stored one at a time (architecture note, "Partitions and runs").
"""

from __future__ import annotations

import logging
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from dagster import (
    AssetCheckEvaluation,
    AssetCheckKey,
    AssetCheckSeverity,
    AssetKey,
    AssetMaterialization,
    AssetObservation,
    AssetRecordsFilter,
    DagsterEvent,
    DagsterEventType,
    DagsterInstance,
    EventLogEntry,
)
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData
from dagster._core.events import AssetObservationData, StepMaterializationData

from dcc.errors import DagsterStorageError
from dcc.runtime.legible_text import legible
from dcc_dagster.check_results import failing_partitions
from dcc_dagster.metadata import Metadata, as_shown

if TYPE_CHECKING:
    from dagster._core.definitions.metadata import RawMetadataValue

log = logging.getLogger(__name__)

_MOST_AT_ONCE = 1000
_MOST_WAITING = 2000
_SECONDS_BETWEEN_WRITES = 1.0

Target = AssetCheckEvaluationTargetMaterializationData


@dataclass(frozen=True, slots=True)
class Materialised:
    """An asset's partition that is there (again)."""

    asset: AssetKey
    metadata: Mapping[str, RawMetadataValue]
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check says of a partition. One that is not `told` is stored only where the check failed before.

    `severity` is how bad it is that it failed: a warning is nobody's fault, or nothing that needs to be put right.
    """

    check: AssetCheckKey
    passed: bool
    description: str
    metadata: Mapping[str, RawMetadataValue] = field(default_factory=dict)
    told: bool = True
    severity: AssetCheckSeverity = AssetCheckSeverity.ERROR


@dataclass(frozen=True, slots=True)
class Report:
    """What became of one partition. `timestamp`: when, in seconds since 1970; None for the present.

    `partitions` is the set of partitions that it is added to where it is not there; None where somebody else sees to
    that. `whole`: it tells all that there is to be told of a partition that is new.
    """

    partition: str
    materialised: Sequence[Materialised] = ()
    verdicts: Sequence[Verdict] = ()
    timestamp: float | None = None
    partitions: str | None = None
    whole: bool = False


def nothing_more(_partitions: Sequence[str]) -> Iterable[Report]:
    """Where there is nothing to be told of partitions that are new but what is told of them anyway."""
    return ()


def nothing_said(_partitions: Sequence[str]) -> Mapping[str, Metadata]:
    """Where nothing is said beside checks that fail but what their verdicts say."""
    return {}


@dataclass(frozen=True, slots=True)
class Step:
    """The step on whose behalf events are stored."""

    run_id: str
    job_name: str
    step_key: str


class EventRecorder:
    """Stores reports as Dagster events. A context manager; on leaving, everything told is stored.

    `planned` are the checks that the run announced for its partitions: for these every verdict is stored. `recall`
    tells all there is of partitions that were not there, such as zip actions that had been archived, where what is told
    of them is not whole; `explain` tells what is said beside checks that zip actions fail, by their partitions. Both
    are called in the recorder's thread. A failure to store never holds up the work, which the
    tracker has in any case: it is raised on leaving, as DagsterStorageError.
    """

    def __init__(
        self,
        instance: DagsterInstance,
        step: Step,
        planned: Collection[AssetCheckKey] = (),
        recall: Callable[[Sequence[str]], Iterable[Report]] = nothing_more,
        explain: Callable[[Sequence[str]], Mapping[str, Metadata]] = nothing_said,
    ) -> None:
        self._instance = instance
        self._step = step
        self._recall = recall
        self._explain = explain
        self._planned = frozenset(planned)
        self._told: queue.SimpleQueue[Report | None] = queue.SimpleQueue()
        self._error: Exception | None = None
        self._written = threading.Event()
        self._thread = threading.Thread(target=self._write_all, name="dagster events", daemon=True)

    def announces(self, check: AssetCheckKey) -> bool:
        """Whether the run announced a check, and so every verdict of it is stored."""
        return check in self._planned

    def tell(self, report: Report) -> None:
        """Have a report stored soon; returns at once."""
        if self._error is None:
            self._told.put(report)

    def tell_of_many(self, reports: Iterable[Report]) -> None:
        """Have reports stored soon, no faster than that is done, so that they do not fill the memory."""
        for report in reports:
            while self._told.qsize() > _MOST_WAITING and self._error is None:
                self._written.clear()
                self._written.wait(_SECONDS_BETWEEN_WRITES)
            self.tell(report)

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

    def _write_all(self) -> None:
        try:
            for reports in _batches(self._told):
                self._write(reports)
                self._written.set()
        except Exception as error:
            log.debug("Events could not be stored in Dagster", exc_info=True)
            self._error = error

    def _write(self, told: Sequence[Report]) -> None:
        new = self._new_partitions(told)
        to_recall = [partition for of_set in new.values() for partition, whole in of_set.items() if not whole]
        reports = [*(self._recall(to_recall) if to_recall else ()), *told]
        self._store(
            self._materialisation(report, materialised) for report in reports for materialised in report.materialised
        )
        wanted = self._explained(self._wanted(reports, new))
        self._store(self._observation(report, verdict) for report, verdict in wanted if not verdict.passed)
        targets = self._targets(wanted)
        self._store(
            self._evaluation(report, verdict, targets.get((verdict.check.asset_key, report.partition)))
            for report, verdict in wanted
        )
        # At last: one that is there is not recalled again, so all that was recalled must be stored.
        for name, partitions in new.items():
            self._instance.add_dynamic_partitions(name, list(partitions))

    def _new_partitions(self, reports: Sequence[Report]) -> dict[str, dict[str, bool]]:
        """The partitions that are not there, by their sets, and whether the reports tell the whole of each."""
        sets: dict[str, dict[str, bool]] = {}
        for report in reports:
            if report.partitions is not None:
                of_set = sets.setdefault(report.partitions, {})
                of_set[report.partition] = report.whole or of_set.get(report.partition, False)
        new: dict[str, dict[str, bool]] = {}
        for name, told_whole in sets.items():
            there = self._instance.get_existing_dynamic_partitions(name, list(told_whole))
            absent = {partition: whole for partition, whole in told_whole.items() if partition not in there}
            if absent:
                new[name] = absent
        return new

    def _wanted(self, reports: Sequence[Report], new: Mapping[str, Mapping[str, bool]]) -> list[tuple[Report, Verdict]]:
        """The verdicts to be stored; of partitions that are `new` and told whole, no check has failed before."""
        conditional = {
            (verdict.check, report.partition)
            for report in reports
            if not (report.partitions is not None and new.get(report.partitions, {}).get(report.partition))
            for verdict in report.verdicts
            if not verdict.told and verdict.check not in self._planned
        }
        red = self._failing(conditional) if conditional else set()
        wanted = []
        for report in reports:
            for verdict in report.verdicts:
                check = (verdict.check, report.partition)
                if verdict.told or verdict.check in self._planned or check in red:
                    wanted.append((report, verdict))
                    # What follows in the same batch follows upon this one.
                    (red.discard if verdict.passed else red.add)(check)
        return wanted

    def _explained(self, wanted: Sequence[tuple[Report, Verdict]]) -> list[tuple[Report, Verdict]]:
        """The verdicts, those that failed with what is said beside them."""
        failed = [r.partition for r, verdict in wanted if not verdict.passed and r.partitions is not None]
        try:
            said = self._explain(failed) if failed else {}
        except Exception:  # whatever befalls it, what became of the partitions is shown
            log.exception("What is said beside failed checks could not be told")
            said = {}
        return [
            (report, verdict)
            if verdict.passed or report.partition not in said
            else (report, replace(verdict, metadata={**verdict.metadata, **said[report.partition]}))
            for report, verdict in wanted
        ]

    def _failing(self, wanted: Collection[tuple[AssetCheckKey, str]]) -> set[tuple[AssetCheckKey, str | None]]:
        """Which checks fail for which partitions, among others of those that are wanted."""
        checks, partitions = {check for check, _ in wanted}, {partition for _, partition in wanted}
        return failing_partitions(self._instance, checks, partitions)

    def _targets(self, wanted: Sequence[tuple[Report, Verdict]]) -> dict[tuple[AssetKey, str], Target]:
        """The latest materialisation of each partition: without it the web page takes a check for out of date."""
        partitions: dict[AssetKey, set[str]] = {}
        for report, verdict in wanted:
            partitions.setdefault(verdict.check.asset_key, set()).add(report.partition)
        targets: dict[tuple[AssetKey, str], Target] = {}
        for asset, keys in partitions.items():
            newest = self._instance.event_log_storage.get_latest_storage_id_by_partition(
                asset, DagsterEventType.ASSET_MATERIALIZATION, keys
            )
            if newest:
                found = self._instance.fetch_materializations(
                    AssetRecordsFilter(asset, storage_ids=list(newest.values())), limit=len(newest)
                )
                targets |= {
                    (asset, record.partition_key): Target(
                        storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp
                    )
                    for record in found.records
                    if record.partition_key is not None
                }
        return targets

    def _materialisation(self, report: Report, materialised: Materialised) -> EventLogEntry:
        data = StepMaterializationData(
            AssetMaterialization(
                materialised.asset,
                description=None if materialised.description is None else _as_description(materialised.description),
                metadata=as_shown(materialised.metadata),
                partition=report.partition,
            )
        )
        message = materialised.description or f"Materialized {report.partition}."
        return self._entry(DagsterEventType.ASSET_MATERIALIZATION, data, message, report.timestamp)

    def _observation(self, report: Report, verdict: Verdict) -> EventLogEntry:
        """The web page's view of a partition shows what was observed of it, but not what its checks say."""
        description = _as_description(f"{verdict.check.name} failed: {verdict.description}")
        data = AssetObservationData(
            AssetObservation(
                verdict.check.asset_key,
                description=description,
                metadata=as_shown(verdict.metadata),
                partition=report.partition,
            )
        )
        message = f"{report.partition} failed {verdict.check.name}: {verdict.description}"
        return self._entry(DagsterEventType.ASSET_OBSERVATION, data, message, report.timestamp)

    def _evaluation(self, report: Report, verdict: Verdict, target: Target | None) -> EventLogEntry:
        data = AssetCheckEvaluation(
            verdict.check.asset_key,
            verdict.check.name,
            verdict.passed,
            metadata=as_shown(verdict.metadata),
            target_materialization_data=target,
            severity=verdict.severity,
            description=_as_description(verdict.description),
            blocking=False,
            partition=report.partition,
        )
        word = "passed" if verdict.passed else "failed"
        message = f"{report.partition} {word} {verdict.check.name}: {verdict.description}"
        return self._entry(DagsterEventType.ASSET_CHECK_EVALUATION, data, message, report.timestamp)

    def _entry(
        self,
        kind: DagsterEventType,
        data: StepMaterializationData | AssetObservationData | AssetCheckEvaluation,
        message: str,
        timestamp: float | None,
    ) -> EventLogEntry:
        step = self._step
        event = DagsterEvent(
            event_type_value=kind.value,
            job_name=step.job_name,
            event_specific_data=data,
            message=_line(message),
            pid=os.getpid(),
            step_key=step.step_key,
        )
        return EventLogEntry(  # type: ignore[no-untyped-call]
            error_info=None,
            level=logging.INFO,
            user_message=_line(message),
            run_id=step.run_id,
            timestamp=timestamp or time.time(),
            step_key=step.step_key,
            job_name=step.job_name,
            dagster_event=event,
        )

    def _store(self, entries: Iterator[EventLogEntry]) -> None:
        batch = list(entries)
        if batch:
            self._instance.event_log_storage.store_event_batch(batch)


_MARKUP = re.compile(r"([\\`*\[\]])")
_QUOTES = str.maketrans("<>", "‹›")


def _line(text: str) -> str:
    return legible(" ".join(text.splitlines()))


def _as_description(text: str) -> str:
    """Text that reads well on all pages: some take descriptions for Markdown, which would swallow `<mouse>`."""
    return _MARKUP.sub(r"\\\1", _line(text).translate(_QUOTES))


def _batches(told: queue.SimpleQueue[Report | None]) -> Iterator[list[Report]]:
    """Gather reports until there are many or a second has passed since the first; end at None."""
    while True:
        report = told.get()
        if report is None:
            return
        batch = [report]
        deadline = time.monotonic() + _SECONDS_BETWEEN_WRITES
        while len(batch) < _MOST_AT_ONCE:
            try:
                report = told.get(timeout=max(deadline - time.monotonic(), 0))
            except queue.Empty:
                break
            if report is None:
                yield batch
                return
            batch.append(report)
        yield batch
