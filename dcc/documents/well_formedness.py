"""Where and why a document is not well-formed XML, in words that a centre understands.

The reason is the code of libxml2's error; names and places are read in the document, where expat stopped.
"""

from __future__ import annotations

import pyexpat
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from lxml import etree

from dcc.declarations import code_of
from dcc.documents.prolog import LONGEST_TOKEN
from dcc.documents.streaming import LONGEST_ENTITY, PruningParser, TooLongError
from dcc.documents.violations import quoted, shortened
from dcc.errors import DocumentError, NotWellFormedError
from dcc.messages import Details, Message, mark, message
from dcc.outcomes import Problem

Chunks = Callable[[], Iterator[bytes]]
"""Returns the document's chunks from the beginning, at each call."""

_CUT_OFF = mark("The document ends in the middle: it was cut off, or end tags are missing. Export it again.")
_OTHER_ENCODING = mark("The encoding that the XML declaration names is not the file's. Save the document as UTF-8.")
_TOO_LONG = mark("A single text, tag, comment or name is longer than 10,000,000 bytes, which is refused.")
_LONG_ENTITY = mark(
    "A single <{element}> is longer than {number} bytes, which is refused. Check what it repeats, and export the "
    "document again."
)
_DEEPEST = 256
_NAME = re.compile(r"[^\s<>/=\"'&;]+")
_ENTITY = re.compile(r"&([^\s;<&#]+);")
_PREFIX = re.compile(r"(?:<|\s)([^\s<>/=\"'&:]+):[^\s<>/=]+")
_OWN_ENTITIES = {"amp", "lt", "gt", "quot", "apos"}
_LONGEST_LOOK = 2_000
_LONGEST_WORDS = 300
_WRONG_ENCODING = "encoding specified in XML declaration is incorrect"
_UNFINISHED = {"no element found", "unclosed token", "unclosed CDATA section", "partial character"}


def document_problem(
    kind: type[DocumentError], text: Message, line: int = 1, column: int = 1, case: str = ""
) -> Problem:
    """The problem of a kind of error at a place of a document; `case` is which of its declarations it is."""
    return Problem(kind.short_name(), text, line, column, code_of(kind.error_id(), case))


def find_fault(chunks: Chunks, root_tag: str) -> Problem | None:
    """The first place where the document is not well-formed, or exceeds a parser's limits; None if there is none.

    Reads the document in constant memory, whatever its size.
    """
    try:
        error = _parser_fault(chunks(), root_tag)
    except TooLongError as stuck:
        text = message(_TOO_LONG)
        if stuck.entity:
            text = message(_LONG_ENTITY, element=stuck.entity, number=LONGEST_ENTITY)
        return document_problem(NotWellFormedError, text, *place_of(chunks(), stuck.since))
    if error is None:
        return None
    code, words, line, column = error
    stop = _stop(chunks())
    cut_off = stop.reason in _UNFINISHED and code != "ERR_DOCUMENT_EMPTY"
    text = message(_CUT_OFF) if cut_off else _explained(code, words, stop)
    case = _ENCODING if code in _OF_ENCODINGS and not cut_off else ""
    if stop.reason == _WRONG_ENCODING:
        case, text = _ENCODING, message(_OTHER_ENCODING)
    if stop.place is not None and code != "ERR_RESOURCE_LIMIT":
        line, column = stop.place
    return document_problem(NotWellFormedError, text, max(line, 1), max(column, 1), case)


def fault_for(reason: str, line: int, column: int) -> Problem:
    """The fault at which expat stopped, where libxml2 finds none."""
    if reason == _WRONG_ENCODING:
        return document_problem(NotWellFormedError, message(_OTHER_ENCODING), line, column, _ENCODING)
    unread = message(mark("The document cannot be read: {reason}."), reason=Message(reason))
    return document_problem(NotWellFormedError, unread, line, column)


class _ParserFault(NamedTuple):
    """A fault as libxml2 reports it: its kind, such as ERR_TAG_NAME_MISMATCH or empty, the words, and the place."""

    code: str
    words: str
    line: int
    column: int


def _parser_fault(chunks: Iterable[bytes], root_tag: str) -> _ParserFault | None:
    parser = PruningParser(root_tag, None)
    try:
        for chunk in chunks:
            parser.feed(chunk)
            parser.prune()
        parser.close()
    except etree.XMLSyntaxError as error:
        parser.count_errors()
        for entry in parser.log:
            if entry.level >= etree.ErrorLevels.ERROR:
                return _ParserFault(entry.type_name, entry.message, entry.line, entry.column)
        line, column = error.position
        return _ParserFault("", error.msg or "", line or 1, column or 1)
    return None


@dataclass
class _Stop:
    """Where expat stopped: the reason, the place of the faulty tag or character, and the text there.

    `open` are the names and lines of the elements around it, `prefixes` those declared before it, `deepest` is the
    largest number of elements open at once.
    """

    reason: str = ""
    place: tuple[int, int] | None = None
    text: str = ""
    open: list[tuple[str, int]] = field(default_factory=list)
    prefixes: set[str | None] = field(default_factory=set)
    deepest: int = 0


