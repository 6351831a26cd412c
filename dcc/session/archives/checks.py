"""Where the archives of a session are opened and its documents validated: in threads, or in processes if many."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from dcc.runtime.log_context import logging_about, with_log_context
from dcc.runtime.worker_processes import WorkerProcesses
from dcc.session.archives.jobs import Checked, Checker, Document, Extracted, Failed, Job
from dcc.session.prepare import archive_checks
from dcc.session.prepare.archive_checks import NotOpened, Opened, Problems, Setup

_DOCUMENTS_TOGETHER: Final = 16
_BYTES_TOGETHER: Final = 1_000_000

Message = Extracted | Checked | Failed
Tell = Callable[[Message], object]
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

    def _submit(self, job: Job, work: Callable[[], Message]) -> None:
        self._pool.submit(with_log_context(self._do), job, work)

    def _do(self, job: Job, work: Callable[[], Message]) -> None:
        try:
            with logging_about(source=job.source_id, centre=job.centre, zip_action=job.key):
                message = work()
        except Exception as error:  # whatever it is, the session must hear of it
            message = Failed(job, error)
        self._tell(message)


class ChecksInProcesses:
    """Checks by as many processes as `workers` and the processors allow.

    In threads they take turns with fetching and recording, because Python lets one thread work at a time.
    """

    def __init__(self, checker: Checker, workers: int, tell: Tell) -> None:
        self._tell = tell
        settings = checker.settings
        setup = Setup(
            checker.limits,
            settings.naming,
            checker.centres,
            settings.xsd_dir,
            settings.max_document_errors,
            settings.max_tree_bytes,
        )
        self._processes = WorkerProcesses(min(workers, os.cpu_count() or 1), archive_checks.begin, setup)

    def open(self, job: Job, archive: Path, target: Path) -> None:
        """Have an archive's documents written, and validated as well if they are small; see `Checks`."""
        # What documents a dead session was done with is not known there.
        opened = self._processes.submit(
            str(job.key), archive_checks.open_archive, archive, target, job.md5, not job.known_documents
        )
        opened.add_done_callback(partial(self._hear, job, partial(_opened, job)))

    def validate(self, job: Job, documents: Sequence[Document]) -> None:
        """Have documents validated, small ones some together; see `Checks`."""
        for some in _portions(documents):
            named = [(one.path, one.name.kind) for one in some if one.path is not None and one.name is not None]
            checked = self._processes.submit(str(job.key), archive_checks.validate, named)
            checked.add_done_callback(partial(self._hear, job, partial(_checked, job, some)))

    def stop(self) -> None:
        """End the processes, whatever they do."""
        self._processes.stop()

    def _hear(self, job: Job, messages: Callable[[Any], Iterable[Message]], done: Future[Any]) -> None:
        try:
            told = list(messages(done.result()))
        except Exception as error:  # whatever it is, the session must hear of it
            told = [Failed(job, error)]
        for message in told:
            self._tell(message)


def _opened(job: Job, opened: Opened | NotOpened) -> Iterator[Message]:
    if isinstance(opened, NotOpened):
        yield Failed(job, opened.error, opened.md5)
    else:
        yield Extracted(job, opened.archive, opened.md5, opened.problems)


def _checked(job: Job, documents: Sequence[Document], problems: Sequence[Problems]) -> Iterator[Message]:
    for document, found in zip(documents, problems, strict=True):
        yield Checked(job, document, found)


def _portions(documents: Sequence[Document]) -> Iterator[list[Document]]:
    """The documents in their order, small ones some together."""
    together: list[Document] = []
    size = 0
    for document in documents:
        size += document.size_bytes
        if together and (len(together) == _DOCUMENTS_TOGETHER or size > _BYTES_TOGETHER):
            yield together
            together, size = [], document.size_bytes
        together.append(document)
    if together:
        yield together
