"""`python -m tests.histories`: random histories against the models. Ends with 1 when anything differs.

Each seed has a history of transfers: uploads, mirrors and retries. It has one of submissions, too: animals and
experiments on them, duplicates, archives inside archives, tables, manifests; and what people decide: withdrawals,
confirmations, holds, waivers, retries, quality control.
"""

import argparse
import logging
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.histories.running import Prepared, live, submit
from tests.support.databases import MariaDb
from tests.support.memory import keep_temporary_files_in_memory

KINDS: Final = {"transfers": live, "submissions": submit}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    parser.add_argument("--histories", type=int, default=300, help="How many of each kind. [300]")
    parser.add_argument("--seed", type=int, default=1, help="The seed of the first; the next has the next. [1]")
    parser.add_argument("--kind", choices=KINDS, action="append", help="Of this kind only.")
    parser.add_argument("--mariadb", action="store_true", help="On a server of their own, rather than on SQLite.")
    given = parser.parse_args()
    kinds = [KINDS[name] for name in given.kind or KINDS]
    logging.disable(logging.CRITICAL)
    keep_temporary_files_in_memory()
    failed, sessions, states = set(), 0, Counter[str]()
    with tempfile.TemporaryDirectory(prefix="dcc-histories-") as folder, ExitStack() as served:
        server = MariaDb() if given.mariadb else None
        if server is not None:
            served.callback(server.remove)
        prepared = Prepared(Path(folder), server)
        for seed in range(given.seed, given.seed + given.histories):
            for outcome in (kind(prepared, seed) for kind in kinds):
                sessions += outcome.sessions
                states.update(outcome.states)
                if outcome.differences:
                    failed.add(seed)
                    what = "\n".join(f"    {line}" for line in [*outcome.done, "", *outcome.differences])
                    print(f"Seed {seed} differs. Again: python -m tests.histories --histories 1 --seed {seed}\n{what}")
    print(f"Seeds {given.seed} to {given.seed + given.histories - 1}: {sessions} sessions, {len(failed)} differences.")
    print("Histories that came through each state:", ", ".join(f"{state} {n}" for state, n in sorted(states.items())))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
