"""How the cost of a session grows: with what is known already, and with what is new; and in larger installations.

The model of these has five costs, fitted to the smaller sizes that were measured, and is held against the largest ones,
which it has not seen. What follows from it is told in docs/scale.md.
"""

from __future__ import annotations

import json
import math
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.known_archives import CENTRES, KnownArchives
from benchmarks.measuring import DCC, Figure, Note, Timing, table, timed
from benchmarks.quiet_session import QuietSession
from benchmarks.registry import Bench, Benchmark
from benchmarks.results import RECORD, RESULTS, read_entries
from benchmarks.servers import OpenSsh
from benchmarks.session import DOCUMENTS

KNOWN: Final = (1_000, 10_000, 30_000, 100_000)
NEW: Final = (100, 1_000, 10_000)
LINEAR: Final = 1.05
"""The highest exponent that counts as linear, given what one run differs from the next."""
_ENDS: Final = {"xsd": {("xsd", "done")}, "qc": {("qc", "pending"), ("qc", "done")}}
_LEAST: Final = 0.001
PLOTS: Final = RESULTS.parent
OF_KNOWN, OF_NEW = "growth-known", "growth-new-qc"

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Step:
    """What sessions took with so many archives: the medians of their runs.

    `megabytes` are of the databases after; `walls` the least and the most of the times on the clock.
    """

    archives: int
    wall: float
    cpu: float
    peak_mb: float
    megabytes: tuple[float, float]
    walls: tuple[float, float]
    listing: float | None = None


def growth_with_known(known: KnownArchives, runs: int) -> Note:
    """Sessions that find nothing new among ever more known archives, beside listing alone with `lftp`."""
    steps = []
    quiet = QuietSession(known)
    for amount in KNOWN:
        known.grow(amount)
        listed, crawled = [], []
        for number in range(runs + 1):
            timings = quiet.list_alone(), quiet.crawl(events=False)
            if number:
                listed.append(timings[0])
                crawled.append(timings[1])
        listing = statistics.median(one.wall for one in listed)
        steps.append(replace(_step(amount, crawled, _megabytes(known.home)), listing=listing))
    least, most = steps[0], steps[-1]
    each = (most.cpu - least.cpu) / (most.archives - least.archives)
    beyond = (most.wall - least.wall) / ((most.listing or 0) - (least.listing or 0))
    walls, worked, listings = (
        [(one.archives, value) for one, value in zip(steps, values, strict=True)]
        for values in ([one.wall for one in steps], [one.cpu for one in steps], [one.listing or 0 for one in steps])
    )
    series = {"time on the clock": walls, "processor time": worked, "listing alone with lftp": listings}
    _plot("growth-known", "A session with nothing new", "known archives", series)
    figures = [
        Figure("Exponent of the session's time on the clock", exponent(walls), ""),
        Figure("Exponent of its processor time", exponent(worked), ""),
        Figure("Exponent of listing alone", exponent(listings), ""),
        Figure("Processor time of each known archive more", each * 1e6, "µs"),
        Figure("What the session grows by, in times of what listing alone does", beyond, ""),
    ]
    title = "How a session with nothing new grows with what is known"
    return Note(title, _table(steps), figures, [asdict(one) for one in steps])


