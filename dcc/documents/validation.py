"""Validates a document: well-formed, of the kind in its name, and following its schema.

Nearly all documents are valid, which is decided in one cheap pass: as a complete tree for a small document, as a stream
in constant memory for any other. Only an invalid document is read again, for the place of every error, in constant
memory too: libxml2 validates and expat gives positions. Both read it in step: libxml2 gets a chunk with errors only up
to the end of each tag or text, so that a new error belongs to that.

libxml2 ignores everything after an element that is not permitted, up to the end of its parent. So the document is read
again with these elements hidden, until there is no new error or it has been read often enough.
"""

from __future__ import annotations

import os
import pyexpat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lxml import etree

from dcc.documents.prolog import (
    LONGEST_TAG,
    LONGEST_TOKEN,
    Doctype,
    Root,
    TagTooLongError,
    UnreadableProlog,
    read_prolog,
    with_short_tags,
)
from dcc.documents.schema_set import SchemaSet
from dcc.documents.streaming import CHUNK, PruningParser, StreamedErrors, TooLongError, stream
from dcc.documents.violations import INCOMPLETE, UNEXPECTED, UNPLACED, VALUE, Tag, Violation, quoted, violations_at
from dcc.documents.well_formedness import Chunks, document_problem, fault_for, find_fault, place_of
from dcc.errors import ForbiddenMarkupError, NotWellFormedError, SchemaViolationError, WrongDocumentKindError
from dcc.messages import Message, mark, message
from dcc.naming import DocumentKind
from dcc.outcomes import Problem

if TYPE_CHECKING:
    from dcc.documents.schema_model import SchemaModel

_IDENTIFYING = ("experimentID", "specimenID", "colonyID", "procedureID", "parameterID", "centreID")
_ANIMALS = ("mouse", "embryo")
_OF_ANIMALS = ("specimenID",)
"""An animal without an identifier is not called by that of its colony."""
_MAX_NAMED = 3

Span = tuple[int, int]
"""A part of a document: its first byte, and the byte after its last one."""

Model = Callable[[], "SchemaModel | None"]
"""Returns the model of a schema; None if it cannot be read."""


@dataclass(frozen=True, slots=True)
class LocatedViolation:
    """A schema error; line and column, counted from 1 in characters, are those of its element's opening tag.

    `context` names the element and those around it by their identifiers, outermost first. `parent` is the place of the
    opening tag of the element around it.
    """

    violation: Violation
    line: int
    column: int
    context: str
    parent: tuple[int, int] | None


class _Open(NamedTuple):
    """An open element: its byte, line (from 1) and column (from 0)."""

    start: int
    name: str
    attributes: Mapping[str, str]
    line: int
    column: int

    @property
    def place(self) -> tuple[int, int]:
        """Line and column, both counted from 1."""
        return self.line, self.column + 1


