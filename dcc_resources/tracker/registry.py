"""The register of centres and file sources: who takes part and where their archives are collected.

Plain functions on a connection; those that write expect the caller's write transaction
(`dcc_resources.tracker.database.writing`). An access key is stored as given, so better as a reference (`env:NAME`,
`file:PATH`, `key:PATH`) than as a secret; what is handed out for showing never holds a secret.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from pydantic import SecretStr
from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.engine import Row

from dcc_resources.errors import ConfigurationError, NotFoundError
from dcc_resources.file_sources.base import SourceAddress, SourceProtocol
from dcc_resources.settings import LANGUAGE_CODE
from dcc_resources.tracker.database import insert_rows
from dcc_resources.tracker.models import (
    Centre,
    FileSource,
    FileSourceHasZip,
    HostKey,
    ProtocolRow,
    ResourceStateRow,
    ZipDownload,
    utc_now,
)
from dcc_resources.tracker.pinned_keys import PinnedKey, pin_host_keys
from dcc_resources.tracker.reference import KNOWN_CENTRES
from dcc_resources.tracker.trusted_certificates import TlsTrust, trust_certificates, trusted_certificates

MASK = "***"
_CODE = re.compile(r"[A-Za-z_]{1,32}")
_LANGUAGE = re.compile(LANGUAGE_CODE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_REFERENCE = re.compile(r"(?:env|file|key):")
_PASSPHRASE = re.compile(r"(passphrase=)(?!env:|file:)[^&]*")


class SourceState(StrEnum):
    """States of a file source, as in the tracker's `resource_state`; only available ones are crawled."""

    AVAILABLE = "available"
    MAINTENANCE = "maintenance"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class NewCentre:
    """A centre to register. An empty `full_name` and a missing `imits_name` are taken from the known centres.

    `language` is the code of the language that it is written to in; None: that of DCC_LANGUAGE.
    """

    short_name: str
    full_name: str = ""
    imits_name: str | None = None
    email: str = ""
    phone: str | None = None
    address: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class CentreEntry:
    """A registered centre; `sources` counts its file sources that are not removed."""

    short_name: str
    imits_name: str | None
    full_name: str
    email: str
    phone: str | None
    address: str | None
    is_active: bool
    created: datetime
    sources: int
    language: str | None = None


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """A registered file source as it may be shown: `accesskey` is a reference, `***` or empty.

    `hosted` counts the zip actions that it hosts at present; `fingerprints` are those of its accepted host keys,
    `tls_fingerprints` of its accepted certificates, `tls_authorities` of the authorities trusted for it alone.
    """

    id: int
    centre: str
    protocol: SourceProtocol
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


def add_centre(connection: Connection, centre: NewCentre) -> int:
    """Register a centre, active; returns its id.

    Raises ConfigurationError for a code that file names cannot hold, a missing full name, a text that the tracker
    cannot hold or a centre that is registered already.
    """
    return insert_rows(connection, Centre.__table__, [check_new_centre(connection, centre)])[0]


def check_new_centre(connection: Connection, centre: NewCentre) -> dict[str, object]:
    """See whether a centre could be registered; returns its row. Raises what `add_centre` raises."""
    if not _CODE.fullmatch(centre.short_name):
        raise ConfigurationError(
            f"{centre.short_name!r} is no centre code: 1 to 32 letters and underscores, as in the names of the "
            "centre's files. Use the centre's ILAR code."
        )
    known = {known.short_name: known for known in KNOWN_CENTRES}.get(centre.short_name)
    full_name = centre.full_name or (known.full_name if known else "")
    if not full_name:
        raise ConfigurationError(
            f"Centre {centre.short_name!r} is not among the known ones, so its full name is needed: --name."
        )
    _fits("full name", full_name, 128)
    _fits("iMits name", centre.imits_name, 32)
    _fits("e-mail address", centre.email, 128)
    _fits("phone number", centre.phone, 14)
    _fits("address", centre.address, 256)
    if connection.scalar(select(Centre.id).where(Centre.short_name == centre.short_name)) is not None:
        raise ConfigurationError(
            f"Centre {centre.short_name} is registered already. See `dcc centre list`; `dcc centre activate "
            f"{centre.short_name}` if it was deactivated."
        )
    return {
        "short_name": centre.short_name,
        "imits_name": centre.imits_name or (known.imits_name if known else None),
        "full_name": full_name,
        "email": centre.email,
        "phone": centre.phone,
        "address": centre.address,
        "language": _language(centre.language),
        "is_active": True,
        "created": utc_now(),
    }


