"""Where the archives of a session are opened and its documents validated: in threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Protocol

from dcc.runtime.log_context import logging_about, with_log_context
from dcc.session.archives.jobs import Checked, Checker, Document, Extracted, Failed, Job

Tell = Callable[[Extracted | Checked | Failed], object]
"""What hears, from any thread, what came of each piece of work."""


class Checks(Protocol):
    """Opens archives and validates documents, several at once, in the order in which they are given."""

    def open(self, job: Job, archive: Path, target: Path) -> None:
        """Have an archive's documents written to `target`: comes to Extracted or Failed."""

    def validate(self, job: Job, documents: Sequence[Document]) -> None:
        """Have documents validated: comes to a Checked for each, or Failed."""

    def stop(self) -> None:
        """Begin nothing any more."""


class ChecksInThreads:
    """Checks by threads of this process, `workers` of them."""

    def __init__(self, checker: Checker, workers: int, tell: Tell) -> None:
        self._checker, self._tell = checker, tell
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="check")

    def open(self, job: Job, archive: Path, target: Path) -> None:
        """Have an archive's documents written; see `Checks`."""
        md5 = job.md5
        self._submit(job, lambda: self._checker.open(job, archive, target, md5))

    def validate(self, job: Job, documents: Sequence[Document]) -> None:
        """Have documents validated; see `Checks`."""
        for document in documents:
            self._submit(job, partial(self._checked, job, document))

    def stop(self) -> None:
        """Begin nothing any more; what is under way ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _checked(self, job: Job, document: Document) -> Checked:
        return Checked(job, document, tuple(self._checker.validate(document)))

    def _submit(self, job: Job, work: Callable[[], Extracted | Checked | Failed]) -> None:
        self._pool.submit(with_log_context(self._do), job, work)

    def _do(self, job: Job, work: Callable[[], Extracted | Checked | Failed]) -> None:
        try:
            with logging_about(source=job.source_id, centre=job.centre, zip_action=job.key):
                message = work()
        except Exception as error:  # whatever it is, the session must hear of it
            message = Failed(job, error)
        self._tell(message)
