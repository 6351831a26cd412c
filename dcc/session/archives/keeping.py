"""Puts the archives of a session into the archive store, a few at once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dcc.runtime.log_context import logging_about, with_log_context
from dcc.session.archives.jobs import Job
from dcc.settings import Settings
from dcc.store.archive_store import ArchiveStore
from dcc.store.copies import StoredCopies

_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class KeptArchive:
    """The result of keeping a job's archive, or the exception that prevented it."""

    job: Job
    found: StoredCopies | Exception


class ArchiveKeeper:
    """Puts archives into the store; calls `tell` with each result, from any thread.

    `holding` is as of `ArchiveStore`.
    """

    def __init__(
        self,
        settings: Settings,
        tell: Callable[[KeptArchive], object],
        holding: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        self._store = ArchiveStore(settings, holding)
        self._tell = tell
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="keep")

    def keep(self, job: Job, archive: Path) -> None:
        """Put a complete archive into the store; it must stay where it is until `tell` was called."""
        self._pool.submit(with_log_context(self._keep), job, archive)

    def stop(self) -> None:
        """Begin no more. Running threads finish theirs, within the time limits of the replicas."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._store.close()

    def _keep(self, job: Job, archive: Path) -> None:
        with logging_about(source=job.source_id, centre=job.centre, zip_action=job.key):
            try:
                found: StoredCopies | Exception = self._store.put(archive)
            except Exception as error:  # whatever it is, the coordinator waits for the result
                found = error
        self._tell(KeptArchive(job, found))
