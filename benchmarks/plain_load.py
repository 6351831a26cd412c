"""The fastest plain load of finished rows into an empty database of the platform's schema, in one transaction.

The rows of all tables that documents filled are written to files once: `.import` of the command line of SQLite reads
them from CSV, LOAD DATA LOCAL INFILE of MariaDB's client from lines with tabs.
"""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from benchmarks.mariadb import MariaDb
from dcc.qc.database import init_qc_database, open_qc_database
from dcc.qc.models import DOCUMENT_TABLES
from dcc.qc.rows.lines import as_lines
from dcc.settings import Settings

_BATCH_ROWS = 10_000


@dataclass(frozen=True)
class FinishedRows:
    """The finished rows of documents: by table, the numbers of rows; and where the files are that hold them."""

    counts: dict[str, int]
    folder: Path

    @property
    def number(self) -> int:
        """How many there are in all tables."""
        return sum(self.counts.values())


def init_qc(url: str) -> None:
    """Make the tables of a QC database."""
    engine = open_qc_database(Settings(qc_url=SecretStr(url)))
    init_qc_database(engine)
    engine.dispose()


def finished_rows(database: Path, folder: Path) -> FinishedRows:
    """Write the rows that documents filled in a QC database on SQLite to files in `folder`, which is made."""
    folder.mkdir()
    counts: dict[str, int] = {}
    with closing(sqlite3.connect(database)) as connection:
        for table in ("document", *(f"{table.name}" for table in DOCUMENT_TABLES)):
            number = _count(connection, table)
            if number:
                counts[table] = number
                rows = connection.execute(f"SELECT * FROM {_quoted(table)}")
                with (
                    (folder / f"{table}.csv").open("w", newline="") as to_csv,
                    (folder / f"{table}.tsv").open("wb") as tsv,
                ):
                    while batch := rows.fetchmany(_BATCH_ROWS):
                        csv.writer(to_csv, lineterminator="\n").writerows(batch)
                        tsv.write(as_lines(batch))
    return FinishedRows(counts, folder)


def import_script(rows: FinishedRows) -> str:
    """The load as a script of SQLite's command line."""
    loads = [f".import --csv {rows.folder / table}.csv {_quoted(table)}" for table in rows.counts]
    return "\n".join([".bail on", "PRAGMA synchronous = NORMAL;", "BEGIN;", *loads, "COMMIT;", ""])


def load_data_script(rows: FinishedRows) -> str:
    """The load as a script of MariaDB's client."""
    loads = [
        f"LOAD DATA LOCAL INFILE '{rows.folder / table}.tsv' INTO TABLE `{table}` CHARACTER SET utf8mb4;"
        for table in rows.counts
    ]
    return "\n".join(["BEGIN;", *loads, "COMMIT;", ""])


def rows_in_file(place: Path, rows: FinishedRows) -> dict[str, int]:
    """How many rows a database on SQLite has in the tables of `rows`."""
    with closing(sqlite3.connect(place)) as connection:
        return {table: _count(connection, table) for table in rows.counts}


def rows_in_database(server: MariaDb, name: str, rows: FinishedRows) -> dict[str, int]:
    """How many rows a database of a server has in the tables of `rows`."""
    counted = [f"SELECT '{table}', COUNT(*) FROM `{name}`.`{table}`" for table in rows.counts]
    told = server.query(" UNION ALL ".join(counted))
    return {table: int(number) for table, number in (line.split("\t") for line in told.splitlines())}


def require_rows(rows: FinishedRows, found: Mapping[str, int]) -> None:
    """Raise RuntimeError when not all rows were found."""
    if found != rows.counts:
        raise RuntimeError(
            f"The rows are {found}, not {rows.counts}. The work was not done, so its time means nothing."
        )


def _count(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT COUNT(*) FROM {_quoted(table)}").fetchone()[0])


def _quoted(table: str) -> str:
    return f'"{table}"'
