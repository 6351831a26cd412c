"""Who may change the QC database at a time: one upload, withdrawal, decision or build of contexts or overviews.

What is written is committed under the lock. A server may take the rows of documents before (`let_rows_come`), and gives
the lock to nobody else until these are committed or gone: who has the lock meets no rows of others with the next ids.
"""

from __future__ import annotations

import os
import socket
from typing import Any, Final

from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy.dialects import mysql

from dcc.databases.columns import MYSQL_FAMILY, utc_now
from dcc.qc.models import UploadLock

_LOCK: Final = UploadLock.__table__
_ALONE: Final = 1
_TAKE: Final = (
    update(_LOCK)
    .where(_LOCK.c.id == _ALONE)
    .values({name: bindparam(f"new_{name}") for name in ("host", "pid", "acquired")})
)
_ROWS: Final = 4
_AWAIT_ROWS: Final = select(_LOCK.c.id).where(_LOCK.c.id == _ROWS).with_for_update()
_SHARE_ROWS: Final = select(_LOCK.c.id).where(_LOCK.c.id == _ROWS).with_for_update(read=True)
_HOST: Final = socket.gethostname()[:128]


def take_upload_lock(connection: Connection, *, rows_have_come: bool = False) -> None:
    """Wait until nobody else applies documents or builds, and keep others from it until the transaction ends.

    `rows_have_come`: by `let_rows_come`, so that the rows of others, who have to be known, are not waited for.
    """
    if not rows_have_come and connection.dialect.name in MYSQL_FAMILY:
        connection.scalar(_AWAIT_ROWS)
    holder = _holder()
    if connection.execute(_TAKE, {f"new_{name}": value for name, value in holder.items()}).rowcount == 0:
        connection.execute(insert(_LOCK).values(id=_ALONE, **holder))


def let_rows_come(connection: Connection) -> None:
    """Have rows of documents come before the upload lock is taken, by this transaction and others that do this.

    Waits for whoever has the lock otherwise, or has waited for it longer. Without effect on SQLite.
    """
    if connection.dialect.name in MYSQL_FAMILY and connection.scalar(_SHARE_ROWS) is None:
        # Whoever makes the row has it alone until the end of the transaction.
        with connection.engine.begin() as another:
            _write_holder(another, _ROWS)
        connection.scalar(_SHARE_ROWS)


def _write_holder(connection: Connection, row: int) -> None:
    """Lock a row alone, which may not be there yet."""
    own = mysql.insert(_LOCK).values(id=row, **_holder())
    connection.execute(own.on_duplicate_key_update({name: own.inserted[name] for name in ("host", "pid", "acquired")}))


def _holder() -> dict[str, Any]:
    return {"host": _HOST, "pid": os.getpid(), "acquired": utc_now()}
