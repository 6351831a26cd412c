"""`python -m benchmarks.workers_process`: a session on DCC_HOME whose archives workers have prepared already.

It prints how long it took on the clock, and of the processors, with the processes that it started.
"""

from __future__ import annotations

import gc
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dcc.operations.sessions import open_session
from dcc.phases import Phase
from dcc.qc.database import open_qc_database
from dcc.session.archives.processing import process_zip_actions
from dcc.session.batches.exchange import Exchange
from dcc.session.crawling import crawl_file_sources
from dcc.session.data.session_data import take_up_data
from dcc.settings import load_settings
from dcc.tracker.database import open_tracker


@dataclass(frozen=True)
class FinishedWorkers:
    """Workers that have left everything before they are asked; see `Workers`."""

    def run(self, work: str, names: Sequence[str], check: Callable[[], object], results: Exchange) -> None:
        """There is nothing to do."""


def main() -> None:
    """Run the session, and print what it took."""
    # As `dcc` does.
    gc.set_threshold(50_000, 20, 100)
    settings = load_settings()
    tracker, qc = open_tracker(settings), open_qc_database(settings)
    wall, before = time.perf_counter(), os.times()
    with open_session(tracker, settings) as session:
        deque(crawl_file_sources(session, None), maxlen=0)
        outcomes = list(process_zip_actions(session, workers=FinishedWorkers()))
        deque(take_up_data(qc, session, until=Phase.QC), maxlen=0)
    after = os.times()
    if not all(outcome.succeeded for outcome in outcomes):
        raise RuntimeError("Archives failed: the time means nothing.")
    print(time.perf_counter() - wall, sum(after[:4]) - sum(before[:4]))


if __name__ == "__main__":
    main()
