"""Dagster's tables about assets, checks and partitions: updated for a batch of events, and when partitions go."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from dagster import AssetKey, DagsterEventType, EventLogEntry
from dagster._core.events import ASSET_CHECK_EVENTS, ASSET_EVENTS
from dagster._core.storage.event_log import SqlEventLogStorage, SqlEventLogStorageTable
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


def has_methods(kind: type, methods: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether a class of the installed Dagster has these methods, with these parameters."""
    found = ((getattr(kind, name, None), expected) for name, expected in methods.items())
    return all(method and tuple(inspect.signature(method).parameters) == expected for method, expected in found)


def store_about_assets(
    storage: SqlEventLogStorage, connection: Connection, events: Iterable[tuple[EventLogEntry, int]]
) -> None:
    """Store what events, each with its id, mean for assets and checks, in the transaction of `connection`.

    Depends on private methods of Dagster's class, which the batching storages check.
    """
    about_assets: list[tuple[EventLogEntry, int]] = []
    newest: dict[tuple[str, str], tuple[EventLogEntry, int]] = {}
    for event, event_id in events:
        dagster_event = event.dagster_event
        if dagster_event is None:
            continue
        if dagster_event.event_type in ASSET_EVENTS and dagster_event.asset_key is not None:
            about_assets.append((event, event_id))
            newest[dagster_event.asset_key.to_string(), dagster_event.event_type_value] = (event, event_id)
        elif dagster_event.event_type in ASSET_CHECK_EVENTS:
            storage.store_asset_check_event(event, event_id)
    if about_assets:
        storage._store_asset_event_tags(connection, *zip(*about_assets, strict=True))
    # The asset's own row shows its newest event of each kind, whatever came before.
    for event, event_id in sorted(newest.values(), key=lambda pair: pair[1]):
        storage._store_asset_event(connection, event, event_id)


def remove_partitions(storage: EventLogStorage, name: str, assets: Sequence[AssetKey], keys: Sequence[str]) -> int:
    """Remove the existing ones of these partitions from the set `name`; returns their number.

    Dagster can delete a partition's key, one at a time, and keeps its events, which some pages still count. The
    batching storages remove both. The events of runs stay if Dagster keeps each run in a file of its own. Raises as the
    storage.
    """
    existing = sorted(storage.get_existing_dynamic_partitions(name, keys))
    if not existing:
        return 0
    remove_together = getattr(storage, "remove_partitions", None)
    if remove_together is not None:
        remove_together(name, assets, existing)
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
