"""Sources with their addresses, credentials and trust, ready to connect to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from pydantic import SecretStr
from sqlalchemy import ColumnElement, Connection, and_, bindparam, or_, select

from dcc.databases.columns import UtcDateTime
from dcc.sources.base import DeltaStrategy, Extent, SourceAddress
from dcc.sources.due import Windows
from dcc.tracker.models import Centre, FileSource, HostKey, ProtocolRow, ResourceStateRow, utc_now
from dcc.tracker.register.source_trust import TlsTrust, trusted_certificates


class SourceState(StrEnum):
    """States of a file source, as in the tracker's `resource_state`; only available ones are crawled."""

    AVAILABLE = "available"
    MAINTENANCE = "maintenance"
    REMOVED = "removed"


def in_use(centre: Any = Centre) -> ColumnElement[bool]:
    """Whether a source is used, as a condition with its state and its centre, as `centre` if that is an alias.

    It is available and not paused at present, and its centre is active.
    """
    return and_(ResourceStateRow.short_name == SourceState.AVAILABLE, ~is_paused(), centre.is_active.is_(True))


def is_paused() -> ColumnElement[bool]:
    """Whether a source is paused when the statement is executed."""
    now = bindparam(None, type_=UtcDateTime(), callable_=utc_now)
    return and_(FileSource.paused.is_not(None), or_(FileSource.paused_until.is_(None), FileSource.paused_until > now))


def extent_of(row: Any) -> Extent:
    """The listed extent of a source, from its row."""
    patterns = (tuple(json.loads(text)) if text else () for text in (row.listed_include, row.listed_exclude))
    return Extent(row.listed_depth, *patterns)


def extent_columns(extent: Extent) -> dict[str, object]:
    """The columns of a source's listed extent."""
    return {
        "listed_depth": extent.depth,
        "listed_include": json.dumps(extent.include) if extent.include else None,
        "listed_exclude": json.dumps(extent.exclude) if extent.exclude else None,
    }


def load_addresses(
    connection: Connection, *, ids: Sequence[int] | None = None, only_crawlable: bool = True
) -> list[SourceAddress]:
    """The sources by id, with their pinned host keys and trusted certificates.

    `only_crawlable` leaves out those that are not `available` or whose centre is not active; `ids` leaves out all
    others.
    """
    query = (
        select(
            FileSource.id,
            Centre.short_name.label("centre"),
            ProtocolRow.short_name.label("protocol"),
            FileSource.hostname,
            FileSource.username,
            FileSource.accesskey,
            FileSource.base_path,
            FileSource.delta,
            FileSource.listed_depth,
            FileSource.listed_include,
            FileSource.listed_exclude,
            FileSource.crawl_windows,
        )
        .join(Centre, Centre.id == FileSource.centre_id)
        .join(ProtocolRow)
        .join(ResourceStateRow)
        .order_by(FileSource.id)
    )
    if only_crawlable:
        query = query.where(in_use())
    if ids is not None:
        query = query.where(FileSource.id.in_(ids))
    keys: dict[int, list[str]] = {}
    for source_id, key_type, key in connection.execute(
        select(HostKey.file_source_id, HostKey.key_type, HostKey.key_base64).order_by(HostKey.id)
    ):
        keys.setdefault(source_id, []).append(f"{key_type} {key}")
    trusted = trusted_certificates(connection)
    return [
        SourceAddress(
            id=row.id,
            centre=row.centre,
            protocol=row.protocol,
            hostname=row.hostname,
            username=row.username,
            accesskey=SecretStr(row.accesskey),
            base_path=row.base_path or "",
            host_keys=tuple(keys.get(row.id, ())),
            tls_authorities=tuple(one.pem for one in trusted.get(row.id, TlsTrust()).authorities or ()),
            tls_fingerprints=tuple(trusted.get(row.id, TlsTrust()).fingerprints or ()),
            delta=DeltaStrategy(row.delta),
            extent=extent_of(row),
            windows=Windows.parse(row.crawl_windows) if row.crawl_windows else None,
        )
        for row in connection.execute(query)
    ]
