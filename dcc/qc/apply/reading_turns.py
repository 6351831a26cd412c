"""Processes that read documents, several as if they were one: each takes one lot of documents in so many.

They read their lots side by side, and build rows in turn, because the ids of a lot's rows follow on those of the lot
before: whoever has built a lot's rows hands the next ids on to the next process, by a pipe between the two. What they
tell is taken lot by lot, so that one of them can always go on. One that ends takes those with it that wait for their
turn after it.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from threading import Event, Thread
from typing import IO, Any, Final, NamedTuple

from dcc.qc.apply.building_process import Order
from dcc.runtime.helper_process import BYTES_AHEAD, Helper, Out, read_message, taken, write_message
from dcc.runtime.log_context import with_log_context

log = logging.getLogger(__name__)

MANY: Final = 10_000_000
"""Bytes of documents that come whole from which on several processes are worth their start."""
MOST_READERS: Final = 2
"""How many processes read at most: what these can read keeps the one that writes busy."""

_NICE: Final = 10
"""How much a process lets the one that it reads for go first, where that one binds each value of each row."""

_LOT_BYTES: Final = 500_000
_LOT_DOCUMENTS: Final = 10
_LOT_ENDS: Final = "lot ends"

Lot = tuple[int, list[tuple[Any, ...]]]
"""Documents that are read by one process, and the place of the first among all."""


def readers_worth(size_bytes: int, workers: int) -> int:
    """How many processes are worth their start, of as many as there may be workers; `size_bytes` come whole."""
    return min(MOST_READERS, workers, os.cpu_count() or 1) if size_bytes >= MANY else 1


class ToRead(NamedTuple):
    """A document as a process is told of it: its file, size, kind, the MD5 if it is to come whole, what it is about."""

    path: str
    size_bytes: int
    kind: str
    md5: str | None
    about: Sequence[str]


class Readers:
    """So many processes that read documents, to be called as `module`'s `main`, and what they tell, in order."""

    def __init__(self, module: str, count: int) -> None:
        self._helpers: list[Helper] = []
        self._hands: list[tuple[int, ...]] = []
        self._turn = 0
        self._feeder: Thread | None = None
        self._ends = Event()
        ends: list[int] = []
        try:
            for _ in range(count if count > 1 else 0):
                ends.extend(os.pipe())
            for number in range(count):
                # The one to read from is its own pipe's, the one to write to that of the next process.
                hands = (ends[2 * number], ends[2 * ((number + 1) % count) + 1]) if ends else ()
                self._hands.append(hands)
                self._helpers.append(Helper(module, hands, BYTES_AHEAD // count))
        except OSError:
            self.close()
            raise
        finally:
            for end in ends:
                os.close(end)

    @property
    def returncode(self) -> int | None:
        """How the process ended whose turn it is to tell; None of one that has not ended."""
        return self._helpers[self._turn].process.returncode

    def send(self, first_place: int, documents: Iterable[ToRead], order: Order, basis: bytes | None) -> None:
        """Have documents read, of which the first has that place among all; once.

        They are told of by a thread, as far ahead as pipes hold, which is then alone in going through `documents`.
        """
        for number, (helper, hands) in enumerate(zip(self._helpers, self._hands, strict=True)):
            helper.send((tuple(order), number == 0, hands, basis))
        feed = with_log_context(self._feed)
        self._feeder = Thread(target=feed, args=(_lots(first_place, documents),), name="documents to read", daemon=True)
        self._feeder.start()

    def _feed(self, lots: Iterable[Lot]) -> None:
        """Tell the processes of their lots, in turns, until there is none or it is of no use any more."""
        try:
            for helper, lot in zip(itertools.cycle(self._helpers), lots, strict=False):
                if self._ends.is_set():
                    return
                helper.send(lot)
            for helper in self._helpers:
                helper.send(None)
        except Exception:
            log.exception("Processes that read documents could not be told of all of them")
            # They would wait for more, and the session for them.
            for helper in self._helpers:
                helper.process.kill()

    def receive(self) -> Any:
        """The next message. Raises what a process raised, and EOFError when the one whose turn it is has ended."""
        return taken(*self.receive_any())

    def receive_any(self) -> tuple[str, Any]:
        """The kind of the next message, and the message, also if it raised something. Raises EOFError."""
        while True:
            kind, message = self._helpers[self._turn].receive_any()
            if kind != _LOT_ENDS:
                return kind, message
            self._turn = (self._turn + 1) % len(self._helpers)

    def kill(self) -> None:
        """Have all processes end, whatever they do: nothing more comes than what their pipes hold."""
        self._ends.set()
        for helper in self._helpers:
            helper.process.kill()

    def close(self) -> None:
        """End all processes, whatever they do."""
        self.kill()
        if self._feeder is not None:
            self._feeder.join()
        for helper in self._helpers:
            helper.close()


class Turns:
    """One process's lots, and the order for the rows that come next, which goes from process to process."""

    def __init__(self, given: IO[bytes], out: Out) -> None:
        ordered, self._is_its_turn, hands, self.basis = read_message(given)
        self.lots: Iterator[Lot] = iter(lambda: read_message(given), None)
        self._out = out
        self._order = Order(*ordered)
        if not self._order.as_lines:
            # The rows are taken more slowly than they come, and all waits for whoever takes them.
            os.nice(_NICE)
        self._come = os.fdopen(hands[0], "rb") if hands else None
        self._go = os.fdopen(hands[1], "wb", buffering=0) if hands else None

    def take(self) -> Order:
        """Wait for the turn; how the next rows are to be built. Raises EOFError when the process before has ended."""
        if not self._is_its_turn and self._come is not None:
            document_id, next_ids = read_message(self._come)
            self._order = self._order._replace(document_id=document_id, next_ids=next_ids)
        self._is_its_turn = False
        return self._order

    def hand_on(self, order: Order) -> None:
        """Say that all has been told of a lot, and give the turn to the next process."""
        write_message(self._out, (_LOT_ENDS, None))
        self._order = order
        if self._go is not None:
            # One that has no lot any more has ended.
            with suppress(BrokenPipeError):
                write_message(self._go, (order.document_id, order.next_ids))


def _lots(first_place: int, documents: Iterable[ToRead]) -> Iterator[Lot]:
    """The documents in lots of so many bytes, each of those that do not come whole by itself."""
    lot: list[tuple[Any, ...]] = []
    held = 0
    for one in documents:
        if lot and (one.md5 is None or held + one.size_bytes > _LOT_BYTES or len(lot) >= _LOT_DOCUMENTS):
            yield first_place, lot
            first_place, lot, held = first_place + len(lot), [], 0
        lot.append(tuple(one))
        # Nothing goes with one that comes bit by bit.
        held += one.size_bytes if one.md5 is not None else _LOT_BYTES
    if lot:
        yield first_place, lot
