"""The documents of a session read, and their rows built, by processes ahead of this one, which writes them.

The processes, one or several that take turns (`reading_turns`), go through the documents in their order, and are ahead
by what their pipes hold. They give rows the ids that they have when documents are applied one after the other by nobody
else. Where that is not so, because a document was refused, held or applied before, or because somebody else applied
one, they are started again with the right ids: what they had built is only taken where its ids are right, which the
upload lock confirms. They end with their documents, when they are told to, and when this process goes.

Small documents that are to be applied together with others come whole (`whole_documents`), others bit by bit. While one
has one whole, it may note something about it: what, says a module that names how to look at documents (`Looking`).
"""

from __future__ import annotations

import gc
import itertools
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO, Any, Final, NamedTuple, cast

from dcc.documents import contents as said
from dcc.documents.reading import read_document
from dcc.naming import DocumentKind
from dcc.qc.apply.building_process import (
    LARGE,
    Built,
    BuiltBlock,
    Order,
    Work,
    read_for_upload,
    write_batches,
)
from dcc.qc.apply.reading_turns import Readers, ToRead, Turns
from dcc.qc.apply.whole_documents import (
    Look,
    Read,
    WholeDocument,
    build_whole,
    packed,
    read_whole,
    unpacked,
)
from dcc.runtime.helper_process import Out, ended_early, serve, write_fault, write_message

log = logging.getLogger(__name__)

_WRONG_STARTS: Final = 10
_COLLECT_EVERY: Final = 10

Stamp = tuple[int, int, int]
"""What tells a file from what it was: its inode, its size and when it was changed last."""


class Waiting(NamedTuple):
    """A document that is to be applied; `md5` is that of its file, given if it is to come whole.

    `about` are words for whoever looks at it.
    """

    path: str | Path
    kind: DocumentKind
    size_bytes: int
    md5: str | None = None
    about: Sequence[str] = ()


class Looking(NamedTuple):
    """How documents that come whole are looked at: by the process of a module, which goes by a basis.

    The module's `main` is `serve_reading` with a function that, given the basis and what a document is `about`, yields
    what looks at it.
    """

    module: str
    basis: bytes


LookAt = Callable[[Sequence[str]], Look]
"""Given what a document is `about`, what looks at it."""


