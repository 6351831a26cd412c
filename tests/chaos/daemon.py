"""Dagster's daemon as a process that crawls by itself, killed while it does."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from dcc.session.leases import active_sessions
from tests.chaos.installation import ChaosInstallation, Session
from tests.soak.sampling import children_of

if TYPE_CHECKING:
    from tests.chaos.faults import Trial

_FIRST_SESSION_SECONDS: Final = 180.0
_LAST_SESSION_SECONDS: Final = 120.0


def kill_daemon(trial: Trial) -> None:
    """Start the daemon, which crawls at the next minute; kill it, or all that it has started, in a session of its."""
    everything = trial.rng.random() < 0.7
    patience = trial.rng.uniform(0.0, trial.installation.took)
    started: list[int] = []
    daemon = trial.installation.begin_command({"DCC_CRAWL_INTERVAL": "* * * * *"}, "daemon")
    try:
        deadline = time.monotonic() + _FIRST_SESSION_SECONDS
        while not _is_active(trial.installation) and not daemon.is_over and time.monotonic() < deadline:
            daemon.wait_or_until(0.05)
        daemon.wait_or_until(patience)
        started = _descendants(daemon)
        if daemon.kill():
            trial.note_kill("daemon")
        for pid in started if everything else []:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                trial.note_kill("process of the daemon")
    finally:
        started = _descendants(daemon) or started
        daemon.kill()
    # What the daemon had started goes on without it.
    deadline = time.monotonic() + _LAST_SESSION_SECONDS
    while _is_active(trial.installation) and time.monotonic() < deadline:
        time.sleep(0.2)
    for pid in started:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _is_active(installation: ChaosInstallation) -> bool:
    with installation.tracker.connect() as connection:
        return bool(active_sessions(connection, installation.settings))


def _descendants(session: Session) -> list[int]:
    """The processes that a process has started, and those have."""
    found: list[int] = []
    waiting = session.children()
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children_of(pid)
    return found
