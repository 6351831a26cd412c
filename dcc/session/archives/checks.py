"""Opens the archives of a session and validates their documents: in threads, or in processes if there are many."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dcc.converters.conversion import all_converters
from dcc.runtime.log_context import logging_about, with_log_context
from dcc.runtime.worker_processes import WorkerProcesses
from dcc.session.archives.jobs import Job
from dcc.session.prepare import archive_checks
from dcc.session.prepare.archive_checks import ArchiveChecker, CheckedArchive, NotOpened, Ready, Setup


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of checking a job's archive, or the exception that prevented it."""

    job: Job
    found: CheckedArchive | NotOpened | Exception


class ArchiveChecks:
    """Checks several archives at once, in the given order; calls `tell` with each result, from any thread.

    Threads share the interpreter with fetching and recording. Processes take a tenth of a second each to begin; there
    are no more of them than processors.
    """

    def __init__(self, setup: Setup, workers: int, tell: Callable[[Checked], object], *, in_processes: bool) -> None:
        # A package that cannot be loaded ends the session, rather than each of its archives.
        all_converters()
        self._tell = tell
        self._pool = _Processes(setup, workers) if in_processes else _Threads(setup, workers)

    def check(self, job: Job, archive: Path, target: Path, ready: Ready | None = None) -> None:
        """Check an archive, and write its documents to `target`; work that is `ready` is not repeated."""
        self._pool.submit(job, archive, target, job.md5, ready).add_done_callback(partial(self._hear, job))

    def stop(self) -> None:
        """Begin no more checks. Running threads finish theirs."""
        self._pool.stop()

    def _hear(self, job: Job, done: Future[CheckedArchive | NotOpened]) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            self._tell(Checked(job, done.result()))
        elif isinstance(error, Exception):
            self._tell(Checked(job, error))


class _Processes:
    """Processes: as many as `workers` and the processors allow."""

    def __init__(self, setup: Setup, workers: int) -> None:
        self._pool = WorkerProcesses(min(workers, os.cpu_count() or 1), archive_checks.begin, setup)

    def submit(self, job: Job, *given: Any) -> Future[Any]:
        return self._pool.submit(str(job.key), archive_checks.ArchiveChecker.check, *given)

    def stop(self) -> None:
        self._pool.stop()


class _Threads:
    """Threads of this process: as many as `workers`."""

    def __init__(self, setup: Setup, workers: int) -> None:
        self._checker = ArchiveChecker(setup)
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="check")

    def submit(self, job: Job, *given: Any) -> Future[Any]:
        return self._pool.submit(with_log_context(self._check), job, *given)

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _check(self, job: Job, *given: Any) -> CheckedArchive | NotOpened:
        with logging_about(source=job.source_id, centre=job.centre, zip_action=job.key):
            return self._checker.check(*given)
