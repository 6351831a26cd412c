"""The phases from upload to quality control of one session, as a process of its own.

`python -m benchmarks.phases_process` takes up what waits in the installation that the environment names (DCC_HOME,
DCC_QC_URL), and prints as JSON what each phase took: seconds on the clock, and of the processors.
"""

from __future__ import annotations

import json
import resource
import time
from collections import Counter
from typing import Final

from dcc.phases import Phase

PHASES: Final = (Phase.UPLOAD, Phase.DATA, Phase.CONTEXT, Phase.OVERVIEW, Phase.QC)


def take_up() -> dict[str, tuple[float, float]]:
    """Take all that waits through the phases; what each took. Raises RuntimeError when a document did not pass."""
    from dcc.cli.shell.context import open_qc, open_tracker, settings_from_environment
    from dcc.data_outcomes import ZipData
    from dcc.operations.sessions import open_session
    from dcc.phases import Status
    from dcc.session.data.data_session import DataSession
    from dcc.session.data.session_data import take_up_phase
    from dcc.store.staging import Staging

    took: dict[str, tuple[float, float]] = {}
    settings = settings_from_environment()
    with open_tracker(settings) as tracker, open_qc(settings) as qc, open_session(tracker, settings) as session:
        work = DataSession(qc, session, None, Staging(settings.staging_directory))
        for phase in PHASES:
            statuses: Counter[Status] = Counter()
            wall, cpu = time.perf_counter(), _processor_seconds()
            for outcome in take_up_phase(work, phase):
                if isinstance(outcome, ZipData):
                    statuses.update(document.status for document in outcome.documents)
            took[phase.short_name] = (time.perf_counter() - wall, _processor_seconds() - cpu)
            if statuses[Status.FAILED]:
                raise RuntimeError(f"{statuses[Status.FAILED]} documents failed in the phase {phase.short_name}.")
    return took


def _processor_seconds() -> float:
    """Of this process and those that it started and waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    print(json.dumps(take_up()))