def _stop(chunks: Iterable[bytes]) -> _Stop:
    """Where expat stops, at the fault itself rather than at what follows it."""
    parser = pyexpat.ParserCreate(namespace_separator=" ")
    stop = _Stop()

    def on_start(name: str, _attributes: object) -> None:
        stop.open.append((name.rpartition(" ")[2], parser.CurrentLineNumber))
        stop.deepest = max(stop.deepest, len(stop.open))

    parser.StartElementHandler = on_start
    parser.EndElementHandler = lambda _name: stop.open.pop()
    parser.StartNamespaceDeclHandler = lambda prefix, _uri: stop.prefixes.add(prefix)
    fed, before, chunk = 0, b"", b""
    try:
        for following in chunks:
            before, chunk = chunk, following
            fed += len(chunk)
            parser.Parse(chunk, False)
            if fed - max(parser.CurrentByteIndex, 0) > LONGEST_TOKEN:
                return stop
        parser.Parse(b"", True)
    except pyexpat.ExpatError as error:
        stop.reason = pyexpat.ErrorString(error.code) or ""
        stop.place = error.lineno, error.offset + 1
        near = before + chunk
        first = max(parser.ErrorByteIndex - (fed - len(near)), 0)
        stop.text = near[first : first + _LONGEST_LOOK].decode("utf-8", "replace")
    finally:
        # The parser and its handlers refer to each other.
        parser.StartElementHandler = parser.EndElementHandler = parser.StartNamespaceDeclHandler = None
    return stop


def place_of(chunks: Iterable[bytes], byte: int) -> tuple[int, int]:
    """Line and column, counted from 1, of a byte of the document."""
    parser = pyexpat.ParserCreate(namespace_separator=" ")
    try:
        for chunk in chunks:
            parser.Parse(chunk, False)
            byte -= len(chunk)
            if byte <= 0:
                break
    except pyexpat.ExpatError as error:
        return error.lineno, error.offset + 1
    return parser.CurrentLineNumber, parser.CurrentColumnNumber + 1


def _explained(code: str, words: str, stop: _Stop) -> Message:
    """The fault for libxml2's code; the parser's own words only for an unknown code."""
    if code == "ERR_RESOURCE_LIMIT" and stop.deepest > _DEEPEST:
        return message(mark("Elements are nested more than 256 deep, which no document of the exchange format is."))
    if code in _OF_THE_TEXT:
        text, details_at = _OF_THE_TEXT[code]
        details = details_at(stop)
        if details is not None:
            return Message(text, details)
    if code in _FIXED:
        return message(_FIXED[code])
    shown = shortened(words.strip(), _LONGEST_WORDS)
    return message(
        mark("The document is not well-formed XML: {message}."),
        message=quoted(shown)[1:-1] if shown.isprintable() else quoted(shown),
    )


def _mismatch(stop: _Stop) -> Details | None:
    closed = _NAME.match(stop.text)
    if stop.reason != "mismatched tag" or closed is None or not stop.open:
        return None
    element, line = stop.open[-1]
    return {"element": element, "line": str(line), "closed": closed[0]}


def _entity(stop: _Stop) -> Details | None:
    tag = stop.text.partition(">")[0]
    found = [name for name in _ENTITY.findall(tag) if name not in _OWN_ENTITIES]
    return {"entity_name": found[0]} if stop.reason == "undefined entity" and found else None


def _attribute(stop: _Stop) -> Details | None:
    name = _NAME.match(stop.text)
    return {"attribute": name[0]} if stop.reason == "duplicate attribute" and name else None


def _prefix(stop: _Stop) -> Details | None:
    known = {"xml", "xmlns", *stop.prefixes}
    found = [name for name in _PREFIX.findall(stop.text.partition(">")[0]) if name not in known]
    return {"prefix": found[0]} if stop.reason == "unbound prefix" and found else None


_ENCODING = "encoding"
_OF_ENCODINGS = ("ERR_UNSUPPORTED_ENCODING",)

_OF_THE_TEXT: Final[Mapping[str, tuple[str, Callable[[_Stop], Details | None]]]] = {
    "ERR_TAG_NAME_MISMATCH": (
        mark("Element <{element}>, opened on line {line}, is closed by </{closed}>; expected </{element}>."),
        _mismatch,
    ),
    "ERR_UNDECLARED_ENTITY": (
        mark('The entity "&{entity_name};" is not known; write the character itself, or its number as in "&#181;".'),
        _entity,
    ),
    "ERR_ATTRIBUTE_REDEFINED": (
        mark('The attribute "{attribute}" is given twice. Remove one of them.'),
        _attribute,
    ),
    "NS_ERR_UNDEFINED_NAMESPACE": (
        mark('The namespace prefix "{prefix}" is not declared. Declare it, or remove it.'),
        _prefix,
    ),
}
"""Messages for libxml2's codes, with names from the document."""

_FIXED: Final[Mapping[str, str]] = {
    "ERR_TAG_NOT_FINISHED": _CUT_OFF,
    "ERR_DOCUMENT_EMPTY": mark("The file is not XML: it does not begin with a tag. Export the document again."),
    "ERR_NAME_REQUIRED": mark('A bare "&" is not permitted; write "&amp;" instead.'),
    "ERR_ENTITYREF_SEMICOL_MISSING": mark('An "&" begins no entity here; write "&amp;" instead.'),
    "ERR_INVALID_CHAR": mark("A control character is not permitted here, nor is any that XML cannot hold. Remove it."),
    "ERR_INVALID_ENCODING": mark(
        "The bytes here are not in the encoding that the document announces (UTF-8 if none). Save it as UTF-8."
    ),
    "ERR_UNSUPPORTED_ENCODING": mark("The encoding of the document is not known. Save it as UTF-8."),
    "ERR_DOCUMENT_END": mark("Something follows the end of the root element. Remove it."),
    "ERR_LT_IN_ATTRIBUTE": mark('A bare "<" is not permitted in the value of an attribute; write "&lt;" instead.'),
    "ERR_RESERVED_XML_NAME": mark("The XML declaration must come first in the file. Remove everything before it."),
    "ERR_RESOURCE_LIMIT": _TOO_LONG,
    "ERR_NAME_TOO_LONG": _TOO_LONG,
}
"""Messages for libxml2's codes without names."""
