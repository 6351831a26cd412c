"""Sources with their addresses, credentials and trust, ready to connect to.

Trust is accepted SSH host keys and TLS certificates, of authorities or the server's own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import SecretStr
from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, func, or_, select, update

from dcc.databases.columns import UtcDateTime
from dcc.databases.list_parameters import IDS
from dcc.databases.transactions import insert_rows
from dcc.errors import NotFoundError
from dcc.runtime.clock import utc_now
from dcc.sources.base import Extent, SourceAddress
from dcc.sources.certificates import Authority, parse_fingerprint
from dcc.sources.crawl_policy import Windows
from dcc.sources.host_keys import HostKey
from dcc.tracker.models import Centre, FileSource, FileSourceHasZip, HostKeyRow, ProtocolRow, TlsCertificate
from dcc.tracker.submission_rows import group_pairs, object_of
from dcc.vocabulary import DeltaStrategy, SourceState


def require_source(connection: Connection, source_id: int) -> None:
    """Raise NotFoundError unless a file source exists."""
    if connection.scalar(select(FileSource.id).where(FileSource.id == source_id)) is None:
        raise NotFoundError(f"No file source {source_id} exists. See `dcc source list`.")


def in_use(centre: Any = Centre) -> ColumnElement[bool]:
    """Whether a source is used, as a condition with its state and its centre, as `centre` if that is an alias.

    It is available and not paused at present, and its centre is active.
    """
    return and_(FileSource.state_id == SourceState.AVAILABLE, ~is_paused(), centre.is_active.is_(True))


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
    query = _CRAWLABLE if only_crawlable else SOURCES
    if ids is not None:
        query = query.where(FileSource.id.in_(IDS))
    keys = group_pairs(
        (row.file_source_id, f"{row.key_type} {row.key_base64}") for row in connection.execute(_HOST_KEYS)
    )
    trusted = trusted_certificates(connection)
    addresses = []
    for row in connection.execute(query, {"ids": ids}):
        trust = trusted.get(row.id, TlsTrust())
        address = object_of(
            SourceAddress,
            row,
            accesskey=SecretStr(row.accesskey),
            base_path=row.base_path or "",
            host_keys=tuple(keys[row.id]),
            tls_authorities=tuple(authority.pem for authority in trust.authorities or ()),
            tls_fingerprints=tuple(trust.fingerprints or ()),
            delta=DeltaStrategy(row.delta),
            extent=extent_of(row),
            windows=Windows.parse(row.crawl_windows) if row.crawl_windows else None,
        )
        addresses.append(address)
    return addresses


def pinned_keys(connection: Connection, source_id: int) -> list[HostKey]:
    """The accepted host keys of a file source."""
    of_source = HostKeyRow.file_source_id == source_id
    query = select(HostKeyRow.key_type, HostKeyRow.key_base64).where(of_source).order_by(HostKeyRow.id)
    return [HostKey(*row) for row in connection.execute(query)]


def pin_host_keys(connection: Connection, source_id: int, keys: Sequence[HostKey]) -> None:
    """Replace the accepted host keys of a source by `keys`; its failures so far do not count any more."""
    changed = update(FileSource).where(FileSource.id == source_id).values(last_update=func.current_timestamp())
    connection.execute(changed)
    connection.execute(delete(HostKeyRow).where(HostKeyRow.file_source_id == source_id))
    of_source: dict[str, object] = {"file_source_id": source_id, "created": utc_now()}
    rows = [
        of_source | {"key_type": key.type, "key_base64": key.base64, "fingerprint": key.fingerprint} for key in keys
    ]
    insert_rows(connection, HostKeyRow, rows)


@dataclass(frozen=True, slots=True)
class TlsTrust:
    """Trust in a source; None leaves a part as it is, an empty value removes it.

    `fingerprints` are those of the server's own certificate (see `dcc.sources.certificates`).
    """

    authorities: Sequence[Authority] | None = None
    fingerprints: Sequence[str] | None = None


def trusted_certificates(connection: Connection) -> dict[int, TlsTrust]:
    """The trust in each source that has any, by its id."""
    found: dict[int, tuple[list[Authority], list[str]]] = {}
    for source_id, fingerprint, pem in connection.execute(_TRUSTED):
        authorities, fingerprints = found.setdefault(source_id, ([], []))
        if pem is None:
            fingerprints.append(fingerprint)
        else:
            authorities.append(Authority(pem, fingerprint))
    return {source_id: TlsTrust(*parts) for source_id, parts in found.items()}


def trust_certificates(connection: Connection, source_id: int, trust: TlsTrust) -> None:
    """Replace the trusted certificates of a source. Raises ConfigurationError."""
    now = utc_now()
    rows: list[dict[str, object]] = []
    of_source = TlsCertificate.file_source_id == source_id
    if trust.authorities is not None:
        connection.execute(delete(TlsCertificate).where(of_source, TlsCertificate.authority_pem.is_not(None)))
        rows += [
            {"fingerprint": authority.fingerprint, "authority_pem": authority.pem} for authority in trust.authorities
        ]
    if trust.fingerprints is not None:
        connection.execute(delete(TlsCertificate).where(of_source, TlsCertificate.authority_pem.is_(None)))
        given = dict.fromkeys(parse_fingerprint(text) for text in trust.fingerprints)
        rows += [{"fingerprint": fingerprint, "authority_pem": None} for fingerprint in given]
    insert_rows(connection, TlsCertificate, [row | {"file_source_id": source_id, "created": now} for row in rows])


PRESENT_HOSTINGS: Final = (
    select(FileSourceHasZip.id)
    .join(FileSource)
    .where(FileSourceHasZip.gone_since.is_(None), FileSource.state_id == SourceState.AVAILABLE)
)
"""The hostings that are not gone, at available sources."""

SOURCES: Final = (
    select(
        FileSource,
        Centre.short_name.label("centre"),
        Centre.is_active.label("centre_active"),
        ProtocolRow.short_name.label("protocol"),
        FileSource.state_id.label("state"),
    )
    .join(Centre, Centre.id == FileSource.centre_id)
    .join(ProtocolRow)
    .order_by(FileSource.id)
)
_CRAWLABLE: Final = SOURCES.where(in_use())
_HOST_KEYS: Final = select(HostKeyRow.file_source_id, HostKeyRow.key_type, HostKeyRow.key_base64).order_by(
    HostKeyRow.id
)
_TRUSTED: Final = select(
    TlsCertificate.file_source_id, TlsCertificate.fingerprint, TlsCertificate.authority_pem
).order_by(TlsCertificate.id)
