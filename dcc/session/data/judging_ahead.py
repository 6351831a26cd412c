"""Documents judged together, in write transactions of many each: two of these go on at once where a server works.

The QC database holds a judgement before the session tells of it. A session that is killed between them judges again
what it did not tell of, which changes nothing.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple

from sqlalchemy import Connection

from dcc.databases.transactions import run_writing
from dcc.errors import DatabaseUnreachableError, NotFoundError
from dcc.qc.judging.checking_ahead import Checked
from dcc.qc.judging.documents import Basis, Judgement
from dcc.qc.judging.many_documents import Found, judge_together, newest_document
from dcc.runtime.background_work import BackgroundWork, run_in_background
from dcc.session.data.data_session import DataSession
from dcc.session.data.documents import DueDocument
from dcc.session.data.qc_documents import QcDocument

log = logging.getLogger(__name__)

Due = tuple[DueDocument, QcDocument]
Portion = Sequence[tuple[Due, Checked]]
"""Documents, each with what was found in it: several in which that is known, or a single one."""

_TOGETHER: Final = 250
_BYTES_TOGETHER: Final = 50_000_000
_FINDINGS_TOGETHER: Final = 5_000
"""What a transaction takes at most, but for its last document: it holds others up no longer than a second or so."""

_AT_ONCE: Final = 3
"""How many transactions go on at once."""


class Judged(NamedTuple):
    """What came of a portion of documents, of each in its order; None: they have to be judged one by one."""

    portion: Portion
    judgements: Sequence[Judgement | NotFoundError] | None
    seconds: float


def portions(documents: Iterable[tuple[Due, Checked]]) -> Iterator[Portion]:
    """The documents in their order: those together that come one after the other and of which it is known what is
    found, all others alone.
    """
    together: list[tuple[Due, Checked]] = []
    findings = size = 0
    for one in documents:
        (document, _), checked = one
        if checked.findings is None:
            if together:
                yield together
            yield [one]
            together, findings, size = [], 0, 0
            continue
        together.append(one)
        findings += len(checked.findings)
        size += document.size_bytes
        if len(together) >= _TOGETHER or findings >= _FINDINGS_TOGETHER or size >= _BYTES_TOGETHER:
            yield together
            together, findings, size = [], 0, 0
    if together:
        yield together


class JudgingAhead:
    """Judges portions in which it is known what is found; what comes of them is had in their order.

    A transaction beside the session's own thread is tried once. Where it has to be waited for a database, or for other
    writers, the session does it, and the waiting.
    """

    def __init__(self, work: DataSession, basis: Basis, beside: BackgroundWork) -> None:
        self._work, self._basis, self._beside = work, basis, beside
        self._begun: deque[tuple[Portion, Callable[[], Judged]]] = deque()

    def judge(self, portion: Portion) -> Iterator[Judged]:
        """Begin with a portion; what came of those before it, as far as they had to be waited for.

        Raises the `unreachable` error of the QC database, and SessionLostError.
        """
        self._work.session.check()
        if not self._beside.is_another_thread:
            yield self._judge(portion, self._work.settings.database_retry)
            return
        while len(self._begun) >= _AT_ONCE:
            yield self._first()
        self._begun.append((portion, self._beside.begin(partial(self._judge, portion, 0.0))))

    def rest(self) -> Iterator[Judged]:
        """What came of the portions that were begun with; raises what `judge` does."""
        while self._begun:
            yield self._first()

    def _first(self) -> Judged:
        portion, judged = self._begun.popleft()
        try:
            return judged()
        except DatabaseUnreachableError as error:
            log.info("%d documents are judged once more: %s", len(portion), error)
            return self._judge(portion, self._work.settings.database_retry)

    def _judge(self, portion: Portion, patience_seconds: float) -> Judged:
        began = time.monotonic()
        found = [Found(stored.id, checked.findings or ()) for (_, stored), checked in portion]
        asked = {checked.newest for _, checked in portion if checked.newest}

        def judge(connection: Connection) -> list[Judgement | NotFoundError] | None:
            # What was said of specimens may hold no more since another document was applied.
            return judge_together(connection, found, self._basis) if asked <= {newest_document(connection)} else None

        try:
            judgements = run_writing(self._work.qc, judge, patience_seconds=patience_seconds)
        except DatabaseUnreachableError:
            raise
        except Exception as error:
            log.info("%d documents are judged one by one: %s: %s", len(portion), type(error).__name__, error)
            judgements = None
        return Judged(portion, judgements, time.monotonic() - began)


@contextmanager
def judging_ahead(work: DataSession, basis: Basis) -> Generator[JudgingAhead]:
    """Judge portions of documents; when the block is left, none is being judged any more.

    SQLite, which has one writer at a time and works in this process, does it in the caller's own thread.
    """
    with run_in_background(work.qc, "judge ahead", _AT_ONCE) as threads:
        yield JudgingAhead(work, basis, threads)
