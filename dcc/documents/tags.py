"""Limits the length of tags in documents: one tag with a million attributes costs a gigabyte and many seconds.

A tag contains no other `<` (XML 1.0, 2.3 and 3.1), so only the text after the last one in a chunk can be long.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator

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
    """An open tag."""

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
