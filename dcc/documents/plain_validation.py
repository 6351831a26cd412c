"""The quick yes to a document that is valid: libxml2 validates the tags as they come, and no tree is built.

What says no here, or cannot say, is decided by `validation` with a tree. With a tree libxml2 also refuses names with
prefixes that are not declared, texts of ten million bytes and elements nested more than 256 deep; without one, lxml 6.1
tells of none of these (held by tests). So only a document whose markup is plain is validated so: tags without
prefixes, no comments, no processing instructions, no CDATA sections; against a schema that is plain too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lxml import etree

from dcc.documents.prolog import LONGEST_TOKEN

_WINDOW = 256
"""Bytes on either side of a colon that are looked at: what is longer counts as not plain."""
_MOST_COLONS = 4_096
_LONGEST_TEXT = LONGEST_TOKEN // 2
_ROOT = re.compile(
    rb"""
    (?:\xef\xbb\xbf)?
    (?:<\?xml(?:(?![^<>?]*encoding)|[^<>?]*?encoding\s*=\s*["'](?i:utf-8|us-ascii|iso-8859-[0-9]+|windows-125[0-9])["'])
    [^<>?]*\?>)?
    \s*
    <[A-Za-z]+(?:\s+(?:(?:xmlns|xsi):)?[A-Za-z]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'))*\s*>
    """,
    re.VERBOSE,
)
"""A document's beginning, up to the end of the tag of its root element."""
_VALUE_BEGINS = re.compile(rb"[=>\"'][^\s<]*\Z")
_NEAR = 32
_NO_NAME = re.compile(rb"[=>\"']|\A[0-9]")
_NAME_AFTER = re.compile(rb"[^\s=<>\"']*\s*(?:=|\Z)")


class _NotPlainError(Exception):
    """Without a tree it cannot be said whether the document is valid."""


class _NoTree:
    """A target that takes no event, so that lxml has libxml2 build no tree."""

    def close(self) -> None:
        """The document ends."""


def is_plainly_valid(chunks: Iterable[bytes], schema: etree.XMLSchema) -> bool:
    """Whether a document given in chunks is well-formed and follows the schema; False when only a tree can tell.

    The document's prolog has been read: it has no document type declaration, and the namespaces of its root element are
    in order. Memory does not grow with the document, whose tags have a longest length.
    """
    parser = etree.XMLParser(schema=schema, target=_NoTree(), no_network=True)  # type: ignore[arg-type]
    try:
        for chunk in _plain(chunks):
            parser.feed(chunk)
            if len(parser.feed_error_log):
                return False
        parser.close()
    except (_NotPlainError, etree.XMLSyntaxError):
        return False
    return not len(parser.feed_error_log)


def _plain(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks as they are. Raises _NotPlainError once something that is not plain has come."""
    around, looked_at, text = b"", 0, 0
    for number, chunk in enumerate(chunks):
        yield chunk
        last = chunk.rfind(b"<")
        text = text + len(chunk) if last < 0 else len(chunk) - last
        if text > _LONGEST_TEXT:
            raise _NotPlainError
        around += _after_root(chunk) if number == 0 else chunk
        end = max(len(around) - _WINDOW, looked_at)
        _require_plain(around, looked_at, end)
        kept = around[-2 * _WINDOW :]
        around, looked_at = kept, end - (len(around) - len(kept))
    _require_plain(around, looked_at, len(around))


def _after_root(chunk: bytes) -> bytes:
    """What follows the root element's tag in a document's first chunk."""
    root = _ROOT.match(chunk)
    if root is None:
        raise _NotPlainError
    return chunk[root.end() :]


def _require_plain(text: bytes, begin: int, end: int) -> None:
    """Look at all markup of a text, and at its colons between two places. Raises _NotPlainError."""
    # To look for one byte takes a tenth of the time of looking for two.
    if (b"!" in text and b"<!" in text) or (b"?" in text and b"<?" in text):
        raise _NotPlainError
    place = text.find(b":", begin, end)
    colons = 0
    while place >= 0:
        colons += 1
        if colons > _MOST_COLONS or _may_end_prefix(text, place):
            raise _NotPlainError
        place = text.find(b":", place + 1, end)


def _may_end_prefix(text: bytes, place: int) -> bool:
    """Whether a colon may be that of a prefixed name, or of a namespace that is declared."""
    before = text[max(place - _WINDOW, 0) : place]
    if b"xmlns" in before:
        return True
    # Nearly all stand in values, not far behind the quotation mark: "MGI:2159777", "2013-10-31T09:30:00".
    if _VALUE_BEGINS.search(before, len(before) - _NEAR):
        return False
    _, tag, after = before.rpartition(b"<")
    words = after.split()
    if len(words) < 2 and not tag and not after[:1].isspace():
        return True
    name = b"" if after[-1:].isspace() or not words else words[-1]
    if _NO_NAME.search(name):
        return False
    names_element = bool(tag) and after == name
    return names_element or _NAME_AFTER.match(text[place + 1 : place + 1 + _WINDOW]) is not None
