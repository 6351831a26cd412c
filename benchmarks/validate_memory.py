"""Peak memory and speed of validating large documents, each in a process of its own.

`python benchmarks/validate_memory.py [--megabytes 200] [--limit 150]` makes a valid document, one with errors all over
and one with a single huge text, validates each, prints megabytes a second and the process's peak memory, and ends with
1 when a peak is above the limit.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dcc.documents.schema_set import SchemaSet

sys.path.insert(0, str(Path(__file__).parents[1]))

_NAMESPACE = "http://www.mousephenotype.org/dcc/exportlibrary/datastructure/core/procedure"
_HEAD = (
    f'<?xml version="1.0" encoding="UTF-8"?>\n<centreProcedureSet xmlns="{_NAMESPACE}">\n'
    '<centre centreID="J" pipeline="IMPC_001" project="IMPC">\n'
)
_TAIL = "</centre>\n</centreProcedureSet>\n"
_ERROR_EVERY = 500


def _experiment(number: int, *, wrong: bool) -> str:
    values = "".join(
        f'<simpleParameter parameterID="IMPC_CBC_{n:03}_001" unit="mmol/L"><value>{number % 97 + n / 10}</value>'
        "</simpleParameter>\n"
        for n in range(1, 30)
    )
    sequence = ' sequenceID="first"' if wrong else ""
    return (
        f'<experiment experimentID="E{number}" dateOfExperiment="2013-10-31">\n<specimenID>M{number}</specimenID>\n'
        f'<procedure procedureID="IMPC_CBC_001">\n{values}'
        f'<procedureMetadata parameterID="IMPC_CBC_033_001"{sequence}><value>Machine</value></procedureMetadata>\n'
        "</procedure>\n</experiment>\n"
    )


def _experiments(size: int, error_every: int, error_last: bool) -> Iterator[str]:
    written, number = 0, 0
    while written < size:
        number += 1
        text = _experiment(number, wrong=bool(error_every) and number % error_every == 0)
        written += len(text)
        yield text
    yield _experiment(number + 1, wrong=error_last)


def write_document(path: Path, size: int, *, error_every: int = 0, error_last: bool = False) -> None:
    """Write an experiment document of about `size` bytes; each `error_every`th, or the last, experiment is wrong."""
    with path.open("w", encoding="utf-8") as file:
        file.write(_HEAD)
        file.writelines(_experiments(size, error_every, error_last))
        file.write(_TAIL)


def write_huge_text(path: Path, size: int) -> None:
    """Write a document with a single text of `size` bytes."""
    with path.open("w", encoding="utf-8") as file:
        file.write(f"{_HEAD}<experiment experimentID='E' dateOfExperiment='2013-10-31'><specimenID>")
        for _ in range(size // 1_000_000):
            file.write("m" * 1_000_000)
        file.write(f"</specimenID></experiment>{_TAIL}")


def _peak_megabytes() -> float:
    """Peak resident memory of this process. getrusage would count what the process that started it held."""
    status = Path("/proc/self/status").read_text("ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024


def _validate(paths: list[Path]) -> None:
    from dcc.documents.schema_set import SchemaSet

    schemas = SchemaSet.load(None)
    for path in paths:
        # A process each: memory that one document took would count for the next.
        process = get_context("fork").Process(target=_tell, args=(path, schemas))
        process.start()
        process.join()


def _tell(path: Path, schemas: SchemaSet) -> None:
    from dcc.documents.validation import validate_document
    from dcc.naming import DocumentKind

    began, began_cpu = time.perf_counter(), time.process_time()
    problems = validate_document(
        path, DocumentKind.EXPERIMENT, schemas, max_errors=1_000, max_tree_bytes=4 * 1024 * 1024
    )
    seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    peak = _peak_megabytes()
    last = f"{problems[-1].line}:{problems[-1].column} {problems[-1].message}" if problems else ""
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak_mb": peak, "errors": len(problems), "last": last}))


def main() -> int:
    """Run the benchmark; the exit code says whether every peak was below the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--limit", type=int, default=150, help="megabytes of peak memory allowed")
    parser.add_argument("--document", type=Path, nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.document:
        _validate(arguments.document)
        return 0
    size = arguments.megabytes * 1_000_000
    exceeded = False
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "document.xml"
        writers = {
            "valid": partial(write_document, path, size),
            "with errors": partial(write_document, path, size, error_every=_ERROR_EVERY),
            "error at the end": partial(write_document, path, size, error_last=True),
            "one huge text": partial(write_huge_text, path, size),
        }
        for label, write in writers.items():
            write()
            command = [sys.executable, __file__, "--document", str(path)]
            found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            megabytes, cpu = path.stat().st_size / 1e6, found["cpu"]
            exceeded |= found["peak_mb"] > arguments.limit
            print(
                f"{label:17} {megabytes:5.0f} MB in {found['seconds']:6.2f} s; CPU {cpu:6.2f} s, "
                f"{megabytes / cpu:3.0f} MB/s; peak {found['peak_mb']:4.0f} MB; {found['errors']:4} errors; "
                f"{found['last'][:60]}"
            )
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main())
