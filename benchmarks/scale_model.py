"""A model of installations that are larger than this machine can show: what their sessions cost, and their databases.

It has five costs, fitted to the smaller sizes that the `growth` benchmarks measured, and is held against the largest
ones, which it has not seen. What follows from it is told in docs/scale.md.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.measuring import Figure, Note, table
from benchmarks.registry import Bench, Benchmark
from benchmarks.results import RECORD, RESULTS, read_entries

KNOWN: Final = "growth-known"
NEW: Final = "growth-new-qc"
OFF: Final = 0.25
"""How far the model may be off at a size that it has not seen."""

Step = Mapping[str, Any]
"""A size as `benchmarks.growth.Step` has it."""


@dataclass(frozen=True, slots=True)
class Installation:
    """So many archives known, on so many file sources, and so many new ones a day."""

    name: str
    sources: int
    known: int
    new: int


INSTALLATIONS: Final = (
    Installation("today: 12 centres", 12, 20_000, 20),
    Installation("this machine's largest measurement", 12, 100_000, 100),
    Installation("100 centres", 100, 1_000_000, 600),
    Installation("1,000 centres", 1_000, 10_000_000, 6_000),
    Installation("1,000 centres, the day after a holiday", 1_000, 10_000_000, 60_000),
)


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of processor time, and megabytes of databases.

    `start`: of a session that finds nothing; `listed`: more for each archive that is known; `taken`: more for each new
    archive of five documents, to (qc, pending); `tracker`, `qc`: what an archive adds to each database.
    """

    start: float
    listed: float
    taken: float
    tracker: float
    qc: float

    def session(self, known: int, new: int) -> float:
        """The processor time of a session, in seconds."""
        return self.start + known * self.listed + new * self.taken


def fitted(known: Sequence[Step], new: Sequence[Step]) -> Costs:
    """The costs by all sizes but the largest of each: of `new`, the first is a session of none.

    Those of what is known are the line of least squares: most of the smallest sizes is starting, and one that took a
    tenth of a second longer must not be a third of the slope.
    """
    seen = known[:-1]
    none, some = new[0], new[-2]
    listed, start = statistics.linear_regression([one["archives"] for one in seen], [one["cpu"] for one in seen])
    taken = (some["cpu"] - none["cpu"]) / some["archives"]
    tracker, qc = ((some["megabytes"][which] - none["megabytes"][which]) / some["archives"] for which in (0, 1))
    return Costs(start, listed, taken, tracker, qc)


def scale_model(known: Sequence[Step], new: Sequence[Step]) -> Note:
    """The model by what was measured, how far it is off at the largest sizes, and what it says of `INSTALLATIONS`."""
    costs = fitted(known, new)
    nothing, largest = known[-1], new[-1]
    foreseen = costs.session(nothing["archives"], 0)
    taken = new[0]["cpu"] + largest["archives"] * costs.taken
    checks = [
        _check(f"A quiet session at {nothing['archives']:,} known archives", foreseen, nothing["cpu"]),
        _check(f"A session of {largest['archives']:,} new archives", taken, largest["cpu"]),
    ]
    told = (
        f"A session takes {costs.start:.2f} s of processor time, {costs.listed * 1e6:.0f} µs for each known archive "
        f"and {costs.taken * 1e3:.1f} ms for each new one with five documents of 3 to 9 KB. An archive adds "
        f"{costs.tracker * 1e3:.1f} kB to the tracker and {costs.qc * 1e3:.0f} kB to the QC database."
    )
    return Note("A model of larger installations", f"{told}\n\n{_table(costs)}", checks)


def _check(what: str, foreseen: float, measured: float) -> Figure:
    name = f"{what}: {foreseen:.2f} s foreseen, {measured:.2f} s measured; off by"
    return Figure(name, abs(foreseen / measured - 1), "", OFF)


def _table(costs: Costs) -> str:
    columns = ["installation", "file sources", "known archives", "new a day", "quiet session, s", "the day's new, min"]
    columns += ["tracker, GB", "QC database, GB", "all of it anew, days"]
    rows = []
    for one in INSTALLATIONS:
        cells = [one.name, f"{one.sources:,}", f"{one.known:,}", f"{one.new:,}"]
        cells += [f"{costs.session(one.known, 0):,.1f}", f"{one.new * costs.taken / 60:,.1f}"]
        cells += [f"{one.known * size / 1000:,.1f}" for size in (costs.tracker, costs.qc)]
        cells += [f"{one.known * costs.taken / 86_400:,.2f}"]
        rows.append(cells)
    return table(columns, rows)


def _measured(name: str) -> Sequence[Step]:
    entries = read_entries(RECORD) | read_entries(RESULTS)
    if name not in entries:
        raise RuntimeError(f"The model goes by {name}, which was not measured yet: make bench BENCH_ARGS={name}.")
    steps: Sequence[Step] = entries[name]["notes"][0]["data"]
    return steps


def _model(_: Bench) -> Iterator[Note]:
    yield scale_model(_measured(KNOWN), _measured(NEW))


BENCHMARKS = [
    Benchmark(
        "scale-model",
        f"What `{KNOWN}` and `{NEW}` measured, put forward to installations that no benchmark here can be of.",
        _model,
    )
]
