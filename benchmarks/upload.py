"""Valid documents to committed rows, against the fastest plain load of the same rows into the same database.

The rows of all tables that the documents filled are written to files once. The plain load reads these into an empty
database of the same schema with the same indexes, in one transaction: `.import` of CSV by the command line of SQLite
(which does not look at foreign keys, and takes nulls for empty texts), LOAD DATA LOCAL INFILE by the client of MariaDB.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

from benchmarks.mariadb import BUFFER_POOL_GB, MariaDb, installed, mariadb_server
from benchmarks.measuring import Comparison, Contender, Note, Timing, clean_environment, peak_megabytes, timed
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
from dcc.cli.demo.submissions import PROCEDURES, experiment_document

LARGE_BYTES = 50_000_000
FEW = 200
MANY = 2_000
SMALL_BYTES = 50_000
MEMORY_BYTES = 200_000_000

IMPORT = "sqlite3 .import"
LOAD_DATA = "LOAD DATA LOCAL INFILE"
APPLY = "XML to rows"
PARSE = "parsing alone"
GOAL = 2.0

_MODULE = "benchmarks.upload_process"
_ROOT = Path(__file__).parent.parent


def write_large(path: Path, size: int) -> None:
    """Write an experiment document of about `size` bytes: all procedures of the demonstration, on many animals."""
    with path.open("w", encoding="utf-8") as file:
        for number, procedure in enumerate(PROCEDURES):
            lines = experiment_document("H", procedure=procedure, at_least=size // len(PROCEDURES)).decode()
            head, _, rest = lines.partition("    <experiment ")
            body, _, tail = rest.rpartition("  </centre>")
            file.write(f"{head if number == 0 else ''}    <experiment {body}")
        file.write(f"  </centre>{tail}")


def write_small(folder: Path, number: int, size: int) -> None:
    """Write so many experiment documents of about `size` bytes, each of its own animals."""
    folder.mkdir()
    procedures = itertools.cycle(PROCEDURES)
    for place, procedure in zip(range(number), procedures, strict=False):
        content = experiment_document("H", procedure=procedure, first=place * 1_000, at_least=size)
        (folder / f"{place:05d}.xml").write_bytes(content)


class UploadBenchmark:
    """Both sides for the experiment documents at `documents`, a file or a folder of files, in `folder`, to be made."""

    def __init__(self, folder: Path, documents: Path, server: MariaDb | None) -> None:
        folder.mkdir(parents=True)
        self._folder, self._documents, self._server = folder, documents, server
        self._numbers = itertools.count()
        self._empty = folder / "empty.db"
        init_qc(f"sqlite:///{self._empty}")
        finished = folder / "finished.db"
        shutil.copy(self._empty, finished)
        self._run_apply(f"sqlite:///{finished}")
        self.rows = finished_rows(finished, folder / "rows")
        finished.unlink()

    def comparisons(self, what: str, *, bound: bool) -> list[Comparison]:
        """The contenders on each database; the plain load is the measure, and with `bound` has a goal."""
        amount = (self.rows.number, "rows")
        on_sqlite = [
            Contender(IMPORT, self.run_import, command="sqlite3 qc.db '.read load.sql'"),
            Contender(APPLY, self.run_sqlite, command=f"python -m {_MODULE} apply sqlite:///qc.db DOCUMENTS"),
            Contender(PARSE, self.run_parse, command=f"python -m {_MODULE} parse DOCUMENTS"),
        ]
        goals = {APPLY: GOAL} if bound else {}
        made = [Comparison(f"{APPLY}: {what}, SQLite", on_sqlite, goals, amount)]
        if self._server is not None:
            on_mariadb = [
                Contender(LOAD_DATA, self.run_load_data, command="mariadb qc -e 'source load.sql'"),
                Contender(APPLY, self.run_mariadb, command=f"python -m {_MODULE} apply mysql://.../qc DOCUMENTS"),
            ]
            made.append(Comparison(f"{APPLY}: {what}, MariaDB", on_mariadb, goals, amount))
        return made

    def run_import(self) -> Timing:
        """The plain load into SQLite."""
        place = self._fresh_file()
        script = place.with_suffix(".sql")
        script.write_text(import_script(self.rows))
        timing = timed(["sqlite3", str(place), f".read {script}"], log=place.with_suffix(".log"))
        self._check_file(place)
        return timing

    def run_sqlite(self) -> Timing:
        """The platform on SQLite."""
        place = self._fresh_file()
        timing = self._run_apply(f"sqlite:///{place}")
        self._check_file(place)
        return timing

    def run_parse(self) -> Timing:
        """Reading the documents into objects, and nothing else."""
        return self._run("parse")

    def run_load_data(self) -> Timing:
        """The plain load into MariaDB."""
        server, name = self._fresh_database()
        script = self._folder / f"{name}.sql"
        script.write_text(load_data_script(self.rows))
        command = [*server.client, name, "-e", f"source {script}"]
        timing = timed(command, log=script.with_suffix(".log"))
        self._check_database(server, name)
        return timing

    def run_mariadb(self) -> Timing:
        """The platform on MariaDB; the processor time is that of the platform alone."""
        server, name = self._fresh_database()
        timing = self._run_apply(server.url(name))
        self._check_database(server, name)
        return timing

    def _run_apply(self, url: str) -> Timing:
        return self._run("apply", url)

    def _run(self, *words: str) -> Timing:
        log = self._folder / f"run-{next(self._numbers)}.log"
        command = [sys.executable, "-m", _MODULE, *words, str(self._documents)]
        return timed(command, log=log, environment=_environment(self._folder))

    def _fresh_file(self) -> Path:
        place = self._folder / f"qc-{next(self._numbers)}.db"
        shutil.copy(self._empty, place)
        return place

    def _check_file(self, place: Path) -> None:
        require_rows(self.rows, rows_in_file(place, self.rows))
        for suffix in ("", "-wal", "-shm"):
            Path(f"{place}{suffix}").unlink(missing_ok=True)

    def _fresh_database(self) -> tuple[MariaDb, str]:
        if self._server is None:
            raise RuntimeError("This benchmark was given no server.")
        name = f"qc_{next(self._numbers)}"
        init_qc(self._server.url(name))
        return self._server, name

    def _check_database(self, server: MariaDb, name: str) -> None:
        require_rows(self.rows, rows_in_database(server, name, self.rows))
        server.query(f"DROP DATABASE `{name}`")


def _measure_large(bench: Bench) -> Iterator[Finding]:
    documents = bench.folder / "large.xml"
    write_large(documents, LARGE_BYTES)
    yield from _measure(bench, documents, f"an experiment document of {LARGE_BYTES // 1_000_000} MB")


def _measure_small(bench: Bench, number: int) -> Iterator[Finding]:
    documents = bench.folder / "small"
    write_small(documents, number, SMALL_BYTES)
    what = f"{number:,} experiment documents of {SMALL_BYTES // 1000} KB"
    # Starting two processes is most of what a few documents take.
    yield from _measure(bench, documents, what, bound=number == MANY)


def _measure(bench: Bench, documents: Path, what: str, *, bound: bool = True) -> Iterator[Finding]:
    with _server(bench.folder) as server:
        for comparison in UploadBenchmark(bench.folder / "work", documents, server).comparisons(what, bound=bound):
            comparison.measure(bench.runs)
            yield comparison


def _measure_memory(bench: Bench) -> Iterator[Finding]:
    yield Note("Memory of a document of 200 MB on its way into SQLite", upload_memory(bench.folder / "upload"))


def upload_memory(folder: Path, size: int = MEMORY_BYTES) -> str:
    """What a document of `size` bytes takes of memory while it is applied to SQLite: the peaks of both processes."""
    folder.mkdir(parents=True)
    document = folder / "document.xml"
    write_large(document, size)
    url = f"sqlite:///{folder / 'qc.db'}"
    init_qc(url)
    began = time.perf_counter()
    command = [sys.executable, "-m", _MODULE, "apply", url, str(document)]
    process = subprocess.Popen(command, cwd=_ROOT, env=_environment(folder), stdout=subprocess.DEVNULL)
    peaks = peak_megabytes(process)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}.")
    each = " and ".join(f"{peak:.0f} MB" for peak in peaks)
    seconds = time.perf_counter() - began
    return f"{size // 1_000_000} MB in {seconds:.1f} s; peak {sum(peaks):.0f} MB ({each})"


def _server(folder: Path) -> AbstractContextManager[MariaDb | None]:
    return mariadb_server(folder / "mariadb") if installed() else nullcontext()


def _environment(home: Path) -> dict[str, str]:
    return clean_environment(DCC_HOME=str(home), PYTHONPATH=str(_ROOT))


_TOOLS = ("sqlite3", "mariadb")
_ABOUT = (
    "Documents applied to an empty QC database: read, built into rows, versions and findings included. Beside it the "
    "fastest plain load of the very same rows of all tables, from files written beforehand, in one transaction into "
    "the same schema with the same indexes: `.import` of CSV by `sqlite3` (which looks at no foreign keys and takes "
    f"nulls for empty texts), and `LOAD DATA LOCAL INFILE`, on a server with a buffer pool of {BUFFER_POOL_GB} GB and "
    "otherwise its default settings. Processor times are those of the client's processes, without the MariaDB server."
)

BENCHMARKS = [
    Benchmark("upload-large", _ABOUT, _measure_large, _TOOLS),
    Benchmark("upload-small", _ABOUT, partial(_measure_small, number=FEW), _TOOLS),
    Benchmark("upload-many", _ABOUT, partial(_measure_small, number=MANY), _TOOLS),
    Benchmark("upload-memory", "The peak memory of both processes for a large document.", _measure_memory, most_runs=1),
]
