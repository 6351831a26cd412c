"""Where the archives of a session are opened and their documents validated: in threads, or in processes if many."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dcc.runtime.log_context import logging_about, with_log_context
from dcc.runtime.worker_processes import WorkerProcesses
from dcc.session.archives.jobs import Job
from dcc.session.prepare import archive_checks
from dcc.session.prepare.archive_checks import ArchiveChecker, CheckedArchive, NotOpened, Ready, Setup


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of the check of a job's archive; an exception where it could not be made."""

    job: Job
    found: CheckedArchive | NotOpened | Exception


class ArchiveChecks:
    """Has archives checked, several at once, in the order in which they are given; `tell` hears of each, in any thread.

    In threads they take turns with fetching and recording, because Python lets one thread work at a time. Processes
    take a tenth of a second each to begin: no more of them than processors.
    """

    def __init__(self, setup: Setup, workers: int, tell: Callable[[Checked], object], *, in_processes: bool) -> None:
        self._tell = tell
        self._processes: WorkerProcesses | None = None
        self._threads: ThreadPoolExecutor | None = None
        if in_processes:
            self._processes = WorkerProcesses(min(workers, os.cpu_count() or 1), archive_checks.begin, setup)
        else:
            self._checker = ArchiveChecker(setup)
            self._threads = ThreadPoolExecutor(workers, thread_name_prefix="check")

    def check(self, job: Job, archive: Path, target: Path, ready: Ready | None = None) -> None:
        """Have an archive checked, and its documents written to `target`; what is `ready` is not done again."""
        given = archive, target, job.md5, ready
        if self._processes is not None:
            done = self._processes.submit(str(job.key), archive_checks.check_archive, *given)
        elif self._threads is not None:
            done = self._threads.submit(with_log_context(self._in_thread), job, *given)
        done.add_done_callback(partial(self._hear, job))

    def stop(self) -> None:
        """Begin nothing any more. Threads end what they are at."""
        if self._processes is not None:
            self._processes.stop()
        elif self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _in_thread(
        self, job: Job, archive: Path, target: Path, md5: str | None, ready: Ready | None
    ) -> CheckedArchive | NotOpened:
        with logging_about(source=job.source_id, centre=job.centre, zip_action=job.key):
            return self._checker.check(archive, target, md5, ready)

    def _hear(self, job: Job, done: Future[CheckedArchive | NotOpened]) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            self._tell(Checked(job, done.result()))
        elif isinstance(error, Exception):
            self._tell(Checked(job, error))
