"""A whole session, from archives on a server to (qc, pending), against a shell script that ends with a plain load.

The script does what that of `benchmarks.session` does, and then loads rows that were finished beforehand into an empty
database of the same schema, those of the tables that documents fill; it makes no contexts, no overviews and no
findings, and tracks nothing. The platform's tracker is on the same kind of database as its QC database.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import Comparison, Contender, Figure, Timing
from benchmarks.plain_load import Databases, OnMariaDb, OnSqlite, finished_rows
from benchmarks.registry import Bench, Benchmark, Finding
from benchmarks.servers import BUFFER_POOL_GB, MariaDb, OpenSsh
from benchmarks.session import DOCUMENTS, SCRIPT, SHELL, SessionBenchmark

ARCHIVES = 1_000
PLAIN = "dcc crawl, no Dagster events"
EVENTS = "dcc crawl"
GOALS = {PLAIN: 0.9, EVENTS: 0.8}
EVENTS_MILLISECONDS = 15


class WholeSession:
    """Both sides, in `folder`, to be made.

    A session on SQLite is the preparation: its rows are what the script loads, and what every run must come to.
    """

    def __init__(self, folder: Path, source: OpenSsh, archives: int) -> None:
        folder.mkdir(parents=True)
        self._folder, self._archives = folder, archives
        self._session = SessionBenchmark(folder / "session", source, archives)
        home = self._session.fresh("prepared")
        self._session.crawl(home, "qc")
        self.rows = finished_rows(home / "qc.db", folder / "rows")
        shutil.rmtree(home)

    def comparison(self, databases: Databases) -> Comparison:
        """The contenders; the shell script is the measure."""
        shell = Contender(
            f"{SHELL}, {databases.load}",
            lambda: self.run_shell(databases),
            command=f"{SCRIPT}{databases.load} <load.sql",
        )
        plain = Contender(PLAIN, lambda: self.run_crawl(databases), command="DCC_DAGSTER_EVENTS=false dcc crawl")
        events = Contender(EVENTS, lambda: self.run_crawl(databases, events=True), command="dcc crawl")
        what = f"{self._archives:,} new archives of {DOCUMENTS} documents of 50 KB"
        title = f"A session of {what} to (qc, pending), {databases.name}"
        return Comparison(title, [shell, plain, events], GOALS, (self._archives * DOCUMENTS, "documents"))

    def bookkeeping(self, comparison: Comparison) -> Figure:
        """What Dagster's events take, of the time of a session, for an archive."""
        _, plain, events = comparison.contenders
        seconds = events.wall - plain.wall
        return Figure("Dagster's events, an archive", seconds * 1_000 / self._archives, "ms", EVENTS_MILLISECONDS)

    def run_shell(self, databases: Databases) -> Timing:
        """The script and the load, into a database whose tables were made beforehand."""
        load = self._folder / "load.sql"
        load.write_text(databases.script(self.rows))
        with databases.empty(self.rows) as database:
            return self._session.run_shell(f"{shlex.join(database.client)} <{shlex.quote(str(load))}\n")

    def run_crawl(self, databases: Databases, *, events: bool = False) -> Timing:
        """`dcc crawl` in a new installation, with the tracker and the source registered beforehand."""
        home = self._session.fresh("whole")
        with databases.empty(self.rows) as database:
            timing = self._session.crawl(home, "qc", events=events, databases=database.variables)
        shutil.rmtree(home)
        return timing


def _measure_sqlite(bench: Bench) -> Iterator[Finding]:
    yield _measured(bench, OnSqlite(bench.folder))


def _measure_mariadb(bench: Bench) -> Iterator[Finding]:
    with MariaDb(bench.folder / "mariadb") as server:
        yield _measured(bench, OnMariaDb(server))


def _measured(bench: Bench, databases: Databases) -> Comparison:
    with OpenSsh(bench.folder / "sshd") as source:
        session = WholeSession(bench.folder / "work", source, ARCHIVES)
        comparison = session.comparison(databases)
        comparison.measure(bench.runs)
    comparison.figures.append(session.bookkeeping(comparison))
    return comparison


_ABOUT = (
    "A session of new archives, from a local OpenSSH server to (qc, pending): downloaded, extracted, validated, read "
    "into rows, judged by all rules, in contexts and overviews, and tracked. Beside it a shell script that ends with "
    "the fastest plain load of the rows that the documents fill, finished beforehand; it makes no contexts, overviews "
    "and findings, and tracks nothing. The tables, the centre and the source are made beforehand; Dagster's instance "
    "is made by the session itself. With and without Dagster's events."
)
_TOOLS = ("sftp", "unzip", "md5sum", "xmllint")

BENCHMARKS = [
    Benchmark("session-qc-sqlite", _ABOUT, _measure_sqlite, (*_TOOLS, "sqlite3")),
    Benchmark(
        "session-qc-mariadb",
        f"{_ABOUT} Tracker and QC database are on a server with a buffer pool of {BUFFER_POOL_GB} GB and otherwise its "
        "default settings, whose processor time is not in the figures.",
        _measure_mariadb,
        (*_TOOLS, "mariadb"),
    ),
]
