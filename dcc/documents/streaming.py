"""Validates a document as a stream, in memory that does not grow with the document.

libxml2 validates while it parses; the tree that lxml builds is pruned after each chunk. The behaviour of lxml 6.1 was
found by experiment and is held by tests. Schema errors do not stop the parser, they gather in its log without line
numbers. An error of well-formedness stops it, and is in the exception only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby

from lxml import etree

CHUNK = 64 * 1024
LONGEST_WITHOUT_ELEMENT = 20_000_000
"""The most bytes without another element: libxml2 would hold an endless tag or comment of any length."""
LONGEST_ENTITY = 100_000_000
"""The most bytes of an experiment, specimen, line or housing: each is read as a whole, in ten times its bytes."""
_ENTITY_DEPTH = 2
MAX_RUNS = 10_000
"""How many runs of removed children are remembered for an element."""

Runs = tuple[tuple[str, int], ...]
"""Elements in their order: a name, and the number of consecutive ones."""


class TooLongError(Exception):
    """Too many bytes without another element or, if `entity` has its name, in one entity.

    `since` is about the byte at which they begin.
    """

    def __init__(self, since: int, entity: str = "") -> None:
        super().__init__(since, entity)
        self.since, self.entity = since, entity


@dataclass
class StreamedErrors:
    """The result of streaming: the number of schema errors, and that in each chunk, counted from 0.

    `broken`: the parser refused the document, for these errors or for being not well-formed. `stopped`: enough errors
    were found before the end.
    """

    errors_in_chunk: dict[int, int] = field(default_factory=dict)
    errors: int = 0
    broken: bool = False
    stopped: bool = False

    def note(self, number: int, errors: int) -> None:
        """Record the number of errors so far, after chunk `number`."""
        if errors > self.errors:
            self.errors_in_chunk[number] = self.errors_in_chunk.get(number, 0) + errors - self.errors
            self.errors = errors

    @property
    def valid(self) -> bool:
        """Whether the document is well-formed and follows the schema."""
        return not self.errors and not self.broken


class PruningParser:
    """A pull parser, validating if a schema is given, that keeps next to nothing of the tree it builds.

    With `remember`, it keeps the names of removed children while their parent is open.
    """

    def __init__(self, root_tag: str, schema: etree.XMLSchema | None, *, remember: bool = False) -> None:
        # resolve_entities must keep its default: False makes a validating stream accept truncated documents.
        self._parser = etree.XMLPullParser(
            events=("start",), tag=root_tag, schema=schema, no_network=True, remove_comments=True, remove_pis=True
        )
        self._root: etree._Element | None = None
        self._newest: etree._Element | None = None
        self._bytes = 0
        self._newest_bytes = 0
        self._entity: etree._Element | None = None
        self._entity_bytes = 0
        self._gone: dict[etree._Element, Runs] | None = {} if remember else None
        self.log: etree._ListErrorLog = self._parser.feed_error_log

    def feed(self, data: bytes) -> int:
        """Parse a piece and return the number of schema errors so far. Raises lxml's XMLSyntaxError."""
        self._parser.feed(data)
        self._bytes += len(data)
        return self.count_errors()

    def count_errors(self) -> int:
        """The number of schema errors so far; `log` holds them."""
        self.log = self._parser.feed_error_log
        return len(self.log)

    def prune(self) -> None:
        """Remove every closed element. Raises TooLongError for a tag, text or entity that does not end for too long."""
        element, depth = self._find_root(), 0
        gone = {}
        while element is not None and len(element):
            if self._gone is not None:
                gone[element] = self.children(element, but_last=True)
            del element[:-1]
            element, depth = element[-1], depth + 1
            if depth == _ENTITY_DEPTH and element is not self._entity:
                self._entity, self._entity_bytes = element, self._bytes
        if self._gone is not None:
            self._gone = gone
        if element is not self._newest:
            self._newest, self._newest_bytes = element, self._bytes
        elif self._bytes - self._newest_bytes > LONGEST_WITHOUT_ELEMENT:
            raise TooLongError(self._newest_bytes)
        if self._entity is not None and depth >= _ENTITY_DEPTH and self._bytes - self._entity_bytes > LONGEST_ENTITY:
            raise TooLongError(self._entity_bytes, etree.QName(self._entity).localname)

    def newest(self, depth: int) -> etree._Element | None:
        """The newest element at a depth, 0 for the root."""
        element = self._find_root()
        for _ in range(depth):
            element = None if element is None or not len(element) else element[-1]
        return element

    def children(self, element: etree._Element, *, but_last: bool = False) -> Runs:
        """The children so far of an element that is open or closed last; only the first if they are too many."""
        elements = list(element)
        known = (self._gone or {}).get(element, ())
        names = (str(child.tag) for child in (elements[:-1] if but_last else elements))
        return (*known, *((name, sum(1 for _ in same)) for name, same in groupby(names)))[:MAX_RUNS]

    def _find_root(self) -> etree._Element | None:
        for _, element in self._parser.read_events():
            if self._root is None and isinstance(element, etree._Element):
                self._root = element
        return self._root

    def close(self) -> None:
        """End the document. Raises lxml's XMLSyntaxError if it is incomplete or invalid."""
        self._parser.close()


def stream(chunks: Iterable[bytes], root_tag: str, schema: etree.XMLSchema, enough: int) -> StreamedErrors:
    """Validate a document given in chunks; stop once `enough` schema errors are found."""
    result = StreamedErrors()
    parser = PruningParser(root_tag, schema)
    number = 0
    try:
        for number, chunk in enumerate(chunks):
            result.note(number, parser.feed(chunk))
            if result.errors >= enough:
                result.stopped = True
                return result
            parser.prune()
        parser.close()
    except (etree.XMLSyntaxError, TooLongError):
        result.broken = True
        result.note(number, parser.count_errors())
    return result
