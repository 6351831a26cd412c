"""A second look at a document that does not follow its schema: which tag each error belongs to, and where that is.

libxml2 validates and expat gives positions. Both read the document in step: where a chunk is known to hold errors,
libxml2 is fed up to the end of each tag only, so that an error that turns up then belongs to that tag. Lines and
columns are exact for documents of any size, in flat memory.
"""

from __future__ import annotations

import pyexpat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lxml import etree

from dcc_resources.documents.messages import Violation, explain, quoted
from dcc_resources.documents.prolog import LONGEST_TOKEN
from dcc_resources.documents.streaming import Pruned

_IDENTIFYING = ("experimentID", "specimenID", "colonyID", "procedureID", "parameterID", "centreID")
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Located:
    """A schema error; line and column, counted from 1 in characters, are those of the tag that opens its element.

    `context` names the element and those around it by their identifiers, outermost first.
    """

    violation: Violation
    line: int
    column: int
    context: str


@dataclass(frozen=True, slots=True)
class _Open:
    name: str
    attributes: Mapping[str, str]
    line: int
    column: int


class _Tandem:
    """Both parsers, the elements that are open, and the errors found so far."""

    def __init__(self, root_tag: str, schema: etree.XMLSchema) -> None:
        self.found: list[Located] = []
        self._validator = Pruned(root_tag, schema)
        self._chunk = b""
        self._base = 0
        self._fed = 0
        self._count = 0
        self._close_look = False
        self._open: list[_Open] = []
        self._closed: _Open | None = None
        self._expat = pyexpat.ParserCreate(namespace_separator=" ")
        self._expat.StartElementHandler = self._on_start
        self._expat.EndElementHandler = self._on_end

    def take(self, chunk: bytes, close_look: bool) -> None:
        """Read the next chunk; errors are noted only with a close look. Raises both parsers' errors."""
        self._chunk, self._close_look = chunk, close_look
        try:
            self._expat.Parse(chunk, False)
        except pyexpat.ExpatError:
            self._advance(self._expat.ErrorByteIndex)
            raise
        self._advance(self._base + len(chunk))
        self._base += len(chunk)
        self._validator.prune()

    @property
    def stuck(self) -> bool:
        """Whether expat waits for the end of a tag that is longer than any may be."""
        return self._base - max(self._expat.CurrentByteIndex, 0) > LONGEST_TOKEN

    def _on_start(self, name: str, attributes: Mapping[str, str]) -> None:
        expat = self._expat
        if self._close_look:
            self._advance(expat.CurrentByteIndex)
        self._closed = None
        self._open.append(_Open(name, attributes, expat.CurrentLineNumber, expat.CurrentColumnNumber + 1))

    def _on_end(self, _name: str) -> None:
        if self._close_look:
            self._advance(self._expat.CurrentByteIndex)
        self._closed = self._open.pop()

    def _advance(self, place: int) -> None:
        """Have the validator read up to a byte of the document: all that it finds belongs to the tag before it."""
        if place <= self._fed:
            return
        piece = self._chunk[self._fed - self._base : place - self._base]
        self._fed = place
        try:
            count = self._validator.feed(piece)
        except etree.XMLSyntaxError:
            count = self._validator.count_errors()
            raise
        finally:
            if self._close_look:
                self.found.extend(self._locate(entry.message) for entry in self._validator.log[self._count : count])
            self._count = count

    def _locate(self, message: str) -> Located:
        violation = explain(message)
        around = [*self._open, self._closed] if self._closed else self._open
        places = [depth for depth, element in enumerate(around) if element.name.endswith(violation.element)]
        around = around[: places[-1] + 1] if places else around
        return Located(violation, around[-1].line, around[-1].column, _context(around))


def _context(elements: Sequence[_Open]) -> str:
    """The innermost elements that have an identifier: 'experiment "e1", simpleParameter "IMPC_CBC_004_001"'."""
    named = []
    for element in elements:
        identifier = next((element.attributes[name] for name in _IDENTIFYING if name in element.attributes), None)
        if identifier is not None:
            named.append(f"{element.name.rpartition(' ')[2]} {quoted(identifier)}")
    return ", ".join(named[-_MOST_NAMED:])


def locate_errors(
    chunks: Iterable[bytes], root_tag: str, schema: etree.XMLSchema, errors_in_chunk: Mapping[int, int]
) -> list[Located]:
    """Find each schema error's place. `errors_in_chunk` says how many arose in which chunk when it was streamed.

    The result is in document order, one for each value that is wrong. It lacks errors beyond a place where the
    document is not well-formed, and those of chunks not mentioned.
    """
    tandem = _Tandem(root_tag, schema)
    last = max(errors_in_chunk, default=-1)
    try:
        for number, chunk in enumerate(chunks):
            if number > last or tandem.stuck:
                break
            tandem.take(chunk, number in errors_in_chunk)
    except (pyexpat.ExpatError, etree.XMLSyntaxError):
        pass  # The caller finds out for itself where the document stops being well-formed, and reports that.
    return _merged(tandem.found)


def _merged(found: Sequence[Located]) -> list[Located]:
    """One error for each wrong value, in document order: libxml2 names a facet and a type, or content and its value."""
    kept: dict[object, Located] = {}
    blamed = {(error.line, error.column) for error in found if not error.violation.about_value}
    for number, error in enumerate(found):
        place, violation = (error.line, error.column), error.violation
        if not violation.about_value:
            kept[number] = error
        elif violation.attribute is not None or place not in blamed:
            kept.setdefault((place, violation.attribute), error)
    return sorted(kept.values(), key=lambda error: (error.line, error.column))
