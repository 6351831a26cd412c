"""Who may change the QC database at a time: uploads, withdrawals and decisions alone, the two builds together.

What is written is committed under the lock; the rows of documents may be on their way before. Contexts and overviews
are built from what changes only under the upload lock taken alone. Each build writes to tables of its own, and locks
the documents whose flags it writes, so that the two may share the lock; of either there is one at a time. SQLite has
one writer at a time, so that nothing is shared there.
"""

from __future__ import annotations

import os
import socket
from enum import IntEnum
from typing import Any, Final

from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.dialects import mysql

from dcc_resources.databases.columns import MYSQL_FAMILY, utc_now
from dcc_resources.qc_database.models import UploadLock

_LOCK: Final = UploadLock.__table__
_ALONE: Final = 1
_TAKE: Final = (
    update(_LOCK)
    .where(_LOCK.c.id == _ALONE)
    .values({name: bindparam(f"new_{name}") for name in ("host", "pid", "acquired")})
)
_SHARE: Final = select(_LOCK.c.id).where(_LOCK.c.id == _ALONE).with_for_update(read=True)
_HOST: Final = socket.gethostname()[:128]


class Builder(IntEnum):
    """What may share the upload lock, with the row of `upload_lock` that keeps another of its kind from it."""

    CONTEXTS = 2
    OVERVIEWS = 3


def take_upload_lock(connection: Connection) -> None:
    """Wait until nobody else applies documents or builds, and keep others from it until the transaction ends.

    Not for a transaction that shares the lock: two of them would wait for each other.
    """
    holder = _holder()
    if connection.execute(_TAKE, {f"new_{name}": value for name, value in holder.items()}).rowcount == 0:
        connection.execute(insert(_LOCK).values(id=_ALONE, **holder))


def share_upload_lock(connection: Connection, builder: Builder) -> None:
    """As `take_upload_lock`, but another kind of builder may go on meanwhile, where the database is a server."""
    if connection.dialect.name not in MYSQL_FAMILY:
        take_upload_lock(connection)
        return
    # A build that waits for one of its kind does not hold up uploads yet.
    own = mysql.insert(_LOCK).values(id=builder.value, **_holder())
    connection.execute(own.on_duplicate_key_update({name: own.inserted[name] for name in ("host", "pid", "acquired")}))
    if connection.scalar(_SHARE) is None:
        take_upload_lock(connection)


def _holder() -> dict[str, Any]:
    return {"host": _HOST, "pid": os.getpid(), "acquired": utc_now()}
