"""What can be measured, by name: every module of this package that has `BENCHMARKS` adds to it.

A benchmark is a row, or a few rows that share what is prepared for them: it is run, shown and recorded by itself. A
module adds one so, and is found by being there:

    def _measure(bench: Bench) -> Iterator[Finding]:
        comparison = Comparison("What is compared", [theirs, ours], {ours.name: 1.0})
        comparison.measure(bench.runs)
        yield comparison

    BENCHMARKS = [Benchmark("listing-large", "What the work is, in a sentence.", _measure, tools=("lftp",))]
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from benchmarks.measuring import Comparison, Note

Finding = Comparison | Note


@dataclass(frozen=True, slots=True)
class Bench:
    """What a benchmark is given: an empty folder of its own, removed afterwards, and the number of counted runs."""

    folder: Path
    runs: int


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Something that can be measured by itself.

    `name` is what the command line calls it: words joined by hyphens, of which the first ones name a group. `about`
    says what the work is, in Markdown. `measure` does it, and yields what was found, measured. `tools` are names of
    `benchmarks.circumstances.TOOLS` that must be installed, and whose versions are told. `max_runs` bounds the counted
    runs of what takes long.
    """

    name: str
    about: str
    measure: Callable[[Bench], Iterable[Finding]]
    tools: Sequence[str] = ()
    max_runs: int | None = None

    def runs(self, asked: int) -> int:
        """How many runs count when `asked` are asked for."""
        return asked if self.max_runs is None else min(asked, self.max_runs)


def all_benchmarks() -> dict[str, Benchmark]:
    """Every benchmark by its name, in the order of modules' names. Raises ValueError when two have one name."""
    found: dict[str, Benchmark] = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name == "__main__":
            continue
        for benchmark in getattr(import_module(f"benchmarks.{module.name}"), "BENCHMARKS", ()):
            if benchmark.name in found:
                raise ValueError(f"Two benchmarks are named {benchmark.name}: rename one of them.")
            found[benchmark.name] = benchmark
    return found


def chosen(names: Sequence[str], known: dict[str, Benchmark]) -> list[Benchmark]:
    """The benchmarks that `names` name, each by its name or by a group's; all of them when there are no names.

    Raises ValueError for a name that names none.
    """
    if not names:
        return list(known.values())
    wanted = set[str]()
    for name in names:
        # One by that very name, although longer names begin with it.
        named = {name} & known.keys() or {each for each in known if each.startswith(f"{name}-")}
        if not named:
            raise ValueError(f"There is no benchmark {name}. There are: {', '.join(known)}.")
        wanted |= named
    return [each for each in known.values() if each.name in wanted]
