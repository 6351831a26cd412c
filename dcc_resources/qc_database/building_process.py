"""Large documents read, and their rows built, by a process of their own while this one writes to the database.

`read_for_upload` yields what a document says, as `read_document` does. Whoever takes the first block may ask, by
`BuiltBlock.building`, for the rest to come with its rows built: entities then come without what is in them, and `made`
tells what `RowBuilder.add_entity` said of each. Without that, the rest comes whole, read by this process.

The other process loads no SQLAlchemy, so it is there in a tenth of a second. It ends with its document, and when this
one goes: it then has nowhere to write. Messages are marshalled, with their length before them.
"""

from __future__ import annotations

import fcntl
import gc
import itertools
import marshal
import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, cast

from dcc_resources.errors import InternalFaultError
from dcc_resources.naming import DocumentKind
from dcc_resources.qc_database import contents as said
from dcc_resources.qc_database.procedure_rows import Row
from dcc_resources.qc_database.reading import read_document
from dcc_resources.qc_database.row_building import NUMBERED, EntityRow, Limits, RowBuilder, TooLong
from dcc_resources.qc_database.row_lines import FEW_ROWS, as_lines
from dcc_resources.qc_database.vocabulary import EntityKind

LARGE: Final = 2_000_000
"""Bytes of a document from which on a process of its own is worth its start."""

_LENGTH_BYTES: Final = 8
_ROWS: Final = 8_000
_ENTITIES: Final = 1_000
_TEXT: Final = 2_000_000
_PIPE_BYTES: Final = 1_048_576
_LOOK_EVERY: Final = 16
_START: Final = (
    "import sys; sys.path[:] = {path!r}; from dcc_resources.qc_database.building_process import main; main()"
)


class Order(NamedTuple):
    """How rows are to be built: the document's id, the next id of each numbered table, what columns hold.

    `as_lines`: tables with many rows come as the text that LOAD DATA reads.
    """

    document_id: int
    next_ids: Mapping[str, int]
    limits: Limits
    as_lines: bool


class Batch(NamedTuple):
    """Rows by table, or their number and lines; of both the characters of long texts, and measurements by procedure."""

    rows: dict[str, list[Row]]
    lines: dict[str, tuple[int, bytes]]
    text: int
    measured: dict[str, int]


_NO_ROWS: Final = Batch({}, {}, 0, {})


class BuiltBlock(said.Block):
    """The first block of a document whose rows can come built."""

    building: Building


def read_for_upload(path: Path, kind: DocumentKind) -> Iterator[said.Content]:
    """What the document at `path` says, for `apply_document`; see `read_document` for what is raised."""
    if path.stat().st_size < LARGE:
        yield from read_document(path, kind)
        return
    building = Building(path, kind)
    try:
        yield from building.contents()
    finally:
        building.close()


