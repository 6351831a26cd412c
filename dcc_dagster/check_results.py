"""The latest result of each check and partition, which Dagster's public interface does not return."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dagster import AssetCheckEvaluation, AssetCheckKey, DagsterInstance
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus


@dataclass(frozen=True, slots=True)
class LatestResult:
    """The last evaluation of a check, and its storage id in Dagster."""

    id: int
    passed: bool
    evaluation: AssetCheckEvaluation | None


def failing_partitions(
    instance: DagsterInstance, checks: Collection[AssetCheckKey], partitions: Collection[str] | None = None
) -> set[tuple[AssetCheckKey, str | None]]:
    """The partitions for which each check fails, among those given or all."""
    infos = instance.event_log_storage.get_asset_check_partition_info(
        sorted(checks, key=AssetCheckKey.to_user_string),
        partition_keys=None if partitions is None else sorted(partitions),
    )
    failed = AssetCheckExecutionRecordStatus.FAILED
    return {(info.check_key, info.partition_key) for info in infos if info.latest_execution_status is failed}


def latest_results(
    instance: DagsterInstance, checks: Collection[AssetCheckKey]
) -> Mapping[AssetCheckKey, LatestResult]:
    """The last result of each check; none for a check without one, or that is being evaluated."""
    verdicts = {AssetCheckExecutionRecordStatus.SUCCEEDED: True, AssetCheckExecutionRecordStatus.FAILED: False}
    latest = instance.event_log_storage.get_latest_asset_check_execution_by_key(list(checks))
    return {
        key: LatestResult(record.id, verdicts[record.status], record.evaluation)
        for key, record in latest.items()
        if record.status in verdicts
    }
