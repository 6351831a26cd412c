"""`python -m tests.soak`: weeks of an installation's life in minutes. Ends with 1 when something grew or broke."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from dcc.runtime.processes import keep_freed_memory_together
from tests.soak.report import as_markdown, write_report
from tests.soak.running import Plan, live
from tests.soak.verdict import verdict


def main() -> int:
    """Live, and say what came of it."""
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


if __name__ == "__main__":
    sys.exit(main())