class _Tandem:
    """Both parsers, the open elements, and the errors found so far."""

    def __init__(
        self, root_tag: str, schema: etree.XMLSchema, model: Model, hidden: Sequence[Span], limit: int
    ) -> None:
        self.found: list[LocatedViolation] = []
        self._limit = limit
        self.unexpected: list[Span] = []
        self._awaited: set[int] = set()
        self._ended: int | None = None
        self._hidden = hidden
        self._model = model
        self._validator = PruningParser(root_tag, schema, remember=True)
        self._chunk = b""
        self._base = 0
        self._fed = 0
        self._count = 0
        self._close_look = False
        self._open: list[_Open] = []
        self._closed: _Open | None = None
        self._in_text = False
        self._expat = pyexpat.ParserCreate(namespace_separator=" ")
        self._expat.StartElementHandler = self._on_start
        self._expat.EndElementHandler = self._on_end
        self._expat.CharacterDataHandler = self._on_text

    def read(self, chunks: Iterable[bytes], errors_in_chunk: Mapping[int, int]) -> None:
        """Read a document; `errors_in_chunk` has the number of errors in each chunk when it was streamed.

        Errors after a place where it is not well-formed, and those of chunks not mentioned, are not found.
        """
        last = max(errors_in_chunk, default=-1)
        try:
            for number, chunk in enumerate(chunks):
                # No longer, where expat waits for the end of a tag that is longer than allowed.
                is_stuck = self._base - max(self._expat.CurrentByteIndex, 0) > LONGEST_TOKEN
                if (number > last and not (self._awaited or self._ended is not None)) or is_stuck:
                    break
                self._take(chunk, close_look=number in errors_in_chunk)
        except (pyexpat.ExpatError, etree.XMLSyntaxError, TooLongError):
            pass  # The caller finds out for itself where the document stops being well-formed, and reports that.

    def _take(self, chunk: bytes, *, close_look: bool) -> None:
        """Read the next chunk; errors are recorded only with a close look. Raises both parsers' errors."""
        self._chunk, self._close_look = hide(chunk, self._base, self._hidden), close_look
        try:
            self._expat.Parse(chunk, False)
        except pyexpat.ExpatError:
            self._advance(self._expat.ErrorByteIndex)
            raise
        self._advance(self._base + len(chunk))
        self._base += len(chunk)
        self._validator.prune()

    def _on_start(self, name: str, attributes: Mapping[str, str]) -> None:
        place = self._expat.CurrentByteIndex
        self._reach(place)
        self._closed, self._in_text = None, False
        line, column = self._expat.CurrentLineNumber, self._expat.CurrentColumnNumber
        self._open.append(_Open(place, name, attributes, line, column))

    def _on_end(self, _name: str) -> None:
        self._reach(self._expat.CurrentByteIndex)
        self._closed, self._in_text = self._open.pop(), False
        if self._closed.start in self._awaited:
            self._awaited.remove(self._closed.start)
            self._ended = self._closed.start

    def _on_text(self, text: str) -> None:
        # libxml2 reports a short text with the next tag, others (long ones, references, CDATA sections) at once.
        if not self._in_text and not text.isspace():
            self._reach(self._expat.CurrentByteIndex)
            self._closed, self._in_text = None, True

    def _reach(self, place: int) -> None:
        if self._close_look:
            self._advance(place)
        if self._ended is not None:
            self.unexpected.append((self._ended, place))
            self._ended = None

    def _advance(self, place: int) -> None:
        """Feed the validator up to a byte of the document: all of its errors belong to the tag or text before it."""
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
            # Each look at an error goes through the elements before it: thousands of errors would take minutes.
            if self._close_look and count > self._count and len(self.found) < self._limit:
                self.found += map(self._locate, self._violations(piece, self._validator.log[self._count : count]))
            self._count = count

    def _violations(self, piece: bytes, entries: Sequence[etree._LogEntry]) -> list[Violation]:
        """The violations of errors that arose while libxml2 read a piece: a tag, or text of the innermost element."""
        begins = self._closed is None and not self._in_text
        element = self._validator.newest(len(self._open) - (self._closed is None))
        if element is None:
            return []
        ends = self._closed is not None or (begins and piece.replace(b"\0", b"").endswith(b"/>"))
        return violations_at(Tag(element, begins, ends, self._validator, self._model()), entries)

    def _locate(self, violation: Violation) -> LocatedViolation:
        around = [*self._open, self._closed] if self._closed else self._open
        around = around[:-1] if violation.of_parent and len(around) > 1 else around
        element, parent = around[-1], around[-2] if len(around) > 1 else None
        if violation.case in UNEXPECTED:
            if element is self._closed:
                self._ended = element.start
            else:
                self._awaited.add(element.start)
        return LocatedViolation(violation, *element.place, _context(around), parent.place if parent else None)


def _context(elements: Sequence[_Open]) -> str:
    """The innermost elements that have an identifier: 'experiment "e1", simpleParameter "IMPC_CBC_004_001"'."""
    named = []
    for element in elements:
        kind = element.name.rpartition(" ")[2]
        names = _OF_ANIMALS if kind in _ANIMALS else _IDENTIFYING
        identifier = next((element.attributes[name] for name in names if name in element.attributes), None)
        if identifier is not None:
            named.append(f"{kind} {quoted(identifier)}")
    return ", ".join(named[-_MAX_NAMED:])


def hide(chunk: bytes, base: int, hidden: Sequence[Span]) -> bytes:
    """The chunk, which begins at the document's byte `base`, with spaces instead of its hidden parts."""
    for start, end in hidden:
        first, last = max(start - base, 0), min(end - base, len(chunk))
        if first < last:
            chunk = chunk[:first] + b" " * (last - first) + chunk[last:]
    return chunk


_LONGEST_HIDDEN = 1_000_000
_UTF_16 = (b"\xff\xfe", b"\xfe\xff", b"\0<", b"<\0")


