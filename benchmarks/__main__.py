"""`make bench`: run the benchmarks, print them as Markdown, and keep them under .bench/ as Markdown and JSON.

python -m benchmarks [--list] [--runs N] [--record] [NAME...]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.circumstances import circumstances, missing, versions
from benchmarks.measuring import ROOT
from benchmarks.registry import Bench, Benchmark, all_benchmarks, chosen
from benchmarks.results import RECORD, RESULTS, Entry, as_markdown, entry, goals_table, read_entries, write_entries

DOCUMENT = ROOT / "docs" / "performance.md"
MARK = "<!-- What follows is written by `make bench BENCH_ARGS=--record`. -->\n"


def main() -> None:
    """Run the benchmarks that the command line names, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a benchmark or a group of them; without any, all")
    parser.add_argument("--list", action="store_true", help="say which there are")
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each contender (default: 5)")
    parser.add_argument("--record", action="store_true", help="write what was measured to docs/performance.md too")
    given = parser.parse_args()
    known = all_benchmarks()
    if given.list:
        sys.stdout.writelines(f"{each.name:24} {each.about.partition('. ')[0]}\n" for each in known.values())
        return
    try:
        benchmarks = chosen(given.names, known)
    except ValueError as error:
        parser.error(str(error))
    if given.runs < 1:
        parser.error("--runs must be 1 or more")
    lacking = missing(tool for each in benchmarks for tool in each.tools)
    if lacking:
        sys.exit(f"Not installed: {', '.join(lacking)}. As root, make bench installs them.")
    _run(benchmarks, given.runs, record=given.record)


def _run(benchmarks: Sequence[Benchmark], runs: int, *, record: bool) -> None:
    """Measure one after the other; what each found is printed and kept as soon as it is there."""
    began = time.perf_counter()
    for benchmark in benchmarks:
        found = {benchmark.name: _measured(benchmark, benchmark.runs(runs))}
        sys.stdout.write(as_markdown(found) + "\n")
        sys.stdout.flush()
        kept = read_entries(RESULTS) | found
        write_entries(RESULTS, kept)
        RESULTS.with_suffix(".md").write_text(as_markdown(kept), "utf-8")
        if record:
            _record(found)
    _say(f"All of it took {time.perf_counter() - began:.0f} s.")


def _measured(benchmark: Benchmark, runs: int) -> Entry:
    facts, began = circumstances(), time.perf_counter()
    _say(f"{benchmark.name}: at most {runs} counted runs of each contender.")
    with tempfile.TemporaryDirectory(prefix="dcc-bench-") as folder:
        findings = list(benchmark.measure(Bench(Path(folder), runs)))
    _say(f"{benchmark.name}: took {time.perf_counter() - began:.0f} s.")
    return entry(benchmark, findings, facts, versions(benchmark.tools), runs)


def _record(found: dict[str, Entry]) -> None:
    kept = read_entries(RECORD) | found
    write_entries(RECORD, kept)
    before = DOCUMENT.read_text("utf-8").partition(MARK)[0]
    DOCUMENT.write_text(f"{before}{MARK}\n{goals_table(kept)}\n", "utf-8")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
