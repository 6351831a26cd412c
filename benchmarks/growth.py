"""How the cost of a session grows: with what is known already, and with what is new."""

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

from benchmarks.known_archives import CENTRES, DOCUMENTS, KnownArchives
from benchmarks.measuring import DCC, Figure, Note, Timing, table, timed
from benchmarks.quiet_session import QuietSession
from benchmarks.registry import Bench, Benchmark
from benchmarks.results import RESULTS
from benchmarks.servers import OpenSsh

KNOWN: Final = (1_000, 10_000, 30_000, 100_000)
NEW: Final = (100, 1_000, 10_000)
LINEAR: Final = 1.05
"""The highest exponent that counts as linear, given what one run differs from the next."""
_ENDS: Final = {"xsd": {("xsd", "done")}, "qc": {("qc", "pending"), ("qc", "done")}}
_LEAST: Final = 0.001
PLOTS: Final = RESULTS.parent

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
    listing: float | None = None
    megabytes: tuple[float, float] = (0.0, 0.0)
    walls: tuple[float, float] | None = None


def growth_with_known(known: KnownArchives, amounts: Sequence[int], runs: int) -> Note:
    """Sessions that find nothing new among ever more known archives, beside listing alone with `lftp`."""
    steps = []
    quiet = QuietSession(known)
    for amount in amounts:
        known.grow(amount)
        listed, crawled = [], []
        for number in range(runs + 1):
            timings = quiet.list_alone(), quiet.crawl(events=False)
            if number:
                listed.append(timings[0])
                crawled.append(timings[1])
        listing = statistics.median(one.wall for one in listed)
        steps.append(replace(_step(amount, crawled, _megabytes(known.home)), listing=listing))
    return told_of_known(steps)


def told_of_known(steps: Sequence[Step]) -> Note:
    """What sessions with nothing new came to, from the least known to the most."""
    least, most = steps[0], steps[-1]
    each = (most.cpu - least.cpu) / (most.archives - least.archives)
    beyond = (most.wall - least.wall) / ((most.listing or 0) - (least.listing or 0))
    walls, worked, listings = (
        [(one.archives, value) for one, value in zip(steps, values, strict=True)]
        for values in ([one.wall for one in steps], [one.cpu for one in steps], [one.listing or 0 for one in steps])
    )
    series = {"time on the clock": walls, "processor time": worked, "listing alone with lftp": listings}
    named = {f"{what}: exponent {exponent(points):.2f}": points for what, points in series.items()}
    _plot("growth-known", "A session with nothing new", "known archives", named)
    figures = [
        Figure("Exponent of the session's time on the clock", exponent(walls), ""),
        Figure("Exponent of its processor time", exponent(worked), ""),
        Figure("Exponent of listing alone", exponent(listings), ""),
        Figure("Processor time of each known archive more", each * 1e6, "µs"),
        Figure("What the session grows by, in times of what listing alone does", beyond, ""),
    ]
    title = "How a session with nothing new grows with what is known"
    return Note(title, _table(steps), figures, [asdict(one) for one in steps])


def growth_with_new(
    folder: Path, server: OpenSsh, amounts: Sequence[int], until: str, runs: int, centres: Sequence[str] = CENTRES
) -> Note:
    """Sessions that take ever more new archives of five small documents to a phase, in a new installation each."""
    steps = []
    for amount in (0, *amounts):
        new = KnownArchives(folder / f"new-{amount}", server, centres)
        new.register()
        for archive in range(amount):
            new.put(centres[archive % len(centres)], archive // len(centres))
        timings = [_crawl(new, until, amount)]
        for _ in range(runs - 1):
            shutil.rmtree(new.home)
            new.register()
            timings.append(_crawl(new, until, amount))
        steps.append(_step(amount, timings, _megabytes(new.home)))
    return told_of_new(steps[0], steps[1:], until)


def told_of_new(nothing: Step, steps: Sequence[Step], until: str) -> Note:
    """What sessions of new archives came to, from the fewest to the most, beside `nothing`, one of none."""
    beyond = [(one.archives, max(one.wall - nothing.wall, _LEAST)) for one in steps]
    worked = [(one.archives, max(one.cpu - nothing.cpu, _LEAST)) for one in steps]
    series = {"time on the clock": beyond, "processor time": worked}
    named = {f"{what}: exponent {exponent(points):.2f}": points for what, points in series.items()}
    about = f"What a session of new archives, to {until}, takes beyond one of none"
    _plot(f"growth-new-{until}", about, "new archives", named)
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
    return Step(archives, wall, cpu, peak, megabytes=megabytes, walls=walls)


def _megabytes(home: Path) -> tuple[float, float]:
    """The sizes of the tracker and of the QC database."""
    tracker, qc = ((home / name).stat().st_size / 1e6 for name in ("tracker.db", "qc.db"))
    return tracker, qc


def _table(steps: Sequence[Step]) -> str:
    listed, spread = steps[0].listing is not None, steps[0].walls is not None
    columns = ["archives", *(["listing alone, s"] if listed else []), "session, s"]
    columns += [*(["least to most, s"] if spread else []), "processor, s", "peak, MB"]
    columns += ["tracker, MB", "QC database, MB"]
    rows = []
    for one in steps:
        cells = [f"{one.archives:,}", *([f"{one.listing:.2f}"] if one.listing is not None else []), f"{one.wall:.2f}"]
        cells += [f"{one.walls[0]:.2f} to {one.walls[1]:.2f}"] if one.walls is not None else []
        cells += [f"{one.cpu:.2f}", f"{one.peak_mb:.0f}", *(f"{size:.1f}" for size in one.megabytes)]
        rows.append(cells)
    return table(columns, rows, texts=0)


def _plot(name: str, title: str, across: str, series: Mapping[str, Points]) -> None:
    """Draw lines, by their names, into `.bench/<name>.svg`: what is linear has a slope of one."""
    import matplotlib.figure

    figure = matplotlib.figure.Figure(figsize=(9, 5))
    axes = figure.subplots()
    for line, points in series.items():
        axes.loglog(*zip(*points, strict=True), marker="o", label=line)
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


def _known(bench: Bench) -> Iterator[Note]:
    with OpenSsh(bench.folder / "sshd") as server:
        known = KnownArchives(bench.folder / "known", server)
        known.make()
        yield growth_with_known(known, KNOWN, bench.runs)


def _new(bench: Bench, until: str) -> Iterator[Note]:
    with OpenSsh(bench.folder / "sshd") as server:
        yield growth_with_new(bench.folder, server, NEW, until, bench.runs)


_DRAWN = "The plot goes to `.bench/`."
BENCHMARKS = [
    Benchmark(
        "growth-known",
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
        "growth-new-qc",
        f"Archives as those of `growth-new-xsd`, to (qc, pending). {_DRAWN}",
        lambda bench: _new(bench, "qc"),
        max_runs=5,
    ),
]
