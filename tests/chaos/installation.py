"""An installation of a trial: its databases, staging and Dagster instance, and sessions on it as processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from sqlalchemy import Engine, func, select

from dcc.databases.schema import init_database
from dcc.operations.consistency.check import check_consistency
from dcc.operations.consistency.inconsistency import Inconsistency
from dcc.qc.database import open_qc_database
from dcc.settings import Settings, load_settings
from dcc.tracker.database import open_tracker
from dcc.tracker.models import FileSourceHasZip
from dcc_assets.sync.consistency import check_events
from dcc_dagster.instance import open_instance
from tests.chaos.session_process import run
from tests.support.databases import init_with_reference
from tests.support.environments import clean, of_installation, only
from tests.support.installations import Installation
from tests.support.prepared_processes import FORKED, preload

_LONGEST_SECONDS: Final = 240.0
_FAITHFUL: Final = {
    "DCC_CONNECT_TIMEOUT": "30",
    "DCC_LOGIN_TIMEOUT": "30",
    "DCC_IDLE_TIMEOUT": "30",
    "DCC_LIST_TIMEOUT": "60",
    "DCC_DATABASE_RETRY": "60",
}
"""Time limits that a busy machine keeps."""


# What sessions need is imported once, by the process that they are forked from.
preload("tests.chaos.session_process")


class SessionFailedError(Exception):
    """An undisturbed session ended otherwise than well or with faulty data."""


@dataclass
class Session:
    """A session under way."""

    process: BaseProcess | subprocess.Popen[bytes]
    output: Path
    began: float = field(default_factory=time.monotonic)

    @property
    def pid(self) -> int:
        pid = self.process.pid
        assert pid is not None
        return pid

    @property
    def is_over(self) -> bool:
        return self.wait_or_until(0.0) is not None

    def kill(self) -> bool:
        """Kill it as a crash would; whether it was still there."""
        if self.is_over:
            return False
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.wait()
        return True

    def wait(self, seconds: float = _LONGEST_SECONDS) -> int:
        """Its exit code; negative for a signal. Raises SessionFailedError if it does not end."""
        code = self.wait_or_until(seconds)
        if code is None:
            os.kill(self.pid, signal.SIGKILL)
            raise SessionFailedError(f"The session did not end within {seconds:.0f} seconds.\n{self.said()}")
        return code

    def conclude(self, seconds: float = _LONGEST_SECONDS) -> None:
        """Wait for an undisturbed session. Raises SessionFailedError, unless it ends well or with faulty data."""
        code = self.wait(seconds)
        if code not in {0, 1}:
            raise SessionFailedError(f"An undisturbed session ended with {code}:\n{self.said()}")

    def wait_or_until(self, seconds: float) -> int | None:
        """Wait until it ends, no longer than so many seconds; its exit code if it has ended."""
        if isinstance(self.process, BaseProcess):
            self.process.join(seconds)
            return self.process.exitcode
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.process.returncode

    def said(self) -> str:
        return self.output.read_text("utf-8", "replace")[-6_000:] if self.output.exists() else ""

    def counts(self) -> dict[str, int]:
        """How many operations of each kind it did, if it lived: see `session_process.run`."""
        counts = Path(f"{self.output}.counts")
        return dict(json.loads(counts.read_text())) if counts.exists() else {}


def begin_session(environment: Mapping[str, str], output: Path, die: tuple[str, int] | None = None) -> Session:
    """Begin a session, forked; see `session_process.run`."""
    process = FORKED.Process(target=run, args=(dict(environment), output, die))
    process.start()
    return Session(process, output)


@dataclass
class ChaosInstallation:
    """An installation in `home`. `took` and `counts` are of its latest undisturbed session."""

    home: Path
    environment: dict[str, str]
    took: float = 3.0
    counts: dict[str, int] = field(default_factory=lambda: {"statement": 200, "file": 40})
    _sessions: int = 0

    def __post_init__(self) -> None:
        with only(self.environment):
            self.settings: Settings = load_settings()
        self.tracker: Engine = open_tracker(self.settings)
        self.qc: Engine = open_qc_database(self.settings)

    def prepare(self) -> None:
        """Make its databases, centres and reference data."""
        init_database(self.tracker)
        init_with_reference(self.qc)
        Installation(self.tracker, self.settings, self.home).add_centre("H", "J")

    def begin(self, *, die: tuple[str, int] | None = None, hurried: Mapping[str, str] | None = None) -> Session:
        """Begin a session, forked; `die`: see `session_process.run`. `hurried` are settings for this one."""
        output = self._next_output()
        environment = {**self.environment, **(_FAITHFUL if hurried is None else hurried)}
        return begin_session(environment, output, die)

    def begin_command(self, environment: Mapping[str, str], *arguments: str) -> Session:
        """Begin a `dcc` command as a program of its own."""
        output = self._next_output()
        program = Path(sys.executable).parent / "dcc"
        with output.open("ab") as file:
            process = subprocess.Popen(
                [program, *arguments],
                env=clean(**self.environment) | environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        return Session(process, output)

    def run_undisturbed(self) -> Session:
        """Run a session; it must end well, or with faulty data. Raises SessionFailedError."""
        session = self.begin()
        self.conclude(session)
        return session

    def conclude(self, session: Session) -> None:
        """Wait for an undisturbed session. Raises SessionFailedError."""
        session.conclude()
        self.took = time.monotonic() - session.began
        self.counts = session.counts() or self.counts

    def misses_archives(self) -> bool:
        """Whether archives were missed by the last listing, and are gone when the next one misses them too."""
        query = select(func.count()).where(FileSourceHasZip.missed_since.is_not(None))
        with self.tracker.connect() as connection:
            return bool(connection.scalar(query))

    def inconsistencies(self) -> list[Inconsistency]:
        """What does not hold together, in databases, staging and Dagster."""
        found = check_consistency(self.tracker, self.qc, self.settings)
        with open_instance(self.settings) as instance:
            return found + check_events(self.tracker, self.settings, instance)

    def close(self) -> None:
        self.tracker.dispose()
        self.qc.dispose()

    def _next_output(self) -> Path:
        self._sessions += 1
        folder = self.home.parent / "output"
        folder.mkdir(exist_ok=True)
        return folder / f"{self.home.name}-{self._sessions}.txt"


def prepared_home(folder: Path) -> Path:
    """A home on SQLite, with a Dagster instance, to be copied."""
    home = folder / "prepared"
    home.mkdir()
    installation = ChaosInstallation(home, environment_of(home))
    installation.prepare()
    with open_instance(installation.settings):
        pass
    installation.close()
    return home


def environment_of(home: Path, **more: object) -> dict[str, str]:
    """The settings of an installation, on SQLite unless `more` names other databases."""
    settings = of_installation(Settings(home=home)) | {"DCC_LEASE_TIMEOUT": "30"}
    return settings | {name: str(value) for name, value in more.items()}
