"""What is looked at before any other parser sees a document: its beginning, and the length of its tags.

The beginning is its encoding, document type declaration and root element: so no declaration of entities takes effect.
One tag with a million attributes costs a gigabyte and many seconds. A tag contains no other `<` (XML 1.0, 2.3 and 3.1),
so only the text after the last one in a chunk can be long.
"""

from __future__ import annotations

import codecs
import pyexpat
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LONGEST_TOKEN = 10_000_000
"""The most bytes of one tag, comment or text; libxml2 refuses longer ones as well."""


@dataclass(frozen=True, slots=True)
class Root:
    """The root element and the place of its tag; line and column count from 1."""

    namespace: str
    name: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Doctype:
    """A document type declaration and its place; line and column count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class UnreadableProlog:
    """Why no root element was found; `encoding` is the declared one if that is the reason."""

    reason: str
    line: int
    column: int
    encoding: str | None = None


class _FoundError(Exception):
    pass


def read_prolog(chunks: Iterable[bytes]) -> Root | Doctype | UnreadableProlog:
    """Read the beginning of a document, up to its root element's tag."""
    parser = pyexpat.ParserCreate(namespace_separator=" ")
    declared: list[str | None] = [None]
    found: list[Root | Doctype] = []

    def place() -> tuple[int, int]:
        return parser.CurrentLineNumber, parser.CurrentColumnNumber + 1

    def on_declaration(_version: str, encoding: str | None, _standalone: int) -> None:
        declared[0] = encoding
        if encoding is not None and not _keeps_ascii(encoding):
            raise LookupError(encoding)

    def on_doctype() -> None:
        found.append(Doctype(*place()))
        raise _FoundError

    def on_other(markup: str) -> None:
        if markup.startswith("<!DOCTYPE"):
            on_doctype()

    def on_start(name: str, _attributes: object) -> None:
        namespace, _, local = name.rpartition(" ")
        found.append(Root(namespace, local, *place()))
        raise _FoundError

    parser.XmlDeclHandler = on_declaration
    parser.DefaultHandler = on_other
    parser.EndDoctypeDeclHandler = on_doctype
    parser.StartElementHandler = on_start
    try:
        fed = 0
        for chunk in chunks:
            fed += len(chunk)
            parser.Parse(chunk, False)
            if fed - max(parser.CurrentByteIndex, 0) > LONGEST_TOKEN:
                return UnreadableProlog("a tag or comment does not end", *place())
        parser.Parse(b"", True)
    except _FoundError:
        return found[0]
    except pyexpat.ExpatError as error:
        reason = pyexpat.ErrorString(error.code) or "not well-formed"
        return UnreadableProlog(reason, error.lineno, error.offset + 1)
    except (LookupError, ValueError):
        return UnreadableProlog("unknown encoding", 1, 1, declared[0] or "?")
    return UnreadableProlog("no element found", *place())


def _keeps_ascii(encoding: str) -> bool:
    """Whether markup has the same bytes as in ASCII, or it is UTF-16: parsers may differ on other encodings."""
    name = codecs.lookup(encoding).name
    if name.startswith("utf-16"):
        return True
    return "escape" not in name and bytes(range(128)).decode(name) == "".join(map(chr, range(128)))


LONGEST_TAG = 256 * 1024
"""The most bytes of one tag, with its attributes."""

_UTF_16 = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"<\0": "utf-16-le", b"\0<": "utf-16-be"}
_NO_TAG = (b"!", b"?", b"/")
_QUOTE_OR_END = re.compile(rb"[\"'>]")


class TagTooLongError(Exception):
    """A tag is too long. `start` is about the document's byte at which it begins."""

    def __init__(self, start: int) -> None:
        super().__init__(start)
        self.start = start


def with_short_tags(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the chunks unchanged. Raises TagTooLongError instead of the chunk in which a tag becomes too long."""
    base = 0
    tag: _Tag | None = None
    decoder: codecs.IncrementalDecoder | None = None
    for chunk in chunks:
        if base == 0 and chunk[:2] in _UTF_16:
            decoder = codecs.getincrementaldecoder(_UTF_16[chunk[:2]])("replace")
        text = chunk if decoder is None else decoder.decode(chunk).encode("utf-8", "replace")
        if tag is not None and not tag.goes_on(text):
            tag = None
        last = text.rfind(b"<")
        if last >= 0:
            tag = _Tag(base + last)
            if not tag.goes_on(text[last + 1 :]):
                tag = None
        if tag is not None and tag.length > LONGEST_TAG:
            raise TagTooLongError(tag.start)
        yield chunk
        base += len(chunk)


class _Tag:
    def __init__(self, start: int) -> None:
        self.start = start
        self.length = 0
        self._quote = b""

    def goes_on(self, text: bytes) -> bool:
        """Read on; False if the tag ends there, or is no tag."""
        if self.length == 0 and text[:1] in _NO_TAG:
            return False
        self.length += len(text)
        position = 0
        while True:
            if self._quote:
                end = text.find(self._quote, position)
                if end < 0:
                    return b"<" not in text
                self._quote, position = b"", end + 1
            found = _QUOTE_OR_END.search(text, position)
            if found is None:
                return b"<" not in text
            if found[0] == b">":
                return False
            self._quote, position = found[0], found.end()