class ReadingAhead(Built):
    """Reads documents in their order. Where too little is left to be worth a process, this one reads it itself."""

    def __init__(self, documents: Sequence[Waiting], looking: Looking | None = None, processes: int = 1) -> None:
        super().__init__()
        self._documents = documents
        self._looking = looking
        self._processes = processes
        self._places = {os.fspath(one.path): place for place, one in enumerate(documents)}
        self._left = [*itertools.accumulate(one.size_bytes for one in reversed(documents))][::-1]
        self._readers: Readers | None = None
        # It takes a while to begin, and there is something to do until the first document is read.
        self._spare = self._new_readers() if self._left and self._left[0] >= LARGE else None
        self._wrong_starts = 0
        self._place = self._reached = -1
        self._told: _Told | None = None
        self._began = False
        self._whole: dict[int, WholeDocument] = {}
        self._receiving: _Receiving | None = None

    def read(self, path: Path, kind: DocumentKind) -> Iterator[said.Content]:
        """What the document at `path` says, for `apply_document`; see `read_document` for what is raised."""
        place = self._places.get(os.fspath(path))
        if place is None or self._documents[place].md5 is not None or not self._is_worth_a_process(place):
            yield from read_for_upload(path, kind)
            return
        self.forget()
        self._await_receiving()
        self._place, self._began = place, False
        first = self._first(path, kind)
        if first is None:
            return
        block = BuiltBlock(*first)
        block.building = self
        yield block
        if not self._began:
            yield from itertools.islice(read_document(path, kind), 1, None)
            return
        while (message := self._receive()) is not None:
            yield from self.take_batch(message)

    def read_whole(self, paths: Sequence[Path], order: Order) -> list[WholeDocument]:
        """The documents at `paths`, which were to come whole, with their rows built in the order given.

        Only as many as can be applied together: the one after these is to be applied by itself. To be called for
        documents in their order; where they are applied again, also for the same ones. Raises HelperEndedError.
        """
        self._await_receiving()
        places = [self._places[os.fspath(path)] for path in paths]
        self._whole = {place: whole for place, whole in self._whole.items() if place >= places[0]}
        found: list[WholeDocument] = []
        for place in places:
            whole = self._whole_at(place, order)
            if not whole.plain:
                break
            found.append(whole)
            order = order._replace(document_id=order.document_id + 1, next_ids=whole.next_ids)
        if order.as_lines and self._readers is not None and self._reached >= places[-1]:
            self._receiving = _Receiving(self._receive_whole, self._reached + len(places))
        return found

    def _whole_at(self, place: int, order: Order) -> WholeDocument:
        path, kind, _, md5, _ = self._documents[place]
        if not self._is_worth_a_process(place):
            return build_whole(read_whole(Path(path), kind, md5 or ""), order)
        self._place = place
        whole = self._whole.get(place)
        if whole is None and self._reach():
            whole = self._whole.get(place)
        if whole is not None and whole.fits(order):
            return whole
        if whole is not None:
            self._wrong_starts += 1
            self._whole.clear()
        self._start(order)
        return self._whole[place]

    def _is_worth_a_process(self, place: int) -> bool:
        """Whether the document there is read by another process: there is one, or enough is left for one."""
        return self._wrong_starts < _WRONG_STARTS and (self._readers is not None or self._left[place] >= LARGE)

    def begin(self, order: Order) -> None:
        """Have rows come built from the first block on. Only before the next content is taken."""
        self._began = True
        told = self._told
        if told is not None and self._readers is not None:
            if told.fits(order):
                # One that was ended is started again: nothing of the document has been taken yet.
                with suppress(EOFError):
                    self.take_batch(self._readers.receive())
                    return
            self._wrong_starts += 1
        self._start(order)
        self.take_batch(self._receive())

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._readers is not None:
            # What is waited for does not come any more.
            self._readers.kill()
        with suppress(Exception):
            self._await_receiving()
        self._end()
        if self._spare is not None:
            self._spare.close()
            self._spare = None

    def _end(self) -> None:
        if self._readers is not None:
            self._readers.close()
            self._readers = None
        self._told, self._reached = None, -1

    def _first(self, path: Path, kind: DocumentKind) -> Iterable[Any] | None:
        """The first block of a document, as the process tells it, or else as it is read here."""
        if self._readers is not None and self._reach() and self._told is not None and self._told.stamp == _stamp(path):
            with suppress(EOFError):
                return cast("Iterable[Any] | None", self._readers.receive())
        self._end()
        return next(read_document(path, kind), None)

    def _reach(self) -> bool:
        """Have the process tell of the present document; False when there is none, or it is past that."""
        if self._readers is None or self._reached >= self._place:
            return False
        try:
            while self._reached < self._place:
                self._take_next(self._readers)
        except EOFError:
            return False
        return self._reached == self._place

    def _take_next(self, readers: Readers) -> None:
        kind, message = readers.receive_any()
        if kind == "document":
            self._told = _Told(*message)
            self._reached = self._told.place
        elif kind == "whole":
            self._reached = message[0]
            if self._reached >= self._place:
                self._whole[self._reached] = unpacked(message[1])

    def _receive_whole(self, last: int) -> None:
        """Take what comes next, up to that place, as far as it comes whole."""
        readers = self._readers
        some = self._documents[self._reached + 1 : last + 1]
        whole = sum(1 for _ in itertools.takewhile(lambda one: one.md5 is not None, some))
        last = self._reached + whole
        # A process that has ended is missed by whoever asks for its documents.
        with suppress(EOFError):
            while readers is not None and self._reached < last:
                self._take_next(readers)

    def _await_receiving(self) -> None:
        """Wait for what is received beside; raises what was raised there."""
        receiving, self._receiving = self._receiving, None
        if receiving is not None:
            receiving.finish()

    def _start(self, order: Order) -> None:
        """Start the process with the present document."""
        self._end()
        self._readers, self._spare = self._spare or self._new_readers(), None
        following = itertools.islice(self._documents, self._place, None)
        named = (
            ToRead(os.fspath(one.path), one.size_bytes, one.kind.value, one.md5, tuple(one.about)) for one in following
        )
        basis = None if self._looking is None else self._looking.basis
        self._readers.send(self._place, named, order, basis)
        if not self._reach() or self._documents[self._place].md5 is None:
            self._receive()

    def _new_readers(self) -> Readers:
        module = __name__ if self._looking is None else self._looking.module
        try:
            return Readers(module, self._processes)
        except OSError as error:
            if self._processes == 1:
                raise
            log.warning("Not all processes that read documents could be started: %s. One does their work.", error)
            self._processes = 1
            return Readers(module, 1)

    def _receive(self) -> Any:
        """The next message about the present document; None at its end. Raises what the process did."""
        readers = self._readers
        if readers is None:
            raise EOFError
        try:
            return readers.receive()
        except EOFError as error:
            self._end()
            raise ended_early(Path(self._documents[self._place].path).name, readers.returncode) from error


