"""A long life of an installation: session after session in this process, beside a daemon, on servers of its own."""

import itertools
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from benchmarks.servers import ServerProcess
from dcc.databases.schema import require_current
from dcc.errors import SessionActiveError
from dcc.naming import Action
from dcc.operations.consistency.check import check_consistency
from dcc.qc.database import open_qc_database
from dcc.runtime.logging_setup import logging_as, plan_from_environment
from dcc.session.session_request import Listeners, SessionRequest
from dcc.settings import Settings, load_settings
from dcc.sources.protocols import SourceProtocol
from dcc.tracker.database import open_tracker
from dcc.tracker.register import file_sources
from dcc.vocabulary import SourceState
from dcc_assets.session_in_dagster import run_session
from dcc_assets.sync.consistency import check_events
from dcc_dagster.instance import open_instance
from tests.soak.sampling import Sample, count_rows, sample_process, sample_tree, server_connections, sizes
from tests.soak.world import Site, World
from tests.support import installations
from tests.support.asking import closing_all, in_writing
from tests.support.databases import MariaDb
from tests.support.environments import AT_ONCE, clean, only
from tests.support.servers import FtpServer, SftpServer, Share, add_pinned

DCC = str(Path(sys.executable).with_name("dcc"))
CENTRES = ("H", "J", "Tcp", "Wtsi")
_BUSY_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to run and on what. `sessions` ends it earlier; `archives` are published on a day."""

    folder: Path
    minutes: float
    database: str = "sqlite"
    seed: int = 1
    archives: int = 12
    sessions: int | None = None
    daemon: bool = True


@dataclass
class Course:
    """What was seen: a sample after each session, what the centres did, and what does not hold together at the end."""

    plan: Plan
    samples: list[Sample] = field(default_factory=list)
    told: Mapping[str, int] = field(default_factory=Counter)
    crawls: int = 0
    faults: list[str] = field(default_factory=list)


class Installation:
    """The installation that is lived in, with its servers and its sites."""

    def __init__(self, plan: Plan, stack: ExitStack) -> None:
        self.plan = plan
        self._served = plan.folder / "served"
        for part in (plan.folder, self._served):
            part.mkdir()
            part.chmod(0o755)
        self._sftp = stack.enter_context(SftpServer(plan.folder / "sshd"))
        self._ftp = stack.enter_context(FtpServer(plan.folder / "vsftpd", self._served))
        self.environment = clean() | {
            "DCC_HOME": str(plan.folder / "home"),
            **AT_ONCE,
            "DCC_CRAWL_INTERVAL": "*/3 * * * *",
            "DCC_LOG_FILE": str(plan.folder / "dcc.log"),
            "DCC_LOG_FORMAT": "json",
            "DCC_METRICS_FILE": str(plan.folder / "dcc.prom"),
        }
        if plan.database == "mariadb":
            server = MariaDb()
            stack.callback(server.remove)
            self.environment |= {
                "DCC_TRACKER_URL": server.url("phenodcc_tracker"),
                "DCC_QC_URL": server.url("phenodcc_raw"),
                "DCC_DAGSTER_URL": server.url("phenodcc_dagster"),
            }
        os.environ.update({name: text for name, text in self.environment.items() if name.startswith("DCC_")})
        self.settings: Settings = load_settings()
        command = [DCC, "init", *(["--production"] if plan.database == "mariadb" else [])]
        subprocess.run(command, env=self.environment, check=True, stdout=subprocess.DEVNULL)
        with self.opened() as tracker:
            installations.Installation(tracker, self.settings, plan.folder).add_centre(*CENTRES)
        protocols = ["sftp", "ftp", "sftp", "file", "sftp", "ftp"]
        first = [self._add_site(f"site{n}", CENTRES[n % 4], protocol) for n, protocol in enumerate(protocols)]
        self.world = World(plan.seed, first, self._newcomer, self._remove)

    def _newcomer(self, day: int) -> Site:
        return self._add_site(f"newcomer{day}", CENTRES[day % len(CENTRES)], "sftp")

    def _add_site(self, name: str, centre: str, protocol: str) -> Site:
        folder = self._served / name
        for part in (folder, *(folder / action for action in Action)):
            part.mkdir()
            part.chmod(0o755)
        share = Share(folder, SourceProtocol(protocol), "localhost", base_path=str(folder))
        if protocol == "sftp":
            share = replace(share, hostname=self._sftp.hostname, **self._sftp.login)
        elif protocol == "ftp":
            share = replace(share, hostname=self._ftp.hostname, base_path=f"/{folder.name}")
        address = share.address(centre=centre)
        with self.opened() as tracker:
            return Site(folder, address, add_pinned(tracker, address))

    def _remove(self, site: Site) -> None:
        with self.opened() as tracker:
            in_writing(tracker, file_sources.set_source_state, site.source_id, SourceState.REMOVED)

    def opened(self, open_engine: Callable[[Settings], Engine] = open_tracker) -> AbstractContextManager[Engine]:
        """The tracker, or another database, opened as a command does."""
        return closing_all(open_engine(self.settings))

    def run_session(self) -> int:
        """A session in this process, as `dcc crawl` and Dagster's processes run it; how many sources it crawled."""
        crawled: list[object] = []
        request = SessionRequest(listeners=Listeners(crawled.append))
        # Opened once: alembic keeps a few kilobytes of each opening of Dagster's storage until the process ends.
        with self.opened() as tracker, open_instance(self.settings) as instance:
            require_current(tracker)
            while True:
                try:
                    run_session(self.settings, tracker, instance, request)
                except SessionActiveError:
                    # The daemon's turn.
                    time.sleep(_BUSY_SECONDS)
                else:
                    return len(crawled)

    def sizes(self) -> dict[str, Any]:
        """What of a sample is in databases and files."""
        folders = {"dagster": self.settings.home / "dagster", "staging": self.settings.staging_directory}
        with self.opened() as tracker, self.opened(open_qc_database) as qc:
            server = server_connections(tracker)
            rows = count_rows(tracker, "tracker") | count_rows(qc, "qc")
            if self.plan.database == "mariadb":
                rows |= count_rows(tracker, "dagster", schema="phenodcc_dagster")
            taken = sizes({"tracker": tracker, "qc": qc}, folders)
        found = {"server_connections": server, "rows": rows, "staging_bytes": taken.pop("staging"), "sizes": taken}
        return found | {"zip_actions": rows["tracker.zip_action"]}

    def check(self) -> list[str]:
        with self.opened() as tracker, self.opened(open_qc_database) as qc, open_instance(self.settings) as instance:
            found = check_consistency(tracker, qc, self.settings)
            found += check_events(tracker, self.settings, instance)
        return [f"{one.rule}: {one.subject}: {one.message}" for one in found]


