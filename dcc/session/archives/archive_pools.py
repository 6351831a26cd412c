"""Threads and processes that store archives, open them and validate their documents, a few at once.

Processes open and validate archives if there are many. Threads share the interpreter with fetching and recording.
Processes take a tenth of a second each to begin; there are no more of them than processors.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from dcc.converters.conversion import all_converters
from dcc.runtime.log_context import with_log_context
from dcc.runtime.worker_processes import WorkerProcesses
from dcc.session.archives.active_submissions import ActiveSubmission
from dcc.session.batches.worker_results import SessionWorkerResults
from dcc.session.prepare import archive_checks
from dcc.session.prepare.archive_checks import ArchiveChecker, CheckedArchive, Setup, UnopenedArchive
from dcc.settings import Settings
from dcc.store.archive_store import ArchiveStore
from dcc.store.copies import StoredCopies
from dcc.store.staging import Staging

_STORED_AT_ONCE: Final = 4


class ArchivePools:
    """Threads and processes that store and check archives in staging, first in, first out.

    `holding` is that of `ArchiveStore`. Work in `from_workers` is not repeated.
    """

    def __init__(
        self,
        settings: Settings,
        setup: Setup,
        staging: Staging,
        holding: Callable[[], Collection[str]],
        from_workers: SessionWorkerResults | None,
        *,
        in_processes: bool,
    ) -> None:
        self._staging, self._from_workers = staging, from_workers
        # A package that cannot be loaded ends the session, rather than each of its archives.
        all_converters()
        self._store = ArchiveStore(settings, holding)
        self._storing = ThreadPoolExecutor(_STORED_AT_ONCE, thread_name_prefix="store")
        self._processes: WorkerProcesses[ArchiveChecker] | None = None
        if in_processes:
            number = min(settings.workers, os.cpu_count() or 1)
            self._processes = WorkerProcesses(number, archive_checks.begin, setup)
        else:
            self._checker = ArchiveChecker(setup)
            self._checking = ThreadPoolExecutor(settings.workers, thread_name_prefix="check")

    def store(self, submission: ActiveSubmission) -> Future[StoredCopies]:
        """Put a complete archive into the store; it must stay in staging until that is done."""
        with submission.as_subject():
            return self._storing.submit(with_log_context(self._store.put), self._staging.archive(submission.key))

    def check(self, submission: ActiveSubmission) -> Future[CheckedArchive | UnopenedArchive]:
        """Check an archive, and write its documents to staging."""
        key, md5 = submission.key, None if submission.archive is None else submission.archive.md5
        ready = None if self._from_workers is None else self._from_workers.ready(key)
        archive, target = self._staging.archive(key), self._staging.contents(key)
        if self._processes is not None:
            work = archive_checks.ArchiveChecker.check
            return self._processes.submit(str(key), work, archive, target, md5, ready)
        with submission.as_subject():
            return self._checking.submit(with_log_context(self._checker.check), archive, target, md5, ready)

    def discard(self, submission: ActiveSubmission) -> None:
        """Remove a bad archive from staging, which nothing stores or checks any more."""
        self._staging.archive(submission.key).unlink(missing_ok=True)

    def stop(self) -> None:
        """Begin no more. Running threads finish theirs, within the time limits of the replicas."""
        self._storing.shutdown(wait=False, cancel_futures=True)
        self._store.close()
        if self._processes is not None:
            self._processes.stop()
        else:
            self._checking.shutdown(wait=False, cancel_futures=True)
