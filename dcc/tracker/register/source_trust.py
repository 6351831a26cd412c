"""Trust in sources: accepted SSH host keys and TLS certificates, of authorities or the server's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from sqlalchemy import Connection, delete, func, select, update

from dcc.sources import host_keys
from dcc.sources.certificates import Authority, parse_fingerprint
from dcc.tracker.database import insert_rows
from dcc.tracker.models import FileSource, HostKey, TlsCertificate, utc_now


@dataclass(frozen=True, slots=True)
class PinnedKey:
    """An SSH host key that was accepted for a file source; `fingerprint` as OpenSSH prints it."""

    key_type: str
    key_base64: str
    fingerprint: str

    @classmethod
    def of(cls, shown: host_keys.HostKey) -> Self:
        """The key of a server, to be pinned."""
        return cls(shown.type, shown.base64, shown.fingerprint)


def pinned_keys(connection: Connection, source_id: int) -> list[PinnedKey]:
    """The accepted host keys of a file source."""
    query = (
        select(HostKey.key_type, HostKey.key_base64, HostKey.fingerprint)
        .where(HostKey.file_source_id == source_id)
        .order_by(HostKey.id)
    )
    return [PinnedKey(*row) for row in connection.execute(query)]


def pin_host_keys(connection: Connection, source_id: int, keys: Sequence[PinnedKey]) -> None:
    """Replace the accepted host keys of a source by `keys`; its failures so far do not count any more."""
    changed = update(FileSource).where(FileSource.id == source_id).values(last_update=func.current_timestamp())
    connection.execute(changed)
    connection.execute(delete(HostKey).where(HostKey.file_source_id == source_id))
    now = utc_now()
    rows = [
        {
            "file_source_id": source_id,
            "key_type": key.key_type,
            "key_base64": key.key_base64,
            "fingerprint": key.fingerprint,
            "created": now,
        }
        for key in keys
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
    query = select(TlsCertificate.file_source_id, TlsCertificate.fingerprint, TlsCertificate.authority_pem).order_by(
        TlsCertificate.id
    )
    found: dict[int, tuple[list[Authority], list[str]]] = {}
    for source_id, fingerprint, pem in connection.execute(query):
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
        rows += [{"fingerprint": one.fingerprint, "authority_pem": one.pem} for one in trust.authorities]
    if trust.fingerprints is not None:
        connection.execute(delete(TlsCertificate).where(of_source, TlsCertificate.authority_pem.is_(None)))
        given = dict.fromkeys(parse_fingerprint(text) for text in trust.fingerprints)
        rows += [{"fingerprint": fingerprint, "authority_pem": None} for fingerprint in given]
    insert_rows(connection, TlsCertificate, [row | {"file_source_id": source_id, "created": now} for row in rows])
