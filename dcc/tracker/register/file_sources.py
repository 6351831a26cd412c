"""The register of sources: where the archives of centres are collected.

Plain functions on a connection; those that write expect the caller's write transaction
(`dcc.databases.transactions.writing`). An access key is stored as given, so a reference (`env:NAME`, `file:PATH`,
`key:PATH`) is better than a secret; entries for display never contain a secret.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pydantic import SecretStr
from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.engine import Row

from dcc.databases.transactions import insert_rows
from dcc.errors import ConfigurationError
from dcc.messages import Message
from dcc.runtime.clock import utc_now
from dcc.runtime.json_values import fields_of
from dcc.sources.access import parse_hostname
from dcc.sources.base import PLAIN, Extent, SourceAddress, label_of
from dcc.sources.crawl_policy import Pause, shown_age
from dcc.sources.host_keys import HostKey
from dcc.sources.protocols import PROTOCOLS, available_protocols
from dcc.tracker.models import FileSource, FileSourceHasZip, HostKeyRow, ProtocolRow, ZipDownload
from dcc.tracker.register.centres import require_centre
from dcc.tracker.register.column_texts import require_fit, shown_accesskey
from dcc.tracker.register.source_addresses import (
    SOURCES,
    TlsTrust,
    extent_columns,
    extent_of,
    load_addresses,
    pin_host_keys,
    require_source,
    trust_certificates,
    trusted_certificates,
)
from dcc.tracker.register.source_schedules import policy_columns, policy_of
from dcc.tracker.submission_rows import group_pairs, object_of
from dcc.vocabulary import DeltaStrategy, SourceState

_FIRST_ADDED_PROTOCOL: Final = 1000
"""The first id in `source_protocol` for protocols of installed packages: smaller ones are the platform's."""


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """A registered source for display: `accesskey` is a reference, `***` or empty.

    `hosted` counts the submissions that it hosts now; `fingerprints` are those of its accepted host keys,
    `tls_fingerprints` of its accepted certificates, `tls_authorities` of the authorities trusted for it alone. `every`,
    `windows` and `schedule` are those of its `dcc.sources.crawl_policy.CrawlPolicy` as text, empty for none; `pause` is
    one that holds now.
    """

    id: int
    centre: str
    protocol: str
    hostname: str
    username: str
    accesskey: str
    base_path: str
    state: SourceState
    centre_active: bool
    created: datetime
    hosted: int
    fingerprints: tuple[str, ...]
    tls_authorities: tuple[str, ...] = ()
    tls_fingerprints: tuple[str, ...] = ()
    delta: DeltaStrategy = DeltaStrategy.ADDITIVE
    extent: Extent = PLAIN
    every: str = ""
    windows: str = ""
    schedule: str = ""
    pause: Pause | None = None

    @property
    def address(self) -> str:
        """Where it is: `sftp://sftp.example.org/impc`."""
        return f"{self.protocol}://{self.hostname}{self.base_path}"

    @property
    def label(self) -> Message:
        """It in messages, with its number."""
        return label_of(self.id, self.centre, self.protocol, self.hostname)


def add_source(
    connection: Connection, address: SourceAddress, host_keys: Sequence[HostKey] = (), tls: TlsTrust | None = None
) -> int:
    """Register a source, available, with its accepted host keys and certificates; returns its id.

    The id and the trust in `address` are ignored. Raises as `check_new_source`.
    """
    row = {
        "centre_id": check_new_source(connection, address),
        "protocol_id": _protocol_id(connection, address.protocol) or _add_protocol(connection, address.protocol),
        "hostname": address.hostname,
        "username": address.username,
        "delta": address.delta,
        **extent_columns(address.extent),
        "accesskey": address.accesskey.get_secret_value(),
        "base_path": address.base_path or None,
        "state_id": SourceState.AVAILABLE,
        "created": utc_now(),
    }
    source_id = insert_rows(connection, FileSource.__table__, [row])[0]
    pin_host_keys(connection, source_id, host_keys)
    trust_certificates(connection, source_id, tls or TlsTrust())
    return source_id


def check_new_source(connection: Connection, address: SourceAddress) -> int:
    """Check whether a source could be registered; returns the id of its centre.

    Raises NotFoundError for an unknown centre, ConfigurationError for an unknown protocol, a text that the tracker
    cannot hold and a source that is registered already.
    """
    centre_id = require_centre(connection, address.centre)
    given = fields_of(address, "hostname", "username", "base_path")
    require_fit(FileSource, {**given, "accesskey": address.accesskey.get_secret_value()})
    spoken = available_protocols()
    if address.protocol not in spoken:
        raise ConfigurationError(
            f"Nothing that is installed speaks the protocol {address.protocol}. Use one of {', '.join(spoken)}."
        )
    protocol_id = _protocol_id(connection, address.protocol)
    if protocol_id is None and address.protocol in PROTOCOLS:
        raise ConfigurationError(f"The tracker does not know the protocol {address.protocol!s}. Run `dcc init`.")
    twin = connection.scalar(
        select(FileSource.id).where(
            FileSource.centre_id == centre_id,
            FileSource.protocol_id == protocol_id,
            FileSource.hostname == address.hostname,
            FileSource.username == address.username,
            func.coalesce(FileSource.base_path, "") == address.base_path,
            FileSource.state_id != SourceState.REMOVED,
        )
    )
    if twin is not None:
        raise ConfigurationError(
            f"The same server, user and base path are registered as file source {twin} already. "
            f"Correct it with `dcc source change {twin}`, or register it again after `dcc source remove {twin}`."
        )
    return centre_id


