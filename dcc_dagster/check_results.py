"""The latest result of checks, as Dagster keeps it for each partition: what its public interface does not tell."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dagster import AssetCheckEvaluation, AssetCheckKey, DagsterInstance
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus


@dataclass(frozen=True, slots=True)
class LatestResult:
    """The last evaluation of a check, and the number by which Dagster keeps it."""

    id: int
    passed: bool
    evaluation: AssetCheckEvaluation | None


def failing_partitions(
    instance: DagsterInstance, checks: Collection[AssetCheckKey], partitions: Collection[str] | None = None
) -> set[tuple[AssetCheckKey, str | None]]:
    """Which checks fail for which partitions, of those that are named or of all."""
    infos = instance.event_log_storage.get_asset_check_partition_info(
        sorted(checks, key=AssetCheckKey.to_user_string),
        partition_keys=None if partitions is None else sorted(partitions),
    )
    failed = AssetCheckExecutionRecordStatus.FAILED
    return {(info.check_key, info.partition_key) for info in infos if info.latest_execution_status is failed}


def latest_results(
    instance: DagsterInstance, checks: Collection[AssetCheckKey]
) -> Mapping[AssetCheckKey, LatestResult]:
    """The last result of each check that has one; nothing of a check that is being evaluated."""
    verdicts = {AssetCheckExecutionRecordStatus.SUCCEEDED: True, AssetCheckExecutionRecordStatus.FAILED: False}
    latest = instance.event_log_storage.get_latest_asset_check_execution_by_key(list(checks))
    return {
        key: LatestResult(record.id, verdicts[record.status], record.evaluation)
        for key, record in latest.items()
        if record.status in verdicts
    }