class Building:
    """The process that builds a document's rows, as this process sees it."""

    def __init__(self, path: Path, kind: DocumentKind) -> None:
        self._path, self._kind = path, kind
        self._made: deque[EntityRow | TooLong | None] = deque()
        self._batch = _NO_ROWS
        self._began = False
        command = [sys.executable, "-c", _START.format(path=sys.path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._out = cast(IO[bytes], self._process.stdin)
        self._in = cast(IO[bytes], self._process.stdout)
        _widen(self._in)
        self._send((os.fspath(path), kind.value))

    def begin(self, order: Order) -> None:
        """Have rows built from the first block on. Only before the next content is taken."""
        self._began = True
        self._send(tuple(order))
        self._take_batch(self._receive())

    def next_made(self) -> EntityRow | TooLong | None:
        """What became of the content that was yielded last: an entity's row or what is too long; None of a block."""
        return self._made.popleft()

    def finished_batch(self) -> Batch | None:
        """The rows of the contents that were yielded, once what became of all of them has been asked for."""
        if self._made:
            return None
        batch, self._batch = self._batch, _NO_ROWS
        return batch

    def blocks(self) -> list[Row]:
        """The rows of blocks that have come and were not handed over yet, which other rows refer to."""
        rows = self._batch.rows
        return rows.pop("centre_block") if "centre_block" in rows else []

    def contents(self) -> Iterator[said.Content]:
        """What the document says."""
        first = self._receive()
        if first is None:
            return
        block = BuiltBlock(*first)
        block.building = self
        yield block
        if not self._began:
            self.close()
            yield from itertools.islice(read_document(self._path, self._kind), 1, None)
            return
        while (message := self._receive()) is not None:
            yield from self._take_batch(message)

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._out.close()
        self._in.close()

    def _take_batch(self, message: Any) -> list[said.Content]:
        contents, made, *batch = message
        self._made.extend(map(_unpacked_made, made))
        self._batch = Batch(*batch)
        return list(map(_unpacked, contents))

    def _send(self, message: object) -> None:
        # One that has ended has left word why, or will be missed when an answer is waited for.
        with suppress(BrokenPipeError):
            _write(self._out, message)

    def _receive(self) -> Any:
        """The next message; None at the end. Raises what the process did."""
        try:
            kind, message = _read(self._in)
        except EOFError as error:
            raise InternalFaultError(
                f"The process that reads {self._path.name} ended with {self._process.wait()} before its work was done. "
                "Nothing of the document was kept. Try again; see the memory of this machine if it happens again."
            ) from error
        if kind == "raised":
            raise pickle.loads(message)  # noqa: S301 - of a process that this one started
        return message


def main() -> None:
    """Read the document that standard input names, and write its rows to standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What is made here has no cycles, and is gone with its batch.
    gc.disable()
    given, out = sys.stdin.buffer, sys.stdout.buffer
    try:
        _serve(given, out)
    except (BrokenPipeError, EOFError):
        os._exit(0)
    except Exception as error:
        _write(out, ("raised", _pickled(error)))


def _serve(given: IO[bytes], out: IO[bytes]) -> None:
    path, kind = _read(given)
    contents = read_document(Path(path), DocumentKind(kind))
    first = next(contents, None)
    if first is None:
        _write(out, ("end", None))
        return
    _write(out, ("block", tuple(first)))
    work = _Work(Order(*_read(given)))
    work.take(first)
    _write(out, ("batch", work.batch()))
    for number, content in enumerate(contents):
        work.take(content)
        if number % _LOOK_EVERY == 0 and work.is_enough():
            _write(out, ("batch", work.batch()))
    _write(out, ("batch", work.batch()))
    _write(out, ("end", None))


class _Work:
    """Rows that were built and not sent yet."""

    def __init__(self, order: Order) -> None:
        self._as_lines = order.as_lines
        self._tables: dict[str, list[Row]] = {name: [] for name in order.limits}
        new_ids = {name: itertools.count(order.next_ids[name]).__next__ for name in NUMBERED}
        self._builder = RowBuilder(order.document_id, new_ids, self._tables, order.limits)
        self._contents: list[tuple[object, ...]] = []
        self._made: list[tuple[object, ...] | None] = []
        self._text_sent = 0
        self._usable = False

    def take(self, content: said.Content) -> None:
        self._contents.append(_packed(content))
        if isinstance(content, said.Block):
            excess = self._builder.add_block(content)
            self._usable = excess is None
            self._made.append(_packed_made(excess))
        elif self._usable:
            self._made.append(_packed_made(self._builder.add_entity(content)))

    def is_enough(self) -> bool:
        if len(self._contents) >= _ENTITIES or self._builder.held_text - self._text_sent > _TEXT:
            return True
        return sum(map(len, self._tables.values())) > _ROWS

    def batch(self) -> tuple[object, ...]:
        rows, lines = {}, {}
        for name, held in self._tables.items():
            if self._as_lines and len(held) > FEW_ROWS:
                lines[name] = (len(held), as_lines(held))
            elif held:
                rows[name] = held.copy()
            held.clear()
        text = self._builder.held_text - self._text_sent
        self._text_sent += text
        batch = (self._contents.copy(), self._made.copy(), rows, lines, text, self._builder.measured.copy())
        self._builder.measured.clear()
        self._contents.clear()
        self._made.clear()
        return batch


def _packed(content: said.Content) -> tuple[object, ...]:
    """What is told of a block or entity: all that is not in its rows' making."""
    if isinstance(content, said.Experiment):
        procedure = content.procedure
        return (said.Experiment.__name__, *content[:6], None if procedure is None else procedure[:2])
    if isinstance(content, said.Line):
        return (said.Line.__name__, *content[:4], content.procedure[:2])
    if isinstance(content, said.Housing):
        return (said.Housing.__name__, *content[:4], content.procedure[:2])
    if isinstance(content, said.Specimen):
        return (said.Specimen.__name__, *content[:2], content.kind.value, *content[3:17])
    return (said.Block.__name__, *content)


def _unpacked(packed: tuple[Any, ...]) -> said.Content:
    name, fields = packed[0], packed[1:]
    if name == said.Experiment.__name__:
        return said.Experiment._make((*fields[:-1], _procedure(fields[-1]), ()))
    if name == said.Line.__name__:
        return said.Line._make((*fields[:-1], _procedure(fields[-1]), ()))
    if name == said.Housing.__name__:
        return said.Housing._make((*fields[:-1], _procedure(fields[-1])))
    if name == said.Specimen.__name__:
        return said.Specimen._make((*fields[:2], said.SpecimenKind(fields[2]), *fields[3:], (), (), (), (), None))
    return said.Block._make(fields)


_NOTHING: Final = ((),) * 7


def _procedure(head: tuple[int, str] | None) -> said.Procedure | None:
    return None if head is None else said.Procedure._make(head + _NOTHING)


def _packed_made(made: EntityRow | TooLong | None) -> tuple[object, ...] | None:
    if isinstance(made, EntityRow):
        return (made.kind.value, made.id, made.values)
    return None if made is None else tuple(made)


def _unpacked_made(packed: tuple[Any, ...] | None) -> EntityRow | TooLong | None:
    if packed is None:
        return None
    if type(packed[2]) is tuple:
        return EntityRow(EntityKind(packed[0]), packed[1], packed[2])
    return TooLong(*packed)


def _pickled(error: Exception) -> bytes:
    """The error for the other process; an InternalFaultError for one that could not be raised there."""
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)  # noqa: S301 - made in the line above
    except Exception:
        told = f"{type(error).__name__}: {error}. Nothing of the document was kept. Report this as a fault."
        return pickle.dumps(InternalFaultError(told))
    return pickled


def _write(file: IO[bytes], message: Any) -> None:
    data = marshal.dumps(message)
    file.write(len(data).to_bytes(_LENGTH_BYTES, "big"))
    file.write(data)
    file.flush()


def _read(file: IO[bytes]) -> Any:
    length = file.read(_LENGTH_BYTES)
    data = file.read(int.from_bytes(length, "big"))
    if len(length) < _LENGTH_BYTES or len(data) < int.from_bytes(length, "big"):
        raise EOFError
    # Of a process that this one started, or that started this one. No cycles come, and looking for them takes long.
    looked_for = gc.isenabled()
    gc.disable()
    try:
        return marshal.loads(data)  # noqa: S302
    finally:
        if looked_for:
            gc.enable()


def _widen(pipe: IO[bytes]) -> None:
    """Let the other process go on for longer while this one is busy."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):
            fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