def sources_of_same_place(connection: Connection, address: SourceAddress) -> list[tuple[int, str]]:
    """The other sources, by id and centre, that list the same folder of the same server as the same user."""
    others = select(FileSource.id).where(
        FileSource.id != address.id,
        FileSource.username == address.username,
        FileSource.state_id != SourceState.REMOVED,
    )
    place = _place(address)
    addresses = load_addresses(connection, ids=connection.scalars(others).all(), only_crawlable=False)
    return [(other.id, other.centre) for other in addresses if _place(other) == place]


def _place(address: SourceAddress) -> tuple[str, object, str]:
    traits, path = address.traits, address.base_path
    server = _server(address) if traits.has_server else ""
    return address.protocol, server, os.path.realpath(path) if traits.is_local else posixpath.normpath(path)


def _server(address: SourceAddress) -> object:
    """A server's name and port; of a name that only an installed package understands, the name."""
    try:
        return parse_hostname(address.hostname.casefold(), address.traits.usual_port)
    except ConfigurationError:
        return address.hostname


def _protocol_id(connection: Connection, protocol: str) -> int | None:
    return connection.scalar(select(ProtocolRow.id).where(ProtocolRow.short_name == protocol))


def _add_protocol(connection: Connection, protocol: str) -> int:
    highest = connection.scalar(select(func.max(ProtocolRow.id))) or 0
    added = max(highest + 1, _FIRST_ADDED_PROTOCOL)
    row = {"id": added, "short_name": protocol, "description": "Spoken by an installed package."}
    connection.execute(insert(ProtocolRow), [row])
    return added


def list_sources(connection: Connection, ids: Sequence[int] | None = None) -> list[SourceEntry]:
    """All file sources, or those of `ids`, by id. Raises NotFoundError for an id that does not exist."""
    hosting = FileSourceHasZip.file_source_id
    counts = select(hosting, func.count().label("hosted")).where(FileSourceHasZip.gone_since.is_(None))
    if ids is not None:
        counts = counts.where(hosting.in_(ids))
    hosted = counts.group_by(hosting).subquery()
    query = SOURCES.add_columns(func.coalesce(hosted.c.hosted, 0).label("hosted"))
    query = query.outerjoin(hosted, hosted.c.file_source_id == FileSource.id)
    if ids is not None:
        query = query.where(FileSource.id.in_(ids))
    keys = select(HostKeyRow.file_source_id, HostKeyRow.fingerprint).order_by(HostKeyRow.id)
    fingerprints = group_pairs(connection.execute(keys))
    trusted = trusted_certificates(connection)
    entries = [_entry(row, fingerprints[row.id], trusted.get(row.id, TlsTrust())) for row in connection.execute(query)]
    missing = set(ids or ()) - {entry.id for entry in entries}
    if missing:
        require_source(connection, min(missing))
    return entries


def _entry(row: Row[tuple[object, ...]], fingerprints: Sequence[str], tls: TlsTrust) -> SourceEntry:
    policy = policy_of(row)
    return object_of(
        SourceEntry,
        row,
        accesskey=shown_accesskey(SecretStr(row.accesskey)),
        base_path=row.base_path or "",
        fingerprints=tuple(fingerprints),
        tls_authorities=tuple(authority.fingerprint for authority in tls.authorities or ()),
        tls_fingerprints=tuple(tls.fingerprints or ()),
        delta=DeltaStrategy(row.delta),
        extent=extent_of(row),
        every=shown_age(policy.every) if policy.every else "",
        windows=policy.windows.text if policy.windows else "",
        schedule=policy.schedule.text if policy.schedule else "",
        pause=policy.pause if policy.pause and (policy.pause.until is None or policy.pause.until > utc_now()) else None,
    )


def set_source_state(connection: Connection, source_id: int, state: SourceState) -> None:
    """Set the state of a file source. Raises NotFoundError."""
    require_source(connection, source_id)
    connection.execute(update(FileSource).where(FileSource.id == source_id).values(state_id=state))


def change_source(
    connection: Connection,
    source_id: int,
    *,
    hostname: str | None = None,
    username: str | None = None,
    accesskey: SecretStr | None = None,
    base_path: str | None = None,
    delta: DeltaStrategy | None = None,
    extent: Extent | None = None,
    tls: TlsTrust | None = None,
    every: str | None = None,
    windows: str | None = None,
    schedule: str | None = None,
) -> None:
    """Change how a source is reached and listed, and when; None leaves a value.

    Raises NotFoundError and ConfigurationError.
    """
    require_source(connection, source_id)
    secret = None if accesskey is None else accesskey.get_secret_value()
    values = {"hostname": hostname, "username": username, "accesskey": secret, "base_path": base_path, "delta": delta}
    given: dict[str, object] = {name: value for name, value in values.items() if value is not None}
    given |= {} if extent is None else extent_columns(extent)
    given |= policy_columns(every, windows, schedule)
    require_fit(FileSource, given)
    # Failures before the last change do not count, whatever was changed.
    changed = given | {"last_update": func.current_timestamp()}
    connection.execute(update(FileSource).where(FileSource.id == source_id).values(changed))
    trust_certificates(connection, source_id, tls or TlsTrust())


def purge_source(connection: Connection, source_id: int) -> int:
    """Delete a source with its hostings, download attempts and their documents; submissions stay.

    Returns the number of deleted download attempts. Raises NotFoundError.
    """
    require_source(connection, source_id)
    downloads = connection.scalar(
        select(func.count())
        .select_from(ZipDownload)
        .join(FileSourceHasZip)
        .where(FileSourceHasZip.file_source_id == source_id)
    )
    connection.execute(delete(FileSource).where(FileSource.id == source_id))
    return downloads or 0
