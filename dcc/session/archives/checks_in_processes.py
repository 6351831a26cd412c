"""Archives opened and documents validated by processes beside this one, which fetches, decides and records.

In threads they take turns with fetching and recording, because Python lets one thread work at a time. Each process is
given a little ahead, so that it need not wait for this one. What a process had when it ended is given to another, each
piece by itself; one that two have ended over is not tried any more.
"""

from __future__ import annotations

import itertools
import logging
import os
import pickle
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Final

from dcc.errors import HelperEndedError
from dcc.runtime.helper_process import Helper, Postbox
from dcc.runtime.log_context import with_log_context
from dcc.session.archives import checking_process
from dcc.session.archives.checking_process import Setup, unpacked_archive, unpacked_problems
from dcc.session.archives.checks import Tell
from dcc.session.archives.jobs import Checked, Checker, Document, Extracted, Failed, Job

log = logging.getLogger(__name__)

_PROCESS: Final = checking_process.__name__
_PIECES_AHEAD: Final = 16
_BYTES_AHEAD: Final = 4_000_000
_DOCUMENTS_TOGETHER: Final = 16
_BYTES_TOGETHER: Final = 1_000_000
_TRIES: Final = 2
_MOST_ENDED: Final = 5
_STOP_SECONDS: Final = 5.0


@dataclass(eq=False, slots=True)
class _Piece:
    """A piece of work for a process, of so many bytes; `tries` have ended the process that had it."""

    job: Job
    message: tuple[Any, ...]
    size_bytes: int
    documents: Sequence[Document] = ()
    tries: int = 0


@dataclass(eq=False, slots=True)
class _Process:
    """A process, if it runs, and the pieces that it has, by their numbers."""

    postbox: Postbox | None = None
    pieces: dict[int, _Piece] = field(default_factory=dict)
    size_bytes: int = 0

    def takes(self, piece: _Piece, most: int) -> bool:
        """Whether it may be given a piece: what may have ended another process is given to it alone."""
        if self.postbox is None:
            return False
        if not self.pieces:
            return True
        if piece.tries or len(self.pieces) >= most or self.size_bytes + piece.size_bytes > _BYTES_AHEAD:
            return False
        return not any(each.tries for each in self.pieces.values())


