"""Archives fetched and prepared by Celery workers of one core each: what a second one brings, what the session is left.

Each worker is bound to a core of its own. Time is taken from the first archive that is left in the object store to the
last, so that the start of Dagster's run counts nowhere, but each batch's own step does. What is left to the session
is measured in a process of its own, `python -m benchmarks.workers`, which finds all archives as workers left them.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.circumstances import program
from benchmarks.installation import databases, make_installation
from benchmarks.measuring import Comparison, Contender, Note, Timing, clean_environment, family, module
from benchmarks.registry import Bench, Benchmark, Finding
from benchmarks.servers import OpenSsh, ServerProcess, free_port
from benchmarks.session import DOCUMENTS, put_archives
from dcc.naming import Action
from dcc.operations.session_work import open_session
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase
from dcc.qc.database import open_qc_database
from dcc.qc.reference.refresh import ensure_reference
from dcc.runtime.processes import collect_cycles_rarely
from dcc.session.archives.archive_phases import process_zip_actions
from dcc.session.batches.batch_plans import BatchArchive, PlannedBatch
from dcc.session.batches.exchange import Exchange
from dcc.session.batches.worker_results import SessionWorkerResults
from dcc.session.data.document_phases import process_data
from dcc.session.source_crawls import crawl_file_sources
from dcc.settings import Settings, load_settings
from dcc.store.objects import ObjectStore
from dcc.tracker.database import open_tracker
from dcc.tracker.hostings.hosting import Hosting
from dcc_assets.batches import DagsterWorkers

ARCHIVES = 240
BATCHES = 4
WARMING = 4
"""Archives that are prepared beforehand, in a batch each, so that every worker has loaded what it needs."""
ONE = "one Celery worker of one core"
TWO = "two Celery workers of one core each"
GOAL = round(1 / 1.7, 3)

_CELERY = str(Path(sys.executable).with_name("celery"))
_TICKS = os.sysconf("SC_CLK_TCK")
_SESSION = 1


class WorkersBenchmark:
    """Both sides in `folder`, with the archives of a centre behind a local server, and a broker."""

    def __init__(self, folder: Path, server: OpenSsh, broker: str) -> None:
        self._folder, self._server, self._broker = folder, server, broker
        self._remote = folder / "centre"
        self._numbers = itertools.count()
        self.session = Timing(0.0, 0.0)
        put_archives(self._remote, ARCHIVES + WARMING)

    def comparison(self) -> Comparison:
        """One worker is the measure; two may take 1/1.7 of its time."""
        one = Contender(
            ONE, lambda: self.run([0]), command="taskset -c 0 celery -A dcc_dagster.celery_worker worker -c1"
        )
        two = Contender(TWO, lambda: self.run([0, 1]), command="the same, and one with taskset -c 1")
        title = f"Workers fetch and prepare {ARCHIVES} archives of {DOCUMENTS} documents of 50 KB"
        return Comparison(title, [one, two], {TWO: GOAL}, (ARCHIVES, "archives"))

    def run(self, cores: Sequence[int]) -> Timing:
        """Have the archives prepared by a worker on each core; then let a session take them."""
        home = self._folder / f"home-{next(self._numbers)}"
        variables = {"DCC_EXECUTOR": "celery", "DCC_BROKER": self._broker}
        make_installation(home, [self._server.source("H", self._remote)], self._server.known_hosts, variables)
        environment = clean_environment(DCC_HOME=str(home), **variables)
        # The run that gives out the batches is a process with the settings of this one.
        os.environ.update(variables, DCC_HOME=str(home))
        with databases(home, variables) as (settings, _, qc), ExitStack() as stack:
            # As a session does before it gives out batches.
            ensure_reference(qc, settings)
            workers = [stack.enter_context(_worker(home, environment, core)) for core in cores]
            archives = self._archives()
            self._prepare(settings, archives[:WARMING], WARMING)
            before = _processor_seconds(workers)
            wall = self._prepare(settings, archives[WARMING:], BATCHES)
            cpu = _processor_seconds(workers) - before
        self.session = _session(environment)
        shutil.rmtree(home)
        return Timing(wall, cpu)

    def costs(self, comparison: Comparison) -> Note:
        """What an archive costs workers and the session, and how many workers keep a session busy."""
        prepare = 1_000 * comparison.contenders[0].cpu / ARCHIVES
        left = 1_000 * self.session.cpu / (ARCHIVES + WARMING)
        told = (
            f"An archive takes a worker {prepare:.1f} ms of processor time to fetch and prepare, and the session "
            f"{left:.1f} ms to take it from the store, track it, apply it and judge it. A batch of 30 s holds "
            f"{30_000 / prepare:.0f} such archives. The session is no bottleneck up to {prepare / left:.1f} workers."
        )
        data = {"prepare_ms": prepare, "session_ms": left, "workers": prepare / left}
        return Note("What an archive costs workers and the session", told, data=data)

    def _archives(self) -> list[BatchArchive]:
        found = []
        for number, path in enumerate(sorted((self._remote / "add").iterdir()), start=1):
            status = path.stat()
            hosting = Hosting(number, 1, status.st_size, int(status.st_mtime), has_md5=False, own=True)
            found.append(BatchArchive(SubmissionKey(Action.ADD, path.name), "H", hosting, None))
        return found

    def _prepare(self, settings: Settings, archives: Sequence[BatchArchive], batches: int) -> float:
        """Have archives prepared in so many batches; how long all of them take at the rate at which they come."""
        results = SessionWorkerResults(ObjectStore(settings), _SESSION, settings.staging_directory / ".workers", "")
        names = [f"{time.monotonic_ns()}_{number}" for number in range(batches)]
        for number, name in enumerate(names):
            results.put_batch(name, PlannedBatch(1, tuple(archives[number::batches])))
        there_before = results.look()
        seen: list[tuple[float, int]] = []

        def look() -> None:
            there = results.look() - there_before
            if there > (seen[-1][1] if seen else 0):
                seen.append((time.perf_counter(), there))

        DagsterWorkers(settings).run(results, names, look)
        look()
        if not seen or seen[-1][1] != len(archives):
            raise RuntimeError(f"Workers left {seen[-1:]} of {len(archives)} archives: their time means nothing.")
        (began, first), (ended, all_of_them) = seen[0], seen[-1]
        return len(archives) * (ended - began) / max(all_of_them - first, 1)


def _worker(home: Path, environment: dict[str, str], core: int) -> ServerProcess:
    """A Celery worker of one process on one core, which takes batches when the block begins."""
    log = home / f"worker-{core}.log"
    command = ["taskset", "-c", str(core), _CELERY, "-A", "dcc_dagster.celery_worker", "worker"]
    command += ["-c1", "-linfo", "-n", f"core{core}@%h"]
    staging = {"DCC_STAGING": str(home / f"staging-{core}")}
    return ServerProcess(command, 0, log, lambda: " ready." in log.read_text(errors="replace"), environment | staging)


def _processor_seconds(workers: Sequence[ServerProcess]) -> float:
    """What workers and their processes have used so far."""
    ticks = 0
    for pid in (pid for worker in workers for pid in family(worker.process.pid)):
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
        # Its own, and of children that have ended: each step of a run is such a process.
        ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS


def _session(environment: dict[str, str]) -> Timing:
    """A session that finds what workers left."""
    told = subprocess.run(module("workers"), env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    wall, cpu = map(float, told.split())
    return Timing(wall, cpu)


class FinishedWorkers:
    """Workers that have left everything before they are asked; see `Workers`."""

    def run(self, results: Exchange, names: Sequence[str], check: Callable[[], object]) -> None:
        """There is nothing to do."""


def main() -> None:
    """Run a session on DCC_HOME whose archives workers have prepared; print its seconds on the clock and processors."""
    # As `dcc` does.
    collect_cycles_rarely()
    settings = load_settings()
    tracker, qc = open_tracker(settings), open_qc_database(settings)
    wall, before = time.perf_counter(), os.times()
    with open_session(tracker, settings) as session:
        deque(crawl_file_sources(session, None), maxlen=0)
        outcomes = list(process_zip_actions(session, workers=FinishedWorkers()))
        deque(process_data(qc, session, until=Phase.QC), maxlen=0)
    after = os.times()
    if not all(outcome.succeeded for outcome in outcomes):
        raise RuntimeError("Archives failed: the time means nothing.")
    print(time.perf_counter() - wall, sum(after[:4]) - sum(before[:4]))


def _measure(bench: Bench) -> Iterator[Finding]:
    port = free_port()
    command = [program("redis-server"), "--bind", "127.0.0.1", "--port", str(port), "--dir", str(bench.folder)]
    with (
        OpenSsh(bench.folder / "sshd") as server,
        ServerProcess([*command, "--save", ""], port, bench.folder / "redis.log"),
    ):
        workers = WorkersBenchmark(bench.folder, server, f"redis://127.0.0.1:{port}/0")
        comparison = workers.comparison()
        comparison.measure(bench.runs, uncounted=0)
    yield comparison
    yield workers.costs(comparison)


BENCHMARKS = [
    Benchmark(
        "workers",
        "Archives on a local OpenSSH server, fetched and prepared by Celery workers that are bound to a core each, "
        "and what is left to the session then. Broker and file server share these cores; databases are on SQLite, the "
        "object store is a directory.",
        _measure,
        tools=("redis", "taskset"),
        max_runs=2,
    )
]

if __name__ == "__main__":
    main()
