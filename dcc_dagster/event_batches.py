"""Common parts of the event logs that store events in batches, and the removal of partitions with their events.

A batch needs private methods of Dagster's class. If these are not as expected, Dagster's own class is used instead,
slower and right.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC
from typing import Any, Final

from dagster import AssetKey, DagsterEventType, EventLogEntry
from dagster._core.events import ASSET_CHECK_EVENTS, ASSET_EVENTS
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster._core.storage.event_log import SqlEventLogStorage, SqlEventLogStorageTable
from dagster._core.storage.event_log.base import EventLogStorage
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    AssetEventTagsTable,
    AssetKeyTable,
    DynamicPartitionsTable,
)
from sqlalchemy import delete, select
from sqlalchemy.engine import Connection

LEANED_ON: Final = {
    "run_connection": ("self", "run_id"),
    "index_connection": ("self",),
    "has_table": ("self", "table_name"),
    "_event_to_row": ("self", "event"),
    "_store_asset_event": ("self", "conn", "event", "event_id"),
    "_store_asset_event_tags": ("self", "conn", "events", "event_ids"),
    "store_asset_check_event": ("self", "event", "event_id"),
}
"""The methods of Dagster's classes that batches on any database need, with their parameters."""

_EVENT: Final = SqlEventLogStorageTable.c
_CHECK: Final = AssetCheckExecutionsTable.c
_PARTITION: Final = DynamicPartitionsTable.c
# An index of Dagster's begins with the asset, the type and the partition.
_TYPES: Final = [kind.value for kind in ASSET_EVENTS | ASSET_CHECK_EVENTS]

_RUN_ENDS: Final = {DagsterEventType.RUN_SUCCESS, DagsterEventType.RUN_FAILURE, DagsterEventType.RUN_CANCELED}


def has_methods(kind: type, methods: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether a class of the installed Dagster has these methods, with these parameters."""
    found = ((getattr(kind, name, None), expected) for name, expected in methods.items())
    return all(method and tuple(inspect.signature(method).parameters) == expected for method, expected in found)


class BatchingEventLog(SqlEventLogStorage):
    """An event log that stores events in batches; stands before Dagster's class for its database."""

    def __init__(self, *arguments: Any) -> None:
        self._known_tables: set[str] = set()
        super().__init__(*arguments)  # type: ignore[no-untyped-call]

    def store_event(self, event: EventLogEntry) -> None:
        """Store one event."""
        self.store_event_batch([event])

    def has_table(self, table_name: str) -> bool:
        """Whether the database has a table; a table that was found once is not searched for again."""
        if table_name not in self._known_tables and super().has_table(table_name):  # type: ignore[safe-super]
            self._known_tables.add(table_name)
        return table_name in self._known_tables

    def store_about_assets(self, connection: Connection, events: Iterable[tuple[EventLogEntry, int]]) -> None:
        """Store what events, each with its id, mean for assets and checks, in the transaction of `connection`.

        Checks that a run announced but did not make keep their earlier results when it ends, however it ends.
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
                self.store_asset_check_event(event, event_id)
            elif dagster_event.event_type in _RUN_ENDS:
                self._forget_planned_checks(connection, event.run_id)
        if about_assets:
            self._store_asset_event_tags(connection, *zip(*about_assets, strict=True))
        # The asset's own row shows its newest event of each kind, whatever came before.
        for event, event_id in sorted(newest.values(), key=lambda pair: pair[1]):
            self._store_asset_event(connection, event, event_id)

    def _forget_planned_checks(self, connection: Connection, run_id: str) -> None:
        """Remove the announcements of checks that a run did not make: they hide the results of earlier runs."""
        announced = self.get_logs_for_run(run_id, of_type=DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED)
        of_run = (_CHECK.run_id == run_id, _CHECK.execution_status == AssetCheckExecutionRecordStatus.PLANNED.value)
        for check in {entry.get_dagster_event().asset_check_planned_data.asset_check_key for entry in announced}:
            # An index of Dagster's begins with the asset and the name.
            of_check = (_CHECK.asset_key == check.asset_key.to_string(), _CHECK.check_name == check.name)
            connection.execute(delete(AssetCheckExecutionsTable).where(*of_check, *of_run))

    def remove_partitions(self, name: str, assets: Sequence[AssetKey], keys: Sequence[str]) -> None:
        """Remove partitions from the set `name`, with the events of `assets` about them, in one transaction."""
        names = [asset.to_string() for asset in assets]
        events = (_EVENT.asset_key.in_(names), _EVENT.dagster_event_type.in_(_TYPES), _EVENT.partition.in_(keys))
        of_checks = (_CHECK.asset_key.in_(names), _CHECK.partition.in_(keys))
        of_set = (_PARTITION.partitions_def_name == name, _PARTITION.partition.in_(keys))
        with self.index_connection() as connection:
            ids = connection.scalars(select(_EVENT.id).where(*events)).all()
            if ids:
                connection.execute(delete(AssetEventTagsTable).where(AssetEventTagsTable.c.event_id.in_(ids)))
                connection.execute(delete(SqlEventLogStorageTable).where(_EVENT.id.in_(ids)))
            connection.execute(delete(AssetCheckExecutionsTable).where(*of_checks))
            connection.execute(delete(DynamicPartitionsTable).where(*of_set))


def wipe_times(storage: EventLogStorage, assets: Collection[AssetKey]) -> dict[AssetKey, float]:
    """When people wiped these assets last, in Unix seconds; without those that nobody wiped. Raises as the storage."""
    if not isinstance(storage, SqlEventLogStorage):
        return {}
    keys = {asset.to_string(): asset for asset in assets}
    wiped = AssetKeyTable.c.wipe_timestamp
    query = select(AssetKeyTable.c.asset_key, wiped).where(AssetKeyTable.c.asset_key.in_(keys), wiped.is_not(None))
    with storage.index_connection() as connection:
        return {keys[key]: time.replace(tzinfo=UTC).timestamp() for key, time in connection.execute(query)}


def remove_partitions(storage: EventLogStorage, name: str, assets: Sequence[AssetKey], keys: Sequence[str]) -> int:
    """Remove the existing ones of these partitions from the set `name`; returns their number.

    Dagster can delete a partition's key, one at a time, and keeps its events, which some pages still count. The
    batching storages remove both. The events of runs stay if Dagster keeps each run in a file of its own. Raises as the
    storage.
    """
    existing = sorted(storage.get_existing_dynamic_partitions(name, keys))
    if existing and isinstance(storage, BatchingEventLog):
        storage.remove_partitions(name, assets, existing)
    else:
        for key in existing:
            storage.delete_dynamic_partition(name, key)
    return len(existing)