def growth_with_new(folder: Path, server: OpenSsh, until: str, runs: int) -> Note:
    """Sessions that take ever more new archives of five small documents to a phase, in a new installation each."""
    steps = []
    for amount in (0, *NEW):
        new = KnownArchives(folder / f"new-{amount}", server)
        new.register()
        for archive in range(amount):
            new.put(CENTRES[archive % len(CENTRES)], archive // len(CENTRES))
        timings = [_crawl(new, until, amount)]
        for _ in range(runs - 1):
            shutil.rmtree(new.home)
            new.register()
            timings.append(_crawl(new, until, amount))
        steps.append(_step(amount, timings, _megabytes(new.home)))
    nothing, *steps = steps
    beyond = [(one.archives, max(one.wall - nothing.wall, _LEAST)) for one in steps]
    worked = [(one.archives, max(one.cpu - nothing.cpu, _LEAST)) for one in steps]
    series = {"time on the clock": beyond, "processor time": worked}
    about = f"What a session of new archives, to {until}, takes beyond one of none"
    _plot(f"growth-new-{until}", about, "new archives", series)
    most = f"from {steps[-2].archives:,} archives to {steps[-1].archives:,}"
    figures = [
        Figure("Exponent of the time on the clock, beyond a session of none", exponent(beyond), "", LINEAR),
        Figure("Exponent of the processor time, beyond a session of none", exponent(worked), "", LINEAR),
        Figure(f"Exponent of the time on the clock, {most}", exponent(beyond[-2:]), "", LINEAR),
        Figure(f"Exponent of the processor time, {most}", exponent(worked[-2:]), "", LINEAR),
        Figure("A session of none", nothing.wall, "s"),
        Figure("Time on the clock of an archive, of the most", beyond[-1][1] / beyond[-1][0] * 1000, "ms"),
    ]
    title = f"How a session grows with new archives of {DOCUMENTS} documents, to {until}"
    return Note(title, _table(steps), figures, [asdict(one) for one in (nothing, *steps)])


def _crawl(new: KnownArchives, until: str, amount: int) -> Timing:
    command = [DCC, "crawl", "--until", until]
    timing = timed(command, log=new.folder / "crawl.log", environment=new.environment(), memory=True)
    told = subprocess.run([DCC, "status", "--json"], env=new.environment(), check=True, capture_output=True).stdout
    counted = json.loads(told)["xml_files"]
    came = sum(one["count"] for one in counted if (one["phase"], one["status"]) in _ENDS[until])
    if came != amount * DOCUMENTS:
        raise RuntimeError(f"{amount} archives came to {counted}; see {new.folder}.")
    return timing


def _step(archives: int, timings: Sequence[Timing], megabytes: tuple[float, float]) -> Step:
    def median(of: Callable[[Timing], float]) -> float:
        return statistics.median(of(timing) for timing in timings)

    wall, cpu = median(lambda timing: timing.wall), median(lambda timing: timing.cpu)
    walls = min(timing.wall for timing in timings), max(timing.wall for timing in timings)
    peak = max(timing.peak_mb or 0.0 for timing in timings)
    return Step(archives, wall, cpu, peak, megabytes, walls)


def _megabytes(home: Path) -> tuple[float, float]:
    """The sizes of the tracker and of the QC database."""
    tracker, qc = ((home / name).stat().st_size / 1e6 for name in ("tracker.db", "qc.db"))
    return tracker, qc


def _table(steps: Sequence[Step]) -> str:
    columns = ["archives", *(["listing alone, s"] if steps[0].listing is not None else []), "session, s"]
    columns += ["least to most, s", "processor, s", "peak, MB", "tracker, MB", "QC database, MB"]
    rows = []
    for one in steps:
        cells = [f"{one.archives:,}", *([f"{one.listing:.2f}"] if one.listing is not None else []), f"{one.wall:.2f}"]
        cells += [f"{one.walls[0]:.2f} to {one.walls[1]:.2f}", f"{one.cpu:.2f}", f"{one.peak_mb:.0f}"]
        cells += [f"{size:.1f}" for size in one.megabytes]
        rows.append(cells)
    return table(columns, rows, texts=0)


def _plot(name: str, title: str, across: str, series: Mapping[str, Points]) -> None:
    """Draw lines, by their names, into `.bench/<name>.svg` with their exponents: what is linear has a slope of one."""
    import matplotlib.figure

    figure = matplotlib.figure.Figure(figsize=(9, 5))
    axes = figure.subplots()
    for line, points in series.items():
        axes.loglog(*zip(*points, strict=True), marker="o", label=f"{line}: exponent {exponent(points):.2f}")
    axes.set(title=title, xlabel=across, ylabel="seconds")
    axes.grid(color="#ddd")
    axes.legend()
    PLOTS.mkdir(exist_ok=True)
    figure.savefig(PLOTS / f"{name}.svg")


def exponent(points: Points) -> float:
    """The power by which the second number of points grows with the first: the slope of a line fitted to logarithms.

    All numbers are positive, and at least two of the first ones differ.
    """
    across, up = ([math.log(value) for value in values] for values in zip(*points, strict=True))
    return statistics.linear_regression(across, up).slope


OFF: Final = 0.25
"""How far the model may be off at a size that it has not seen."""


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


def _fitted(known: Sequence[Step], new: Sequence[Step]) -> Costs:
    """The costs by all sizes but the largest of each: of `new`, the first is a session of none.

    Those of what is known are the line of least squares: most of the smallest sizes is starting, and one that took a
    tenth of a second longer must not be a third of the slope.
    """
    seen = known[:-1]
    none, some = new[0], new[-2]
    listed, start = statistics.linear_regression([one.archives for one in seen], [one.cpu for one in seen])
    taken = (some.cpu - none.cpu) / some.archives
    tracker, qc = ((some.megabytes[which] - none.megabytes[which]) / some.archives for which in (0, 1))
    return Costs(start, listed, taken, tracker, qc)


def scale_model(known: Sequence[Step], new: Sequence[Step]) -> Note:
    """The model by what was measured, how far it is off at the largest sizes, and what it says of `INSTALLATIONS`."""
    costs = _fitted(known, new)
    nothing, largest = known[-1], new[-1]
    foreseen = costs.session(nothing.archives, 0)
    taken = new[0].cpu + largest.archives * costs.taken
    checks = [
        _check(f"A quiet session at {nothing.archives:,} known archives", foreseen, nothing.cpu),
        _check(f"A session of {largest.archives:,} new archives", taken, largest.cpu),
    ]
    told = (
        f"A session takes {costs.start:.2f} s of processor time, {costs.listed * 1e6:.0f} µs for each known archive "
        f"and {costs.taken * 1e3:.1f} ms for each new one with five documents of 3 to 9 KB. An archive adds "
        f"{costs.tracker * 1e3:.1f} kB to the tracker and {costs.qc * 1e3:.0f} kB to the QC database."
    )
    return Note("A model of larger installations", f"{told}\n\n{_scale_table(costs)}", checks)


def _check(what: str, foreseen: float, measured: float) -> Figure:
    name = f"{what}: {foreseen:.2f} s foreseen, {measured:.2f} s measured; off by"
    return Figure(name, abs(foreseen / measured - 1), "", OFF)


def _scale_table(costs: Costs) -> str:
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


def _steps(name: str) -> list[Step]:
    """What a benchmark of growth measured last."""
    entries = read_entries(RECORD) | read_entries(RESULTS)
    if name not in entries:
        raise RuntimeError(f"The model goes by {name}, which was not measured yet: make bench BENCH_ARGS={name}.")
    return [Step(**step) for step in entries[name]["notes"][0]["data"]]


def _model(_: Bench) -> Iterator[Note]:
    yield scale_model(_steps(OF_KNOWN), _steps(OF_NEW))


def _known(bench: Bench) -> Iterator[Note]:
    with OpenSsh(bench.folder / "sshd") as server:
        known = KnownArchives(bench.folder / "known", server)
        known.make()
        yield growth_with_known(known, bench.runs)


def _new(bench: Bench, until: str) -> Iterator[Note]:
    with OpenSsh(bench.folder / "sshd") as server:
        yield growth_with_new(bench.folder, server, until, bench.runs)


_DRAWN = "The plot goes to `.bench/`."
BENCHMARKS = [
    Benchmark(
        OF_KNOWN,
        f"A session with nothing new, without Dagster's events, as ever more archives are known. {_DRAWN}",
        _known,
        tools=("lftp",),
        max_runs=5,
    ),
    Benchmark(
        "growth-new-xsd",
        f"Ever more new archives of five documents of 3 to 9 KB, to (xsd, done), without Dagster's events. {_DRAWN}",
        lambda bench: _new(bench, "xsd"),
        max_runs=5,
    ),
    Benchmark(
        OF_NEW,
        f"Archives as those of `growth-new-xsd`, to (qc, pending). {_DRAWN}",
        lambda bench: _new(bench, "qc"),
        max_runs=5,
    ),
    Benchmark(
        "scale-model",
        f"What `{OF_KNOWN}` and `{OF_NEW}` measured, put forward to installations that no benchmark here can be of.",
        _model,
    ),
]
