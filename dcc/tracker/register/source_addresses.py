"""Sources with their addresses, credentials, trust and schedules; and texts that people enter in the register.

Trust is accepted SSH host keys and TLS certificates, of authorities or the server's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr
from sqlalchemy import (
    ColumnElement,
    Connection,
    ScalarSelect,
    and_,
    bindparam,
    delete,
    func,
    or_,
    select,
    type_coerce,
    update,
)
from sqlalchemy.orm import aliased

from dcc.databases.columns import UtcDateTime
from dcc.databases.transactions import insert_rows
from dcc.errors import ConfigurationError, NotFoundError
from dcc.outcomes import CrawlOutcome
from dcc.sources.base import DeltaStrategy, Extent, SourceAddress
from dcc.sources.certificates import Authority, parse_fingerprint
from dcc.sources.crawl_policy import CrawlDue, CrawlPolicy, PastCrawls, Pause, Schedule, Windows, crawl_due, parse_age
from dcc.sources.host_keys import HostKey as ServerKey
from dcc.tracker.models import (
    Centre,
    FileSource,
    HostKey,
    ProtocolRow,
    ResourceStateRow,
    SourceCrawlRow,
    TlsCertificate,
    utc_now,
)
from dcc.tracker.submission_rows import group_pairs, object_of


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
    query = SOURCES.where(in_use()) if only_crawlable else SOURCES
    if ids is not None:
        query = query.where(FileSource.id.in_(ids))
    keys = group_pairs(
        (row.file_source_id, f"{row.key_type} {row.key_base64}") for row in connection.execute(_HOST_KEYS)
    )
    trusted = trusted_certificates(connection)
    return [
        object_of(
            SourceAddress,
            row,
            accesskey=SecretStr(row.accesskey),
            base_path=row.base_path or "",
            host_keys=tuple(keys[row.id]),
            tls_authorities=tuple(authority.pem for authority in trusted.get(row.id, TlsTrust()).authorities or ()),
            tls_fingerprints=tuple(trusted.get(row.id, TlsTrust()).fingerprints or ()),
            delta=DeltaStrategy(row.delta),
            extent=extent_of(row),
            windows=Windows.parse(row.crawl_windows) if row.crawl_windows else None,
        )
        for row in connection.execute(query)
    ]


def pinned_keys(connection: Connection, source_id: int) -> list[ServerKey]:
    """The accepted host keys of a file source."""
    of_source = HostKey.file_source_id == source_id
    query = select(HostKey.key_type, HostKey.key_base64).where(of_source).order_by(HostKey.id)
    return [ServerKey(*row) for row in connection.execute(query)]


def pin_host_keys(connection: Connection, source_id: int, keys: Sequence[ServerKey]) -> None:
    """Replace the accepted host keys of a source by `keys`; its failures so far do not count any more."""
    changed = update(FileSource).where(FileSource.id == source_id).values(last_update=func.current_timestamp())
    connection.execute(changed)
    connection.execute(delete(HostKey).where(HostKey.file_source_id == source_id))
    of_source: dict[str, object] = {"file_source_id": source_id, "created": utc_now()}
    rows = [
        of_source | {"key_type": key.type, "key_base64": key.base64, "fingerprint": key.fingerprint} for key in keys
    ]
    insert_rows(connection, HostKey, rows)


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


SOURCES: Final = (
    select(
        FileSource,
        Centre.short_name.label("centre"),
        Centre.is_active.label("centre_active"),
        ProtocolRow.short_name.label("protocol"),
        ResourceStateRow.short_name.label("state"),
    )
    .join(Centre, Centre.id == FileSource.centre_id)
    .join(ProtocolRow)
    .join(ResourceStateRow)
    .order_by(FileSource.id)
)
_HOST_KEYS: Final = select(HostKey.file_source_id, HostKey.key_type, HostKey.key_base64).order_by(HostKey.id)
_TRUSTED: Final = select(
    TlsCertificate.file_source_id, TlsCertificate.fingerprint, TlsCertificate.authority_pem
).order_by(TlsCertificate.id)


MASK = "***"
PERSON_LENGTH: Final = 64
"""The most characters of the person who did something; longer names are cut."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_REFERENCE = re.compile(r"(?:env|file|key):")
_PASSPHRASE = re.compile(r"(passphrase=)(?!env:|file:)[^&]*")


def shown_accesskey(accesskey: SecretStr) -> str:
    """An access key for display: a reference or the path of an existing file as it is, else `***`."""
    text = accesskey.get_secret_value()
    if _REFERENCE.match(text):
        return _PASSPHRASE.sub(rf"\1{MASK}", text)
    if not text or (text.startswith(("/", "~/")) and Path(text).expanduser().is_file()):
        return text
    return MASK


