"""The SSH host keys that were accepted for a file source: another one is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from sqlalchemy import Connection, delete, select

from dcc.sources import host_keys
from dcc.tracker.database import insert_rows
from dcc.tracker.models import HostKey, utc_now


@dataclass(frozen=True, slots=True)
class PinnedKey:
    """An SSH host key that was accepted for a file source; `fingerprint` as OpenSSH prints it."""

    key_type: str
    key_base64: str
    fingerprint: str

    @classmethod
    def of(cls, shown: host_keys.HostKey) -> Self:
        """The key that a server shows, to be pinned."""
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
    """Make `keys` the accepted host keys of a file source, in place of those accepted before."""
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
    if rows:
        insert_rows(connection, HostKey.__table__, rows)
