"""Validates documents, each in a process of its own, and tells of each what that took: seconds and the peak of memory.

`python -m benchmarks.validate_memory DOCUMENT...` prints a line of JSON for each.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dcc.documents.schema_set import SchemaSet

_NAMESPACE = "http://www.mousephenotype.org/dcc/exportlibrary/datastructure/core/procedure"
_HEAD = (
    f'<?xml version="1.0" encoding="UTF-8"?>\n<centreProcedureSet xmlns="{_NAMESPACE}">\n'
    '<centre centreID="J" pipeline="IMPC_001" project="IMPC">\n'
)
_TAIL = "</centre>\n</centreProcedureSet>\n"


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


def _tell(path: Path, schemas: SchemaSet) -> None:
    from dcc.documents.validation import validate_document
    from dcc.naming import DocumentKind

    began, began_cpu = time.perf_counter(), time.process_time()
    problems = validate_document(
        path, DocumentKind.EXPERIMENT, schemas, max_errors=1_000, max_tree_bytes=4 * 1024 * 1024
    )
    seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    # getrusage would count what the process that started it held.
    status = Path("/proc/self/status").read_text("ascii")
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024
    last = f"{problems[-1].line}:{problems[-1].column} {problems[-1].message}" if problems else ""
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak_mb": peak, "errors": len(problems), "last": last}))


def main() -> None:
    """Validate the documents of the command line."""
    from dcc.documents.schema_set import SchemaSet

    schemas = SchemaSet.load(None)
    for path in map(Path, sys.argv[1:]):
        # A process each: memory that one document took would count for the next.
        process = get_context("fork").Process(target=_tell, args=(path, schemas))
        process.start()
        process.join()


if __name__ == "__main__":
    main()
