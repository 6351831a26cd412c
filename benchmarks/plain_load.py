"""The fastest plain load of finished rows into an empty database of the platform's schema, in one transaction.

The rows of all tables that documents filled are written to files once: `.import` of the command line of SQLite reads
them from CSV, LOAD DATA LOCAL INFILE of MariaDB's client from lines with tabs.
"""

from __future__ import annotations

import csv
import itertools
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from benchmarks.servers import MariaDb
from dcc.databases.schema import init_database
from dcc.qc.database import open_qc_database
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
    init_database(engine)
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


@dataclass(frozen=True)
class Empty:
    """An empty QC database: its URL, its client, which reads scripts, and settings that put a session's work there."""

    url: str
    client: list[str]
    variables: dict[str, str]


@dataclass
class OnSqlite:
    """QC databases on SQLite, in files of a folder. `load` is what the plain load is called."""

    folder: Path
    name: str = "SQLite"
    load: str = "sqlite3 .import"
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def script(self, rows: FinishedRows) -> str:
        """The load as a script of SQLite's command line."""
        loads = [f".import --csv {rows.folder / table}.csv {_quoted(table)}" for table in rows.counts]
        return "\n".join([".bail on", "PRAGMA synchronous = FULL;", "BEGIN;", *loads, "COMMIT;", ""])

    @contextmanager
    def empty(self, rows: FinishedRows) -> Iterator[Empty]:
        """A new file for the block, after which it must hold `rows`. Raises RuntimeError otherwise."""
        place = self.folder / f"qc-{next(self._numbers)}.db"
        url = f"sqlite:///{place}"
        init_qc(url)
        yield Empty(url, ["sqlite3", str(place)], {"DCC_QC_URL": url})
        with closing(sqlite3.connect(place)) as connection:
            _require_rows(rows, {table: _count(connection, table) for table in rows.counts})
        for suffix in ("", "-wal", "-shm"):
            Path(f"{place}{suffix}").unlink(missing_ok=True)


@dataclass
class OnMariaDb:
    """QC databases on a server."""

    server: MariaDb
    name: str = "MariaDB"
    load: str = "LOAD DATA LOCAL INFILE"
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def script(self, rows: FinishedRows) -> str:
        """The load as a script of MariaDB's client."""
        loads = [
            f"LOAD DATA LOCAL INFILE '{rows.folder / table}.tsv' INTO TABLE `{table}` CHARACTER SET utf8mb4;"
            for table in rows.counts
        ]
        return "\n".join(["BEGIN;", *loads, "COMMIT;", ""])

    @contextmanager
    def empty(self, rows: FinishedRows) -> Iterator[Empty]:
        """A new database of the server, which a session's tracker is on too; see `OnSqlite`."""
        number = next(self._numbers)
        tracker, qc = f"tracker_{number}", f"qc_{number}"
        url = self.server.url(qc)
        init_qc(url)
        yield Empty(url, [*self.server.client, qc], {"DCC_QC_URL": url, "DCC_TRACKER_URL": self.server.url(tracker)})
        counted = [f"SELECT '{table}', COUNT(*) FROM `{qc}`.`{table}`" for table in rows.counts]
        _require_rows(rows, dict(self.server.query(" UNION ALL ".join(counted))))
        for database in (tracker, qc):
            self.server.query(f"DROP DATABASE IF EXISTS `{database}`")


Databases = OnSqlite | OnMariaDb
"""A kind of database that rows are loaded into."""


def _require_rows(rows: FinishedRows, found: Mapping[str, int]) -> None:
    if found != rows.counts:
        raise RuntimeError(
            f"The rows are {found}, not {rows.counts}. The work was not done, so its time means nothing."
        )


def _count(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT COUNT(*) FROM {_quoted(table)}").fetchone()[0])


def _quoted(table: str) -> str:
    return f'"{table}"'
