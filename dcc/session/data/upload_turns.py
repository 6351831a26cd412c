"""Groups of small documents uploaded in their order: a server takes the rows of two at once, while a third is prepared.

They are committed one after another, and what follows a group that was not written is not written either.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from dcc.errors import DatabaseUnreachableError
from dcc.qc.apply.documents import Applied
from dcc.qc.apply.many_documents import Prepared, apply_prepared
from dcc.qc.apply.reading_ahead import ReadingAhead
from dcc.runtime.background_work import BackgroundWork, run_in_background
from dcc.session.data.data_session import DataSession, Recorder
from dcc.session.data.documents import DueDocument
from dcc.session.data.upload_groups import UploadQueue
from dcc.session.data.uploader import Uploader, unless_it_fails

_AT_ONCE: Final = 2
"""How many groups are written at a time."""


class _Writing(NamedTuple):
    """Documents that were prepared and are being written, since when.

    `finish` waits for that, or does it: what became of them, nothing where they are to be applied anew.
    """

    documents: Sequence[DueDocument]
    prepared: Prepared
    began: float
    finish: Callable[[], list[Applied]]

    def is_written(self) -> bool:
        """Whether they all were, when that has come to an end."""
        with suppress(Exception):
            return bool(self.finish())
        return False


class GroupsInTurn:
    """Uploads groups of the documents of `queue`, which `ahead` reads, and has `recorder` told of them.

    They are written `run_in_background`, by `_AT_ONCE` threads, if by any.
    """

    def __init__(
        self,
        work: DataSession,
        uploader: Uploader,
        queue: UploadQueue,
        ahead: ReadingAhead,
        recorder: Recorder,
        beside: BackgroundWork,
    ) -> None:
        self._uploader, self._queue, self._ahead, self._recorder = uploader, queue, ahead, recorder
        self._checked, self._beside = work.checked, beside
        self._writing: deque[_Writing] = deque()
        self._settled = time.monotonic()

    def upload(self, group: Sequence[DueDocument]) -> None:
        """Begin to upload documents, after those before them; what cannot be yet goes back into the queue.

        Raises DatabaseUnreachableError.
        """
        began = time.monotonic()
        try:
            prepared = self._uploader.prepare(group, self._ahead, [one.prepared for one in self._writing])
        except DatabaseUnreachableError:
            self.settle(())
            raise
        if not self.settle(group, still=_AT_ONCE - 1):
            return
        number = 0 if prepared is None else len(prepared.documents)
        self._queue.give_back(group[number:], alone=len(group) if prepared is None else 1)
        if prepared is not None and number:
            self._write(group[:number], prepared, began)

    def settle(self, following: Sequence[DueDocument], still: int = 0) -> bool:
        """Wait until so many groups at most are being written, and record what became of the others' documents.

        Whether these are all uploaded; else the rest is back in the queue, before `following`. Raises
        DatabaseUnreachableError.
        """
        while len(self._writing) > still:
            one = self._writing[0]
            applied = unless_it_fails(one.documents, one.finish)
            self._writing.popleft()
            is_overtaken = applied == []
            if is_overtaken:
                applied = self._apply_anew(one.documents)
            self._record(one, applied or ())
            rest = one.documents[len(applied or ()) :]
            if rest or is_overtaken:
                # What is being written after these is not to stand.
                later = [document for each in self._writing for document in each.documents]
                self._await_later()
                self._writing.clear()
                self._queue.give_back([*later, *following], alone=0)
                self._queue.give_back(rest, alone=len(rest) if applied is None else 1)
                if rest or later or following:
                    return False
        return True

    def give_up(self) -> None:
        """Have what is being written not be tried again, nor what waits for it be tried: it may wait for a lock."""
        for one in self._writing:
            one.prepared.is_taken = True
            one.prepared.rows_come.set()

    def _apply_anew(self, documents: Sequence[DueDocument]) -> list[Applied] | None:
        """Apply documents that were prepared for what the database is not any more."""
        self._await_later()
        return self._uploader.upload_together(documents, self._ahead)

    def _await_later(self) -> None:
        """Wait for what is being written after documents that were not, and so is not either."""
        for one in self._writing:
            one.is_written()

    def _record(self, one: _Writing, applied: Sequence[Applied]) -> None:
        now = time.monotonic()
        # Each second is counted once, though groups are on their way together.
        seconds = (now - max(one.began, self._settled)) / len(one.documents)
        self._settled = now
        for document, outcome in zip(one.documents, applied, strict=False):
            if self._checked is not None:
                self._checked.add(outcome.document_id, outcome.noted)
            self._recorder.add(self._uploader.fact(document, outcome, seconds))

    def _write(self, documents: Sequence[DueDocument], prepared: Prepared, began: float) -> None:
        """Begin to write what was prepared since `began`."""
        former = self._writing[-1] if self._writing else None
        is_former_written = None if former is None else former.is_written

        def write() -> list[Applied]:
            try:
                if former is not None:
                    # Rows that came first might keep those away that they wait for.
                    former.prepared.rows_come.wait()
                    if prepared.is_taken:
                        return []
                return apply_prepared(self._uploader.qc, prepared, is_former_written) or []
            finally:
                prepared.rows_come.set()

        if self._beside.is_another_thread:
            self._writing.append(_Writing(documents, prepared, began, self._beside.begin(write)))
        else:
            self._writing.append(_Writing(documents, prepared, began, write))
            self.settle(())


@contextmanager
def groups_in_turn(
    work: DataSession, uploader: Uploader, queue: UploadQueue, recorder: Recorder
) -> Generator[GroupsInTurn | None]:
    """What uploads groups of the documents of `queue`; None where these are too little to be read ahead.

    When the block is left, none is being written any more; where it is left by an error, none is tried again.
    """
    if queue.ahead is None:
        yield None
        return
    with run_in_background(work.qc, "QC database", _AT_ONCE) as threads:
        groups = GroupsInTurn(work, uploader, queue, queue.ahead, recorder, threads)
        try:
            yield groups
        except BaseException:
            groups.give_up()
            raise
