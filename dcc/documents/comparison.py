"""Compares what two documents say, entity by entity: lines, white space and the order of attributes do not count."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Final

from dcc.documents.contents import Block, Content, Experiment, Housing, Line, Specimen
from dcc.documents.writing_xml import content_lines
from dcc.naming import DocumentKind

_ORDER: Final[dict[type, int]] = {Block: 0, Specimen: 1, Housing: 2, Line: 3, Experiment: 4}
_END: Final = (float("inf"), 0, 0)


_Key = tuple[float, int, int]


def differences(kind: DocumentKind, before: Iterable[Content], after: Iterable[Content]) -> Iterator[str]:
    """The lines that differ, as `diff` shows them; those of an entity follow a line with its place in `before`.

    Both as `read_document` yields them. One entity of each is in memory at a time. Nothing if they say the same.
    """
    ours, theirs = _keyed(before), _keyed(after)
    here, there = next(ours, (_END, None)), next(theirs, (_END, None))
    while here[1] is not None or there[1] is not None:
        first = min(here[0], there[0])
        own = here[1] if here[0] == first else None
        other = there[1] if there[0] == first else None
        yield from _difference(kind, own, other)
        if own is not None:
            here = next(ours, (_END, None))
        if other is not None:
            there = next(theirs, (_END, None))


def _keyed(contents: Iterable[Content]) -> Iterator[tuple[_Key, Content | None]]:
    blocks = 0
    for content in contents:
        blocks += isinstance(content, Block)
        yield (blocks, _ORDER[type(content)], 0 if isinstance(content, Block) else content.position), content


def _difference(kind: DocumentKind, before: Content | None, after: Content | None) -> Iterator[str]:
    old, new = ([] if one is None else content_lines(kind, one) for one in (before, after))
    if old == new:
        return
    yield "only rebuilt:" if before is None else f"line {before.line}:"
    for number, line in enumerate(difflib.unified_diff(old, new, n=1, lineterm="")):
        if number > 1 and not line.startswith("@@"):
            yield line
