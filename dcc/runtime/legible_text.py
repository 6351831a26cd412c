"""Texts that are shown: made safe, so that nothing in them controls a terminal, and broken into lines for one."""

from __future__ import annotations

import re
from typing import Final

UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
"""Control characters, including those that change the writing direction, and invisible characters."""


def legible(text: str) -> str:
    """The text with `\\xNN` or `\\uNNNN` in place of each character that would be invisible."""
    return UNSEEN.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def legible_json(text: str) -> str:
    """The same for a JSON document without changing values: only its strings have such characters."""
    return UNSEEN.sub(_escaped_in_json, text)


def _escaped_in_json(found: re.Match[str]) -> str:
    character = found.group()
    if character in "\t\n\r":
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


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
