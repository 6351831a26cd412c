"""Results of partitions, the Dagster events for them, and the latest result of each check in Dagster.

A step makes a report of each partition. In a run over chosen partitions the asset function yields the events of
`results`. A session, whose run covers hundreds of archives, passes the reports to the recorder (`event_recorder`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from dcc.messages import Message
from dcc.runtime.legible_text import legible
from dcc_dagster.metadata import Metadata, as_shown, table

log = logging.getLogger(__name__)

Event: TypeAlias = dg.AssetMaterialization | dg.AssetCheckEvaluation
Result: TypeAlias = Event | dg.MaterializeResult[None] | dg.AssetCheckResult
"""What an asset function may yield about a partition."""
Target = AssetCheckEvaluationTargetMaterializationData


@dataclass(frozen=True, slots=True)
class MaterialisedPartition:
    """An asset's partition that was materialised."""

    asset: dg.AssetKey
    metadata: Metadata
    description: str | None = None


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """A check's verdict on a partition. Unless `always`, it is stored only if the check failed before.

    `severity` is how bad a failure is: a warning is nobody's fault, or needs no correction. `kinds` are the ids of
    rules and classes of errors that the check covers: their causes are shown with a failure. A reminder says that
    something is overdue: the asset's partition keeps its content.
    """

    check: dg.AssetCheckKey
    passed: bool = field(kw_only=True)
    description: Message | str
    metadata: Metadata = field(default_factory=dict)
    always: bool = True
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR
    kinds: Collection[str] = ()
    is_reminder: bool = False


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """The results of one partition. `timestamp` is their time, in seconds since 1970; None for the present.

    `partition_set` is the name of the set to which the recorder adds a missing partition; None if somebody else adds
    it. `is_complete`: a new partition needs no more than this report.
    """

    partition: str
    materialised: Sequence[MaterialisedPartition] = ()
    verdicts: Sequence[CheckVerdict] = ()
    timestamp: float | None = None
    partition_set: str | None = None
    is_complete: bool = False


class ReportedVerdict(NamedTuple):
    """A verdict of a report."""

    report: PartitionReport
    verdict: CheckVerdict


class ReportedEvent(NamedTuple):
    """An event about a report."""

    report: PartitionReport
    event: Event


Explain: TypeAlias = Callable[[Sequence[ReportedVerdict]], Sequence[Metadata]]
"""Adds to each failure, such as its causes."""


