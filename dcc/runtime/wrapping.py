"""Texts in the lines of a terminal: how wide they are there, and where they are broken."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")


def cell_width(text: str) -> int:
    """How many cells of a terminal a text takes: some characters take two, others and styles none."""
    if "\x1b" in text:
        text = _STYLE.sub("", text)
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def wrapped(text: str, width: int, indent: str = "", *, break_words: bool = True) -> list[str]:
    """A text in lines of at most so many cells, broken at blanks; all lines but the first begin with `indent`.

    Words that are longer than a line are broken, or whole on a line of their own.
    """
    body = text.lstrip(" ")
    lines: list[str] = []
    line, blank = text[: len(text) - len(body)], ""
    for word in body.split(" "):
        longer = f"{line}{blank}{word}"
        if blank and cell_width(longer) > width:
            lines.append(line)
            longer = indent + word
        while break_words and cell_width(longer) > width > len(indent):
            fitting = max(len(indent) + 1, _fitting(longer, width))
            lines.append(longer[:fitting])
            longer = indent + longer[fitting:]
        line, blank = longer, " "
    return [each.rstrip() for each in (*lines, line)]


def _fitting(text: str, width: int) -> int:
    """How many characters of a text fit into so many cells."""
    return next((number for number in range(len(text), 0, -1) if cell_width(text[:number]) <= width), 0)
