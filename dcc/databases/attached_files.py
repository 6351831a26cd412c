"""Files of SQLite that a transaction of a database of SQLite reads beside it."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from sqlalchemy import Connection

MOST_ATTACHED: Final = 8
"""How many files one transaction may read; SQLite permits ten."""

_ATTACHED: Final = "dcc_attached"


def attached(connection: Connection, address: str) -> str:
    """The name by which statements of a transaction name what is in the file of an address.

    The file is let go of when the connection goes back to its pool, as none can be within a transaction.
    """
    names: dict[str, str] = connection.info.setdefault(_ATTACHED, {})
    name = names.get(address)
    if name is None:
        name = f"attached_{len(names)}"
        connection.exec_driver_sql(f"ATTACH DATABASE ? AS {name}", (address,))
        names[address] = name
    return name


def detach(connection: sqlite3.Connection | None, record: Any) -> None:
    """Let go of the files that a connection's transaction has read: what an engine does when it comes back."""
    names: dict[str, str] = record.info.pop(_ATTACHED, {})
    if connection is not None:
        for name in names.values():
            connection.execute(f"DETACH DATABASE {name}")
