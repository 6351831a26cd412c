"""The memory that validating a large document takes, as `benchmarks.validate_memory` measures it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import Note
from benchmarks.registry import Bench, Benchmark, Finding


def _measure(_: Bench) -> Iterator[Finding]:
    # It ends with 1 when it found more than it may be, and has told how much then too.
    command = [sys.executable, "-m", "benchmarks.validate_memory"]
    ended = subprocess.run(command, cwd=Path(__file__).parent.parent, check=False, stdout=subprocess.PIPE, text=True)
    if not ended.stdout.strip():
        raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode} and told nothing.")
    yield Note("Memory of validating 200 MB", f"```text\n{ended.stdout.strip()}\n```")


BENCHMARKS = [
    Benchmark(
        "memory",
        "Documents of 200 MB, valid, with errors and with one huge text, each validated in a process of its own; the "
        "peak is that of the whole process.",
        _measure,
        most_runs=1,
    )
]