def list_centres(connection: Connection) -> list[CentreEntry]:
    """All centres, by code."""
    removed = select(ResourceStateRow.id).where(ResourceStateRow.short_name == SourceState.REMOVED)
    counted = (
        select(FileSource.centre_id, func.count().label("sources"))
        .where(FileSource.state_id.not_in(removed))
        .group_by(FileSource.centre_id)
        .subquery()
    )
    query = (
        select(Centre, func.coalesce(counted.c.sources, 0).label("sources"))
        .outerjoin(counted, counted.c.centre_id == Centre.id)
        .order_by(Centre.short_name)
    )
    return [
        CentreEntry(
            short_name=row.short_name,
            imits_name=row.imits_name,
            full_name=row.full_name,
            email=row.email,
            phone=row.phone,
            address=row.address,
            is_active=bool(row.is_active),
            created=row.created,
            sources=row.sources,
            language=row.language,
        )
        for row in connection.execute(query)
    ]


def change_centre(
    connection: Connection,
    short_name: str,
    *,
    full_name: str | None = None,
    imits_name: str | None = None,
    email: str | None = None,
    phone: str | None = None,
    address: str | None = None,
    language: str | None = None,
) -> None:
    """Change what is known of a centre; what is None stays, an empty text takes away what need not be there.

    Raises NotFoundError, and ConfigurationError for a text that the tracker cannot hold or an empty full name.
    """
    centre_id = _centre_id(connection, short_name)
    if full_name == "":
        raise ConfigurationError(f"Centre {short_name} needs a full name. Give one with --name, or leave that out.")
    _fits("full name", full_name, 128)
    _fits("iMits name", imits_name, 32)
    _fits("e-mail address", email, 128)
    _fits("phone number", phone, 14)
    _fits("address", address, 256)
    optional = {"imits_name": imits_name, "phone": phone, "address": address, "language": _language(language)}
    values = {name: text or None for name, text in optional.items() if text is not None}
    values |= {name: text for name, text in (("full_name", full_name), ("email", email)) if text is not None}
    if values:
        connection.execute(update(Centre).where(Centre.id == centre_id).values(values))


def set_centre_active(connection: Connection, short_name: str, active: bool) -> None:
    """Activate or deactivate a centre: only active centres' sources are crawled. Raises NotFoundError."""
    centre_id = _centre_id(connection, short_name)
    connection.execute(update(Centre).where(Centre.id == centre_id).values(is_active=active))


def add_source(
    connection: Connection, address: SourceAddress, host_keys: Sequence[PinnedKey] = (), tls: TlsTrust | None = None
) -> int:
    """Register a file source, available, with its accepted host keys and certificates; returns its id.

    Of `address`, `id` and what is trusted are not used. Raises what `check_new_source` raises.
    """
    centre_id, protocol_id = check_new_source(connection, address)
    row = {
        "centre_id": centre_id,
        "protocol_id": protocol_id,
        "hostname": address.hostname,
        "username": address.username,
        "accesskey": address.accesskey.get_secret_value(),
        "base_path": address.base_path or None,
        "state_id": _state_id(connection, SourceState.AVAILABLE),
        "created": utc_now(),
    }
    source_id = insert_rows(connection, FileSource.__table__, [row])[0]
    pin_host_keys(connection, source_id, host_keys)
    trust_certificates(connection, source_id, tls or TlsTrust())
    return source_id


