"""Access keys taken out of the tracker of a set, for sets that others may see."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from dcc_resources.backups.database_files import fsync, open_file
from dcc_resources.backups.rows import Progress, TableSum, count_rows, sum_tables
from dcc_resources.databases.description import Database

LEFT_OUT_KEY: Final = "env:LEFT_OUT_OF_BACKUP"
"""What stands in place of a secret: a source with it says that this variable is not set."""

_REFERENCES: Final = " AND ".join(f"accesskey NOT LIKE '{prefix}:%'" for prefix in ("env", "file", "key"))


def remove_secrets(path: Path, database: Database, on_progress: Progress) -> dict[str, TableSum]:
    """Take every secret out of the tracker in a file, and from its free pages; the rows and checksums afterwards.

    What only refers to a secret (`env:`, `file:`, `key:`) stays. Raises sqlite3.Error.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA secure_delete = ON")
        file.execute(
            f"UPDATE file_source SET accesskey = ? WHERE accesskey <> '' AND {_REFERENCES}",  # noqa: S608
            (LEFT_OUT_KEY,),
        )
        file.execute("VACUUM")
    fsync(path)
    with open_file(path, database) as connection:
        total = count_rows(connection, database)
        return sum_tables(connection, database, f"rows of the {database.name} without secrets", on_progress, total)
