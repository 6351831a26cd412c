"""Timing whole processes side by side, and the tables that come of it."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
DCC = str(Path(sys.executable).with_name("dcc"))
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Timing:
    """What one process and its children took, in seconds: on the clock, and of the processors.

    `peak_mb` is the memory of the process and its children, each at its most, where that was looked at.
    """

    wall: float
    cpu: float
    peak_mb: float | None = None


@dataclass
class Contender:
    """One side of a comparison. `run` does the work once, in a fresh place, and times the process that does it.

    `command` is shown: what the process is.
    """

    name: str
    run: Callable[[], Timing]
    timings: list[Timing] = field(default_factory=list)
    command: str = ""

    @property
    def wall(self) -> float:
        """The median time on the clock, in seconds."""
        return statistics.median(timing.wall for timing in self.timings)

    @property
    def cpu(self) -> float:
        """The median processor time, in seconds."""
        return statistics.median(timing.cpu for timing in self.timings)

    @property
    def peak_mb(self) -> float | None:
        """The highest peak of memory of all runs, in MB; None where it was not looked at."""
        return max((timing.peak_mb for timing in self.timings if timing.peak_mb is not None), default=None)


@dataclass(frozen=True, slots=True)
class Figure:
    """Something measured that is not a ratio, in `unit`, and the most that it may be where something is asked."""

    name: str
    value: float
    unit: str
    goal: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether it is as small as asked; None when nothing is asked."""
        return None if self.goal is None else self.value <= self.goal

    def as_json(self) -> dict[str, object]:
        """In types of JSON."""
        return {**asdict(self), "value": round(self.value, 4), "met": self.met}


@dataclass(frozen=True, slots=True)
class Note:
    """What was measured without something beside it: a title, Markdown, and figures that have goals.

    `data` is for programs that go on from it, in types of JSON.
    """

    title: str
    text: str
    figures: Sequence[Figure] = ()
    data: object = None

    def as_json(self) -> dict[str, object]:
        """In types of JSON."""
        figures = [figure.as_json() for figure in self.figures]
        return {"title": self.title, "text": self.text, "figures": figures, "data": self.data}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Contenders that did the same work; the first is what the others are measured against.

    `goals` are the highest ratios that are asked of contenders, by name. `amount` is how many there were of what was
    worked on, and its name: what was done of it in a second is then shown. `figures` are added to what was measured.
    """

    title: str
    contenders: Sequence[Contender]
    goals: Mapping[str, float] = field(default_factory=dict)
    amount: tuple[int, str] | None = None
    figures: list[Figure] = field(default_factory=list)

    def measure(self, runs: int, *, uncounted: int = 1) -> None:
        """Run every contender `runs` times, in turns, after `uncounted` rounds that only warm up."""
        for number in range(uncounted + runs):
            for contender in self.contenders:
                timing = contender.run()
                if number >= uncounted:
                    contender.timings.append(timing)

    def add_peaks(self, contenders: Iterable[Contender], most: float) -> None:
        """Add the highest peak of memory of each of these contenders, and the most that it may be, in MB."""
        for contender in contenders:
            self.figures.append(Figure(f"Peak memory of {contender.name}", contender.peak_mb or 0.0, "MB", most))

    def ratio(self, contender: Contender) -> float:
        """A contender's time on the clock, in times of the first one's."""
        return contender.wall / self.contenders[0].wall

    def as_json(self) -> dict[str, object]:
        """The comparison with every timing, in types of JSON."""
        return {
            "title": self.title,
            "amount": self.amount,
            "contenders": [self._contender_as_json(contender) for contender in self.contenders],
            "figures": [figure.as_json() for figure in self.figures],
        }

    def _contender_as_json(self, contender: Contender) -> dict[str, object]:
        goal = self.goals.get(contender.name)
        ratio = round(self.ratio(contender), 3)
        return {
            "name": contender.name,
            "command": contender.command,
            "wall_seconds": [round(timing.wall, 4) for timing in contender.timings],
            "cpu_seconds": [round(timing.cpu, 4) for timing in contender.timings],
            "peak_mb": contender.peak_mb,
            "median_seconds": round(contender.wall, 4),
            "median_cpu_seconds": round(contender.cpu, 4),
            "ratio": ratio,
            "goal": goal,
            "met": None if goal is None else ratio <= goal,
        }


def timed(
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    expected: int = 0,
    memory: bool = False,
) -> Timing:
    """Run a command to its end, its output in `log`; look at its memory on the way when `memory` says so.

    Raises RuntimeError when it ends otherwise than `expected`.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with log.open("wb") as output:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        with ThreadPoolExecutor(1) as beside:
            looking = beside.submit(peak_megabytes, process) if memory else None
            process.wait()
            wall = time.perf_counter() - began
        peak = sum(looking.result()) if looking is not None else None
    if process.returncode != expected:
        told = log.read_text(errors="replace")[-2000:]
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{told}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Timing(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, peak)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """A table in Markdown, whose first `texts` columns are words and the others numbers."""
    rule = ["---"] * texts + ["---:"] * (len(columns) - texts)
    return "\n".join(f"| {' | '.join(line)} |" for line in (columns, rule, *rows))


def module(name: str, *words: str) -> list[str]:
    """The command that runs a module of this package as a process of its own."""
    return [sys.executable, "-m", f"benchmarks.{name}", *words]


def clean_environment(**variables: str) -> dict[str, str]:
    """This process's environment without settings of the platform, but for no quiet period, and with `variables`.

    Modules of this package are found from any directory. What runs in it may keep the bytecode of its modules, as an
    installed platform does: pip compiles what it installs.
    """
    unwanted = ("DCC_", "DAGSTER_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    return {**kept, "DCC_QUIET_SECONDS": "0", "PYTHONPATH": str(ROOT), **variables}


def peak_megabytes(process: subprocess.Popen[bytes]) -> list[float]:
    """The most memory that a process and each of its descendants had, until it ends; its own first."""
    peaks: dict[int, int] = {}
    while process.poll() is None:
        for pid in family(process.pid):
            # The kernel keeps the peak, anew from when a child executes its program: until then it has its parent's.
            peaks[pid] = _peak_kilobytes(pid) or peaks.get(pid, 0)
        time.sleep(_LOOK_SECONDS)
    return [peak / 1024 for peak in peaks.values()]


def family(pid: int) -> Iterator[int]:
    """A process and all that it has started, and those have, as far as they are there."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            children = (task / "children").read_text("ascii").split()
        except OSError:
            continue
        for child in children:
            yield from family(int(child))


def _peak_kilobytes(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text("ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0)
