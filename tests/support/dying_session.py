"""A session that kills itself.

The process dies by SIGKILL, so nothing of it can tidy up: no exception handler, no `finally`, no atexit.
"""

import itertools
import math
import os
import signal
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from dcc.naming import Action
from dcc.operations.session_work import open_session
from dcc.outcomes import SubmissionKey
from dcc.session import source_crawls
from dcc.session.archives import archive_phases
from dcc.session.archives.archive_phases import process_zip_actions
from dcc.session.archives.coordination import Coordinator
from dcc.session.archives.unwritten_results import UnwrittenResults
from dcc.session.fetching import archive_transfer, downloads
from dcc.session.prepare.archive_checks import ArchiveChecker
from dcc.session.session_request import SessionRequest
from dcc.session.source_crawls import crawl_file_sources
from dcc.settings import load_settings
from dcc.store.staging import Staging
from dcc.tracker.database import open_tracker
from dcc.tracker.models import ZipFile


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _after(owner: Any, name: str, nth: int = 1, *, before: bool = False) -> None:
    """Die after a function has been called so often, or before that."""
    original, calls = getattr(owner, name), itertools.count(1)

    def dying(*arguments: Any, **named: Any) -> Any:
        call = next(calls)
        if before and call == nth:
            _die()
        try:
            return original(*arguments, **named)
        finally:
            if call == nth:
                _die()

    setattr(owner, name, dying)


_before = partial(_after, before=True)


def _mid_transfer() -> None:
    """Die in the transfer of one archive: what was put together of two attempts and is bad is fetched once more."""
    write = archive_transfer.DownloadSink.__call__
    # Of the others nothing is noted, however long they take: they are fetched anew, and once.
    archive_transfer._PROGRESS_SECONDS = math.inf

    def dying(self: Any, block: bytes) -> None:
        if self.key.file_name != "H.2013-10-31.1.impc.zip":
            write(self, block)
            return
        write(self, block[: len(block) // 2])
        self._note_origin()
        _die()

    archive_transfer.DownloadSink.__call__ = dying  # type: ignore[method-assign]


def _when_recorded(is_it: Callable[[UnwrittenResults], bool]) -> None:
    """Die when results of that kind are recorded."""
    write = UnwrittenResults.write

    def dying(self: UnwrittenResults, connection: Any, session_id: int) -> Any:
        due = is_it(self)
        result = write(self, connection, session_id)
        if due:
            connection.commit()
            _die()
        return result

    UnwrittenResults.write = dying  # type: ignore[method-assign]


def _before_the_checksum_is_taken() -> None:
    """Die when the arrival of an archive is recorded, and no MD5 has been taken."""
    _when_recorded(lambda results: any(model is ZipFile for model, _ in results.changes))
    ArchiveChecker.check = lambda *_: threading.Event().wait()  # type: ignore[method-assign,assignment]


def _in_the_middle_of_the_validation() -> None:
    """Die when the documents of an archive are recorded, and others are validated."""
    _when_recorded(lambda results: bool(results.extracted))


def _while_processes_check() -> None:
    """Die when processes have checked an archive, and are at others."""
    archive_phases.MANY = 1
    _when_recorded(lambda results: bool(results.extracted))


def _when_a_copy_is_bad() -> None:
    """Die when a copy of an archive is recorded as bad, before the next source is asked."""
    _when_recorded(lambda results: bool(results.bad_copies))


POINTS: dict[str, Callable[[], None]] = {
    "before anything is recorded": lambda: _before(source_crawls, "_record"),
    "when one source is crawled": lambda: _after(source_crawls, "_record"),
    "when the downloads are planned": lambda: _before(Coordinator, "run"),
    "in the first transaction": lambda: _after(UnwrittenResults, "write"),
    "in the second transaction": lambda: _after(UnwrittenResults, "write", 2),
    "when the downloads are requested": lambda: _before(downloads.SourceDownloads, "put"),
    "in mid-transfer": _mid_transfer,
    "when the part is whole": lambda: _before(Staging, "finish_part"),
    "when an archive has arrived": lambda: _after(Staging, "finish_part"),
    "before a checksum is taken": _before_the_checksum_is_taken,
    "before an archive is extracted": lambda: _before(ArchiveChecker, "extract", 2),
    "when an archive is extracted": lambda: _after(ArchiveChecker, "extract", 2),
    "before a document is validated": lambda: _before(ArchiveChecker, "validate", 2),
    "when a document is validated": lambda: _after(ArchiveChecker, "validate", 2),
    "in the middle of the validation": _in_the_middle_of_the_validation,
    "while processes check": _while_processes_check,
    "when a copy is bad": _when_a_copy_is_bad,
}


def main(point: str) -> None:
    """Run a session of the installation in the environment, and die at `point`."""
    POINTS[point]()
    settings = load_settings()
    tracker = open_tracker(settings)
    with open_session(tracker, settings) as session:
        list(crawl_file_sources(session))
        list(process_zip_actions(session))


def retry(request: str) -> None:
    """Process a zip action of the installation again, and die: `<point>|<action>/<name>|<person>`."""
    point, key, person = request.split("|")
    POINTS[point]()
    settings = load_settings()
    tracker = open_tracker(settings)
    action, _, name = key.partition("/")
    with open_session(tracker, settings, SessionRequest(requested_by=person)) as session:
        list(process_zip_actions(session, [SubmissionKey(Action(action), name)]))
