"""`make fuzz`: coverage-guided fuzzing of all targets, one after the other, for FUZZ_SECONDS in all (600 by default).

    python -m tests.fuzzing                          all targets
    python -m tests.fuzzing archive names            these only
    python -m tests.fuzzing --again archive FILE     one input again, alone, with its traceback

Each target runs in a process of its own under Atheris (libFuzzer), beginning with the corpus that is shipped. What it
finds is kept in .fuzz/<target>/: a crash is printed with the command that runs it again, and makes the exit code 1.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
FINDINGS = Path(__file__).parents[2] / ".fuzz"
INSTRUMENTED = (
    "dcc.archives",
    "dcc.converters",
    "dcc.documents",
    "dcc.sources",
    "dcc.naming",
    "dcc.reference",
    "zipfile",
)
"""The modules whose branches guide the fuzzer."""
SLOW_SECONDS = 20
MEMORY_MEGABYTES = 2_048
LONGEST_INPUT = 16_384
_DONE = re.compile(r"#(\d+)\s+(?:DONE|pulse|REDUCE|NEW|RELOAD)\s+cov: (\d+) ft: (\d+) corp: (\d+)")


def fuzz_one(name: str, arguments: list[str]) -> None:
    """Become libFuzzer on one target; never returns."""
    import atheris

    # What is imported already cannot be instrumented.
    sys.modules.pop("zipfile", None)
    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        from tests.fuzzing.targets import TARGETS
    atheris.Setup([sys.argv[0], *arguments], TARGETS[name])
    atheris.Fuzz()


def run(name: str, seconds: int) -> bool:
    """Fuzz one target in a process of its own for a time; whether nothing was found."""
    folder = FINDINGS / name
    found, crashes = folder / "corpus", folder / "crashes"
    for made in (found, crashes):
        made.mkdir(parents=True, exist_ok=True)
    known = set(crashes.iterdir())
    options = [
        f"-max_total_time={seconds}",
        f"-timeout={SLOW_SECONDS}",
        f"-rss_limit_mb={MEMORY_MEGABYTES}",
        f"-max_len={LONGEST_INPUT}",
        f"-artifact_prefix={crashes}/",
        "-print_final_stats=1",
    ]
    command = [sys.executable, "-m", "tests.fuzzing", "--one", name, *options, str(found), str(CORPUS / name)]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace")
    taken = max(time.monotonic() - began, 0.1)
    (folder / "log").write_text(done.stdout + done.stderr)
    executions, covered = _figures(done.stderr)
    print(f"{name:14}{executions:>10,} executions {executions / taken:>8,.0f}/s {covered:>7,} edges", flush=True)
    crashed = sorted(set(crashes.iterdir()) - known)
    for crash in crashed:
        print(f"  A fault was found. Run it again: python -m tests.fuzzing --again {name} {crash}", flush=True)
    if done.returncode and not crashed:
        print(f"  The fuzzer failed ({done.returncode}); see {folder / 'log'}.", flush=True)
    return done.returncode == 0 and not crashed


def _figures(log: str) -> tuple[int, int]:
    """Executions and covered edges, as libFuzzer told them last."""
    lines = _DONE.findall(log)
    return (int(lines[-1][0]), int(lines[-1][1])) if lines else (0, 0)


def main(arguments: list[str]) -> int:
    """What the command line asks for; the exit code."""
    if arguments[:1] == ["--one"]:
        fuzz_one(arguments[1], arguments[2:])
    if arguments[:1] == ["--again"]:
        from tests.fuzzing.targets import TARGETS, forget_files

        TARGETS[arguments[1]](Path(arguments[2]).read_bytes())
        forget_files()
        print("No fault.")
        return 0
    names = arguments or sorted(path.name for path in CORPUS.iterdir())
    share = max(int(os.environ.get("FUZZ_SECONDS", "600")) // len(names), 1)
    results = [run(name, share) for name in names]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
