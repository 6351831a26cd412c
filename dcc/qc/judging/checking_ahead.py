"""Documents checked against the rules by processes beside this one, which answers what they ask.

What is found comes in the order of the documents. Each process has two lots of documents at most, and all of them are
ahead by some lots at most, so that memory is bounded. The documents of a process that ended are checked again, each by
itself; one that two have ended over is not tried any more. The processes end when they are told to, and when this one
goes.
"""

from __future__ import annotations

import logging
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from queue import Empty, Queue
from threading import Thread
from typing import Any, Final, NamedTuple

from dcc.errors import HelperEndedError
from dcc.qc.judging import checking_process
from dcc.qc.judging.checking_process import Known, ToCheck, is_large, packed_known, unpacked
from dcc.reference.loading import ReferenceData
from dcc.rules.findings import Finding
from dcc.runtime.helper_process import Helper, ended_early

log = logging.getLogger(__name__)

_LOT_BYTES: Final = 1_000_000
_LOT_DOCUMENTS: Final = 40
_LOTS_AHEAD: Final = 16
_FINDINGS_AHEAD: Final = 20_000
_AT_ONCE: Final = 2
_TRIES: Final = 2
_MOST_ENDED: Final = 5
_LOOK_EVERY: Final = 0.5

Question = Mapping[str, Sequence[str]]
"""The ids of specimens that are asked for, by their centres."""


class Answer(NamedTuple):
    """The specimens that were there of those asked for, and the id of the newest document then."""

    known: Known
    newest: int


class Checked(NamedTuple):
    """What was found in a document; `newest` is that of the answer that it goes by.

    `findings` are None where the document has to be judged by whoever asked: it cannot be read as it was validated, met
    a fault, or has very many; or because of `error`, not at all for now.
    """

    findings: list[Finding] | None
    newest: int = 0
    seconds: float = 0.0
    error: HelperEndedError | None = None


@dataclass(eq=False)
class _Lot:
    """Documents that are checked together, those from `first` on."""

    first: int
    documents: Sequence[ToCheck]
    tries: int = 0
    newest: int = 0


@dataclass(eq=False)
class _Process:
    helper: Helper
    lots: deque[_Lot] = field(default_factory=deque)
    listener: Thread | None = None
    is_ready: bool = False

    def end(self) -> None:
        self.helper.process.kill()
        if self.listener is not None:
            self.listener.join()
        self.helper.close()


