"""The memory that validating a large document takes, and the time."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import partial

from benchmarks.measuring import Figure, Note, clean_environment, module
from benchmarks.registry import Bench, Benchmark, Finding
from benchmarks.validate_memory import write_document, write_huge_text

MEGABYTES = 200
PEAK_MB = 150


def _measure(bench: Bench) -> Iterator[Finding]:
    path, size = bench.folder / "document.xml", MEGABYTES * 1_000_000
    writers = {
        "valid": partial(write_document, path, size),
        "with errors": partial(write_document, path, size, error_every=500),
        "error at the end": partial(write_document, path, size, error_last=True),
        "one huge text": partial(write_huge_text, path, size),
    }
    lines, figures = [], []
    for label, write in writers.items():
        write()
        command = module("validate_memory", str(path))
        found = json.loads(subprocess.run(command, env=clean_environment(), check=True, capture_output=True).stdout)
        megabytes, cpu = path.stat().st_size / 1e6, found["cpu"]
        lines.append(
            f"{label}: {megabytes:.0f} MB in {found['seconds']:.2f} s; CPU {cpu:.2f} s, {megabytes / cpu:.0f} MB/s; "
            f"{found['errors']} errors; {found['last'][:60]}"
        )
        figures.append(Figure(f"peak of memory, {label}", found["peak_mb"], "MB", PEAK_MB))
    yield Note(f"Memory of validating {MEGABYTES} MB", "\n".join(f"- {line}" for line in lines), figures)


BENCHMARKS = [
    Benchmark(
        "memory",
        "Documents of 200 MB, valid, with errors and with one huge text, each validated in a process of its own; the "
        "peak is that of the whole process.",
        _measure,
        max_runs=1,
    )
]
