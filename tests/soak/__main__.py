"""`python -m tests.soak`: weeks of an installation's life in minutes. Ends with 1 when something grew or broke."""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from matplotlib.figure import Figure

from dcc.runtime.processes import keep_freed_memory_together
from tests.soak.running import Course, Plan, live
from tests.soak.sampling import Sample
from tests.soak.verdict import Finding, slope, verdict


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument(
        "--minutes",
        type=float,
        default=15.0,
        help="How long to run; in less than 10, starting up counts as growth. [15]",
    )
    parser.add_argument("--database", choices=["sqlite", "mariadb"], default="mariadb", help="[mariadb]")
    parser.add_argument("--archives", type=int, default=30, help="Archives published on a day. [30]")
    parser.add_argument("--seed", type=int, default=1, help="What the centres do follows from it. [1]")
    parser.add_argument("--without-daemon", action="store_true", help="Run sessions in this process alone.")
    parser.add_argument("--out", type=Path, default=Path(".bench/soak"), help="Where the report goes. [.bench/soak]")
    given = parser.parse_args()
    keep_freed_memory_together()
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {line}", flush=True)

    with tempfile.TemporaryDirectory(prefix="dcc-soak-", ignore_cleanup_errors=True) as folder:
        # vsftpd's anonymous user must reach what is below.
        Path(folder).chmod(0o755)
        plan = Plan(
            folder=Path(folder) / "life",
            minutes=given.minutes,
            database=given.database,
            seed=given.seed,
            archives=given.archives,
            daemon=not given.without_daemon,
        )
        course = live(plan, say)
    findings = verdict(course)
    write_report(given.out, course, findings)
    print(as_markdown(course, findings))
    print(f"Written to {given.out}: soak.json, soak.md, soak.svg. Seed {given.seed}.")
    return 0 if all(finding.held for finding in findings) else 1


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


if __name__ == "__main__":
    sys.exit(main())