def check_new_source(connection: Connection, address: SourceAddress) -> tuple[int, int]:
    """See whether a file source could be registered; returns the ids of its centre and protocol.

    Raises NotFoundError for an unknown centre, ConfigurationError for text that the tracker cannot hold and for a
    source that is registered already.
    """
    centre_id = _centre_id(connection, address.centre)
    _fits("host name", address.hostname, 512)
    _fits("user name", address.username, 128)
    _fits("access key", address.accesskey.get_secret_value(), 256, secret=True)
    _fits("base path", address.base_path, 256)
    protocol_id = connection.scalar(select(ProtocolRow.id).where(ProtocolRow.short_name == address.protocol))
    if protocol_id is None:
        raise ConfigurationError(f"The tracker does not know the protocol {address.protocol!s}. Run `dcc init`.")
    twin = connection.scalar(
        select(FileSource.id)
        .join(ResourceStateRow, ResourceStateRow.id == FileSource.state_id)
        .where(
            FileSource.centre_id == centre_id,
            FileSource.protocol_id == protocol_id,
            FileSource.hostname == address.hostname,
            FileSource.username == address.username,
            func.coalesce(FileSource.base_path, "") == address.base_path,
            ResourceStateRow.short_name != SourceState.REMOVED,
        )
    )
    if twin is not None:
        raise ConfigurationError(
            f"The same server, user and base path are registered as file source {twin} already. "
            f"Correct it with `dcc source change {twin}`, or register it anew after `dcc source remove {twin}`."
        )
    return centre_id, protocol_id


def list_sources(connection: Connection, ids: Sequence[int] | None = None) -> list[SourceEntry]:
    """All file sources, or those of `ids`, by id. Raises NotFoundError for an id that does not exist."""
    hosted = (
        select(FileSourceHasZip.file_source_id, func.count().label("hosted"))
        .where(FileSourceHasZip.gone_since.is_(None))
        .group_by(FileSourceHasZip.file_source_id)
        .subquery()
    )
    query = (
        select(
            FileSource,
            Centre.short_name.label("centre"),
            Centre.is_active.label("centre_active"),
            ProtocolRow.short_name.label("protocol"),
            ResourceStateRow.short_name.label("state"),
            func.coalesce(hosted.c.hosted, 0).label("hosted"),
        )
        .join(Centre, Centre.id == FileSource.centre_id)
        .join(ProtocolRow, ProtocolRow.id == FileSource.protocol_id)
        .join(ResourceStateRow, ResourceStateRow.id == FileSource.state_id)
        .outerjoin(hosted, hosted.c.file_source_id == FileSource.id)
        .order_by(FileSource.id)
    )
    if ids is not None:
        query = query.where(FileSource.id.in_(ids))
    fingerprints: dict[int, list[str]] = {}
    for source_id, fingerprint in connection.execute(
        select(HostKey.file_source_id, HostKey.fingerprint).order_by(HostKey.id)
    ):
        fingerprints.setdefault(source_id, []).append(fingerprint)
    trusted = trusted_certificates(connection)
    entries = [
        _entry(row, fingerprints.get(row.id, []), trusted.get(row.id, TlsTrust())) for row in connection.execute(query)
    ]
    missing = set(ids or ()) - {entry.id for entry in entries}
    if missing:
        raise NotFoundError(f"There is no file source {min(missing)}. See `dcc source list`.")
    return entries


def _entry(row: Row[tuple[object, ...]], fingerprints: Sequence[str], tls: TlsTrust) -> SourceEntry:
    return SourceEntry(
        id=row.id,
        centre=row.centre,
        protocol=SourceProtocol(row.protocol),
        hostname=row.hostname,
        username=row.username,
        accesskey=shown_accesskey(SecretStr(row.accesskey)),
        base_path=row.base_path or "",
        state=SourceState(row.state),
        centre_active=bool(row.centre_active),
        created=row.created,
        hosted=row.hosted,
        fingerprints=tuple(fingerprints),
        tls_authorities=tuple(authority.fingerprint for authority in tls.authorities or ()),
        tls_fingerprints=tuple(tls.fingerprints or ()),
    )