class CheckingAhead:
    """Checks documents by so many processes, which start as they are needed.

    `answer` is asked for specimens, in this thread, as is `look`, now and then while there is nothing to do; what these
    raise comes from `results`.
    """

    def __init__(
        self,
        documents: Iterable[ToCheck],
        processes: int,
        reference: ReferenceData,
        today: date,
        answer: Callable[[Question], Answer],
        look: Callable[[], None],
    ) -> None:
        self._lots = _lots(documents)
        self._waiting: deque[_Lot] = deque()
        self._basis = pickle.dumps((reference, today))
        self._count, self._answer, self._look = processes, answer, look
        self._running: list[_Process] = []
        self._inbox: Queue[tuple[_Process, str, Any]] = Queue()
        self._done: dict[int, Checked] = {}
        self._held = 0
        self._ended = 0

    def results(self) -> Iterator[Checked]:
        """What was found, a document after the other."""
        place = 0
        self._start()
        while True:
            while not self._inbox.empty():
                self._take_message()
            self._feed(place)
            if place in self._done:
                checked = self._done.pop(place)
                self._held -= len(checked.findings or ())
                yield checked
                place += 1
            elif any(process.lots for process in self._running):
                self._take_message()
            elif not self._waiting:
                return

    def close(self) -> None:
        """End the processes, whatever they do."""
        for process in self._running:
            process.end()
        self._running.clear()

    def _feed(self, place: int) -> None:
        """Give the processes what they can take; where there is none, documents are left to whoever asked."""
        while self._waiting or self._look_for_more():
            lot = self._waiting[0]
            is_far = lot.first > place + _LOTS_AHEAD * _LOT_DOCUMENTS or self._held > _FINDINGS_AHEAD
            if is_far and lot.first > place:
                return
            process = self._free_for(lot)
            if process is None and self._running:
                return
            self._waiting.popleft()
            if process is None:
                self._keep(lot, [Checked(None)] * len(lot.documents))
            else:
                process.lots.append(lot)
                process.helper.send(("documents", [tuple(one) for one in lot.documents]))

    def _look_for_more(self) -> bool:
        lot = next(self._lots, None)
        if lot is not None:
            self._waiting.append(lot)
        return lot is not None

    def _free_for(self, lot: _Lot) -> _Process | None:
        """A process that can take a lot; what is tried again is given to one that has nothing else."""
        if len(self._running) < self._count:
            self._start()
        most = 0 if lot.tries else _AT_ONCE - 1
        free = [one for one in self._running if len(one.lots) <= most and not any(lot.tries for lot in one.lots)]
        return min(free, key=lambda one: len(one.lots), default=None)

    def _start(self) -> None:
        """Start the processes that are not there; they come up side by side."""
        started: list[_Process] = []
        while len(self._running) + len(started) < self._count and self._ended < _MOST_ENDED:
            try:
                started.append(_Process(Helper(checking_process.__name__)))
            except OSError as error:
                log.warning("A process that checks documents could not be started: %s. This one does its work.", error)
                self._ended = _MOST_ENDED
        for process in started:
            self._running.append(process)
            process.listener = Thread(target=self._listen, args=[process], name="findings", daemon=True)
            process.listener.start()
            process.helper.send(self._basis)

    def _listen(self, process: _Process) -> None:
        """Put the messages of a process where `results` finds them; the last one is that it ended."""
        try:
            while True:
                self._inbox.put((process, *process.helper.receive_any()))
        except EOFError:
            self._inbox.put((process, "ended", None))

    def _take_message(self) -> None:
        try:
            process, kind, message = self._inbox.get(timeout=_LOOK_EVERY)
        except Empty:
            self._look()
            return
        if process not in self._running:
            return
        if kind == "ready":
            process.is_ready = True
        elif kind == "question":
            self._reply(process, message)
        elif kind == "found":
            lot = process.lots.popleft()
            told = [(found and [unpacked(one) for one in found], seconds) for found, seconds in message]
            self._keep(lot, [Checked(found, lot.newest, seconds) for found, seconds in told])
        else:
            self._take_back(process)

    def _reply(self, process: _Process, question: Question) -> None:
        # It asks for its lots in their order, of a large document several times: the oldest answer is what counts.
        lot = next(one for one in process.lots if not one.newest or is_large(one.documents))
        answer = self._answer(question)
        lot.newest = lot.newest or answer.newest
        process.helper.send(("answer", packed_known(answer.known)))

    def _keep(self, lot: _Lot, checked: Sequence[Checked]) -> None:
        for number, one in enumerate(checked):
            self._done[lot.first + number] = one
            self._held += len(one.findings or ())

    def _take_back(self, process: _Process) -> None:
        """Have the documents of a process that ended checked again, each by itself."""
        self._running.remove(process)
        process.end()
        self._ended += 1
        code = process.helper.process.returncode
        log.warning("A process that checks documents ended with %d. Its documents are checked again.", code)
        for lot in process.lots:
            if not process.is_ready:
                # It never came up: no document is to blame.
                self._waiting.append(lot)
            elif lot.tries + 1 >= _TRIES:
                error = ended_early(lot.documents[0].path.rpartition("/")[2], code)
                self._keep(lot, [Checked(None, error=error)])
            else:
                self._waiting.extend(
                    _Lot(place, [one], lot.tries + 1) for place, one in enumerate(lot.documents, lot.first)
                )
        self._waiting = deque(sorted(self._waiting, key=lambda lot: lot.first))


def _lots(documents: Iterable[ToCheck]) -> Iterator[_Lot]:
    """The documents in lots of so many bytes, a large one by itself."""
    first = held = 0
    lot: list[ToCheck] = []
    for document in documents:
        if lot and (held + document.size_bytes > _LOT_BYTES or len(lot) >= _LOT_DOCUMENTS):
            yield _Lot(first, lot)
            first, held, lot = first + len(lot), 0, []
        lot.append(document)
        held += document.size_bytes
    if lot:
        yield _Lot(first, lot)
