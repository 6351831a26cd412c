"""Timing whole processes side by side, and the tables that come of it."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Timing:
    """What one process and its children took, in seconds: on the clock, and of the processors."""

    wall: float
    cpu: float


@dataclass
class Contender:
    """One side of a comparison. `run` does the work once, in a fresh place, and times the process that does it."""

    name: str
    run: Callable[[], Timing]
    timings: list[Timing] = field(default_factory=list)

    @property
    def wall(self) -> float:
        """The median time on the clock, in seconds."""
        return statistics.median(timing.wall for timing in self.timings)

    @property
    def cpu(self) -> float:
        """The median processor time, in seconds."""
        return statistics.median(timing.cpu for timing in self.timings)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Contenders that did the same work; the first is what the others are measured against.

    `goals` are the highest ratios that are asked of contenders, by name. `amount` is how many there were of what was
    worked on, and its name: what was done of it in a second is then shown.
    """

    title: str
    contenders: Sequence[Contender]
    goals: Mapping[str, float] = field(default_factory=dict)
    amount: tuple[int, str] | None = None

    def measure(self, runs: int, *, uncounted: int = 1) -> None:
        """Run every contender `runs` times, in turns, after `uncounted` rounds that only warm up."""
        for number in range(uncounted + runs):
            for contender in self.contenders:
                timing = contender.run()
                if number >= uncounted:
                    contender.timings.append(timing)

    def ratio(self, contender: Contender) -> float:
        """A contender's time on the clock, in times of the first one's."""
        return contender.wall / self.contenders[0].wall

    def as_markdown(self) -> str:
        """The comparison as a table."""
        lines = [
            f"### {self.title}",
            "",
            "| | median, s | least to most, s | processor, s | ratio | goal |",
            "| --- | ---: | ---: | ---: | ---: | ---: |",
        ]
        if self.amount is not None:
            lines[-2] += f" {self.amount[1]}/s |"
            lines[-1] += " ---: |"
        for contender in self.contenders:
            walls = [timing.wall for timing in contender.timings]
            goal = self.goals.get(contender.name)
            lines.append(
                f"| {contender.name} | {contender.wall:.2f} | {min(walls):.2f} to {max(walls):.2f} "
                f"| {contender.cpu:.2f} | {self.ratio(contender):.2f} | {'' if goal is None else f'{goal:g}'} |"
            )
            if self.amount is not None:
                lines[-1] += f" {self.amount[0] / contender.wall:,.0f} |"
        return "\n".join(lines)

    def as_json(self) -> dict[str, object]:
        """The comparison with every timing, in types of JSON."""
        return {
            "title": self.title,
            "amount": self.amount,
            "contenders": [
                {
                    "name": contender.name,
                    "wall_seconds": [round(timing.wall, 4) for timing in contender.timings],
                    "cpu_seconds": [round(timing.cpu, 4) for timing in contender.timings],
                    "ratio": round(self.ratio(contender), 3),
                    "goal": self.goals.get(contender.name),
                }
                for contender in self.contenders
            ],
        }


def timed(
    command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None, expected: int = 0
) -> Timing:
    """Run a command to its end, its output in `log`. Raises RuntimeError when it ends otherwise than `expected`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with log.open("wb") as output:
        began = time.perf_counter()
        ended = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, check=False
        )
        wall = time.perf_counter() - began
    if ended.returncode != expected:
        told = log.read_text(errors="replace")[-2000:]
        raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode}:\n{told}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Timing(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def clean_environment(**variables: str) -> dict[str, str]:
    """This process's environment without settings of the platform, and with `variables`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DCC_", "DAGSTER_"))}
    return {**kept, **variables}
