"""Compares what two documents say, entity by entity: lines, white space and the order of attributes do not count."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final

from dcc.documents.contents import Block, Content, Experiment, Housing, Line, Specimen
from dcc.documents.writing_xml import content_lines
from dcc.naming import DocumentKind

_ORDER: Final[dict[type, int]] = {Block: 0, Specimen: 1, Housing: 2, Line: 3, Experiment: 4}
_KEY: Final = itemgetter(0)
_Keyed = tuple[tuple[int, int, int], int, Content]
"""The place of content in its document, the number of the document, and the content."""


def differences(kind: DocumentKind, before: Iterable[Content], after: Iterable[Content]) -> Iterator[str]:
    """The lines that differ, as `diff` shows them; those of an entity follow a line with its place in `before`.

    Both as `read_document` yields them. One entity of each is in memory at a time. Nothing if they say the same.
    """
    merged = heapq.merge(_keyed(before, 0), _keyed(after, 1), key=_KEY)
    for _, same in groupby(merged, key=_KEY):
        found = {document: content for _, document, content in same}
        yield from _difference(kind, found.get(0), found.get(1))


def _keyed(contents: Iterable[Content], document: int) -> Iterator[_Keyed]:
    blocks = 0
    for content in contents:
        blocks += isinstance(content, Block)
        position = 0 if isinstance(content, Block) else content.position
        yield (blocks, _ORDER[type(content)], position), document, content


def _difference(kind: DocumentKind, before: Content | None, after: Content | None) -> Iterator[str]:
    old, new = ([] if one is None else content_lines(kind, one) for one in (before, after))
    if old == new:
        return
    yield "only rebuilt:" if before is None else f"line {before.line}:"
    for number, line in enumerate(difflib.unified_diff(old, new, n=1, lineterm="")):
        if number > 1 and not line.startswith("@@"):
            yield line
