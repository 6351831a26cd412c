"""`make bench`: run the benchmarks, print them as Markdown, and keep them under .bench/.

python -m benchmarks [session] [transfer] [memory] [upload] [phases] [--runs N]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.measuring import Comparison
from benchmarks.phases import MOST_RUNS as PHASE_RUNS
from benchmarks.phases import phase_times
from benchmarks.session import ARCHIVES, SCRIPT, TITLE, session_comparison
from benchmarks.transfer import transfer_comparisons
from benchmarks.upload import MOST_RUNS, upload_comparisons, upload_memory

RESULTS = Path(__file__).parent.parent / ".bench"
DOCUMENT = Path(__file__).parent.parent / "docs" / "performance.md"
MARK = "<!-- What follows is written by `make bench BENCH_ARGS=--record`. -->\n"
BENCHMARKS = ("session", "transfer", "memory", "upload", "phases")
_TOOLS = {
    "OpenSSH": ["ssh", "-V"],
    "UnZip": ["unzip", "-v"],
    "md5sum": ["md5sum", "--version"],
    "libxml2 (xmllint)": ["xmllint", "--version"],
    "SQLite's command line": ["sqlite3", "--version"],
}
_PACKAGES = ("dcc", "dagster", "lxml", "paramiko", "sqlalchemy")


def main() -> None:
    """Run the benchmarks that the command line names, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="BENCHMARK", help=f"of {', '.join(BENCHMARKS)}; without any, all")
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each contender (default: 5)")
    parser.add_argument("--record", action="store_true", help="write the results to docs/performance.md too")
    given = parser.parse_args()
    unknown = set(given.names) - set(BENCHMARKS)
    if unknown or given.runs < 1:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}" if unknown else "--runs must be 1 or more")
    names = given.names or BENCHMARKS
    missing = sorted(words[0] for words in _TOOLS.values() if shutil.which(words[0]) is None)
    if missing:
        sys.exit(f"Not installed: {', '.join(missing)}. As root, make bench installs them.")
    comparisons = _run(names, given.runs)
    memory = _memory() if "memory" in names else ""
    uploading = _upload_memory() if "upload" in names else ""
    phases = _phases(given.runs) if "phases" in names else ""
    results = _keep(comparisons, memory, uploading, phases, given.runs)
    if given.record:
        before = DOCUMENT.read_text("utf-8").partition(MARK)[0]
        DOCUMENT.write_text(f"{before}{MARK}\n{results}", "utf-8")


def _run(names: Sequence[str], runs: int) -> list[Comparison]:
    comparisons: list[Comparison] = []
    with tempfile.TemporaryDirectory(prefix="dcc-bench-") as scratch:
        if "session" in names:
            _say(f"Session: 3 contenders, {runs} runs each and one that is not counted.")
            comparisons.append(session_comparison(Path(scratch) / "session", runs))
        if "transfer" in names:
            _say(f"Transfer: 2 contenders, {runs} runs each and one that is not counted.")
            comparisons += transfer_comparisons(Path(scratch) / "transfer", runs)
        if "upload" in names:
            _say(f"XML to rows: 3 contenders on SQLite, 2 on MariaDB, {min(runs, MOST_RUNS)} runs each.")
            comparisons += upload_comparisons(Path(scratch) / "upload", runs)
    return comparisons


def _memory() -> str:
    """What the benchmark of the memory that validation takes prints, also when it took more than it may."""
    _say("Memory: documents of 200 MB, valid and not, each validated in a process of its own.")
    command = [sys.executable, "-m", "benchmarks.validate_memory"]
    ended = subprocess.run(command, cwd=RESULTS.parent, check=False, stdout=subprocess.PIPE, text=True)
    if not ended.stdout.strip():
        raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode} and told nothing.")
    return ended.stdout.strip()


def _upload_memory() -> str:
    """What was found of the memory that a large document takes on its way into the database."""
    _say("Memory: a document of 200 MB, applied to SQLite.")
    with tempfile.TemporaryDirectory(prefix="dcc-bench-") as scratch:
        return upload_memory(Path(scratch) / "upload")


def _phases(runs: int) -> str:
    """What each phase after validation takes, as a table."""
    _say(f"Phases: {min(runs, PHASE_RUNS)} runs.")
    with tempfile.TemporaryDirectory(prefix="dcc-bench-") as scratch:
        return phase_times(Path(scratch) / "phases", runs)


def _keep(comparisons: list[Comparison], memory: str, uploading: str, phases: str, runs: int) -> str:
    """Print the results, and write them to .bench/results.md and .bench/results.json; returns them as Markdown."""
    facts = _circumstances(runs)
    parts = ["\n".join(f"- {name}: {value}" for name, value in facts.items())]
    parts += [comparison.as_markdown() for comparison in comparisons]
    if memory:
        parts.append(f"### Memory of validating 200 MB\n\n```text\n{memory}\n```")
    if uploading:
        parts.append(f"### Memory of a document of 200 MB on its way into SQLite\n\n```text\n{uploading}\n```")
    if phases:
        parts.append(
            f"### The phases after validation, {ARCHIVES} archives of 5 documents of 50 KB, SQLite\n\n{phases}"
        )
    if any(comparison.title.startswith(TITLE) for comparison in comparisons):
        parts.append(f"The shell's side of the session:\n\n```sh\n{SCRIPT}```")
    text = "\n\n".join(parts) + "\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "results.md").write_text(text, "utf-8")
    record = {
        "circumstances": facts,
        "comparisons": [each.as_json() for each in comparisons],
        "memory": memory,
        "upload_memory": uploading,
        "phases": phases,
    }
    (RESULTS / "results.json").write_text(json.dumps(record, indent=2) + "\n", "utf-8")
    sys.stdout.write(text)
    return text


def _circumstances(runs: int) -> dict[str, str]:
    facts = {
        "measured": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{os.cpu_count()} processors, {platform.machine()}, {platform.system()} {platform.release()}",
        "runs": f"{runs} of each contender in turns, after one that is not counted",
        "load before": f"{os.getloadavg()[1]:.2f} (5 minutes)",
        "Python": platform.python_version(),
    }
    facts |= {package: version(package) for package in _PACKAGES}
    for name, command in _TOOLS.items():
        told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        facts[name] = told.stdout.splitlines()[0]
    return facts


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
