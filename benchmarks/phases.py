"""Where the time of a session goes after validation: each phase from upload to quality control, a document.

200 archives of 5 documents of 50 KB, which pass all rules, are brought to (xsd, done) once; each run takes them up in a
copy of that installation, on SQLite.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.measuring import Note, clean_environment
from benchmarks.openssh import openssh_server
from benchmarks.registry import Bench, Benchmark, Finding
from benchmarks.session import ARCHIVES, DOCUMENTS, XSD_DONE, SessionBenchmark

_ROOT = Path(__file__).parent.parent

Took = dict[str, tuple[float, float]]
"""By phase, seconds on the clock and of the processors."""


def phase_times(folder: Path, runs: int, archives: int = ARCHIVES) -> str:
    """Measure the phases in `folder`, to be made; milliseconds a document as a table in Markdown."""
    folder.mkdir(parents=True)
    home = folder / "home"
    home.mkdir()
    with openssh_server(folder / "sshd") as server:
        SessionBenchmark(folder, server, archives).crawl(home, XSD_DONE)
    return _table([_take_up(home, folder / f"run-{number}") for number in range(runs)], archives)


def _take_up(home: Path, place: Path) -> Took:
    shutil.copytree(home, place)
    environment = clean_environment(DCC_HOME=str(place), PYTHONPATH=str(_ROOT))
    command = [sys.executable, "-m", "benchmarks.phases_process"]
    told = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    shutil.rmtree(place)
    took: Took = {phase: (wall, cpu) for phase, (wall, cpu) in json.loads(told).items()}
    return took


def _table(runs: Sequence[Took], archives: int) -> str:
    documents = archives * DOCUMENTS
    lines = ["| phase | clock, ms a document | processor, ms a document |", "| --- | ---: | ---: |"]
    for phase in runs[0]:
        wall, cpu = (statistics.median(run[phase][part] for run in runs) * 1000 / documents for part in (0, 1))
        lines.append(f"| {phase} | {wall:.2f} | {cpu:.2f} |")
    return "\n".join(lines)


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
        most_runs=3,
    )
]
