"""What both batching storages share: Dagster's tables about assets and checks, updated for a batch of events."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping

from dagster import EventLogEntry
from dagster._core.events import ASSET_CHECK_EVENTS, ASSET_EVENTS
from dagster._core.storage.event_log import SqlEventLogStorage
from sqlalchemy.engine import Connection


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