class PartitionEvents:
    """Makes the events of reports.

    `planned` are the checks that the run announced for its partitions: all of their verdicts are stored. So are all
    verdicts on the first `passes` partitions. `explain` adds to failures.
    """

    def __init__(
        self,
        instance: dg.DagsterInstance,
        planned: Collection[dg.AssetCheckKey] = (),
        explain: Explain | None = None,
        passes: int = 0,
    ) -> None:
        self._instance = instance
        self._explain = explain
        self._passes = passes
        self._passing: set[str] = set()
        self.planned = frozenset(planned)

    def batches(self, reports: Sequence[PartitionReport]) -> Iterator[list[ReportedEvent]]:
        """The events of reports in batches. Store each batch before asking for the next."""
        wanted = self._explained(self._verdicts_to_store(reports))
        failures: dict[int, list[CheckVerdict]] = {}
        for report, verdict in wanted:
            if not verdict.passed and not verdict.is_reminder:
                failures.setdefault(id(report), []).append(verdict)
        yield [
            ReportedEvent(report, _materialisation(report, materialised))
            for report in reports
            for materialised in _materialisations(report, failures.get(id(report), ()))
        ]
        targets = self._targets(wanted)
        evaluations = []
        for report, verdict in wanted:
            target = targets.get((verdict.check.asset_key, report.partition))
            evaluations.append(ReportedEvent(report, _evaluation(report, verdict, target)))
        yield evaluations

    def of(self, report: PartitionReport) -> Iterator[Event]:
        """The events of one report, each made after the earlier ones are stored."""
        for batch in self.batches([report]):
            yield from (reported.event for reported in batch)

    def _verdicts_to_store(self, reports: Sequence[PartitionReport]) -> list[ReportedVerdict]:
        checks: set[dg.AssetCheckKey] = set()
        partitions: set[str] = set()
        for report in reports:
            conditional = {verdict.check for verdict in report.verdicts if not self._is_told(report, verdict)}
            if conditional:
                checks |= conditional
                partitions.add(report.partition)
        red = failing_partitions(self._instance, checks, partitions) if checks else set()
        wanted = []
        for report in reports:
            for verdict in report.verdicts:
                check = (verdict.check, report.partition)
                if not (self._is_told(report, verdict) or check in red):
                    continue
                wanted.append(ReportedVerdict(report, verdict))
                # Later reports in the same batch come after this one.
                if verdict.passed:
                    red.discard(check)
                else:
                    red.add(check)
        return wanted

    def _is_told(self, report: PartitionReport, verdict: CheckVerdict) -> bool:
        if verdict.always or verdict.check in self.planned:
            return True
        if len(self._passing) < self._passes:
            self._passing.add(report.partition)
        return report.partition in self._passing

    def _explained(self, wanted: Sequence[ReportedVerdict]) -> list[ReportedVerdict]:
        """The verdicts, with explanations of failures."""
        failures = [one for one in wanted if not one.verdict.passed and one.verdict.kinds]
        try:
            explanations = iter(self._explain(failures) if failures and self._explain else ())
        except Exception:  # the partitions are shown even if explaining fails
            log.exception("Failed checks could not be explained")
            explanations = iter(())
        explained = []
        for report, verdict in wanted:
            if not verdict.passed and verdict.kinds:
                verdict = replace(verdict, metadata={**verdict.metadata, **next(explanations, {})})
            explained.append(ReportedVerdict(report, verdict))
        return explained

    def _targets(self, wanted: Sequence[ReportedVerdict]) -> dict[tuple[dg.AssetKey, str], Target]:
        """The latest materialisation of each partition: without it the web page takes a check for out of date."""
        partitions: dict[dg.AssetKey, set[str]] = {}
        for report, verdict in wanted:
            partitions.setdefault(verdict.check.asset_key, set()).add(report.partition)
        targets: dict[tuple[dg.AssetKey, str], Target] = {}
        for asset, keys in partitions.items():
            newest = self._instance.event_log_storage.get_latest_storage_id_by_partition(
                asset, dg.DagsterEventType.ASSET_MATERIALIZATION, keys
            )
            if newest:
                found = self._instance.fetch_materializations(
                    dg.AssetRecordsFilter(asset, storage_ids=list(newest.values())), limit=len(newest)
                )
                targets |= {
                    (asset, record.partition_key): Target(
                        storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp
                    )
                    for record in found.records
                    if record.partition_key is not None
                }
        return targets


def results(
    context: dg.AssetExecutionContext, reports: Iterable[PartitionReport], explain: Explain | None = None
) -> Iterator[Result]:
    """The events of reports for an asset function, about the chosen partitions of its run.

    In a run for one partition these are MaterializeResult and AssetCheckResult for the selected assets and checks, so
    that the following steps of the run are executed. In a run over several, MaterializeResult would stand for all of
    them: there each event names its partition.
    """
    alone = context.partition_key if context.has_partition_key else None
    assets, checks = set(context.selected_asset_keys), set(context.selected_asset_check_keys)
    events = PartitionEvents(context.instance, context.selected_asset_check_keys, explain)
    for report in reports:
        reached = {materialised.asset for materialised in report.materialised}
        for event in events.of(report):
            if report.partition != alone:
                yield event
            elif isinstance(event, dg.AssetMaterialization) and event.asset_key in assets & reached:
                # Dagster takes one result for each asset. An asset that only failed has none, or the next steps would
                # run.
                assets.discard(event.asset_key)
                yield dg.MaterializeResult(asset_key=event.asset_key, metadata=event.metadata)
            elif isinstance(event, dg.AssetCheckEvaluation) and event.asset_check_key in checks:
                checks.discard(event.asset_check_key)
                yield dg.AssetCheckResult(
                    passed=event.passed,
                    asset_key=event.asset_key,
                    check_name=event.check_name,
                    metadata=event.metadata,
                    severity=event.severity,
                    description=event.description,
                )
            else:
                yield event