class ChecksInProcesses:
    """Checks by as many processes as `workers` and the processors allow; the workers in each are threads."""

    def __init__(self, checker: Checker, workers: int, tell: Tell) -> None:
        self._tell = tell
        processes = min(workers, os.cpu_count() or 1)
        threads = -(-workers // processes)
        self._most = _PIECES_AHEAD * threads
        settings = checker.settings
        self._setup = pickle.dumps(
            Setup(
                checker.limits,
                settings.naming,
                checker.centres,
                settings.xsd_dir,
                settings.max_document_errors,
                settings.max_tree_bytes,
                threads,
                os.getpid(),
            )
        )
        self._lock = Lock()
        self._numbers = itertools.count()
        self._waiting: deque[_Piece] = deque()
        self._stopped = False
        self._ended = 0
        self._processes = [_Process() for _ in range(processes)]
        self._running = processes
        self._threads = [
            Thread(target=with_log_context(self._keep), args=(each,), name=f"check {number}", daemon=True)
            for number, each in enumerate(self._processes, 1)
        ]
        for thread in self._threads:
            thread.start()

    def open(self, job: Job, archive: Path, target: Path) -> None:
        """Have an archive's documents written, and validated as well if they are small; see `Checks`."""
        # What documents a dead session was done with is not known there.
        message = ("open", str(archive), str(target), job.md5, not job.known_documents)
        self._give(_Piece(job, message, job.size_bytes or 0))

    def validate(self, job: Job, documents: Sequence[Document]) -> None:
        """Have documents validated, small ones some together; see `Checks`."""
        together: list[Document] = []
        for document in documents:
            size = sum(each.size_bytes for each in together)
            if together and (len(together) == _DOCUMENTS_TOGETHER or size + document.size_bytes > _BYTES_TOGETHER):
                self._give_documents(job, together)
                together = []
            together.append(document)
        if together:
            self._give_documents(job, together)

    def stop(self) -> None:
        """End the processes, whatever they do."""
        with self._lock:
            self._stopped = True
            self._waiting.clear()
            for each in self._processes:
                if each.postbox is not None:
                    each.postbox.helper.process.kill()
        for thread in self._threads:
            thread.join(_STOP_SECONDS)

    def _give_documents(self, job: Job, documents: Sequence[Document]) -> None:
        named = [(str(each.path), str(each.name.kind)) for each in documents if each.name is not None]
        size = sum(each.size_bytes for each in documents)
        self._give(_Piece(job, ("validate", named), size, tuple(documents)))

    def _give(self, piece: _Piece) -> None:
        with self._lock:
            self._waiting.append(piece)
            self._hand_out()

    def _hand_out(self) -> None:
        """Give the processes what they may have; tell of what none is left for.

        Holds the lock, which whoever takes their answers needs too: so it waits for no process.
        """
        while self._waiting and self._running:
            piece = self._waiting[0]
            process = min(self._processes, key=lambda each: (each.postbox is None, len(each.pieces)))
            if process.postbox is None or not process.takes(piece, self._most):
                return
            self._waiting.popleft()
            number = next(self._numbers)
            process.pieces[number] = piece
            process.size_bytes += piece.size_bytes
            kind, *rest = piece.message
            process.postbox.post((kind, number, *rest))
        while self._waiting:
            self._tell_ended(self._waiting.popleft())

    def _keep(self, process: _Process) -> None:
        """Keep a process running and hear its answers. It ends with this thread, if not before."""
        try:
            while self._begin(process):
                self._hear(process)
        except Exception:
            # Such as that no process can be started: there may be others.
            log.exception("A process that checks documents could not be used")
        with self._lock:
            process.postbox = None
            self._running -= 1
            self._hand_out()

    def _begin(self, process: _Process) -> bool:
        with self._lock:
            if self._stopped or self._ended >= _MOST_ENDED:
                return False
        postbox = Postbox(Helper(_PROCESS))
        postbox.post(self._setup)
        with self._lock:
            process.postbox = postbox
            if self._stopped:
                postbox.helper.process.kill()
            self._hand_out()
        return True

    def _hear(self, process: _Process) -> None:
        """Hear the answers of a process until it ends."""
        postbox = process.postbox
        assert postbox is not None  # noqa: S101 - for the type checker: `_begin` has set it
        try:
            while True:
                kind, answer = postbox.helper.receive_any()
                if kind == "raised":
                    log.error("A process that checks documents met a fault", exc_info=pickle.loads(answer))  # noqa: S301
                    break
                self._answered(process, kind, *answer)
        except EOFError:
            log.debug("A process that checks documents ended")
        finally:
            with self._lock:
                process.postbox = None
            postbox.close()
            self._take_back(process, postbox.helper.process.returncode)

    def _answered(self, process: _Process, kind: str, number: int, *answer: Any) -> None:
        with self._lock:
            piece = process.pieces.pop(number)
            process.size_bytes -= piece.size_bytes
            self._hand_out()
        try:
            messages = _messages(piece, kind, *answer)
        except Exception as error:  # whatever it is, the session must hear of the piece
            messages = [Failed(piece.job, error)]
        for message in messages:
            self._tell(message)

    def _take_back(self, process: _Process, code: int) -> None:
        """Have others do what a process had that ended."""
        with self._lock:
            pieces = list(process.pieces.values())
            process.pieces.clear()
            process.size_bytes = 0
            if self._stopped:
                return
            self._ended += 1
            log.warning("A process that checks documents ended with %s", code)
            for piece in reversed(pieces):
                piece.tries += 1
                if piece.tries < _TRIES:
                    self._waiting.appendleft(piece)
                else:
                    self._tell_ended(piece)
            self._hand_out()

    def _tell_ended(self, piece: _Piece) -> None:
        error = HelperEndedError(
            f"The process that checks {piece.job.key} ended before its work was done. The next session takes the "
            "archive up again; see the memory of this machine if it happens again."
        )
        self._tell(Failed(piece.job, error))


def _messages(piece: _Piece, kind: str, *answer: Any) -> Sequence[Extracted | Checked | Failed]:
    """What the answer to a piece of work tells."""
    if kind == "opened":
        md5, archive, problems = answer
        checked = None if problems is None else unpacked_problems(problems)
        return [Extracted(piece.job, unpacked_archive(archive), md5, checked)]
    if kind == "checked":
        results = zip(piece.documents, unpacked_problems(answer[0]), strict=True)
        return [Checked(piece.job, document, problems) for document, problems in results]
    error, md5 = answer
    return [Failed(piece.job, pickle.loads(error), md5)]  # noqa: S301 - of a process that this one started
