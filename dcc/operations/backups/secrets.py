"""Access keys taken out of the tracker of a set, for sets that others may see."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from dcc.databases.database import Database
from dcc.operations.backups.database_files import fsync, open_file
from dcc.operations.backups.rows import Progress, TableSum, count_rows, sum_tables

LEFT_OUT_KEY: Final = "env:LEFT_OUT_OF_BACKUP"
"""What stands in place of a secret: a source with it says that this variable is not set."""

_REFERENCES: Final = ("env:", "file:")


def remove_secrets(path: Path, database: Database, on_progress: Progress) -> dict[str, TableSum]:
    """Take every secret out of the tracker in a file, and from its free pages; the rows and checksums afterwards.

    What only refers to a secret (`env:`, `file:`, `key:`) stays, as `resolve_accesskey` tells it. Raises sqlite3.Error.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA secure_delete = ON")
        file.create_function("is_secret", 1, _is_secret, deterministic=True)
        file.execute("UPDATE file_source SET accesskey = ? WHERE is_secret(accesskey)", (LEFT_OUT_KEY,))
        file.execute("VACUUM")
    fsync(path)
    with open_file(path, database) as connection:
        total = count_rows(connection, database)
        return sum_tables(connection, database, f"rows of the {database.name} without secrets", on_progress, total)


def _is_secret(accesskey: object) -> bool:
    # In Python, for LIKE does not tell `Key:` from `key:`.
    if not accesskey:
        return False
    text = str(accesskey)
    if text.startswith("key:"):
        _, named, passphrase = text.partition("?passphrase=")
        return bool(named) and bool(passphrase) and not passphrase.startswith(_REFERENCES)
    return not text.startswith(_REFERENCES)