def _materialisation(report: PartitionReport, materialised: MaterialisedPartition) -> dg.AssetMaterialization:
    description = None if materialised.description is None else _as_description(materialised.description)
    return dg.AssetMaterialization(
        materialised.asset,
        description=description,
        metadata=as_shown(materialised.metadata),
        partition=report.partition,
    )


def _materialisations(report: PartitionReport, failures: Sequence[CheckVerdict]) -> Iterator[MaterialisedPartition]:
    """Each asset once, with what the web page shows: it shows a partition's latest materialisation, not its checks.

    An asset with failed checks is shown with their verdicts, even if the partition did not get that far.
    """
    reached = {materialised.asset: materialised for materialised in report.materialised}
    for asset in dict.fromkeys((*reached, *(verdict.check.asset_key for verdict in failures))):
        failed = [verdict for verdict in failures if verdict.check.asset_key == asset]
        yield _failed(asset, failed, reached.get(asset)) if failed else reached[asset]


def _failed(
    asset: dg.AssetKey, failures: Sequence[CheckVerdict], reached: MaterialisedPartition | None
) -> MaterialisedPartition:
    """An asset's partition with its failed checks: the worst in full, and one line of each other."""
    worst_first = sorted(failures, key=lambda verdict: verdict.severity is not dg.AssetCheckSeverity.ERROR)
    lines = [f"{verdict.check.name} failed: {verdict.description}" for verdict in worst_first]
    several: Metadata = {}
    if len(worst_first) > 1:
        rows = [(one.check.name, str(one.description), str(one.metadata.get("Who acts", ""))) for one in worst_first]
        several = {"failed checks": table(("check", "reason", "who acts"), rows)}
    more = {} if reached is None else reached.metadata
    first = worst_first[0].metadata
    added = {name: value for name, value in more.items() if name not in first}
    return MaterialisedPartition(asset, {**several, **first, **added}, " ".join(lines))


def _evaluation(report: PartitionReport, verdict: CheckVerdict, target: Target | None) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        verdict.check.asset_key,
        verdict.check.name,
        verdict.passed,
        metadata=as_shown(verdict.metadata),
        target_materialization_data=target,
        severity=verdict.severity,
        description=_as_description(str(verdict.description)),
        blocking=False,
        partition=report.partition,
    )


_MARKUP = re.compile(r"([\\`*\[\]])")
_QUOTES = str.maketrans("<>", "‹›")


def _as_description(text: str) -> str:
    """Text that is legible on all pages: some read descriptions as Markdown, which would drop `<mouse>`."""
    return _MARKUP.sub(r"\\\1", one_line(text).translate(_QUOTES))


def one_line(text: str) -> str:
    """Text without line breaks and invisible characters."""
    return legible(" ".join(text.splitlines()))


def failing_partitions(
    instance: dg.DagsterInstance, checks: Collection[dg.AssetCheckKey], partitions: Collection[str] | None = None
) -> set[tuple[dg.AssetCheckKey, str | None]]:
    """The partitions for which each check fails, among those given or all."""
    infos = instance.event_log_storage.get_asset_check_partition_info(
        sorted(checks, key=dg.AssetCheckKey.to_user_string),
        partition_keys=None if partitions is None else sorted(partitions),
    )
    failed = AssetCheckExecutionRecordStatus.FAILED
    return {(info.check_key, info.partition_key) for info in infos if info.latest_execution_status is failed}


def latest_evaluations(
    instance: dg.DagsterInstance, checks: Collection[dg.AssetCheckKey]
) -> Iterator[tuple[int, dg.AssetCheckEvaluation]]:
    """The last evaluation of each check, after its storage id; none of a check that is being evaluated."""
    latest = instance.event_log_storage.get_latest_asset_check_execution_by_key(list(checks))
    for record in latest.values():
        if isinstance(record.evaluation, dg.AssetCheckEvaluation):
            yield record.id, record.evaluation
