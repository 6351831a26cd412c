"""Valid documents to committed rows, against the fastest plain load of the same rows into the same database.

The rows of all tables that the documents filled are written to files once. The plain load reads these into an empty
database of the same schema with the same indexes, in one transaction: `.import` of CSV by the command line of SQLite
(which does not look at foreign keys, and takes nulls for empty texts), LOAD DATA LOCAL INFILE by the client of MariaDB.
"""

from __future__ import annotations

import itertools
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.circumstances import installed
from benchmarks.measuring import (
    Comparison,
    Contender,
    Figure,
    Note,
    Timing,
    clean_environment,
    module,
    peak_megabytes,
    timed,
)
from benchmarks.plain_load import Databases, OnMariaDb, OnSqlite, finished_rows, init_qc
from benchmarks.registry import Bench, Benchmark, Finding
from benchmarks.servers import BUFFER_POOL_GB, MARIADB, MariaDb
from dcc.cli.demo.submissions import PROCEDURES, experiment_document

LARGE_BYTES = 50_000_000
FEW = 200
MANY = 2_000
SMALL_BYTES = 50_000
MEMORY_BYTES = 200_000_000
PEAK_MB = 250

APPLY = "XML to rows"
PARSE = "parsing alone"
GOAL = 2.0

_MODULE = "benchmarks.upload_process"


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

    def __init__(self, folder: Path, documents: Path) -> None:
        folder.mkdir(parents=True)
        self._folder, self._documents = folder, documents
        self._log = folder / "log"
        finished = folder / "finished.db"
        init_qc(f"sqlite:///{finished}")
        self._run("apply", f"sqlite:///{finished}")
        self.rows = finished_rows(finished, folder / "rows")
        finished.unlink()

    def comparison(self, what: str, databases: Databases, *, bound: bool) -> Comparison:
        """The contenders; the plain load is the measure, and with `bound` has a goal. Parsing is shown on SQLite."""
        contenders = [
            Contender(databases.load, lambda: self.run_load(databases), command=f"{databases.load} <load.sql"),
            Contender(APPLY, lambda: self.run_apply(databases), command=f"python -m {_MODULE} apply URL DOCUMENTS"),
        ]
        if isinstance(databases, OnSqlite):
            contenders.append(
                Contender(PARSE, lambda: self._run("parse"), command=f"python -m {_MODULE} parse DOCUMENTS")
            )
        goals = {APPLY: GOAL} if bound else {}
        return Comparison(f"{APPLY}: {what}, {databases.name}", contenders, goals, (self.rows.number, "rows"))

    def run_load(self, databases: Databases) -> Timing:
        """The plain load."""
        script = self._folder / "load.sql"
        script.write_text(databases.script(self.rows))
        with databases.empty(self.rows) as database:
            return timed(["sh", "-c", f"{shlex.join(database.client)} <{shlex.quote(str(script))}"], log=self._log)

    def run_apply(self, databases: Databases) -> Timing:
        """The platform; the processor time is that of the platform alone."""
        with databases.empty(self.rows) as database:
            return self._run("apply", database.url)

    def _run(self, *words: str) -> Timing:
        command = module("upload_process", *words, str(self._documents))
        return timed(command, log=self._log, environment=clean_environment(DCC_HOME=str(self._folder)))


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
    with ExitStack() as stack:
        on: list[Databases] = [OnSqlite(bench.folder)]
        if installed(MARIADB):
            on.append(OnMariaDb(stack.enter_context(MariaDb(bench.folder / "mariadb"))))
        benchmark = UploadBenchmark(bench.folder / "work", documents)
        for databases in on:
            comparison = benchmark.comparison(what, databases, bound=bound)
            comparison.measure(bench.runs)
            yield comparison


def _measure_memory(bench: Bench) -> Iterator[Finding]:
    yield upload_memory(bench.folder / "upload")


def upload_memory(folder: Path, size: int = MEMORY_BYTES) -> Note:
    """What a document of `size` bytes takes of memory on its way into SQLite: the peaks of all processes, together."""
    folder.mkdir(parents=True)
    document = folder / "document.xml"
    write_large(document, size)
    url = f"sqlite:///{folder / 'qc.db'}"
    init_qc(url)
    began = time.perf_counter()
    command = module("upload_process", "apply", url, str(document))
    environment = clean_environment(DCC_HOME=str(folder))
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    peaks = peak_megabytes(process)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}.")
    each = " and ".join(f"{peak:.0f} MB" for peak in peaks)
    seconds = time.perf_counter() - began
    megabytes = size // 1_000_000
    return Note(
        f"Memory of a document of {megabytes} MB on its way into SQLite",
        f"{megabytes} MB in {seconds:.1f} s; peak {sum(peaks):.0f} MB ({each})",
        [Figure("peak of memory", sum(peaks), "MB", PEAK_MB)],
    )


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
    Benchmark(
        "upload-memory",
        "The peaks of memory of all processes for a large document, together.",
        _measure_memory,
        max_runs=1,
    ),
]
