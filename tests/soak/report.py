"""The course and verdict of a long life as JSON, Markdown and a picture."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from matplotlib.figure import Figure

from tests.soak.running import Course
from tests.soak.sampling import Sample
from tests.soak.verdict import Finding, slope

_FIGURES: dict[str, Callable[[Sample], float]] = {
    "submissions": lambda sample: sample.zip_actions,
    "resident, MB": lambda sample: sample.process.rss / 1e6,
    "open files": lambda sample: sample.process.files,
    "threads": lambda sample: sample.process.threads,
    "server connections": lambda sample: sample.server_connections or 0,
    "session, s": lambda sample: sample.session_seconds,
    "staging, MB": lambda sample: sample.staging_bytes / 1e6,
    "daemon, MB": lambda sample: sum(process.rss for process in sample.daemon.values()) / 1e6,
}


def write_report(folder: Path, course: Course, findings: Sequence[Finding]) -> None:
    """Write `soak.json`, `soak.md` and `soak.svg` into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    told = {
        "plan": {name: str(value) for name, value in asdict(course.plan).items() if name != "folder"},
        "told": dict(course.told),
        "findings": [asdict(finding) for finding in findings],
        "faults": course.faults,
        "samples": [asdict(sample) for sample in course.samples],
    }
    (folder / "soak.json").write_text(json.dumps(told, indent=1) + "\n")
    (folder / "soak.md").write_text(as_markdown(course, findings))
    draw(course.samples, folder / "soak.svg")


def as_markdown(course: Course, findings: Sequence[Finding]) -> str:
    """What was lived, and each finding in a row."""
    last = course.samples[-1]
    lived = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in course.told.items())
    lines = [
        f"# Soak on {course.plan.database}: {len(course.samples)} days in {last.seconds_since_begin / 60:.1f} minutes",
        "",
        f"{last.rows['tracker.crawling_session']:,} sessions, {last.zip_actions:,} submissions. The centres: {lived}.",
        "",
        "| promise | measured | held |",
        "| --- | --- | --- |",
        *(
            f"| {finding.promise} | {finding.measured} | {'yes' if finding.held else '**no**'} |"
            for finding in findings
        ),
    ]
    return "\n".join(lines) + "\n"


def draw(samples: Sequence[Sample], path: Path) -> None:
    """A line for each figure over the days, under each other, as a picture in a file."""
    figure = Figure(figsize=(9, 1.6 * len(_FIGURES)), layout="constrained")
    for axes, (name, of) in zip(figure.subplots(len(_FIGURES), sharex=True), _FIGURES.items(), strict=True):
        values = [of(sample) for sample in samples]
        rise = slope(list(enumerate(values)))
        axes.plot(values)
        axes.set_ylim(bottom=0)
        axes.set_title(f"{name}: {values[0]:,.1f} to {values[-1]:,.1f}, {rise:+.3f} a day", loc="left", fontsize=9)
    figure.savefig(path)
