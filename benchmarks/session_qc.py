"""A whole session, from archives on a server to (qc, pending), against a shell script that ends with a plain load.

The script does what that of `benchmarks.session` does, and then loads rows that were finished beforehand into an empty
database of the same schema, those of the tables that documents fill; it makes no contexts, no overviews and no
findings, and tracks nothing. The platform's tracker is on the same kind of database as its QC database.
"""

from __future__ import annotations

import itertools
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from benchmarks.mariadb import BUFFER_POOL_GB, MariaDb, mariadb_server
from benchmarks.measuring import Comparison, Contender, Figure, Timing
from benchmarks.openssh import OpenSsh, openssh_server
from benchmarks.plain_load import (
    finished_rows,
    import_script,
    init_qc,
    load_data_script,
    require_rows,
    rows_in_database,
    rows_in_file,
)
from benchmarks.registry import Bench, Benchmark, Finding
from benchmarks.session import DOCUMENTS, QC_PENDING, SCRIPT, SHELL, SessionBenchmark

ARCHIVES = 1_000
PLAIN = "dcc crawl, no Dagster events"
EVENTS = "dcc crawl"
GOALS = {PLAIN: 1.0, EVENTS: 1.2}
EVENTS_MILLISECONDS = 15


class WholeSession:
    """Both sides, on SQLite, or on MariaDB where a server is given; in `folder`, to be made.

    A session on SQLite is the preparation: its rows are what the script loads, and what every run must come to.
    """

    def __init__(self, folder: Path, source: OpenSsh, archives: int) -> None:
        folder.mkdir(parents=True)
        self._folder, self._archives = folder, archives
        self._numbers = itertools.count()
        self._session = SessionBenchmark(folder / "session", source, archives)
        home = self._session.fresh("prepared")
        self._session.crawl(home, QC_PENDING)
        self.rows = finished_rows(home / "qc.db", folder / "rows")
        shutil.rmtree(home)

    def comparison(self, server: MariaDb | None = None) -> Comparison:
        """The contenders; the shell script is the measure. Those with Dagster's events are on MariaDB only."""
        load, client = (".import", "sqlite3 qc.db") if server is None else ("LOAD DATA", "mariadb qc")
        shell = Contender(f"{SHELL}, {load}", lambda: self.run_shell(server), command=f"{SCRIPT}{client} <load.sql")
        plain = Contender(PLAIN, lambda: self.run_crawl(server), command="DCC_DAGSTER_EVENTS=false dcc crawl")
        events = Contender(EVENTS, lambda: self.run_crawl(server, events=True), command="dcc crawl")
        what = f"{self._archives:,} new archives of {DOCUMENTS} documents of 50 KB"
        title = f"A session of {what} to (qc, pending), {'SQLite' if server is None else 'MariaDB'}"
        contenders = [shell, plain] if server is None else [shell, plain, events]
        return Comparison(title, contenders, GOALS, (self._archives * DOCUMENTS, "documents"))

    def bookkeeping(self, comparison: Comparison) -> Figure:
        """What Dagster's events take, of the time of a session, for an archive."""
        _, plain, events = comparison.contenders
        seconds = events.wall - plain.wall
        return Figure("Dagster's events, an archive", seconds * 1_000 / self._archives, "ms", EVENTS_MILLISECONDS)

    def run_shell(self, server: MariaDb | None = None) -> Timing:
        """The script and the load, into a database whose tables were made beforehand."""
        number = next(self._numbers)
        script = self._folder / f"load-{number}.sql"
        if server is None:
            place = self._folder / f"qc-{number}.db"
            init_qc(f"sqlite:///{place}")
            script.write_text(import_script(self.rows))
            timing = self._run_script(["sqlite3", str(place)], script)
            require_rows(self.rows, rows_in_file(place, self.rows))
            place.unlink()
            return timing
        name = f"loaded_{number}"
        init_qc(server.url(name))
        script.write_text(load_data_script(self.rows))
        timing = self._run_script([*server.client, name], script)
        require_rows(self.rows, rows_in_database(server, name, self.rows))
        server.query(f"DROP DATABASE `{name}`")
        return timing

    def _run_script(self, client: list[str], load: Path) -> Timing:
        return self._session.run_shell(f"{shlex.join(client)} <{shlex.quote(str(load))}\n")

    def run_crawl(self, server: MariaDb | None = None, *, events: bool = False) -> Timing:
        """`dcc crawl` in a new installation, with the tracker and the source registered beforehand."""
        home = self._session.fresh("whole")
        if server is None:
            timing = self._session.crawl(home, QC_PENDING, events=events)
            require_rows(self.rows, rows_in_file(home / "qc.db", self.rows))
        else:
            number = next(self._numbers)
            tracker, qc = f"tracker_{number}", f"qc_{number}"
            urls = {"DCC_TRACKER_URL": server.url(tracker), "DCC_QC_URL": server.url(qc)}
            timing = self._session.crawl(home, QC_PENDING, events=events, databases=urls)
            require_rows(self.rows, rows_in_database(server, qc, self.rows))
            for database in (tracker, qc):
                server.query(f"DROP DATABASE `{database}`")
        shutil.rmtree(home)
        return timing


def _measure_sqlite(bench: Bench) -> Iterator[Finding]:
    yield from _measure(bench, None)


def _measure_mariadb(bench: Bench) -> Iterator[Finding]:
    with mariadb_server(bench.folder / "mariadb") as server:
        yield from _measure(bench, server)


def _measure(bench: Bench, server: MariaDb | None) -> Iterator[Finding]:
    with openssh_server(bench.folder / "sshd") as source:
        session = WholeSession(bench.folder / "work", source, ARCHIVES)
        comparison = session.comparison(server)
        comparison.measure(bench.runs)
        if server is not None:
            comparison.figures.append(session.bookkeeping(comparison))
    yield comparison


_ABOUT = (
    "A session of new archives, from a local OpenSSH server to (qc, pending): downloaded, extracted, validated, read "
    "into rows, judged by all rules, in contexts and overviews, and tracked. Beside it a shell script that ends with "
    "the fastest plain load of the rows that the documents fill, finished beforehand; it makes no contexts, overviews "
    "and findings, and tracks nothing. The tables, the centre and the source are made beforehand; Dagster's instance "
    "is made by the session itself."
)
_TOOLS = ("sftp", "unzip", "md5sum", "xmllint")

BENCHMARKS = [
    Benchmark("session-qc-sqlite", _ABOUT, _measure_sqlite, (*_TOOLS, "sqlite3")),
    Benchmark(
        "session-qc-mariadb",
        f"{_ABOUT} Tracker and QC database are on a server with a buffer pool of {BUFFER_POOL_GB} GB and otherwise its "
        "default settings, whose processor time is not in the figures. With and without Dagster's events.",
        _measure_mariadb,
        (*_TOOLS, "mariadb"),
    ),
]