def find_schema_errors(
    chunks: Chunks,
    root_tag: str,
    schema: etree.XMLSchema,
    model: Model,
    streamed: StreamedErrors,
    *,
    enough: int,
    readings: int,
) -> list[LocatedViolation]:
    """Every schema error in document order, one for each wrong value; not many more than `enough`.

    `model` returns the schema's declarations. `streamed` is the result of a first reading. The document is read up to
    `readings` times more.
    """
    hidden: list[Span] = []
    unexpected: list[LocatedViolation] = []
    while True:
        # libxml2 may report a value twice.
        tandem = _Tandem(root_tag, schema, model, hidden, 2 * enough)
        tandem.read(chunks(), streamed.errors_in_chunk)
        errors = [*unexpected, *tandem.found]
        further = [span for span in tandem.unexpected if span[1] - span[0] <= _LONGEST_HIDDEN]
        if not further or not readings or len(errors) >= enough or next(chunks(), b"").startswith(_UTF_16):
            return _merged(errors)
        hidden = sorted([*hidden, *further])
        unexpected += [error for error in tandem.found if error.violation.case in UNEXPECTED]
        readings -= 1
        streamed = stream(_hiding(chunks(), hidden), root_tag, schema, enough)


def _hiding(chunks: Iterator[bytes], hidden: Sequence[Span]) -> Iterator[bytes]:
    base = 0
    for chunk in chunks:
        yield hide(chunk, base, hidden)
        base += len(chunk)


def _merged(found: Sequence[LocatedViolation]) -> list[LocatedViolation]:
    """The distinct errors, in document order.

    libxml2 may report a value twice, for a facet and for its type, and a missing value for an element that contains
    others. An element with a child that is not permitted may lack another only because that child is misspelt.
    """
    kept: dict[object, LocatedViolation] = {}
    explained = {error.parent for error in found if error.violation.case in UNEXPECTED}
    blamed = {(error.line, error.column) for error in found if error.violation.case in UNPLACED}
    for error in found:
        place, violation = (error.line, error.column), error.violation
        if violation.case == VALUE and violation.attribute is None and place in blamed:
            continue
        if violation.case == INCOMPLETE and place in explained:
            continue
        about = VALUE if violation.case == VALUE else violation.message
        kept.setdefault((place, violation.attribute, about), error)
    return sorted(kept.values(), key=lambda error: (error.line, error.column))


_FINISHED_TREE_BYTES = 128 * 1024
_READINGS_IN_MEMORY = 10
_READINGS_OF_FILE = 4

_own = threading.local()


def validate_document(
    path: Path, kind: DocumentKind | None, schemas: SchemaSet, *, max_errors: int, max_tree_bytes: int
) -> list[Problem]:
    """The problems of the document at `path`, in document order; none if it is valid.

    At most `max_errors` problems, each of the kind of a DocumentError; the last one says if there are more. A document
    of more than `max_tree_bytes` is never completely in memory. Without a `kind`, the root element decides, and a
    difference of kinds is no problem. Raises OSError if the file cannot be read.
    """
    content = _read_if_small(path, max_tree_bytes)
    unbounded: Chunks = partial(_pieces, path) if content is None else partial(_slices, content)
    try:
        return _problems_of(content, lambda: with_short_tags(unbounded()), path, kind, schemas, max_errors)
    except TagTooLongError as error:
        text = message(
            mark("A single tag is longer than {number} bytes, which is refused. Export the document again."),
            number=LONGEST_TAG,
        )
        return [document_problem(NotWellFormedError, text, *place_of(unbounded(), error.start))]


def _problems_of(
    content: bytes | None, chunks: Chunks, path: Path, kind: DocumentKind | None, schemas: SchemaSet, max_errors: int
) -> list[Problem]:
    """The problems of a document given in chunks, and as `content` where that is in memory. Raises TagTooLongError."""
    root = read_prolog(chunks())
    if not isinstance(root, Root):
        return [_prolog_problem(root, chunks, path)]
    tag = f"{{{root.namespace}}}{root.name}" if root.namespace else root.name
    actual = schemas.kind_of(root.namespace, root.name)
    if actual is None or kind not in {actual, None}:
        return [_wrong_kind(root, actual, kind, schemas)]
    schema = schemas.schema(actual)
    small = content if content is not None and len(content) <= _FINISHED_TREE_BYTES else None
    if small is not None and _is_valid_tree(small, schema):
        return []
    streamed = stream(chunks(), tag, schema, max_errors + 1)
    if streamed.valid and small is None:
        return []
    readings = _READINGS_IN_MEMORY if content is not None else _READINGS_OF_FILE
    errors = find_schema_errors(
        chunks, tag, schema, partial(schemas.model, actual), streamed, enough=max_errors + 1, readings=readings
    )
    problems = _problems(errors, find_fault(chunks, tag), max_errors, complete=not streamed.stopped)
    text = message(mark("The document does not follow its schema."))
    return problems or [document_problem(SchemaViolationError, text)]


