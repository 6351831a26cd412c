"""The course and verdict of a long life as JSON, Markdown and a picture."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from xml.sax.saxutils import escape

from tests.soak.running import Course
from tests.soak.sampling import Sample
from tests.soak.verdict import Finding, slope

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 720, 110, 150, 20, 34
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
    (folder / "soak.svg").write_text(as_picture(course.samples))


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


def as_picture(samples: Sequence[Sample]) -> str:
    """A line for each figure over the days, under each other, as SVG."""
    height = _TOP + len(_FIGURES) * (_HEIGHT + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 20}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_LEFT + _WIDTH + 20}" height="{height}" fill="white"/>',
    ]
    for place, (name, of) in enumerate(_FIGURES.items()):
        parts += _line(name, [of(sample) for sample in samples], _TOP + place * (_HEIGHT + _GAP))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _line(name: str, values: Sequence[float], top: int) -> list[str]:
    most = max([*values, 1e-9])
    step = _WIDTH / max(len(values) - 1, 1)
    points = " ".join(
        f"{_LEFT + place * step:.1f},{top + _HEIGHT * (1 - value / most):.1f}" for place, value in enumerate(values)
    )
    rise = slope(list(enumerate(values)))
    return [
        f'<text x="10" y="{top + 16}">{escape(name)}</text>',
        f'<text x="10" y="{top + 34}" fill="#666">{values[0]:,.1f} to {values[-1]:,.1f}</text>',
        f'<text x="10" y="{top + 52}" fill="#666">{rise:+.3f} a day</text>',
        f'<path d="M{_LEFT} {top} V{top + _HEIGHT} H{_LEFT + _WIDTH}" stroke="#aaa" fill="none"/>',
        f'<polyline points="{points}" stroke="#2463a8" stroke-width="1.5" fill="none"/>',
    ]
