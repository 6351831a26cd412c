"""The beginning of a document: encoding, document type declaration, root element.

It is read before any other parser sees the document, so that no declaration of entities takes effect.
"""

from __future__ import annotations

import codecs
import pyexpat
from collections.abc import Iterable
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
class Unreadable:
    """Why no root element was found; `encoding` is the declared one if that is the reason."""

    reason: str
    line: int
    column: int
    encoding: str | None = None


class _FoundError(Exception):
    pass


def read_prolog(chunks: Iterable[bytes]) -> Root | Doctype | Unreadable:
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
                return Unreadable("a tag or comment does not end", *place())
        parser.Parse(b"", True)
    except _FoundError:
        return found[0]
    except pyexpat.ExpatError as error:
        reason = pyexpat.ErrorString(error.code) or "not well-formed"
        return Unreadable(reason, error.lineno, error.offset + 1)
    except (LookupError, ValueError):
        return Unreadable("unknown encoding", 1, 1, declared[0] or "?")
    return Unreadable("no element found", *place())


def _keeps_ascii(encoding: str) -> bool:
    """Whether markup has the same bytes as in ASCII, or it is UTF-16: parsers may differ on other encodings."""
    name = codecs.lookup(encoding).name
    if name.startswith("utf-16"):
        return True
    return "escape" not in name and bytes(range(128)).decode(name) == "".join(map(chr, range(128)))