def _read_if_small(path: Path, max_tree_bytes: int) -> bytes | None:
    with path.open("rb", buffering=0) as document:
        return document.readall() if os.fstat(document.fileno()).st_size <= max_tree_bytes else None


def _slices(content: bytes) -> Iterator[bytes]:
    return (content[place : place + CHUNK] for place in range(0, len(content), CHUNK))


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while piece := file.read(CHUNK):
            yield piece


def _is_valid_tree(content: bytes, schema: etree.XMLSchema) -> bool:
    """The fastest way for a valid document; its time grows with the square of the number of errors."""
    parser: etree.XMLParser | None = getattr(_own, "parser", None)
    if parser is None:
        parser = _own.parser = etree.XMLParser(
            no_network=True, resolve_entities=False, load_dtd=False, collect_ids=False
        )
    try:
        return schema.validate(etree.fromstring(content, parser))
    except etree.XMLSyntaxError:
        return False


def _prolog_problem(found: Doctype | UnreadableProlog, chunks: Chunks, path: Path) -> Problem:
    if isinstance(found, Doctype):
        refused = mark(
            "The document has a document type declaration (<!DOCTYPE), which is refused because it can hide the "
            "reading of other files. Remove it."
        )
        return document_problem(ForbiddenMarkupError, message(refused), found.line, found.column)
    if path.stat().st_size == 0:
        text = message(mark("The file is empty. Export the document again."))
        return document_problem(NotWellFormedError, text, case="empty")
    if found.encoding is not None:
        unsupported = mark("The encoding {encoding} is not supported. Save the document as UTF-8.")
        text = message(unsupported, encoding=found.encoding)
        return document_problem(NotWellFormedError, text, found.line, found.column, "encoding")
    return find_fault(chunks, "*") or fault_for(found.reason, found.line, found.column)


def _wrong_kind(root: Root, actual: DocumentKind | None, kind: DocumentKind | None, schemas: SchemaSet) -> Problem:
    wanted = [kind] if kind else list(DocumentKind)
    roots = sorted(expected for one in wanted for expected in schemas.roots[one])
    expected = [_rooted(name, namespace) for namespace, name in roots]
    details: dict[str, Any] = {
        "root": _rooted(root.name, root.namespace),
        "expected": expected[0]
        if len(expected) == 1
        else message(mark("{rooted} or {other_rooted}"), rooted=expected[0], other_rooted=expected[1]),
        "kind": str(kind or ""),
        "actual": str(actual or ""),
    }
    text = mark("The root element is {root}; documents have {expected}.")
    if kind and actual:
        text = mark(
            "The root element is {root}; {kind} documents have {expected}. Its content is that of {actual} documents: "
            "name it so."
        )
    elif kind:
        text = mark("The root element is {root}; {kind} documents have {expected}.")
    return document_problem(WrongDocumentKindError, Message(text, details), root.line, root.column)


def _rooted(name: str, namespace: str) -> Message:
    if not namespace:
        return message(mark("<{root}> in no namespace"), root=name)
    return message(mark("<{root}> in the namespace {namespace}"), root=name, namespace=namespace)


def _problems(
    errors: Sequence[LocatedViolation], fault: Problem | None, max_errors: int, *, complete: bool
) -> list[Problem]:
    """The problems to report, at most `max_errors`; `complete`: `errors` are all that there are."""
    found = [
        document_problem(SchemaViolationError, _in_context(error), error.line, error.column, error.violation.case)
        for error in errors
    ]
    if fault is not None:
        found.append(fault)
    if len(found) <= max_errors and complete:
        return found
    listed = found[:max_errors] if fault is None else [*found[: max_errors - 1], found[-1]]
    last = listed[-1]
    more = mark("{problem} (Only {number} of the errors are listed.)")
    listed[-1] = replace(last, translatable=Message(more, {"problem": last.fact, "number": len(listed)}))
    return listed


def _in_context(error: LocatedViolation) -> Message:
    text = error.violation.message
    details = {"problem": text, "context": error.context}
    return Message(mark("{problem} In {context}."), details) if error.context else text
