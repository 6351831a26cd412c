"""The documents of a session read, and their rows built, by one process ahead of this one, which writes them.

The process goes through the documents in their order, and is ahead by what a pipe holds. It gives rows the ids that
they have when documents are applied one after the other by nobody else. Where that is not so, because a document was
refused, held or applied before, or because somebody else applied one, it is started again with the right ids: what it
had built is only taken when its ids are found right under the upload lock. It ends with its documents, when it is told
to, and when this process goes.
"""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, cast

from dcc_resources.naming import DocumentKind
from dcc_resources.qc_database import contents as said
from dcc_resources.qc_database.building_process import (
    LARGE,
    Built,
    BuiltBlock,
    Order,
    Work,
    read_for_upload,
    write_batches,
)
from dcc_resources.qc_database.helper_process import (
    Helper,
    Out,
    ended_early,
    read_message,
    serve,
    write_fault,
    write_message,
)
from dcc_resources.qc_database.reading import read_document

_AT_ONCE: Final = 2_000
_WRONG_STARTS: Final = 10
_COLLECT_EVERY: Final = 100

Stamp = tuple[int, int, int]
"""What tells a file from what it was: its inode, its size and when it was changed last."""


class Waiting(NamedTuple):
    """A document that is to be applied."""

    path: Path
    kind: DocumentKind
    size_bytes: int


class ReadingAhead(Built):
    """Reads documents in their order. Where too little is left to be worth a process, this one reads it itself."""

    def __init__(self, documents: Sequence[Waiting]) -> None:
        super().__init__()
        self._documents = documents
        self._places = {one.path: place for place, one in enumerate(documents)}
        self._left = [*itertools.accumulate(one.size_bytes for one in reversed(documents))][::-1]
        self._helper: Helper | None = None
        # It takes a while to begin, and there is something to do until the first document is read.
        self._spare = Helper(__name__) if self._left and self._left[0] >= LARGE else None
        self._wrong_starts = 0
        self._place = -1
        self._told: _Told | None = None
        self._began = False

    def read(self, path: Path, kind: DocumentKind) -> Iterator[said.Content]:
        """What the document at `path` says, for `apply_document`; see `read_document` for what is raised."""
        place = self._places.get(path)
        if place is None or self._wrong_starts >= _WRONG_STARTS or (self._helper is None and self._left[place] < LARGE):
            yield from read_for_upload(path, kind)
            return
        self.forget()
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

    def begin(self, order: Order) -> None:
        """Have rows come built from the first block on. Only before the next content is taken."""
        self._began = True
        told = self._told
        if told is not None and self._helper is not None:
            if told.fits(order):
                # One that was ended is started again: nothing of the document has been taken yet.
                with suppress(EOFError):
                    self.take_batch(self._helper.receive())
                    return
            self._wrong_starts += 1
        self._start(order)
        self.take_batch(self._receive())

    def close(self) -> None:
        """End the process, whatever it does."""
        self._end()
        if self._spare is not None:
            self._spare.close()
            self._spare = None

    def _end(self) -> None:
        if self._helper is not None:
            self._helper.close()
            self._helper = None
        self._told = None

    def _first(self, path: Path, kind: DocumentKind) -> Iterable[Any] | None:
        """The first block of a document, as the process tells it, or else as it is read here."""
        if self._helper is not None and self._reach() and self._told is not None and self._told.stamp == _stamp(path):
            with suppress(EOFError):
                return cast("Iterable[Any] | None", self._helper.receive())
        self._end()
        return next(read_document(path, kind), None)

    def _reach(self) -> bool:
        """Have the process tell of the present document; False when there is none, or it is past that."""
        if self._helper is None or (self._told is not None and self._told.place >= self._place):
            return False
        try:
            while self._told is None or self._told.place < self._place:
                message = self._helper.receive_any()
                if message[0] == "document":
                    self._told = _Told(*message[1])
        except EOFError:
            return False
        return self._told.place == self._place

    def _start(self, order: Order) -> None:
        """Start the process with the present document."""
        self._end()
        self._helper, self._spare = self._spare or Helper(__name__), None
        some = self._documents[self._place : self._place + _AT_ONCE]
        self._helper.send((self._place, [(os.fspath(one.path), one.kind.value) for one in some], tuple(order)))
        self._reach()
        self._receive()

    def _receive(self) -> Any:
        """The next message about the present document; None at its end. Raises what the process did."""
        helper = self._helper
        if helper is None:
            raise EOFError
        try:
            return helper.receive()
        except EOFError as error:
            self._end()
            raise ended_early(self._documents[self._place].path.name, helper.process.returncode) from error


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
    serve(_serve)


def _serve(given: IO[bytes], out: Out) -> None:
    first_place, documents, packed = read_message(given)
    order = Order(*packed)
    for number, (path, kind) in enumerate(documents):
        write_message(out, ("document", (first_place + number, order.document_id, order.next_ids, _stamp(path))))
        work = Work(order)
        try:
            contents = read_document(Path(path), DocumentKind(kind))
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
        order = order._replace(document_id=order.document_id + 1, next_ids=work.next_ids())
        if number % _COLLECT_EVERY == 0:
            gc.collect()