def set_source_state(connection: Connection, source_id: int, state: SourceState) -> None:
    """Set the state of a file source. Raises NotFoundError."""
    _existing_source(connection, source_id)
    connection.execute(
        update(FileSource).where(FileSource.id == source_id).values(state_id=_state_id(connection, state))
    )


def change_source(
    connection: Connection,
    source_id: int,
    *,
    hostname: str | None = None,
    username: str | None = None,
    accesskey: SecretStr | None = None,
    base_path: str | None = None,
    tls: TlsTrust | None = None,
) -> None:
    """Change how a file source is reached; what is None stays. Raises NotFoundError, ConfigurationError."""
    _existing_source(connection, source_id)
    _fits("host name", hostname, 512)
    _fits("user name", username, 128)
    _fits("access key", None if accesskey is None else accesskey.get_secret_value(), 256, secret=True)
    _fits("base path", base_path, 256)
    values = {
        "hostname": hostname,
        "username": username,
        "accesskey": None if accesskey is None else accesskey.get_secret_value(),
        "base_path": base_path,
    }
    given = {name: value for name, value in values.items() if value is not None}
    if given:
        connection.execute(update(FileSource).where(FileSource.id == source_id).values(given))
    trust_certificates(connection, source_id, tls or TlsTrust())


def purge_source(connection: Connection, source_id: int) -> int:
    """Delete a file source with its hostings, download attempts and their documents; zip actions stay.

    Returns the number of download attempts deleted. Raises NotFoundError.
    """
    _existing_source(connection, source_id)
    downloads = connection.scalar(
        select(func.count())
        .select_from(ZipDownload)
        .join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
        .where(FileSourceHasZip.file_source_id == source_id)
    )
    connection.execute(delete(FileSource).where(FileSource.id == source_id))
    return downloads or 0


def shown_accesskey(accesskey: SecretStr) -> str:
    """What may be shown of an access key: a reference or the path of an existing file as it is, else `***`."""
    text = accesskey.get_secret_value()
    if _REFERENCE.match(text):
        return _PASSPHRASE.sub(rf"\1{MASK}", text)
    if not text or (text.startswith(("/", "~/")) and Path(text).expanduser().is_file()):
        return text
    return MASK


def _centre_id(connection: Connection, short_name: str) -> int:
    centre_id = connection.scalar(select(Centre.id).where(Centre.short_name == short_name))
    if centre_id is None:
        raise NotFoundError(
            f"There is no centre {short_name!r} (codes are case-sensitive). See `dcc centre list`; "
            f"`dcc centre add {short_name}` registers it."
        )
    return centre_id


def _language(code: str | None) -> str | None:
    if code and not _LANGUAGE.fullmatch(code):
        raise ConfigurationError(f"{code!r} is no code of a language. Give one such as en, de or pt_BR.")
    return code


def _existing_source(connection: Connection, source_id: int) -> None:
    if connection.scalar(select(FileSource.id).where(FileSource.id == source_id)) is None:
        raise NotFoundError(f"There is no file source {source_id}. See `dcc source list`.")


def _state_id(connection: Connection, state: SourceState) -> int:
    return connection.scalars(select(ResourceStateRow.id).where(ResourceStateRow.short_name == state)).one()


def _fits(what: str, text: str | None, length: int, *, secret: bool = False) -> None:
    shown = MASK if secret else repr(text)
    if text is not None and len(text) > length:
        raise ConfigurationError(f"The {what} {shown} has {len(text)} characters; the tracker holds {length}.")
    if text is not None and _CONTROL.search(text):
        raise ConfigurationError(f"The {what} {shown} holds a control character. Give it without.")
