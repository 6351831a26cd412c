"""What a document says plainly, taken by a regular expression: half the time that a parser's calls of functions take.

Parameters and metadata with a value, and values of series, are most of a document. They are cut out of its text; in
their place, for all that follow each other, comes one processing instruction, and as many ends of lines as there were.
A parser reads the rest (`reading`), and tells whether they may stand where that is. Elements that are written another
way, with other attributes or in another order, are left to the parser.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, Final, NamedTuple

from dcc.documents.contents import Metadata, SeriesValue, SimpleParameter

_DECLARATION: Final = re.compile(
    r"""<\?xml version="1\.0"(?: encoding="(?:UTF-8|utf-8)")?(?: standalone="(?:yes|no)")?[ \t\n]*\?>"""
)
# No references, nothing that a parser would make something else of, and nothing that is no character of XML.
_TEXT: Final = r"([^<>&\x00-\x08\x0b-\x1f]*+)"
_ATTRIBUTE: Final = r'"([^"<>&\x00-\x1f]*+)"'
_NUMBER: Final = r'"(-?[0-9]++)"'
_SPACE: Final = r"[ \t\n]*+"
_PLAIN: Final = re.compile(
    rf"<(?:(simpleParameter|procedureMetadata) parameterID={_ATTRIBUTE}"
    rf"(?: sequenceID={_NUMBER})?+(?: unit={_ATTRIBUTE})?+ ?+>{_SPACE}<value>{_TEXT}</value>{_SPACE}</\1"
    rf"|value incrementValue={_ATTRIBUTE}(?: incrementStatus={_ATTRIBUTE})?+ ?+>{_TEXT}</value)>{_SPACE}"
)
_NOT_CHARACTERS: Final = ("\ufffe", "\uffff")
_SERIES_VALUE: Final = "value"
_INSTRUCTION: Final = "<?cut?>"

Run = dict[str, list[Any]]
"""Objects of elements that follow each other, by the names of the elements."""


class Plain(NamedTuple):
    """The rest of a document's text, and what is to be put where the instructions are in it."""

    rest: str
    runs: list[Run]


def cut_out(data: bytes) -> Plain | None:
    """Take out of a document what it says plainly; None if it has markup, or an encoding, that is not plain."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    declaration = _DECLARATION.match(text)
    instructions = 0 if declaration is None else 1
    if "\r" in text or "<!" in text or text.count("<?") != instructions:
        return None
    if not text.isascii() and any(one in text for one in _NOT_CHARACTERS):
        return None
    return _cut(text)


def _cut(text: str) -> Plain | None:
    pieces: list[str] = []
    runs: list[Run] = []
    run: Run = {}
    new, count = tuple.__new__, text.count
    line = begins = 1
    at = 0
    for found in _PLAIN.finditer(text):
        start, end = found.span()
        if start != at or not runs:
            pieces += ("\n" * (line - begins), text[at:start], _INSTRUCTION)
            begins = line = line + count("\n", at, start)
            run = defaultdict(list)
            runs.append(run)
        kind, name, sequence, unit, value, increment, status, of_series = found.groups()
        if kind is None:
            run[_SERIES_VALUE].append(new(SeriesValue, (line, increment, status, of_series)))
        elif kind == "simpleParameter":
            run[kind].append(new(SimpleParameter, (line, name, sequence, unit, value, None)))
        elif unit is not None:
            return None
        else:
            run[kind].append(new(Metadata, (line, name, sequence, None, value)))
        line += count("\n", start, end)
        at = end
    pieces += ("\n" * (line - begins), text[at:])
    return Plain("".join(pieces), runs)
