"""Texts in the lines of a terminal: how wide they are there, and where they are broken."""

from __future__ import annotations

import re
from typing import Final

_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")
_PIECE: Final = re.compile(f"{_STYLE.pattern}|.", re.DOTALL)


def cell_width(text: str) -> int:
    """How many cells of a terminal a text takes: some characters take two, others and styles none."""
    if "\x1b" in text:
        text = _STYLE.sub("", text)
    if text.isascii():
        return len(text)
    # Few texts need it, and each command would import it.
    from unicodedata import category, east_asian_width

    return sum(2 if east_asian_width(one) in "WF" else 1 for one in text if category(one) not in ("Mn", "Me", "Cf"))


def wrapped(text: str, width: int, indent: str = "", *, break_words: bool = True) -> list[str]:
    """A text in lines of at most so many cells, broken at blanks; all lines but the first begin with `indent`.

    Words that are longer than a line are broken, or whole on a line of their own.
    """
    if cell_width(text) <= width:
        return [text.rstrip()]
    body = text.lstrip(" ")
    lines: list[str] = []
    line, blank = text[: len(text) - len(body)], ""
    for word in body.split(" "):
        longer = f"{line}{blank}{word}"
        if blank and cell_width(longer) > width:
            lines.append(line)
            longer = indent + word
        while break_words and width > len(indent) and (fitting := _fitting(longer, width)) < len(longer):
            fitting = max(len(indent) + 1, fitting)
            lines.append(longer[:fitting])
            longer = indent + longer[fitting:]
        line, blank = longer, " "
    return [each.rstrip() for each in (*lines, line)]


def _fitting(text: str, width: int) -> int:
    """How many characters of a text fit into so many cells; styles stay whole."""
    if text.isascii() and "\x1b" not in text:
        return min(len(text), width)
    fitting = 0
    for piece in _PIECE.finditer(text):
        width -= cell_width(piece[0])
        if width < 0:
            break
        fitting = piece.end()
    return fitting
