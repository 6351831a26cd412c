"""The faults of a trial: each kind makes a session, or several, go wrong at seeded moments."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dcc.session.leases import active_sessions
from tests.chaos.installation import ChaosInstallation, Session
from tests.chaos.proxy import KINDS as NETWORK_KINDS
from tests.chaos.proxy import FaultProxy, Faults
from tests.support.databases import MariaDb
from tests.support.process_trees import children, descendants
from tests.support.small_disks import SmallDisk

_FAKETIME: Final = next(
    Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), Path("/usr/lib/faketime/libfaketime.so.1")
)
_HURRIED: Final = {
    "DCC_CONNECT_TIMEOUT": "3",
    "DCC_LOGIN_TIMEOUT": "3",
    "DCC_IDLE_TIMEOUT": "1.5",
    "DCC_LIST_TIMEOUT": "5",
    "DCC_DATABASE_RETRY": "3",
}
"""Time limits under which faults are soon noticed."""
_FIRST_SESSION_SECONDS: Final = 180.0
_LAST_SESSION_SECONDS: Final = 120.0


@dataclass
class Trial:
    """What faults are made with: `at_once` sessions are killed in a round, one after the other, at least and at most.

    `kills` counts processes killed, by what they were; `faults` all faults by kind.
    """

    installation: ChaosInstallation
    proxy: FaultProxy
    mariadb: MariaDb | None
    rng: random.Random
    at_once: tuple[int, int] = (4, 8)
    kills: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    def note_kill(self, what: str) -> None:
        self.kills[what] += 1
        self.faults[f"kill of {what}"] += 1

    def kill_within(self, session: Session, seconds: float) -> None:
        """Kill a session at a moment within so many seconds, if it has not ended by then."""
        session.wait_or_until(self.rng.uniform(0.0, seconds))
        if session.kill():
            self.note_kill("session")


@dataclass(frozen=True)
class Kind:
    """A kind of fault. `keeps_order`: documents are applied in the order in which they would have been without it.

    `weight`: how often it comes up beside others. `needs`: what it cannot be made without. `large`: there must be a
    document that other processes read. `spares_twin`: the twin does not notice.
    """

    name: str
    happen: Callable[[Trial], None]
    weight: int
    keeps_order: bool = True
    needs: Callable[[Trial], bool] = lambda _: True
    large: bool = False
    spares_twin: bool = True


def _kill_by_time(trial: Trial) -> None:
    for _ in range(trial.rng.randint(*trial.at_once)):
        session = trial.installation.begin()
        trial.kill_within(session, trial.installation.took)


def _kill_by_count(kind: str) -> Callable[[Trial], None]:
    def happen(trial: Trial) -> None:
        most = trial.installation.counts[kind]
        for _ in range(trial.rng.randint(*trial.at_once)):
            session = trial.installation.begin(die=(kind, trial.rng.randint(1, most)))
            if session.wait() == -signal.SIGKILL:
                trial.note_kill(f"session at a {kind}")
            else:
                # It had less to do; those that follow have nothing new.
                most = session.counts().get(kind, most)

    return happen


def _kill_workers(trial: Trial) -> None:
    """Kill processes that read documents for the session, as they come, then perhaps the session."""
    session = trial.installation.begin(hurried=_HURRIED)
    deadline = time.monotonic() + 60
    left = 1
    while left and not session.is_over and time.monotonic() < deadline:
        for pid in children(session.pid):
            session.wait_or_until(trial.rng.uniform(0.0, 0.4))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                trial.note_kill("worker")
                left -= 1
                break
        session.wait_or_until(0.005)
    if trial.rng.random() < 0.5:
        trial.kill_within(session, 1.0)
    session.wait()


def _kill_database(trial: Trial) -> None:
    assert trial.mariadb is not None
    for _ in range(trial.rng.choice((1, 2))):
        session = trial.installation.begin(hurried=_HURRIED | {"DCC_DATABASE_RETRY": trial.rng.choice(("0.5", "20"))})
        session.wait_or_until(trial.rng.uniform(0.0, trial.installation.took))
        trial.mariadb.kill()
        trial.note_kill("database")
        if trial.rng.random() < 0.3 and session.kill():
            trial.note_kill("session")
        session.wait_or_until(trial.rng.uniform(0.0, 1.0))
        trial.mariadb.start()
        session.wait()


def _network(trial: Trial) -> None:
    kinds = trial.rng.sample(NETWORK_KINDS, trial.rng.randint(1, 4))
    trial.proxy.go_wrong(
        Faults(kinds, trial.rng.choice((30, 60, 90)), trial.rng.choice((3_000, 100_000)), trial.rng.randrange(2**32))
    )
    try:
        session = trial.installation.begin(hurried=_HURRIED)
        if trial.rng.random() < 0.3:
            trial.kill_within(session, 2 * trial.installation.took)
        session.wait()
    finally:
        trial.proxy.work_well()


def _fill_disk(trial: Trial) -> None:
    session = trial.installation.begin(hurried=_HURRIED)
    session.wait_or_until(trial.rng.uniform(0.0, trial.installation.took * 0.7))
    disk = SmallDisk(trial.installation.home.parent)
    with suppress(OSError):
        disk.fill(leave=trial.rng.randrange(0, 400_000))
    trial.faults["disk filled"] += 1
    session.wait_or_until(trial.rng.uniform(1.0, 8.0))
    disk.make_room()
    if trial.rng.random() < 0.3 and session.kill():
        trial.note_kill("session")
    session.wait()


def _move_clock(trial: Trial) -> None:
    """Run a session whose clock is wrong, or is put right or wrong on the way; now and then it is killed."""
    days = trial.rng.choice((-400, -31, -1, 1, 31, 400))
    clock = trial.installation.home.parent / "clock"
    clock.write_text(f"{days:+d}d\n")
    environment = {
        "LD_PRELOAD": str(_FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_RESET": "1",
    }
    session = trial.installation.begin_command(environment, "crawl")
    trial.faults["clock moved"] += 1
    if trial.rng.random() < 0.5:
        session.wait_or_until(trial.rng.uniform(0.0, 2 * trial.installation.took))
        clock.write_text(f"{trial.rng.choice((-90, 0, 90)):+d}d\n")
        trial.faults["clock moved"] += 1
    if trial.rng.random() < 0.5:
        trial.kill_within(session, 2 * trial.installation.took)
    session.wait()


def _kill_daemon(trial: Trial) -> None:
    """Start the daemon, which crawls at the next minute; kill it, or all that it has started, in a session of its."""
    everything = trial.rng.random() < 0.7
    patience = trial.rng.uniform(0.0, trial.installation.took)
    started: set[int] = set()
    daemon = trial.installation.begin_command({"DCC_CRAWL_INTERVAL": "* * * * *"}, "daemon")
    try:
        deadline = time.monotonic() + _FIRST_SESSION_SECONDS
        while not _is_active(trial.installation) and not daemon.is_over and time.monotonic() < deadline:
            daemon.wait_or_until(0.05)
        daemon.wait_or_until(patience)
        started = descendants(daemon.pid)
        if daemon.kill():
            trial.note_kill("daemon")
        for pid in started if everything else []:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                trial.note_kill("process of the daemon")
    finally:
        started = descendants(daemon.pid) or started
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


def _is_own_file_system(trial: Trial) -> bool:
    return os.path.ismount(trial.installation.home.parent)


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("time", _kill_by_time, 7),
        Kind("statement", _kill_by_count("statement"), 8),
        Kind("file", _kill_by_count("file"), 7),
        Kind("worker", _kill_workers, 2, large=True),
        Kind("daemon", _kill_daemon, 1),
        Kind("database", _kill_database, 4, needs=lambda trial: trial.mariadb is not None, spares_twin=False),
        Kind("network", _network, 4, keeps_order=False),
        Kind("disk", _fill_disk, 2, keeps_order=False, needs=_is_own_file_system),
        Kind("clock", _move_clock, 2, needs=lambda _: _FAKETIME.exists()),
    )
}
"""By name."""