def is_plain_password(accesskey: SecretStr) -> bool:
    """Whether an access key is a password itself, neither empty nor a reference."""
    return shown_accesskey(accesskey) == MASK


def require_fit(what: str, text: str | None, length: int, *, secret: bool = False) -> None:
    """Raise ConfigurationError for a text that is longer than its column or holds a control character."""
    shown = MASK if secret else repr(text)
    if text is not None and len(text) > length:
        raise ConfigurationError(f"The {what} {shown} has {len(text)} characters; the tracker holds {length}.")
    if text is not None and _CONTROL.search(text):
        raise ConfigurationError(f"The {what} {shown} holds a control character. Give it without.")


_MINUTE: Final = timedelta(minutes=1)
_CHANGED: Final = type_coerce(FileSource.last_update, UtcDateTime())
_Good = aliased(SourceCrawlRow)


def policy_of(row: Any) -> CrawlPolicy:
    """The policy of a source, from its row."""
    every = None if row.crawl_every is None else row.crawl_every * _MINUTE
    pause = (
        None if row.paused is None else Pause(row.pause_reason or "", row.paused_by or "", row.paused, row.paused_until)
    )
    windows = Windows.parse(row.crawl_windows) if row.crawl_windows else None
    return CrawlPolicy(every, windows, pause, Schedule.parse(row.crawl_schedule) if row.crawl_schedule else None)


def policy_columns(every: str | None, windows: str | None, schedule: str | None) -> dict[str, object]:
    """The columns of an age, of windows and of a schedule; None leaves them, empty text removes them.

    Raises ConfigurationError.
    """
    columns: dict[str, object] = {}
    try:
        if every is not None:
            columns["crawl_every"] = parse_age(every) // _MINUTE if every else None
        if windows is not None:
            columns["crawl_windows"] = Windows.parse(windows).text if windows else None
        if schedule is not None:
            columns["crawl_schedule"] = Schedule.parse(schedule).text if schedule else None
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    return columns


def set_pause(connection: Connection, source_id: int, pause: Pause | None) -> None:
    """Pause a source, or resume it: None. Its failures so far do not count any more. Raises NotFoundError."""
    values = {
        "paused": pause and pause.since,
        "paused_until": pause and pause.until,
        "paused_by": pause and pause.by[:PERSON_LENGTH],
        "pause_reason": pause and pause.reason[:256],
        # Also if nothing else changes, because failures before it do not count.
        "last_update": func.current_timestamp(),
    }
    if not connection.execute(update(FileSource).where(FileSource.id == source_id).values(values)).rowcount:
        raise NotFoundError(f"No file source {source_id} exists. See `dcc source list`.")


def paused_sources(connection: Connection) -> set[int]:
    """The ids of the sources that are paused now."""
    return set(connection.scalars(select(FileSource.id).where(is_paused())))


def load_crawl_dues(
    connection: Connection, failure_limit: int, now: datetime | None = None, *, named: Collection[int] = ()
) -> dict[int, CrawlDue]:
    """Whether each source that is not removed is due, by id; those that a person has `named` override their schedule.

    Failures before the source was last changed do not count.
    """
    now = now or utc_now()
    return {
        row.id: crawl_due(
            policy_of(row),
            PastCrawls(row.listed, row.failures, row.failed, row.changed),
            now,
            failure_limit,
            is_named=row.id in named,
        )
        for row in connection.execute(_DUES)
    }


def _of_last_listing(column: Any) -> ScalarSelect[Any]:
    return (
        select(column)
        .where(_Good.file_source_id == FileSource.id, _Good.outcome != CrawlOutcome.FAILED)
        .order_by(_Good.id.desc())
        .limit(1)
        .correlate(FileSource)
        .scalar_subquery()
    )


def _of_failures(column: Any) -> ScalarSelect[Any]:
    return (
        select(column)
        .where(
            SourceCrawlRow.file_source_id == FileSource.id,
            SourceCrawlRow.id > func.coalesce(_of_last_listing(_Good.id), 0),
            SourceCrawlRow.finish_time >= _CHANGED,
        )
        .correlate(FileSource)
        .scalar_subquery()
    )


_DUES: Final = (
    select(
        FileSource,
        _CHANGED.label("changed"),
        _of_last_listing(_Good.start_time).label("listed"),
        _of_failures(func.count()).label("failures"),
        _of_failures(func.max(SourceCrawlRow.finish_time)).label("failed"),
    )
    .join(ResourceStateRow)
    .where(ResourceStateRow.short_name != SourceState.REMOVED)
    .order_by(FileSource.id)
)
