"""Where the time of a session goes after validation: each phase from upload to quality control, a document.

200 archives of 5 documents of 50 KB, which pass all rules, are brought to (xsd, done) once; each run takes them up in a
copy of that installation, on SQLite, in a process of its own: `python -m benchmarks.phases`.
"""

from __future__ import annotations

import json
import resource
import shutil
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.measuring import Note, clean_environment, module, table
from benchmarks.registry import Bench, Benchmark, Finding
from benchmarks.servers import OpenSsh
from benchmarks.session import ARCHIVES, DOCUMENTS, SessionBenchmark
from dcc.cli.shell.context import open_qc, open_tracker, settings_from_environment
from dcc.data_outcomes import SubmissionData
from dcc.operations.session_work import open_session
from dcc.phases import Phase, Status
from dcc.session.data.data_session import DataSession
from dcc.session.data.document_phases import process_phase
from dcc.store.staging import Staging

PHASES: Final = (Phase.UPLOAD, Phase.DATA, Phase.CONTEXT, Phase.OVERVIEW, Phase.QC)

Took = dict[str, tuple[float, float]]
"""By phase, seconds on the clock and of the processors."""


def phase_times(folder: Path, runs: int) -> str:
    """Measure the phases in `folder`, to be made; milliseconds a document as a table in Markdown."""
    folder.mkdir(parents=True)
    home = folder / "home"
    home.mkdir()
    with OpenSsh(folder / "sshd") as server:
        SessionBenchmark(folder, server, ARCHIVES).crawl(home, "xsd")
    return _table([_take_up(home, folder / f"run-{number}") for number in range(runs)])


def _take_up(home: Path, place: Path) -> Took:
    shutil.copytree(home, place)
    environment = clean_environment(DCC_HOME=str(place))
    told = subprocess.run(module("phases"), env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    shutil.rmtree(place)
    took: Took = {phase: (wall, cpu) for phase, (wall, cpu) in json.loads(told).items()}
    return took


def _table(runs: Sequence[Took]) -> str:
    documents = ARCHIVES * DOCUMENTS
    rows = [
        [phase, *(f"{statistics.median(run[phase][part] for run in runs) * 1000 / documents:.2f}" for part in (0, 1))]
        for phase in runs[0]
    ]
    return table(["phase", "clock, ms a document", "processor, ms a document"], rows)


def take_up() -> dict[str, tuple[float, float]]:
    """Take all that waits through the phases; what each took. Raises RuntimeError when a document did not pass."""
    took: dict[str, tuple[float, float]] = {}
    settings = settings_from_environment()
    with open_tracker(settings) as tracker, open_qc(settings) as qc, open_session(tracker, settings) as session:
        work = DataSession(qc, session, None, Staging(settings.staging_directory))
        for phase in PHASES:
            statuses: Counter[Status] = Counter()
            wall, cpu = time.perf_counter(), _processor_seconds()
            for outcome in process_phase(work, phase):
                if isinstance(outcome, SubmissionData):
                    statuses.update(document.status for document in outcome.documents)
            took[phase.short_name] = (time.perf_counter() - wall, _processor_seconds() - cpu)
            if statuses[Status.FAILED]:
                raise RuntimeError(f"{statuses[Status.FAILED]} documents failed in the phase {phase.short_name}.")
    return took


def _processor_seconds() -> float:
    """Of this process and those that it started and waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _measure(bench: Bench) -> Iterator[Finding]:
    title = f"The phases after validation, {ARCHIVES} archives of {DOCUMENTS} documents of 50 KB, SQLite"
    yield Note(title, phase_times(bench.folder / "phases", bench.runs))


BENCHMARKS = [
    Benchmark(
        "phases",
        "Documents that pass all rules are brought to (xsd, done) once; then each phase from upload to qc is timed by "
        "itself, in a copy of that installation. All runs count, because the preparation has warmed up.",
        _measure,
        tools=("sftp",),
        max_runs=3,
    )
]

if __name__ == "__main__":
    print(json.dumps(take_up()))
