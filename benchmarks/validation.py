"""`dcc validate` against `xmllint --schema`, `unzip` and `md5sum`.

Both sides are whole processes. `dcc validate` also tells the kind of each document, checks its name, refuses what could
read other files and would say where each error is; for archives it checks names, sizes and CRCs of all entries.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
import zipfile
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from benchmarks.measuring import DCC, Comparison, Contender, Figure, Note, Timing, clean_environment, module, timed
from benchmarks.registry import Bench, Benchmark, Finding
from benchmarks.session import CHECK, DOCUMENTS, SCHEMAS, submission
from benchmarks.upload import write_large
from benchmarks.validate_memory import write_document, write_huge_text

SMALL_ARCHIVES = 400
LARGE_BYTES = 1_000_000_000
ARCHIVES = 1_000
MEMORY_BYTES = 200_000_000
MEMORY_MB = 150

VALIDATE = "dcc validate"


class Script(NamedTuple):
    """What the shell runs in the folder, and how it is called."""

    name: str
    text: str


ONE_CALL = Script(
    "xmllint --schema", f'xmllint --noout --schema "{SCHEMAS}/procedure_definition.xsd" *.experiment.impc.xml\n'
)
LARGE_CALL = Script(
    "xmllint --stream --schema",
    f'xmllint --noout --stream --schema "{SCHEMAS}/procedure_definition.xsd" large.experiment.xml\n',
)
LOOP = Script(
    "unzip, md5sum, xmllint",
    f"""\
set -eu
SCHEMAS="{SCHEMAS}"
for zip in *.zip; do
{CHECK}    rm -r "$zip.contents"
done
""",
)


class ValidationBenchmark:
    """Both sides for the files in `folder`; `documents` is how many must be found valid."""

    def __init__(self, folder: Path, documents: int, *, memory: bool = False) -> None:
        self._folder, self._documents, self._memory = folder, documents, memory
        self._log = folder.with_suffix(".log")

    def comparison(self, title: str, script: Script, goal: float) -> Comparison:
        """The shell's script, which says of each document that it validates, and `dcc validate`."""
        shell = Contender(script.name, lambda: self._run_shell(script.text), command=script.text)
        ours = Contender(VALIDATE, self.run_validate, command=f"{VALIDATE} --schema-only .")
        amount = (self._documents, "documents") if self._documents > 1 else (LARGE_BYTES // 1_000_000, "MB")
        return Comparison(title, [shell, ours], {VALIDATE: goal}, amount)

    def _run_shell(self, script: str) -> Timing:
        command = ["sh", "-c", f"cd {shlex.quote(str(self._folder))}\n{script}"]
        timing = timed(command, log=self._log, environment=clean_environment(), memory=self._memory)
        self._require(self._log.read_text().count(" validates\n"))
        return timing

    def run_validate(self) -> Timing:
        """`dcc validate` of the folder."""
        environment = clean_environment(TMPDIR=str(self._folder.parent))
        command = [DCC, "validate", "--schema-only", str(self._folder)]
        timing = timed(command, log=self._log, environment=environment, memory=self._memory)
        lines = self._log.read_text().splitlines()
        self._require(sum(line.startswith("valid ") and line.endswith(".xml") for line in lines))
        return timing

    def _require(self, valid: int) -> None:
        if valid != self._documents:
            raise RuntimeError(f"{valid} of {self._documents} documents are valid; see {self._log}.")


def write_documents(folder: Path, archives: int) -> int:
    """Write the experiment documents of so many archives of the session to `folder`; how many there are."""
    folder.mkdir(parents=True)
    for number in range(archives):
        with zipfile.ZipFile(BytesIO(submission(number)[1])) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if "experiment" in name])
    return sum(1 for _ in folder.iterdir())


def write_archives(folder: Path, archives: int) -> int:
    """Write the archives of the session to `folder`; how many documents they hold."""
    folder.mkdir(parents=True)
    for number in range(archives):
        name, content = submission(number)
        (folder / name).write_bytes(content)
        (folder / f"{name}.md5").write_text(f"{hashlib.md5(content, usedforsecurity=False).hexdigest()}  {name}\n")
    return archives * DOCUMENTS


def _measure_small(bench: Bench) -> Iterator[Finding]:
    folder = bench.folder / "documents"
    benchmark = ValidationBenchmark(folder, write_documents(folder, SMALL_ARCHIVES * 5 // 4))
    title = "XSD validation of 2,000 documents of 50 KB"
    comparison = benchmark.comparison(title, ONE_CALL, 1.0)
    comparison.measure(bench.runs)
    yield comparison


def _measure_large(bench: Bench) -> Iterator[Finding]:
    folder = bench.folder / "large"
    folder.mkdir()
    write_large(folder / "large.experiment.xml", LARGE_BYTES)
    benchmark = ValidationBenchmark(folder, 1, memory=True)
    comparison = benchmark.comparison("XSD validation of one document of 1 GB", LARGE_CALL, 1.2)
    # The file has just been written: it is in memory.
    comparison.measure(bench.runs, uncounted=0)
    comparison.add_peaks(comparison.contenders[1:], MEMORY_MB)
    yield comparison


def _measure_archives(bench: Bench) -> Iterator[Finding]:
    folder = bench.folder / "archives"
    benchmark = ValidationBenchmark(folder, write_archives(folder, ARCHIVES))
    title = f"Extract, hash and validate {ARCHIVES:,} archives of {DOCUMENTS} documents of 50 KB"
    comparison = benchmark.comparison(title, LOOP, 0.3)
    # The archives have just been written: they are in memory.
    comparison.measure(bench.runs, uncounted=0)
    yield comparison


def _measure_memory(bench: Bench) -> Iterator[Finding]:
    path, size = bench.folder / "document.xml", MEMORY_BYTES
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
        figures.append(Figure(f"peak of memory, {label}", found["peak_mb"], "MB", MEMORY_MB))
    yield Note(f"Memory of validating {size // 1_000_000} MB", "\n".join(f"- {line}" for line in lines), figures)


_ABOUT = (
    "`dcc validate` of a folder beside one `xmllint` over all of its files. Starting Python counts, and so do reading "
    "the names, refusing document type declarations and telling the kind of each document."
)

BENCHMARKS = [
    Benchmark("validation-small", _ABOUT, _measure_small, tools=("xmllint",)),
    Benchmark("validation-large", f"{_ABOUT} Memory is that of all processes.", _measure_large, tools=("xmllint",)),
    Benchmark(
        "validation-archives",
        "`dcc validate` of a folder of archives, which compares the MD5 of each with the one beside it, extracts it, "
        "takes the MD5 of every document and validates it, beside a loop of the shell's tools, which takes the MD5 of "
        "each archive. Both remove what they extracted.",
        _measure_archives,
        tools=("unzip", "md5sum", "xmllint"),
    ),
    Benchmark(
        "memory",
        "Documents of 200 MB, valid, with errors and with one huge text, each validated in a process of its own; the "
        "peak is that of the whole process.",
        _measure_memory,
        max_runs=1,
    ),
]
