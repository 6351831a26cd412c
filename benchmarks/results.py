"""What was measured, kept by the benchmark's name as JSON and shown as Markdown.

A results file has an entry for each benchmark, with its own date, versions and load, so that one can be measured again
without the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.measuring import ROOT, Comparison, table
from benchmarks.registry import Benchmark, Finding

RESULTS = ROOT / ".bench" / "results.json"
"""What was measured on this machine."""
RECORD = ROOT / "docs" / "performance.json"
"""What was recorded in the documents."""

Entry = dict[str, Any]
"""What was found by one benchmark, in types of JSON."""


def entry(
    benchmark: Benchmark, findings: Iterable[Finding], facts: Mapping[str, str], versions: Mapping[str, str], runs: int
) -> Entry:
    """The entry of a benchmark that found `findings` with `runs` counted runs at most."""
    found = list(findings)
    return {
        "about": benchmark.about,
        **facts,
        "runs": runs,
        "versions": dict(versions),
        "comparisons": [each.as_json() for each in found if isinstance(each, Comparison)],
        "notes": [each.as_json() for each in found if not isinstance(each, Comparison)],
    }


def read_entries(path: Path) -> dict[str, Entry]:
    """The entries of a results file; none when there is no file."""
    if not path.exists():
        return {}
    entries: dict[str, Entry] = json.loads(path.read_text("utf-8"))
    return entries


def write_entries(path: Path, entries: Mapping[str, Entry]) -> None:
    """Write a results file, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(dict(sorted(entries.items())), indent=1, ensure_ascii=False) + "\n", "utf-8")


def as_markdown(entries: Mapping[str, Entry]) -> str:
    """A table of everything that has a goal, then each benchmark with all that was found."""
    ordered = dict(sorted(entries.items()))
    parts = [goals_table(ordered), *(_section(name, each) for name, each in ordered.items())]
    return "\n\n".join(part for part in parts if part) + "\n"


def goals_table(entries: Mapping[str, Entry]) -> str:
    """Everything that has a goal, a line for each benchmark's comparison or note; nothing where nothing has."""
    rows = [
        [found["title"], ", ".join(told), each["measured"].split()[0], name]
        for name, each in sorted(entries.items())
        for found in (*each["comparisons"], *each["notes"])
        if (told := _with_goals(found))
    ]
    return table(["what", "measured (goal)", "on", "benchmark"], rows, texts=4) if rows else ""


def _with_goals(found: Entry) -> list[str]:
    """What was found that has a goal: each ratio, and of figures with the same unit and goal the largest."""
    told = [f"{row['ratio']:.2f} ({_met_goal(row)})" for row in found.get("contenders", ()) if row["goal"] is not None]
    largest: dict[tuple[str, float], dict[str, Any]] = {}
    for figure in found["figures"]:
        if figure["goal"] is not None:
            of_unit = (figure["unit"], figure["goal"])
            largest[of_unit] = max(figure, largest.get(of_unit, figure), key=lambda one: one["value"])
    told += [f"{_amount(one['value'])}{unit and ' '}{unit} ({_met_goal(one)})" for (unit, _), one in largest.items()]
    return told


def _met_goal(found: Mapping[str, Any]) -> str:
    return f"{found['goal']:g}" if found["met"] else f"{found['goal']:g}, missed"


def _section(name: str, found: Entry) -> str:
    told = "; ".join(f"{what} {version}" for what, version in found["versions"].items())
    parts = [
        f"### {name}",
        found["about"],
        f"{found['measured']}, commit {found['commit']}, {found['machine']}, load {found['load before']}{_pace(found)}"
        f", at most {found['runs']} counted runs of each. {told}.",
    ]
    parts += [_comparison(each) for each in found["comparisons"]]
    parts += [_note(each) for each in found["notes"]]
    return "\n\n".join(parts)


def _pace(found: Entry) -> str:
    return f", {found['pace']}" if "pace" in found else ""


def _comparison(found: Entry) -> str:
    columns = ["median, s", "least to most, s", "processor, s"]
    remembered = any(row["peak_mb"] is not None for row in found["contenders"])
    columns += ["peak, MB"] if remembered else []
    columns += ["ratio", "of each round", "goal", "met"]
    columns += [f"{found['amount'][1]}/s"] if found["amount"] else []
    rows = []
    first = found["contenders"][0]["wall_seconds"]
    for row in found["contenders"]:
        walls = row["wall_seconds"]
        cells = [row["name"], f"{row['median_seconds']:.2f}", f"{min(walls):.2f} to {max(walls):.2f}"]
        cells += [f"{row['median_cpu_seconds']:.2f}"]
        cells += ["" if row["peak_mb"] is None else f"{row['peak_mb']:.0f}"] if remembered else []
        rounds = [ours / theirs for ours, theirs in zip(walls, first, strict=True)]
        cells += [f"{row['ratio']:.2f}", "" if walls is first else f"{min(rounds):.2f} to {max(rounds):.2f}"]
        cells += ["" if row["goal"] is None else f"{row['goal']:g}", _met(row["met"])]
        cells += [f"{found['amount'][0] / row['median_seconds']:,.0f}"] if found["amount"] else []
        rows.append(cells)
    parts = [f"#### {found['title']}", table(["", *columns], rows)]
    parts += [_figures(found)] if found["figures"] else []
    commands = [row for row in found["contenders"] if row["command"]]
    parts += [f"{row['name']}:\n\n```sh\n{row['command'].strip()}\n```" for row in commands]
    return "\n\n".join(parts)


def _note(found: Entry) -> str:
    parts = [f"#### {found['title']}", found["text"].strip()]
    parts += [_figures(found)] if found["figures"] else []
    return "\n\n".join(part for part in parts if part)


def _figures(found: Entry) -> str:
    rows = []
    for figure in found["figures"]:
        goal = "" if figure["goal"] is None else f"{figure['goal']:g} {figure['unit']}"
        rows.append([figure["name"], f"{_amount(figure['value'])} {figure['unit']}", goal, _met(figure["met"])])
    return table(["", "measured", "goal", "met"], rows)


def _met(met: bool | None) -> str:
    return "" if met is None else "yes" if met else "no"


def _amount(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.2f}"
