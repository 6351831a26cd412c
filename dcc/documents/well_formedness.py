"""Where and why a document is not well-formed XML: the parsers' words put so that a centre understands them."""

from __future__ import annotations

import pyexpat
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lxml import etree

from dcc.documents.messages import quoted
from dcc.documents.prolog import LONGEST_TOKEN
from dcc.documents.streaming import NoElementError, Pruned
from dcc.messages import Message, mark, message

Chunks = Callable[[], Iterator[bytes]]
"""Gives the document anew, from its beginning, each time it is called."""

_CUT_OFF = mark("The document ends in the middle: it was cut off, or end tags are missing. Export it again.")
_TOO_LONG = mark("A single text, tag, comment or name is longer than 10,000,000 bytes, which is refused.")
_TOO_BIG = re.compile(r"\btoo (?:big|long)\b")
_WRONG_ENCODING = "encoding specified in XML declaration is incorrect"
_UNFINISHED = {"no element found", "unclosed token", "unclosed CDATA section", "partial character"}


@dataclass(frozen=True, slots=True)
class Fault:
    """Why the document cannot be read any further; line and column count from 1."""

    said: Message
    line: int
    column: int
    case: str = ""


def find_fault(chunks: Chunks, root_tag: str) -> Fault | None:
    """The first place where the document is not well-formed, or goes beyond what a parser takes; None if there is none.

    Reads the document in flat memory, whatever its size.
    """
    try:
        error = _parser_fault(chunks(), root_tag)
    except NoElementError as stuck:
        return Fault(message(_TOO_LONG), *place_of(chunks(), stuck.since))
    if error is None:
        return None
    code, words, line, column = error
    reason, place = _position(chunks())
    cut_off = reason in _UNFINISHED and code != "ERR_DOCUMENT_EMPTY"
    said = message(_CUT_OFF) if cut_off else explain_fault(code, words)
    case = _ENCODING if code in _OF_ENCODINGS and not cut_off else ""
    if reason == _WRONG_ENCODING:
        case = _ENCODING
        said = message(
            mark("The encoding that the XML declaration names is not the file's. Save the document as UTF-8.")
        )
    if place is not None and code != "ERR_RESOURCE_LIMIT":
        line, column = place
    return Fault(said, max(line, 1), max(column, 1), case)


def _parser_fault(chunks: Iterable[bytes], root_tag: str) -> tuple[str, str, int, int] | None:
    parser = Pruned(root_tag, None)
    try:
        for chunk in chunks:
            parser.feed(chunk)
            parser.prune()
        parser.close()
    except etree.XMLSyntaxError as error:
        parser.count_errors()
        for entry in parser.log:
            if entry.level >= etree.ErrorLevels.ERROR:
                return entry.type_name, entry.message, entry.line, entry.column
        line, column = error.position
        return "", error.msg or "", line or 1, column or 1
    return None


def _position(chunks: Iterable[bytes]) -> tuple[str, tuple[int, int] | None]:
    """What expat says and where, with the place of the tag or character at fault rather than the one after it."""
    parser = pyexpat.ParserCreate(namespace_separator=" ")
    fed = 0
    try:
        for chunk in chunks:
            fed += len(chunk)
            parser.Parse(chunk, False)
            if fed - max(parser.CurrentByteIndex, 0) > LONGEST_TOKEN:
                return "", None
        parser.Parse(b"", True)
    except pyexpat.ExpatError as error:
        return pyexpat.ErrorString(error.code) or "", (error.lineno, error.offset + 1)
    return "", None


def place_of(chunks: Iterable[bytes], byte: int) -> tuple[int, int]:
    """Line and column, counted from 1, of what stands at a byte of the document."""
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


def explain_fault(code: str, words: str) -> Message:
    """An error of well-formedness, of which libxml2 gives a code and words, as a fact."""
    words = words.strip()
    if _TOO_BIG.search(words):
        return message(_TOO_LONG)
    for wanted, pattern, text in _SAYINGS:
        found = re.fullmatch(pattern, words, re.S) if code == wanted else None
        if found:
            return Message(text, found.groupdict())
    shown = words if len(words) <= 300 else f"{words[:297]}..."
    return message(
        mark("The document is not well-formed XML: {message}."),
        message=quoted(shown)[1:-1] if shown.isprintable() else quoted(shown),
    )


_ENCODING = "encoding"
_OF_ENCODINGS = ("ERR_UNSUPPORTED_ENCODING",)


_SAYINGS = (
    (
        "ERR_TAG_NAME_MISMATCH",
        r"Opening and ending tag mismatch: (?P<element>\S+) line (?P<line>\d+) and (?P<closed>\S+)",
        mark("Element <{element}>, opened on line {line}, is closed by </{closed}>; expected </{element}>."),
    ),
    ("ERR_TAG_NOT_FINISHED", r".*", _CUT_OFF),
    (
        "ERR_DOCUMENT_EMPTY",
        r".*",
        mark("The file is not XML: it does not begin with a tag. Export the document again."),
    ),
    (
        "ERR_NAME_REQUIRED",
        r"xmlParseEntityRef: no name",
        mark('A bare "&" is not permitted; write "&amp;" instead.'),
    ),
    ("ERR_ENTITYREF_SEMICOL_MISSING", r".*", mark('An "&" begins no entity here; write "&amp;" instead.')),
    (
        "ERR_UNDECLARED_ENTITY",
        r"Entity '(?P<entity_name>\S+)' not defined",
        mark('The entity "&{entity_name};" is not known; write the character itself, or its number as in "&#181;".'),
    ),
    (
        "ERR_INVALID_CHAR",
        r".*",
        mark("A control character is not permitted here, nor is any that XML cannot hold. Remove it."),
    ),
    (
        "ERR_INVALID_ENCODING",
        r".*",
        mark("The bytes here are not in the encoding that the document announces (UTF-8 if none). Save it as UTF-8."),
    ),
    (
        "ERR_UNSUPPORTED_ENCODING",
        r"Unsupported encoding: (?P<encoding>.*)",
        mark("The encoding {encoding} is not known. Save the document as UTF-8."),
    ),
    ("ERR_DOCUMENT_END", r".*", mark("There is something after the end of the root element. Remove it.")),
    (
        "ERR_ATTRIBUTE_REDEFINED",
        r"Attribute (?P<attribute>\S+) redefined",
        mark('The attribute "{attribute}" is given twice. Remove one of them.'),
    ),
    (
        "NS_ERR_UNDEFINED_NAMESPACE",
        r"Namespace prefix (?P<prefix>\S+) .*",
        mark('The namespace prefix "{prefix}" is not declared. Declare it, or remove it.'),
    ),
    (
        "ERR_LT_IN_ATTRIBUTE",
        r".*",
        mark('A bare "<" is not permitted in the value of an attribute; write "&lt;" instead.'),
    ),
    (
        "ERR_RESERVED_XML_NAME",
        r".*",
        mark("The XML declaration must be the very first thing in the file. Remove what stands before it."),
    ),
    (
        "ERR_RESOURCE_LIMIT",
        r"Excessive depth.*",
        mark("Elements are nested more than 256 deep, which no document of the exchange format is."),
    ),
    (
        "ERR_RESOURCE_LIMIT",
        r".*",
        _TOO_LONG,
    ),
)
