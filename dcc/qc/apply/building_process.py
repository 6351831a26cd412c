"""Large documents read, and their rows built, by a process of their own while this one writes to the database.

`read_for_upload` yields what a document says, as `read_document` does. Whoever takes the first block may ask, by
`BuiltBlock.building`, for the rest to come with its rows built: entities then come without what is in them, and `made`
tells what `RowBuilder.add_entity` said of each. Without that, the rest comes whole, read by this process.

The other process loads no SQLAlchemy. It ends with its document, and when this one goes (`helper_process`).
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from dcc.documents import contents as said
from dcc.documents.reading import read_document
from dcc.naming import DocumentKind
from dcc.qc.rows.building import NUMBERED, EntityRow, RowBuilder
from dcc.qc.rows.lines import FEW_ROWS, as_lines
from dcc.qc.rows.types import Limits, Row, TooLong
from dcc.runtime.helper_process import Helper, Out, ended_early, read_message, serve, write_message
from dcc.vocabulary import EntityKind

LARGE: Final = 2_000_000
"""Bytes of a document from which on a process of its own is worth its start."""

_ROWS: Final = 8_000
_ENTITIES: Final = 1_000
_TEXT: Final = 2_000_000
_LOOK_EVERY: Final = 16


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

    building: Built


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


class Built:
    """What another process has built of the document that is read here: entities, and their rows in batches."""

    def __init__(self) -> None:
        self._made: deque[EntityRow | TooLong | None] = deque()
        self._batch = _NO_ROWS

    def begin(self, order: Order) -> None:
        """Have rows come built from the first block on. Only before the next content is taken."""
        raise NotImplementedError

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

    def take_batch(self, message: Any) -> list[said.Content]:
        """Take a batch as it came; the contents in it, but for what is in them."""
        contents, made, *batch = message
        self._made.extend(map(_unpacked_made, made))
        self._batch = Batch(*batch)
        return list(map(_unpacked, contents))

    def forget(self) -> None:
        """Forget what has come and was not handed over."""
        self._made.clear()
        self._batch = _NO_ROWS


class Building(Built):
    """The process that builds one document's rows, as this process sees it."""

    def __init__(self, path: Path, kind: DocumentKind) -> None:
        super().__init__()
        self._path, self._kind = path, kind
        self._began = False
        self._helper = Helper(__name__)
        self._process = self._helper.process
        self._helper.send((os.fspath(path), kind.value))

    def begin(self, order: Order) -> None:
        """Have rows come built from the first block on. Only before the next content is taken."""
        self._began = True
        self._helper.send(tuple(order))
        self.take_batch(self._receive())

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
            yield from self.take_batch(message)

    def close(self) -> None:
        """End the process, whatever it does."""
        self._helper.close()

    def _receive(self) -> Any:
        """The next message; None at the end. Raises what the process did."""
        try:
            return self._helper.receive()
        except EOFError as error:
            raise ended_early(self._path.name, self._process.wait()) from error


def main() -> None:
    """Read the document that standard input names, and write its rows to standard output."""
    serve(_serve)


def _serve(given: IO[bytes], out: Out) -> None:
    path, kind = read_message(given)
    contents = read_document(Path(path), DocumentKind(kind))
    first = next(contents, None)
    if first is None:
        write_message(out, ("end", None))
        return
    write_message(out, ("block", tuple(first)))
    work = Work(Order(*read_message(given)))
    work.take(first)
    write_message(out, ("batch", work.batch()))
    write_batches(out, work, contents)


def write_batches(out: Out, work: Work, contents: Iterable[said.Content]) -> None:
    """Have the rows of contents built, and write them."""
    for number, content in enumerate(contents):
        work.take(content)
        if number % _LOOK_EVERY == 0 and work.is_enough():
            write_message(out, ("batch", work.batch()))
    write_message(out, ("batch", work.batch()))
    write_message(out, ("end", None))


class Work:
    """Rows of a document that were built and not sent yet."""

    def __init__(self, order: Order) -> None:
        self._as_lines = order.as_lines
        self._tables: dict[str, list[Row]] = {name: [] for name in order.limits}
        self._ids = {name: itertools.count(order.next_ids[name]) for name in NUMBERED}
        new_ids = {name: ids.__next__ for name, ids in self._ids.items()}
        self._builder = RowBuilder(order.document_id, new_ids, self._tables, order.limits)
        self._contents: list[tuple[object, ...]] = []
        self._made: list[tuple[object, ...] | None] = []
        self._text_sent = 0
        self._usable = False

    def next_ids(self) -> dict[str, int]:
        """The ids that the rows of another document may have; at the end of this one."""
        return {name: next(ids) for name, ids in self._ids.items()}

    def take(self, content: said.Content) -> None:
        """Take what comes next in the document."""
        self._contents.append(_packed(content))
        if isinstance(content, said.Block):
            excess = self._builder.add_block(content)
            self._usable = excess is None
            self._made.append(_packed_made(excess))
        elif self._usable:
            self._made.append(_packed_made(self._builder.add_entity(content)))

    def is_enough(self) -> bool:
        """Whether so much is held that it should be sent."""
        if len(self._contents) >= _ENTITIES or self._builder.held_text - self._text_sent > _TEXT:
            return True
        return sum(map(len, self._tables.values())) > _ROWS

    def batch(self) -> tuple[object, ...]:
        """What is held, for `Built.take_batch`; nothing is afterwards."""
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