class _Receiving:
    """Documents being received by a thread, up to a place, while the caller waits for the database."""

    def __init__(self, receive: Callable[[int], None], last: int) -> None:
        self._error: Exception | None = None

        def run() -> None:
            try:
                receive(last)
            except Exception as error:
                self._error = error

        self._thread = Thread(target=run, name="receive documents", daemon=True)
        self._thread.start()

    @property
    def is_going_on(self) -> bool:
        """Whether not all of them have come."""
        return self._thread.is_alive()

    def finish(self) -> None:
        """Wait for them. Raises what was raised there."""
        self._thread.join()
        if self._error is not None:
            raise self._error


class _Told(NamedTuple):
    """Which document the process tells of, and the ids that it gives it."""

    place: int
    document_id: int
    next_ids: Mapping[str, int]
    stamp: Stamp | None

    def fits(self, order: Order) -> bool:
        """Whether its rows may have these ids: the document's is the one that is given it, and none is taken."""
        free = all(self.next_ids[name] >= number for name, number in order.next_ids.items())
        return self.document_id == order.document_id and free


def _stamp(path: str | Path) -> Stamp | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def main() -> None:
    """Read the documents that standard input names, and write their rows to standard output."""
    serve(lambda given, out: serve_reading(given, out, None))


def serve_reading(given: IO[bytes], out: Out, look_by: Callable[[bytes], LookAt] | None) -> None:
    """Do the work of the process; `look_by` is given the basis by which documents that come whole are looked at."""
    turns = Turns(given, out)
    look_at = None if look_by is None else look_by(turns.basis)
    for number, (first_place, lot) in enumerate(turns.lots):
        documents = [ToRead(*one) for one in lot]
        read = deque(_read(one, look_at) for one in documents)
        order = turns.take()
        for place, document in enumerate(documents, first_place):
            one = read.popleft()
            if document.md5 is None:
                order = _tell(out, place, document.path, DocumentKind(document.kind), order)
                continue
            whole = build_whole(one, order)
            write_message(out, ("whole", (place, packed(whole))))
            order = order._replace(document_id=order.document_id + whole.takes_ids, next_ids=whole.next_ids)
        turns.hand_on(order)
        if number % _COLLECT_EVERY == 0:
            gc.collect()


def _read(document: ToRead, look_at: LookAt | None) -> Read | None:
    """What a document that is to come whole says."""
    if document.md5 is None:
        return None
    look = None if look_at is None else look_at(document.about)
    return read_whole(Path(document.path), DocumentKind(document.kind), document.md5, look)


def _tell(out: Out, place: int, path: str, kind: DocumentKind, order: Order) -> Order:
    """Tell of a document bit by bit; how the next one's rows are to be built."""
    write_message(out, ("document", (place, order.document_id, order.next_ids, _stamp(path))))
    work = Work(order)
    try:
        contents = read_document(Path(path), kind)
        first = next(contents, None)
        write_message(out, ("block", None if first is None else tuple(first)))
        if first is not None:
            work.take(first)
            write_message(out, ("batch", work.batch()))
            write_batches(out, work, contents)
    except BrokenPipeError:
        raise
    except Exception as error:
        write_fault(out, error)
    return order._replace(document_id=order.document_id + 1, next_ids=work.next_ids())
