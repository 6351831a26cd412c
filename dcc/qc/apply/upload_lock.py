"""Who may change the QC database at a time: one upload, withdrawal, decision or build of contexts or overviews."""

from __future__ import annotations

import os
import socket
from typing import Any, Final

from sqlalchemy import Connection, bindparam, insert, update

from dcc.databases.columns import utc_now
from dcc.qc.models import UploadLock

_LOCK: Final = UploadLock.__table__
_ALONE: Final = 1
_TAKE: Final = (
    update(_LOCK)
    .where(_LOCK.c.id == _ALONE)
    .values({name: bindparam(f"new_{name}") for name in ("host", "pid", "acquired")})
)
_HOST: Final = socket.gethostname()[:128]


def take_upload_lock(connection: Connection) -> None:
    """Wait until nobody else applies documents or builds, and keep others from it until the transaction ends."""
    holder = _holder()
    if connection.execute(_TAKE, {f"new_{name}": value for name, value in holder.items()}).rowcount == 0:
        connection.execute(insert(_LOCK).values(id=_ALONE, **holder))


def _holder() -> dict[str, Any]:
    return {"host": _HOST, "pid": os.getpid(), "acquired": utc_now()}
