"""The long trial: `python -m tests.chaos`, see --help. Ends with 1 when anything came out otherwise than it must."""

import argparse
import json
import math
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial

from tests.chaos.faults import KINDS
from tests.chaos.sequence import Outcome, run_sequence, world_of
from tests.chaos.workers import compare_workers, disturb_workers
from tests.support.memory import keep_temporary_files_in_memory

_ROUNDS = 8
_ARCHIVES = 300
"""How many archives all executors must leave alike."""
_DATABASES = ("sqlite", "mariadb")


def _heard(of: str, line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {of}: {line}", flush=True)


def _run(chosen: argparse.Namespace) -> int:
    """The sequences on one kind of database, told as they go."""
    print(f"Seed {chosen.seed}, {chosen.rounds} rounds on {chosen.database}.", flush=True)
    outcomes: list[Outcome] = []
    heard, began = partial(_heard, chosen.database), time.monotonic()
    until = began + 60 * chosen.minutes
    with world_of(chosen.database, own_disk=True) as world:
        for seed, first in enumerate(range(0, chosen.rounds, _ROUNDS), chosen.seed):
            if time.monotonic() >= until:
                break
            rounds = min(_ROUNDS, chosen.rounds - first)
            outcomes.append(run_sequence(world, seed, rounds, chosen.kinds, heard, until=until))
            if outcomes[-1].problems:
                heard(_failure(outcomes[-1], chosen.database, chosen.kinds))
    summary = _summary(chosen.database, outcomes, time.monotonic() - began)
    print(f"CHAOS {json.dumps(summary)}", flush=True)
    return 1 if summary["failed"] else 0


def _failure(outcome: Outcome, database: str, kinds: Sequence[str]) -> str:
    chosen = "" if set(kinds) == set(KINDS) else f" --kinds {','.join(kinds)}"
    again = f"python -m tests.chaos --seed {outcome.seed} --rounds {outcome.rounds} --database {database}{chosen}"
    what = "\n".join(f"    {line}" for line in [*outcome.done, "", *outcome.problems])
    return f"FAILED in round {outcome.rounds} ({outcome.last_kind}). Again: {again}\n{what}"


def _summary(database: str, outcomes: Sequence[Outcome], seconds: float) -> dict[str, object]:
    kills, faults = (sum((getattr(one, name) for one in outcomes), Counter[str]()) for name in ("kills", "faults"))
    rounds = sum(outcome.rounds for outcome in outcomes)
    return {
        "database": database,
        "rounds": rounds,
        "rounds a minute": round(60 * rounds / seconds, 1),
        "seconds": round(seconds),
        "kills": sum(kills.values()),
        "kills by process": dict(kills.most_common()),
        "faults": dict(faults.most_common()),
        "failed": [outcome.seed for outcome in outcomes if outcome.problems],
    }


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tests.chaos",
        description="Disturb installations on real servers at random moments, and see that nothing comes of it.",
    )
    parser.add_argument("--seed", type=int, help="of the first sequence; those after it have the next ones")
    parser.add_argument("--rounds", type=int, default=64, help="on each kind of database (default 64)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which no round begins (no limit)")
    parser.add_argument("--database", choices=_DATABASES, help="by default both, and workers, beside each other")
    parser.add_argument("--workers", action="store_true", help="only disturb workers, their broker and object store")
    parser.add_argument(
        "--workers-equal", type=int, metavar="N", help="only hold N archives as all executors leave them"
    )
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS), help=", ".join(KINDS))
    chosen = parser.parse_args(arguments)
    unknown = set(chosen.kinds) - set(KINDS)
    if unknown:
        parser.error(f"There is no kind {min(unknown)}. There are: {', '.join(KINDS)}")
    if chosen.seed is None:
        chosen.seed = random.SystemRandom().randrange(1_000_000) * 1_000
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = _parse(arguments)
    keep_temporary_files_in_memory()
    # So that servers are stopped and file systems given back.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if chosen.workers or chosen.workers_equal:
        return _workers(chosen)
    return _all(chosen) if chosen.database is None else _run(chosen)


def _workers(chosen: argparse.Namespace) -> int:
    """Rounds with workers, or their results held against each other."""
    print(f"Seed {chosen.seed}, workers.", flush=True)
    heard = partial(_heard, "workers")
    if chosen.workers_equal:
        problems = compare_workers(chosen.seed, heard, archives=chosen.workers_equal)
    else:
        problems = disturb_workers(chosen.seed, heard)
    print(*problems, sep="\n", flush=True)
    return 1 if problems else 0


def _all(chosen: argparse.Namespace) -> int:
    command = [sys.executable, "-m", "tests.chaos", "--seed", str(chosen.seed), "--rounds", str(chosen.rounds)]
    command += ["--minutes", str(chosen.minutes), "--kinds", ",".join(chosen.kinds)]
    parts = [["--workers"], ["--workers-equal", str(_ARCHIVES)], *(["--database", one] for one in _DATABASES)]
    running = [subprocess.Popen([*command, *part]) for part in parts]
    try:
        return max(process.wait() for process in running)
    finally:
        for process in running:
            process.terminate()


if __name__ == "__main__":
    sys.exit(main())