def live(plan: Plan, say: Callable[[str], object] = str) -> Course:
    """Run session after session until the time is over; `say` is called with a line now and then."""
    course = Course(plan)
    with only({}), ExitStack() as stack:
        installation = Installation(plan, stack)
        stack.enter_context(logging_as(plan_from_environment()))
        daemon = stack.enter_context(_daemon(installation)) if plan.daemon else None
        _run_sessions(installation, course, daemon, say)
        if daemon is not None:
            daemon.process.terminate()
            daemon.process.wait(60)
            # It may have been at a session.
            installation.run_session()
        course.faults = installation.check()
        course.told = installation.world.told
    return course


def _run_sessions(
    installation: Installation, course: Course, daemon: ServerProcess | None, say: Callable[[str], object]
) -> None:
    plan = course.plan
    began = time.monotonic()
    for number in itertools.count(1) if plan.sessions is None else range(1, plan.sessions + 1):
        if time.monotonic() - began >= plan.minutes * 60:
            break
        quiet = installation.world.day(number - 1, plan.archives)
        started = time.monotonic()
        course.crawls += installation.run_session()
        seconds = time.monotonic() - started
        last = Sample(
            session=number,
            session_seconds=seconds,
            quiet=quiet,
            process=sample_process(),
            daemon={} if daemon is None else sample_tree(daemon.process.pid),
            **installation.sizes(),
            seconds_since_begin=time.monotonic() - began,
        )
        course.samples.append(last)
        say(
            f"day {number}: {seconds:.1f} s, {last.zip_actions} submissions, {last.process.rss / 1e6:.1f} MB, "
            f"{last.process.files} files, {last.process.threads} threads"
        )


def _daemon(installation: Installation) -> ServerProcess:
    log = installation.plan.folder / "daemon.log"
    environment = installation.environment | {"PYTHONUNBUFFERED": "1"}
    return ServerProcess([DCC, "daemon"], 0, log, lambda: b"The daemon runs" in log.read_bytes(), environment)
