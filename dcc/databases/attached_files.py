"""SQLite files that a transaction on a SQLite database reads as well."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from sqlalchemy import Connection

MOST_ATTACHED: Final = 8
"""How many files one transaction may read; SQLite permits ten."""

_ATTACHED: Final = "dcc_attached"


def attached(connection: Connection, address: str) -> str:
    """The schema name of the file at an address in the statements of a transaction.

    The file is detached when the connection returns to its pool, because that is impossible within a transaction.
    """
    names: dict[str, str] = connection.info.setdefault(_ATTACHED, {})
    name = names.get(address)
    if name is None:
        name = f"attached_{len(names)}"
        connection.exec_driver_sql(f"ATTACH DATABASE ? AS {name}", (address,))
        names[address] = name
    return name


def detach(connection: sqlite3.Connection | None, record: Any) -> None:
    """Detach the files that a connection's transaction has read; engines call this when a connection returns."""
    names: dict[str, str] = record.info.pop(_ATTACHED, {})
    if connection is not None:
        for name in names.values():
            connection.execute(f"DETACH DATABASE {name}")
