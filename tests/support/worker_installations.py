"""Installations whose archives workers fetch and prepare, their sessions as processes, and what came of these."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from dcc.qc.database import open_qc_database
from dcc.settings import Settings
from dcc.tracker.database import open_tracker
from tests.session.test_crash_recovery import ending
from tests.support.asking import closing_all
from tests.support.environments import AT_ONCE
from tests.support.installations import Installation
from tests.support.prepared_processes import run_dcc
from tests.support.qc_files import all_rows
from tests.support.redis_server import RedisServer
from tests.support.s3_server import Bucket
from tests.support.stores import Store

PROGRAM = Path(sys.executable).parent
WORKERS = ("one", "two")


def environment(settings: Settings, **more: str) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "DCC_HOME": str(settings.home),
        **AT_ONCE,
        "DCC_LOG_FORMAT": "text",
        "DCC_LOG_LEVEL": "info",
        **more,
    }


def store_variables(bucket: Bucket) -> dict[str, str]:
    """The settings that make a bucket the object store."""
    return {
        f"DCC_{name.upper()}": value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        for name, value in bucket.variables.items()
    }


def celery_variables(bucket: Bucket, broker: RedisServer) -> dict[str, str]:
    """The settings of sessions and workers that share a bucket and a broker."""
    return {**store_variables(bucket), "DCC_EXECUTOR": "celery", "DCC_BROKER": broker.url}


def empty_installation(root: Path) -> Installation:
    """An installation of the centres H and J, whose databases are in its home."""
    root.mkdir()
    settings = Settings(home=root / "home", min_free_bytes=0, retry_delay=0.05)
    store = Store(settings).init()
    store.qc.dispose()
    installation = Installation(store.tracker, settings, root)
    installation.add_centre("H", "J")
    return installation


def copied(installation: Installation, root: Path) -> Installation:
    """A copy of an installation, of the same file sources."""
    root.mkdir()
    home = root / "home"
    shutil.copytree(installation.settings.home, home)
    settings = installation.settings.model_copy(update={"home": home})
    return replace(installation, tracker=open_tracker(settings), settings=settings, root=root)


def run(installation: Installation, *command: str, exit_code: int = 0, **more: str) -> tuple[str, str]:
    """Run a command of `dcc` in a forked process; what it printed, and what it said."""
    log = installation.root / "log"
    printed, said = (installation.root / f"{command[0]}.{name}" for name in ("printed", "said"))
    for file in (printed, said):
        file.unlink(missing_ok=True)
    variables = environment(installation.settings, DCC_LOG_FILE=str(log), **more)
    ended = run_dcc(command, installation.root, variables, printed, said, seconds=600)
    assert ended == exit_code, f"{command} ended with {ended}: {said.read_text()}"
    return printed.read_text(), said.read_text()


def result(installation: Installation) -> dict[str, Any]:
    """What sessions left in both databases and in staging, but for ids and times."""
    with closing_all(open_qc_database(installation.settings)) as qc:
        tables = all_rows(qc)
    return ending(installation) | {name: _without_ids_and_times(name, rows) for name, rows in tables.items()}


XML_FILE_IDS = {"document": 1, "finding": 2}
"""The columns that have the ids of the tracker's documents, which are recorded in the order in which they come."""


def _without_ids_and_times(table: str, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [
        tuple(
            value
            for place, value in enumerate(row)
            if place != XML_FILE_IDS.get(table) and not isinstance(value, datetime)
        )
        for row in rows
    ]


@contextmanager
def celery_workers(
    installation: Installation,
    variables: Mapping[str, str],
    *names: str,
    app: str = "dcc_dagster.celery_worker",
) -> Iterator[dict[str, CeleryWorker]]:
    """Celery workers that have begun to listen, by name; two where no names are given."""
    with ExitStack() as stack:
        found = {}
        for name in names or WORKERS:
            found[name] = CeleryWorker(installation, name, variables, app)
            stack.callback(found[name].kill)
        for worker in found.values():
            worker.wait_until_ready()
        yield found


class CeleryWorker:
    """A Celery worker that works on one batch at a time, and shares no disk with sessions but that of databases."""

    def __init__(self, installation: Installation, name: str, variables: Mapping[str, str], app: str) -> None:
        self._log = installation.root / f"{name}.log"
        self._name, self._app = name, app
        self._environment = environment(
            installation.settings, **({"DCC_STAGING": str(installation.root / name)} | variables)
        )
        self.start()

    def start(self) -> None:
        command = [PROGRAM / "celery", "-A", self._app, "worker"]
        command += ["-c1", "-linfo", "-n", f"{self._name}@%h"]
        self._said_before = len(self.said())
        with self._log.open("a") as log:
            # A group of its own: its processes are stopped and killed together.
            self.process = subprocess.Popen(
                command, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )

    def said(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def wait_until_ready(self) -> None:
        """Wait until it takes batches."""
        deadline = time.monotonic() + 120
        while " ready." not in self.said()[self._said_before :]:
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.1)

    def send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.process.wait()
