"""Removes partitions from a Dagster instance, with everything that its pages show of them.

Dagster can delete a partition's key, one at a time, and keeps its events, which some pages still count. The events of
runs stay if Dagster keeps each run in a file of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, cast

from dagster import AssetKey, DagsterEventType
from dagster._core.storage.event_log import SqlEventLogStorageTable
from dagster._core.storage.event_log.base import EventLogStorage
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    AssetEventTagsTable,
    AssetKeyTable,
    DynamicPartitionsTable,
)
from sqlalchemy import delete, select, update
from sqlalchemy.engine import Connection

_EVENT: Final = SqlEventLogStorageTable.c
_CHECK: Final = AssetCheckExecutionsTable.c
_PARTITION: Final = DynamicPartitionsTable.c
# An index of Dagster's begins with the asset, the type and the partition.
_TYPES: Final = [
    kind.value
    for kind in (
        DagsterEventType.ASSET_MATERIALIZATION,
        DagsterEventType.ASSET_MATERIALIZATION_PLANNED,
        DagsterEventType.ASSET_FAILED_TO_MATERIALIZE,
        DagsterEventType.ASSET_OBSERVATION,
        DagsterEventType.ASSET_CHECK_EVALUATION,
        DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED,
    )
]


class RemovesPartitions(Protocol):
    """A storage that can remove many partitions at once."""

    def remove_partitions(self, name: str, assets: Sequence[AssetKey], keys: Sequence[str]) -> None:
        """Remove the partitions `keys` from the set `name`, with their events of `assets`, in one transaction."""


def remove_partitions(storage: EventLogStorage, name: str, assets: Sequence[AssetKey], keys: Sequence[str]) -> int:
    """Remove the existing ones of these partitions from the set `name`; returns their number. Raises as the storage."""
    existing = sorted(storage.get_existing_dynamic_partitions(name, keys))
    if not existing:
        return 0
    if hasattr(storage, "remove_partitions"):
        cast(RemovesPartitions, storage).remove_partitions(name, assets, existing)
    else:
        for key in existing:
            storage.delete_dynamic_partition(name, key)
    return len(existing)


def remove_rows(connection: Connection, name: str, assets: Sequence[AssetKey], keys: Sequence[str]) -> None:
    """Remove partitions from Dagster's tables, in the transaction of `connection`."""
    names = [asset.to_string() for asset in assets]
    events = (_EVENT.asset_key.in_(names), _EVENT.dagster_event_type.in_(_TYPES), _EVENT.partition.in_(keys))
    ids = connection.scalars(select(_EVENT.id).where(*events)).all()
    if ids:
        connection.execute(delete(AssetEventTagsTable).where(AssetEventTagsTable.c.event_id.in_(ids)))
        connection.execute(delete(SqlEventLogStorageTable).where(_EVENT.id.in_(ids)))
    of_checks = (_CHECK.asset_key.in_(names), _CHECK.partition.in_(keys))
    connection.execute(delete(AssetCheckExecutionsTable).where(*of_checks))
    connection.execute(
        delete(DynamicPartitionsTable).where(_PARTITION.partitions_def_name == name, _PARTITION.partition.in_(keys))
    )
    # An asset's cached status counts removed partitions.
    connection.execute(
        update(AssetKeyTable).values(cached_status_data=None).where(AssetKeyTable.c.asset_key.in_(names))
    )
