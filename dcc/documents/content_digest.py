"""A digest of what a document says: the same for documents that differ only in what says nothing.

That is white space between elements, in tags and around typed values; the order of attributes; comments; prefixes of
the namespace; lines. Texts and identifiers count exactly, and so does the order of elements.
"""

from __future__ import annotations

import json
import re
from hashlib import blake2b
from typing import Final

from dcc.documents.contents import Content

# No text of JSON holds the separator: a list that begins with a number is the tuple of an element, which has its line.
_ENCODE: Final = json.JSONEncoder(separators=("\0", ":"), check_circular=False).encode
_LINES: Final = re.compile(r"\[[0-9]+\0")


class ContentDigest:
    """Takes what a document says, in its order; holds it until it is flushed."""

    def __init__(self) -> None:
        self._digest = blake2b(digest_size=16)
        self._held: list[Content] = []
        self.take = self._held.append
        """Takes what comes next in the document."""

    def flush(self) -> None:
        """Let go of all it holds."""
        if self._held:
            self._digest.update(f"{_LINES.sub('[', _ENCODE(self._held))[1:-1]}\0".encode())
            self._held.clear()

    def hexdigest(self) -> str:
        """The digest of everything taken, 32 hexadecimal digits."""
        self.flush()
        return self._digest.hexdigest()
